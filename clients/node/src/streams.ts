// Node's streams as web streams and back, with back-pressure: nobody buffers more than HIGH_WATER bytes ahead of who reads.
import type { IncomingMessage } from 'node:http';
import type { Writable } from 'node:stream';
import { ByteLengthQueuingStrategy, ReadableStream } from 'node:stream/web';

export const HIGH_WATER = 1 << 18;

/** A view of plain bytes: Buffer's own methods would differ from what a Uint8Array does. */
export function bytes(chunk: Uint8Array): Uint8Array {
  return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
}

/**
 * A reply's body. `fail` makes an error of what broke the connection. `cancel` closes the connection, which is how the daemon
 * learns that nobody wants the rest.
 */
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

/** All of a reply's body, at most `limit` bytes. */
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

/** Until the stream takes more, has ended, or is broken. */
export function drained(out: Writable): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      out.off('drain', done).off('close', done).off('error', done);
      resolve();
    };
    out.on('drain', done).on('close', done).on('error', done);
  });
}

/** Writes all of a web stream and ends the writable; where that breaks, the stream is cancelled with the reason. */
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

/** A stream of what an async generator yields. `close` ends the generator's source: it may be waiting for more when this is cancelled. */
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
