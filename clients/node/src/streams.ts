// Converts between Node's streams and web streams with back-pressure: at most HIGH_WATER bytes are buffered ahead of the
// reader.
import type { IncomingMessage } from 'node:http';
import type { Writable } from 'node:stream';
import { ByteLengthQueuingStrategy, ReadableStream } from 'node:stream/web';

export const HIGH_WATER = 1 << 18;

/** A plain Uint8Array over the same bytes: some of Buffer's methods behave differently. */
export function bytes(chunk: Uint8Array): Uint8Array {
  return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
}

/** A reply's body. `fail` wraps the error that broke the connection. `cancel` closes the connection, so that the daemon
 * stops sending. */
export function bodyStream(res: IncomingMessage, fail: (error: unknown) => Error): ReadableStream<Uint8Array> {
  let over = false;
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        res.pause();
        res.on('data', (chunk: Buffer) => {
          if (over) return;
          controller.enqueue(bytes(chunk));
          if ((controller.desiredSize ?? 0) <= 0) res.pause();
        });
        res.on('end', () => {
          if (over) return;
          over = true;
          controller.close();
        });
        const broken = (error?: unknown) => {
          if (over) return;
          over = true;
          controller.error(
            fail(
              error ?? Object.assign(new Error('the connection was closed within the reply'), { code: 'ECONNRESET' }),
            ),
          );
        };
        res.on('error', broken);
        res.on('close', () => broken());
      },
      pull() {
        res.resume();
      },
      cancel() {
        over = true;
        res.destroy();
      },
    },
    new ByteLengthQueuingStrategy({ highWaterMark: HIGH_WATER }),
  );
}

/** Reads a reply's body, at most `limit` bytes. */
export async function bodyBytes(stream: ReadableStream<Uint8Array>, limit: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of stream) {
    size += part.byteLength;
    if (size > limit) throw new RangeError(`a reply of more than ${limit} bytes`);
    parts.push(part);
  }
  return bytes(Buffer.concat(parts, size));
}

/** Resolves when the stream takes more, has ended, or is broken. */
export function drained(out: Writable): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      out.off('drain', done).off('close', done).off('error', done);
      resolve();
    };
    out.on('drain', done).on('close', done).on('error', done);
  });
}

/** Writes a web stream to the end and ends the writable. If that fails, the stream is cancelled with the reason. */
export async function pump(source: ReadableStream<Uint8Array | string>, out: Writable): Promise<void> {
  const reader = source.getReader();
  const encoder = new TextEncoder();
  for (;;) {
    if (out.destroyed || out.writableEnded) {
      await reader.cancel(new Error('the receiver has closed')).catch(() => undefined);
      return;
    }
    const { done, value } = await reader.read();
    if (done) {
      out.end();
      return;
    }
    if (!out.write(typeof value === 'string' ? encoder.encode(value) : value) && !out.destroyed) await drained(out);
  }
}

/** A stream of an async generator's values. `close` ends the generator's source, which may be waiting when the stream is
 * cancelled. */
export function streamOf<T>(source: AsyncGenerator<T>, close: () => void): ReadableStream<T> {
  return new ReadableStream<T>(
    {
      async pull(controller) {
        const { done, value } = await source.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel() {
        close();
        source.return(undefined).catch(() => undefined);
      },
    },
    { highWaterMark: 0 },
  );
}
