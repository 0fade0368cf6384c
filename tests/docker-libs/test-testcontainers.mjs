// testcontainers for Node, unmodified: containers with ports, waits, files. Without its reaper, whose container asks for the engine's socket.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after } from 'node:test';
import { Engine, IMAGE, available, test, text } from './harness.mjs';

const engine = new Engine();
const SERVER = ['sh', '-c', 'mkdir -p /tmp/w; echo page >/tmp/w/index.html; echo ready to serve; exec httpd -f -p 8080 -h /tmp/w'];
let GenericContainer, Network, Wait;
if (available) {
  process.env.DOCKER_HOST = `unix://${engine.socket}`;
  process.env.TESTCONTAINERS_RYUK_DISABLED = 'true';
  ({ GenericContainer, Network, Wait } = await import('testcontainers'));
  await engine.start();
}
after(() => available && engine.stop());

const server = () => new GenericContainer(IMAGE).withExposedPorts(8080).withCommand(SERVER).withStartupTimeout(60_000);

test('a server: its port, its logs, execs, files in and out', async () => {
  const c = await server()
    .withEnvironment({ A: 'b' }).withLabels({ l: '1' }).withName('server').withWorkingDir('/tmp').withResourcesQuota({ memory: 0.1, cpu: 1 })
    .withCopyContentToContainer([{ content: 'copied', target: '/tmp/copied.txt' }]).withWaitStrategy(Wait.forLogMessage('ready')).start();
  assert.equal(await (await fetch(`http://${c.getHost()}:${c.getMappedPort(8080)}/`)).text(), 'page\n');
  const r = await c.exec(['sh', '-c', 'cat /tmp/copied.txt; echo $A; echo e >&2; exit 4']);
  assert.deepEqual([r.exitCode, r.stdout, r.stderr], [4, 'copiedb\n', 'e\n']);
  assert.equal((await c.exec(['pwd'], { workingDir: '/', user: 'root', env: { X: '1' } })).stdout, '/\n');
  const logs = await c.logs();
  assert.match(String((await once(logs, 'data'))[0]), /ready to serve/);
  logs.destroy();
  await c.copyContentToContainer([{ content: 'later', target: '/tmp/later.txt' }]);
  assert.match(await text(await c.copyArchiveFromContainer('/tmp/later.txt')), /later/);
  assert.match(await c.commit({ repo: 'snap', tag: '1', deleteOnExit: false }), /sha256:|snap/);
  await c.restart();
  await c.stop();
});

for (const [name, strategy, more = (c) => c] of available ? [
  ['listening ports', Wait.forListeningPorts()],
  ['an HTTP answer', Wait.forHttp('/', 8080).forStatusCode(200)],
  ['a command', Wait.forSuccessfulCommand('true')],
  ['a health check', Wait.forHealthCheck(), (c) => c.withHealthCheck({ test: ['CMD-SHELL', 'wget -q -O /dev/null http://127.0.0.1:8080/'], interval: 200, timeout: 3000, retries: 50, startPeriod: 100 })],
  ['all of some', Wait.forAll([Wait.forListeningPorts(), Wait.forSuccessfulCommand('true')])],
] : []) {
  test(`waits for ${name}`, async () => {
    const c = await more(server()).withWaitStrategy(strategy).start();
    await c.stop();
  });
}

test('a command that ends, and options of containers', async () => {
  await (await new GenericContainer(IMAGE).withCommand(['true']).withWaitStrategy(Wait.forOneShotStartup()).start()).stop();
  const c = await new GenericContainer(IMAGE).withCommand(['sleep', '1000']).withTmpFs({ '/t': 'rw' }).withUser('0').withExtraHosts([{ host: 'x', ipAddress: '192.0.2.4' }])
    .withSharedMemorySize(1 << 20).withAutoRemove(true).withDefaultLogDriver().withUlimits({ nofile: { hard: 100, soft: 100 } }).withHostname('named').withDroppedCapabilities('NET_RAW').start();
  assert.equal((await c.exec(['hostname'])).stdout, 'named\n');
  await c.stop();
});

test('a network', async () => {
  const net = await new Network().start();
  const c = await new GenericContainer(IMAGE).withNetwork(net).withCommand(['sleep', '1000']).start();
  assert.equal((await c.exec(['true'])).exitCode, 0);
  await c.stop();
  await net.stop();
});
