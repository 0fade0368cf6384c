// Starts `rind serve` where no daemon runs.
import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { RindConnectionError } from './errors';

export interface StartOptions {
  /** The program; default `rind` of PATH. */
  rind?: string;
  /** Its state and runtime directories; default: those of `rind serve`. */
  stateDir?: string;
  runtimeDir?: string;
  /** Its configuration file. */
  config?: string;
  /** More arguments of `rind serve`. */
  args?: readonly string[];
  /** Time-out of the start; default 30 s. The first start unpacks the root file system. */
  timeoutMs?: number;
  /** Log file, opened for appending; default: a file in a temporary directory. */
  log?: string;
}

/** A daemon started by this program. It outlives the program unless `stop()` is called. */
export interface StartedDaemon {
  readonly pid: number;
  readonly log: string;
  /** Sends SIGTERM and waits for its exit. Sandboxes continue to run. */
  stop(): Promise<number | null>;
}

const POLL_MS = 20;

/** True if the socket accepts a connection: then the daemon is ready. */
function answers(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const req = get({ socketPath: socket, path: '/v1/version', agent: false }, (res) => {
      res.resume();
      resolve(true);
    });
    req.on('error', () => resolve(false));
  });
}

/** True if our process has become the daemon: it has a supervisor. A process that waits for another daemon's lock has
 * none. */
function isDaemon(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim() !== '';
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ENOENT' || existsSync(`/proc/${pid}`);
  }
}

function lastLines(log: string): string {
  try {
    return readFileSync(log, 'utf8').trim().split('\n').slice(-3).join('; ');
  } catch {
    return '';
  }
}

function ended(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode);
  return new Promise((resolve) => child.once('exit', resolve));
}

/** Starts a daemon and waits until it listens. If another program starts one at the same time, ours refuses to run; then
 * the other one is awaited, and the result is null. */
export async function startDaemon(socket: string, options: StartOptions): Promise<StartedDaemon | null> {
  const program = options.rind ?? 'rind';
  const scratch = options.log === undefined ? mkdtempSync(join(tmpdir(), 'rind-serve-')) : undefined;
  const log = options.log ?? join(scratch!, 'log');
  const out = openSync(log, 'a', 0o600);
  const args = [
    ...(options.stateDir ? ['--state', options.stateDir] : []),
    ...(options.runtimeDir ? ['--runtime', options.runtimeDir] : []),
    'serve',
    '--socket',
    socket,
    ...(options.config ? ['--config', options.config] : []),
    ...(options.args ?? []),
  ];
  const child = spawn(program, args, { stdio: ['ignore', out, out], detached: true });
  closeSync(out);
  let failed: NodeJS.ErrnoException | undefined;
  child.on('error', (error) => (failed = error));
  child.unref();

  const deadline = Date.now() + (options.timeoutMs ?? 30_000);
  while (!(await answers(socket))) {
    const gone = failed !== undefined || child.exitCode !== null || child.signalCode !== null;
    if (gone && !/in use|already|another/.test(lastLines(log))) {
      const why = failed
        ? `${program}: ${failed.code === 'ENOENT' ? 'there is no such program; install rind, or name it in `start.rind`' : failed.message}`
        : lastLines(log);
      if (scratch) rmSync(scratch, { recursive: true, force: true });
      throw new RindConnectionError(failed?.code ?? 'ECHILD', `could not start the rind daemon: ${why}`, socket);
    }
    if (Date.now() > deadline) {
      if (!gone) child.kill('SIGTERM');
      throw new RindConnectionError(
        'ETIMEDOUT',
        `the rind daemon does not answer at ${socket} after ${options.timeoutMs ?? 30_000} ms; its log is ${log}`,
        socket,
      );
    }
    await sleep(POLL_MS);
  }
  if (child.exitCode !== null || !isDaemon(child.pid!)) {
    child.kill('SIGTERM'); // it waits for the other daemon's end, and would replace it
    if (scratch) rmSync(scratch, { recursive: true, force: true });
    return null;
  }
  return {
    pid: child.pid!,
    log,
    async stop() {
      child.ref();
      child.kill('SIGTERM');
      const code = await ended(child);
      if (scratch) rmSync(scratch, { recursive: true, force: true });
      return code;
    },
  };
}
