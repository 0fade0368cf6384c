// testcontainers for Node, unmodified, with its reaper: rind has it built in. Each session is a process of its own, as its reaper lives as long.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { connect } from 'node:net';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Engine, IMAGE, available, test } from './harness.mjs';
import { until } from '../workerd/harness.mjs';

const engine = new Engine();
if (available) await engine.start();
after(() => available && engine.stop());

const DOCKER = { DOCKER_HOST: `unix://${engine.socket}`, TESTCONTAINERS_RYUK_RECONNECTION_TIMEOUT: '1s' };
const HERE = fileURLToPath(new URL('.', import.meta.url));

/** Runs lines of a program with testcontainers in scope, and says what it printed. It ends without stopping anything. */
function session(lines, env = {}) {
  const program = `import { GenericContainer, Network, Wait } from 'testcontainers';\nconst IMAGE = ${JSON.stringify(IMAGE)};\n${lines}\nprocess.exit(0);`;
  return new Promise((ok, no) =>
    execFile(process.execPath, ['--input-type=module', '-e', program], { cwd: HERE, env: { ...process.env, ...DOCKER, ...env }, timeout: 100_000 }, (e, out, err) =>
      e ? no(new Error(`${e.message}\n${out}\n${err}\n${engine.said()}`)) : ok(out.trim())),
  );
}

const containers = async () => (await engine.request('GET', '/containers/json?all=1')).json;

test('what a session leaves is removed: containers, networks, volumes, images; and nothing else', async () => {
  const kept = (await engine.request('POST', '/containers/create?name=kept', { Image: IMAGE, Cmd: ['sleep', '1000'], Labels: { 'org.testcontainers.session-id': 'another-session' } })).json.Id;
  const said = await session(`
    const net = await new Network().start();
    const c = await new GenericContainer(IMAGE).withNetwork(net).withCommand(['sleep', '1000']).start();
    await c.commit({ repo: 'rind-test/made', tag: '1', deleteOnExit: true });
    await new GenericContainer(IMAGE).withCommand(['sleep', '1000']).start();
    console.log(c.getId());`);
  assert.ok((await containers()).some((c) => c.Id === said), 'it is there when its session ends');
  const reaper = (await containers()).find((c) => c.Image.startsWith('testcontainers/ryuk:'));
  assert.equal(reaper.State, 'running');
  await until(async () => (await containers()).length === 1, 'containers are removed, and the reaper with them');
  assert.deepEqual((await containers()).map((c) => c.Id), [kept]);
  const networks = (await engine.request('GET', '/networks')).json.filter((n) => !['bridge', 'none', 'host'].includes(n.Name));
  assert.deepEqual(networks, []);
  assert.equal((await engine.request('GET', '/images/rind-test/made:1/json')).status, 404);
  await engine.request('DELETE', `/containers/${kept}`);
});

test('sessions at the same time share a reaper, and it waits for the last', async () => {
  const [one, other] = await Promise.all(['500', '3000'].map((ms) => session(`
    const c = await new GenericContainer(IMAGE).withCommand(['sleep', '1000']).start();
    await new Promise((r) => setTimeout(r, ${ms}));
    console.log(c.getId());`)));
  assert.notEqual(one, other);
  await until(async () => (await containers()).length === 0, 'all are removed');
});

/** A reaper made by hand, as a client in another language makes it. -> [id, host port] */
async function reaper(name, env = [], labels = {}) {
  const made = await engine.request('POST', `/containers/create?name=${name}`, {
    Image: 'testcontainers/ryuk:0.9.0', Env: env, Labels: labels, ExposedPorts: { '8080/tcp': {} },
    HostConfig: { AutoRemove: true, Privileged: true, PublishAllPorts: true, Binds: ['/var/run/docker.sock:/var/run/docker.sock:rw'], SecurityOpt: ['label=disable'] },
  });
  assert.equal(made.status, 201, JSON.stringify(made.json));
  const id = made.json.Id;
  assert.equal((await engine.request('POST', `/containers/${id}/start`)).status, 204);
  const seen = (await engine.request('GET', `/containers/${id}/json`)).json;
  assert.deepEqual([seen.State.Status, seen.HostConfig.Privileged, seen.HostConfig.Binds, seen.Mounts], ['running', false, null, []]);
  return [id, Number(seen.NetworkSettings.Ports['8080/tcp'][0].HostPort)];
}

/** Sends lines; what is answered until the connection ends, or until as many ACKs have come. */
function tell(port, lines, keep) {
  return new Promise((ok, no) => {
    let all = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(lines));
    socket.on('data', (d) => { all += d; if (keep && all.length >= 4 * keep) ok([all, socket]); });
    // A connection that is closed with unread bytes is reset.
    socket.on('error', (e) => e.code === 'ECONNRESET' || no(e)).on('close', () => ok([all, socket]));
  });
}

const box = async (labels) => {
  const r = await engine.request('POST', '/containers/create', { Image: IMAGE, Cmd: ['true'], Labels: labels });
  assert.equal(r.status, 201, r.text);
  return r.json.Id;
};
const exists = async (id) => (await engine.request('GET', `/containers/${id}/json`)).status === 200;

test('only a connection that names the session is heard', async () => {
  const [id, port] = await reaper('testcontainers-ryuk-0123456789ab', ['RYUK_RECONNECTION_TIMEOUT=300ms']);
  const other = await box({ 'com.example': 'x' });
  const own = await box({ 'org.testcontainers.session-id': '0123456789ab', 'com.example': 'x' });
  for (const lines of ['label=com.example=x\n', 'label=com.example\n', '\n\nlabel=\n', 'name=kept\n', 'GET / HTTP/1.1\r\n', `label=${'x'.repeat(9000)}`, 'label=a=0123456789\n', 'label=%zz\n', 'label=%00\n', '&\n'])
    assert.equal((await tell(port, lines))[0], '', lines.slice(0, 40));
  // Each of these counts as a client that has left; none has asked for anything.
  await until(async () => !(await exists(id)), 'the reaper ends');
  assert.deepEqual([await exists(other), await exists(own)], [true, true]);
  for (const c of [other, own]) await engine.request('DELETE', `/containers/${c}`);
});

test('filters: all labels of a line, any line, escaped; a client that comes back is waited for', async () => {
  const [id, port] = await reaper('ryuk-fedcba9876', ['RYUK_RECONNECTION_TIMEOUT=1s']);
  const both = await box({ 'a.b': 'c=d e', s: 'fedcba9876' }), half = await box({ 'a.b': 'c=d e' }), key = await box({ only: 'key' });
  const [said, socket] = await tell(port, 'label=s%3Dfedcba9876&label=a.b%3Dc%3Dd+e\r\nlabel=only\nlabel=only\n', 3);
  assert.equal(said, 'ACK\nACK\nACK\n');
  socket.destroy();
  const [, again] = await tell(port, 'label=s=fedcba9876\n', 1);
  await new Promise((r) => setTimeout(r, 1500));
  assert.equal(await exists(both), true, engine.said());
  again.destroy();
  await until(async () => !(await exists(id)), 'the reaper ends');
  assert.deepEqual([await exists(both), await exists(half), await exists(key)], [false, true, false]);
  await engine.request('DELETE', `/containers/${half}`);
});

test('a reaper that no client comes to ends, and one that is stopped removes nothing', async () => {
  const [id] = await reaper('ryuk-a', ['RYUK_CONNECTION_TIMEOUT=300ms']);
  await until(async () => !(await exists(id)), 'it ends');
  const [second, port] = await reaper('ryuk-0123456789', ['RYUK_RECONNECTION_TIMEOUT=1ms']);
  const own = await box({ s: '0123456789' });
  const [, socket] = await tell(port, 'label=s=0123456789\n', 1);
  assert.equal((await engine.request('POST', `/containers/${second}/stop`)).status, 204);
  socket.destroy();
  assert.equal(await exists(own), true);
  await engine.request('DELETE', `/containers/${own}`);
});

test('the pull of its image is answered, and its log says Started', async () => {
  assert.equal((await engine.request('POST', '/images/create?fromImage=testcontainers/ryuk&tag=0.9.0')).status, 200);
  const [id] = await reaper('ryuk-b');
  await until(async () => /\d Started!/.test((await engine.request('GET', `/containers/${id}/logs?stdout=1&stderr=1`)).text), 'its log');
  await engine.request('DELETE', `/containers/${id}?force=1`);
});
