// Streams of JSON events in the SDK's format: `data: {…}` and an empty line each.
import { ReadableStream } from 'node:stream/web';
import { serverEvents } from '../sse';

/** The events of a stream of the SDK. Leaving the loop, or the signal, cancels the stream. */
export async function* parseSSEStream<T>(stream: ReadableStream<Uint8Array>, signal?: AbortSignal): AsyncGenerator<T> {
  if (signal?.aborted) throw new Error('Operation was aborted');
  const events = serverEvents(stream);
  let abort: (() => void) | undefined;
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(new Error('Operation was aborted'));
    signal?.addEventListener('abort', abort, { once: true });
  });
  aborted.catch(() => undefined);
  try {
    for (;;) {
      const { done, value } = await Promise.race([events.next(), aborted]);
      if (done) return;
      if (value.data === '[DONE]') continue;
      try {
        yield JSON.parse(value.data) as T;
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error; // invalid JSON is skipped, like in the SDK
      }
    }
  } finally {
    if (abort) signal?.removeEventListener('abort', abort);
    // Not awaited: the generator may still wait for a read that the abort left behind.
    void events.return(undefined).catch(() => undefined);
  }
}

export async function* responseToAsyncIterable<T>(response: Response, signal?: AbortSignal): AsyncGenerator<T> {
  if (!response.ok) throw new Error(`Response not ok: ${response.status} ${response.statusText}`);
  if (!response.body) throw new Error('No response body');
  yield* parseSSEStream<T>(response.body as unknown as ReadableStream<Uint8Array>, signal);
}

/** Makes such a stream of events. `close` ends their source. */
export function eventStream<T>(
  events: AsyncGenerator<T>,
  close: () => void,
  serialize: (event: T) => string = JSON.stringify,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await events.next();
        if (done) controller.close();
        else controller.enqueue(encoder.encode(`data: ${serialize(value)}\n\n`));
      },
      cancel() {
        close();
        void events.return(undefined).catch(() => undefined);
      },
    },
    { highWaterMark: 0 },
  );
}

export function asyncIterableToSSEStream<T>(
  events: AsyncIterable<T>,
  options?: { signal?: AbortSignal; serialize?: (event: T) => string },
): ReadableStream<Uint8Array> {
  const generate = async function* () {
    for await (const event of events) {
      if (options?.signal?.aborted) return;
      yield event;
    }
  };
  return eventStream(generate(), () => undefined, options?.serialize);
}
