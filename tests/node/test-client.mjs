// The client's calls against a real daemon: each operation of the API, its streams, its errors.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { before, test } from 'node:test';
import { RindConnectionError, RindError, outputBytes } from '../../clients/node/dist/index.mjs';
import { collect, daemon, digest, streamFrom, textOf, until } from './harness.mjs';

const MIB = 1 << 20;
const d = await daemon();
const rind = d.client();
let box;

before(async () => {
  box = (
    await rind.createSandbox({
      name: 'box',
      command: ['/bin/sleep', '1000000'],
      init: true,
      start: true,
      env: { BASE: 'box' },
    })
  ).id;
});

/** That a promise is rejected with this status, code and text. */
async function refused(promise, status, code, text = /./) {
  await assert.rejects(promise, (error) => {
    assert.ok(error instanceof RindError, String(error));
    assert.deepEqual([error.status, error.code], [status, code], error.message);
    assert.match(error.message, text);
    return true;
  });
}

/** How many processes in the box have exactly this command line. */
async function running(args) {
  const { stdout } = await rind.exec(box, { cmd: 'ps -o args' });
  return stdout.split('\n').filter((line) => line.trim() === args).length;
}

const text = (chunks) => Buffer.concat(chunks).toString('utf8');

test('each operation of the API has its method', async () => {
  const ours = ['sandboxes', 'exec', 'processes', 'files', 'events', 'system'];
  const { paths } = await rind.getOpenApi();
  const operations = Object.values(paths).flatMap((p) =>
    Object.entries(p)
      .filter(([m]) => m !== 'parameters')
      .map(([, o]) => o),
  );
  const missing = operations.filter(
    (o) => o.tags.some((tag) => ours.includes(tag)) && typeof rind[o.operationId] !== 'function',
  );
  assert.deepEqual(
    missing.map((o) => o.operationId),
    [],
  );
  assert.ok(operations.length >= 40, `${operations.length} operations`);
});

test('versions, health, doctor', async () => {
  assert.equal((await rind.getVersion()).apiVersion, 'v1');
  assert.equal((await rind.getHealth()).status, 'ok');
  const doctor = await rind.getDoctor();
  assert.equal(doctor.met, true);
  assert.ok(doctor.checks.length > 0 && doctor.barriers.length > 0);
});

test('a sandbox from its creation to its end', async () => {
  const made = await rind.createSandbox({
    name: 'life',
    command: ['/bin/sh', '-c', 'trap "exit 9" TERM; echo >>/tmp/up; while :; do sleep 0.1; done'],
    labels: { kind: 'test' },
  });
  assert.equal(made.state, 'created');
  assert.equal(made.spec.labels.kind, 'test');
  assert.deepEqual(
    (await rind.listSandboxes({ label: ['kind=test'] })).map((s) => s.name),
    ['life'],
  );
  assert.deepEqual(await rind.listSandboxes({ label: ['kind=test'], state: ['running'] }), []);
  assert.equal((await rind.startSandbox('life')).state, 'running');
  assert.ok((await rind.getStats('life')).memoryBytes > 0);
  assert.equal((await rind.pauseSandbox('life')).state, 'paused');
  assert.equal((await rind.resumeSandbox('life')).state, 'running');
  assert.equal((await rind.restartSandbox('life', { timeoutMs: 100 })).state, 'running');
  const wait = rind.waitSandbox('life');
  await until(
    async () => (await rind.exec('life', { cmd: 'wc -l </tmp/up' })).stdout === '2\n',
    'a command that takes its signals',
  );
  await rind.signalSandbox('life', 'TERM');
  assert.equal((await wait).exitCode, 9);
  assert.equal((await rind.stopSandbox('life')).state, 'stopped');
  await rind.deleteSandbox('life');
  await refused(rind.inspectSandbox('life'), 404, 'ENOENT', /'life': there is none of this name/);
  await refused(rind.deleteSandbox(box), 409, 'EBUSY');
  await refused(rind.createSandbox({ name: 'box' }), 409, 'EEXIST');
  await refused(rind.createSandbox({ nonsense: 1 }), 400, 'EINVAL', /nonsense/);
  await assert.rejects(rind.inspectSandbox('..'), TypeError);
});

test('exec, buffered: status, signal, both streams, options', async () => {
  const rows = [
    [{ cmd: 'echo hi; echo err >&2; exit 3' }, { stdout: 'hi\n', stderr: 'err\n', exitCode: 3, signal: null }],
    [{ argv: ['printf', '%s|', 'a b', '$x'] }, { stdout: 'a b|$x|' }],
    [{ cmd: 'kill -9 $$' }, { exitCode: 137, signal: 'SIGKILL' }],
    [{ cmd: 'pwd; echo $A-$BASE', cwd: '/usr', env: { A: '1' } }, { stdout: '/usr\n1-box\n' }],
    [{ cmd: 'cat', stdin: 'text' }, { stdout: 'text' }],
    [
      { cmd: 'sleep 100', timeoutMs: 50 },
      { timedOut: true, reason: 'timeout', exitCode: 137 },
    ],
    [{ cmd: "printf '\\377'" }, { stdoutEncoding: 'base64', stdout: '/w==' }],
    [{ argv: ['/nope'] }, { exitCode: 127 }],
  ];
  for (const [request, want] of rows) {
    const got = await rind.exec(box, request);
    assert.deepEqual(Object.fromEntries(Object.keys(want).map((k) => [k, got[k]])), want, JSON.stringify(request));
  }
  const raw = await rind.exec(box, { cmd: "printf '\\377a'" });
  assert.deepEqual([...outputBytes({ data: raw.stdout, encoding: raw.stdoutEncoding })], [255, 97]);
  await refused(rind.exec(box, { cmd: 'x', argv: ['x'] }), 400, 'EINVAL');
  await refused(rind.exec('nope', { cmd: 'x' }), 404, 'ENOENT');
});

test('exec, as events: each part arrives while the command runs', async () => {
  const events = await rind.execEvents(box, {
    cmd: 'echo one; read x; echo two >&2; exit 4',
    stdin: undefined,
  });
  const all = await collect(events);
  assert.deepEqual(
    all.map((e) => e.type),
    ['start', 'stdout', 'stderr', 'complete'],
  );
  assert.equal(all.at(-1).exitCode, 4);

  const reader = (await rind.execEvents(box, { cmd: 'echo first; exec sleep 1000' })).getReader();
  assert.equal((await reader.read()).value.type, 'start');
  assert.equal(text([(await reader.read()).value.data]), 'first\n');
  await reader.cancel();
  await until(async () => (await running('sleep 1000')) === 0, 'the end of what was cancelled');
});

test('exec, as a stream: all three streams, half-close, size, signal', async () => {
  const cat = await rind.execStream(box, { cmd: 'cat; echo end >&2; exit 5' });
  assert.match(cat.id, /^\d+$/);
  const writer = cat.stdin.getWriter();
  await writer.write('grün\n');
  await writer.close();
  assert.deepEqual(await Promise.all([textOf(cat.stdout), textOf(cat.stderr)]), ['grün\n', 'end\n']);
  assert.equal((await cat.exit).exitCode, 5);

  const tty = await rind.execStream(box, {
    cmd: 'trap "stty size; exit" WINCH; stty size; while :; do sleep 0.05; done',
    tty: true,
    rows: 40,
    cols: 120,
  });
  const reader = tty.stdout.getReader();
  let seen = '';
  const saw = async (what) => {
    while (!seen.includes(what)) seen += text([(await reader.read()).value]);
  };
  await saw('40 120');
  await tty.resize(50, 132);
  await saw('50 132');
  assert.equal((await tty.exit).exitCode, 0);

  const sleeper = await rind.execStream(box, {
    cmd: 'echo up; exec sleep 1000',
  });
  await sleeper.stdout.getReader().read();
  await sleeper.signal('SIGUSR1');
  assert.deepEqual([(await sleeper.exit).exitCode, (await sleeper.exit).signal], [138, 'SIGUSR1']);
});

test('a vi is driven over a terminal', async () => {
  await rind.writeFile(box, '/workspace/vi.txt', 'old\n');
  const vi = await rind.execStream(box, {
    argv: ['vi', '/workspace/vi.txt'],
    tty: true,
    env: { TERM: 'xterm' },
  });
  const reader = vi.stdout.getReader();
  const keys = vi.stdin.getWriter();
  // What is typed, and what the screen then says.
  for (const [typed, shown] of [
    ['', 'old'],
    ['ddinew text', 'new text'],
    ['\x1b', '- /workspace'],
    [':wq\r', '1L, 9C'],
  ]) {
    if (typed) await keys.write(typed);
    for (let screen = ''; !screen.includes(shown);) screen += text([(await reader.read()).value]);
  }
  void reader.cancel();
  assert.equal((await vi.exit).exitCode, 0);
  assert.equal(await (await rind.readFile(box, '/workspace/vi.txt')).text(), 'new text\n');
});

test('who reads slowly makes the command wait, and gets every byte', async () => {
  const size = 24 * MIB;
  const run = await rind.execStream(box, {
    cmd: `head -c ${size} /dev/zero; echo over >&2`,
  });
  const reader = run.stdout.getReader();
  let got = (await reader.read()).value.byteLength;
  const over = run.stderr.getReader().read();
  assert.equal(await Promise.race([over.then(() => 'over'), new Promise((r) => setTimeout(r, 150, 'waits'))]), 'waits');
  for (let part; !(part = await reader.read()).done;) got += part.value.byteLength;
  assert.equal(got, size);
  assert.equal((await run.exit).exitCode, 0);

  const dropped = await rind.execStream(box, {
    cmd: `head -c ${size} /dev/zero; exit 6`,
  });
  await dropped.stdout.cancel();
  assert.equal((await dropped.exit).exitCode, 6, 'an output that nobody wants holds up nothing');
});

test('an abort ends what it belongs to', async () => {
  const controller = new AbortController();
  const rejections = [
    rind.exec(box, { argv: ['sleep', '2000'] }, { signal: controller.signal }),
    rind.execStream(box, { argv: ['sleep', '2000'] }, { signal: controller.signal }).then((run) => run.exit),
    rind.execEvents(box, { cmd: 'echo; exec sleep 2000' }, { signal: controller.signal }).then(collect),
    rind.getEvents({ signal: controller.signal }).then(collect),
    rind.waitSandbox(box, { signal: controller.signal }),
  ].map((p) => assert.rejects(p, /enough/));
  await until(async () => (await running('sleep 2000')) === 3, 'three commands');
  controller.abort(new Error('enough'));
  await Promise.all(rejections);
  await until(async () => (await running('sleep 2000')) === 0, 'their end');
});

test('a main process is attached to from its first byte, left, and found again', async () => {
  await rind.createSandbox({
    name: 'main',
    command: ['/bin/sh', '-c', 'echo first; cat; exit 6'],
    stdin: true,
  });
  const run = await rind.startSandboxAttached('main');
  assert.equal(text([(await run.stdout.getReader().read()).value]), 'first\n');
  await run.leave();
  await assert.rejects(run.exit);
  const again = await until(() => rind.attachSandbox('main').catch(() => undefined), 'that the first one has left');
  const keys = again.stdin.getWriter();
  await keys.write('typed');
  await keys.close();
  assert.equal(await textOf(again.stdout), 'typed');
  assert.equal((await again.exit).exitCode, 6);
  await rind.deleteSandbox('main', { force: true });

  const once = await rind.createSandboxAttached({
    command: ['/bin/sh', '-c', 'echo once; exit 2'],
    attach: true,
    autoRemove: true,
    start: true,
  });
  assert.equal(await textOf(once.stdout), 'once\n');
  assert.equal((await once.exit).exitCode, 2);
  await refused(rind.inspectSandbox(once.id), 404, 'ENOENT');
});

test('kept execs are attached to again', async () => {
  const exec = await rind.execDetached(box, {
    cmd: 'echo early; read line; echo "got $line"; exit 8',
    keep: true,
  });
  assert.equal(exec.keep, true);
  const run = await rind.attachExec(box, exec.execId);
  run.close();
  await until(async () => !(await rind.getExec(box, exec.execId)).attached, 'that nobody is attached');
  const end = await rind.attachExecEvents(box, exec.execId);
  const all = await collect(end);
  assert.equal(all.at(-1).exitCode, 8);
  assert.ok((await rind.listExecs(box)).some((e) => e.execId === exec.execId && e.exitCode === 8));
  await rind.deleteExec(box, exec.execId);
  await refused(rind.getExec(box, exec.execId), 404, 'ENOENT');
  const other = await rind.execDetached(box, { cmd: 'sleep 1000', tty: true });
  await rind.resizeExec(box, other.execId, { rows: 10, cols: 20 });
  await rind.signalExec(box, other.execId, { signal: 'KILL' });
  await until(async () => (await rind.getExec(box, other.execId)).state === 'ended', 'its end');
  await rind.deleteExec(box, other.execId, { force: true });
});

test('processes: start, logs, waits, signals, end', async () => {
  const made = await rind.startProcess(box, {
    id: 'web',
    cmd: 'echo ready; echo warn >&2; trap "exit 3" TERM; while :; do sleep 0.05; done',
  });
  assert.equal(made.id, 'web');
  assert.equal((await rind.waitProcessLog(box, 'web', { text: 'ready' })).line, 'ready');
  assert.equal((await rind.getProcessLogs(box, 'web', { stream: 'stdout' })).stdout.data, 'ready\n');
  assert.deepEqual(
    (await rind.listProcesses(box)).map((p) => [p.id, p.state]),
    [['web', 'running']],
  );
  const follow = collect(await rind.followProcessLogs(box, 'web'));
  await refused(rind.waitProcessExit(box, 'web', { timeoutMs: 50 }), 504, 'ETIMEDOUT');
  await refused(rind.waitProcessPort(box, 'web', { port: 9, timeoutMs: 50 }), 504, 'ETIMEDOUT');
  await refused(rind.startProcess(box, { id: 'web', cmd: 'true' }), 409, 'EEXIST');
  await rind.killProcess(box, 'web');
  assert.equal((await rind.waitProcessExit(box, 'web')).exitCode, 3);
  const events = await follow;
  assert.deepEqual([...new Set(events.map((e) => e.type))].sort(), ['exit', 'stderr', 'stdout']);
  assert.equal(events.find((e) => e.type === 'exit').process.exitCode, 3);
  await rind.deleteProcess(box, 'web');
  await refused(rind.getProcess(box, 'web'), 404, 'ENOENT');
  for (const id of ['a', 'b']) await rind.startProcess(box, { id, cmd: 'sleep 1000' });
  assert.equal(await rind.killProcesses(box, { signal: 'SIGKILL' }), 2);
  for (const id of ['a', 'b']) assert.equal((await rind.waitProcessExit(box, id)).signal, 'SIGKILL');
  assert.equal(await rind.deleteProcesses(box), 2);
});

test('files: every call, bytes, names that are no text', async () => {
  const at = '/workspace/files';
  await rind.makeDirectory(box, `${at}/deep/er`, { recursive: true });
  await rind.writeFile(box, `${at}/grün & ?#%.txt`, 'täxt');
  assert.equal(await (await rind.readFile(box, `${at}/grün & ?#%.txt`)).text(), 'täxt');
  const odd = new Uint8Array([...Buffer.from(`${at}/`), 0xff, 0x20, 0x2b]);
  await rind.writeFile(box, odd, new Uint8Array([0, 255, 10]));
  const part = await rind.readFile(box, odd, { offset: 1, length: 1 });
  assert.deepEqual([...(await part.bytes())], [255]);
  const list = await rind.listFiles(box, at);
  assert.deepEqual(
    list.entries.map((e) => e.nameEncoded ?? e.name).sort(),
    ['%FF%20%2B', 'deep', 'grün & ?#%.txt'].sort(),
  );
  assert.equal((await rind.statFile(box, odd)).size, 3);
  assert.equal(await rind.fileExists(box, `${at}/none`), false);
  await rind.copyFile(box, odd, `${at}/copy`);
  await rind.renameFile(box, `${at}/copy`, `${at}/renamed`);
  await rind.moveFile(box, `${at}/renamed`, '/tmp/moved');
  assert.equal(await rind.fileExists(box, '/tmp/moved'), true);
  const changes = await rind.listChanges(box);
  assert.ok(
    changes.some((c) => c.kind === 'added' && c.path === '/tmp/moved'),
    JSON.stringify(changes),
  );
  const archive = await rind.getArchive(box, at);
  await rind.makeDirectory(box, '/workspace/unpacked');
  await rind.putArchive(box, '/workspace/unpacked', archive);
  assert.equal(
    (await rind.listFiles(box, '/workspace/unpacked', { recursive: true })).entries.filter((e) => e.type === 'file')
      .length,
    2,
  );
  await refused(rind.writeFile(box, odd, 'x', { exclusive: true }), 409, 'EEXIST');
  await refused(rind.removeFile(box, at), 400, 'EISDIR');
  await rind.removeFile(box, at, { recursive: true });
  await refused(rind.readFile(box, odd), 404, 'ENOENT', /No such file/);
  await refused(rind.readFile(box, '/tmp'), 400, 'EISDIR');
});

test('100 MB go in and out by streams, whole', async () => {
  const block = randomBytes(MIB);
  const parts = async function* () {
    for (let i = 0; i < 100; i++) yield block.subarray(i);
  };
  await rind.writeFile(box, '/workspace/big', streamFrom(parts()));
  assert.equal(await digest((await rind.readFile(box, '/workspace/big')).body), await digest(parts()));
  await rind.removeFile(box, '/workspace/big');
});

test('an upload whose source fails, and one that is refused', async () => {
  let reads = 0;
  const failing = new ReadableStream({
    pull(c) {
      if (reads++ < 3) c.enqueue(new Uint8Array(1000));
      else c.error(new Error('the source failed'));
    },
  });
  await assert.rejects(rind.writeFile(box, '/workspace/half', failing, { atomic: true }), /the source failed/);
  await until(async () => !(await rind.fileExists(box, '/workspace/half')), 'that an atomic write leaves nothing');
  let cancelled;
  const source = new ReadableStream({
    pull: (c) => c.enqueue(new Uint8Array(1000)),
    cancel: () => void (cancelled = true),
  });
  await refused(rind.writeFile(box, '/nowhere/file', source), 404, 'ENOENT');
  assert.equal(cancelled, true, 'the source is let go');
});

test('a watch tells what happens after it stands', async () => {
  await rind.makeDirectory(box, '/workspace/watched', { recursive: true });
  const reader = (await rind.watchFiles(box, '/workspace/watched')).getReader();
  assert.equal((await reader.read()).value.type, 'ready');
  await rind.writeFile(box, '/workspace/watched/new', 'x');
  const event = (await reader.read()).value;
  assert.deepEqual([event.type, event.name, event.directory], ['create', 'new', false]);
  await reader.cancel();
});

test('snapshots and clones', async () => {
  await rind.createSandbox({
    name: 'first',
    start: true,
    command: ['/bin/sleep', '600'],
  });
  await rind.exec('first', { cmd: 'mkdir /d && echo kept >/d/f' });
  const image = await rind.snapshotSandbox('first', {
    name: 'of-first:1',
    message: 'why',
  });
  assert.ok(JSON.stringify(image).includes('of-first:1'), JSON.stringify(image));
  const volume = await rind.snapshotDirectory('first', '/d', { name: 'of-d' });
  assert.equal(volume.name, 'of-d');
  const clone = await rind.cloneSandbox('first', {
    name: 'second',
    start: true,
  });
  assert.equal(clone.name, 'second');
  assert.equal((await rind.exec('second', { cmd: 'cat /d/f' })).stdout, 'kept\n');
  for (const name of ['first', 'second']) await rind.deleteSandbox(name, { force: true });
});

test('events of the daemon', async () => {
  const reader = (await rind.getEvents({ type: ['create', 'start', 'destroy'] })).getReader();
  await rind.createSandbox({ name: 'seen' });
  const event = (await reader.read()).value;
  assert.deepEqual([event.type, event.name], ['create', 'seen']);
  await reader.cancel();
  await rind.deleteSandbox('seen', { force: true });
});

test('a daemon that ends breaks what is under way, and the same client goes on with the next', async () => {
  const run = rind.exec(box, { argv: ['sleep', '3000'] });
  const follow = rind.execEvents(box, { cmd: 'echo x; exec sleep 3000' }).then(collect);
  await until(async () => (await running('sleep 3000')) === 2, 'two commands');
  const broken = [run, follow].map((p) =>
    assert.rejects(p, (e) => e instanceof RindConnectionError || e instanceof RindError),
  );
  await d.kill();
  await Promise.all(broken);
  await assert.rejects(rind.getHealth(), (e) => ['ENOENT', 'ECONNREFUSED'].includes(e.code));
  await d.start();
  assert.equal((await rind.inspectSandbox('box')).state, 'running');
  assert.equal((await rind.exec('box', { cmd: 'echo again' })).stdout, 'again\n');
});
