// What a command can do to its own session's shell: how it is answered, and what the next command finds.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import {
  CommandTimeoutError,
  SandboxNamespace,
  SessionTerminatedError,
  parseSSEStream,
} from '../../clients/node/dist/index.mjs';
import { collect, daemon, until } from './harness.mjs';

const d = await daemon();
const rind = d.client();

// Which shell a session has: bash where there is one, else /bin/sh. Dash is put where bash would be.
const SHELLS = [
  { shell: 'busybox', spec: undefined, is: 'echo "${BASH_VERSION-}"; readlink /proc/$$/exe', wants: /^\n.*busybox\n$/ },
  { shell: 'bash', needs: ['/bin/bash'], spec: { rootfs: 'host' }, is: 'echo "$BASH_VERSION"', wants: /^\d/ },
  {
    shell: 'dash',
    needs: ['/usr/bin/dash', '/usr/bin/bash'],
    spec: { rootfs: 'host', volumes: [{ source: '/usr/bin/dash', target: '/usr/bin/bash', readOnly: true }] },
    is: 'echo "${BASH_VERSION-}"; readlink /proc/$$/exe; echo $0',
    wants: /^\n.*\n\/bin\/bash\n$/,
  },
];

const LATE = 'a time-out';
const FRESH = '/workspace '; // directory and the variable of a session that has begun afresh
const GONE = (code) => ({ gone: code });
const SLOW_MS = 60_000; // beyond a command's time, for all that a time-out may have to do on a busy machine

/**
 * [command, what it is answered, how that goes on]
 *
 * The answer: an exit status; GONE(status): the session has ended, the next command begins afresh; LATE: after the time-out of
 * `timeout` ms. Where the session goes on, directory and exported variables are as they were (or as `then` says). `out`: what the
 * command has printed. `only`: for these shells. No command comes to `echo rest`, which stands after the end of its shell, and would
 * leave a file too; but for `rest`: at the time-out stdin ends first, and the shell may go on a moment with that.
 */
const TABLE = [
  // Signals that end the shell.
  ...['TERM', 'INT', 'HUP', 'KILL', 'QUIT', 'USR1', 'USR2', 'ALRM'].map((name) => [
    `kill -${name} $$; echo rest`,
    GONE({ TERM: 143, INT: 130, HUP: 129, KILL: 137, QUIT: 131, USR1: 138, USR2: 140, ALRM: 142 }[name]),
    name === 'QUIT' ? { only: ['dash'] } : {}, // the others ignore it
  ]),
  ['kill 0; sleep 30; echo rest', GONE(143)],
  ['kill -INT 0; sleep 30; echo rest', GONE(130)],
  ["sh -c 'kill $PPID'; sleep 1; echo rest", GONE(143)],
  ['false; kill -TERM $$; echo rest', GONE(143)],
  ['sh -c "exit 143"; kill -TERM $$; echo rest', GONE(143)],
  ['f() { kill -TERM $$; }; f; echo rest', GONE(143)],
  ['trap "echo bye" EXIT; kill -KILL $$; echo rest', GONE(137)],
  ['echo said; kill -TERM $$; echo rest', GONE(143)],
  ['trap "exit 0" EXIT; kill -TERM $$; echo rest', { any: [GONE(0), GONE(143)] }],
  ['trap "exit 0" EXIT; sh -c "kill $$"; echo rest', { any: [GONE(0), GONE(143)] }],
  ['trap "exit 0" EXIT; true; kill 0; sleep 30; echo rest', { any: [GONE(0), GONE(143)] }],
  // What is no end of the shell.
  ['kill -PIPE $$; echo on', 0, { out: 'on\n' }],
  ['kill -50 $$; echo on', 0, { out: 'on\n' }],
  ['trap "echo caught" TERM; kill -TERM $$; echo on', 0, { out: 'caught\non\n' }],
  ['trap "echo caught" USR1; kill -USR1 $$; echo on', 0, { out: 'caught\non\n' }],
  ['trap "" TERM HUP INT; kill 0; kill -HUP $$; echo on', 0, { out: 'on\n' }],
  ['(kill -TERM $(sh -c "echo \\$PPID")); echo $?', 0, { out: '143\n' }],
  ['trap "exit 6" TERM; kill -TERM $$; echo rest', 6],
  ['trap "echo bye" EXIT; trap "exit 6" TERM; kill -TERM $$; echo rest', 6, { out: 'bye\n' }],
  // The shell replaced.
  ['exec true; echo rest', GONE(0)],
  ["exec sh -c 'exit 4'; echo rest", GONE(4)],
  ['exec cat; echo rest', GONE(0)],
  ['exec no-such-program; echo rest', { any: [127, GONE(127)] }],
  ['trap "echo bye" EXIT; exec true; echo rest', GONE(0), { out: '' }],
  ['(exec true); echo on', 0, { out: 'on\n' }],
  // `exit` and what is like it.
  ['exit', 0],
  ['exit 3; echo rest', 3],
  ['exit 143', 143],
  ['exit 300', 44],
  ['(exit 3); echo on', 0, { out: 'on\n' }],
  ['false; exit', 1],
  ['f() { exit 9; }; f; echo rest', 9],
  ['eval "exit 5"; echo rest', 5],
  ['cd /; export KEPT=new; exit 3', 3, { then: '/ new' }],
  ['umask 027; exit 3', 3, { next: 'umask', then: '0027' }],
  ['mkdir -p /tmp/real; ln -sfn real /tmp/link; cd /tmp/link; exit 3', 3, { then: '/tmp/link yes' }],
  [
    'mkdir -p "/tmp/a  b\n\'c"; cd "/tmp/a  b\n\'c"; export KEPT="q\'\n\\"$"; exit 3',
    3,
    {
      then: "/tmp/a  b\n'c q'\n\"$",
    },
  ],
  ['f() { echo kept; }; export -f f; exit 3', 3, { only: ['bash'], next: 'f', then: 'kept' }],
  // …under a trap of the command's own.
  ['trap "echo bye" EXIT; exit 3', 3, { out: 'bye\n' }],
  ["trap 'echo bye $?' EXIT; exit 3", 3, { out: 'bye 3\n' }],
  ["trap 'echo bye $?' 0; exit 3", 3, { out: 'bye 3\n' }],
  ["trap -- 'echo bye' INT EXIT; exit 3", 3, { out: 'bye\n' }],
  ['cd /; export KEPT=new; trap "echo bye" EXIT; exit 3', 3, { out: 'bye\n', then: '/ new' }],
  ['trap "echo bye; exit 5" EXIT; exit 3', 5, { out: 'bye\n' }],
  ['trap "exit 0" EXIT; exit 3', GONE(0)],
  ['trap "exit 0" EXIT; exit', 0],
  ['trap "r=\\$?; echo bye; exit \\$r" EXIT; exit 3', 3, { out: 'bye\n' }],
  ['trap "r=\\$?; echo bye; exit \\$r" EXIT; exit 0', 0, { out: 'bye\n' }],
  ["trap 'echo one' EXIT; trap 'echo two' EXIT; exit 3", 3, { out: 'two\n' }],
  ["trap 'echo no' EXIT; trap - EXIT; exit 3", 3, { out: '' }],
  ["trap 'echo no' EXIT; trap '' EXIT; exit 3", 3, { out: '' }],
  ["trap 'echo no' EXIT; trap EXIT; exit 3", 3, { out: '', only: ['bash', 'dash'] }],
  ['trap \'echo bye\' EXIT; t=$(trap); trap - EXIT; eval "$t"; exit 3', 3, { out: 'bye\n', only: ['bash'] }],
  ["set -e; trap 'echo bye $?' EXIT; false; echo rest", 1, { out: 'bye 1\n' }],
  ["set -eu; trap 'echo bye' EXIT; echo $NO_SUCH; echo rest", { any: [1, 2, 127] }, { out: 'bye\n' }],
  ["(trap 'echo sub' EXIT; exit 4); echo $?", 0, { out: 'sub\n4\n' }],
  ["x=$(trap 'echo sub' EXIT; exit 4); echo $? $x", 0, { out: '4 sub\n' }],
  ["f() { trap 'echo bye' EXIT; }; f; exit 3", 3, { out: 'bye\n' }],
  ['trap "echo bye" EXIT', 0, { out: '', next: 'exit 3', status: 3, then: 'bye' }],
  ['command trap "echo bye" EXIT; exit 3', GONE(3), { out: 'bye\n', only: ['bash', 'dash', 'busybox'] }],
  ["trap 'echo err' ERR; trap - ERR; false; echo on", 0, { only: ['bash'], out: 'on\n' }],
  ["trap 'echo no' DEBUG; trap - DEBUG; :; echo >/tmp/on; :", 0, { only: ['bash'] }],
  // Control flow that could leave the shell's own loop.
  ['echo a; break; echo b', 0, { out: 'a\nb\n' }],
  ['echo a; break 9; echo b', 0, { out: 'a\nb\n' }],
  ['echo a; continue 2>/dev/null; echo b', 0, { out: 'a\nb\n' }],
  ['for i in 1 2; do break; done; echo on', 0, { out: 'on\n' }],
  ['return 5; echo rest', 5],
  ['set -e; false; echo rest', 1],
  ['set -e', 0, { next: 'false; echo rest', status: 1, then: '' }],
  ['set -u; echo ${NO_SUCH}; echo rest', { any: [1, 2, 127] }],
  ['echo ${NO_SUCH:?none}; echo rest', { any: [1, 2, 127] }],
  ['readonly R=1; R=2; echo $?', { any: [0, 1, 2] }, { out: undefined }],
  // A shell that reads, but runs nothing any more.
  ['set -n; echo rest', GONE(undefined)],
  ['set -n', GONE(undefined)],
  ['exec >/dev/null 2>&1; trap "echo bye" EXIT; exit 3', 3, { out: '' }],
  // Descriptors.
  ['exec >/dev/null; echo unseen', 0, { out: '' }],
  ['exec 2>&1; echo seen >&2', 0, { out: 'seen\n' }],
  ['exec <&-; echo on', 0, { out: 'on\n' }],
  ['exec >&-', 0],
  ['exec <&- >&- 2>&-', 0],
  ['exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; echo on', 0, { out: 'on\n' }],
  ['i=3; while [ $i -lt 300 ]; do eval "exec $i>&-"; i=$((i + 1)); done; echo on', 0, { only: ['bash'], out: 'on\n' }],
  ['exec 7</dev/null 9</dev/null; echo on', 0, { out: 'on\n' }],
  // Builtins that are not what they were.
  ...['read', 'echo', 'cd', 'printf', 'command', '[', 'jobs', 'pwd', 'umask', 'test', 'kill'].map((name) => [
    name === '[' ? 'alias "[=false"' : `${name}() { return 9; }; alias ${name}=false`,
    0,
    { next: 'X=1', then: '' },
  ]),
  ...['eval', 'exit', 'return', 'unset', 'export', 'trap', 'set', 'exec', 'shift', ':', '.'].map((name) => [
    `${name}() { builtin echo mine; }`,
    0,
    { only: ['bash'], next: 'X=1', then: '' },
  ]),
  ['builtin() { :; }', 0, { only: ['bash'] }],
  ['builtin() { return 1; }; command() { return 1; }; unset() { :; }', 0, { only: ['bash'] }],
  [
    'read() { :; }; echo() { :; }; alias read=: echo=: command=: eval=: exit=: trap=: export=:',
    0,
    { next: 'X=1', then: '' },
  ],
  ['alias exit="echo no" echo=false eval=false cd=false export=false', 0, { next: 'X=1', then: '' }],
  ['exit() { command exit 8; }; exit 3', 8, { only: ['bash'] }],
  ['cd() { echo mine; }; true', 0, { cwd: '/', env: { OWN: 'x' }, out: '' }],
  ['enable -n echo read eval', GONE(undefined), { only: ['bash'] }],
  ['unset -f __rind_trap; unalias -a; trap "echo bye" EXIT; exit 3', { any: [3, GONE(3)] }, { out: undefined }],
  // Variables and options that the shell's own code could fall over.
  ['IFS=0123456789abcdef', 0],
  ['readonly IFS', 0],
  ['TMOUT=1; export TMOUT', 0],
  ['set -f', 0],
  ['set -C', 0],
  ['set -a; A=1', 0],
  ['set -x 2>/dev/null', 0, { next: 'exec 2>/dev/null; set +x; pwd; echo $KEPT', then: '/usr\nyes' }],
  ['set -u', 0],
  ['set -euo pipefail', 0, { only: ['bash'] }],
  ['set -o posix', 0, { only: ['bash'] }],
  ['set -o posix\ntrap "echo bye" EXIT; exit 3', 3, { only: ['bash'], out: 'bye\n' }],
  ['set -r', GONE(undefined), { only: ['bash'] }],
  ['set -- a b c', 0, { next: 'echo $#', then: '3' }],
  ['PATH=/nowhere; export PATH', 0, { next: 'pwd; echo $PATH', then: '/usr\n/nowhere' }],
  ['PATH=/nowhere; export PATH; exit 3', 3, { next: 'pwd; echo $PATH', then: '/usr\n/nowhere' }],
  ['trap "echo dbg >&2" DEBUG', 0, { only: ['bash'] }],
  ['trap "exit 9" DEBUG', { any: [0, 9] }, { only: ['bash'], next: 'true', status: { any: [0, 9] } }],
  // A fork bomb by the trap: on a slow machine the shell cannot be interrupted in time, and the session begins afresh.
  ['set -T; shopt -s extdebug 2>/dev/null; trap "(exit 1)" DEBUG', LATE, { only: ['bash'], next: 'true' }],
  // Nothing but the time-out ends these.
  ['echo said; sleep 1000', LATE, { out: 'said\n' }],
  ['while :; do :; done', LATE],
  ['trap "" TERM INT HUP USR1 USR2; sleep 1000', LATE],
  ['trap "" 1 2 3 10 12 14 15 50; while :; do :; done', LATE],
  ["trap 'while :; do :; done' EXIT; sleep 1000", LATE],
  ["trap 'sleep 1000' EXIT; exit 3", LATE],
  ['kill -STOP $$; echo rest', LATE],
  ['kill -STOP $PPID; sleep 1000', LATE],
  ['kill -STOP 0; echo rest', LATE],
  ['kill -STOP $PPID; exit 3', LATE],
  ['exec sleep 1000', LATE],
  ['read x; echo rest', LATE, { stdin: 'open', rest: true }],
  ['cat; echo rest', LATE, { stdin: 'open', rest: true }],
  ['exec cat; echo rest', LATE, { stdin: 'open' }],
  ['kill() { :; }; exit() { :; }; sleep 1000', LATE, { only: ['bash'] }],
  ['sleep() { while :; do :; done; }; sleep 1000', LATE],
  ['cd /; export KEPT=new; while :; do :; done', LATE, { then: '/ new' }],
  ['cd /; export KEPT=new; trap "" 50; while :; do :; done', LATE],
  ['kill -9 $PPID; sleep 1000', { any: [LATE, GONE(137)] }, { then: FRESH }],
  ['(sleep 0.1; kill -9 $$) & sleep 1000', GONE(137)],
  ['(kill -STOP $$) & wait; echo on', { any: [LATE, 0] }, { out: undefined }],
];

/** What a command was answered: a status, GONE of a status, or LATE. */
async function answer(session, command, options = {}) {
  try {
    return await session.exec(command, options).then(({ exitCode, success, stdout }) => {
      assert.equal(success, exitCode === 0);
      return { told: exitCode, stdout };
    });
  } catch (error) {
    if (error instanceof CommandTimeoutError) return { told: LATE, stdout: error.context.stdout };
    if (error instanceof SessionTerminatedError) return { told: GONE(error.exitCode) };
    throw error;
  }
}

function same(want, told) {
  if (typeof want === 'object' && 'any' in want) return want.any.some((one) => same(one, told));
  if (typeof want === 'object') return typeof told === 'object' && (want.gone === undefined || want.gone === told.gone);
  return want === told;
}

async function row(box, id, [command, want, how = {}]) {
  const session = await box.createSession({ id });
  await session.exec('cd /usr; export KEPT=yes');
  const timeout = want === LATE || want?.any?.includes(LATE) ? 300 : 60_000;
  const stdin = how.stdin === 'open' ? new ReadableStream({}) : undefined;
  const options = { timeout, stdin, cwd: how.cwd, env: how.env };
  const begun = Date.now();
  const rest = `/tmp/rest-${id}`;
  const { told, stdout } = await answer(
    session,
    command.replaceAll('echo rest', `{ echo rest; echo >${rest}; }`),
    options,
  );
  assert.ok(same(want, told), `answered with ${JSON.stringify(told)} instead of ${JSON.stringify(want)}`);
  assert.ok(Date.now() - begun < timeout + SLOW_MS, `${Date.now() - begun} ms`);
  if (stdout !== undefined && !how.rest) assert.ok(!stdout.includes('rest'), `it goes on: ${stdout}`);
  if (how.out !== undefined && stdout !== undefined) assert.equal(stdout, how.out);

  const next = await answer(session, how.next ?? 'echo "$PWD ${KEPT-}"', { timeout: 30_000 });
  assert.ok(same(how.status ?? 0, next.told), `the next command: ${JSON.stringify(next)}`);
  const wants = how.then ?? (typeof told === 'object' ? FRESH : '/usr yes');
  if (how.next === undefined || how.then !== undefined)
    assert.equal(next.stdout.trimEnd(), wants.trimEnd(), 'directory and variables afterwards');
  assert.equal((await session.exec('X=1', { timeout: 30_000 })).exitCode, 0, 'the one after that');
  if (!how.rest) assert.ok(!(await box.exists(rest)).exists, 'the rest has been run');
  await box.deleteSession(id);
}

test('a command that ends its own shell is no success, and each ends at its time-out', async (all) => {
  for (const { shell, needs = [], spec, is, wants } of SHELLS) {
    const missing = needs.find((path) => !existsSync(path));
    const skip = missing ? `no ${missing} on this host` : false;
    await all.test(`in ${shell}`, { skip, concurrency: 6 }, async (t) => {
      const box = new SandboxNamespace({ rind, spec }).get(`truth-${shell}`);
      assert.match((await box.exec(is)).stdout, wants, 'the shell');
      const rows = TABLE.filter(([, , how]) => !how?.only || how.only.includes(shell));
      await Promise.all(rows.map((one, i) => t.test(one[0].replaceAll('\n', '\\n'), () => row(box, `row-${i}`, one))));
    });
  }
});

// What a command has made of umask and of the session's directory, for a user who may then not read it: root always may.
const NOT_ROOT = [
  ['umask 777; exit 3', 3, { next: 'umask 022; echo "$PWD $KEPT"', then: '/usr yes' }],
  ['umask 777; cd /; export KEPT=new; exit 3', 3, { next: 'umask 022; echo "$PWD $KEPT"', then: '/ new' }],
  ['umask 777; sleep 1000; echo rest', LATE, { then: '/usr yes' }],
  ['umask 777', 0, { next: 'umask 022; kill -9 $$; echo rest', status: GONE(137) }],
];

test('a user who is not root has a session after any umask, and after any mode of its directory', async (all) => {
  for (const { shell, needs = [], spec } of SHELLS) {
    const skip = needs.some((path) => !existsSync(path)) ? `no ${shell} on this host` : false;
    await all.test(`in ${shell}`, { skip }, async (t) => {
      const box = new SandboxNamespace({ rind, spec: { ...spec, user: '1000' } }).get(`truth-1000-${shell}`);
      assert.equal((await box.exec('id -u')).stdout, '1000\n');
      for (const [i, one] of NOT_ROOT.entries()) await t.test(one[0], () => row(box, `row-${i}`, one));

      await t.test('streams after umask 777', async () => {
        const session = await box.createSession({ id: 'streams' });
        await session.exec('cd /usr; export KEPT=yes; umask 777');
        for (const command of ['echo up; sleep 987', '(sleep 987 &); echo up; sleep 987']) {
          const { last, stdout } = await stream(session, command, { timeout: 500 });
          assert.match(last.error ?? '', /timed out/, command);
          assert.equal(stdout, 'up\n', 'it has run');
          await until(async () => !(await processes(box)).includes('sleep 987'), `the end of ${command}`);
          const { stdout: state } = await session.exec('echo "$PWD $KEPT"; umask');
          assert.match(state, /^\/usr yes\n0?777\n$/);
        }
        assert.deepEqual((await stream(session, 'echo on')).stdout, 'on\n');
      });

      await t.test('chmod 0 of its directory', async () => {
        for (const command of ['chmod 0 /dev/shm/.rind/*', 'chmod 0 /dev/shm/.rind']) {
          const session = await box.createSession({ id: command.length.toString() });
          const { told } = await answer(session, command, { timeout: 2000 });
          assert.notEqual(typeof told, 'undefined');
          let next;
          for (let i = 0; i < 5 && next?.told !== 0; i++) next = await answer(session, 'echo on', { timeout: 20_000 });
          assert.deepEqual(next, { told: 0, stdout: 'on\n' }, command);
        }
      });
    });
  }
});

// The same of what runs beside, of commands without a session, and of what is left of a session.
const box = new SandboxNamespace({ rind, spec: { limits: { pids: 64 } } }).get('truth');

/** The command lines of the sandbox's processes. */
async function processes(one = box) {
  const { stdout } = await rind.exec(await one.rindId(), {
    cmd: "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$f && echo; done 2>/dev/null",
  });
  return stdout.split('\n').map((line) => line.trim());
}

async function stream(session, command, options) {
  const events = await collect(parseSSEStream(await session.execStream(command, options)));
  const said = events.filter((e) => e.type === 'stdout').map((e) => e.data);
  return { last: events.at(-1), stdout: said.join('') };
}

test('execStream tells the end of its own copy of the shell', async () => {
  const session = await box.createSession({ id: 'beside' });
  await session.exec('cd /usr; export KEPT=yes');
  for (const [command, exitCode, out] of [
    ['kill 0; sleep 30; echo rest', 143, ''],
    ["sh -c 'kill $PPID'; sleep 1; echo rest", 143, ''],
    ["exec sh -c 'exit 4'; echo rest", 4, ''],
    ['trap "echo bye" EXIT; exit 3', 3, 'bye\n'],
    ['exit 5; echo rest', 5, ''],
    ['set -e; false; echo rest', 1, ''],
    ['break; kill -TERM $$; echo on', 0, 'on\n'],
    ['echo() { :; }; read() { :; }; exec >&-', 0, ''],
  ]) {
    const { last, stdout } = await stream(session, command);
    assert.deepEqual([last.type, last.exitCode, stdout], ['complete', exitCode, out], command);
    assert.equal((await session.exec('echo $PWD $KEPT')).stdout, '/usr yes\n', `after ${command}`);
  }
  await session.exec('set -e');
  assert.equal((await stream(session, 'false; echo rest')).last.exitCode, 1, 'with the options of the session');
  for (const command of ['trap "" TERM 50; sleep 1000', 'exec sleep 1000', 'kill -STOP 0']) {
    const { last } = await stream(session, command, { timeout: 200 });
    assert.match(last.error ?? '', /timed out/, command);
    assert.equal((await session.exec('echo $PWD $KEPT', { timeout: 20_000 })).stdout, '/usr yes\n', `after ${command}`);
  }
});

test('a stream ends with what it has started, and with nothing of others', async () => {
  const session = await box.createSession({ id: 'orphans' });
  const up = async (one) => until(async () => (await processes()).includes(one), `${one} runs`);
  const gone = async (one, what) => until(async () => !(await processes()).includes(one), `${one} has ended: ${what}`);
  const left = async (...all) => {
    const now = await processes();
    for (const one of all) assert.ok(now.includes(one), `${one} goes on`);
  };
  await session.exec('sleep 4001 & (sleep 4002 >/dev/null 2>&1 &)');
  for (const command of [
    '(sleep 986 &); sleep 985',
    '(trap "" TERM; (sleep 986; :) &) & sleep 985',
    'sh -c "sleep 986 & sleep 986 & exit"; exec sleep 985',
    'sh -c "sleep 986 &"; trap "" TERM 50; while :; do :; done',
  ]) {
    const witness = await stream(session, `echo up; ${command}`, { timeout: 500 });
    assert.match(witness.last.error ?? '', /timed out/, command);
    assert.equal(witness.stdout, 'up\n', command);
    await gone('sleep 986', command);
    await gone('sleep 985', command);
    await left('sleep 4001', 'sleep 4002');
  }
  // Cancelled, beside others that begin before and after.
  const before = await session.execStream('echo up; (sleep 4003 &); (sleep 4004 >/dev/null 2>&1 &); sleep 4005');
  await up('sleep 4005');
  const reader = (await session.execStream('echo up; (sleep 986 &); sleep 985')).getReader();
  await up('sleep 985');
  await session.exec('(sleep 4006 >/dev/null 2>&1 &); (sleep 4007 &)');
  const after = await session.execStream('echo up; (sleep 4008 &); sleep 4009');
  await up('sleep 4009');
  await reader.cancel();
  await gone('sleep 986', 'a cancelled stream');
  await gone('sleep 985', 'a cancelled stream');
  await left(...Array.from({ length: 9 }, (_, i) => `sleep ${4001 + i}`));
  await before.cancel();
  await gone('sleep 4003', 'the one before');
  await after.cancel();
  await gone('sleep 4008', 'the one after');
  // 4004 holds no pipe of its stream, beside which others have run.
  await left('sleep 4001', 'sleep 4002', 'sleep 4004', 'sleep 4006', 'sleep 4007');
  assert.equal((await session.exec('ls /dev/shm/.rind/*/ | grep -cE "^(job|own|cmd|st)[.].*[.]"')).stdout, '0\n');
  await box.deleteSession('orphans');
});

test('a stream that has not begun at its time-out is not begun later', async () => {
  const session = await box.createSession({ id: 'queue' });
  const first = session.exec('export KEPT=yes; echo >/tmp/queued; while [ ! -e /tmp/queue ]; do sleep 0.02; done');
  await until(() => rind.fileExists('truth', '/tmp/queued'), 'the command before it');
  const { last } = await stream(session, 'echo >/tmp/begun', { timeout: 300 });
  assert.match(last.error ?? '', /timed out/);
  await box.exec('touch /tmp/queue');
  assert.equal((await first).exitCode, 0);
  assert.equal((await session.exec('echo $KEPT; [ -e /tmp/begun ] || echo not begun')).stdout, 'yes\nnot begun\n');
});

test('without its FIFO a command is answered, and is no success', async () => {
  const session = await box.createSession({ id: 'fifo' });
  await session.exec('export KEPT=yes');
  const told = await answer(session, 'rm /dev/shm/.rind/*/st.*; echo on', { timeout: 20_000 });
  assert.deepEqual(told, { told: GONE(null) });
  assert.equal((await session.exec('echo $KEPT', { timeout: 20_000 })).stdout, 'yes\n', 'the session goes on');
  for (const other of ['rm', 'for i in $(ls -d /dev/shm/.rind/*/st.*); do rm $i; echo >$i; done; :']) {
    await box.exec(`${other} /dev/shm/.rind/*/st.*`).catch(() => undefined);
    const late = answer(session, 'sleep 0.3; echo $KEPT; exit 3', { timeout: 20_000 });
    assert.deepEqual(await late, { told: 3, stdout: 'yes\n' }, other);
  }
  const killed = await answer(session, 'rm /dev/shm/.rind/*/st.*; kill -9 $$; echo rest', { timeout: 20_000 });
  assert.deepEqual(killed, { told: GONE(137) });
});

test('a stream that goes on is no job of the shell', async () => {
  const session = await box.createSession({ id: 'jobs' });
  const reader = (await session.execStream('echo up; sleep 1000')).getReader();
  await reader.read();
  await reader.read();
  assert.equal((await session.exec('sleep 0.01 & wait; echo waited', { timeout: 20_000 })).stdout, 'waited\n');
  await reader.cancel();
});

test('without a session each command has the end of its own shell', async () => {
  const plain = new SandboxNamespace({ rind }).get('truth-plain', { enableDefaultSession: false });
  for (const [command, exitCode] of [
    ['kill -TERM $$; echo rest', 143],
    ['kill 0; echo rest', 143],
    ['kill -USR1 $$; echo rest', 138],
    ['kill -9 $$; echo rest', 137],
    ['exec sh -c "exit 4"; echo rest', 4],
    ['trap "exit 3" EXIT; exit 5', 3],
  ]) {
    const result = await plain.exec(command);
    assert.deepEqual([result.exitCode, result.success, result.stdout], [exitCode, false, ''], command);
  }
  for (const command of ['kill -STOP $$', 'trap "" TERM; sleep 1000', 'exec cat </dev/zero >/dev/null'])
    assert.equal((await answer(plain, command, { timeout: 200 })).told, LATE, command);
});

test('processes and variables of a session go past builtins that are not what they were', async () => {
  const session = await box.createSession({ id: 'builtins' });
  await session.exec('cd /usr; export KEPT=yes; pwd() { echo /; }; alias export=false unset=false pwd=false');
  await session.setEnvVars({ SET: 'it', KEPT: undefined });
  const process = await session.startProcess('echo "$PWD $SET ${KEPT-unset}"');
  await process.waitForExit();
  assert.equal((await process.getLogs()).stdout, '/usr it unset\n');
});

test('what waits for a shell that ends is run by the next one', async () => {
  const other = new SandboxNamespace({ rind }).get('truth');
  const first = await box.getSession('two');
  const second = await other.getSession('two');
  await first.exec('cd /usr');
  assert.equal((await second.exec('pwd')).stdout, '/usr\n');
  const killed = answer(
    first,
    'touch /tmp/two; while [ ! -e /tmp/two.go ]; do sleep 0.02; done; kill -9 $$; echo rest',
  );
  await until(() => rind.fileExists('truth', '/tmp/two'), 'the first command');
  const waits = second.exec('pwd');
  await box.exec('touch /tmp/two.go');
  assert.deepEqual((await killed).told, GONE(137));
  assert.equal((await waits).stdout, '/workspace\n');
});

test('a shell that ends between two commands is started again with directory and exported variables', async () => {
  const session = await box.createSession({ id: 'between' });
  for (const signal of ['TERM', 'KILL']) {
    await session.exec('cd /usr; export KEPT=yes; echo $$ >/tmp/between');
    await box.exec(`kill -${signal} $(cat /tmp/between); while [ -d /proc/$(cat /tmp/between) ]; do :; done`);
    assert.equal((await session.exec('echo $PWD $KEPT')).stdout, '/usr yes\n', signal);
  }
  await box.exec('kill -STOP $(cat /tmp/between)');
  assert.equal((await session.exec('echo $PWD $KEPT', { timeout: 20_000 })).stdout, '/usr yes\n', 'stopped');
});

test('nothing of a session whose keeper is killed stays', async () => {
  const session = await box.createSession({ id: 'keeper' });
  const told = answer(session, 'sleep 6789 & kill -9 $PPID; wait; echo rest');
  await until(async () => (await processes()).includes('sleep 6789'), 'the command');
  assert.deepEqual((await told).told, GONE(137));
  await until(async () => !(await processes()).includes('sleep 6789'), 'the end of the command');
  const late = answer(session, 'sleep 6790 & kill -9 $PPID; echo >/tmp/came; wait', { timeout: 1000 });
  assert.equal((await late).told, LATE);
  assert.ok((await box.exists('/tmp/came')).exists, 'it has come to its sleep');
  await until(async () => !(await processes()).includes('sleep 6790'), 'the end of the command at its time-out');
  await session.exec('echo $PPID >/tmp/keeper');
  await box.exec('kill -9 $(cat /tmp/keeper)');
  assert.equal((await session.exec('pwd')).stdout, '/workspace\n');
});

test('a time-out holds where no process can be made, and the session goes on', async () => {
  const session = await box.createSession({ id: 'bomb' });
  // Nothing to fork for while it waits: a shell that cannot fork would end by itself, before its time-out.
  const command = 'f() { f | f & }; f & while :; do :; done';
  assert.equal((await answer(session, command, { timeout: 500 })).told, LATE);
  assert.equal((await session.exec('echo on', { timeout: 30_000 })).stdout, 'on\n');
  // Each command of such a session ends, whatever its bomb has left.
  assert.equal((await answer(session, 'kill -STOP -1; echo rest', { timeout: 200 })).told, LATE);
  assert.equal((await session.exec('echo on', { timeout: 30_000 })).stdout, 'on\n');
});

test('where /dev/shm is full, `exit` is still told, and what cannot be run is an error', async () => {
  const session = await box.createSession({ id: 'full' });
  await session.exec('cd /usr; export KEPT=yes');
  await session.exec('cat /dev/zero >/dev/shm/full');
  assert.equal((await session.exec('exit 3')).exitCode, 3);
  assert.equal((await session.exec('echo $PWD $KEPT')).stdout, '/usr yes\n');
  await assert.rejects(session.exec(`: ${'x'.repeat(90_000)}; touch /tmp/ran`), { code: 'NO_SPACE' });
  assert.equal((await session.exec('rm /dev/shm/full; [ -e /tmp/ran ] || echo $PWD $KEPT')).stdout, '/usr yes\n');
});

test('a signal to everything in the sandbox is no success', async () => {
  const session = await box.createSession({ id: 'all' });
  const { told } = await answer(session, 'kill -9 -1; echo rest');
  assert.ok(same({ any: [137, GONE(137), GONE(null)] }, told), JSON.stringify(told));
  assert.equal((await session.exec('echo on', { timeout: 30_000 })).stdout, 'on\n');
});
