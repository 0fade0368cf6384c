// Finds the daemon's socket: RIND_SOCKET, else the user's own daemon, else the system's.
import { existsSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';

export const SYSTEM_SOCKET = '/run/rind/rind.sock';

/** Converts a path or a `unix://` URL to an absolute path. */
export function socketPath(text: string, what: string): string {
  const path = text.startsWith('unix://') ? text.slice('unix://'.length) : text;
  if (!isAbsolute(path))
    throw new TypeError(`${what} must be an absolute path or unix:// with one, not ${JSON.stringify(text)}`);
  return path;
}

/** The candidate sockets, in order. */
export function defaultSockets(env: NodeJS.ProcessEnv = process.env, uid: number = process.getuid?.() ?? 0): string[] {
  if (env.RIND_SOCKET) return [socketPath(env.RIND_SOCKET, 'RIND_SOCKET')];
  if (uid === 0 || !env.XDG_RUNTIME_DIR) return [SYSTEM_SOCKET];
  return [join(env.XDG_RUNTIME_DIR, 'rind/rind.sock'), SYSTEM_SOCKET];
}

/** The first existing candidate; if none exists, the first one, for the error message. */
export function findSocket(env?: NodeJS.ProcessEnv, uid?: number): string {
  const candidates = defaultSockets(env, uid);
  return candidates.find((path) => existsSync(path)) ?? candidates[0]!;
}
