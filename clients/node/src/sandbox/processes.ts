// Background processes with the methods of the 0.x SDK. The daemon owns them and their logs, so they outlive the client.
import type { ReadableStream } from 'node:stream/web';
import type * as api from '../api-types';
import { RindError } from '../errors';
import { outputBytes, type LogEvents } from '../rind';
import { WORKSPACE, type Box } from './box';
import { ProcessExitedBeforeReadyError, ProcessReadyTimeoutError, processError } from './errors';
import { execute } from './collect';
import { BUILTIN, variables, type Session } from './session';
import { eventStream } from './sse';
import type * as t from './types';

const LOG_TAIL = 1 << 20; // characters of each stream that waitForLog searches
const MARK = 'rind'; // $0 of the shell that starts a process

const SHELL = 'h=/bin/sh; [ ! -x /bin/bash ] || h=/bin/bash; exec "$h" -c "$1"';
/** As SHELL, after evaluating what a session's shell has exported: in that shell's own syntax, which other shells do not
 * understand. */
const SHELL_AFTER = 'h=/bin/sh; [ ! -x /bin/bash ] || h=/bin/bash; exec "$h" -c "$2" "$0" "$1" "$h"';

function status(p: api.Process): t.ProcessStatus {
  switch (p.state) {
    case 'exited':
      return p.exitCode === 0 ? 'completed' : 'failed';
    case 'failed':
    case 'lost':
      return 'error';
    default:
      return p.state;
  }
}

/** The command line that a process was started with. */
function commandOf(p: api.Process): string {
  return p.argv[3] === MARK ? (p.argv[4] ?? '') : p.argv.join(' ');
}

const text = (stream: api.LogStream | undefined) => (stream ? Buffer.from(outputBytes(stream)).toString('utf8') : '');

/** Finds the first line that matches, in the output so far. */
function match(said: string, pattern: string | RegExp): t.WaitForLogResult | undefined {
  if (typeof pattern === 'string') {
    if (!said.includes(pattern)) return undefined;
    return { line: said.split('\n').find((line) => line.includes(pattern)) ?? pattern };
  }
  const once = new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, ''));
  const whole = once.exec(said);
  if (!whole) return undefined;
  for (const line of said.split('\n')) {
    const found = once.exec(line);
    if (found) return { line, match: found };
  }
  return { line: whole[0], match: whole };
}

export class Processes {
  constructor(private readonly box: Box) {}

  private async op<T>(operation: string, id: string, what: (sandbox: string) => Promise<T>): Promise<T> {
    try {
      return await this.box.use(what);
    } catch (error) {
      throw processError(error, operation, id);
    }
  }

  /** Directory and exported variables of a session's shell, as shell code. */
  private async snapshot(session: Session): Promise<{ cwd: string; exports: string }> {
    const text = `${BUILTIN} pwd -P; ${BUILTIN} export -p`;
    const result = await execute((command) => session.run(command), text, {}, undefined);
    const end = result.stdout.indexOf('\n');
    return { cwd: result.stdout.slice(0, end), exports: result.stdout.slice(end + 1) };
  }

  async start(command: string, options: t.ProcessOptions, session: Session | undefined): Promise<t.Process> {
    try {
      const state = session?.begun ? await this.snapshot(session) : undefined;
      const request: api.ProcessCreate = {
        argv: state
          ? ['/bin/sh', '-c', SHELL_AFTER, MARK, command, `${state.exports}\n${this.own(options)}exec "$2" -c "$1"`]
          : ['/bin/sh', '-c', SHELL, MARK, command],
        env: { ...this.box.env, ...session?.settings.env, ...variables(options.env) },
        cwd: options.cwd ?? state?.cwd ?? session?.settings.cwd ?? WORKSPACE,
      };
      if (options.processId !== undefined) request.id = options.processId;
      if (options.timeout !== undefined) request.timeoutMs = options.timeout;
      if (options.stdin !== undefined) request.stdin = options.stdin;
      const made = this.object(await this.create(request), session?.id);
      options.onStart?.(made);
      if (options.onOutput || options.onExit || options.autoCleanup === true) void this.follow(made.id, options);
      return made;
    } catch (error) {
      if (error instanceof Error) options.onError?.(error);
      throw error;
    }
  }

  /** The command's own variables are set after those of the session. */
  private own(options: t.ProcessOptions): string {
    return Object.entries(variables(options.env))
      .map(([name, value]) => `export ${name}='${value.replaceAll("'", "'\\''")}'\n`)
      .join('');
  }

  /** If there is no room, ended processes are dropped. */
  private create(request: api.ProcessCreate): Promise<api.Process> {
    return this.op('process.start', request.id ?? '', async (sandbox) => {
      try {
        return await this.box.rind.startProcess(sandbox, request);
      } catch (error) {
        if (!(error instanceof RindError && error.status === 503)) throw error;
        if ((await this.box.rind.deleteProcesses(sandbox)) === 0) throw error;
        return this.box.rind.startProcess(sandbox, request);
      }
    });
  }

  private async follow(id: string, options: t.ProcessOptions): Promise<void> {
    try {
      for await (const event of await this.logs(id)) {
        if (event.type === 'stdout' || event.type === 'stderr') options.onOutput?.(event.type, event.data);
        if (event.type !== 'exit') continue;
        options.onExit?.(event.exitCode ?? null);
        if (options.autoCleanup === true) await this.box.use((sandbox) => this.box.rind.deleteProcess(sandbox, id));
        return;
      }
    } catch (error) {
      options.onError?.(error as Error);
    }
  }

  private object(p: api.Process, sessionId: string | undefined): t.Process {
    const { id } = p;
    const command = commandOf(p);
    return {
      id,
      command,
      status: status(p),
      startTime: new Date(p.startedAt ?? Date.now()),
      ...(p.pid === null ? {} : { pid: p.pid }),
      ...(p.finishedAt === null ? {} : { endTime: new Date(p.finishedAt) }),
      ...(p.exitCode === null ? {} : { exitCode: p.exitCode }),
      ...(sessionId === undefined ? {} : { sessionId }),
      kill: (signal) => this.kill(id, signal),
      getStatus: async () => (await this.get(id))?.status ?? 'error',
      getLogs: async () => {
        const { stdout, stderr } = await this.getLogs(id);
        return { stdout, stderr };
      },
      waitForLog: (pattern, timeout) => this.waitForLog(id, command, pattern, timeout),
      waitForPort: (port, options) => this.waitForPort(id, command, port, options),
      waitForExit: (timeout) => this.waitForExit(id, command, timeout),
    };
  }

  async list(sessionId?: string): Promise<t.Process[]> {
    const all = await this.op('process.list', '', (sandbox) => this.box.rind.listProcesses(sandbox));
    return all.map((p) => this.object(p, sessionId));
  }

  async get(id: string, sessionId?: string): Promise<t.Process | null> {
    try {
      return this.object(await this.box.use((sandbox) => this.box.rind.getProcess(sandbox, id)), sessionId);
    } catch (error) {
      if (error instanceof RindError && error.status === 404) return null;
      throw processError(error, 'process.get', id);
    }
  }

  /** A process that has ended is left unchanged. */
  async kill(id: string, signal: string = 'SIGTERM'): Promise<void> {
    try {
      await this.box.use((sandbox) => this.box.rind.killProcess(sandbox, id, { signal }));
    } catch (error) {
      if (error instanceof RindError && error.status === 409) return;
      throw processError(error, 'process.kill', id);
    }
  }

  killAll(): Promise<number> {
    return this.op('process.kill', '', (sandbox) => this.box.rind.killProcesses(sandbox, {}));
  }

  cleanup(): Promise<number> {
    return this.op('process.list', '', (sandbox) => this.box.rind.deleteProcesses(sandbox));
  }

  async getLogs(id: string): Promise<{ stdout: string; stderr: string; processId: string }> {
    const logs = await this.op('process.logs', id, (sandbox) => this.box.rind.getProcessLogs(sandbox, id));
    return { stdout: text(logs.stdout), stderr: text(logs.stderr), processId: id };
  }

  private async source(id: string, signal?: AbortSignal): Promise<ReadableStream<LogEvents>> {
    return this.op('process.logs', id, (sandbox) => this.box.rind.followProcessLogs(sandbox, id, { signal }));
  }

  /** Its output as text; characters that were split are joined. */
  private async logs(id: string, signal?: AbortSignal): Promise<AsyncGenerator<t.LogEvent>> {
    return logEvents(id, await this.source(id, signal));
  }

  async streamLogs(id: string, options: { signal?: AbortSignal } = {}): Promise<ReadableStream<Uint8Array>> {
    if (options.signal?.aborted) throw new Error('Operation was aborted');
    const source = await this.source(id, options.signal);
    const events = logEvents(id, source);
    return eventStream(events, () => void source.cancel().catch(() => undefined));
  }

  async waitForLog(
    id: string,
    command: string,
    pattern: string | RegExp,
    timeout?: number,
  ): Promise<t.WaitForLogResult> {
    const condition = typeof pattern === 'string' ? JSON.stringify(pattern) : String(pattern);
    const abort = new AbortController();
    const timer =
      timeout === undefined
        ? undefined
        : setTimeout(
            () => abort.abort(new ProcessReadyTimeoutError({ processId: id, command, condition, timeout })),
            timeout,
          );
    const said = { stdout: '', stderr: '' };
    try {
      for await (const event of await this.logs(id, abort.signal)) {
        if (event.type === 'exit')
          throw new ProcessExitedBeforeReadyError({ processId: id, command, condition, exitCode: event.exitCode ?? 1 });
        if (event.type !== 'stdout' && event.type !== 'stderr') continue;
        said[event.type] = (said[event.type] + event.data).slice(-LOG_TAIL);
        const found = match(said[event.type], pattern);
        if (found) return found;
      }
      throw new ProcessExitedBeforeReadyError({ processId: id, command, condition, exitCode: 1 });
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
  }

  async waitForPort(id: string, command: string, port: number, options: t.WaitForPortOptions = {}): Promise<void> {
    const { mode = 'http', path = '/', status: wanted = { min: 200, max: 399 }, timeout, interval = 500 } = options;
    const range = typeof wanted === 'number' ? { min: wanted, max: wanted } : wanted;
    const condition = mode === 'http' ? `port ${port} (HTTP ${path})` : `port ${port} (TCP)`;
    const request: api.WaitPort = { port, mode, intervalMs: interval, timeoutMs: timeout ?? null };
    if (mode === 'http') Object.assign(request, { path, statusMin: range.min, statusMax: range.max });
    await this.wait(id, command, condition, timeout, (sandbox) => this.box.rind.waitProcessPort(sandbox, id, request));
  }

  async waitForExit(id: string, command: string, timeout?: number): Promise<{ exitCode: number }> {
    const end = await this.wait(id, command, 'process exit', timeout, (sandbox) =>
      this.box.rind.waitProcessExit(sandbox, id, { timeoutMs: timeout ?? null }),
    );
    return { exitCode: end.exitCode ?? 1 };
  }

  private async wait<T>(
    id: string,
    command: string,
    condition: string,
    timeout: number | undefined,
    what: (sandbox: string) => Promise<T>,
  ): Promise<T> {
    try {
      return await what(await this.box.ensure());
    } catch (error) {
      const code = error instanceof RindError ? error.code : '';
      if (code === 'ETIMEDOUT')
        throw new ProcessReadyTimeoutError(
          { processId: id, command, condition, timeout: timeout ?? 0 },
          { cause: error },
        );
      if (code !== 'ECHILD') throw processError(error, 'process.get', id);
      const exitCode = (await this.get(id))?.exitCode ?? 1;
      throw new ProcessExitedBeforeReadyError({ processId: id, command, condition, exitCode }, { cause: error });
    }
  }
}

async function* logEvents(processId: string, source: ReadableStream<LogEvents>): AsyncGenerator<t.LogEvent> {
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  const stamp = () => ({ timestamp: new Date().toISOString(), processId });
  for await (const event of source) {
    if (event.type === 'stdout' || event.type === 'stderr') {
      const data = decoders[event.type].decode(event.data, { stream: true });
      if (data !== '') yield { type: event.type, data, ...stamp() };
    } else if (event.type === 'lost') {
      yield { type: 'error', data: `${event.bytes} bytes of ${event.stream} were lost: ${event.reason}`, ...stamp() };
    } else {
      const exitCode = event.type === 'exit' ? (event.process.exitCode ?? 1) : undefined;
      yield {
        type: 'exit',
        data: exitCode === undefined ? 'deleted' : `Process exited with code ${exitCode}`,
        ...(exitCode === undefined ? {} : { exitCode }),
        ...stamp(),
      };
      return;
    }
  }
}
