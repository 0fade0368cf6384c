// Server-sent events (the HTML standard's text/event-stream): reading and writing.
import type { ReadableStream } from 'node:stream/web';

/** One event of a stream. */
export interface ServerEvent {
  event: string;
  data: string;
  id: string | undefined;
}

const LINE_MAX = 64 << 20; // characters of one line: a frame of output is at most 16 MiB, more in base64

/** Collects lines into events. `feed` returns the completed ones. */
export class EventParser {
  private rest = '';
  private event = '';
  private data: string[] = [];
  private id: string | undefined;

  feed(text: string): ServerEvent[] {
    const found: ServerEvent[] = [];
    const lines = (this.rest + text).split('\n');
    this.rest = lines.pop() ?? '';
    if (this.rest.length > LINE_MAX) throw new RangeError(`an event's line of more than ${LINE_MAX} characters`);
    for (const line of lines) {
      const event = this.line(line.endsWith('\r') ? line.slice(0, -1) : line);
      if (event) found.push(event);
    }
    return found;
  }

  private line(line: string): ServerEvent | undefined {
    if (line === '') {
      const whole =
        this.data.length > 0 ? { event: this.event || 'message', data: this.data.join('\n'), id: this.id } : undefined;
      this.event = '';
      this.data = [];
      return whole;
    }
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (name === 'event') this.event = value;
    else if (name === 'data') this.data.push(value);
    else if (name === 'id') this.id = value;
    return undefined;
  }
}

/** The events of a body, until its end. Leaving the loop cancels the body. */
export async function* serverEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const parser = new EventParser();
  const decoder = new TextDecoder();
  for await (const part of body) yield* parser.feed(decoder.decode(part, { stream: true }));
}
