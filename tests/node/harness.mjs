// A `rind serve` of a test file's own: scratch directories, its own socket, ended with everything that it made.
//
//     const d = await daemon();            // started; stopped, checked and removed after the file's last test
//     const rind = d.client();
import '../isolate.mjs';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, openSync, closeSync, readFileSync, rmSync } from 'node:fs';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Rind } from '../../clients/node/dist/index.mjs';

export const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..');
export const RIND = process.env.RIND_BIN ?? join(ROOT, 'build/rind');
const READY_MS = 180_000; // the first start unpacks a root file system and compiles filters
const STOP_MS = 120_000;

/** Waits for a condition, and says what it was about when it does not come. */
export async function until(condition, what, ms = 120_000) {
  const deadline = Date.now() + ms;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < deadline, `not within ${ms} ms: ${what}`);
    await sleep(10);
  }
}

/** Whether a daemon answers. */
function answers(socket) {
  return new Promise((resolve) => {
    const req = get({ socketPath: socket, path: '/v1/health', agent: false }, (res) => {
      res.resume();
      res.on('end', () => resolve(res.statusCode === 200)).on('error', () => resolve(false));
    });
    req.on('error', () => resolve(false));
  });
}

export class Daemon {
  constructor() {
    this.dir = mkdtempSync(join(tmpdir(), 'rind-node-'));
    this.socket = join(this.dir, 'rind.sock');
    this.state = join(this.dir, 'state');
    this.runtime = join(this.dir, 'run');
    this.log = join(this.dir, 'serve.log');
    this.clients = [];
  }

  /** Starts it (again) and waits until it listens. */
  async start(...options) {
    const log = openSync(this.log, 'a');
    this.child = spawn(
      RIND,
      ['--state', this.state, '--runtime', this.runtime, 'serve', '--socket', this.socket, ...options],
      {
        stdio: ['ignore', log, log],
        env: { PATH: process.env.PATH, RIND_CANARY: 'of-the-host' },
      },
    );
    closeSync(log);
    this.exited = new Promise((resolve) => this.child.once('exit', (code, signal) => resolve(signal ?? code)));
    let gone;
    void this.exited.then((status) => (gone = status));
    await until(
      async () => {
        assert.equal(gone, undefined, `the daemon ended with ${gone}: ${this.text()}`);
        return answers(this.socket);
      },
      `a daemon that listens; its log: ${this.text()}`,
      READY_MS,
    );
    return this;
  }

  text() {
    return existsSync(this.log) ? readFileSync(this.log, 'utf8').slice(-2000) : '';
  }

  /** A client that is closed with the daemon. */
  client(options = {}) {
    const client = new Rind({ socket: this.socket, ...options });
    this.clients.push(client);
    return client;
  }

  /** SIGTERM; it must end cleanly. Sandboxes go on. */
  async stop() {
    this.child.kill('SIGTERM');
    const status = await Promise.race([this.exited, sleep(STOP_MS, 'late', { ref: false })]);
    if (status === 'late') this.child.kill('SIGKILL');
    assert.equal(status, 0, `how the daemon ended; its log: ${this.text()}`);
  }

  /** SIGKILL. Its supervisor ends a moment later, and must not be taken for the next one's. */
  async kill() {
    this.child.kill('SIGKILL');
    await this.exited;
    await until(async () => !(await answers(this.socket)), 'the end of the supervisor');
  }

  /** Removes every sandbox, stops, and removes the directories. */
  async end() {
    const client = new Rind({ socket: this.socket });
    const signal = AbortSignal.timeout(STOP_MS);
    try {
      for (const box of await client.listSandboxes({ signal }))
        await client.deleteSandbox(box.id, { force: true, signal });
      for (const one of [...this.clients, client]) one.close();
      await this.stop();
    } finally {
      this.child.kill('SIGKILL'); // so that no failure leaves one behind, and the tests waiting for it
    }
    assert.ok(!this.text().includes('handles are left open'), this.text());
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** A daemon for all tests of a file. */
export async function daemon(...options) {
  const d = new Daemon();
  await d.start(...options);
  after(() => d.end());
  return d;
}

/** The bytes of a stream, as text. */
export async function textOf(stream) {
  const parts = [];
  for await (const part of stream) parts.push(typeof part === 'string' ? Buffer.from(part) : part);
  return Buffer.concat(parts).toString('utf8');
}

export async function collect(stream) {
  const all = [];
  for await (const one of stream) all.push(one);
  return all;
}

/** A SHA-256 of bytes or of a stream. */
export async function digest(source) {
  const { createHash } = await import('node:crypto');
  const hash = createHash('sha256');
  if (source instanceof Uint8Array) hash.update(source);
  else for await (const part of source) hash.update(part);
  return hash.digest('hex');
}

/** A web stream of what an iterable yields (ReadableStream.from is not everywhere yet). */
export function streamFrom(iterable) {
  const source = iterable[Symbol.asyncIterator]?.() ?? iterable[Symbol.iterator]();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await source.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await source.return?.();
    },
  });
}
