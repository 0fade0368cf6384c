// ctx.container of the real workerd on rind with a sidecar that is an image of the store: it administers a network of its own (TPROXY,
// policy routing), and reaches workerd by the door that rind makes for it (docs/workerd.md). The stand-in does the real one's work in
// the kernel; RIND_TEST_SIDECAR_ARCHIVE and MINIFLARE_CONTAINER_EGRESS_IMAGE run test-workerd.mjs with the real one.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { createServer as createTcp } from 'node:net';
import { networkInterfaces } from 'node:os';
import { existsSync } from 'node:fs';
import { after, test as nodeTest } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { DOCKER_SOCKET, Engine, TPROXY_SIDECAR, WORKERD, Workerd, findsItsContainer, until } from './harness.mjs';

const missing = !existsSync(WORKERD) ? 'workerd is not installed (npm ci in tests/workerd)' : DOCKER_SOCKET ? 'of rind alone' : false;
const engine = new Engine();
const workerd = new Workerd(engine, { sidecar: TPROXY_SIDECAR });
if (!missing) {
  await engine.start();
  await engine.loadImage();
  await engine.loadSidecar();
  await workerd.start();
}
after(async () => {
  if (missing) return;
  await workerd.stop();
  await until(async () => (await engine.containers()).length === 0, 'workerd that ends takes its containers with it').catch(() => {});
  await engine.stop();
});

const test = (name, fn) => nodeTest(name, { skip: missing, timeout: 120_000 }, fn);
const ok = (id, scenario, args, cls) => workerd.ok(id, scenario, args, cls);

/** An address of this machine that is no loopback. */
const HOST = Object.values(networkInterfaces())
  .flat()
  .find((a) => a.family === 'IPv4' && !a.internal)?.address;

async function containers(part) {
  const found = (await engine.containers()).filter((c) => c.Names.some((n) => n.includes(part)));
  return Promise.all(found.map(async (c) => (await engine.request('GET', `/containers/${c.Id}/json`)).json));
}

test('the sidecar is a container that administers its network, and the app beside it does not', async () => {
  await ok('start', 'start');
  const both = await containers('Box');
  const sidecar = both.find((c) => c.Config.Image === TPROXY_SIDECAR);
  const app = both.find((c) => c.Config.Image !== TPROXY_SIDECAR);
  assert.ok(sidecar && app, JSON.stringify(both.map((c) => c.Config.Image)));
  assert.equal(sidecar.NetworkSettings.Ports['39001/tcp'][0].HostIp, '127.0.0.1', 'its port is the loopback’s alone');
  const r = await ok('start', 'exec', { cmd: ['sh', '-c', 'busybox ip addr add 10.9.9.9/32 dev lo; busybox ip route flush table 100; echo $?'] });
  assert.match(r.stdout, /[^0]\n$/, r.stdout + r.stderr);
  assert.match(r.stderr, /not permitted/, r.stderr);
});

test('getTcpPort: fetch, a closed port, and a server on the loopback alone', async () => {
  assert.equal((await ok('ports', 'start')).hello, 'hello from the container');
  assert.match((await ok('ports', 'closedPort', { port: 9999 })).message, /not listening/);
  assert.equal(await ok('ports', 'connect', { port: 9000, line: 'hello' }), 'you said hello');
});

test('interceptOutboundHttp before and after the start, by name and by address', async () => {
  const before = await ok('http1', 'interceptHttp', { host: '*.example.com', url: 'http://www.example.com/path?q', before: true });
  assert.equal(before.body, 'intercepted http GET http://www.example.com/path?q', JSON.stringify(before));
  const after_ = await ok('http2', 'interceptHttp', { host: '11.0.0.9', url: 'http://11.0.0.9/y' });
  assert.equal(after_.body, 'intercepted http GET http://11.0.0.9/y', JSON.stringify(after_));
});

test('interceptOutboundHttps, trusted by the injected CA', async () => {
  const r = await ok('https', 'interceptHttps', { host: '*.secure.example', url: 'https://a.secure.example/t' });
  assert.equal(r.body, 'intercepted https GET https://a.secure.example/t', JSON.stringify(r));
});

test('interceptOutboundTcp', async () => {
  const r = await ok('tcp', 'interceptTcp', { address: '11.0.0.7', host: '11.0.0.7', port: 5432 });
  assert.equal(r.data, 'tcp tcp', JSON.stringify(r));
});

test('enableInternet: what workerd lets out leaves, and nothing else', async () => {
  let reached = 0;
  const server = createServer((req, res) => (reached++, res.end('from the host'))).listen(0, '0.0.0.0');
  const tcp = createTcp((s) => (reached++, s.destroy())).listen(0, '0.0.0.0');
  await Promise.all([server, tcp].map((s) => new Promise((resolve) => (s.listening ? resolve() : s.once('listening', resolve)))));
  try {
    const { port } = server.address();
    if (HOST) assert.equal((await ok('net', 'visit', { url: `http://${HOST}:${port}/`, internet: true })).body, 'from the host');
    reached = 0;
    for (const host of [HOST, '127.114.110.100', '10.213.0.0'].filter(Boolean)) {
      assert.ok((await ok('nonet', 'visit', { url: `http://${host}:${port}/`, internet: false })).error, host);
      assert.equal((await ok('nonet', 'talk', { host, port: tcp.address().port, internet: false })).data ?? '', '', host);
    }
    assert.equal((await ok('nonet', 'dns', { name: 'example.com', internet: false })).error, 'ENOTFOUND');
    assert.equal(reached, 0, 'nothing came out');
  } finally {
    server.close();
    tcp.close();
  }
});

test('a workerd that was started anew is found at its new port', () => findsItsContainer(engine, { sidecar: TPROXY_SIDECAR, session: 'anew' }));

test('snapshotDirectory and a restored one, whose helper runs the sidecar’s /bin/cp', async () => {
  const snapshot = await ok('snap', 'snapshotDirectory', { dir: '/data/work', text: 'kept' });
  await ok('snap', 'destroy');
  const same = await ok('snap', 'restoreDirectory', { snapshot });
  assert.equal(same.stdout, 'kept\nfile\nmore\n', same.stderr);
});

test('destroy and start in a loop, the sidecar stays', async () => {
  assert.equal((await ok('loop', 'loop', { times: 4 })).length, 4);
  await sleep(0);
});
