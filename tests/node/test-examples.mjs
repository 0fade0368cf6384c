// The examples run: the provider over its whole life, and the HTTP server with all of its paths.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import { after, test } from 'node:test';
import { parseSSEStream } from '../../clients/node/dist/index.mjs';
import { collect, daemon, until } from './harness.mjs';

const require = createRequire(import.meta.url);
const { RindProvider } = require('../../clients/node/dist/examples/provider.js');
const { sandboxServer } = require('../../clients/node/dist/examples/server.js');
const d = await daemon();

test('a provider: create, use, store, connect again, destroy', async () => {
  const provider = new RindProvider({ rind: d.client(), hostname: 'localhost:8787' });
  const box = await provider.create('mine');
  const data = randomBytes(5000);
  await box.write('/workspace/data', data);
  await box.exec('cd /usr; export KEPT=1');
  const process = await box.start('echo up; sleep 1000', { processId: 'p' });
  await process.waitForLog('up');
  const stored = JSON.parse(JSON.stringify(box.state));
  assert.deepEqual(stored, { provider: 'rind', id: 'mine' });

  await d.kill();
  await d.start();
  const later = await new RindProvider({ rind: d.client(), hostname: 'localhost:8787' }).connect(stored);
  assert.ok(Buffer.from(await later.read('/workspace/data')).equals(data));
  assert.equal((await later.exec('pwd; echo $KEPT')).stdout, '/usr\n1\n');
  assert.equal((await later.sandbox.getProcess('p')).status, 'running');
  await assert.rejects(
    provider.connect({ provider: 'docker', id: 'mine' }),
    /'mine' was made by the provider 'docker'; this is 'rind'/,
  );
  await later.destroy();
  const anew = await provider.connect(stored);
  assert.equal((await anew.sandbox.exists('/workspace/data')).exists, false);
  assert.equal(await provider.route(new Request('http://localhost/')), null);
  await anew.destroy();
});

test('a server that gives out sandboxes', async () => {
  const server = sandboxServer({ rind: d.client() });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  after(() => {
    server.close();
    server.closeAllConnections();
  });
  const base = `http://127.0.0.1:${server.address().port}/sandboxes/demo`;
  const call = async (method, path, body, status = 200) => {
    const response = await fetch(base + path, {
      method,
      body: typeof body === 'object' && !Buffer.isBuffer(body) ? JSON.stringify(body) : body,
    });
    assert.equal(response.status, status, `${method} ${path}`);
    return response;
  };
  const json = async (...args) => (await call(...args)).json();

  const result = await json('POST', '/exec', { command: 'cat; pwd; exit 3', stdin: 'in\n', cwd: '/tmp' });
  assert.deepEqual([result.exitCode, result.stdout], [3, 'in\n/tmp\n']);
  await json('POST', '/exec', { command: 'cd /usr', session: 's' });
  assert.equal((await json('POST', '/exec', { command: 'pwd', session: 's' })).stdout, '/usr\n');
  const events = await collect(
    parseSSEStream((await call('POST', '/stream', { command: 'echo a; echo b >&2; exit 2' })).body),
  );
  assert.deepEqual([events[0].type, events.at(-1).type, events.at(-1).exitCode], ['start', 'complete', 2]);

  const bytes = randomBytes(3_000_000);
  await call('PUT', '/files/workspace/f%20%C3%BC.png', bytes);
  const back = await call('GET', '/files/workspace/f%20%C3%BC.png');
  assert.equal(back.headers.get('content-type'), 'image/png');
  assert.ok(Buffer.from(await back.arrayBuffer()).equals(bytes));
  assert.deepEqual(
    (await json('GET', '/files/workspace')).files.map((f) => f.name),
    ['f ü.png'],
  );
  const watch = parseSSEStream((await call('GET', '/watch/workspace')).body);
  assert.equal((await watch.next()).value.type, 'watching');
  await call('DELETE', '/files/workspace/f%20%C3%BC.png');
  assert.deepEqual((await watch.next()).value.eventType, 'delete');
  await watch.return();
  assert.equal((await json('GET', '/files/none', undefined, 404)).code, 'FILE_NOT_FOUND');

  await json('POST', '/processes', { command: 'echo said; exec sleep 1000', id: 'p' }, 201);
  assert.deepEqual(
    (await json('GET', '/processes')).map((p) => [p.id, p.status]),
    [['p', 'running']],
  );
  const logs = parseSSEStream((await call('GET', '/processes/p/logs')).body);
  assert.equal((await logs.next()).value.data, 'said\n');
  await call('DELETE', '/processes/p?signal=SIGINT', undefined, 204);
  assert.equal((await logs.next()).value.exitCode, 130);
  assert.equal((await json('GET', '/processes/p')).status, 'killed');

  await json('POST', '/exec', 'no json', 400);
  await json('GET', '/nothing', undefined, 404);
  assert.equal(
    (await json('POST', '/exec', { command: 'sleep 100', timeout: 50 }, 408)).code,
    'COMMAND_EXECUTION_ERROR',
  );
  const gone = new AbortController();
  const left = assert.rejects(
    fetch(`${base}/exec`, {
      method: 'POST',
      body: JSON.stringify({ command: 'echo >/tmp/begun; sleep 4242' }),
      signal: gone.signal,
    }),
  );
  await until(async () => (await fetch(`${base}/files/tmp/begun`)).ok, 'the command');
  gone.abort();
  await left;
  await until(
    async () => !(await json('POST', '/exec', { command: 'ps -o args' })).stdout.includes('sleep 4242\n'),
    'the end of what its client has left',
  );
  await call('DELETE', '', undefined, 204);
});
