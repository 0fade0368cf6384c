// Sessions: what holds from one command to the next, and what does not get out of one command into another.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  CommandTimeoutError,
  SandboxNamespace,
  SessionTerminatedError,
  parseSSEStream,
} from '../../clients/node/dist/index.mjs';
import { collect, daemon, streamFrom, until } from './harness.mjs';

const d = await daemon();
const rind = d.client();
// The shell of the root file system: busybox's where nothing is said, bash with that of the host (test-sessions-host.mjs).
const spec = process.env.RIND_TEST_ROOTFS ? { rootfs: process.env.RIND_TEST_ROOTFS } : undefined;
const sandboxes = new SandboxNamespace({ rind, spec });
const box = sandboxes.get('sessions');
const out = async (command, options) => (await box.exec(command, options)).stdout;

/** Command lines of the sandbox's processes, by its own `ps`. */
async function processes() {
  const { stdout } = await rind.exec(await box.rindId(), { cmd: 'ps -o args' });
  return stdout.split('\n').map((line) => line.trim());
}

test('directory, variables, functions and status hold', async () => {
  assert.equal(await out('pwd'), '/workspace\n');
  await box.exec('cd /usr; LOCAL=1; export GLOBAL="a b"; f() { echo "f $1"; return 4; }; umask 077');
  assert.equal(await out('pwd; echo "$LOCAL-$GLOBAL"; umask'), '/usr\n1-a b\n0077\n');
  const f = await box.exec('f x');
  assert.deepEqual([f.success, f.exitCode, f.stdout], [false, 4, 'f x\n']);
  assert.equal(await out('echo $?'), '0\n', 'each command begins without the status of the last');
});

test('every end of a command has its status', async () => {
  const rows = [
    ['true', 0],
    ['false', 1],
    ['exit 7', 7],
    ['sh -c "exit 300"', 44],
    ['sh -c "kill -9 $$"', 137],
    ["sh -c 'kill -TERM $$'", 143],
    ['no-such-command', 127],
    ['/etc', 126],
    ['return 5', 5],
    ['set -e; false; echo not reached', 1],
    ['(exit 9)', 9],
    ['! true', 1],
  ];
  for (const [command, want] of rows.filter(([c]) => c !== 'sh -c "kill -9 $$"')) {
    const got = await box.exec(command);
    assert.equal(got.exitCode, want, command);
    assert.equal(got.success, want === 0, command);
    assert.equal(got.stdout, '', command);
  }
});

test('unbalanced quotes and other syntax errors fail that command only', async () => {
  await box.exec('cd /tmp; export KEPT=1');
  for (const command of [
    'echo "open',
    "echo 'open",
    'if true',
    '} ; (',
    'echo $(',
    'cat <<X\nnever ended',
    'case x in',
    'for',
  ]) {
    const result = await box.exec(command, { timeout: 10_000 });
    if (!command.startsWith('cat')) assert.notEqual(result.exitCode, 0, command);
    assert.equal(await out('pwd; echo $KEPT'), '/tmp\n1\n', `after ${command}`);
  }
});

test('exit keeps directory and exported variables', async () => {
  await box.exec('cd /usr/local; export E=kept; N=gone');
  assert.equal((await box.exec('exit 3')).exitCode, 3);
  assert.equal((await box.exec('exit')).exitCode, 0);
  assert.equal(await out('pwd; echo "$E-$N"'), '/usr/local\nkept-\n');
});

test('outputs of commands never mix, whatever stays in the background', async () => {
  await box.exec('(while :; do echo noise; echo noise >&2; sleep 0.01; done) &');
  for (let i = 0; i < 20; i++) {
    const { stdout, stderr } = await box.exec(`echo ${i}; echo e${i} >&2`);
    assert.deepEqual([stdout, stderr], [`${i}\n`, `e${i}\n`]);
  }
  const begun = Date.now();
  assert.equal(await out('sleep 30 & echo at once'), 'at once\n');
  assert.ok(Date.now() - begun < 15_000, 'a background child holds up nothing');
  assert.equal(await out('sleep 0.1 & wait $!; echo waited'), 'waited\n', 'and is a job of the shell');
});

test('what a command prints cannot be taken for the end of it', async () => {
  const forged =
    'for i in 1 2 3 4 5 6 7 8 9; do echo "end $i 99"; echo "run $i"; done; printf "\\0\\377\\036 end\\n"; exit 6';
  const result = await box.exec(forged);
  assert.equal(result.exitCode, 6);
  assert.equal(result.stdout.split('\n').length, 20);
});

test('stdin is the command’s own, and ends', async () => {
  assert.equal(await out('cat', { stdin: 'text' }), 'text');
  assert.equal(await out('cat'), '');
  assert.equal(await out('read a; read b; echo "$b $a"', { stdin: '1\n2\n3\n' }), '2 1\n');
  assert.equal(await out('echo "${a-} ${b-}"'), '1 2\n', 'read sets variables of the shell');
  const many = new Uint8Array(3_000_000).fill(65);
  assert.equal(await out('wc -c', { stdin: many }), '3000000\n');
  assert.equal(await out('wc -c', { stdin: streamFrom([many, many]) }), '6000000\n');
  assert.equal((await box.exec('exit 2', { stdin: many })).exitCode, 2, 'which is not read');
});

test('variables and directory of one command do not stay', async () => {
  await box.exec('cd /usr; export HELD=old; unset FREE');
  const tricky = `a'b"c$d\n\\e`;
  assert.equal(
    await out('printf %s "$HELD|$FREE|$PWD"', { env: { HELD: 'new', FREE: tricky, NONE: undefined }, cwd: '/tmp' }),
    `new|${tricky}|/tmp`,
  );
  assert.equal(await out('echo "$HELD|${FREE-unset}|$PWD"'), 'old|unset|/usr\n');
  assert.equal((await box.exec('exit 4', { env: { HELD: 'x' }, cwd: '/tmp' })).exitCode, 4);
  assert.equal(await out('echo "$HELD|$PWD"'), 'old|/usr\n', 'not even by an exit');
  assert.notEqual((await box.exec('echo not run', { cwd: '/none' })).exitCode, 0);
  await assert.rejects(box.exec('true', { env: { 'A B': '1' } }), /no name of a variable/);
});

test('commands of one session wait for each other; other sessions do not', async () => {
  const [a, b] = await Promise.all([box.exec('X=1; sleep 0.2; X=2'), box.exec('echo $X')]);
  assert.deepEqual([a.exitCode, b.stdout], [0, '2\n']);
  const all = await Promise.all(Array.from({ length: 10 }, (_, i) => box.exec(`echo ${i}`)));
  assert.deepEqual(
    all.map((r) => r.stdout),
    Array.from({ length: 10 }, (_, i) => `${i}\n`),
  );

  const other = await box.createSession({ id: 'other', cwd: '/tmp', env: { ONLY: 'here', NOT: undefined } });
  const gate = box.exec('while [ ! -e /tmp/gate ]; do sleep 0.02; done; pwd');
  assert.equal((await other.exec('echo $ONLY; pwd; cd /; touch /tmp/gate')).stdout, 'here\n/tmp\n');
  assert.equal((await gate).stdout, '/usr\n');
  assert.equal(await out('echo "${ONLY-none}"'), 'none\n');
});

test('a time-out ends the command and what it started, and keeps the session', async () => {
  await box.exec('cd /usr; export T=1; sleep 4321 & sleep 4322 | sleep 4323 &');
  for (const command of [
    'sleep 1234',
    'sh -c "sleep 1234; :"; echo next',
    'while :; do :; done',
    'sleep 1234 & sleep 1234',
    '(sleep 1234 &); sleep 1234',
    'cat /dev/zero | sleep 1234',
  ]) {
    const error = await box.exec(`echo said; ${command}`, { timeout: 150 }).then(
      () => undefined,
      (e) => e,
    );
    assert.ok(error instanceof CommandTimeoutError, `${command}: ${error}`);
    assert.match(error.message, /Command timed out after 150ms/);
    assert.deepEqual(
      [error.code, error.context.stdout, error.context.timeout],
      ['COMMAND_EXECUTION_ERROR', 'said\n', 150],
    );
    assert.equal(await out('pwd; echo $T', { timeout: 20_000 }), '/usr\n1\n', `the session after ${command}`);
    await until(async () => !(await processes()).includes('sleep 1234'), `the end of ${command}`);
  }
  for (const left of ['sleep 4321', 'sleep 4322', 'sleep 4323'])
    assert.ok((await processes()).includes(left), `what earlier commands left goes on: ${left}`);
});

test('an abort ends the command, in its turn or before', async () => {
  const controller = new AbortController();
  const running = box.exec('echo up >/tmp/up; sleep 2345', { signal: controller.signal });
  const waiting = box.exec('echo no >/tmp/waiting', { signal: controller.signal });
  const refused = [running, waiting].map((p) => assert.rejects(p, /enough/));
  await until(() => rind.fileExists('sessions', '/tmp/up'), 'the command');
  controller.abort(new Error('enough'));
  await Promise.all(refused);
  assert.equal(await out('echo still; test -e /tmp/waiting || echo never'), 'still\nnever\n');
  await until(async () => !(await processes()).includes('sleep 2345'), 'its end');
  await assert.rejects(box.exec('true', { signal: AbortSignal.abort(new Error('before')) }), /before/);
});

test('a shell that is killed or replaced is said, and the next command starts afresh', async () => {
  for (const [command, code] of [
    ['kill -9 $$', 137],
    ['exec sh -c "echo last; exit 5"', 5],
  ]) {
    await box.exec('cd /usr');
    const error = await box.exec(command).then(
      (r) => assert.fail(JSON.stringify(r)),
      (e) => e,
    );
    assert.ok(error instanceof SessionTerminatedError, `${command}: ${error}`);
    assert.deepEqual([error.code, error.sessionId, error.exitCode], ['SESSION_TERMINATED', 'sandbox-sessions', code]);
    assert.equal(await out('pwd'), '/workspace\n');
  }
  const id = await box.rindId();
  const shell = (await rind.listExecs(id)).find((e) => e.keep && e.state === 'running' && e.command !== undefined);
  await rind.deleteExec(id, shell.execId, { force: true });
  assert.equal(await out('echo again'), 'again\n', 'one that ended between two commands');
});

test('execStream runs beside other commands, with the state of the session', async () => {
  await box.exec('cd /usr; S=state; rm -f /tmp/go');
  const stream = await box.execStream(
    'echo $S; pwd; S=changed; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo err >&2; exit 3',
  );
  assert.equal(await out('touch /tmp/go; echo $S'), 'state\n');
  const events = await collect(parseSSEStream(stream));
  assert.equal(events[0].type, 'start');
  assert.equal(
    events
      .filter((e) => e.type === 'stdout')
      .map((e) => e.data)
      .join(''),
    'state\n/usr\n',
  );
  assert.equal(
    events
      .filter((e) => e.type === 'stderr')
      .map((e) => e.data)
      .join(''),
    'err\n',
  );
  assert.deepEqual([events.at(-1).type, events.at(-1).exitCode], ['complete', 3]);

  const late = await collect(parseSSEStream(await box.execStream('echo x; sleep 3456', { timeout: 150 })));
  assert.deepEqual([late.at(-1).type, /timed out/.test(late.at(-1).error)], ['error', true]);
  const left = (await box.execStream('echo x; sleep 3456')).getReader();
  await left.read();
  await left.read();
  await left.cancel();
  await until(async () => !(await processes()).some((p) => p.includes('sleep 3456')), 'the end of what was cancelled');
});

test('long commands, big outputs, all bytes', async () => {
  const long = `: ${'x'.repeat(300_000)}; echo long`;
  assert.equal(await out(long), 'long\n');
  const { stdout, stderr } = await box.exec(
    'head -c 5000000 /dev/zero | tr "\\0" a; head -c 3000000 /dev/zero | tr "\\0" b >&2',
  );
  assert.deepEqual([stdout.length, stderr.length], [5_000_000, 3_000_000]);
  const grün = 'ü€𝄞'.repeat(50_000);
  assert.equal(await out('cat', { stdin: grün }), grün);
});

test('sessions: made once, found again, ended with what they started', async () => {
  const one = await box.createSession({ id: 'one', commandTimeoutMs: 200 });
  assert.equal(one.id, 'one');
  await assert.rejects(box.createSession({ id: 'one' }), { code: 'SESSION_ALREADY_EXISTS' });
  await assert.rejects(one.exec('sleep 100'), CommandTimeoutError);
  assert.equal(
    (await one.exec('sleep 0.3; echo ok', { timeout: 10_000 })).stdout,
    'ok\n',
    'a call’s own time goes first',
  );
  await one.exec('cd /usr; V=1; sleep 5678 &');
  assert.equal((await (await box.getSession('one')).exec('pwd; echo $V')).stdout, '/usr\n1\n');
  await one.setEnvVars({ SET: 'it', HOME: undefined });
  assert.equal((await one.exec('echo "$SET ${HOME-unset}"')).stdout, 'it unset\n');

  const deleted = await box.deleteSession('one');
  assert.deepEqual([deleted.success, deleted.sessionId], [true, 'one']);
  await until(async () => !(await processes()).includes('sleep 5678'), 'the end of what it had started');
  await assert.rejects(one.exec('true'), { code: 'SESSION_DESTROYED' });
  assert.equal((await (await box.getSession('one')).exec('echo "${V-new}"')).stdout, 'new\n');
  await assert.rejects(box.deleteSession('sandbox-sessions'), /Cannot delete default session/);
});

test('without a default session nothing holds', async () => {
  const plain = sandboxes.get('plain', { enableDefaultSession: false });
  await plain.exec('cd /usr; export A=1');
  assert.equal((await plain.exec('pwd; echo "${A-none}"')).stdout, '/workspace\nnone\n');
  assert.equal((await plain.exec('exit 7')).exitCode, 7);
  await assert.rejects(plain.exec('sleep 100', { timeout: 100 }), CommandTimeoutError);
  assert.equal((await plain.exec('echo "$B"; cat', { env: { B: 'b' }, stdin: 'in' })).stdout, 'b\nin');
});

test('processes start with the directory and the exported variables of their session', async () => {
  await box.exec('cd /usr; export P="a b"');
  const process = await box.startProcess('pwd; echo "$P$Q"', { env: { Q: "it's" } });
  assert.equal((await process.waitForExit()).exitCode, 0);
  assert.equal((await process.getLogs()).stdout, "/usr\na bit's\n");
  assert.equal(process.command, 'pwd; echo "$P$Q"');
});

test('another client goes on with the same shell, also after the daemon has started again', async () => {
  await box.exec('cd /usr/bin; export LIVES=yes; ONLY=shell');
  const second = new SandboxNamespace({ rind: d.client(), spec }).get('sessions');
  assert.equal((await second.exec('pwd; echo $LIVES $ONLY')).stdout, '/usr/bin\nyes shell\n');
  await d.kill();
  await d.start();
  const third = new SandboxNamespace({ rind: d.client(), spec }).get('sessions');
  assert.equal((await third.exec('pwd; echo $LIVES $ONLY')).stdout, '/usr/bin\nyes shell\n');
  assert.equal(await out('pwd'), '/usr/bin\n');
});
