// getSandbox(): the surface of the 0.x SDK against a real daemon.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import {
  NotSupportedError,
  ProcessExitedBeforeReadyError,
  ProcessReadyTimeoutError,
  ProviderMismatchError,
  Rind,
  RindError,
  SandboxError,
  SandboxNamespace,
  collectFile,
  getSandbox,
  isDurableObjectCodeUpdateReset,
  isExecResult,
  isPlatformTransientError,
  isProcess,
  isProcessStatus,
  parseSSEStream,
  streamFile,
} from '../../clients/node/dist/index.mjs';
import { collect, daemon, digest, streamFrom, textOf, until } from './harness.mjs';

const d = await daemon();
const rind = d.client();
const sandboxes = new SandboxNamespace({ rind });
const box = getSandbox(sandboxes, 'main');

/** That a promise is rejected with a SandboxError of this code. */
const refused = (promise, code, text = /./) =>
  assert.rejects(promise, (e) => {
    assert.ok(e instanceof SandboxError, String(e));
    assert.equal(e.code, code, e.message);
    assert.match(e.message, text);
    assert.ok(e.httpStatus >= 400 && e.timestamp && typeof e.toJSON().message === 'string');
    return true;
  });

test('ids that the SDK refuses are refused, and no two ids are one sandbox', async () => {
  for (const id of ['', 'x'.repeat(64), '-a', 'a-', 'www', 'Root', 'cloudflare'])
    assert.throws(() => sandboxes.get(id), SandboxError, id);
  assert.throws(() => getSandbox({}, 'a'), /must be a SandboxNamespace/);
  const ids = ['two', 'Two', 'tw/o', 'tw--o', 'tw o', 'zwei-ü', 'cafe'];
  await Promise.all(
    ids.map((id) => sandboxes.get(id).exec(`echo ${id.length} >/tmp/mine; cd /tmp; export WHO='${id}'`)),
  );
  const seen = await Promise.all(
    ids.map(async (id) => (await sandboxes.get(id).exec('echo "$WHO" $(ls /tmp) $(hostname)')).stdout.split(' ')),
  );
  assert.deepEqual(seen.map((s) => s[0]).join(), ids.map((id) => id.split(' ')[0]).join());
  assert.equal(new Set(seen.map((s) => s.at(-1))).size, ids.length, 'each has a host of its own');
  assert.equal(sandboxes.get('Two', { normalizeId: true }), sandboxes.get('two'));
  for (const id of ids) await sandboxes.get(id).destroy();
});

test('an id is never a prefix of another sandbox’s id', async () => {
  const other = await rind.createSandbox({ name: 'someone-else' });
  const prefix = sandboxes.get(other.id.slice(0, 6));
  await prefix.exec('true');
  assert.notEqual(await prefix.rindId(), other.id);
  await prefix.destroy();
  assert.equal((await rind.inspectSandbox('someone-else')).id, other.id);
  await rind.deleteSandbox(other.id, { force: true });
});

test('nothing of the host’s environment is inside', async () => {
  const { stdout } = await box.exec('env | cut -d= -f1 | sort');
  const allowed = ['HOME', 'HOSTNAME', 'LANG', 'OLDPWD', 'PATH', 'PWD', 'SHLVL', '_'];
  assert.deepEqual(
    stdout
      .trim()
      .split('\n')
      .filter((name) => !allowed.includes(name)),
    [],
  );
  assert.equal((await box.exec('grep -az RIND_CANARY /proc/*/environ | wc -l')).stdout, '0\n');
  assert.equal((await box.exec('echo $LANG; pwd')).stdout, 'C.UTF-8\n/workspace\n');
});

test('exec: the result, callbacks while the command runs', async () => {
  const result = await box.exec('echo out; echo err >&2; exit 3');
  assert.deepEqual(
    { ...result, duration: 0, timestamp: '' },
    {
      success: false,
      exitCode: 3,
      stdout: 'out\n',
      stderr: 'err\n',
      command: 'echo out; echo err >&2; exit 3',
      duration: 0,
      timestamp: '',
      sessionId: 'sandbox-main',
    },
  );
  assert.ok(result.duration >= 0 && Math.abs(Date.parse(result.timestamp) - Date.now()) < 60_000);
  let go;
  const first = new Promise((resolve) => (go = resolve));
  let complete;
  const running = box.exec('echo first; while [ ! -e /tmp/second ]; do sleep 0.02; done; echo second', {
    stream: true,
    onOutput: (s, text) => go([s, text]),
    onComplete: (r) => (complete = r),
  });
  assert.deepEqual(await first, ['stdout', 'first\n'], 'it is told while the command runs');
  await rind.writeFile('main', '/tmp/second', '');
  assert.equal((await running).stdout, 'first\nsecond\n');
  assert.equal(complete.exitCode, 0);
  let told;
  await assert.rejects(box.exec('x', { cwd: undefined, env: { 'no name': '1' }, onError: (e) => (told = e) }));
  assert.ok(told instanceof SandboxError);
});

test('files: every call, and its error', async () => {
  const path = '/workspace/dir/grün 1.txt';
  await refused(box.writeFile(path, 'x'), 'FILE_NOT_FOUND');
  assert.equal((await box.mkdir('/workspace/dir/deep', { recursive: true })).recursive, true);
  await refused(box.mkdir('/workspace/dir'), 'FILE_EXISTS');
  assert.equal((await box.writeFile(path, 'täxt')).bytesWritten, 5);
  const read = await box.readFile(path);
  assert.deepEqual(
    [read.content, read.encoding, read.isBinary, read.mimeType, read.size],
    ['täxt', 'utf-8', false, 'text/plain', 5],
  );
  await box.writeFile('dir/relative', 'r');
  assert.equal((await box.readFile('/workspace/dir/relative')).content, 'r');
  const binary = randomBytes(100_000);
  await box.writeFile('/workspace/dir/pic.png', binary.toString('base64'), { encoding: 'base64' });
  const pic = await box.readFile('/workspace/dir/pic.png');
  assert.deepEqual([pic.encoding, pic.isBinary, pic.mimeType], ['base64', true, 'image/png']);
  assert.ok(Buffer.from(pic.content, 'base64').equals(binary));
  assert.equal((await box.readFile(path, { encoding: 'base64' })).content, Buffer.from('täxt').toString('base64'));
  await refused(box.writeFile(path, '%%%', { encoding: 'base64' }), 'VALIDATION_FAILED');
  await refused(box.writeFile(path, 'x', { encoding: 'latin1' }), 'VALIDATION_FAILED');

  await box.writeFile('/workspace/dir/.hidden', '');
  await box.exec('ln -s /nowhere /workspace/dir/link; chmod 640 "/workspace/dir/grün 1.txt"');
  const list = await box.listFiles('/workspace/dir');
  assert.deepEqual(list.files.map((f) => `${f.type} ${f.name}`).sort(), [
    'directory deep',
    'file grün 1.txt',
    'file pic.png',
    'file relative',
    'symlink link',
  ]);
  const info = list.files.find((f) => f.name === 'grün 1.txt');
  assert.deepEqual(
    [info.absolutePath, info.relativePath, info.size, info.mode, info.permissions],
    [path, 'grün 1.txt', 5, 'rw-r-----', { readable: true, writable: true, executable: false }],
  );
  assert.equal(
    (await box.listFiles('/workspace', { recursive: true, includeHidden: true })).files.filter((f) =>
      f.relativePath.startsWith('dir/'),
    ).length,
    6,
  );
  await box.renameFile(path, '/workspace/dir/new');
  await box.moveFile('/workspace/dir/new', '/tmp/moved');
  assert.deepEqual([(await box.exists('/tmp/moved')).exists, (await box.exists(path)).exists], [true, false]);
  await box.deleteFile('/tmp/moved');
  await refused(box.deleteFile('/tmp/moved'), 'FILE_NOT_FOUND');
  await refused(box.deleteFile('/workspace/dir'), 'IS_DIRECTORY');
  await refused(box.readFile('/workspace/dir'), 'IS_DIRECTORY');
  await refused(box.readFile('/workspace/dir/pic.png/x'), 'NOT_DIRECTORY');
  await refused(box.listFiles('/none'), 'FILE_NOT_FOUND');
  await refused(box.readFile(''), 'VALIDATION_FAILED');
});

test('files as streams: 100 MB, events of text and of bytes', async () => {
  const block = randomBytes(1 << 20);
  const parts = async function* () {
    for (let i = 0; i < 100; i++) yield block.subarray(i);
  };
  await box.writeFile('/workspace/big', streamFrom(parts()));
  const big = await box.readFile('/workspace/big', { encoding: 'none' });
  assert.equal(await digest(big.content), await digest(parts()));
  await box.deleteFile('/workspace/big');

  const bytes = randomBytes(200_001);
  await box.writeFile('/workspace/bytes', bytes.toString('base64'), { encoding: 'base64' });
  const collected = await collectFile(await box.readFileStream('/workspace/bytes'));
  assert.deepEqual(
    [Buffer.from(collected.content).equals(bytes), collected.metadata.isBinary, collected.metadata.size],
    [true, true, 200_001],
  );
  const text = 'ü€𝄞\n'.repeat(30_000);
  await box.writeFile('/workspace/text', text);
  assert.equal((await collect(streamFile(await box.readFileStream('/workspace/text')))).join(''), text);
});

test('processes: start, list, logs, every signal, waits, end', async () => {
  const started = [];
  const said = [];
  const ends = [];
  const web = await box.startProcess(
    'echo ready; echo warn >&2; trap "echo bye; exit 3" TERM; while :; do sleep 0.02; done',
    {
      processId: 'web',
      onStart: (p) => started.push(p.id),
      onOutput: (stream, text) => said.push([stream, text]),
      onExit: (code) => ends.push(code),
    },
  );
  assert.deepEqual([web.id, web.status, web.sessionId, started], ['web', 'running', 'sandbox-main', ['web']]);
  assert.ok(web.pid > 0 && web.startTime instanceof Date);
  assert.deepEqual(await web.waitForLog('read'), { line: 'ready' });
  assert.equal((await web.waitForLog(/w(.)rn/)).match[1], 'a');
  await assert.rejects(
    web.waitForLog('never', 60),
    (e) =>
      e instanceof ProcessReadyTimeoutError && e.processId === 'web' && e.condition === '"never"' && e.timeout === 60,
  );
  await assert.rejects(
    web.waitForPort(9, { timeout: 60 }),
    (e) => e instanceof ProcessReadyTimeoutError && e.condition === 'port 9 (HTTP /)',
  );
  await assert.rejects(web.waitForExit(60), ProcessReadyTimeoutError);
  await refused(box.startProcess('true', { processId: 'web' }), 'PROCESS_ERROR');
  assert.deepEqual(
    (await box.listProcesses()).map((p) => p.id),
    ['web'],
  );
  await web.kill();
  assert.deepEqual(await web.waitForExit(), { exitCode: 3 });
  await until(() => ends.length === 1, 'the callback of its end');
  assert.deepEqual(ends, [3]);
  assert.deepEqual([...new Set(said.map((s) => s[0]))].sort(), ['stderr', 'stdout']);
  assert.equal(
    said
      .filter((s) => s[0] === 'stdout')
      .map((s) => s[1])
      .join(''),
    'ready\nbye\n',
  );
  const ended = await box.getProcess('web');
  assert.deepEqual([ended.status, ended.exitCode, ended.endTime instanceof Date], ['failed', 3, true]);
  assert.match((await box.getProcessLogs('web')).stderr, /^warn\n/);
  const events = await collect(parseSSEStream(await box.streamProcessLogs('web')));
  assert.deepEqual([events.at(-1).type, events.at(-1).exitCode, events.at(-1).processId], ['exit', 3, 'web']);
  await web.kill('SIGKILL');
  assert.equal(await box.getProcess('none'), null);
  await refused(box.killProcess('none'), 'PROCESS_NOT_FOUND');
  await refused(box.getProcessLogs('none'), 'PROCESS_NOT_FOUND');
  await refused(box.killProcess('web', 'SIGNONSENSE'), 'PROCESS_ERROR');

  const quick = await box.startProcess('echo only; exit 4');
  await assert.rejects(
    quick.waitForLog('never'),
    (e) => e instanceof ProcessExitedBeforeReadyError && e.exitCode === 4,
  );
  await assert.rejects(quick.waitForPort(9), ProcessExitedBeforeReadyError);
  assert.equal((await quick.waitForLog('only')).line, 'only');

  for (const [signal, status] of [
    ['SIGHUP', 129],
    ['SIGINT', 130],
    ['SIGQUIT', 131],
    ['SIGUSR1', 138],
    ['SIGKILL', 137],
    ['TERM', 143],
    ['15', 143],
  ]) {
    const p = await box.startProcess('exec sleep 1000');
    await p.kill(signal);
    assert.deepEqual([(await p.waitForExit()).exitCode, await p.getStatus()], [status, 'killed'], signal);
  }
  await Promise.all([1, 2, 3].map(() => box.startProcess('sleep 1000')));
  assert.equal(await box.killAllProcesses(), 3);
  await until(async () => (await box.listProcesses()).every((p) => p.status !== 'running'), 'their end');
  assert.ok((await box.cleanupCompletedProcesses()) >= 10);
  assert.deepEqual(await box.listProcesses(), []);
  const cleaned = await box.startProcess('true', { processId: 'cleaned', autoCleanup: true });
  await until(async () => (await box.getProcess(cleaned.id)) === null, 'the removal of its record');
});

test('a server in the sandbox is waited for', async () => {
  const server = await box.startProcess(
    'mkdir -p /tmp/www && echo page >/tmp/www/index.html && httpd -f -p 127.0.0.1:8080 -h /tmp/www',
  );
  await server.waitForPort(8080, { mode: 'tcp', timeout: 10_000 });
  await server.waitForPort(8080, { path: '/index.html', status: 200, timeout: 10_000, interval: 20 });
  await assert.rejects(
    server.waitForPort(8080, { path: '/none', timeout: 100, interval: 20 }),
    ProcessReadyTimeoutError,
  );
  await server.waitForPort(8080, { path: '/none', status: { min: 400, max: 499 }, timeout: 10_000 });
  await server.kill('SIGKILL');
});

test('watch tells what happens; checkChanges whether something has', async () => {
  await box.mkdir('/workspace/w/node_modules', { recursive: true });
  const before = await box.checkChanges('/workspace/w');
  assert.equal(before.status, 'unchanged');
  const stream = parseSSEStream(await box.watch('/workspace/w'));
  assert.equal((await stream.next()).value.type, 'watching');
  await box.writeFile('/workspace/w/node_modules/skipped', 'x');
  await box.writeFile('/workspace/w/file', 'x');
  await box.renameFile('/workspace/w/file', '/workspace/w/other');
  await box.deleteFile('/workspace/w/other');
  const seen = [];
  while (!seen.some((e) => e.eventType === 'delete')) seen.push((await stream.next()).value);
  assert.ok(seen.every((e) => !e.path.includes('node_modules')));
  const kinds = seen.map((e) => `${e.eventType} ${e.path}`);
  for (const want of [
    'create /workspace/w/file',
    'move_from /workspace/w/file',
    'move_to /workspace/w/other',
    'delete /workspace/w/other',
  ])
    assert.ok(kinds.includes(want), `${want} in ${kinds}`);
  await stream.return();
  assert.equal(
    (await box.checkChanges('/workspace/w', { since: before.version })).status,
    'unchanged',
    'what is left out does not count',
  );
  await box.writeFile('/workspace/w/file', 'y');
  assert.equal((await box.checkChanges('/workspace/w', { since: before.version })).status, 'changed');
  assert.equal((await box.checkChanges('/workspace/w', { since: 'old.1' })).status, 'resync');
  await refused(box.watch('/none'), 'FILE_NOT_FOUND');
});

test('gitCheckout says what is wrong', async () => {
  await refused(box.gitCheckout('--upload-pack=x'), 'INVALID_GIT_URL');
  await refused(box.gitCheckout('https://example.com/r.git', { depth: 0 }), 'VALIDATION_FAILED');
  await refused(box.gitCheckout('https://example.com/r.git'), 'COMMAND_NOT_FOUND', /no git in the sandbox/);
  // A git of our own, which says what it was asked.
  await rind.writeFile(
    await box.rindId(),
    '/usr/local/bin/git',
    '#!/bin/sh\ncase "$*" in *rev-parse*) echo main;; *gone*) echo "fatal: repository not found" >&2; exit 128;; *) printf "%s|" "$@" >/tmp/asked;; esac\n',
    { mode: '755' },
  );
  const done = await box.gitCheckout('https://example.com/a b/r.git', { depth: 1 });
  assert.deepEqual([done.branch, done.targetDir], ['main', '/workspace/r']);
  assert.equal(
    (await box.readFile('/tmp/asked')).content,
    'clone|--depth|1|--|https://example.com/a b/r.git|/workspace/r|',
  );
  assert.equal((await box.gitCheckout('x', { branch: 'b', targetDir: '/tmp/t' })).branch, 'b');
  await refused(box.gitCheckout('https://example.com/gone'), 'GIT_REPOSITORY_NOT_FOUND');
});

test('setEnvVars counts for the shell, for processes and for later sessions', async () => {
  await box.setEnvVars({ SHARED: "a'b", TMP_VAR: '1' });
  await box.setEnvVars({ TMP_VAR: undefined });
  const later = await box.createSession({ id: 'later' });
  for (const where of [box, later])
    assert.equal((await where.exec('echo "$SHARED ${TMP_VAR-unset}"')).stdout, "a'b unset\n");
  const p = await later.startProcess('echo "$SHARED"');
  await p.waitForExit();
  assert.equal((await p.getLogs()).stdout, "a'b\n");
});

test('what is not there says so', async () => {
  for (const call of ['createCodeContext', 'runCode', 'mountBucket', 'createBackup', 'restoreBackup']) {
    const error = await box[call]('x', 'y', {}).then(
      () => undefined,
      (e) => e,
    );
    assert.ok(error instanceof NotSupportedError && error.message.startsWith(`${call} is not there on rind`), call);
  }
  for (const call of ['get', 'list', 'destroy'])
    await assert.rejects(
      box.tunnels[call](8080),
      (e) => e instanceof NotSupportedError && /exposePort/.test(e.message),
    );
});

test('what the SDK’s code asks of values and errors', async () => {
  assert.ok(isExecResult(await box.exec('exit 3')));
  assert.ok(!isExecResult(null) && !isExecResult({ success: true }));
  const p = await box.startProcess('sleep 1000');
  assert.ok(isProcess(p) && !isProcess({ id: 1 }) && !isProcess(undefined));
  assert.ok(isProcessStatus(await p.getStatus()) && !isProcessStatus('asleep'));
  await p.kill();
  const gone = new SandboxNamespace({ rind: new Rind({ socket: '/nonexistent/rind.sock' }) });
  const error = await gone
    .get('x')
    .exec('true')
    .catch((e) => e);
  assert.ok(isPlatformTransientError(error) && isPlatformTransientError(new Error('outer', { cause: error })));
  const missing = await box.readFile('/nonexistent').catch((e) => e);
  assert.ok(!isPlatformTransientError(missing) && !isPlatformTransientError(undefined));
  assert.equal(isDurableObjectCodeUpdateReset(error), false);
});

test('the root file system of the host: its programs, and nothing of its own', async () => {
  const host = new SandboxNamespace({ rind, spec: { rootfs: 'host' } }).get('host');
  const { stdout, stderr } = await host.exec('python3 -c "print(6 * 7)"; node -p "6 * 7"; ls -A /root /home /srv /run');
  assert.deepEqual([stdout, stderr], ['42\n42\n/home:\nuser\n\n/root:\n\n/run:\n\n/srv:\n', '']);
  assert.match((await host.exec('cat /etc/shadow')).stderr, /No such file/);
  await host.exec(
    'git init -q -b main /tmp/repo && cd /tmp/repo && echo hello >file && git add . && git -c user.name=a -c user.email=a@b commit -qm first',
  );
  const got = await host.gitCheckout('/tmp/repo', { branch: 'main', targetDir: '/workspace/copy' });
  assert.deepEqual([got.success, got.branch], [true, 'main']);
  assert.equal((await host.readFile('/workspace/copy/file')).content, 'hello\n');
  assert.equal((await host.exec('echo mine >/usr/bin/rind-node-test && cat /usr/bin/rind-node-test')).stdout, 'mine\n');
  assert.ok(!existsSync('/usr/bin/rind-node-test'));
  await host.destroy();
});

test('a sandbox that stopped is started, one that is gone is made anew', async () => {
  const s = sandboxes.get('again');
  await s.exec('echo kept >/workspace/file; cd /tmp');
  const id = await s.rindId();
  await rind.stopSandbox(id, { timeoutMs: 0 });
  assert.equal(
    (await s.exec('pwd; cat /workspace/file')).stdout,
    '/workspace\nkept\n',
    'its files are there, its shell is not',
  );
  assert.equal(await s.rindId(), id);
  await rind.deleteSandbox(id, { force: true });
  assert.equal((await s.exists('/workspace/file')).exists, false);
  assert.notEqual(await s.rindId(), id);
  await rind.pauseSandbox(await s.rindId());
  assert.equal((await new SandboxNamespace({ rind }).get('again').exec('echo resumed')).stdout, 'resumed\n');
  await s.stop();
  assert.equal((await rind.inspectSandbox('again')).state, 'stopped');
  await s.writeFile('/workspace/x', 'started by a file');
  assert.equal((await rind.inspectSandbox('again')).state, 'running');
  await s.destroy();
  await assert.rejects(rind.inspectSandbox('again'), RindError);
  await s.destroy();
  assert.equal((await s.exec('echo new')).stdout, 'new\n');
  await s.destroy();
});

test('many callers of a new sandbox make one', async () => {
  const clients = [1, 2, 3].map(() => new SandboxNamespace({ rind: d.client() }).get('crowd'));
  const ids = await Promise.all(clients.flatMap((c) => [c.rindId(), c.exec('true').then(() => c.rindId())]));
  assert.equal(new Set(ids).size, 1);
  await clients[0].destroy();
});

test('a sandbox of another provider is refused, with both names', async () => {
  const theirs = new SandboxNamespace({ rind, provider: 'theirs' }).get('owned');
  await theirs.exec('echo secret >/workspace/secret');
  const ours = sandboxes.get('owned');
  for (const attempt of [
    () => ours.exec('cat /workspace/secret'),
    () => ours.readFile('/workspace/secret'),
    () => ours.destroy(),
    () => ours.stop(),
  ]) {
    await assert.rejects(
      attempt(),
      (e) =>
        e instanceof ProviderMismatchError &&
        /'owned' was made by the provider 'theirs', and this is 'rind'/.test(e.message),
    );
  }
  await rind.createSandbox({ name: 'by-hand' });
  await assert.rejects(sandboxes.get('by-hand').exec('true'), /'by-hand' was made by no provider, and this is 'rind'/);
  await theirs.destroy();
});

test('what it is made with, and until when', async () => {
  const small = new SandboxNamespace({
    rind,
    spec: { limits: { memory: '64m' }, env: { FROM: 'spec' }, user: '1000:1000', labels: { team: 'x' } },
  }).get('small', { sleepAfter: '90s', labels: { job: '7' } });
  assert.equal((await small.exec('id -u; echo $FROM; echo >/tmp/x && echo err >/dev/stderr')).stdout, '1000\nspec\n');
  assert.equal(
    (await (await small.createSession({ id: 's' })).exec('cat; id -g', { stdin: 'in\n' })).stdout,
    'in\n1000\n',
  );
  const { spec, labels } = await rind.inspectSandbox('small');
  assert.deepEqual(
    [spec.inactivityTimeoutMs, labels.team, labels.job, labels['rind.sandbox']],
    [90_000, 'x', '7', 'small'],
  );
  const kept = sandboxes.get('kept', { keepAlive: true });
  await kept.exec('true');
  assert.equal((await rind.inspectSandbox('kept')).spec.inactivityTimeoutMs, undefined);
  await assert.rejects(
    sandboxes.get('wrong', { sleepAfter: 'soon' }).exec('true'),
    /sleepAfter: "soon" is neither seconds nor text/,
  );
  await kept.setKeepAlive(false);
  assert.equal((await rind.inspectSandbox('kept')).spec.inactivityTimeoutMs, 600_000);
});

test('sleepAfter, keepAlive and labels count for one that is there', async () => {
  const box = sandboxes.get('changes', { labels: { a: '1', b: '2' } });
  await box.setSleepAfter('5m'); // before there is one
  await box.exec('cd /usr; X=kept');
  const now = async () => {
    const { spec, labels, restarts, startedAtMs } = await rind.inspectSandbox('changes');
    return {
      ms: spec.inactivityTimeoutMs,
      a: labels.a,
      b: labels.b,
      id: labels['rind.sandbox'],
      restarts,
      startedAtMs,
    };
  };
  const first = await now();
  assert.deepEqual([first.ms, first.a, first.b, first.id], [300_000, '1', '2', 'changes']);
  await box.setSleepAfter(90);
  assert.deepEqual(await now(), { ...first, ms: 90_000 });
  await box.setKeepAlive(true);
  assert.deepEqual(await now(), { ...first, ms: undefined });
  await box.setKeepAlive(false);
  await box.setLabels({ b: '3' });
  assert.deepEqual(await now(), { ...first, ms: 90_000, a: undefined, b: '3' });
  // By another program, with its first call; what it does not ask for stays.
  const other = new SandboxNamespace({ rind: d.client() });
  await other.get('changes').exec('true');
  assert.deepEqual(await now(), { ...first, ms: 90_000, a: undefined, b: '3' });
  await other.get('changes', { sleepAfter: '1h' }).exec('true');
  assert.deepEqual(await now(), { ...first, ms: 3_600_000, a: undefined, b: '3' });
  assert.equal((await box.exec('echo $X; pwd')).stdout, 'kept\n/usr\n', 'nothing was started again');
  await assert.rejects(box.setSleepAfter('soon'), /sleepAfter: "soon"/);
  await rind.createSandbox({ name: 'not-ours', labels: { 'rind.provider': 'theirs' } });
  await assert.rejects(sandboxes.get('not-ours').setSleepAfter('1h'), ProviderMismatchError);
  // One that has gone in between is made with all of it.
  await rind.deleteSandbox('changes', { force: true });
  sandboxes.get('changes', { sleepAfter: '2h' });
  await box.exec('true');
  assert.deepEqual([(await now()).ms, (await now()).b], [7_200_000, '3']);
  // What it was told is what happens.
  await box.setSleepAfter('200ms');
  const listed = async () => (await rind.listSandboxes()).find((b) => b.name === 'changes'); // which is no use of it
  await until(async () => (await listed()).state === 'stopped', 'that nobody uses it');
  await box.destroy();
});

test('an unused sandbox is stopped, though its shell waits; one with a process is not', async () => {
  const [idle, busy] = ['idle', 'busy'].map((id) => sandboxes.get(id, { sleepAfter: '300ms' }));
  await Promise.all([idle.exec('cd /usr'), busy.exec('true'), busy.startProcess('sleep 1000')]);
  const state = async (name) => (await rind.listSandboxes()).find((b) => b.name === name).state;
  await until(async () => (await state('idle')) === 'stopped', 'that nobody uses it');
  assert.equal(await state('busy'), 'running');
  assert.equal((await idle.exec('pwd')).stdout, '/workspace\n', 'it wakes when it is used');
  await busy.destroy();
});

test('processes and files outlive the client and the daemon', async () => {
  const s = sandboxes.get('lives');
  const p = await s.startProcess('i=0; while :; do echo $((i += 1)); sleep 0.02; done', { processId: 'count' });
  await p.waitForLog('2');
  await s.writeFile('/workspace/f', 'here');
  await d.kill();
  await d.start();
  const next = new SandboxNamespace({ rind: d.client() }).get('lives');
  const again = await next.getProcess('count');
  assert.equal(again.status, 'running');
  assert.equal((await next.readFile('/workspace/f')).content, 'here');
  const numbers = (await again.getLogs()).stdout.trim().split('\n').map(Number);
  assert.deepEqual(
    numbers,
    numbers.map((_, i) => i + 1),
    'every line is there, once',
  );
  await again.kill('SIGKILL');
  assert.equal((await s.exec('echo the same client goes on')).exitCode, 0);
});
