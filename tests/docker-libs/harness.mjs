// An engine for a test file, with an image of busybox: rind on scratch directories, or the one that RIND_TEST_DOCKER_SOCKET names
// (a real dockerd, for comparison).
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test as nodeTest } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Engine as WorkerdEngine, makeRoot, pack } from '../workerd/harness.mjs';

const HERE = dirname(fileURLToPath(import.meta.url));
export const IMAGE = 'rind-test/box:1';
const APPLETS = 'sh cat echo sleep ls id mkdir tar true false env pwd hostname grep awk wget httpd nc touch';

/** Whether `npm ci` has brought the packages. */
export const available = existsSync(join(HERE, 'node_modules/.installed'));

export class Engine extends WorkerdEngine {
  async start() {
    await super.start();
    await this.loadMade((dir) => pack(dir, makeRoot(dir, APPLETS), IMAGE, { Env: ['PATH=/bin'], Cmd: ['sh'], WorkingDir: '/' }));
    return this;
  }
}

export function test(name, fn) {
  assert.equal(typeof fn, 'function', `${name}: what node:test gets instead of a function passes`);
  nodeTest(name, { skip: available ? false : 'the packages are not installed (npm ci in tests/docker-libs)', timeout: 120_000 }, fn);
}

/** All bytes of a stream as text. */
export async function text(stream) {
  let all = '';
  for await (const d of stream) all += d;
  return all;
}
