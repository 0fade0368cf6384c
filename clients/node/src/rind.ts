// The client: each call of the native API (docs/openapi.json), by its operation's name.
import type { Duplex } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import type * as api from './api-types';
import { startDaemon, type StartOptions, type StartedDaemon } from './daemon';
import { RindConnectionError, RindError, RindVersionError } from './errors';
import { ExecConnection, type ExecExit } from './exec-connection';
import { findSocket, socketPath } from './socket';
import { serverEvents, type ServerEvent } from './sse';
import { bodyBytes, streamOf } from './streams';
import { Transport, encode, type Call, type Reply, type Upgraded } from './transport';

export const API_VERSION = 'v1';

export interface RindOptions {
  /** The daemon's socket; default: RIND_SOCKET, the user's or the system's. */
  socket?: string;
  /** Starts `rind serve` if no daemon listens. */
  start?: boolean | StartOptions;
}

export interface CallOptions {
  signal?: AbortSignal;
}

/** A path in a sandbox: text, or bytes if it is not UTF-8. */
export type Path = string | Uint8Array;

export interface FileOptions extends CallOptions {
  /** The user, as in exec; default root. */
  user?: string;
}

export interface FileBody {
  body: ReadableStream<Uint8Array>;
  /** Undefined for files of the kernel without length (/proc). */
  size: number | undefined;
  /** Octal. */
  mode: string | undefined;
  modified: Date | undefined;
  bytes(limit?: number): Promise<Uint8Array>;
  text(limit?: number): Promise<string>;
}

export type ExecRequest = Omit<api.ExecCreate, 'mode' | 'detach'>;

/** The events of an exec. */
export type ExecEvents =
  | { type: 'start'; exec: api.Exec }
  | { type: 'stdout' | 'stderr'; data: Uint8Array }
  | ({ type: 'complete' } & ExecExit);

export type LogEvents =
  | { type: 'stdout' | 'stderr'; data: Uint8Array; offset: number; id: string | undefined }
  | { type: 'lost'; stream: 'stdout' | 'stderr'; bytes: number; reason: 'rotated' | 'noSpace' }
  | { type: 'exit'; process: api.Process }
  | { type: 'deleted' };

export type WatchEvent = api.FileEvent & {
  type:
    'ready' | 'create' | 'modify' | 'close' | 'attributes' | 'delete' | 'movedFrom' | 'movedTo' | 'overflow' | 'gone';
};

export type DaemonEvent = api.Event | { type: 'gap'; after: number; next: number } | { type: 'dropped' };

/** A port with a preview URL. */
export interface Exposure {
  port: number;
  url: string;
  token: string;
  name: string | null;
  /** False: the daemon has no gateway, and the URL leads nowhere. */
  served: boolean;
}

export interface ExposeRequest {
  port: number;
  hostname?: string;
  token?: string;
  name?: string;
}

export interface PortRequest {
  method: string;
  /** With the query, sent unchanged. */
  path: string;
  headers?: Record<string, string>;
  body?: Uint8Array | ReadableStream<Uint8Array>;
  signal?: AbortSignal;
}

export interface PortReply {
  status: number;
  headers: Array<[string, string]>;
  body: ReadableStream<Uint8Array>;
}

const FILE_MAX = 512 << 20; // default limit of a file's `bytes()` and `text()`, in bytes

interface Chunk {
  data: string;
  encoding?: 'utf8' | 'base64';
}

/** Decodes output that the API sent as text or base64. */
export function outputBytes(chunk: { data: string; encoding?: 'utf8' | 'base64' | undefined }): Uint8Array {
  return new Uint8Array(Buffer.from(chunk.data, chunk.encoding === 'base64' ? 'base64' : 'utf8'));
}

function failed(event: ServerEvent): RindError {
  const body = JSON.parse(event.data) as { error?: { code: string; message: string } } & {
    code: string;
    message: string;
  };
  return new RindError(body.error ?? body, 500);
}

async function* execEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ExecEvents> {
  for await (const event of serverEvents(body)) {
    if (event.event === 'error') throw failed(event);
    const value = JSON.parse(event.data) as unknown;
    if (event.event === 'start') yield { type: 'start', exec: value as api.Exec };
    else if (event.event === 'stdout' || event.event === 'stderr')
      yield { type: event.event, data: outputBytes(value as Chunk) };
    else if (event.event === 'complete') {
      yield { type: 'complete', ...(value as ExecExit) };
      return;
    }
  }
  throw new RindError({ code: 'ECONNRESET', message: 'the stream ended before the exec did' }, 0);
}

async function* logEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<LogEvents> {
  for await (const event of serverEvents(body)) {
    const value = JSON.parse(event.data || '{}') as Chunk & { offset: number } & api.Process & {
        stream: 'stdout' | 'stderr';
        bytes: number;
        reason: 'rotated' | 'noSpace';
      };
    if (event.event === 'stdout' || event.event === 'stderr')
      yield { type: event.event, data: outputBytes(value), offset: value.offset, id: event.id };
    else if (event.event === 'lost')
      yield { type: 'lost', stream: value.stream, bytes: value.bytes, reason: value.reason };
    else if (event.event === 'exit') yield { type: 'exit', process: value };
    else if (event.event === 'deleted') yield { type: 'deleted' };
    else if (event.event === 'error') throw failed(event);
  }
}

async function* watchEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<WatchEvent> {
  for await (const event of serverEvents(body)) {
    if (event.event === 'error') throw failed(event);
    yield { type: event.event, ...(JSON.parse(event.data) as api.FileEvent) } as WatchEvent;
  }
}

/** `lost`: so many records could not be written. */
export type AuditEvent = api.AuditRecord | { id: number; lost: number };

async function* auditEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<AuditEvent> {
  for await (const event of serverEvents(body))
    if (event.event === 'audit') yield JSON.parse(event.data || '{}') as AuditEvent;
}

async function* daemonEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<DaemonEvent> {
  for await (const event of serverEvents(body))
    yield { type: event.event, ...(JSON.parse(event.data || '{}') as object) } as DaemonEvent;
}

function fileBody(reply: Reply): FileBody {
  const length = reply.headers['content-length'];
  const modified = reply.headers['last-modified'];
  return {
    body: reply.body,
    size: length === undefined ? undefined : Number(length),
    mode: reply.headers['x-file-mode'] as string | undefined,
    modified: modified === undefined ? undefined : new Date(modified),
    bytes: (limit = FILE_MAX) => bodyBytes(reply.body, limit),
    text: async (limit = FILE_MAX) => Buffer.from(await bodyBytes(reply.body, limit)).toString('utf8'),
  };
}

export interface SnapshotOptions {
  name?: string;
  message?: string;
  author?: string;
  /** In Dockerfile syntax: `CMD ["sh"]`. */
  changes?: string[];
  pause?: boolean;
}

/** A client of one daemon. Creating one is cheap: it connects with its first call. */
export class Rind {
  readonly socket: string;
  /** The daemon that this client has started, if any. */
  daemon: StartedDaemon | undefined;

  private readonly transport: Transport;
  private readonly startOptions: StartOptions | undefined;
  private checked: Promise<void> | undefined;

  constructor(options: RindOptions = {}) {
    this.socket = options.socket === undefined ? findSocket() : socketPath(options.socket, 'socket');
    this.transport = new Transport(this.socket);
    this.startOptions = options.start === true ? {} : options.start || undefined;
  }

  /** Closes idle connections. Pending requests and the daemon continue. */
  close(): void {
    this.transport.close();
  }

  /** Checks that a daemon of this client's API version answers. Every call does so by itself. */
  ready(options: CallOptions = {}): Promise<void> {
    this.checked ??= this.check(options).catch((error: unknown) => {
      this.checked = undefined;
      throw error;
    });
    return this.checked;
  }

  private async check(options: CallOptions): Promise<void> {
    try {
      await this.checkVersion(options);
    } catch (error) {
      const absent = error instanceof RindConnectionError && (error.code === 'ENOENT' || error.code === 'ECONNREFUSED');
      if (!absent || !this.startOptions) throw error;
      this.daemon = (await startDaemon(this.socket, this.startOptions)) ?? undefined;
      await this.checkVersion(options);
    }
  }

  private async checkVersion(options: CallOptions): Promise<void> {
    let version: api.Version;
    try {
      version = await this.transport.json<api.Version>({ method: 'GET', path: '/v1/version', ...options });
    } catch (error) {
      const other = error instanceof SyntaxError || (error instanceof RindError && error.status >= 400);
      if (!other) throw error;
      throw new RindVersionError(
        `what listens at ${this.socket} does not speak rind's API: ${(error as Error).message}; RIND_SOCKET names the daemon's socket`,
      );
    }
    if (version?.apiVersion === API_VERSION) return;
    throw new RindVersionError(
      `the daemon at ${this.socket} is rind ${version?.version} with API ${version?.apiVersion}; this client speaks API ${API_VERSION}: ` +
        `install the client of the daemon's version, or restart the daemon with that of the client`,
      version?.version,
      version?.apiVersion,
    );
  }

  private async call<T>(call: Call): Promise<T> {
    await this.ready({ signal: call.signal });
    return this.transport.json<T>(call);
  }

  private async reply(call: Call): Promise<Reply> {
    await this.ready({ signal: call.signal });
    return this.transport.request(call);
  }

  private async upgraded(call: Call): Promise<ExecConnection> {
    await this.ready({ signal: call.signal });
    return new ExecConnection(await this.transport.upgrade(call, 'rind-exec'), this.socket, call.signal);
  }

  // ---- system ------------------------------------------------------------------------------------------------------

  async getVersion(options: CallOptions = {}): Promise<api.Version> {
    return this.call({ method: 'GET', path: '/v1/version', ...options });
  }

  async getHealth(options: CallOptions = {}): Promise<api.Health> {
    return this.call({ method: 'GET', path: '/v1/health', ...options });
  }

  async getDoctor(options: CallOptions = {}): Promise<api.Doctor> {
    return this.call({ method: 'GET', path: '/v1/doctor', ...options });
  }

  async getOpenApi(options: CallOptions = {}): Promise<Record<string, unknown>> {
    return this.call({ method: 'GET', path: '/v1/openapi.json', ...options });
  }

  /** A stream without end; cancel it, or abort. */
  async getEvents(
    options: { since?: number; sandbox?: string; type?: readonly string[] } & CallOptions = {},
  ): Promise<ReadableStream<DaemonEvent>> {
    const { signal, ...query } = options;
    const reply = await this.reply({ method: 'GET', path: '/v1/events', query, signal, stream: true });
    return streamOf(daemonEvents(reply.body), reply.close);
  }

  /** The record of requests that change something, for root and the owner of the daemon. A stream without end. */
  async getAudit(options: { since?: number } & CallOptions = {}): Promise<ReadableStream<AuditEvent>> {
    const { signal, ...query } = options;
    const reply = await this.reply({ method: 'GET', path: '/v1/audit', query, signal, stream: true });
    return streamOf(auditEvents(reply.body), reply.close);
  }

  // ---- sandboxes ---------------------------------------------------------------------------------------------------

  async listSandboxes(
    options: { label?: readonly string[]; state?: readonly api.State[] } & CallOptions = {},
  ): Promise<api.SandboxSummary[]> {
    const { signal, ...query } = options;
    return (
      await this.call<{ sandboxes: api.SandboxSummary[] }>({ method: 'GET', path: '/v1/sandboxes', query, signal })
    ).sandboxes;
  }

  /** Undefined for a sandbox with `autoRemove` whose command ended before the reply. */
  async createSandbox(spec: api.SandboxCreate, options: CallOptions = {}): Promise<api.Sandbox> {
    return this.call({ method: 'POST', path: '/v1/sandboxes', json: spec, ...options });
  }

  /** Creates and starts a sandbox, attached to its main process from the first byte. The connection's `id` is the
   * sandbox's. */
  async createSandboxAttached(spec: api.SandboxCreate, options: CallOptions = {}): Promise<ExecConnection> {
    return this.upgraded({ method: 'POST', path: '/v1/sandboxes', json: spec, ...options });
  }

  async inspectSandbox(id: string, options: CallOptions = {}): Promise<api.Sandbox> {
    return this.call({ method: 'GET', path: this.box(id), ...options });
  }

  /** Changes labels, time-outs and the behaviour at the end. Absent keys keep their value, null sets the default. */
  async updateSandbox(id: string, changes: api.SandboxUpdate, options: CallOptions = {}): Promise<api.Sandbox> {
    return this.call({ method: 'PATCH', path: this.box(id), json: changes, ...options });
  }

  /** Makes an image of all its changes. The sandbox is paused meanwhile, by default. */
  async snapshotSandbox(id: string, options: SnapshotOptions & CallOptions = {}): Promise<api.ImageSummary> {
    const { signal, ...json } = options;
    return this.call({ method: 'POST', path: `${this.box(id)}/snapshot`, json, signal });
  }

  /** Makes a volume of one of its directories. */
  async snapshotDirectory(
    id: string,
    dir: string,
    options: { name?: string } & CallOptions = {},
  ): Promise<api.NamedVolume> {
    const { signal, ...json } = options;
    return this.call({ method: 'POST', path: `${this.box(id)}/snapshot`, json: { dir, ...json }, signal });
  }

  /** Makes another sandbox with the same files and specification. */
  async cloneSandbox(id: string, options: { name?: string; start?: boolean } & CallOptions = {}): Promise<api.Sandbox> {
    const { signal, ...json } = options;
    return this.call({ method: 'POST', path: `${this.box(id)}/clone`, json, signal });
  }

  async deleteSandbox(id: string, options: { force?: boolean } & CallOptions = {}): Promise<void> {
    const { signal, force } = options;
    await this.call({ method: 'DELETE', path: this.box(id), query: { force }, signal });
  }

  async startSandbox(id: string, options: CallOptions = {}): Promise<api.Sandbox | undefined> {
    return this.verb(id, 'start', {}, options);
  }

  async stopSandbox(id: string, options: api.StopOptions & CallOptions = {}): Promise<api.Sandbox | undefined> {
    const { signal, ...json } = options;
    return this.verb(id, 'stop', json, { signal });
  }

  async restartSandbox(id: string, options: api.StopOptions & CallOptions = {}): Promise<api.Sandbox | undefined> {
    const { signal, ...json } = options;
    return this.verb(id, 'restart', json, { signal });
  }

  /** Gives it another name; its id stays. */
  async renameSandbox(id: string, name: string, options: CallOptions = {}): Promise<api.Sandbox | undefined> {
    return this.verb(id, 'rename', { name }, options);
  }

  async pauseSandbox(id: string, options: CallOptions = {}): Promise<api.Sandbox | undefined> {
    return this.verb(id, 'pause', {}, options);
  }

  async resumeSandbox(id: string, options: CallOptions = {}): Promise<api.Sandbox | undefined> {
    return this.verb(id, 'resume', {}, options);
  }

  async signalSandbox(id: string, signalName: string | number, options: CallOptions = {}): Promise<void> {
    return this.verb(id, 'signal', { signal: signalName }, options);
  }

  /** Waits for the main process to end. */
  async waitSandbox(id: string, options: CallOptions = {}): Promise<api.ExitStatus> {
    return this.call({ method: 'GET', path: `${this.box(id)}/wait`, stream: true, ...options });
  }

  /** Attaches to the main process of a sandbox with `attach`, `tty` or `stdin` in its spec. */
  async attachSandbox(id: string, options: api.AttachMain & CallOptions = {}): Promise<ExecConnection> {
    const { signal, ...json } = options;
    return this.upgraded({ method: 'POST', path: `${this.box(id)}/attach`, json, signal });
  }

  /** Starts the main process, attached from its first byte. */
  async startSandboxAttached(id: string, options: api.AttachMain & CallOptions = {}): Promise<ExecConnection> {
    const { signal, ...json } = options;
    return this.upgraded({ method: 'POST', path: `${this.box(id)}/start`, json, signal });
  }

  async getStats(id: string, options: CallOptions = {}): Promise<api.Stats> {
    return this.call({ method: 'GET', path: `${this.box(id)}/stats`, ...options });
  }

  private box(id: string): string {
    if (id === '' || id === '.' || id === '..')
      throw new TypeError(`no sandbox can have the name ${JSON.stringify(id)}`);
    return `/v1/sandboxes/${encode(id)}`;
  }

  private async verb<T>(id: string, verb: string, json: unknown, options: CallOptions): Promise<T> {
    return this.call<T>({ method: 'POST', path: `${this.box(id)}/${verb}`, json, stream: true, ...options });
  }

  // ---- exec --------------------------------------------------------------------------------------------------------

  /** Runs a command and returns its output, up to `maxOutputBytes` per stream. Aborting kills it. */
  async exec(id: string, request: ExecRequest, options: CallOptions = {}): Promise<api.ExecResult> {
    return this.call({
      method: 'POST',
      path: `${this.box(id)}/exec`,
      json: { ...request, mode: 'buffered' },
      stream: true,
      ...options,
    });
  }

  /** Runs a command and streams its output as events. Cancelling kills it, unless `keep`. */
  async execEvents(id: string, request: ExecRequest, options: CallOptions = {}): Promise<ReadableStream<ExecEvents>> {
    const call: Call = {
      method: 'POST',
      path: `${this.box(id)}/exec`,
      json: { ...request, mode: 'events' },
      stream: true,
      ...options,
    };
    const reply = await this.reply(call);
    return streamOf(execEvents(reply.body), reply.close);
  }

  /** Runs a command with all three streams open, on a terminal if `tty`. */
  async execStream(id: string, request: ExecRequest, options: CallOptions = {}): Promise<ExecConnection> {
    return this.upgraded({
      method: 'POST',
      path: `${this.box(id)}/exec`,
      json: { ...request, mode: 'stream' },
      ...options,
    });
  }

  /** Starts a command that runs detached and can be attached to. */
  async execDetached(id: string, request: ExecRequest, options: CallOptions = {}): Promise<api.Exec> {
    return this.call({ method: 'POST', path: `${this.box(id)}/exec`, json: { ...request, detach: true }, ...options });
  }

  async listExecs(id: string, options: CallOptions = {}): Promise<api.Exec[]> {
    return (await this.call<{ execs: api.Exec[] }>({ method: 'GET', path: `${this.box(id)}/exec`, ...options })).execs;
  }

  async getExec(id: string, exec: string, options: CallOptions = {}): Promise<api.Exec> {
    return this.call({ method: 'GET', path: this.execPath(id, exec), ...options });
  }

  async deleteExec(id: string, exec: string, options: { force?: boolean } & CallOptions = {}): Promise<void> {
    await this.call({
      method: 'DELETE',
      path: this.execPath(id, exec),
      query: { force: options.force },
      signal: options.signal,
    });
  }

  async attachExec(id: string, exec: string, options: { own?: boolean } & CallOptions = {}): Promise<ExecConnection> {
    const { signal, own } = options;
    const path = `${this.execPath(id, exec)}/attach`;
    return this.upgraded({ method: 'POST', path, json: { mode: 'stream', own }, signal });
  }

  async attachExecEvents(id: string, exec: string, options: CallOptions = {}): Promise<ReadableStream<ExecEvents>> {
    const call: Call = {
      method: 'POST',
      path: `${this.execPath(id, exec)}/attach`,
      json: { mode: 'events' },
      stream: true,
      ...options,
    };
    const reply = await this.reply(call);
    return streamOf(execEvents(reply.body), reply.close);
  }

  async signalExec(id: string, exec: string, request: api.SignalTo, options: CallOptions = {}): Promise<void> {
    await this.call({ method: 'POST', path: `${this.execPath(id, exec)}/signal`, json: request, ...options });
  }

  async resizeExec(id: string, exec: string, size: api.TerminalSize, options: CallOptions = {}): Promise<void> {
    await this.call({ method: 'POST', path: `${this.execPath(id, exec)}/resize`, json: size, ...options });
  }

  private execPath(id: string, exec: string): string {
    return `${this.box(id)}/exec/${encode(exec)}`;
  }

  // ---- processes ---------------------------------------------------------------------------------------------------

  async startProcess(id: string, request: api.ProcessCreate, options: CallOptions = {}): Promise<api.Process> {
    return this.call({ method: 'POST', path: `${this.box(id)}/processes`, json: request, ...options });
  }

  async listProcesses(id: string, options: CallOptions = {}): Promise<api.Process[]> {
    return (
      await this.call<{ processes: api.Process[] }>({ method: 'GET', path: `${this.box(id)}/processes`, ...options })
    ).processes;
  }

  async getProcess(id: string, process: string, options: CallOptions = {}): Promise<api.Process> {
    return this.call({ method: 'GET', path: this.processPath(id, process), ...options });
  }

  async deleteProcess(id: string, process: string, options: { force?: boolean } & CallOptions = {}): Promise<void> {
    await this.call({
      method: 'DELETE',
      path: this.processPath(id, process),
      query: { force: options.force },
      signal: options.signal,
    });
  }

  /** Drops all ended processes and returns their number. */
  async deleteProcesses(id: string, options: CallOptions = {}): Promise<number> {
    return (await this.call<{ deleted: number }>({ method: 'DELETE', path: `${this.box(id)}/processes`, ...options }))
      .deleted;
  }

  async killProcess(id: string, process: string, request: api.SignalTo = {}, options: CallOptions = {}): Promise<void> {
    await this.call({ method: 'POST', path: `${this.processPath(id, process)}/kill`, json: request, ...options });
  }

  async killProcesses(id: string, request: api.SignalTo = {}, options: CallOptions = {}): Promise<number> {
    return (
      await this.call<{ killed: number }>({
        method: 'POST',
        path: `${this.box(id)}/processes/kill`,
        json: request,
        ...options,
      })
    ).killed;
  }

  getProcessLogs(
    id: string,
    process: string,
    options: {
      stream?: 'stdout' | 'stderr' | 'both';
      stdoutOffset?: number;
      stderrOffset?: number;
      limit?: number;
      lastRun?: boolean;
    } & CallOptions = {},
  ): Promise<api.Logs> {
    const { signal, ...query } = options;
    return this.call({ method: 'GET', path: `${this.processPath(id, process)}/logs`, query, signal });
  }

  /** Streams its stored and new output, until it ends or is deleted. */
  async followProcessLogs(
    id: string,
    process: string,
    options: {
      stream?: 'stdout' | 'stderr' | 'both';
      stdoutOffset?: number;
      stderrOffset?: number;
      lastEventId?: string;
      lastRun?: boolean;
    } & CallOptions = {},
  ): Promise<ReadableStream<LogEvents>> {
    const { signal, lastEventId, ...query } = options;
    const headers = lastEventId === undefined ? undefined : { 'Last-Event-ID': lastEventId };
    const call: Call = {
      method: 'GET',
      path: `${this.processPath(id, process)}/logs`,
      query: { ...query, follow: true },
      headers,
      signal,
      stream: true,
    };
    const reply = await this.reply(call);
    return streamOf(logEvents(reply.body), reply.close);
  }

  async waitProcessExit(
    id: string,
    process: string,
    request: api.WaitExit = {},
    options: CallOptions = {},
  ): Promise<api.Process> {
    return this.waitFor(id, process, 'exit', request, options);
  }

  async waitProcessLog(
    id: string,
    process: string,
    request: api.WaitLog,
    options: CallOptions = {},
  ): Promise<api.LogLine> {
    return this.waitFor(id, process, 'log', request, options);
  }

  async waitProcessPort(
    id: string,
    process: string,
    request: api.WaitPort,
    options: CallOptions = {},
  ): Promise<api.PortReady> {
    return this.waitFor(id, process, 'port', request, options);
  }

  private processPath(id: string, process: string): string {
    if (process === '' || process === '.' || process === '..')
      throw new TypeError(`no process can have the id ${JSON.stringify(process)}`);
    return `${this.box(id)}/processes/${encode(process)}`;
  }

  private async waitFor<T>(id: string, process: string, what: string, json: unknown, options: CallOptions): Promise<T> {
    return this.call({
      method: 'POST',
      path: `${this.processPath(id, process)}/wait/${what}`,
      json,
      stream: true,
      ...options,
    });
  }

  // ---- files -------------------------------------------------------------------------------------------------------

  /** Streams a file, or `length` bytes of it from `offset`. */
  async readFile(
    id: string,
    path: Path,
    options: { offset?: number; length?: number } & FileOptions = {},
  ): Promise<FileBody> {
    const { signal, ...query } = options;
    return fileBody(
      await this.reply({
        method: 'GET',
        path: `${this.box(id)}/files`,
        query: { path, ...query },
        signal,
        stream: true,
      }),
    );
  }

  async writeFile(
    id: string,
    path: Path,
    content: string | Uint8Array | ReadableStream<Uint8Array | string>,
    options: {
      mode?: string;
      atomic?: boolean;
      inPlace?: boolean;
      append?: boolean;
      exclusive?: boolean;
    } & FileOptions = {},
  ): Promise<void> {
    const { signal, ...query } = options;
    const body = typeof content === 'string' ? Buffer.from(content) : content;
    await this.call({ method: 'PUT', path: `${this.box(id)}/files`, query: { path, ...query }, body, signal });
  }

  async removeFile(
    id: string,
    path: Path,
    options: { recursive?: boolean; force?: boolean } & FileOptions = {},
  ): Promise<void> {
    const { signal, ...query } = options;
    await this.call({ method: 'DELETE', path: `${this.box(id)}/files`, query: { path, ...query }, signal });
  }

  async statFile(id: string, path: Path, options: { follow?: boolean } & FileOptions = {}): Promise<api.FileStat> {
    return this.file(id, 'GET', 'stat', { path }, options);
  }

  /** The files that differ from those it was started on, ordered by name. */
  async listChanges(id: string, options: CallOptions = {}): Promise<api.FileChange[]> {
    return (
      await this.call<{ changes: api.FileChange[] }>({ method: 'GET', path: `${this.box(id)}/changes`, ...options })
    ).changes;
  }

  async fileExists(id: string, path: Path, options: { follow?: boolean } & FileOptions = {}): Promise<boolean> {
    return (await this.file<{ exists: boolean }>(id, 'GET', 'exists', { path }, options)).exists;
  }

  /** A listing that breaks off is an error, too. */
  async listFiles(
    id: string,
    path: Path,
    options: { recursive?: boolean; depth?: number; hidden?: boolean; maxEntries?: number } & FileOptions = {},
  ): Promise<api.FileList> {
    const list = await this.file<api.FileList>(id, 'GET', 'list', { path }, options);
    if (list.error) throw new RindError(list.error, 500);
    return list;
  }

  /** Streams changes. After the first event, `ready`, no change is missed. */
  async watchFiles(
    id: string,
    path: Path,
    options: { recursive?: boolean } & FileOptions = {},
  ): Promise<ReadableStream<WatchEvent>> {
    const { signal, ...query } = options;
    const reply = await this.reply({
      method: 'GET',
      path: `${this.box(id)}/files/watch`,
      query: { path, ...query },
      signal,
      stream: true,
    });
    return streamOf(watchEvents(reply.body), reply.close);
  }

  async makeDirectory(id: string, path: Path, options: { recursive?: boolean } & FileOptions = {}): Promise<void> {
    return this.file(id, 'POST', 'mkdir', { path }, options);
  }

  async renameFile(id: string, from: Path, to: Path, options: FileOptions = {}): Promise<void> {
    return this.file(id, 'POST', 'rename', { from, to }, options);
  }

  async moveFile(id: string, from: Path, to: Path, options: { replace?: boolean } & FileOptions = {}): Promise<void> {
    return this.file(id, 'POST', 'move', { from, to }, options);
  }

  async copyFile(id: string, from: Path, to: Path, options: { replace?: boolean } & FileOptions = {}): Promise<void> {
    return this.file(id, 'POST', 'copy', { from, to }, options);
  }

  /** Streams a file or a tree as a tar archive. */
  async getArchive(
    id: string,
    path: Path,
    options: { name?: string; follow?: boolean } & FileOptions = {},
  ): Promise<ReadableStream<Uint8Array>> {
    const { signal, ...query } = options;
    return (
      await this.reply({
        method: 'GET',
        path: `${this.box(id)}/files/archive`,
        query: { path, ...query },
        signal,
        stream: true,
      })
    ).body;
  }

  /** Unpacks a tar archive beneath a directory. */
  async putArchive(
    id: string,
    path: Path,
    archive: Uint8Array | ReadableStream<Uint8Array>,
    options: { owners?: boolean } & FileOptions = {},
  ): Promise<void> {
    const { signal, ...query } = options;
    const headers = { 'Content-Type': 'application/x-tar' };
    await this.call({
      method: 'PUT',
      path: `${this.box(id)}/files/archive`,
      query: { path, ...query },
      headers,
      body: archive,
      signal,
    });
  }

  private async file<T>(
    id: string,
    method: 'GET' | 'POST',
    verb: string,
    paths: Record<string, Path>,
    options: FileOptions,
  ): Promise<T> {
    const { signal, ...query } = options;
    return this.call<T>({ method, path: `${this.box(id)}/files/${verb}`, query: { ...paths, ...query }, signal });
  }

  // ---- ports -------------------------------------------------------------------------------------------------------

  async listExposures(id: string, options: { hostname?: string } & CallOptions = {}): Promise<Exposure[]> {
    const { signal, ...query } = options;
    return (
      await this.call<{ exposures: Exposure[] }>({ method: 'GET', path: `${this.box(id)}/exposures`, query, signal })
    ).exposures;
  }

  /** Makes a preview URL. For an exposed port, absent settings keep their value. */
  async exposePort(id: string, request: ExposeRequest, options: CallOptions = {}): Promise<Exposure> {
    return this.call({ method: 'POST', path: `${this.box(id)}/exposures`, json: request, ...options });
  }

  async getExposure(id: string, port: number, options: CallOptions = {}): Promise<Exposure> {
    return this.call({ method: 'GET', path: `${this.box(id)}/exposures/${port}`, ...options });
  }

  async unexposePort(id: string, port: number, options: CallOptions = {}): Promise<void> {
    await this.call({ method: 'DELETE', path: `${this.box(id)}/exposures/${port}`, ...options });
  }

  // ---- egress ------------------------------------------------------------------------------------------------------

  async getEgress(id: string, options: CallOptions = {}): Promise<api.Egress> {
    return this.call({ method: 'GET', path: `${this.box(id)}/egress`, ...options });
  }

  /** Sets or replaces the rules, for new connections and for further requests on open ones. */
  async putEgress(id: string, rules: api.Egress, options: CallOptions = {}): Promise<api.Egress> {
    return this.call({ method: 'PUT', path: `${this.box(id)}/egress`, json: rules, ...options });
  }

  /** Removes the rules. */
  async deleteEgress(id: string, options: CallOptions = {}): Promise<void> {
    await this.call({ method: 'DELETE', path: `${this.box(id)}/egress`, ...options });
  }

  async getEgressCa(options: CallOptions = {}): Promise<{ certificate: string }> {
    return this.call({ method: 'GET', path: '/v1/egress/ca', ...options });
  }

  /** Sends HTTP to a server in the sandbox. Returns its reply, or that of rind if it cannot be reached (502, 503, 504). */
  async fetchPort(id: string, port: number, request: PortRequest): Promise<PortReply> {
    await this.ready({ signal: request.signal });
    const { path, ...rest } = request;
    const reply = await this.transport.raw({
      ...rest,
      path: this.portPath(id, port, path),
      stream: true,
      expect: false,
    });
    return { status: reply.status, headers: reply.lines, body: reply.body };
  }

  /** Upgrades a connection to a server in the sandbox; returns the raw connection. */
  async upgradePort(
    id: string,
    port: number,
    request: { path: string; protocol: string } & Pick<PortRequest, 'headers' | 'signal'>,
  ): Promise<Upgraded> {
    await this.ready({ signal: request.signal });
    return this.transport.upgrade(
      { method: 'GET', path: this.portPath(id, port, request.path), headers: request.headers, signal: request.signal },
      request.protocol,
    );
  }

  /** Opens a raw TCP connection to a port of the sandbox's loopback. */
  async connectPort(id: string, port: number, options: CallOptions = {}): Promise<Duplex> {
    await this.ready(options);
    const { socket, head } = await this.transport.upgrade(
      { method: 'POST', path: `${this.box(id)}/ports/${port}/connect`, ...options },
      'tcp',
    );
    if (head.length > 0) socket.unshift(head);
    return socket;
  }

  private portPath(id: string, port: number, path: string): string {
    if (!path.startsWith('/')) throw new TypeError(`a path begins with a slash: ${JSON.stringify(path)}`);
    return `${this.box(id)}/http/${port}${path}`;
  }
}
