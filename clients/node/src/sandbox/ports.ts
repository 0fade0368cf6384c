// Ports: preview URLs, HTTP and WebSockets to servers in the sandbox. None of these opens a port of the host.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { RindError } from '../errors';
import type { Rind } from '../rind';
import { WebSocketResponse, acceptKey, join, socketPair } from '../ws/socket';
import type { Box } from './box';
import { SandboxError, SandboxSecurityError } from './errors';
import { checkUpgrade } from './terminal';

export const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];

/** `*.workers.dev` has no certificates for two levels of subdomains. */
export class CustomDomainRequiredError extends SandboxError {
  override readonly name = 'CustomDomainRequiredError';
  constructor(hostname: string) {
    super({
      code: 'CUSTOM_DOMAIN_REQUIRED',
      message: `Port exposure requires a custom domain: names below ${hostname} lead nowhere`,
      context: { originalError: hostname },
      httpStatus: 400,
    });
  }
}

export function checkPort(port: number): void {
  if (!Number.isInteger(port) || port < 1024 || port > 65535)
    throw new SandboxSecurityError(`Invalid port number: ${port}. Must be 1024-65535.`, 'INVALID_PORT_NUMBER');
}

function checkToken(token: string): void {
  if (!/^[a-z0-9_]{1,16}$/.test(token))
    throw new SandboxSecurityError(
      `Custom token must be 1-16 characters of lowercase letters (a-z), numbers (0-9), and underscores (_): ${JSON.stringify(token)}`,
    );
}

/** Compares in constant time, whatever the lengths. */
export function sameToken(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}

function portError(error: unknown, port: number): unknown {
  if (!(error instanceof RindError) || error.status === 0) return error;
  const code =
    error.code === 'EEXIST'
      ? 'PORT_ALREADY_EXPOSED'
      : error.status === 400
        ? 'VALIDATION_FAILED'
        : 'PORT_OPERATION_ERROR';
  return new SandboxError(
    { code, message: error.message, context: { port }, httpStatus: error.status },
    { cause: error },
  );
}

export interface ExposeOptions {
  hostname: string;
  name?: string;
  token?: string;
}

export class Ports {
  constructor(private readonly box: Box) {}

  async expose(port: number, options: ExposeOptions): Promise<{ url: string; port: number; name: string | undefined }> {
    checkPort(port);
    const { hostname, name, token } = options ?? {};
    if (typeof hostname !== 'string' || hostname === '')
      throw new SandboxSecurityError('exposePort needs the option hostname');
    if (hostname.endsWith('.workers.dev')) throw new CustomDomainRequiredError(hostname);
    if (token !== undefined) checkToken(token);
    if (/[A-Z]/.test(this.box.id))
      throw new SandboxSecurityError(
        `Preview URLs require lowercase sandbox IDs. Your ID "${this.box.id}" contains uppercase letters: use { normalizeId: true }`,
      );
    try {
      const made = await this.box.use((id) => this.box.rind.exposePort(id, { port, hostname, name, token }));
      return { url: made.url, port, name: made.name ?? undefined };
    } catch (error) {
      throw portError(error, port);
    }
  }

  /** Succeeds for a port that is not exposed. */
  async unexpose(port: number): Promise<void> {
    checkPort(port);
    const box = await this.box.inspect(this.box.name);
    if (!box) return;
    try {
      await this.box.rind.unexposePort(box.id, port);
    } catch (error) {
      if (!(error instanceof RindError && error.status === 404)) throw portError(error, port);
    }
  }

  async list(hostname: string): Promise<Array<{ url: string; port: number; status: 'active' }>> {
    const box = await this.box.inspect(this.box.name);
    if (!box || box.state !== 'running') return [];
    const all = await this.box.rind.listExposures(box.id, { hostname });
    return all.map(({ url, port }) => ({ url, port, status: 'active' as const }));
  }

  async isExposed(port: number): Promise<boolean> {
    return (await this.token(port)) !== undefined;
  }

  async validate(port: number, token: string): Promise<boolean> {
    const known = await this.token(port);
    return known !== undefined && sameToken(known, String(token));
  }

  private async token(port: number): Promise<string | undefined> {
    const box = await this.box.inspect(this.box.name);
    if (!box) return undefined;
    return (await this.box.rind.listExposures(box.id)).find((e) => e.port === port)?.token;
  }

  /** An HTTP request to a server in the sandbox. */
  fetch(request: Request, port: number): Promise<Response> {
    return this.box.use((id) => fetchPort(this.box.rind, id, port, request));
  }

  /** A WebSocket to a server in the sandbox. */
  wsConnect(request: Request, port: number): Promise<Response> {
    checkPort(port);
    checkUpgrade(request, 'wsConnect');
    return this.box.use((id) => fetchPort(this.box.rind, id, port, request));
  }
}

function plainHeaders(request: Request): Record<string, string> {
  const listed = (request.headers.get('connection') ?? '').toLowerCase().split(/\s*,\s*/);
  const headers: Record<string, string> = {};
  for (const [name, value] of request.headers)
    if (!HOP_BY_HOP.includes(name) && !listed.includes(name) && name !== 'expect') headers[name] = value;
  return headers;
}

/** Sends a request to a port of a sandbox; for a WebSocket the result is a WebSocketResponse. */
export async function fetchPort(rind: Rind, id: string, port: number, request: Request): Promise<Response> {
  const url = new URL(request.url);
  const headers = { ...plainHeaders(request), host: request.headers.get('host') ?? url.host };
  if (request.headers.get('upgrade')?.toLowerCase() === 'websocket') return webSocket(rind, id, port, url, headers);
  const reply = await rind.fetchPort(id, port, {
    method: request.method,
    path: url.pathname + url.search,
    headers,
    body: request.body as never,
    signal: request.signal,
  });
  const out = new Headers();
  for (const [name, value] of reply.headers) if (!HOP_BY_HOP.includes(name.toLowerCase())) out.append(name, value);
  const bare = request.method === 'HEAD' || [204, 205, 304].includes(reply.status);
  return new Response(bare ? null : (reply.body as never), { status: reply.status, headers: out });
}

async function webSocket(
  rind: Rind,
  id: string,
  port: number,
  url: URL,
  headers: Record<string, string>,
): Promise<Response> {
  const key = randomBytes(16).toString('base64');
  for (const name of Object.keys(headers))
    if (name.startsWith('sec-websocket-') && name !== 'sec-websocket-protocol') delete headers[name];
  const shaken = { ...headers, 'sec-websocket-version': '13', 'sec-websocket-key': key };
  const {
    socket,
    head,
    headers: reply,
  } = await rind.upgradePort(id, port, { path: url.pathname + url.search, headers: shaken, protocol: 'websocket' });
  if (reply['sec-websocket-accept'] !== acceptKey(key) || reply['sec-websocket-extensions'] !== undefined) {
    socket.destroy();
    return new Response('what answers at this port is no WebSocket', { status: 502 });
  }
  const [outer, inner] = socketPair();
  join(inner, socket, head, true);
  const protocol = reply['sec-websocket-protocol'];
  return new WebSocketResponse(
    outer,
    protocol === undefined ? undefined : { 'sec-websocket-protocol': String(protocol) },
  );
}
