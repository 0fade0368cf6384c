// terminal(): a shell on its own terminal, over a WebSocket. Bytes are binary messages; text messages are JSON:
// `{"type":"resize","cols","rows"}` from the client; `ready`, `exit` (code, signal) and `error` (message) to the client.
import { WORKSPACE, type Box } from './box';
import type { PtyOptions } from './types';
import { WebSocketResponse, socketPair, type Data, type WorkerSocket } from '../ws/socket';
import type { ExecConnection } from '../exec-connection';

const SHELL = 'for h in "$1" /bin/bash /bin/sh; do [ ! -x "$h" ] || exec "$h" -i; done; exit 127';
const SIZE_MAX = 4096;

export function checkUpgrade(request: Request, method: string): void {
  if (request.headers.get('Upgrade')?.toLowerCase() !== 'websocket')
    throw new Error(`${method}() requires a WebSocket upgrade request`);
}

const size = (value: unknown, otherwise: number) =>
  Number.isInteger(value) && (value as number) >= 1 && (value as number) <= SIZE_MAX ? (value as number) : otherwise;

/** Sends output to the client at its pace. */
async function show(run: ExecConnection, socket: WorkerSocket): Promise<void> {
  for await (const part of run.stdout) await socket.pass(part);
}

function control(run: ExecConnection, text: string): Promise<void> | undefined {
  try {
    const message = JSON.parse(text) as { type?: string; cols?: number; rows?: number } | null;
    if (message?.type === 'resize') return run.resize(size(message.rows, 24), size(message.cols, 80));
  } catch {
    return undefined;
  }
  return undefined;
}

export async function openTerminal(box: Box, request: Request, options: PtyOptions = {}): Promise<Response> {
  checkUpgrade(request, 'terminal');
  const argv = ['/bin/sh', '-c', SHELL, 'rind', options.shell ?? ''];
  const spec = {
    argv,
    tty: true,
    rows: size(options.rows, 24),
    cols: size(options.cols, 80),
    cwd: WORKSPACE,
    env: { TERM: 'xterm-256color', ...box.env },
  };
  const run = await box.use((id) => box.rind.execStream(id, spec));
  const [outer, inner] = socketPair();
  const keys = run.stdin.getWriter();
  const typed = async (data: Data) => {
    if (typeof data === 'string') await (control(run, data) ?? Promise.resolve());
    else await keys.write(data);
  };
  inner.addEventListener('close', () => run.close());
  void inner.drainTo((data) => typed(data).catch(() => undefined));
  inner.send(JSON.stringify({ type: 'ready' }));
  void show(run, inner)
    .then(() => run.exit)
    .then(
      (end) =>
        inner.send(JSON.stringify({ type: 'exit', code: end.exitCode, ...(end.signal ? { signal: end.signal } : {}) })),
      (error: unknown) => inner.send(JSON.stringify({ type: 'error', message: (error as Error).message })),
    )
    .finally(() => inner.close(1000, 'the shell has ended'));
  return new WebSocketResponse(outer);
}
