// ctx.container of the real workerd on rind: every method of the API, each in a test of its own. With RIND_TEST_DOCKER_SOCKET the
// same runs against a real dockerd, for comparison: one that has the sidecar's image, or with "scratch" one of the test's own, whose
// sidecar is a stand-in that intercepts nothing.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { createServer } from 'node:http';
import { createServer as createTcp } from 'node:net';
import { networkInterfaces } from 'node:os';
import { existsSync } from 'node:fs';
import { after, test as nodeTest } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Dockerd } from './dockerd.mjs';
import { DOCKER_SOCKET, Engine, IMAGE, Tap, WORKERD, Workerd, findsItsContainer, until } from './harness.mjs';

const available = existsSync(WORKERD);
const scratch = DOCKER_SOCKET === 'scratch';
const engine = scratch ? new Dockerd() : new Engine();
const workerd = new Workerd(engine);
if (available) {
  await engine.start();
  await engine.loadImage();
  if (scratch) await engine.makeSidecar();
  await workerd.start();
}
after(async () => {
  if (!available) return;
  await workerd.stop();
  // Containers go with the objects that had them.
  await until(async () => (await engine.containers()).length === 0, 'workerd that ends takes its containers with it').catch(() => {});
  await engine.stop();
});

/** test(name, fn), or test(name, { skip }, fn). */
function test(name, ...rest) {
  const fn = rest.pop();
  assert.equal(typeof fn, 'function', `${name}: what node:test gets instead of a function passes`);
  const skip = available ? (rest[0]?.skip ?? false) : 'workerd is not installed (npm ci in tests/workerd)';
  nodeTest(name, { skip, timeout: 120_000 }, fn);
}
const ok = (id, scenario, args, cls) => workerd.ok(id, scenario, args, cls);
const run = (id, scenario, args, cls) => workerd.run(id, scenario, args, cls);

/** An address of this machine that is no loopback. */
const HOST = Object.values(networkInterfaces())
  .flat()
  .find((a) => a.family === 'IPv4' && !a.internal)?.address;

const INTERCEPTS = { skip: scratch && 'the stand-in for the sidecar intercepts nothing' };

async function onHost(handler) {
  const server = createServer(handler).listen(0, '0.0.0.0');
  await new Promise((resolve) => server.once('listening', resolve));
  return { server, port: server.address().port };
}

// ---- life

test('start: the image runs, and running says so', async () => {
  assert.deepEqual(await ok('start', 'start'), { before: false, hello: 'hello from the container', running: true });
});

test('start: entrypoint', async () => {
  await ok('entry', 'start', { entrypoint: ['node', '/app/app.js', 'one', 'two'] });
  assert.deepEqual(await ok('entry', 'args'), ['one', 'two']);
});

test('start: env is added to that of the image', async () => {
  await ok('env', 'start', { env: { MINE: 'a=b c', IMAGE_SAYS: 'other' } });
  const env = await ok('env', 'environment');
  assert.equal(env.MINE, 'a=b c');
  assert.equal(env.IMAGE_SAYS, 'other');
  assert.ok(env.PATH.startsWith('/bin'), env.PATH);
});

test('start: twice is an error', async () => {
  assert.match((await run('twice', 'twice')).error, /already running/);
});

test('start: labels, and inspect shows them and the image', async () => {
  const seen = await ok('labels', 'inspect', { labels: { a: 'b', 'c-d': 'e f' } });
  assert.deepEqual(seen.labels, { a: 'b', 'c-d': 'e f' });
  assert.match(seen.image, new RegExp(IMAGE.replace('/', '\\/')));
});

test('inspect: null where there is no container', async () => {
  assert.equal(await ok('none', 'inspect', {}), null);
});

test('setLabels replaces the labels', async () => {
  assert.deepEqual((await ok('labels', 'setLabels', { labels: { new: 'one' } })).labels, { new: 'one' });
});

test('start: an image of its own', async () => {
  const r = await engine.request('POST', `/images/${encodeURIComponent(IMAGE)}/tag?repo=rind-test/other&tag=2`);
  assert.equal(r.status, 201, r.text);
  assert.match((await ok('other', 'inspect', { image: 'rind-test/other:2', labels: {} })).image, /rind-test\/other:2/);
});

test('start: an image that is not there is an error of monitor', async () => {
  assert.match((await run('noimage', 'monitorMissing', { image: 'no/such:image' })).error, /./);
});

test('running survives a kill -9 of workerd, and the container goes on', async () => {
  const own = await new Workerd(engine, { session: 'survivor' }).start();
  try {
    await own.ok('kept', 'start');
    await own.ok('kept', 'exec', { cmd: ['sh', '-c', 'echo before > /tmp/mark'] });
    await own.end('SIGKILL');
    await own.start();
    assert.equal(await own.ok('kept', 'running'), true);
    assert.equal((await own.ok('kept', 'exec', { cmd: ['cat', '/tmp/mark'] })).stdout, 'before\n');
    await own.ok('kept', 'destroy');
  } finally {
    await own.stop();
  }
});

test('a workerd that ends and starts again begins anew', async () => {
  const own = await new Workerd(engine, { session: 'again' }).start();
  try {
    await own.ok('anew', 'exec', { cmd: ['sh', '-c', 'echo x > /data/mark'] });
    await own.end();
    await until(async () => !(await engine.containers()).some((c) => c.Names.some((n) => n.includes('again'))), 'its containers go with it');
    await own.start();
    assert.equal(await own.ok('anew', 'running'), false);
    assert.equal((await own.ok('anew', 'exec', { cmd: ['cat', '/data/mark'] })).exitCode, 1);
    await own.ok('anew', 'destroy');
  } finally {
    await own.stop();
  }
});

test('monitor: exit 0 resolves', async () => {
  assert.deepEqual(await ok('exit0', 'monitorExit', { code: 0 }), { running: false });
});

test('monitor: another exit code rejects with it', async () => {
  const r = await run('exit7', 'monitorExit', { code: 7 });
  assert.match(r.error, /7/);
  assert.equal(r.exitCode, 7);
});

test('monitor: ends with destroy, and rejects with its reason', async () => {
  // Over Docker's API workerd sees what it has done itself as a kill.
  const r = await run('gone', 'monitorDestroy', {});
  assert.equal(r.exitCode ?? 137, 137, JSON.stringify(r));
  assert.match((await run('gone2', 'monitorDestroy', { reason: 'because' })).error, /because/);
});

test('monitor: a program that is not there rejects', async () => {
  assert.match((await run('missing', 'monitorMissing', { entrypoint: ['/no/such/program'] })).error, /./);
});

test('signal reaches the main process', async () => {
  assert.deepEqual(await ok('signal', 'signal', { signo: 10 }), ['SIGUSR1']);
});

test('destroy and start in a loop', async () => {
  const took = await ok('loop', 'loop', { times: 5 });
  assert.equal(took.length, 5);
});

test('a container has a file system of its own at each start', async () => {
  await ok('fresh', 'exec', { cmd: ['sh', '-c', 'echo x > /data/mark'] });
  await ok('fresh', 'destroy');
  assert.equal((await ok('fresh', 'exec', { cmd: ['cat', '/data/mark'] })).exitCode, 1);
});

test('setInactivityTimeout is accepted while the container runs', async () => {
  assert.equal(await ok('idle', 'inactivity', { ms: 60_000 }), true);
});

test('privileges that the policy has are given', async () => {
  const own = await new Workerd(engine, { privileges: ', privileges = (capabilities = ["NET_RAW"])' }).start();
  try {
    assert.equal((await own.ok('priv', 'start')).running, true);
    const [, effective] = /^CapEff:\s*(\w+)$/m.exec(await own.ok('priv', 'proc1'));
    assert.ok((BigInt(`0x${effective}`) >> 13n) & 1n, `NET_RAW: ${effective}`);
    await own.ok('priv', 'destroy');
  } finally {
    await own.stop();
  }
});

test('privileges that the policy has not are an error of monitor', { skip: DOCKER_SOCKET && 'Docker gives them' }, async () => {
  for (const what of ['capabilities = ["SYS_ADMIN"]', 'devices = ["/dev/fuse"]', 'securityOpt = ["systempaths=unconfined"]']) {
    const own = await new Workerd(engine, { session: 'privileged', privileges: `, privileges = (${what})` }).start();
    try {
      assert.match((await own.run('priv', 'monitorMissing', {})).error, /failed to start/, what);
      const made = (await engine.containers()).filter((c) => c.Names.some((n) => n.includes('privileged') && !n.endsWith('-proxy')));
      assert.deepEqual(made, [], what);
    } finally {
      await own.stop();
    }
  }
});

for (const [name, flags] of [
  ['with', ['containers_pid_namespace']],
  ['without', ['no_containers_pid_namespace']],
])
  test(`${name} the flag for a pid namespace: exec, kill and signal work`, async () => {
    const own = await new Workerd(engine, { date: '2026-03-01', flags }).start();
    try {
      assert.equal((await own.ok('pidns', 'exec', { cmd: ['sh', '-c', 'exit 5'] })).exitCode, 5);
      assert.equal(await own.ok('pidns', 'execKill', { signo: 15 }), 143);
      assert.deepEqual(await own.ok('pidns', 'signal', { signo: 12 }), ['SIGUSR2']);
      await own.ok('pidns', 'destroy');
    } finally {
      await own.stop();
    }
  });

// ---- exec

test('exec: output of both streams and the exit code', async () => {
  assert.deepEqual(await ok('exec', 'exec', { cmd: ['sh', '-c', 'echo out; echo err >&2; exit 3'] }), {
    stdout: 'out\n',
    stderr: 'err\n',
    exitCode: 3,
  });
});

test('exec: cwd, env and user', async () => {
  const r = await ok('exec', 'exec', {
    cmd: ['sh', '-c', 'echo $(pwd) $X $(id -u) $(id -g)'],
    options: { cwd: '/data', env: { X: 'y z' }, user: '1000:1000' },
  });
  assert.equal(r.stdout, '/data y z 1000 1000\n');
});

test('exec: a program that is not there ends with 127', async () => {
  assert.equal((await ok('exec', 'exec', { cmd: ['/no/such'] })).exitCode, 127);
});

test('exec: stdin by pipe, to its end', async () => {
  assert.deepEqual(await ok('exec', 'execStdin', { input: 'line\nrest' }), { stdout: 'line\nrest', exitCode: 4 });
});

test('exec: stdin that is a stream, and none, which ends at once', async () => {
  const r = await ok('exec', 'execStreams', { pieces: ['one ', 'two ', 'three'] });
  assert.deepEqual(r.none, { stdout: '', stderr: '', exitCode: 0 });
  assert.equal(r.stream.stdout, 'one two three');
});

test('exec: output that is ignored', async () => {
  assert.deepEqual(await ok('exec', 'execIgnored'), { stdout: null, stderr: null, exitCode: 6 });
});

test('exec: output that nobody reads waits, and nothing of it is lost', async () => {
  const bytes = 24 << 20;
  assert.deepEqual(await ok('exec', 'execUnread', { bytes, pause: 500 }), { meanwhile: 'other\n', size: bytes, exitCode: 0 });
});

test('exec: a user by name', async () => {
  assert.equal((await ok('exec', 'exec', { cmd: ['id', '-un'], options: { user: 'app' } })).stdout, 'app\n');
});

test('exec: a directory or a user that is not there is an exit code, with a sentence', async () => {
  for (const options of [{ cwd: '/no/such' }, { user: 'nosuch' }]) {
    const r = await ok('exec', 'exec', { cmd: ['true'], options });
    assert.notEqual(r.exitCode, 0, JSON.stringify(r));
    assert.match(r.stdout + r.stderr, /no such|No such|unable to find/, JSON.stringify(r));
  }
});

test('exec: ends with its container', async () => {
  assert.match(await ok('ends', 'execDestroyed'), /^(exit code|error)/);
});

test('exec: combined output is in order', async () => {
  assert.deepEqual(await ok('exec', 'execCombined'), { stderr: true, stdout: 'a\nb\nc\n' });
});

test('exec: 64 MiB come whole', async () => {
  const r = await ok('exec', 'execBig', { bytes: 64 << 20 });
  assert.equal(r.size, 64 << 20);
  assert.equal(r.exitCode, 0);
});

test('exec: pid', async () => {
  const r = await ok('exec', 'execPid');
  assert.ok(r.pid > 0, JSON.stringify(r));
  assert.equal(r.exitCode, 137);
});

test('exec: kill', async () => {
  assert.equal(await ok('exec', 'execKill', { signo: 15 }), 143);
  assert.equal(await ok('exec', 'execKill', { signo: 9 }), 137);
});

test('exec: abort', async () => {
  assert.equal(await ok('exec', 'execAbort'), 137);
});

test('exec: aborted before it begins', async () => {
  assert.match((await run('exec', 'execAborted')).error, /not any more/);
});

test('exec: eight at once', async () => {
  assert.deepEqual(await ok('exec', 'execMany', { count: 8 }), ['0', '1', '2', '3', '4', '5', '6', '7']);
});

test('exec: a terminal', async () => {
  const r = await ok('exec', 'pty', {});
  assert.equal(r.isPty, true);
  assert.match(r.seen, /got word/);
  assert.equal(r.exitCode, 0);
});

test('exec: a terminal of an initial size', { skip: DOCKER_SOCKET && 'API 1.42' }, async () => {
  assert.match((await ok('exec', 'pty', { size: { cols: 100, rows: 40 } })).seen, /^40 100\r\n/);
});

test('exec: a terminal without a stdin shows what comes later', { skip: DOCKER_SOCKET && 'Docker 20.10 hangs up' }, async () => {
  const r = await ok('exec', 'ptyLater');
  assert.deepEqual(r, { stdout: 'later xterm\r\n', exitCode: 0 });
});

test('resize', async () => {
  assert.match((await ok('exec', 'pty', { size: { cols: 100, rows: 40 }, resize: { cols: 123, rows: 45 } })).seen, /45 123/);
});

// ---- ports

test('getTcpPort: fetch', async () => {
  assert.equal((await ok('ports', 'start')).hello, 'hello from the container');
});

test('getTcpPort: bodies of 32 MiB in both directions', async () => {
  const size = 32 << 20;
  const sha256 = createHash('sha256').update(Buffer.alloc(size, 'a')).digest('hex');
  assert.deepEqual(await ok('ports', 'digest', { bytes: size }), { size, sha256 });
  assert.equal(await ok('ports', 'download', { bytes: size }), size);
});

test('getTcpPort: WebSocket', async () => {
  assert.deepEqual(await ok('ports', 'webSocket', { words: ['one', 'two', 'three'] }), ['ONE', 'TWO', 'THREE']);
});

test('getTcpPort: connect, with half-close, to a server on the loopback alone', async () => {
  assert.equal(await ok('ports', 'connect', { port: 9000, line: 'hello' }), 'you said hello');
});

test('getTcpPort: a closed port is answered at once', async () => {
  const r = await ok('ports', 'closedPort', { port: 9999 });
  assert.match(r.message, /not listening/);
  assert.ok(r.ms < 2000, `${r.ms} ms`);
});

// ---- outbound

test('interceptOutboundHttp before the start, by a wildcard name', INTERCEPTS, async () => {
  const r = await ok('http1', 'interceptHttp', { host: '*.example.com', url: 'http://www.example.com/path?q', before: true });
  assert.equal(r.body, 'intercepted http GET http://www.example.com/path?q');
});

test('interceptOutboundHttp after the start', INTERCEPTS, async () => {
  const r = await ok('http2', 'interceptHttp', { host: 'only.example', url: 'http://only.example/x' });
  assert.equal(r.body, 'intercepted http GET http://only.example/x');
});

test('interceptOutboundHttp by an address', INTERCEPTS, async () => {
  const r = await ok('http3', 'interceptHttp', { host: '11.0.0.9', url: 'http://11.0.0.9/y' });
  assert.equal(r.body, 'intercepted http GET http://11.0.0.9/y');
});

test('interceptOutboundHttp again replaces the handler', INTERCEPTS, async () => {
  const [first, second] = await ok('http4', 'replaceHandler', { host: 'again.example', url: 'http://again.example/' });
  assert.match(first.body, /intercepted first/);
  assert.match(second.body, /intercepted second/);
});

test('interceptOutboundHttp: names, networks and ports, each with its handler, the first that fits', INTERCEPTS, async () => {
  const r = await ok('http5', 'interceptSeveral', {
    addresses: ['a.example', '*.example', '11.9.0.0/16', 'port.test:8081', '11.8.0.1:8082'],
    urls: ['http://a.example/', 'http://b.c.example/', 'http://11.9.8.7/', 'http://port.test:8081/', 'http://port.test/', 'http://a.example:8083/', 'http://11.8.0.1:8082/', 'http://11.8.0.1/'],
  });
  assert.deepEqual(r, [
    'intercepted a.example GET http://a.example/',
    'intercepted *.example GET http://b.c.example/',
    'intercepted 11.9.0.0/16 GET http://11.9.8.7/',
    'intercepted port.test:8081 GET http://port.test:8081/',
    null,
    null,
    'intercepted 11.8.0.1:8082 GET http://11.8.0.1:8082/',
    null,
  ]);
});

test('interceptOutboundHttp with the internet on: what has no handler goes out', { skip: INTERCEPTS.skip || (!HOST && 'no address but the loopback') }, async () => {
  const { server, port } = await onHost((req, res) => res.end('from the host'));
  try {
    const r = await ok('http6', 'interceptSeveral', { addresses: ['mine.example'], urls: ['http://mine.example/', `http://${HOST}:${port}/`], internet: true });
    assert.deepEqual(r, ['intercepted mine.example GET http://mine.example/', 'from the host']);
  } finally {
    server.close();
  }
});

test('interceptAllOutboundHttp', INTERCEPTS, async () => {
  const r = await ok('httpall', 'interceptAll', { url: 'http://11.2.3.4/z' });
  assert.equal(r.body, 'intercepted all GET http://11.2.3.4/z');
});

test('interceptOutboundHttps before the start, trusted by the injected CA', INTERCEPTS, async () => {
  const r = await ok('https1', 'interceptHttps', { host: 'secure.example', url: 'https://secure.example/s', before: true });
  assert.equal(r.body, 'intercepted https GET https://secure.example/s', JSON.stringify(r));
});

test('interceptOutboundHttps after the start, by a wildcard name', INTERCEPTS, async () => {
  const r = await ok('https2', 'interceptHttps', { host: '*.secure.example', url: 'https://a.secure.example/t' });
  assert.equal(r.body, 'intercepted https GET https://a.secure.example/t', JSON.stringify(r));
});

test('interceptOutboundTcp by a network', INTERCEPTS, async () => {
  const r = await ok('tcpnet', 'interceptTcp', { address: '11.1.0.0/16', host: '11.1.2.3', port: 25, before: true });
  assert.equal(r.data, 'tcp tcp', JSON.stringify(r));
});

test('a workerd that was started anew intercepts for the container that it finds', INTERCEPTS, () => findsItsContainer(engine, { session: 'adopts' }));

for (const before of [true, false])
  test(`interceptOutboundTcp ${before ? 'before' : 'after'} the start`, INTERCEPTS, async () => {
    const r = await ok(`tcp-${before}`, 'interceptTcp', { address: '11.0.0.7', host: '11.0.0.7', port: 5432, before });
    assert.equal(r.data, 'tcp tcp', JSON.stringify(r));
  });

test('enableInternet: TCP reaches what the host reaches', { skip: !HOST && 'no address but the loopback' }, async () => {
  const { server, port } = await onHost((req, res) => res.end('from the host'));
  try {
    assert.equal((await ok('net', 'visit', { url: `http://${HOST}:${port}/`, internet: true })).body, 'from the host');
  } finally {
    server.close();
  }
});

test('enableInternet: a server that speaks first is heard', { skip: !HOST && 'no address but the loopback' }, async () => {
  const tcp = createTcp((s) => (s.write('220 hello'), s.on('error', () => {}))).listen(0, '0.0.0.0');
  await new Promise((resolve) => tcp.once('listening', resolve));
  try {
    assert.equal((await ok('net', 'hear', { host: HOST, port: tcp.address().port })).data, '220 hello');
  } finally {
    tcp.close();
  }
});

test('enableInternet false: TCP, UDP and DNS are shut', { skip: INTERCEPTS.skip || (!HOST && 'no address but the loopback') }, async () => {
  let reached = 0;
  const { server, port } = await onHost((req, res) => (reached++, res.end('no')));
  const tcp = createTcp((s) => (reached++, s.destroy())).listen(0, '0.0.0.0');
  await new Promise((resolve) => tcp.once('listening', resolve));
  const udp = createSocket('udp4', () => reached++);
  await new Promise((resolve) => udp.bind(0, '0.0.0.0', resolve));
  try {
    assert.equal((await ok('nonet', 'udp', { host: HOST, port: udp.address().port })).answers, 0);
    const visited = await ok('nonet', 'visit', { url: `http://${HOST}:${port}/`, internet: false });
    assert.ok(visited.error, JSON.stringify(visited));
    const talked = await ok('nonet', 'talk', { host: HOST, port: tcp.address().port, internet: false });
    assert.equal(talked.data ?? '', '', JSON.stringify(talked));
    assert.equal((await ok('nonet', 'dns', { name: 'example.com', internet: false })).error, 'ENOTFOUND');
    assert.equal(reached, 0, 'nothing came out');
  } finally {
    server.close();
    tcp.close();
    udp.close();
  }
});

// ---- snapshots

test('snapshotDirectory, and restored at its place and at another', async () => {
  const snapshot = await ok('snap', 'snapshotDirectory', { dir: '/data/work', text: 'kept' });
  assert.equal(snapshot.dir, '/data/work');
  assert.equal(snapshot.name, 'of a test');
  assert.ok(snapshot.size > 0);
  await ok('snap', 'destroy');
  const same = await ok('snap', 'restoreDirectory', { snapshot });
  assert.equal(same.stdout, 'kept\nfile\nmore\n', same.stderr);
  const other = await ok('snap2', 'restoreDirectory', { snapshot, mountPoint: '/deep/er/place' });
  assert.equal(other.stdout, 'kept\nfile\nmore\n', 'what the first one has written is not in the snapshot');
});

test('several directory snapshots in one start', async () => {
  const snapshots = [];
  for (const words of ['first', 'second']) snapshots.push({ snapshot: await ok('many', 'snapshotDirectory', { dir: `/data/${words}`, text: words }) });
  await ok('many', 'destroy');
  snapshots[1].mountPoint = '/else/where';
  assert.equal((await ok('many', 'restoreSeveral', { snapshots })).stdout, 'first\nsecond\n');
});

test('snapshotContainer, and a start from it', async () => {
  const snapshot = await ok('snapc', 'snapshotContainer', { text: 'whole' });
  assert.ok(snapshot.size > 0);
  await ok('snapc', 'destroy');
  assert.equal((await ok('snapc', 'restoreContainer', { snapshot })).stdout, 'whole\n');
});

// ---- nothing to wait for

test('workerd never waits for the engine: no request is made twice', { skip: DOCKER_SOCKET && 'of rind alone' }, async () => {
  const tap = await new Tap(engine).start();
  const own = await new Workerd(tap, { session: 'tapped' }).start();
  const count = (pattern) => tap.lines.filter((line) => pattern.test(line)).length;
  try {
    await own.ok('x', 'startFast');
    assert.equal(count(/^POST \/containers\/\S+-proxy\/start$/), 1, tap.lines.join('\n'));
    assert.equal(count(/^GET \/containers\/\S+-proxy\/json$/), 1, tap.lines.join('\n'));
    tap.lines.length = 0;
    await own.ok('x', 'execTimes', { count: 50 });
    assert.equal(count(/^POST \/exec\/\w+\/start$/), 50, tap.lines.join('\n'));
    // One for the pid and one for the exit code.
    assert.ok(count(/^GET \/exec\/\w+\/json$/) <= 100, tap.lines.join('\n'));
    await own.ok('x', 'destroy');
  } finally {
    await own.stop();
    tap.stop();
  }
});

// ---- the end

test('setInactivityTimeout keeps a container for so long after its object', async () => {
  const own = await new Workerd(engine, { session: 'inactive' }).start();
  try {
    for (const name of ['short', 'long']) await own.ok(name, 'start');
    await own.ok('long', 'inactivity', { ms: 15_000 });
    const apps = async () => (await engine.containers()).filter((c) => c.Names.some((n) => n.includes('inactive') && !n.includes('proxy')));
    const before = await apps();
    assert.equal(before.length, 2, JSON.stringify(before.map((c) => c.Names)));
    const from = Date.now();
    await until(async () => (await apps()).length === 1, 'workerd forgets an idle object, and the container with it', 60_000);
    const first = Date.now();
    await until(async () => (await apps()).length === 0, 'and the other one when its time is over', 60_000);
    assert.ok(Date.now() - first > 5_000, `${first - from} and ${Date.now() - from} ms`);
    console.log(`# ${first - from} and ${Date.now() - from} ms`);
  } finally {
    await own.stop();
  }
});

test('objects that are gone take their containers with them', async () => {
  const own = await new Workerd(engine, { session: 'ending' }).start();
  await own.ok('x', 'start');
  const mine = async () => (await engine.containers()).filter((c) => c.Names.some((n) => n.includes('ending')));
  assert.equal((await mine()).length, 2, 'the container and its sidecar');
  assert.ok((await mine()).every((c) => c.Labels['dev.workerd.session'] === 'ending'));
  await own.stop();
  await until(async () => (await mine()).length === 0, 'workerd that ends removes them');
  await sleep(0);
});
