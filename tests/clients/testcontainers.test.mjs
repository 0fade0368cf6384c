// testcontainers for Node, unmodified: what its documentation shows, one feature a test. Whether its reaper is wanted the environment says.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import Docker from 'dockerode';
import { DockerComposeEnvironment, GenericContainer, Network, PullPolicy, Wait } from 'testcontainers';
import { IMAGE, page, text, until } from './harness.mjs';

const LIMIT = { timeout: 90_000 };
const docker = new Docker({ socketPath: process.env.DOCKER_SOCKET });
const dir = mkdtempSync(join(tmpdir(), 'testcontainers-'));
const HTTPD = ['sh', '-c', 'mkdir -p /w; echo page >/w/index.html; echo ready to serve; exec httpd -f -p 8080 -h /w'];
const server = () => new GenericContainer(IMAGE).withExposedPorts(8080).withCommand(HTTPD).withStartupTimeout(30_000);
const sleeper = () => new GenericContainer(IMAGE).withCommand(['sleep', '1000']).withStartupTimeout(30_000);
/** Starts it; what a test has started is stopped with it, the last first. */
const stacks = new WeakMap();
async function up(t, made) {
  const started = await made.start();
  if (!stacks.has(t)) {
    stacks.set(t, []);
    t.after(async () => {
      for (const each of stacks.get(t).reverse()) await each.stop();
    });
  }
  stacks.get(t).push(started);
  return started;
}
const run = async (c, ...argv) => (await c.exec(argv)).stdout;

test('a container with a mapped port', LIMIT, async (t) => {
  const c = await up(t, server());
  assert.equal(await page(`http://${c.getHost()}:${c.getMappedPort(8080)}/`), 'page\n');
  assert.ok(c.getId().length === 64 && c.getName().length > 0 && c.getFirstMappedPort() > 0);
});

test('a fixed port of the host', LIMIT, async (t) => {
  const c = await up(t, new GenericContainer(IMAGE).withExposedPorts({ container: 8080, host: 18123 }).withCommand(HTTPD));
  assert.equal(c.getMappedPort(8080), 18123);
  assert.equal(await page('http://127.0.0.1:18123/'), 'page\n');
});

for (const [name, strategy, more = (c) => c] of [
  ['listening ports', Wait.forListeningPorts()],
  ['a log line', Wait.forLogMessage('ready to serve')],
  ['a log line by an expression, twice', Wait.forLogMessage(/beat \d/, 2), (c) => c.withCommand(['sh', '-c', 'for i in 1 2 3; do echo beat $i; sleep 0.1; done; exec sleep 100']).withExposedPorts()],
  ['an HTTP status', Wait.forHttp('/', 8080).forStatusCode(200)],
  ['an HTTP body', Wait.forHttp('/index.html', 8080).forResponsePredicate((b) => b.includes('page')).withReadTimeout(2000)],
  ['a health check', Wait.forHealthCheck(), (c) => c.withHealthCheck({ test: ['CMD-SHELL', 'wget -q -O /dev/null http://127.0.0.1:8080/'], interval: 300, timeout: 3000, retries: 50, startPeriod: 100 })],
  ['a shell command', Wait.forSuccessfulCommand('test -e /w/index.html')],
  ['all of some', Wait.forAll([Wait.forListeningPorts(), Wait.forLogMessage('ready')]).withDeadline(30_000)],
]) {
  test(`waits for ${name}`, LIMIT, async (t) => {
    const c = await up(t, more(server()).withWaitStrategy(strategy));
    assert.ok(c.getId());
  });
}

test('waits for the end of a command', LIMIT, async (t) => {
  const c = await up(t, new GenericContainer(IMAGE).withCommand(['sh', '-c', 'echo done']).withWaitStrategy(Wait.forOneShotStartup()));
  assert.ok(c.getId());
});

test('a start that fails says why', LIMIT, async (t) => {
  await assert.rejects(new GenericContainer(IMAGE).withCommand(['sh', '-c', 'exit 3']).withWaitStrategy(Wait.forLogMessage('never')).withStartupTimeout(3000).start());
});

test('exec with its options', LIMIT, async (t) => {
  const c = await up(t, sleeper());
  const r = await c.exec(['sh', '-c', 'echo o; echo e >&2; exit 4']);
  assert.deepEqual([r.exitCode, r.stdout, r.stderr, r.output.length], [4, 'o\n', 'e\n', 4]);
  assert.equal((await c.exec(['sh', '-c', 'echo $X $(pwd) $(id -u)'], { workingDir: '/tmp', user: '1000', env: { X: '1' } })).stdout, '1 /tmp 1000\n');
});

test('files, directories, content and archives go in', LIMIT, async (t) => {
  writeFileSync(join(dir, 'f'), 'a file');
  mkdirSync(join(dir, 'd/e'), { recursive: true });
  writeFileSync(join(dir, 'd/e/g'), 'deep');
  const c = await up(t, sleeper()
    .withCopyFilesToContainer([{ source: join(dir, 'f'), target: '/tmp/f', mode: 0o600 }])
    .withCopyDirectoriesToContainer([{ source: join(dir, 'd'), target: '/tmp/d' }])
    .withCopyContentToContainer([{ content: 'text', target: '/tmp/t' }, { content: Readable.from(['stream']), target: '/tmp/s' }]));
  assert.equal(await run(c, 'sh', '-c', 'cat /tmp/f /tmp/d/e/g /tmp/t /tmp/s; stat -c %a /tmp/f'), 'a filedeeptextstream600\n');
  await c.copyFilesToContainer([{ source: join(dir, 'f'), target: '/opt/later' }]);
  await c.copyDirectoriesToContainer([{ source: join(dir, 'd'), target: '/opt/dir' }]);
  await c.copyContentToContainer([{ content: 'more', target: '/opt/more' }]);
  await c.copyArchiveToContainer(await c.copyArchiveFromContainer('/tmp/d'), '/srv');
  assert.equal(await run(c, 'sh', '-c', 'cat /opt/later /opt/dir/e/g /opt/more /srv/d/e/g'), 'a filedeepmoredeep');
});

test('an archive comes out', LIMIT, async (t) => {
  const c = await up(t, sleeper());
  await c.exec(['sh', '-c', 'echo inside >/tmp/x']);
  assert.match(await text(await c.copyArchiveFromContainer('/tmp/x')), /inside\n/);
});

test('logs, whole and from a time', LIMIT, async (t) => {
  const lines = [];
  const c = await up(t, new GenericContainer(IMAGE).withCommand(['sh', '-c', 'echo one; echo two >&2; exec sleep 1000'])
    .withLogConsumer((s) => s.on('data', (l) => lines.push(String(l))).on('err', (l) => lines.push(String(l)))).withWaitStrategy(Wait.forLogMessage('one')));
  const s = await c.logs();
  assert.match(String((await once(s, 'data'))[0]), /one|two/);
  s.destroy();
  (await c.logs({ since: Math.floor(Date.now() / 1000) - 5, tail: 1 })).destroy();
  await until(() => lines.join('').includes('two'), 'the log consumer');
});

test('bind mounts', LIMIT, async (t) => {
  const c = await up(t, sleeper().withBindMounts([{ source: dir, target: '/host', mode: 'ro' }]));
  writeFileSync(join(dir, 'seen'), 'live');
  assert.equal(await run(c, 'cat', '/host/seen'), 'live');
  assert.notEqual((await c.exec(['touch', '/host/no'])).exitCode, 0);
});

test('tmpfs with options', LIMIT, async (t) => {
  const c = await up(t, sleeper().withTmpFs({ '/scratch': 'rw,noexec,nosuid,size=65536k' }));
  assert.match(await run(c, 'grep', ' /scratch ', '/proc/mounts'), /^tmpfs \/scratch tmpfs .*noexec.*size=65536k/);
});

test('a network, and a name by an alias', LIMIT, async (t) => {
  const network = await up(t, new Network());
  const web = await up(t, server().withNetwork(network).withNetworkAliases('www', 'site'));
  const c = await up(t, sleeper().withNetwork(network));
  assert.equal(await run(c, 'wget', '-q', '-O', '-', 'http://www:8080/'), 'page\n');
  assert.equal(await run(c, 'wget', '-q', '-O', '-', 'http://site:8080/'), 'page\n');
  assert.match(web.getIpAddress(network.getName()), /^\d+\.\d+\.\d+\.\d+$/);
});

test('a network without aliases, and one mode', LIMIT, async (t) => {
  const network = await up(t, new Network());
  const c = await up(t, sleeper().withNetwork(network));
  assert.ok(c.getNetworkNames().includes(network.getName()));
  const other = await up(t, sleeper().withNetworkMode('none'));
  assert.ok(other.getId());
});

test('options of a container', LIMIT, async (t) => {
  const c = await up(t, sleeper().withName(`named-${process.pid}`).withHostname('host1').withEnvironment({ A: 'b' }).withLabels({ l: '1' }).withUser('1000').withWorkingDir('/tmp')
    .withExtraHosts([{ host: 'db', ipAddress: '192.0.2.4' }]).withSharedMemorySize(1 << 20).withResourcesQuota({ memory: 0.1, cpu: 0.5 })
    .withUlimits({ nofile: { hard: 100, soft: 100 } }).withDroppedCapabilities('NET_RAW').withDefaultLogDriver().withEntrypoint(['sleep']).withCommand(['1000']));
  assert.equal(await run(c, 'sh', '-c', 'echo $A $(hostname) $(id -u) $(pwd) $(ulimit -n)'), 'b host1 1000 /tmp 100\n');
  const seen = await docker.getContainer(c.getId()).inspect();
  assert.deepEqual([seen.Config.Labels.l, seen.HostConfig.NanoCpus], ['1', 500000000]);
});

test('added capabilities and privileged mode', LIMIT, async (t) => {
  const c = await up(t, sleeper().withAddedCapabilities('NET_ADMIN'));
  assert.ok(c.getId());
  await assert.rejects(sleeper().withPrivilegedMode().start(), /rivileged/);
});

test('commit', LIMIT, async (t) => {
  const c = await up(t, sleeper());
  await c.exec(['sh', '-c', 'echo kept >/kept']);
  const image = await c.commit({ repo: 'snapshot', tag: String(process.pid), changes: ['ENV X=1'], author: 'me', comment: 'why', deleteOnExit: false });
  const d = await up(t, new GenericContainer(image).withCommand(['sleep', '100']));
  assert.equal(await run(d, 'sh', '-c', 'cat /kept; echo $X'), 'kept\n1\n');
});

test('restart keeps what was written, and maps the ports anew', LIMIT, async (t) => {
  const c = await up(t, server());
  await c.exec(['touch', '/kept']);
  await c.restart();
  assert.equal((await c.exec(['test', '-e', '/kept'])).exitCode, 0);
  assert.equal(await page(`http://${c.getHost()}:${c.getMappedPort(8080)}/`), 'page\n');
});

test('stop with a timeout, and without removal', LIMIT, async (t) => {
  const c = await new GenericContainer(IMAGE).withCommand(['sh', '-c', "trap 'echo bye; exit 0' TERM; while :; do sleep 0.1; done"]).start();
  const stopped = await c.stop({ remove: false, timeout: 3000 });
  assert.match(await text(await stopped.copyArchiveFromContainer('/etc/passwd')), /root/);
  assert.equal((await docker.getContainer(c.getId()).inspect()).State.ExitCode, 0);
  await docker.getContainer(c.getId()).remove();
});

test('reuse finds the container again', LIMIT, async (t) => {
  process.env.TESTCONTAINERS_REUSE_ENABLE = 'true';
  const one = await sleeper().withLabels({ reuse: 'yes' }).withReuse().start();
  const two = await sleeper().withLabels({ reuse: 'yes' }).withReuse().start();
  assert.equal(two.getId(), one.getId());
  await two.stop();
});

test('auto-removal, and a pull policy', LIMIT, async (t) => {
  const c = await sleeper().withAutoRemove(true).withPullPolicy(PullPolicy.defaultPolicy()).start();
  await c.stop();
  await until(async () => docker.getContainer(c.getId()).inspect().then(() => false, (e) => e.statusCode === 404), 'it is removed');
});

test('an image from a Dockerfile', LIMIT, async (t) => {
  const context = mkdtempSync(join(tmpdir(), 'build-'));
  writeFileSync(join(context, 'Dockerfile'), `FROM ${IMAGE}\nARG WHAT\nRUN echo $WHAT >/built\nCMD ["sleep", "1000"]\n`);
  const made = await GenericContainer.fromDockerfile(context).withBuildArgs({ WHAT: 'made' }).build('built:1', { deleteOnExit: false });
  const c = await up(t, made);
  assert.equal(await run(c, 'cat', '/built'), 'made\n');
});

test('a compose project', LIMIT, async (t) => {
  const project = mkdtempSync(join(tmpdir(), 'compose-'));
  writeFileSync(join(project, 'compose.yml'), `services:\n  web:\n    image: ${IMAGE}\n    command: ${JSON.stringify(HTTPD)}\n    ports: ["8080"]\n    stop_grace_period: 1s\n`);
  const env = await new DockerComposeEnvironment(project, 'compose.yml').withWaitStrategy('web-1', Wait.forLogMessage('ready')).up();
  const c = env.getContainer('web-1');
  assert.equal(await page(`http://${c.getHost()}:${c.getMappedPort(8080)}/`), 'page\n');
  await env.down();
});

test('what a session leaves is removed by its reaper', { timeout: 60_000, skip: process.env.TESTCONTAINERS_RYUK_DISABLED ? 'without the reaper' : false }, async () => {
  const { spawnSync } = await import('node:child_process');
  const script = `import { GenericContainer } from 'testcontainers';
    const c = await new GenericContainer('${IMAGE}').withCommand(['sleep', '1000']).start(); console.log(c.getId()); process.exit(0);`;
  writeFileSync(new URL('./leaves.mjs', import.meta.url), script);
  const p = spawnSync(process.execPath, [new URL('./leaves.mjs', import.meta.url).pathname], { encoding: 'utf8' });
  const id = p.stdout.trim();
  assert.match(id, /^[0-9a-f]{64}$/, p.stderr);
  await until(async () => docker.getContainer(id).inspect().then(() => false, (e) => e.statusCode === 404), 'the reaper removes it', 40_000);
  assert.ok(readFileSync('/proc/self/stat').length);
});
