// What the suites of Node's test runner share: the images' name, streams to their end, waits with a deadline.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

export const IMAGE = 'alpine:latest';
export const LIMIT = { timeout: 60_000 };

/** All bytes of a stream as text. */
export async function text(stream) {
  const parts = [];
  for await (const d of stream) parts.push(Buffer.from(d));
  return Buffer.concat(parts).toString();
}

export async function until(condition, what, ms = 20_000) {
  for (const end = Date.now() + ms; ; await sleep(50)) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < end, `not within ${ms} ms: ${what}`);
  }
}

/** The body of a page, as soon as there is one. */
export async function page(url, ms = 20_000) {
  return until(async () => {
    try {
      return await (await fetch(url, { signal: AbortSignal.timeout(3000) })).text();
    } catch {
      return undefined;
    }
  }, url, ms);
}
