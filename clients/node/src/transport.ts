// HTTP/1.1 over the daemon's unix socket. Short requests share a few connections; a stream has its own, which ends with it.
import {
  Agent,
  request as httpRequest,
  type ClientRequest,
  type IncomingMessage,
  type RequestOptions,
} from 'node:http';
import type { Socket } from 'node:net';
import type { ReadableStream } from 'node:stream/web';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectionError, replyError } from './errors';
import { bodyBytes, bodyStream, pump } from './streams';

export type QueryValue = string | number | boolean | Uint8Array | readonly string[] | undefined | null;

export interface Call {
  method: string;
  path: string;
  query?: Record<string, QueryValue> | undefined;
  headers?: Record<string, string> | undefined;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent unchanged; a stream is read only after the daemon asks for it (100 Continue). */
  body?: Uint8Array | ReadableStream<Uint8Array | string> | undefined;
  signal?: AbortSignal | undefined;
  /** Uses a separate connection: for replies without end. */
  stream?: boolean | undefined;
  /** False: a stream is sent without waiting for 100 Continue. */
  expect?: boolean | undefined;
}

export interface Reply {
  status: number;
  headers: IncomingMessage['headers'];
  /** Each header line, as received. */
  lines: Array<[string, string]>;
  body: ReadableStream<Uint8Array>;
  /** Closes the connection, even while the body is read. */
  close: () => void;
}

export interface Upgraded {
  socket: Socket;
  head: Buffer;
  headers: IncomingMessage['headers'];
}

const MAX_SOCKETS = 64; // connections that short requests share; the daemon serves 1024, 768 to one user
const FREE_MS = 20_000; // after which an idle connection is closed: well before the daemon would close it
const REPLY_MAX = 256 << 20; // bytes of a JSON reply
const CONNECT_TRIES = 40; // while the daemon's backlog is full (EAGAIN), each up to 50 ms apart

/** Percent-encodes text as UTF-8, or bytes as they are. */
export function encode(value: string | Uint8Array): string {
  if (typeof value === 'string') return encodeURIComponent(value);
  return Array.from(value, (b) => `%${b.toString(16).padStart(2, '0')}`).join('');
}

/** Checks the shape only: a stream may come from another realm. */
export function isStream(value: unknown): value is ReadableStream<Uint8Array | string> {
  return typeof (value as { getReader?: unknown } | null | undefined)?.getReader === 'function';
}

function target(call: Call): string {
  const pairs: string[] = [];
  for (const [name, value] of Object.entries(call.query ?? {})) {
    if (value === undefined || value === null) continue;
    const all = Array.isArray(value) ? (value as readonly string[]) : [value as string | number | boolean | Uint8Array];
    for (const one of all) pairs.push(`${name}=${one instanceof Uint8Array ? encode(one) : encode(String(one))}`);
  }
  return pairs.length > 0 ? `${call.path}?${pairs.join('&')}` : call.path;
}

export class Transport {
  private readonly agent = new Agent({ keepAlive: true, maxSockets: MAX_SOCKETS, timeout: FREE_MS });

  constructor(readonly socketPath: string) {}

  /** Closes idle connections; pending requests continue. */
  close(): void {
    this.agent.destroy();
  }

  private fail(error: unknown, call: Call, connected: boolean): Error {
    if (call.signal?.aborted)
      return call.signal.reason instanceof Error ? call.signal.reason : new Error(String(call.signal.reason));
    return connectionError(error, this.socketPath, connected);
  }

  private open(call: Call, extra: Record<string, string>): ClientRequest {
    const headers: Record<string, string | number> = { Host: 'rind', ...extra, ...call.headers };
    let body: Uint8Array | undefined;
    if (call.json !== undefined) {
      body = Buffer.from(JSON.stringify(call.json));
      headers['Content-Type'] = 'application/json';
    } else if (call.body instanceof Uint8Array) {
      body = call.body;
      headers['Content-Type'] ??= 'application/octet-stream';
    } else if (call.body) {
      headers['Content-Type'] ??= 'application/octet-stream';
      if (call.expect !== false) headers['Expect'] = '100-continue';
    }
    if (body) headers['Content-Length'] = body.byteLength;
    const own = call.stream || isStream(call.body);
    const options: RequestOptions = { socketPath: this.socketPath, method: call.method, path: target(call), headers };
    options.agent = own ? false : this.agent;
    if (call.signal) options.signal = call.signal;
    const req = httpRequest(options);
    if (body) req.end(body);
    else if (isStream(call.body)) this.send(req, call.body, call.expect !== false);
    else req.end();
    return req;
  }

  /** Sends a stream after 100 Continue; an earlier reply cancels it. */
  private send(req: ClientRequest, source: ReadableStream<Uint8Array | string>, asked: boolean): void {
    let begun = !asked;
    const refuse = () => {
      if (begun) return;
      begun = true;
      void source.cancel(new Error('it was not asked for')).catch(() => undefined);
    };
    const begin = () => {
      begun = true;
      pump(source, req).catch((error: unknown) => req.destroy(error as Error));
    };
    req.on('response', refuse).on('error', refuse);
    if (!asked) return begin();
    req.on('continue', begin);
    req.flushHeaders();
  }

  private once(
    call: Call,
    extra: Record<string, string>,
  ): Promise<{ res: IncomingMessage; socket?: Socket; head?: Buffer }> {
    return new Promise((resolve, reject) => {
      if (call.signal?.aborted) {
        reject(this.fail(undefined, call, false));
        return;
      }
      const req = this.open(call, extra);
      let connected = false;
      req.on('socket', (socket) => {
        if (!socket.connecting) connected = true;
        else socket.once('connect', () => (connected = true));
      });
      req.on('response', (res) => resolve({ res }));
      req.on('upgrade', (res, socket, head) => resolve({ res, socket: socket as Socket, head }));
      req.on('error', (error) =>
        reject(Object.assign(this.fail(error, call, connected), { reused: req.reusedSocket })),
      );
    });
  }

  /** Returns the reply's head. A request without effects is retried if a restart of the daemon had closed its connection. */
  private async head(call: Call, extra: Record<string, string> = {}): ReturnType<Transport['once']> {
    for (let tries = 0; ; tries++) {
      try {
        return await this.once(call, extra);
      } catch (error) {
        const e = error as { code?: string; reused?: boolean };
        const stale = e.reused === true && call.method === 'GET' && (e.code === 'ECONNRESET' || e.code === 'EPIPE');
        const full = e.code === 'EAGAIN' && !isStream(call.body);
        if (!(stale || full) || tries >= CONNECT_TRIES) throw error;
        await sleep(Math.random() * 50, undefined, { signal: call.signal });
      }
    }
  }

  private reply(res: IncomingMessage, call: Call): Reply {
    const body = bodyStream(res, (error) => this.fail(error, call, true));
    const lines: Array<[string, string]> = [];
    for (let i = 0; i + 1 < res.rawHeaders.length; i += 2) lines.push([res.rawHeaders[i]!, res.rawHeaders[i + 1]!]);
    return { status: res.statusCode ?? 0, headers: res.headers, lines, body, close: () => res.destroy() };
  }

  /** Returns any reply. */
  async raw(call: Call): Promise<Reply> {
    const { res } = await this.head(call);
    return this.reply(res, call);
  }

  /** Returns a reply below 400; others are thrown as RindError. */
  async request(call: Call): Promise<Reply> {
    const { res } = await this.head(call);
    const reply = this.reply(res, call);
    if (reply.status >= 400) throw replyError(reply.status, await this.text(reply));
    return reply;
  }

  private async text(reply: Reply): Promise<string> {
    return Buffer.from(await bodyBytes(reply.body, REPLY_MAX)).toString('utf8');
  }

  /** Returns the JSON of a reply; undefined for one without body. */
  async json<T>(call: Call): Promise<T> {
    const reply = await this.request(call);
    const text = await this.text(reply);
    return (text === '' ? undefined : JSON.parse(text)) as T;
  }

  /** Upgrades a connection and returns it. */
  async upgrade(call: Call, protocol: string): Promise<Upgraded> {
    const { res, socket, head } = await this.head(
      { ...call, stream: true },
      { Connection: 'Upgrade', Upgrade: protocol },
    );
    if (socket && head) return { socket, head, headers: res.headers };
    const reply = this.reply(res, call);
    const text = await this.text(reply);
    throw replyError(reply.status, text);
  }
}
