// An HTTP server that gives each name below /sandboxes/ a sandbox. Whoever can reach it can use them: put your own check of who
// asks in front of it.
//
//     POST   /sandboxes/NAME/exec             {"command", "cwd"?, "env"?, "timeout"?, "stdin"?, "session"?}
//     POST   /sandboxes/NAME/stream           the same; answers with server-sent events
//     GET    /sandboxes/NAME/files/PATH       PUT writes, DELETE removes; a directory is listed
//     GET    /sandboxes/NAME/watch/PATH       server-sent events
//     POST   /sandboxes/NAME/processes        {"command", "id"?}; GET lists; GET …/processes/ID/logs follows; DELETE …/ID?signal= kills
//     POST   /sandboxes/NAME/ports            {"port", "token"?}; answers with the URL, which this server serves, too
//     GET    /sandboxes/NAME/terminal         a WebSocket
//     DELETE /sandboxes/NAME
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import {
  SandboxError,
  SandboxNamespace,
  getSandbox,
  proxyToSandbox,
  upgradeWebSocket,
  type NamespaceOptions,
  type Sandbox,
} from 'rind-client';

const BODY_MAX = 1 << 20;

interface Context {
  sandbox: Sandbox;
  /** What stands behind the verb. */
  rest: string;
  url: URL;
  request: Request;
}

type Handler = (context: Context) => Promise<Response>;

async function body<T>(request: Request): Promise<T> {
  const text = await request.text();
  if (text.length > BODY_MAX)
    throw new SandboxError({
      code: 'VALIDATION_FAILED',
      message: 'the body is too long',
      context: {},
      httpStatus: 413,
    });
  return JSON.parse(text || '{}') as T;
}

const events = (stream: ReadableStream<Uint8Array>) =>
  new Response(stream as never, { headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' } });

interface Command {
  command: string;
  session?: string;
  cwd?: string;
  env?: Record<string, string>;
  timeout?: number;
  stdin?: string;
}

const routes: Record<string, Handler> = {
  'POST exec': async ({ sandbox, request }) => {
    const { command, session, ...options } = await body<Command>(request);
    const where = session === undefined ? sandbox : await sandbox.getSession(session);
    return Response.json(await where.exec(command, { ...options, signal: request.signal }));
  },
  'POST stream': async ({ sandbox, request }) => {
    const { command, session, ...options } = await body<Command>(request);
    return events(
      await sandbox.execStream(command, {
        ...options,
        ...(session === undefined ? {} : { sessionId: session }),
        signal: request.signal,
      }),
    );
  },
  'GET files': async ({ sandbox, rest }) => {
    try {
      const file = await sandbox.readFile(`/${rest}`, { encoding: 'none' });
      return new Response(file.content as never, { headers: { 'content-type': file.mimeType } });
    } catch (error) {
      if (!(error instanceof SandboxError && error.code === 'IS_DIRECTORY')) throw error;
      return Response.json(await sandbox.listFiles(`/${rest}`));
    }
  },
  'PUT files': async ({ sandbox, rest, request }) =>
    Response.json(await sandbox.writeFile(`/${rest}`, (request.body ?? '') as never)),
  'DELETE files': async ({ sandbox, rest }) => Response.json(await sandbox.deleteFile(`/${rest}`)),
  'GET watch': async ({ sandbox, rest }) => events(await sandbox.watch(`/${rest}`)),
  'GET processes': async ({ sandbox, rest }) => {
    const [id, logs] = rest.split('/');
    if (id && logs === 'logs') return events(await sandbox.streamProcessLogs(id));
    return Response.json(id ? await sandbox.getProcess(id) : await sandbox.listProcesses());
  },
  'POST processes': async ({ sandbox, request }) => {
    const { command, id } = await body<{ command: string; id?: string }>(request);
    return Response.json(await sandbox.startProcess(command, { processId: id }), { status: 201 });
  },
  'DELETE processes': async ({ sandbox, rest, url }) => {
    await sandbox.killProcess(rest, url.searchParams.get('signal') ?? undefined);
    return new Response(null, { status: 204 });
  },
  'POST ports': async ({ sandbox, request, url }) => {
    const { port, token } = await body<{ port: number; token?: string }>(request);
    return Response.json(await sandbox.exposePort(port, { hostname: url.host, token }), { status: 201 });
  },
  'GET terminal': ({ sandbox, request }) => sandbox.terminal(request),
  'DELETE ': async ({ sandbox }) => {
    await sandbox.destroy();
    return new Response(null, { status: 204 });
  },
};

async function answer(request: Request, Sandbox: SandboxNamespace): Promise<Response> {
  try {
    const preview = await proxyToSandbox(request, { Sandbox });
    if (preview) return preview;
    const url = new URL(request.url);
    const [, name, verb, rest] =
      /^\/sandboxes\/([^/]+)(?:\/([a-z]+)(?:\/(.*))?)?$/.exec(decodeURIComponent(url.pathname)) ?? [];
    const handler = routes[`${request.method} ${verb ?? ''}`];
    if (name === undefined || !handler) return Response.json({ error: 'no such path' }, { status: 404 });
    return await handler({ sandbox: getSandbox(Sandbox, name), rest: rest ?? '', url, request });
  } catch (error) {
    if (error instanceof SandboxError)
      return Response.json({ error: error.message, code: error.code }, { status: error.httpStatus });
    if (error instanceof SyntaxError) return Response.json({ error: 'the body is no JSON' }, { status: 400 });
    return Response.json({ error: (error as Error).message }, { status: 500 });
  }
}

function toRequest(req: IncomingMessage, gone: AbortSignal): Request {
  const headers = new Headers();
  for (let i = 0; i + 1 < req.rawHeaders.length; i += 2) headers.append(req.rawHeaders[i]!, req.rawHeaders[i + 1]!);
  const bare = req.method === 'GET' || req.method === 'HEAD';
  const init = {
    method: req.method,
    headers,
    signal: gone,
    ...(bare ? {} : { body: Readable.toWeb(req), duplex: 'half' }),
  };
  return new Request(`http://${req.headers.host ?? 'localhost'}${req.url}`, init as never);
}

async function reply(response: Response, res: ServerResponse): Promise<void> {
  res.writeHead(response.status, [...response.headers].flat());
  if (!response.body) return void res.end();
  res.flushHeaders();
  const source = Readable.fromWeb(response.body as never);
  res.on('close', () => source.destroy());
  source.on('error', () => res.destroy());
  source.pipe(res);
}

/** The server, not listening yet. */
export function sandboxServer(options: NamespaceOptions = {}): Server {
  const namespace = new SandboxNamespace(options);
  const server = createServer((req, res) => {
    const gone = new AbortController();
    res.on('close', () => gone.abort(new Error('the client has gone')));
    answer(toRequest(req, gone.signal), namespace)
      .then((response) => reply(response, res))
      .catch(() => res.destroy());
  });
  server.on('upgrade', (req, socket, head) => {
    const gone = new AbortController();
    answer(toRequest(req, gone.signal), namespace)
      .then((response) => upgradeWebSocket(response, req, socket, head))
      .catch(() => socket.destroy());
  });
  return server;
}

if (require.main === module) {
  const port = Number(process.env.PORT ?? 8787);
  sandboxServer().listen(port, '127.0.0.1', () => console.log(`http://localhost:${port}/sandboxes/`));
}
