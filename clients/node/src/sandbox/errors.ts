// Errors with the names and codes of the 0.x SDK; the daemon's error is their cause.
import { RindError } from '../errors';

export interface ErrorResponse<T = Record<string, unknown>> {
  code: string;
  message: string;
  context: T;
  httpStatus: number;
  timestamp: string;
  operation?: string;
  suggestion?: string;
  documentation?: string;
}

export class SandboxError<T = Record<string, unknown>> extends Error {
  override readonly name: string = 'SandboxError';
  readonly errorResponse: ErrorResponse<T>;

  constructor(response: Omit<ErrorResponse<T>, 'timestamp'> & { timestamp?: string }, options?: { cause?: unknown }) {
    super(response.message, options);
    this.errorResponse = { timestamp: new Date().toISOString(), ...response };
  }
  get code(): string {
    return this.errorResponse.code;
  }
  get context(): T {
    return this.errorResponse.context;
  }
  get httpStatus(): number {
    return this.errorResponse.httpStatus;
  }
  get operation(): string | undefined {
    return this.errorResponse.operation;
  }
  get suggestion(): string | undefined {
    return this.errorResponse.suggestion;
  }
  get timestamp(): string {
    return this.errorResponse.timestamp;
  }
  get documentation(): string | undefined {
    return this.errorResponse.documentation;
  }
  /** The daemon's error, if it was the cause. */
  get rind(): RindError | undefined {
    return this.cause instanceof RindError ? this.cause : undefined;
  }
  toJSON(): Record<string, unknown> {
    return { name: this.name, ...this.errorResponse, stack: this.stack };
  }
}

/** An id, port, token or host name that is not accepted. */
export class SandboxSecurityError extends SandboxError<{ code?: string }> {
  override readonly name = 'SandboxSecurityError';
  constructor(message: string, code = 'VALIDATION_FAILED') {
    super({ code, message, context: {}, httpStatus: 400 });
  }
}

/** The sandbox of this name is another provider's. */
export class ProviderMismatchError extends SandboxError<{
  sandboxId: string;
  provider: string | null;
  expected: string;
}> {
  override readonly name = 'ProviderMismatchError';
  constructor(sandboxId: string, provider: string | null, expected: string) {
    super({
      code: 'PROVIDER_MISMATCH',
      message: `sandbox '${sandboxId}' was made by ${provider === null ? 'no provider' : `the provider '${provider}'`}, and this is '${expected}': use another name, or destroy it there`,
      context: { sandboxId, provider, expected },
      httpStatus: 409,
    });
  }
}

/** A method of the SDK that this layer does not have. */
export class NotSupportedError extends SandboxError<{ method: string }> {
  override readonly name = 'NotSupportedError';
  constructor(method: string, why: string) {
    super({
      code: 'NOT_SUPPORTED',
      message: `${method} is not there on rind: ${why}`,
      context: { method },
      httpStatus: 501,
    });
  }
}

export interface CommandTimeoutContext {
  command: string;
  timeout: number;
  stdout: string;
  stderr: string;
}

/** A command exceeded its time-out; its processes were ended. */
export class CommandTimeoutError extends SandboxError<CommandTimeoutContext> {
  override readonly name = 'CommandTimeoutError';
  constructor(context: CommandTimeoutContext) {
    super({
      code: 'COMMAND_EXECUTION_ERROR',
      message: `Command timed out after ${context.timeout}ms: ${context.command.slice(0, 200)}`,
      context,
      httpStatus: 408,
    });
  }
}

export class SessionTerminatedError extends SandboxError<{ sessionId: string; exitCode: number | null }> {
  override readonly name = 'SessionTerminatedError';
  /** `begun`: the command had begun to run. */
  constructor(
    sessionId: string,
    exitCode: number | null,
    readonly begun = true,
  ) {
    super({
      code: 'SESSION_TERMINATED',
      message: `the shell of session '${sessionId}' ended${exitCode === null ? '' : ` with ${exitCode}`} while a command ran; the next one starts afresh`,
      context: { sessionId, exitCode },
      httpStatus: 410,
    });
  }
  get sessionId(): string {
    return this.context.sessionId;
  }
  get exitCode(): number | null {
    return this.context.exitCode;
  }
}

interface ReadyContext {
  processId: string;
  command: string;
  condition: string;
}

export class ProcessReadyTimeoutError extends SandboxError<ReadyContext & { timeout: number }> {
  override readonly name = 'ProcessReadyTimeoutError';
  constructor(context: ReadyContext & { timeout: number }, options?: { cause?: unknown }) {
    const message = `Process did not become ready within ${context.timeout}ms. Waiting for: ${context.condition}`;
    super(
      {
        code: 'PROCESS_READY_TIMEOUT',
        message,
        context,
        httpStatus: 408,
        suggestion: 'look at getLogs(), or wait longer',
      },
      options,
    );
  }
  get processId(): string {
    return this.context.processId;
  }
  get command(): string {
    return this.context.command;
  }
  get condition(): string {
    return this.context.condition;
  }
  get timeout(): number {
    return this.context.timeout;
  }
}

export class ProcessExitedBeforeReadyError extends SandboxError<ReadyContext & { exitCode: number }> {
  override readonly name = 'ProcessExitedBeforeReadyError';
  constructor(context: ReadyContext & { exitCode: number }, options?: { cause?: unknown }) {
    const message = `Process exited with code ${context.exitCode} before becoming ready. Waiting for: ${context.condition}`;
    super(
      { code: 'PROCESS_EXITED_BEFORE_READY', message, context, httpStatus: 500, suggestion: 'look at getLogs()' },
      options,
    );
  }
  get processId(): string {
    return this.context.processId;
  }
  get command(): string {
    return this.context.command;
  }
  get condition(): string {
    return this.context.condition;
  }
  get exitCode(): number {
    return this.context.exitCode;
  }
}

const FILE_CODES: Record<string, string> = {
  ENOENT: 'FILE_NOT_FOUND',
  EACCES: 'PERMISSION_DENIED',
  EPERM: 'PERMISSION_DENIED',
  EEXIST: 'FILE_EXISTS',
  EISDIR: 'IS_DIRECTORY',
  ENOTDIR: 'NOT_DIRECTORY',
  EFBIG: 'FILE_TOO_LARGE',
  ENOSPC: 'NO_SPACE',
  EDQUOT: 'NO_SPACE',
  EMFILE: 'TOO_MANY_FILES',
  ENFILE: 'TOO_MANY_FILES',
  EBUSY: 'RESOURCE_BUSY',
  EROFS: 'READ_ONLY',
  ENAMETOOLONG: 'NAME_TOO_LONG',
  ELOOP: 'TOO_MANY_LINKS',
};

/** Converts an error of a file operation; others, such as a lost connection, are returned unchanged. */
export function fileError(error: unknown, operation: string, path: string): unknown {
  if (!(error instanceof RindError) || error.status === 0) return error;
  const code = FILE_CODES[error.code] ?? 'FILESYSTEM_ERROR';
  return new SandboxError(
    { code, message: error.message, context: { path, operation }, httpStatus: error.status, operation },
    { cause: error },
  );
}

export function processError(error: unknown, operation: string, processId: string): unknown {
  if (!(error instanceof RindError) || error.status === 0) return error;
  const code =
    error.status === 404 ? 'PROCESS_NOT_FOUND' : error.status === 403 ? 'PROCESS_PERMISSION_DENIED' : 'PROCESS_ERROR';
  return new SandboxError(
    { code, message: error.message, context: { processId, operation }, httpStatus: error.status, operation },
    { cause: error },
  );
}
