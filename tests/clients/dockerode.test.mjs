// dockerode, unmodified: every method of its README against one daemon. What its own repository tests beside this is in the suite dockerode-suite.
import assert from 'node:assert/strict';
import { createWriteStream, mkdtempSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { after, test } from 'node:test';
import { execFileSync } from 'node:child_process';
import Docker from 'dockerode';
import { IMAGE, LIMIT, text, until } from './harness.mjs';

const docker = new Docker({ socketPath: process.env.DOCKER_SOCKET });
const dir = mkdtempSync(join(tmpdir(), 'dockerode-'));

// Docker's client keeps connections open: the process would wait until the daemon closes them.
after(() => setTimeout(() => process.exit(), 1000).unref());

/** A container that is removed with the test. */
async function made(t, options = {}) {
  const c = await docker.createContainer({ Image: IMAGE, Cmd: ['sleep', '1000'], ...options });
  t.after(() => c.remove({ force: true, v: true }).catch(() => {}));
  return c;
}

async function running(t, options) {
  const c = await made(t, options);
  await c.start();
  return c;
}

/** A multiplexed stream as [stdout, stderr]. */
async function sides(stream) {
  const two = [new PassThrough(), new PassThrough()];
  const said = two.map(text);
  docker.modem.demuxStream(stream, ...two);
  stream.once('end', () => setImmediate(() => two.forEach((s) => s.end())));
  return Promise.all(said);
}

async function executed(c, Cmd, options = {}, start = {}) {
  const e = await c.exec({ Cmd, AttachStdout: true, AttachStderr: true, ...options });
  const [out, err] = await sides(await e.start(start));
  return { out, err, code: (await e.inspect()).ExitCode };
}
const follow = (stream) => new Promise((ok, no) => docker.modem.followProgress(stream, (e, all) => (e ? no(e) : ok(all))));
const status = (promise, code) => assert.rejects(promise, (e) => e.statusCode === code || assert.fail(`${e.statusCode}: ${e.message}`));

test('ping, version, info, df', LIMIT, async () => {
  assert.equal(String(await docker.ping()), 'OK');
  const v = await docker.version();
  for (const key of ['Version', 'ApiVersion', 'MinAPIVersion', 'Os', 'Arch', 'KernelVersion', 'GoVersion']) assert.ok(v[key], key);
  const i = await docker.info();
  for (const key of ['ID', 'Driver', 'CgroupDriver', 'CgroupVersion', 'KernelVersion', 'OperatingSystem', 'NCPU', 'MemTotal', 'Name', 'ServerVersion']) assert.ok(i[key], key);
  assert.ok(Array.isArray((await docker.df()).Images));
});

test('create, inspect, start, stop, restart, kill, wait, remove', LIMIT, async (t) => {
  const c = await made(t, { name: 'life', Env: ['A=b'], Labels: { l: '1' }, ExposedPorts: { '80/tcp': {} }, HostConfig: { Memory: 64 << 20 } });
  assert.equal((await c.inspect()).State.Status, 'created');
  await c.start();
  await status(c.start(), 304);
  assert.equal((await c.inspect()).State.Running, true);
  await c.restart({ t: 0 });
  await c.kill({ signal: 'SIGKILL' });
  assert.deepEqual((await c.wait()).StatusCode, 137);
  await c.start();
  await c.stop({ t: 0 });
  await status(c.stop(), 304);
  await c.remove();
  await status(c.inspect(), 404);
});

test('a name twice, an image that is not there, a container that is not there', LIMIT, async (t) => {
  await made(t, { name: 'taken' });
  await status(docker.createContainer({ Image: IMAGE, name: 'taken' }), 409);
  await status(docker.createContainer({ Image: 'nosuch:1' }), 404);
  await status(docker.getContainer('nosuch').start(), 404);
  await status(docker.getImage('nosuch').inspect(), 404);
  await status(docker.getVolume('nosuch').inspect(), 404);
  await status(docker.getNetwork('nosuch').inspect(), 404);
  const c = await made(t, { HostConfig: { NetworkMode: 'nosuch' } }).catch((e) => e);
  if (!(c instanceof Error)) await status(c.start(), 404);
  else assert.equal(c.statusCode, 404, c.message);
});

test('attach before the start: both streams and stdin', LIMIT, async (t) => {
  const c = await made(t, { Cmd: ['sh', '-c', 'cat; echo err >&2'], OpenStdin: true, StdinOnce: true, AttachStdin: true });
  const s = await c.attach({ stream: true, stdin: true, stdout: true, stderr: true, hijack: true });
  const said = sides(s);
  await c.start();
  s.end('typed\n');
  assert.deepEqual(await said, ['typed\n', 'err\n']);
  assert.equal((await c.wait()).StatusCode, 0);
});

test('attach to a terminal, and its size', LIMIT, async (t) => {
  const c = await made(t, { Cmd: ['sh', '-c', 'read x; stty size; echo got $x'], Tty: true, OpenStdin: true });
  const s = await c.attach({ stream: true, stdin: true, stdout: true, stderr: true, hijack: true });
  const said = text(s);
  await c.start();
  await c.resize({ h: 30, w: 100 });
  s.write('line\n');
  assert.match(await said, /30 100\r\ngot line\r\n/);
});

test('docker.run', LIMIT, async () => {
  let said = '';
  const out = new Writable({ write: (d, _, done) => { said += d; done(); } });
  const [result, c] = await docker.run(IMAGE, ['sh', '-c', 'echo through run; exit 3'], out, { HostConfig: { AutoRemove: false }, Tty: false });
  assert.equal(result.StatusCode, 3);
  assert.match(said, /through run/);
  await c.remove();
});

test('exec: streams, status, stdin, terminal, detached', LIMIT, async (t) => {
  const c = await running(t);
  assert.deepEqual(await executed(c, ['sh', '-c', 'echo o; echo e >&2; exit 5']), { out: 'o\n', err: 'e\n', code: 5 });
  assert.equal((await executed(c, ['sh', '-c', 'echo $X $(pwd) $(id -u)'], { Env: ['X=1'], WorkingDir: '/tmp', User: '1000' })).out, '1 /tmp 1000\n');
  const e = await c.exec({ Cmd: ['cat'], AttachStdin: true, AttachStdout: true, AttachStderr: true });
  const s = await e.start({ hijack: true, stdin: true });
  const said = sides(s);
  s.end('fed');
  assert.equal((await said)[0], 'fed');
  const tty = await c.exec({ Cmd: ['sh', '-c', 'tty; exec cat'], AttachStdin: true, AttachStdout: true, Tty: true });
  const ts = await tty.start({ hijack: true, stdin: true, Tty: true });
  const [first] = await once(ts, 'data');
  assert.match(String(first), /\/dev\/pts/);
  await tty.resize({ h: 20, w: 60 });
  ts.write('\x04');
  await once(ts.resume(), 'end');
  const d = await c.exec({ Cmd: ['touch', '/tmp/detached'] });
  await d.start({ Detach: true });
  await until(async () => (await executed(c, ['test', '-e', '/tmp/detached'])).code === 0, 'the detached exec');
});

test('an exec of a terminal that is started without one is framed', LIMIT, async (t) => {
  const c = await running(t);
  const e = await c.exec({ Cmd: ['printf', 'framed'], AttachStdout: true, Tty: true });
  const all = [];
  for await (const d of await e.start({ Tty: false })) all.push(d);
  assert.deepEqual([...Buffer.concat(all).subarray(0, 8)], [1, 0, 0, 0, 0, 0, 0, 6]);
});

test('logs: whole, followed, with times and tails', LIMIT, async (t) => {
  const c = await running(t, { Cmd: ['sh', '-c', 'echo one; echo two >&2; echo three; exec sleep 1000'] });
  await until(async () => String(await c.logs({ stdout: true })).includes('three'), 'the lines');
  const whole = await c.logs({ stdout: true, stderr: true });
  assert.equal(whole.readUInt8(0), 1);
  assert.match(String(await c.logs({ stdout: true, timestamps: true, tail: 1 })), /\d{4}-\d\d-\d\dT[\d:.]+Z three\n/);
  const s = await c.logs({ stdout: true, stderr: true, follow: true });
  const said = sides(s);
  await c.kill();
  assert.deepEqual(await said, ['one\nthree\n', 'two\n']);
});

test('stats, once and as a stream', LIMIT, async (t) => {
  const c = await running(t, { HostConfig: { Memory: 64 << 20 } });
  const one = await c.stats({ stream: false });
  assert.ok(one.memory_stats.limit === 64 << 20 && one.cpu_stats.cpu_usage.total_usage > 0 && one.pids_stats.current > 0, JSON.stringify(one).slice(0, 300));
  const s = await c.stats({ stream: true });
  assert.ok(JSON.parse(String((await once(s, 'data'))[0])).read);
  s.destroy();
});

test('top, changes, export, rename, update, pause', LIMIT, async (t) => {
  const c = await running(t);
  const top = await c.top({ ps_args: '-ef' });
  assert.equal(top.Titles.at(-1), 'CMD');
  assert.match(top.Processes[0].at(-1), /^sleep 1000$/);
  await executed(c, ['touch', '/new']);
  assert.ok((await c.changes()).some((x) => x.Path === '/new' && x.Kind === 1));
  const names = execFileSync('tar', ['-t'], { input: Buffer.concat(await (await c.export()).toArray()) }).toString();
  assert.match(names, /^(\.\/)?new$/m);
  await c.rename({ name: 'renamed' });
  assert.equal((await c.inspect()).Name, '/renamed');
  await c.update({ RestartPolicy: { Name: 'on-failure', MaximumRetryCount: 2 } });
  await c.pause();
  assert.equal((await c.inspect()).State.Paused, true);
  await c.unpause();
});

test('update of limits', LIMIT, async (t) => {
  const c = await running(t, { HostConfig: { Memory: 64 << 20 } });
  await c.update({ Memory: 96 << 20, MemorySwap: 96 << 20, NanoCpus: 500000000, CpuShares: 512, PidsLimit: 70 });
  assert.equal((await c.inspect()).HostConfig.Memory, 96 << 20);
});

test('archives in and out, and what is at a path', LIMIT, async (t) => {
  const c = await running(t);
  writeFileSync(join(dir, 'f'), 'content');
  execFileSync('tar', ['-C', dir, '-cf', join(dir, 'a.tar'), 'f']);
  await c.putArchive(join(dir, 'a.tar'), { path: '/tmp' });
  assert.equal((await executed(c, ['cat', '/tmp/f'])).out, 'content');
  const back = Buffer.concat(await (await c.getArchive({ path: '/tmp/f' })).toArray());
  assert.equal(execFileSync('tar', ['-xO'], { input: back }).toString(), 'content');
  const info = await c.infoArchive({ path: '/tmp/f' });
  const stat = JSON.parse(Buffer.from(info.headers['x-docker-container-path-stat'], 'base64'));
  assert.deepEqual([stat.name, stat.size], ['f', 7]);
  await status(c.getArchive({ path: '/nosuch' }), 404);
});

test('commit with changes', LIMIT, async (t) => {
  const c = await running(t);
  await executed(c, ['sh', '-c', 'echo x >/made']);
  const { Id } = await c.commit({ repo: 'committed', tag: '1', comment: 'why', author: 'me', changes: 'ENV Z=1' });
  const seen = await docker.getImage('committed:1').inspect();
  assert.deepEqual([seen.Id, seen.Author, seen.Comment], [Id, 'me', 'why']);
  assert.ok(seen.Config.Env.includes('Z=1'));
  await docker.getImage('committed:1').remove();
});

test('list of containers, filters and prune', LIMIT, async (t) => {
  const c = await running(t, { Labels: { find: 'me' } });
  const dead = await made(t, { Labels: { find: 'me' } });
  assert.equal((await docker.listContainers({ filters: { label: ['find=me'] } })).length, 1);
  assert.equal((await docker.listContainers({ all: true, filters: '{"label":["find=me"]}' })).length, 2);
  assert.equal((await docker.listContainers({ all: true, limit: 1 })).length, 1);
  const pruned = await docker.pruneContainers({ filters: { label: ['find=me'] } });
  assert.deepEqual([pruned.ContainersDeleted, typeof pruned.SpaceReclaimed], [[dead.id], 'number']);
  assert.ok(c.id);
});

test('images: list, inspect, history, tag, get, load, remove', LIMIT, async () => {
  assert.ok((await docker.listImages({ filters: { reference: ['alpine'] } })).length >= 1);
  const image = docker.getImage(IMAGE);
  const seen = await image.inspect();
  assert.ok(seen.Id && seen.Architecture && seen.RootFS.Layers.length > 0 && seen.Size > 0);
  assert.ok(Array.isArray(await image.history()));
  await image.tag({ repo: 'copy', tag: '1' });
  await pipeline(await docker.getImage('copy:1').get(), createWriteStream(join(dir, 'image.tar')));
  await docker.getImage('copy:1').remove();
  assert.match(JSON.stringify(await follow(await docker.loadImage(join(dir, 'image.tar')))), /copy:1/);
  await docker.getImage('copy:1').remove({ force: true });
  const c = await docker.createContainer({ Image: IMAGE, Cmd: ['true'] });
  await pipeline(await c.export(), createWriteStream(join(dir, 'fs.tar')));
  await c.remove();
  await follow(await docker.importImage(join(dir, 'fs.tar'), { repo: 'imported', tag: '1' }));
  assert.ok((await docker.getImage('imported:1').inspect()).Id);
  await docker.getImage('imported:1').remove();
  assert.equal(typeof (await docker.pruneImages()).SpaceReclaimed, 'number');
});

test('a pull of what is in the store', LIMIT, async () => {
  assert.ok((await follow(await docker.pull(IMAGE))).length > 0);
  assert.ok((await follow(await docker.createImage({ fromImage: 'alpine', tag: 'latest' }))).length > 0);
});

test('volumes', LIMIT, async (t) => {
  const v = await docker.createVolume({ Name: 'vol', Labels: { a: 'b' } });
  t.after(() => docker.getVolume('vol').remove({ force: true }).catch(() => {}));
  assert.equal((v.inspect ? await docker.getVolume('vol').inspect() : v).Labels.a, 'b');
  assert.equal((await docker.listVolumes({ filters: { label: ['a=b'] } })).Volumes.length, 1);
  const c = await running(t, { HostConfig: { Mounts: [{ Type: 'volume', Source: 'vol', Target: '/d', VolumeOptions: { Labels: { x: 'y' } } }] } });
  await executed(c, ['touch', '/d/f']);
  await status(docker.getVolume('vol').remove(), 409);
  await c.remove({ force: true });
  await docker.getVolume('vol').remove();
  const anonymous = await docker.createVolume({});
  assert.ok((await docker.pruneVolumes()).VolumesDeleted.includes(anonymous.Name ?? anonymous.name));
});

test('networks: create, list, inspect, remove, prune', LIMIT, async (t) => {
  const n = await docker.createNetwork({ Name: 'net', Driver: 'bridge', Labels: { a: 'b' }, CheckDuplicate: true, Internal: false });
  t.after(() => n.remove().catch(() => {}));
  assert.equal((await n.inspect()).Name, 'net');
  assert.equal((await docker.listNetworks({ filters: { name: ['net'] } })).length, 1);
  const c = await running(t, { HostConfig: { NetworkMode: 'net' }, NetworkingConfig: { EndpointsConfig: { net: { Aliases: ['other'] } } } });
  assert.ok((await n.inspect()).Containers[c.id]);
  await status(n.remove(), 403);
  await c.remove({ force: true });
  await n.remove();
  await docker.createNetwork({ Name: 'pruned' });
  assert.deepEqual((await docker.pruneNetworks()).NetworksDeleted, ['pruned']);
});

test('networks: connect and disconnect', LIMIT, async (t) => {
  const n = await docker.createNetwork({ Name: 'joined', IPAM: { Config: [{ Subnet: '10.79.0.0/24' }] } }).catch(() => docker.createNetwork({ Name: 'joined' }));
  t.after(() => n.remove().catch(() => {}));
  const c = await running(t);
  await n.connect({ Container: c.id, EndpointConfig: { Aliases: ['web'] } });
  assert.ok((await c.inspect()).NetworkSettings.Networks.joined);
  await n.disconnect({ Container: c.id, Force: true });
  assert.equal((await c.inspect()).NetworkSettings.Networks.joined, undefined);
});

test('networks: IPAM', LIMIT, async (t) => {
  const n = await docker.createNetwork({ Name: 'ipam', IPAM: { Driver: 'default', Config: [{ Subnet: '10.80.0.0/24', Gateway: '10.80.0.1' }] } });
  t.after(() => n.remove().catch(() => {}));
  assert.equal((await n.inspect()).IPAM.Config[0].Subnet, '10.80.0.0/24');
});

test('events of containers, images, volumes and networks', LIMIT, async () => {
  const since = Math.floor(Date.now() / 1000) - 1;
  const c = await docker.createContainer({ Image: IMAGE, Cmd: ['true'] });
  await c.start();
  await c.wait();
  await c.remove();
  await docker.createVolume({ Name: 'event' });
  await docker.getVolume('event').remove();
  await (await docker.createNetwork({ Name: 'event' })).remove();
  const all = (await text(await docker.getEvents({ since, until: Math.floor(Date.now() / 1000) + 1 }))).trim().split('\n').map((l) => JSON.parse(l));
  const seen = new Set(all.map((e) => `${e.Type} ${e.Action}`));
  for (const want of ['container create', 'container start', 'container die', 'container destroy', 'volume create', 'volume destroy', 'network create', 'network destroy']) {
    assert.ok(seen.has(want), `${want} is not in ${[...seen]}`);
  }
});

test('an abort of a stream ends it', LIMIT, async (t) => {
  const c = await running(t);
  const aborter = new AbortController();
  const waiting = c.wait({ abortSignal: aborter.signal });
  setTimeout(() => aborter.abort(), 200);
  await assert.rejects(waiting);
  assert.equal((await c.inspect()).State.Running, true);
});

test('a build from files', LIMIT, async () => {
  writeFileSync(join(dir, 'Dockerfile'), `FROM ${IMAGE}\nRUN echo x >/x\n`);
  await follow(await docker.buildImage({ context: dir, src: ['Dockerfile'] }, { t: 'made:1' }));
  assert.ok((await docker.getImage('made:1').inspect()).Id);
});

test('plugins and swarm answer as an engine without them', LIMIT, async () => {
  assert.deepEqual(await docker.listPlugins(), []);
  await status(docker.listServices(), 503);
  await status(docker.listNodes(), 503);
  await status(docker.swarmInspect(), 503);
});
