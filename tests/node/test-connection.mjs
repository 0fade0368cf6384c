// How a client finds its daemon, and what it says when there is none, when it may not, or when it is another's.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTcp } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import {
  Rind,
  RindConnectionError,
  RindError,
  RindVersionError,
  defaultSockets,
  findSocket,
} from '../../clients/node/dist/index.mjs';
import { RIND, ROOT } from './harness.mjs';

const dir = mkdtempSync(join(tmpdir(), 'rind-node-'));
after(() => rmSync(dir, { recursive: true, force: true }));
const path = (name) => join(dir, name);

/** What a promise is rejected with. */
async function refusal(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new assert.AssertionError({ message: 'it was not refused' });
}

/** An HTTP server on a socket, until the test ends. */
async function server(t, name, handler) {
  const http = createServer(handler);
  await new Promise((resolve) => http.listen(path(name), resolve));
  t.after(() => {
    http.close();
    http.closeAllConnections();
  });
  return path(name);
}

test('the socket is found by RIND_SOCKET, then the user, then the system', () => {
  const rows = [
    [{ RIND_SOCKET: '/a/b.sock', XDG_RUNTIME_DIR: '/run/user/7' }, 7, ['/a/b.sock']],
    [{ RIND_SOCKET: 'unix:///a/b.sock' }, 0, ['/a/b.sock']],
    [{ XDG_RUNTIME_DIR: '/run/user/7' }, 7, ['/run/user/7/rind/rind.sock', '/run/rind/rind.sock']],
    [{ XDG_RUNTIME_DIR: '/run/user/0' }, 0, ['/run/rind/rind.sock']],
    [{}, 7, ['/run/rind/rind.sock']],
    [{ RIND_SOCKET: '' }, 0, ['/run/rind/rind.sock']],
  ];
  for (const [env, uid, want] of rows) assert.deepEqual(defaultSockets(env, uid), want, JSON.stringify(env));
  assert.throws(() => defaultSockets({ RIND_SOCKET: 'rind.sock' }, 0), /RIND_SOCKET must be an absolute path/);
  assert.equal(
    findSocket({ XDG_RUNTIME_DIR: dir }, 7),
    join(dir, 'rind/rind.sock'),
    'the first one when there is none',
  );
  assert.throws(() => new Rind({ socket: 'relative' }), /socket must be an absolute path/);
});

test('a missing daemon, a dead socket and a file say what to do', async () => {
  const missing = await refusal(new Rind({ socket: path('nothing.sock') }).getVersion());
  assert.ok(missing instanceof RindConnectionError && missing instanceof RindError);
  assert.equal(missing.code, 'ENOENT');
  assert.equal(missing.socket, path('nothing.sock'));
  assert.match(missing.message, /no rind daemon at .*nothing\.sock: start one with `rind serve`.*RIND_SOCKET/);

  const dead = path('dead.sock');
  spawnSync('python3', ['-c', `import socket; s = socket.socket(socket.AF_UNIX); s.bind(${JSON.stringify(dead)})`]);
  const refused = await refusal(new Rind({ socket: dead }).listSandboxes());
  assert.equal(refused.code, 'ECONNREFUSED');
  assert.match(refused.message, /its daemon has ended; start it again/);

  writeFileSync(path('file'), '');
  const file = await refusal(new Rind({ socket: path('file') }).listSandboxes());
  assert.ok(file instanceof RindConnectionError, file.message);
});

test(
  'a socket without permission names the group',
  { skip: process.getuid() !== 0 && 'needs root to become another user' },
  async (t) => {
    const socket = await server(t, 'private.sock', (_, res) => res.end());
    chmodSync(socket, 0o600);
    chmodSync(dir, 0o755);
    const script = `
    const { Rind } = require(${JSON.stringify(join(ROOT, 'clients/node/dist/index.js'))});
    process.setgid(65534);
    process.setuid(65534);
    new Rind({ socket: ${JSON.stringify(socket)} }).getVersion().catch((e) => console.log(e.code + ' ' + e.message));`;
    const child = spawnSync(process.execPath, ['-e', script], { encoding: 'utf8', timeout: 20_000 });
    assert.match(
      child.stdout,
      /^EACCES no permission to use .*private\.sock.*members of the group rind.*usermod -aG rind/,
      child.stderr,
    );
  },
);

test('a daemon of another version, and what is no rind, are refused', async (t) => {
  const other = await server(t, 'other.sock', (_, res) =>
    res.end(JSON.stringify({ version: '9.1.0', apiVersion: 'v2' })),
  );
  const newer = await refusal(new Rind({ socket: other }).listSandboxes());
  assert.ok(newer instanceof RindVersionError);
  assert.equal(newer.daemonVersion, '9.1.0');
  assert.equal(newer.daemonApi, 'v2');
  assert.match(
    newer.message,
    /is rind 9\.1\.0 with API v2; this client speaks API v1: install the client of the daemon's version/,
  );

  const strangers = {
    'html.sock': (_, res) => res.end('<html>'),
    'error.sock': (_, res) => res.writeHead(404).end('not here'),
    'shape.sock': (_, res) => res.writeHead(500).end('{"error":"text"}'),
  };
  for (const [name, handler] of Object.entries(strangers)) {
    const error = await refusal(new Rind({ socket: await server(t, name, handler) }).getHealth());
    assert.ok(error instanceof RindVersionError, `${name}: ${error}`);
    assert.match(error.message, /does not speak rind's API/);
  }
});

test('a connection that breaks within an answer is an error, never an empty answer', async (t) => {
  let first = true;
  const socket = await server(t, 'breaks.sock', (req, res) => {
    if (first) {
      first = false;
      res.end(JSON.stringify({ version: '0', apiVersion: 'v1' }));
      return;
    }
    res.writeHead(200, { 'Content-Length': '1000' });
    res.write('{"sandboxes":[');
    res.socket.destroySoon();
  });
  const error = await refusal(new Rind({ socket }).listSandboxes());
  assert.ok(error instanceof RindConnectionError, String(error));
  assert.match(error.message, /lost the connection to the rind daemon/);
});

test('a server that says nothing can be left by an abort', async (t) => {
  const silent = createTcp(() => undefined);
  await new Promise((resolve) => silent.listen(path('silent.sock'), resolve));
  t.after(() => silent.close());
  const error = await refusal(
    new Rind({ socket: path('silent.sock') }).getVersion({ signal: AbortSignal.timeout(50) }),
  );
  assert.equal(error.name, 'TimeoutError');
  const already = await refusal(
    new Rind({ socket: path('silent.sock') }).getVersion({ signal: AbortSignal.abort(new Error('mine')) }),
  );
  assert.equal(already.message, 'mine');
});

test('it starts a daemon on request, once for many callers, and says why when it cannot', async () => {
  const start = { rind: RIND, stateDir: path('state'), runtimeDir: path('run'), timeoutMs: 60_000 };
  const socket = path('started.sock');
  const clients = [1, 2, 3].map(() => new Rind({ socket, start }));
  const versions = await Promise.all(clients.map((c) => c.getVersion()));
  assert.deepEqual(
    versions.map((v) => v.apiVersion),
    ['v1', 'v1', 'v1'],
  );
  const owners = clients.filter((c) => c.daemon);
  assert.equal(owners.length, 1, 'one of them has started it');
  assert.equal((await new Rind({ socket }).getHealth()).status, 'ok');
  for (const c of clients) c.close();
  assert.equal(await owners[0].daemon.stop(), 0);

  const absent = await refusal(new Rind({ socket, start: { rind: path('no-such-rind') } }).getVersion());
  assert.equal(absent.code, 'ENOENT');
  assert.match(absent.message, /could not start the rind daemon: .*there is no such program; install rind/);
  const unusable = await refusal(new Rind({ socket, start: { ...start, config: path('no.json') } }).getVersion());
  assert.match(unusable.message, /could not start the rind daemon: .*no\.json/);
});
