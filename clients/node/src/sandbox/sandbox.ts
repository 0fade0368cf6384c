// The sandbox and its sessions, with the methods of the 0.x SDK.
import type { ReadableStream } from 'node:stream/web';
import { Box, LABEL_ID, LABEL_PROVIDER, type BoxSettings } from './box';
import { events, execute, notBegun } from './collect';
import { NotSupportedError, SandboxError } from './errors';
import { Files } from './files';
import { gitCheckout } from './git';
import { Ports, fetchPort, sameToken, type ExposeOptions } from './ports';
import { Processes } from './processes';
import {
  BUILTIN,
  Session,
  checkVariable,
  quote,
  runAlone,
  variables,
  type Command,
  type Running,
  type SessionSettings,
} from './session';
import { eventStream } from './sse';
import { openTerminal } from './terminal';
import type * as t from './types';

const LATER = 'it is not there yet';
const NONE = 'there are no tunnels to Cloudflare; exposePort() gives a port a URL of this machine';
const never = (method: string, why: string): Promise<never> => Promise.reject(new NotSupportedError(method, why));

/** Common to a session and a sandbox: commands, processes and files. */
abstract class Commands {
  protected readonly files: Files;
  protected readonly processes: Processes;

  constructor(protected readonly box: Box) {
    this.files = new Files(box);
    this.processes = new Processes(box);
  }

  /** The session of a call; undefined if each command has its own shell. */
  protected abstract session(id?: string): Session | undefined;

  async exec(command: string, options: t.ExecOptions = {}): Promise<t.ExecResult> {
    return this.execIn(this.session(), command, options);
  }

  protected execIn(session: Session | undefined, command: string, options: t.ExecOptions): Promise<t.ExecResult> {
    const start = (c: Command): Promise<Running> => (session ? session.run(c) : runAlone(this.box, c));
    return execute(start, command, options, session?.id);
  }

  /** Server-sent events for parseSSEStream: start, stdout and stderr parts, then complete or error. Runs concurrently
   * with other commands. */
  async execStream(command: string, options: t.StreamOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const session = this.session(options.sessionId);
    const start = (): Promise<Running> =>
      session ? session.runBeside({ ...options, command }) : runAlone(this.box, { ...options, command });
    let running = await start().catch((error: unknown) => (notBegun(error) ? start() : Promise.reject(error)));
    return eventStream(events(running, command, session?.id), () => running.cancel());
  }

  async startProcess(command: string, options: t.ProcessOptions = {}): Promise<t.Process> {
    return this.processes.start(command, options, this.session(options.sessionId));
  }

  async listProcesses(sessionId?: string): Promise<t.Process[]> {
    return this.processes.list(sessionId ?? this.session()?.id);
  }

  async getProcess(id: string, sessionId?: string): Promise<t.Process | null> {
    return this.processes.get(id, sessionId ?? this.session()?.id);
  }

  async killProcess(id: string, signal?: string): Promise<void> {
    return this.processes.kill(id, signal);
  }

  async killAllProcesses(): Promise<number> {
    return this.processes.killAll();
  }

  async cleanupCompletedProcesses(): Promise<number> {
    return this.processes.cleanup();
  }

  async getProcessLogs(id: string): Promise<{ stdout: string; stderr: string; processId: string }> {
    return this.processes.getLogs(id);
  }

  async streamProcessLogs(id: string, options?: { signal?: AbortSignal }): Promise<ReadableStream<Uint8Array>> {
    return this.processes.streamLogs(id, options);
  }

  async writeFile(
    path: string,
    content: string | ReadableStream<Uint8Array>,
    options?: { encoding?: string; sessionId?: string },
  ): Promise<t.WriteFileResult> {
    return this.files.writeFile(path, content, options);
  }

  readFile(path: string, options: { encoding: 'none'; sessionId?: string }): Promise<t.ReadFileStreamResult>;
  readFile(
    path: string,
    options?: { encoding?: Exclude<t.FileEncoding, 'none'>; sessionId?: string },
  ): Promise<t.ReadFileResult>;
  async readFile(
    path: string,
    options: { encoding?: t.FileEncoding; sessionId?: string } = {},
  ): Promise<t.ReadFileStreamResult | t.ReadFileResult> {
    if (options.encoding === 'none') return this.files.readFile(path, { encoding: 'none' });
    return this.files.readFile(path, { encoding: options.encoding });
  }

  async readFileStream(path: string, _options?: { sessionId?: string }): Promise<ReadableStream<Uint8Array>> {
    return this.files.readFileStream(path);
  }

  async mkdir(path: string, options?: { recursive?: boolean; sessionId?: string }): Promise<t.MkdirResult> {
    return this.files.mkdir(path, options);
  }

  async deleteFile(path: string, _sessionId?: string): Promise<t.DeleteFileResult> {
    return this.files.deleteFile(path);
  }

  async renameFile(oldPath: string, newPath: string, _sessionId?: string): Promise<t.RenameFileResult> {
    return this.files.renameFile(oldPath, newPath);
  }

  async moveFile(sourcePath: string, destinationPath: string, _sessionId?: string): Promise<t.MoveFileResult> {
    return this.files.moveFile(sourcePath, destinationPath);
  }

  async listFiles(path: string, options?: t.ListFilesOptions): Promise<t.ListFilesResult> {
    return this.files.listFiles(path, options);
  }

  async exists(path: string, _sessionId?: string): Promise<t.FileExistsResult> {
    return this.files.exists(path);
  }

  async watch(path: string, options?: t.WatchOptions): Promise<ReadableStream<Uint8Array>> {
    return this.files.watch(path, options);
  }

  async checkChanges(path: string, options?: t.CheckChangesOptions): Promise<t.CheckChangesResult> {
    return this.files.checkChanges(path, options);
  }

  async gitCheckout(repoUrl: string, options: t.GitCheckoutOptions = {}): Promise<t.GitCheckoutResult> {
    return gitCheckout((command, o) => this.execIn(this.session(options.sessionId), command, o), repoUrl, options);
  }

  /** Sets variables of the session for later commands; undefined unsets. */
  async setEnvVars(envVars: Record<string, string | undefined>): Promise<void> {
    const session = this.session();
    const lines = Object.entries(envVars).map(([name, value]) => {
      checkVariable(name);
      return value === undefined || value === null
        ? `${BUILTIN} unset ${name}`
        : `${BUILTIN} export ${name}=${quote(String(value))}`;
    });
    if (!session || lines.length === 0) return;
    const result = await this.execIn(session, lines.join('\n'), { origin: 'internal' });
    if (!result.success)
      throw new SandboxError({
        code: 'COMMAND_EXECUTION_ERROR',
        message: `variables could not be set: ${result.stderr.trim()}`,
        context: {},
        httpStatus: 500,
      });
  }

  /** A shell on a terminal of its own: a response with status 101 and a `webSocket`; upgradeWebSocket() joins it with a client. */
  async terminal(request: Request, options?: t.PtyOptions): Promise<Response> {
    return openTerminal(this.box, request, options);
  }

  createCodeContext(_options?: unknown): Promise<never> {
    return never('createCodeContext', LATER);
  }
  runCode(_code: string, _options?: unknown): Promise<never> {
    return never('runCode', LATER);
  }
  runCodeStream(_code: string, _options?: unknown): Promise<never> {
    return never('runCodeStream', LATER);
  }
  listCodeContexts(): Promise<never> {
    return never('listCodeContexts', LATER);
  }
  deleteCodeContext(_contextId: string): Promise<never> {
    return never('deleteCodeContext', LATER);
  }
  mountBucket(_bucket: string, _mountPath: string, _options: unknown): Promise<never> {
    return never('mountBucket', LATER);
  }
  unmountBucket(_mountPath: string): Promise<never> {
    return never('unmountBucket', LATER);
  }
  createBackup(_options: unknown): Promise<never> {
    return never('createBackup', LATER);
  }
  restoreBackup(_backup: unknown): Promise<never> {
    return never('restoreBackup', LATER);
  }
}

/** A session of a sandbox: a separate shell. */
export class ExecutionSession extends Commands {
  readonly id: string;

  constructor(
    box: Box,
    private readonly own: Session,
  ) {
    super(box);
    this.id = own.id;
  }

  protected override session(): Session {
    return this.own;
  }
}

/** A sandbox of an id. It is created by the first call that needs it. */
export class Sandbox extends Commands {
  readonly id: string;
  private readonly sessions = new Map<string, Session>();
  private readonly defaultId: string;
  private readonly ports: Ports;

  constructor(
    id: string,
    settings: BoxSettings,
    private options: t.SandboxOptions,
  ) {
    super(new Box(id, settings, options));
    this.id = id;
    this.defaultId = `sandbox-${id}`;
    this.ports = new Ports(this.box);
  }

  /** Takes the options of later calls of getSandbox. */
  configure(options: t.SandboxOptions): this {
    this.options = { ...this.options, ...options };
    this.box.configure(options);
    return this;
  }

  protected override session(id?: string): Session | undefined {
    if (id === undefined && this.options.enableDefaultSession === false) return undefined;
    return this.known(id ?? this.defaultId);
  }

  private known(id: string, settings: SessionSettings = {}): Session {
    let session = this.sessions.get(id);
    if (!session) this.sessions.set(id, (session = new Session(this.box, id, settings)));
    return session;
  }

  /** The sandbox's id in rind, for the native client; starts the sandbox if needed. */
  rindId(): Promise<string> {
    return this.box.ensure();
  }

  override async setEnvVars(envVars: Record<string, string | undefined>): Promise<void> {
    await super.setEnvVars(envVars);
    const kept = { ...this.box.env, ...variables(envVars) };
    for (const [name, value] of Object.entries(envVars)) if (value === undefined) delete kept[name];
    this.box.env = kept;
  }

  async createSession(options: t.SessionOptions = {}): Promise<ExecutionSession> {
    const id = options.id ?? `session-${Date.now()}-${Math.random().toString(36).slice(2, 8)}`;
    const exists = new SandboxError({
      code: 'SESSION_ALREADY_EXISTS',
      message: `session '${id}' is there already`,
      context: { sessionId: id },
      httpStatus: 409,
    });
    if (id === '' || id.length > 255)
      throw new SandboxError({
        code: 'VALIDATION_FAILED',
        message: 'a session id has 1 to 255 characters',
        context: {},
        httpStatus: 400,
      });
    if (this.sessions.get(id)?.begun) throw exists;
    this.sessions.delete(id);
    const session = this.known(id, {
      cwd: options.cwd,
      env: variables(options.env),
      commandTimeoutMs: options.commandTimeoutMs,
    });
    try {
      if (await session.exists()) throw exists;
      await session.start();
    } catch (error) {
      this.sessions.delete(id);
      throw error;
    }
    return new ExecutionSession(this.box, session);
  }

  /** A session that does not exist yet begins with its first command. */
  async getSession(sessionId: string): Promise<ExecutionSession> {
    return new ExecutionSession(this.box, this.known(sessionId));
  }

  /** Ends its shell and everything started in it, except processes. */
  async deleteSession(sessionId: string): Promise<t.SessionDeleteResult> {
    if (sessionId === this.defaultId || sessionId === 'default')
      throw new SandboxError({
        code: 'VALIDATION_FAILED',
        message: `Cannot delete default session '${sessionId}'. Use sandbox.destroy() to terminate the sandbox.`,
        context: { sessionId },
        httpStatus: 400,
      });
    const session = this.known(sessionId);
    this.sessions.delete(sessionId);
    await session.end();
    return { success: true, sessionId, timestamp: new Date().toISOString() };
  }

  async exposePort(
    port: number,
    options: ExposeOptions,
  ): Promise<{ url: string; port: number; name: string | undefined }> {
    return this.ports.expose(port, options);
  }

  async unexposePort(port: number): Promise<void> {
    return this.ports.unexpose(port);
  }

  async getExposedPorts(hostname: string): Promise<Array<{ url: string; port: number; status: 'active' }>> {
    return this.ports.list(hostname);
  }

  async isPortExposed(port: number): Promise<boolean> {
    return this.ports.isExposed(port);
  }

  async validatePortToken(port: number, token: string): Promise<boolean> {
    return this.ports.validate(port, token);
  }

  /** Sends an HTTP request to a server in the sandbox, by default at port 8080. */
  async containerFetch(
    requestOrUrl: Request | string | URL,
    portOrInit?: number | RequestInit,
    portParam?: number,
  ): Promise<Response> {
    const port = typeof portOrInit === 'number' ? portOrInit : (portParam ?? 8080);
    const init = typeof portOrInit === 'object' ? portOrInit : undefined;
    return this.ports.fetch(
      requestOrUrl instanceof Request && !init ? requestOrUrl : new Request(requestOrUrl, init),
      port,
    );
  }

  /** Like containerFetch, and for WebSockets, too. The port is that of `/proxy/<port>` in the path, or of the header that
   * the platform's `switchPort` sets; default 8080. */
  async fetch(request: Request): Promise<Response> {
    const named =
      request.headers.get('cf-container-target-port') ?? /^\/proxy\/(\d+)/.exec(new URL(request.url).pathname)?.[1];
    const port = Number(named ?? 8080);
    const upgrade = request.headers.get('upgrade')?.toLowerCase() === 'websocket';
    return upgrade ? this.wsConnect(request, port) : this.containerFetch(request, port);
  }

  /** Tunnels to Cloudflare's network: not supported. */
  get tunnels(): t.Tunnels {
    return {
      get: () => never('tunnels.get', NONE),
      list: () => never('tunnels.list', NONE),
      destroy: () => never('tunnels.destroy', NONE),
    };
  }

  /** Opens a WebSocket to a server in the sandbox: a response with status 101 and a `webSocket`. */
  async wsConnect(request: Request, port: number): Promise<Response> {
    return this.ports.wsConnect(request, port);
  }

  /** Removes the sandbox with everything in it. The next call makes a new one. */
  async destroy(): Promise<void> {
    await this.box.destroy();
    this.sessions.clear();
    this.box.env = {};
  }

  /** Ends everything that runs in it; its files stay. The next call starts it. */
  async stop(_signal?: string | number): Promise<void> {
    await this.box.stop();
  }

  /** True: the sandbox is not stopped for inactivity until destroy() or false, whichever client runs. */
  async setKeepAlive(keepAlive: boolean): Promise<void> {
    return this.set({ keepAlive });
  }

  /** Sets the inactivity time after which it is stopped: counted from now for an existing sandbox, and for new ones. */
  async setSleepAfter(sleepAfter: string | number): Promise<void> {
    return this.set({ sleepAfter });
  }

  /** Sets its labels, replacing those of an earlier call. */
  async setLabels(labels: Record<string, string>): Promise<void> {
    return this.set({ labels });
  }

  private set(options: t.SandboxOptions): Promise<void> {
    this.options = { ...this.options, ...options };
    return this.box.apply(options);
  }

  async setContainerTimeouts(_timeouts: NonNullable<t.SandboxOptions['containerTimeouts']>): Promise<void> {
    // A sandbox starts within milliseconds, or start fails with a reason.
  }

  async setTransport(_transport: NonNullable<t.SandboxOptions['transport']>): Promise<void> {
    // Always exists.
  }

  /** A local sandbox has no placement. */
  async getContainerPlacementId(): Promise<string | null | undefined> {
    return null;
  }
}

interface Preview {
  port: number;
  name: string;
  token: string;
}

/** Port, name and token of a preview URL's host name; null for other host names. */
export function previewOf(hostname: string): Preview | null {
  const label = hostname.slice(0, Math.max(0, hostname.indexOf('.')));
  const match = /^(\d{4,5})-([a-z0-9](?:[a-z0-9_-]*[a-z0-9_])?)-([a-z0-9_]{1,16})$/.exec(label);
  const port = Number(match?.[1]);
  return match && port >= 1024 && port <= 65535 ? { port, name: match[2]!, token: match[3]! } : null;
}

const denied = () =>
  Response.json({ error: 'Access denied: Invalid token or port not exposed', code: 'INVALID_TOKEN' }, { status: 404 });

/** Answers a request to a preview URL of a sandbox of these settings; null for other host names. */
export async function proxyPreview(request: Request, { rind, provider }: BoxSettings): Promise<Response | null> {
  const preview = previewOf(new URL(request.url).hostname);
  if (!preview) return null;
  const [box] = await rind
    .listSandboxes({ label: [LABEL_ID, `${LABEL_PROVIDER}=${provider}`] })
    .then((all) => all.filter((b) => b.name === preview.name));
  if (!box || box.state !== 'running') return denied();
  const exposed = (await rind.listExposures(box.id)).find((e) => e.port === preview.port);
  if (!exposed || !sameToken(exposed.token, preview.token)) return denied();
  return fetchPort(rind, box.id, preview.port, request);
}
