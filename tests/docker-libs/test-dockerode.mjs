// dockerode, unmodified, as its README uses it, and dockerode-compose on top of it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createReadStream, createWriteStream, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { after } from 'node:test';
import { Engine, IMAGE, available, test, text } from './harness.mjs';

const engine = new Engine();
let docker, DockerodeCompose;
if (available) {
  const { default: Docker } = await import('dockerode');
  ({ default: DockerodeCompose } = await import('dockerode-compose'));
  await engine.start();
  docker = new Docker({ socketPath: engine.socket });
}
after(() => available && engine.stop());

/** A multiplexed stream as [stdout, stderr]. */
async function demux(stream) {
  const sides = [new PassThrough(), new PassThrough()];
  const said = sides.map(text);
  docker.modem.demuxStream(stream, ...sides);
  stream.once('end', () => setImmediate(() => sides.forEach((s) => s.end())));
  return Promise.all(said);
}

const follow = (stream) => new Promise((ok, no) => docker.modem.followProgress(stream, (e, all) => (e ? no(e) : ok(all))));
const refused = (promise, status, words) => assert.rejects(promise, (e) => e.statusCode === status && e.message.includes(words));
const sleeper = (more = {}) => docker.createContainer({ Image: IMAGE, Cmd: ['sleep', '1000'], ...more }).then((c) => c.start().then(() => c));

test('createContainer sends its options in the query, too, and the name in the body', async () => {
  const env = Array.from({ length: 800 }, (_, i) => `V${i}=${'x'.repeat(40)}`);
  const c = await docker.createContainer({
    Image: IMAGE, AttachStdin: false, AttachStdout: true, AttachStderr: true, Tty: true, Cmd: ['/bin/sh', '-c', 'echo up; exec sleep 1000'],
    OpenStdin: false, StdinOnce: false, name: 'first', Env: ['A=b', ...env], ExposedPorts: { '80/tcp': {} }, Labels: { a: 'b' },
    HostConfig: { Memory: 64 << 20, PortBindings: { '80/tcp': [{ HostPort: '' }] }, AutoRemove: false },
  });
  await c.start();
  const seen = await c.inspect();
  assert.deepEqual([seen.Name, seen.State.Status, seen.HostConfig.Memory], ['/first', 'running', 64 << 20]);
  assert.equal((await docker.listContainers({ filters: { label: ['a=b'] } })).length, 1);
  const said = async () => String(await c.logs({ stdout: true, stderr: true }));
  for (const end = Date.now() + 60_000; (await said()) === '' && Date.now() < end; );
  assert.equal(await said(), 'up\r\n');
  await c.remove({ force: true, v: true });
});

test('isolation and limits are refused where they are not taken', async () => {
  const before = (await docker.listContainers({ all: true })).length;
  await refused(docker.createContainer({ Image: IMAGE, HostConfig: { Privileged: true } }), 403, 'HostConfig.Privileged');
  await refused(docker.createContainer({ Image: IMAGE, Memory: 64 << 20 }), 400, 'Memory: ');
  await refused(docker.createContainer({ Image: IMAGE, hostconfig: { Privileged: true } }), 403, 'HostConfig.Privileged');
  const c = await docker.createContainer({ Image: IMAGE });
  await refused(c.start({ Binds: ['/srv:/srv'] }), 400, 'Binds: ');
  await c.remove();
  assert.equal((await docker.listContainers({ all: true })).length, before);
});

test('exec: hijacked with input, by a plain stream, detached, of a terminal', async () => {
  const c = await sleeper();
  let e = await c.exec({ Cmd: ['sh', '-c', 'cat; echo err >&2; exit 4'], AttachStdin: true, AttachStdout: true, AttachStderr: true });
  let s = await e.start({ hijack: true, stdin: true });
  s.end('hello');
  assert.deepEqual(await demux(s), ['hello', 'err\n']);
  assert.equal((await e.inspect()).ExitCode, 4);
  for (const options of [{}, { Detach: false, Tty: false }, { hijack: true, stdin: false }]) {
    e = await c.exec({ Cmd: ['echo', 'x'], AttachStdout: true, AttachStderr: true });
    assert.deepEqual(await demux(await e.start(options)), ['x\n', ''], JSON.stringify(options));
  }
  e = await c.exec({ Cmd: ['true'] });
  await e.start({ Detach: true });
  e = await c.exec({ Cmd: ['sh', '-c', 'test -t 0 && echo tty'], AttachStdin: true, AttachStdout: true, Tty: true });
  s = await e.start({ hijack: true, stdin: true, Tty: true });
  assert.equal(await text(s), 'tty\r\n');
  await c.remove({ force: true });
});

test('attach before the start, with input and without', async () => {
  let c = await docker.createContainer({ Image: IMAGE, Cmd: ['cat'], OpenStdin: true, StdinOnce: true, AttachStdin: true });
  let s = await c.attach({ stream: true, hijack: true, stdin: true, stdout: true, stderr: true });
  await c.start();
  s.end('abc');
  assert.deepEqual(await demux(s), ['abc', '']);
  assert.equal((await c.wait()).StatusCode, 0);
  await c.remove();
  c = await docker.createContainer({ Image: IMAGE, Tty: true, Cmd: ['echo', 'q'] });
  s = await c.attach({ stream: true, stdout: true, stderr: true });
  await c.start();
  assert.equal(await text(s), 'q\r\n');
  await c.remove();
});

test('docker.run', async () => {
  // Its answer is that of wait, on another connection than the output: this is whole when its streams have ended.
  const out = new PassThrough();
  const [said, [end, c]] = await Promise.all([text(out), docker.run(IMAGE, ['sh', '-c', 'echo ran'], out)]);
  await c.remove();
  assert.deepEqual([end.StatusCode, said], [0, 'ran\r\n']);
  const sides = [new PassThrough(), new PassThrough()];
  const [one, other, [status]] = await Promise.all([...sides.map(text), docker.run(IMAGE, ['sh', '-c', 'echo ran; echo err >&2; exit 3'], sides, { Tty: false, name: 'removed', HostConfig: { AutoRemove: true } })]);
  assert.deepEqual([status.StatusCode, one, other], [3, 'ran\n', 'err\n']);
});

test('verbs, archives, commit', async () => {
  const c = await sleeper();
  writeFileSync(join(engine.dir, 'f.txt'), 'abc');
  execFileSync('tar', ['-C', engine.dir, '-cf', join(engine.dir, 'f.tar'), 'f.txt']);
  await text(await c.putArchive(join(engine.dir, 'f.tar'), { path: '/tmp' }));
  assert.match(await text(await c.getArchive({ path: '/tmp/f.txt' })), /abc/);
  assert.ok(await c.infoArchive({ path: '/tmp/f.txt' }));
  assert.deepEqual((await c.changes()).filter((f) => f.Kind === 1).map((f) => f.Path), ['/tmp/f.txt']);
  assert.equal((await c.top({ ps_args: '-ef' })).Processes.length, 1);
  assert.equal((await c.stats({ stream: false })).name, (await c.inspect()).Name);
  await c.update({ RestartPolicy: { Name: 'no' } });
  for (const options of [{ repo: 'snap', tag: '1', comment: 'x', author: 'y', pause: true }, { repo: 'snap', tag: '2', changes: ['CMD ["echo","hi"]'] }]) {
    assert.match((await c.commit(options)).Id, /^sha256:/);
  }
  await c.rename({ name: 'renamed' });
  await c.pause();
  await c.unpause();
  await c.resize({ h: 20, w: 80 });
  await c.kill({ signal: 'SIGCONT' });
  await c.restart({ t: 0 });
  const waits = c.wait({ condition: 'not-running' });
  await c.stop({ t: 0 });
  assert.equal((await waits).StatusCode, 137);
  await c.start({});
  await c.remove({ force: true });
});

test('streams of JSON: events, stats, load, pull', async () => {
  const events = await docker.getEvents({ filters: { type: ['container'] } });
  const c = await sleeper();
  assert.equal(JSON.parse((await once(events, 'data'))[0]).Action, 'create');
  events.destroy();
  const stats = await c.stats({ stream: true });
  for (let i = 0; i < 2; i++) assert.equal(JSON.parse((await once(stats, 'data'))[0]).name, (await c.inspect()).Name);
  stats.destroy();
  await c.remove({ force: true });
  const archive = join(engine.dir, 'saved.tar');
  await pipeline(await docker.getImage(IMAGE).get(), createWriteStream(archive));
  assert.deepEqual(await follow(await docker.loadImage(archive)), [{ stream: `Loaded image: ${IMAGE}\n` }]);
  assert.match(await text(await docker.loadImage(createReadStream(archive), { quiet: true })), /Loaded image/);
  assert.match((await follow(await docker.pull(IMAGE)))[0].status, /up to date/);
  assert.match(await text(await docker.createImage({ fromImage: IMAGE.split(':')[0], tag: '1' })), /up to date/);
  await refused(docker.pull('nosuch:1'), 404, 'nosuch:1');
});

test('images, networks, volumes, the engine', async () => {
  await docker.getImage(IMAGE).tag({ repo: 'other', tag: '3' });
  assert.ok((await docker.listImages({ all: true })).some((i) => i.RepoTags.includes('other:3')));
  assert.ok(Array.isArray(await docker.getImage('other:3').history()));
  await docker.getImage('other:3').remove({ force: true, noprune: false });
  const net = await docker.createNetwork({
    Name: 'net', Driver: 'bridge', CheckDuplicate: true, Internal: false, Attachable: false, Ingress: false, EnableIPv6: false, Options: {}, Labels: {},
    IPAM: { Driver: 'default', Config: [], Options: {} }, Nosuch: 1,
  });
  assert.equal((await net.inspect({ verbose: true })).Name, 'net');
  await net.remove();
  await docker.createVolume({ Name: 'vol', Driver: 'local', DriverOpts: {}, Labels: {}, Nosuch: 1 });
  await docker.getVolume('vol').remove({ force: true });
  await docker.pruneContainers();
  await docker.pruneImages({ filters: { dangling: ['true'] } });
  await docker.pruneNetworks();
  await docker.pruneVolumes();
  await docker.pruneBuilder();
  assert.ok((await docker.df()).Images.length > 0 && (await docker.info()).ID && (await docker.version()).ApiVersion);
  assert.equal(String(await docker.ping()), 'OK');
});

test('dockerode-compose: up and down', async () => {
  const file = join(engine.dir, 'compose.yml');
  writeFileSync(file, `version: '3.3'
services:
  web:
    image: ${IMAGE}
    stop_signal: SIGKILL
    command: [sh, -c, 'echo page >/data/index.html; exec httpd -f -p 8080 -h /data']
    ports: ['127.0.0.1:0:8080']
    environment: { A: b }
    restart: always
    volumes: ['data:/data']
    networks: [back]
  client:
    image: ${IMAGE}
    command: [sleep, '1000']
    stop_signal: SIGKILL
    depends_on: [web]
    networks: [back]
volumes:
  data: {}
networks:
  back: {}
`);
  const compose = new DockerodeCompose(docker, file, 'project');
  await compose.pull(null, { verbose: false });
  const up = await compose.up();
  assert.equal(up.services.length, 2);
  const states = (await docker.listContainers({ all: true })).map((c) => [c.Names[0], c.State]).sort();
  assert.deepEqual(states, [['/project_client_1', 'running'], ['/project_web_1', 'running']]);
  await compose.down({ volumes: true });
  assert.deepEqual(await docker.listContainers({ all: true }), []);
});
