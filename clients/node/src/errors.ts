// Errors between a program and the daemon, each with advice.

/** The body of an error reply: `{"error":{"code","message","step"?,"errno"?}}`. */
export interface ErrorBody {
  code: string;
  message: string;
  step?: string;
  errno?: number;
}

/** The daemon refused or failed. `code` is the errno's name (`ENOENT`), `status` the HTTP status. */
export class RindError extends Error {
  override readonly name: string = 'RindError';
  readonly code: string;
  readonly status: number;
  readonly step: string | undefined;
  readonly errno: number | undefined;

  constructor(body: ErrorBody, status: number, options?: { cause?: unknown }) {
    super(body.message, options);
    this.code = body.code;
    this.status = status;
    this.step = body.step;
    this.errno = body.errno;
  }
}

/** The daemon cannot be reached, or the connection was lost. `code` is the errno's name. */
export class RindConnectionError extends RindError {
  override readonly name = 'RindConnectionError';
  readonly socket: string;

  constructor(code: string, message: string, socket: string, options?: { cause?: unknown }) {
    super({ code, message }, 0, options);
    this.socket = socket;
  }
}

/** The socket's server speaks another version of the API, or is not rind. */
export class RindVersionError extends RindError {
  override readonly name = 'RindVersionError';
  readonly daemonVersion: string | undefined;
  readonly daemonApi: string | undefined;

  constructor(message: string, daemonVersion?: string, daemonApi?: string) {
    super({ code: 'EPROTO', message }, 0);
    this.daemonVersion = daemonVersion;
    this.daemonApi = daemonApi;
  }
}

interface ErrnoLike {
  code?: string;
  message?: string;
}

/** Advice for an errno of connect(2). */
function advice(code: string, socket: string): string {
  switch (code) {
    case 'ENOENT':
      return (
        `no rind daemon at ${socket}: start one with \`rind serve\` as root (or with \`new Rind({ start: true })\`), ` +
        'or name another socket in RIND_SOCKET'
      );
    case 'ECONNREFUSED':
      return `nobody listens at ${socket}, though the socket is there: its daemon has ended; start it again with \`rind serve\``;
    case 'EACCES':
    case 'EPERM':
      return (
        `no permission to use ${socket}: it is for the owner of the daemon and for members of the group rind; ` +
        'as root, `usermod -aG rind USER`, then log in again'
      );
    case 'ENOTSOCK':
    case 'EPROTOTYPE':
      return `${socket} is no stream socket: RIND_SOCKET or the option \`socket\` must name that of \`rind serve\``;
    default:
      return `cannot reach the rind daemon at ${socket}: ${code}`;
  }
}

/** Wraps an error of the connection; an abort error is returned unchanged. */
export function connectionError(error: unknown, socket: string, connected: boolean): RindConnectionError {
  const e = error as ErrnoLike;
  const code = e?.code ?? 'EIO';
  const message = connected
    ? `lost the connection to the rind daemon at ${socket}: ${e?.message ?? code}`
    : advice(code, socket);
  return new RindConnectionError(code, message, socket, { cause: error });
}

/** The error in a reply's body, of any format. */
export function replyError(status: number, text: string): RindError {
  try {
    const body = (JSON.parse(text) as { error?: Partial<ErrorBody> }).error;
    if (body && typeof body.code === 'string' && typeof body.message === 'string')
      return new RindError(body as ErrorBody, status);
  } catch {
    // Not JSON: handled below.
  }
  return new RindError({ code: 'EPROTO', message: `status ${status} without a reason: ${text.slice(0, 200)}` }, status);
}
