// A Docker engine and a workerd for a test file: rind on scratch directories, or the engine that RIND_TEST_DOCKER_SOCKET names
// (a real dockerd, for comparison); and the real workerd, unmodified, with a worker whose Durable Objects have containers.
import '../isolate.mjs';
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { closeSync, cpSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

export const HERE = dirname(fileURLToPath(import.meta.url));
export const ROOT = join(HERE, '../..');
export const RIND = process.env.RIND_BIN ?? join(ROOT, 'build/rind');
export const DOCKER_SOCKET = process.env.RIND_TEST_DOCKER_SOCKET; // of a real dockerd; "scratch": one of our own (dockerd.mjs)
export const IMAGE = 'rind-test/app:1';
export const STAND_IN = 'rind-test/sidecar:1'; // a sidecar that lets in, and intercepts nothing
export const TPROXY_SIDECAR = 'rind-test/tproxy:1'; // one that does the kernel's work itself
export const SIDECAR = process.env.MINIFLARE_CONTAINER_EGRESS_IMAGE ?? (DOCKER_SOCKET === 'scratch' ? STAND_IN : 'cloudflare/proxy-everything:3cb1195');
const READY_MS = 180_000;
const APPLETS = 'sh cat echo sleep ls id head mkdir rm cp ln stty true false env pwd tar seq kill grep cut wc sha256sum test printf';

export const WORKERD = process.env.RIND_TEST_WORKERD ?? join(HERE, 'node_modules/@cloudflare/workerd-linux-64/bin/workerd');

export async function until(condition, what, ms = 120_000) {
  const deadline = Date.now() + ms;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < deadline, `not within ${ms} ms: ${what}`);
    await sleep(10);
  }
}

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Copies a program of this machine with its libraries. */
function addProgram(root, program, at) {
  const real = realpathSync(program);
  mkdirSync(join(root, dirname(at)), { recursive: true });
  cpSync(real, join(root, at));
  for (const line of execFileSync('ldd', [real], { encoding: 'utf8' }).split('\n')) {
    const lib = /(?:=>\s+)?(\/\S+)\s+\(0x/.exec(line)?.[1];
    if (!lib) continue;
    mkdirSync(join(root, dirname(lib)), { recursive: true });
    cpSync(realpathSync(lib), join(root, lib));
  }
}

/** busybox, users, and places to write to. */
export function makeRoot(dir, applets) {
  const root = join(dir, 'root');
  for (const d of ['bin', 'etc', 'tmp', 'app', 'data', 'root']) mkdirSync(join(root, d), { recursive: true });
  cpSync('/bin/busybox', join(root, 'bin/busybox'));
  for (const a of applets.split(' ')) symlinkSync('busybox', join(root, 'bin', a));
  writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/tmp:/bin/sh\n');
  writeFileSync(join(root, 'etc/group'), 'root:x:0:\napp:x:1000:\n');
  execFileSync('chmod', ['1777', join(root, 'tmp')]);
  return root;
}

/** An archive with an image of one layer, as `docker save` writes it. */
export function pack(dir, root, name, config) {
  const layer = join(dir, 'layer.tar');
  execFileSync('tar', ['--numeric-owner', '--owner=0', '--group=0', '-C', root, '-cf', layer, '.']);
  const diff = execFileSync('sha256sum', [layer], { encoding: 'utf8' }).split(' ')[0];
  const text = { architecture: 'amd64', os: 'linux', created: '2026-01-01T00:00:00Z', config, rootfs: { type: 'layers', diff_ids: [`sha256:${diff}`] } };
  writeFileSync(join(dir, 'config.json'), JSON.stringify(text));
  writeFileSync(join(dir, 'manifest.json'), JSON.stringify([{ Config: 'config.json', RepoTags: [name], Layers: ['layer.tar'] }]));
  execFileSync('tar', ['-C', dir, '-cf', join(dir, 'image.tar'), 'manifest.json', 'config.json', 'layer.tar']);
  return join(dir, 'image.tar');
}

/** The app's image: this machine's node with its libraries, and busybox. */
function makeImage(dir) {
  const root = makeRoot(dir, APPLETS);
  addProgram(root, process.execPath, 'bin/node');
  cpSync(join(HERE, 'app.js'), join(root, 'app/app.js'));
  writeFileSync(join(root, 'app/index.html'), 'hello from the container');
  cpSync(join(HERE, '../bench/workerd-sidecar.js'), join(root, 'app/sidecar.js'));
  return pack(dir, root, IMAGE, {
    Env: ['PATH=/bin', 'IMAGE_SAYS=hello'],
    Cmd: ['node', '/app/app.js'],
    WorkingDir: '/app',
    ExposedPorts: { '8080/tcp': {} },
  });
}

/** A sidecar's image that does what the real one does in the kernel (tests/payload/sidecar.go). */
function makeSidecarImage(dir) {
  const root = makeRoot(dir, 'sh cp cat');
  for (const program of ['nft', 'ip']) addProgram(root, execFileSync('sh', ['-c', `command -v ${program}`], { encoding: 'utf8' }).trim(), `sbin/${program}`);
  cpSync(join(ROOT, 'build/go-sidecar'), join(root, 'sidecar'));
  return pack(dir, root, TPROXY_SIDECAR, { Env: ['PATH=/sbin:/bin'], Entrypoint: ['/sidecar'] });
}

export class Engine {
  constructor() {
    this.dir = mkdtempSync(join(tmpdir(), 'rind-workerd-'));
    this.socket = DOCKER_SOCKET ?? join(this.dir, 'rind.sock');
    this.log = join(this.dir, 'serve.log');
  }

  async start() {
    if (DOCKER_SOCKET) return this;
    const log = openSync(this.log, 'a');
    this.child = spawn(
      RIND,
      ['--state', join(this.dir, 'state'), '--runtime', join(this.dir, 'run'), 'serve', '--socket', this.socket],
      { stdio: ['ignore', log, log] },
    );
    closeSync(log);
    await until(() => existsSync(this.socket) && this.request('GET', '/_ping').then((r) => r.status === 200, () => false),
      `rind answers; log: ${this.said()}`, READY_MS);
    return this;
  }

  said() {
    return existsSync(this.log) ? readFileSync(this.log, 'utf8').slice(-1500) : '';
  }

  /** One request by the API; the body is parsed where it is JSON. */
  request(method, path, body, headers = {}) {
    return new Promise((resolve, reject) => {
      const req = request(
        { socketPath: this.socket, method, path, headers: { ...(body && !Buffer.isBuffer(body) ? { 'content-type': 'application/json' } : {}), ...headers }, agent: new Agent() },
        (res) => {
          const parts = [];
          res.on('data', (d) => parts.push(d)).on('error', reject);
          res.on('end', () => {
            const text = Buffer.concat(parts).toString();
            let json;
            try {
              json = JSON.parse(text);
            } catch {
              json = undefined;
            }
            resolve({ status: res.statusCode, text, json });
          });
        },
      );
      req.on('error', reject);
      req.end(body && !Buffer.isBuffer(body) ? JSON.stringify(body) : body);
    });
  }

  /** An archive as `docker save` writes it. */
  async load(archive) {
    const r = await this.request('POST', '/images/load?quiet=1', readFileSync(archive), { 'content-type': 'application/x-tar' });
    assert.equal(r.status, 200, `load: ${r.text}; ${this.said()}`);
    assert.match(r.text, /Loaded image/, r.text);
  }

  async loadMade(make) {
    const dir = mkdtempSync(join(tmpdir(), 'rind-image-'));
    try {
      await this.load(make(dir));
    } finally {
      rmSync(dir, { recursive: true });
    }
  }

  async loadSidecar() {
    await this.loadMade(makeSidecarImage);
  }

  async loadImage() {
    await this.loadMade(makeImage);
    if (process.env.RIND_TEST_SIDECAR_ARCHIVE) await this.load(process.env.RIND_TEST_SIDECAR_ARCHIVE);
  }

  async containers() {
    return (await this.request('GET', '/containers/json?all=1')).json;
  }

  async stop() {
    if (!DOCKER_SOCKET) {
      for (const c of await this.containers()) await this.request('DELETE', `/containers/${c.Id}?force=true`);
      this.child.kill('SIGTERM');
      await until(() => this.child.exitCode !== null || this.child.signalCode !== null, 'rind ends');
      assert.equal(this.child.exitCode, 0, `a clean end; log: ${this.said()}`);
      assert.doesNotMatch(readFileSync(this.log, 'utf8'), /Sanitizer|runtime error:|handles are left open/);
    }
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** Stands between workerd and an engine, and keeps the request lines: workerd has a connection for each. */
export class Tap {
  constructor(engine) {
    this.engine = engine;
    this.socket = join(engine.dir, `tap-${Math.random().toString(36).slice(2)}.sock`);
    this.lines = [];
  }

  async start() {
    this.server = createServer({ allowHalfOpen: true }, (client) => {
      const to = connect({ path: this.engine.socket, allowHalfOpen: true });
      client.once('data', (d) => this.lines.push(d.toString('latin1').split(' HTTP/')[0]));
      client.pipe(to).pipe(client);
      for (const s of [client, to]) s.on('error', () => (client.destroy(), to.destroy()));
    }).listen(this.socket);
    await new Promise((resolve) => this.server.once('listening', resolve));
    return this;
  }

  said() {
    return this.engine.said();
  }

  stop() {
    this.server.close();
  }
}

const quote = (s) => JSON.stringify(s);

/** The real workerd. */
export class Workerd {
  constructor(engine, options = {}) {
    this.engine = engine;
    this.options = options;
    this.dir = mkdtempSync(join(tmpdir(), 'rind-worker-'));
    mkdirSync(join(this.dir, 'disk'));
    writeFileSync(join(this.dir, 'worker.js'), readFileSync(join(HERE, 'worker.js')));
    this.output = join(this.dir, 'workerd.log');
  }

  config() {
    const namespaces = ['Box', 'Plain']
      .map((name) => `(className = "${name}", uniqueKey = "${name}", enableSql = true, container = (imageName = ${quote(IMAGE)}${this.options.privileges ?? ''}))`)
      .join(',\n    ');
    return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .main), (name = "disk", disk = (path = ${quote(join(this.dir, 'disk'))}, writable = true)),
              (name = "internet", network = (allow = ["public", "private", "local"], tlsOptions = (trustBrowserCas = true)))],
  sockets = [(name = "http", address = "127.0.0.1:${this.port}", http = (), service = "main")],
);
const main :Workerd.Worker = (
  modules = [(name = "worker", esModule = embed "worker.js")],
  compatibilityDate = ${quote(this.options.date ?? '2026-11-01')},
  compatibilityFlags = ${JSON.stringify(['nodejs_compat', 'experimental', ...(this.options.flags ?? [])]).replaceAll('"', '"')},
  durableObjectNamespaces = [
    ${namespaces}
  ],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [(name = "Box", durableObjectNamespace = "Box"), (name = "Plain", durableObjectNamespace = "Plain")],
  containerEngine = (localDocker = (socketPath = ${quote(`unix:${this.engine.socket}`)}, containerEgressInterceptorImage = ${quote(this.options.sidecar ?? SIDECAR)}${
    this.options.session ? `, sessionId = ${quote(this.options.session)}` : ''
  })),
);
`;
  }

  async start() {
    this.port ??= await freePort();
    writeFileSync(join(this.dir, 'config.capnp'), this.config());
    const log = openSync(this.output, 'a');
    this.child = spawn(WORKERD, ['serve', '--experimental', join(this.dir, 'config.capnp')], { stdio: ['ignore', log, log], cwd: this.dir });
    closeSync(log);
    await until(
      () => fetch(`http://127.0.0.1:${this.port}/Box/none/running`).then((r) => (r.body?.cancel(), true), () => this.child.exitCode !== null),
      `workerd answers; it said ${this.said()}`, READY_MS);
    assert.equal(this.child.exitCode, null, this.said());
    return this;
  }

  said() {
    return existsSync(this.output) ? readFileSync(this.output, 'utf8').slice(-2000) : '';
  }

  /** Runs a scenario of worker.js; its result, or what it threw. */
  async run(id, scenario, args = {}, cls = 'Box') {
    const r = await fetch(`http://127.0.0.1:${this.port}/${cls}/${id}/${scenario}`, { method: 'POST', body: JSON.stringify(args) });
    const text = await r.text();
    try {
      return JSON.parse(text);
    } catch {
      throw new Error(`${scenario}: ${r.status} ${text.slice(0, 500)}; workerd said ${this.said()}`);
    }
  }

  /** The same, of one that must work. */
  async ok(id, scenario, args, cls) {
    const r = await this.run(id, scenario, args, cls);
    assert.equal(r.error, undefined, `${scenario}: ${r.error}; workerd said ${this.said()}; rind said ${this.engine.said()}`);
    return r.ok;
  }

  async end(signal = 'SIGTERM') {
    this.child.kill(signal);
    await until(() => this.child.exitCode !== null || this.child.signalCode !== null, 'workerd ends');
  }

  async stop() {
    if (this.child.exitCode === null && this.child.signalCode === null) await this.end();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** A workerd with these options that is killed and started anew finds its container, and intercepts for it. */
export async function findsItsContainer(engine, options) {
  const own = await new Workerd(engine, options).start();
  try {
    await own.ok('kept', 'interceptHttp', { host: 'one.example', url: 'http://one.example/', before: true });
    await own.end('SIGKILL');
    await own.start();
    assert.equal(await own.ok('kept', 'running'), true);
    const r = await own.ok('kept', 'interceptHttp', { host: 'two.example', url: 'http://two.example/' });
    assert.equal(r.body, 'intercepted http GET http://two.example/', JSON.stringify(r));
    await own.ok('kept', 'destroy');
  } finally {
    await own.stop();
  }
}
