// Sessions: a shell that stays in the sandbox, so that `cd` and variables persist between commands. session-scripts.ts has
// the shell side; this file starts it, waits for it, and handles time-outs and aborts.
import { createHash } from 'node:crypto';
import type { ReadableStream } from 'node:stream/web';
import { RindError } from '../errors';
import type { ExecConnection, ExecExit } from '../exec-connection';
import { WORKSPACE, type Box } from './box';
import { CommandTimeoutError, SandboxError, SessionTerminatedError } from './errors';
import { INTERRUPT, KEEP, OPEN, READY, RUN, SERVER, START } from './session-scripts';

export type Input = string | Uint8Array | ReadableStream<Uint8Array>;

export interface Command {
  command: string;
  cwd?: string | undefined;
  env?: Record<string, string | undefined> | undefined;
  timeout?: number | undefined;
  stdin?: Input | undefined;
  signal?: AbortSignal | undefined;
}

/** A running command. `exit` rejects with what stopped it: a time-out, an abort, the end of the shell. */
export interface Running {
  stdout: ReadableStream<Uint8Array>;
  stderr: ReadableStream<Uint8Array>;
  exit: Promise<ExecExit>;
  /** Ends the command and its processes. */
  cancel(): void;
}

export interface SessionSettings {
  cwd?: string | undefined;
  env?: Record<string, string> | undefined;
  commandTimeoutMs?: number | undefined;
}

const ARGUMENT_MAX = 100_000; // bytes: the kernel allows 128 KiB per argument; longer text is passed as a file
const WATCH_MS = 2_000; // between two checks of a silent session: its keeper may have been killed
const SCRIPT_MS = 20_000; // for a script of the session itself: none of them waits longer

/** Quotes text as one word of the shell. */
export function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Prefix for a builtin's name in text that the session's shell runs: skips functions and aliases of that name. */
export const BUILTIN = '"$__rind_b"';

/** Variables without undefined ones. A name that is no valid shell name is refused. */
export function variables(env: Record<string, string | undefined> | undefined): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [name, value] of Object.entries(env ?? {})) {
    checkVariable(name);
    if (value !== undefined && value !== null) found[name] = String(value);
  }
  return found;
}

export function checkVariable(name: string): void {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
    throw new SandboxError({
      code: 'VALIDATION_FAILED',
      message: `${JSON.stringify(name)} is no name of a variable`,
      context: { name },
      httpStatus: 400,
    });
}

/** Shell code that sets a command's own variables and directory before it, and restores them after it. */
function wrapped(command: Command): { before: string; after: string } {
  const before: string[] = [];
  const after: string[] = [];
  for (const [name, value] of Object.entries(variables(command.env))) {
    before.push(
      `case \${${name}+x} in x) __rind_o_${name}=$${name} ;; *) ${BUILTIN} unset __rind_o_${name} ;; esac; ${BUILTIN} export ${name}=${quote(value)}`,
    );
    after.push(
      `case \${__rind_o_${name}+x} in x) ${name}=$__rind_o_${name}; ${BUILTIN} unset __rind_o_${name} ;; *) ${BUILTIN} unset ${name} ;; esac`,
    );
  }
  if (command.cwd !== undefined) {
    before.push(`__rind_o=$PWD; ${BUILTIN} cd -- ${quote(command.cwd)} || \\return`);
    after.push(`case \${__rind_o+x} in x) ${BUILTIN} cd -- "$__rind_o"; ${BUILTIN} unset __rind_o ;; esac`);
  }
  return { before: before.length > 0 ? `${before.join('\n')}\n` : '', after: after.join('\n') };
}

async function feed(run: ExecConnection, stdin: Input | undefined): Promise<void> {
  try {
    if (stdin !== undefined && typeof stdin !== 'string' && !(stdin instanceof Uint8Array)) {
      await stdin.pipeTo(run.stdin);
      return;
    }
    const writer = run.stdin.getWriter();
    if (stdin !== undefined && stdin.length > 0) await writer.write(stdin);
    await writer.close();
  } catch {
    // A command need not read its input; only its exit counts.
  }
}

function timedOut(command: Command, timeout: number): CommandTimeoutError {
  return new CommandTimeoutError({ command: command.command, timeout, stdout: '', stderr: '' });
}

/** Runs a command without a session: in its own shell. */
export async function runAlone(box: Box, command: Command): Promise<Running> {
  const env = { ...box.env, ...variables(command.env) };
  const argv = [
    '/bin/sh',
    '-c',
    'h=/bin/sh; [ ! -x /bin/bash ] || h=/bin/bash; exec "$h" -c "$1"',
    'rind',
    command.command,
  ];
  const timeoutMs = command.timeout ?? null;
  const run = await box.use((id) =>
    box.rind.execStream(id, { argv, env, cwd: command.cwd ?? WORKSPACE, timeoutMs }, { signal: command.signal }),
  );
  void feed(run, command.stdin);
  const exit = run.exit.then((end) => {
    if (end.timedOut) throw timedOut(command, timeoutMs!);
    return end;
  });
  exit.catch(() => undefined);
  return { stdout: run.stdout, stderr: run.stderr, exit, cancel: () => run.close() };
}

export class Session {
  private readonly dir: string;
  private shell: Promise<string> | undefined; // the exec's id
  private former: string | undefined; // the previous shell's exec, which may have left processes
  private number = 0;
  private tail: Promise<unknown> = Promise.resolve(); // of the foreground commands
  private dead = false;

  constructor(
    readonly box: Box,
    readonly id: string,
    readonly settings: SessionSettings,
  ) {
    this.dir = `/dev/shm/.rind/${createHash('sha256').update(id).digest('hex').slice(0, 24)}`;
    box.whenGone(() => (this.shell = undefined));
  }

  /** True if this client has used its shell. */
  get begun(): boolean {
    return this.shell !== undefined;
  }

  private async script(sandbox: string, text: string, args: string[], signal?: AbortSignal): Promise<string> {
    const argv = ['/bin/sh', '-c', text, 'rind', ...args];
    const result = await this.box.rind.exec(sandbox, { argv, timeoutMs: SCRIPT_MS }, { signal });
    if (result.exitCode !== 0)
      throw new SandboxError({
        code: 'INTERNAL_ERROR',
        message: `session '${this.id}': ${result.stderr.trim() || `status ${result.exitCode}`}`,
        context: {},
        httpStatus: 500,
      });
    return result.stdout.trim();
  }

  /** The shell's exec; starts the shell if there is none. */
  private open(sandbox: string): Promise<string> {
    this.shell ??= this.begin(sandbox).catch((error: unknown) => {
      this.shell = undefined;
      throw error;
    });
    return this.shell;
  }

  private async begin(sandbox: string): Promise<string> {
    try {
      return await this.launch(sandbox);
    } catch (error) {
      // Processes left by the previous shell may use up all pids or memory.
      const former = this.former;
      this.former = undefined;
      if (former === undefined || this.dead) throw error;
      await this.forceEnd(sandbox, former).catch(() => undefined);
      return this.launch(sandbox);
    }
  }

  private async forceEnd(sandbox: string, shell: string): Promise<void> {
    try {
      await this.box.rind.deleteExec(sandbox, shell, { force: true });
    } catch (error) {
      if (!(error instanceof RindError && error.status === 404)) throw error;
    }
  }

  private async launch(sandbox: string): Promise<string> {
    const found = await this.script(sandbox, OPEN, [this.dir, this.box.client, SERVER, KEEP]);
    if (found !== 'new') return found;
    try {
      const env = { ...this.box.env, ...this.settings.env };
      const argv = ['/bin/sh', '-c', START, 'rind', this.dir];
      const exec = await this.box.rind.execDetached(sandbox, {
        argv,
        env,
        cwd: this.settings.cwd ?? WORKSPACE,
        keep: true,
        idle: true,
      });
      await this.script(sandbox, READY, [this.dir, exec.execId]);
      return exec.execId;
    } catch (error) {
      await this.box.rind.removeFile(sandbox, this.dir, { recursive: true, force: true }).catch(() => undefined);
      throw error;
    }
  }

  /** Starts the shell if none runs; createSession resolves afterwards. */
  start(): Promise<unknown> {
    return this.box.use((sandbox) => this.open(sandbox));
  }

  /** True if a shell of this session runs, started by any client. */
  async exists(): Promise<boolean> {
    return this.box.use((sandbox) => this.box.rind.fileExists(sandbox, `${this.dir}/exec`));
  }

  /**
   * Runs a command in the shell; one at a time. Resolves when it runs.
   */
  async run(command: Command): Promise<Running> {
    const turn = this.tail.catch(() => undefined);
    let done!: () => void;
    this.tail = Promise.all([turn, new Promise<void>((resolve) => (done = resolve))]);
    try {
      await this.turn(turn, command.signal);
      const running = await this.enter(command, 'fore');
      running.exit.then(done, done);
      return running;
    } catch (error) {
      done();
      throw error;
    }
  }

  /** Runs a command in a copy of the shell, concurrently: its variables and directory are discarded. */
  runBeside(command: Command): Promise<Running> {
    return this.enter(command, 'back');
  }

  /** Waits for earlier commands, unless aborted. */
  private async turn(before: Promise<unknown>, signal: AbortSignal | undefined): Promise<void> {
    if (!signal) return void (await before);
    signal.throwIfAborted();
    let abort!: () => void;
    const aborted = new Promise<never>((_, reject) => (abort = () => reject(signal.reason as Error)));
    signal.addEventListener('abort', abort, { once: true });
    try {
      await Promise.race([before, aborted]);
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  private async enter(command: Command, mode: 'fore' | 'back'): Promise<Running> {
    if (this.dead)
      throw new SandboxError({
        code: 'SESSION_DESTROYED',
        message: `session '${this.id}' has been deleted`,
        context: { sessionId: this.id },
        httpStatus: 410,
      });
    return this.box.use(async (sandbox) => {
      const shell = await this.open(sandbox);
      const run = new SessionRun(this, sandbox, shell, command, mode, ++this.number);
      return run.start(this.dir);
    });
  }

  /** The shell has ended: the next command starts a new one. */
  lost(shell: string): void {
    void this.shell?.then(
      (current) => {
        if (current !== shell) return;
        this.shell = undefined;
        this.former = shell;
      },
      () => undefined,
    );
  }

  /** Ends the processes of a command of this client; if keeper or shell do not respond, the whole session. */
  async interrupt(sandbox: string, shell: string, client: string, number: number, mode: string): Promise<void> {
    try {
      await this.script(sandbox, INTERRUPT, [this.dir, client, String(number), mode]);
    } catch {
      await this.forceEnd(sandbox, shell).catch(() => undefined);
      this.lost(shell);
    }
  }

  /** The exit status of the shell with which the session ended; null if unknown. */
  async status(sandbox: string, shell: string): Promise<number | null> {
    const text = await this.note(sandbox, 'ended');
    if (text !== undefined) return Number(text);
    const exec = await this.box.rind.getExec(sandbox, shell).catch(() => undefined);
    return exec?.exitCode ?? null;
  }

  /** Ends its shell and everything started in it. */
  async end(): Promise<void> {
    this.dead = true;
    const sandbox = await this.box.ensure();
    const shell = this.shell ? await this.shell.catch(() => undefined) : await this.note(sandbox, 'exec');
    if (shell !== undefined) await this.forceEnd(sandbox, shell);
    await this.box.rind.removeFile(sandbox, this.dir, { recursive: true, force: true });
  }

  /** The number in a file of the session's directory. */
  private async note(sandbox: string, name: 'exec' | 'ended'): Promise<string | undefined> {
    try {
      const text = (await (await this.box.rind.readFile(sandbox, `${this.dir}/${name}`)).text(64)).trim();
      return /^\d+$/.test(text) ? text : undefined;
    } catch {
      return undefined;
    }
  }
}

/** One command in a session. */
class SessionRun {
  private readonly client: string;
  private exec!: ExecConnection;
  private watch: NodeJS.Timeout | undefined;
  private stopped: Error | undefined;

  constructor(
    private readonly session: Session,
    private readonly sandbox: string,
    private readonly shell: string,
    private readonly command: Command,
    private readonly mode: 'fore' | 'back',
    private readonly number: number,
  ) {
    this.client = mode === 'fore' ? session.box.client : `${session.box.client}.${number}`;
  }

  private get timeout(): number | undefined {
    return this.command.timeout ?? this.session.settings.commandTimeoutMs;
  }

  async start(dir: string): Promise<Running> {
    const { before, after } = wrapped(this.command);
    const text = before + this.command.command;
    const asFile = Buffer.byteLength(text) > ARGUMENT_MAX;
    const { rind } = this.session.box;
    if (asFile)
      await rind.writeFile(this.sandbox, `${dir}/cmd.${this.client}`, `${text}\n`, { signal: this.command.signal });
    const argv = [
      '/bin/sh',
      '-c',
      RUN,
      'rind',
      dir,
      this.client,
      String(this.number),
      this.mode,
      asFile ? '-' : '+',
      asFile ? '' : text,
      after,
    ];
    this.command.signal?.throwIfAborted();
    this.exec = await rind.execStream(this.sandbox, { argv, cwd: '/', timeoutMs: this.timeout ?? null });
    this.command.signal?.addEventListener('abort', this.abort, { once: true });
    if (this.command.signal?.aborted) this.abort();
    this.watch = setInterval(() => void this.look(), WATCH_MS).unref();
    void feed(this.exec, this.command.stdin);
    const exit = this.exec.exit
      .then(
        (end) => this.ended(end),
        (error: unknown) => this.broken(error),
      )
      .finally(() => this.release());
    exit.catch(() => undefined);
    return {
      stdout: this.exec.stdout,
      stderr: this.exec.stderr,
      exit,
      cancel: () => this.stop(new Error('cancelled')),
    };
  }

  private release(): void {
    clearInterval(this.watch);
    this.command.signal?.removeEventListener('abort', this.abort);
  }

  private readonly abort = () => {
    const { reason } = this.command.signal!;
    this.stop(reason instanceof Error ? reason : new Error(String(reason)));
  };

  private stop(why: Error): void {
    this.stopped ??= why;
    this.exec.close();
  }

  /** A killed keeper cannot report its end. Then the rest of its session is ended, except concurrent commands. */
  private async look(): Promise<void> {
    try {
      const { state } = await this.session.box.rind.getExec(this.sandbox, this.shell);
      if (state !== 'ended' && state !== 'failed') return;
    } catch (error) {
      if (!(error instanceof RindError && error.status === 404)) return;
    }
    this.session.lost(this.shell);
    // SIGUSR1 ends it if its command had not begun, SIGUSR2 if it had: then it ignores SIGUSR1.
    await this.exec.signal('SIGUSR1');
    if (this.mode === 'back') return;
    await this.interrupt();
    await this.exec.signal('SIGUSR2');
  }

  private async broken(error: unknown): Promise<never> {
    if (!this.stopped) throw error;
    await this.interrupt();
    throw this.stopped;
  }

  private interrupt(): Promise<void> {
    return this.session.interrupt(this.sandbox, this.shell, this.client, this.number, this.mode);
  }

  private async terminated(begun = true): Promise<Error> {
    this.session.lost(this.shell);
    return new SessionTerminatedError(this.session.id, await this.session.status(this.sandbox, this.shell), begun);
  }

  private async ended(end: ExecExit): Promise<ExecExit> {
    if (end.timedOut) {
      await this.interrupt();
      throw timedOut(this.command, this.timeout!);
    }
    if (end.signal === 'SIGUSR1' || end.signal === 'SIGUSR2') throw await this.terminated(end.signal === 'SIGUSR2');
    if (end.signal === 'SIGXFSZ')
      throw new SandboxError({
        code: 'NO_SPACE',
        message: `session '${this.session.id}': the command cannot be written to /dev/shm: make room there`,
        context: { sessionId: this.session.id },
        httpStatus: 507,
      });
    // The process that waits for the command was killed (a command may signal every process): the command must not run on
    // unnoticed.
    if (end.signal !== null) await this.interrupt();
    return end;
  }
}
