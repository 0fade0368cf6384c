// The surface of the 0.x SDK: parameters and results of its methods.
import type { ReadableStream } from 'node:stream/web';

export interface BaseExecOptions {
  /** Milliseconds; then the command's processes are ended and the call rejects. */
  timeout?: number;
  /** For this command only; undefined values are skipped. */
  env?: Record<string, string | undefined>;
  /** For this command only. */
  cwd?: string;
  encoding?: string;
}

export interface ExecOptions extends BaseExecOptions {
  stream?: boolean;
  onOutput?: (stream: 'stdout' | 'stderr', data: string) => void;
  onComplete?: (result: ExecResult) => void;
  onError?: (error: Error) => void;
  signal?: AbortSignal;
  origin?: 'user' | 'internal';
  /** The contents of stdin; by default it is empty. */
  stdin?: string | Uint8Array | ReadableStream<Uint8Array>;
}

export interface ExecResult {
  success: boolean;
  exitCode: number;
  stdout: string;
  stderr: string;
  command: string;
  /** Milliseconds. */
  duration: number;
  timestamp: string;
  sessionId?: string;
}

export interface StreamOptions extends BaseExecOptions {
  sessionId?: string;
  bufferSize?: number;
  signal?: AbortSignal;
  stdin?: string | Uint8Array | ReadableStream<Uint8Array>;
}

export interface ExecEvent {
  type: 'start' | 'stdout' | 'stderr' | 'complete' | 'error';
  timestamp: string;
  data?: string;
  command?: string;
  exitCode?: number;
  result?: ExecResult;
  error?: string;
  sessionId?: string;
  pid?: number;
}

export interface LogEvent {
  type: 'stdout' | 'stderr' | 'exit' | 'error';
  timestamp: string;
  data: string;
  processId: string;
  sessionId?: string;
  exitCode?: number;
}

export type ProcessStatus = 'starting' | 'running' | 'completed' | 'failed' | 'killed' | 'error';

export interface ProcessOptions extends BaseExecOptions {
  sessionId?: string;
  processId?: string;
  autoCleanup?: boolean;
  stdin?: string;
  onExit?: (code: number | null) => void;
  onOutput?: (stream: 'stdout' | 'stderr', data: string) => void;
  onStart?: (process: Process) => void;
  onError?: (error: Error) => void;
}

export interface WaitForLogResult {
  line: string;
  match?: RegExpMatchArray;
}

export interface WaitForPortOptions {
  mode?: 'http' | 'tcp';
  path?: string;
  status?: number | { min: number; max: number };
  timeout?: number;
  interval?: number;
}

export interface Process {
  readonly id: string;
  readonly pid?: number;
  readonly command: string;
  readonly status: ProcessStatus;
  readonly startTime: Date;
  readonly endTime?: Date;
  readonly exitCode?: number;
  readonly sessionId?: string;
  kill(signal?: string): Promise<void>;
  getStatus(): Promise<ProcessStatus>;
  getLogs(): Promise<{ stdout: string; stderr: string }>;
  waitForLog(pattern: string | RegExp, timeout?: number): Promise<WaitForLogResult>;
  waitForPort(port: number, options?: WaitForPortOptions): Promise<void>;
  waitForExit(timeout?: number): Promise<{ exitCode: number }>;
}

interface Done {
  success: boolean;
  path: string;
  timestamp: string;
  exitCode?: number;
}

export type MkdirResult = Done & { recursive: boolean };
export type WriteFileResult = Done & { bytesWritten?: number };
export type DeleteFileResult = Done;
export type RenameFileResult = Done & { newPath: string };
export type MoveFileResult = Done & { newPath: string };
export type FileExistsResult = Done & { exists: boolean };
export type FileEncoding = 'utf-8' | 'utf8' | 'base64' | 'none';

export interface ReadFileResult extends Done {
  content: string;
  encoding?: 'utf-8' | 'base64';
  isBinary?: boolean;
  mimeType?: string;
  size?: number;
}

export interface ReadFileStreamResult {
  success: true;
  path: string;
  content: ReadableStream<Uint8Array>;
  size: number;
  mimeType: string;
  timestamp: string;
}

export interface FileInfo {
  name: string;
  absolutePath: string;
  relativePath: string;
  type: 'file' | 'directory' | 'symlink' | 'other';
  size: number;
  modifiedAt: string;
  /** In the format of `ls`: `rw-r--r--`. */
  mode: string;
  /** For the file's owner. */
  permissions: { readable: boolean; writable: boolean; executable: boolean };
}

export interface ListFilesOptions {
  recursive?: boolean;
  includeHidden?: boolean;
  sessionId?: string;
}

export type ListFilesResult = Done & { files: FileInfo[]; count: number };

export interface FileMetadata {
  mimeType: string;
  size: number;
  isBinary: boolean;
  encoding: 'utf-8' | 'base64';
}

export type FileStreamEvent =
  | ({ type: 'metadata' } & FileMetadata)
  | { type: 'chunk'; data: string }
  | { type: 'complete'; bytesRead: number }
  | { type: 'error'; error: string };

export type FileChunk = string | Uint8Array;

export interface WatchOptions {
  /** Default true. */
  recursive?: boolean;
  include?: string[];
  /** Default `.git`, `node_modules` and `.DS_Store`. */
  exclude?: string[];
  sessionId?: string;
}

export type FileWatchEventType = 'create' | 'modify' | 'delete' | 'move_from' | 'move_to' | 'attrib';

export type FileWatchSSEEvent =
  | { type: 'watching'; path: string; watchId: string }
  | { type: 'event'; eventType: FileWatchEventType; path: string; isDirectory: boolean; timestamp: string }
  | { type: 'error'; error: string }
  | { type: 'stopped'; reason: string };

export interface CheckChangesOptions extends WatchOptions {
  since?: string;
}

export type CheckChangesResult =
  | { success: true; status: 'unchanged' | 'changed'; version: string; timestamp: string }
  | { success: true; status: 'resync'; reason: 'expired' | 'restarted'; version: string; timestamp: string };

export interface GitCheckoutOptions {
  branch?: string;
  targetDir?: string;
  depth?: number;
  cloneTimeoutMs?: number;
  sessionId?: string;
}

export type GitCheckoutResult = Omit<Done, 'path'> & { repoUrl: string; branch: string; targetDir: string };

export interface SessionOptions {
  id?: string;
  name?: string;
  env?: Record<string, string | undefined>;
  cwd?: string;
  isolation?: boolean;
  commandTimeoutMs?: number;
}

export interface SessionDeleteResult {
  success: boolean;
  sessionId: string;
  timestamp: string;
}

export interface SandboxOptions {
  /** Inactivity time until the sandbox is stopped: `30s`, `10m`, `1h`, or a number of seconds. Default `10m`. */
  sleepAfter?: string | number;
  /** The sandbox is never stopped for inactivity. */
  keepAlive?: boolean;
  /** False: each exec has its own shell, and nothing persists between them. */
  enableDefaultSession?: boolean;
  /** Upper case in the id becomes lower case. */
  normalizeId?: boolean;
  containerTimeouts?: { instanceGetTimeoutMS?: number; portReadyTimeoutMS?: number; waitIntervalMS?: number };
  transport?: 'http' | 'websocket' | 'rpc';
  labels?: Record<string, string>;
}

export interface PtyOptions {
  cols?: number;
  rows?: number;
  shell?: string;
}

/** Every call rejects. */
export interface Tunnels {
  get(port: number, options?: { name?: string }): Promise<never>;
  list(): Promise<never>;
  destroy(portOrInfo: number | object): Promise<never>;
}
