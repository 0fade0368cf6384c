// WebSockets like those of a Workers runtime: pairs, one end of which is returned in a Response with status 101, and
// connections joined to such an end. Sending waits for the slower side: every queue is bounded.
import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { drained } from '../streams';
import {
  MessageReader,
  Op,
  WebSocketError,
  closePayload,
  decodeText,
  encodeFrame,
  parseClose,
  type Message,
} from './frames';

export type Data = string | Uint8Array;

const QUEUE_MAX = 16 << 20; // bytes queued until an end is accepted
const CLOSE_MS = 5_000; // time for the peer to answer a close
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

const sizeOf = (data: Data) => (typeof data === 'string' ? Buffer.byteLength(data) : data.byteLength);

interface Ending {
  code: number;
  reason: string;
}

/** One end of a pair. `accept()` begins delivery; events are `message`, `close` and `error`. */
export class WorkerSocket extends EventTarget {
  static readonly OPEN = 1;
  static readonly CLOSED = 3;
  readyState = WorkerSocket.OPEN;
  peer!: WorkerSocket;
  private queue: Data[] = [];
  private queued = 0;
  private ending: Ending | undefined;
  private accepted = false;
  private sink: ((data: Data) => Promise<void>) | undefined;

  /** Starts to deliver messages as events. */
  accept(): void {
    if (this.accepted) return;
    this.accepted = true;
    for (const data of this.queue.splice(0)) void this.deliver(data);
    if (this.ending) this.finish(this.ending);
  }

  /** Delivers messages to `sink`, whose promise requests the next one. */
  async drainTo(sink: (data: Data) => Promise<void>): Promise<void> {
    this.sink = sink;
    this.accepted = true;
    for (const data of this.queue.splice(0)) await sink(data);
    if (this.ending) this.finish(this.ending);
  }

  send(data: string | ArrayBuffer | ArrayBufferView): void {
    const plain =
      typeof data === 'string'
        ? data
        : data instanceof ArrayBuffer
          ? new Uint8Array(data)
          : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    void this.pass(plain).catch(() => undefined);
  }

  /** Like send, and waits until the other side has taken the message. */
  async pass(data: Data): Promise<void> {
    if (this.readyState !== WorkerSocket.OPEN) throw new WebSocketError(1006, 'the WebSocket is closed');
    await this.peer.deliver(data);
  }

  close(code = 1000, reason = ''): void {
    if (this.readyState !== WorkerSocket.OPEN) return;
    this.readyState = WorkerSocket.CLOSED;
    this.peer.end({ code, reason });
  }

  private async deliver(data: Data): Promise<void> {
    if (!this.accepted) {
      this.queued += sizeOf(data);
      if (this.queued > QUEUE_MAX) this.peer.close(1009, 'nobody accepts');
      else this.queue.push(data);
      return;
    }
    if (this.sink) await this.sink(data);
    else
      this.dispatchEvent(new MessageEvent('message', { data: typeof data === 'string' ? data : data.slice().buffer }));
  }

  private end(ending: Ending): void {
    if (this.accepted) this.finish(ending);
    else this.ending = ending;
  }

  private finish({ code, reason }: Ending): void {
    this.readyState = WorkerSocket.CLOSED;
    this.dispatchEvent(Object.assign(new Event('close'), { code, reason, wasClean: code !== 1006 }));
  }
}

export function socketPair(): [WorkerSocket, WorkerSocket] {
  const [a, b] = [new WorkerSocket(), new WorkerSocket()];
  a.peer = b;
  b.peer = a;
  return [a, b];
}

/** A response with status 101, which Node's Response does not allow, and its WebSocket. */
export class WebSocketResponse extends Response {
  constructor(
    readonly webSocket: WorkerSocket,
    headers: Record<string, string> = {},
  ) {
    super(null, { headers });
    Object.defineProperties(this, { status: { value: 101 }, ok: { value: false } });
  }
}

export const acceptKey = (key: string) =>
  createHash('sha1')
    .update(key + GUID)
    .digest('base64');

/** Joins an end of a pair with an upgraded connection. `client`: our side is the client, which masks. */
export function join(end: WorkerSocket, connection: Duplex, head: Uint8Array, client: boolean): void {
  new Connection(end, connection, client).run(head);
}

class Connection {
  private readonly reader: MessageReader;
  private over = false;
  private closing: NodeJS.Timeout | undefined;

  constructor(
    private readonly end: WorkerSocket,
    private readonly connection: Duplex,
    private readonly client: boolean,
  ) {
    this.reader = new MessageReader(!client);
  }

  run(head: Uint8Array): void {
    this.connection.on('data', (chunk: Uint8Array) => void this.take(chunk));
    this.connection.on('error', () => this.lost());
    this.connection.on('close', () => this.lost());
    this.connection.on('end', () => this.lost());
    this.end.addEventListener('close', (event) => this.shut(event as unknown as Ending));
    void this.end.drainTo((data) =>
      this.send(typeof data === 'string' ? Op.text : Op.binary, Buffer.from(data as string)),
    );
    if (head.byteLength > 0) void this.take(head);
    this.connection.resume();
  }

  private async send(op: Op, data: Uint8Array): Promise<void> {
    if (this.over || this.connection.destroyed) return;
    if (!this.connection.write(encodeFrame(op, data, this.client))) await drained(this.connection);
  }

  /** Handles received bytes in order: the connection is not read meanwhile. */
  private async take(chunk: Uint8Array): Promise<void> {
    this.connection.pause();
    try {
      for (const message of this.reader.feed(chunk)) await this.message(message);
    } catch (error) {
      if (error instanceof WebSocketError && error.closeCode !== 1006) this.fail(error);
    }
    if (!this.over) this.connection.resume();
  }

  private async message({ op, data }: Message): Promise<void> {
    if (this.over) return;
    if (op === Op.text) await this.end.pass(decodeText(data));
    else if (op === Op.binary) await this.end.pass(data);
    else if (op === Op.ping) await this.send(Op.pong, data);
    else if (op === Op.close) this.closed(data);
  }

  private closed(data: Buffer): void {
    const { code, reason } = parseClose(data);
    if (!this.closing) void this.send(Op.close, data);
    this.done();
    this.end.close(code, reason);
  }

  private fail(error: WebSocketError): void {
    void this.send(Op.close, closePayload(error.closeCode, error.message));
    this.done();
    this.end.close(error.closeCode, error.message);
  }

  /** Our side closes; the peer has CLOSE_MS to answer. */
  private shut({ code, reason }: Ending): void {
    if (this.over || this.closing) return;
    void this.send(Op.close, code === 1005 ? new Uint8Array(0) : closePayload(code === 1006 ? 1011 : code, reason));
    this.closing = setTimeout(() => this.done(), CLOSE_MS).unref();
  }

  private done(): void {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.closing);
    this.connection.end();
    if (this.connection instanceof Socket) this.connection.destroySoon();
    this.connection.resume();
  }

  private lost(): void {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.closing);
    this.connection.destroy();
    this.end.close(1006, 'the connection was lost');
  }
}

/** For Node's `upgrade` event: sends the result of proxyToSandbox(), wsConnect() or terminal(). A response without
 * WebSocket is sent unchanged. */
export async function upgradeWebSocket(
  response: Response,
  request: IncomingMessage,
  connection: Duplex,
  head: Uint8Array,
): Promise<void> {
  const key = request.headers['sec-websocket-key'];
  const fine =
    request.headers.upgrade?.toLowerCase() === 'websocket' &&
    request.headers['sec-websocket-version'] === '13' &&
    typeof key === 'string';
  if (!(response instanceof WebSocketResponse) || !fine) {
    const refused =
      response instanceof WebSocketResponse ? new Response('not a WebSocket request', { status: 400 }) : response;
    const body = Buffer.from(await refused.arrayBuffer());
    connection.end(
      `HTTP/1.1 ${refused.status} ${refused.statusText || 'Refused'}\r\nConnection: close\r\nContent-Type: ${refused.headers.get('content-type') ?? 'text/plain'}\r\nContent-Length: ${body.length}\r\n\r\n${body.toString('latin1')}`,
      'latin1',
    );
    if (response instanceof WebSocketResponse) response.webSocket.close(1002, 'not a WebSocket request');
    return;
  }
  const protocol = response.headers.get('sec-websocket-protocol');
  const lines = [
    'HTTP/1.1 101 Switching Protocols',
    'Upgrade: websocket',
    'Connection: Upgrade',
    `Sec-WebSocket-Accept: ${acceptKey(key)}`,
  ];
  if (protocol) lines.push(`Sec-WebSocket-Protocol: ${protocol}`);
  connection.write(`${lines.join('\r\n')}\r\n\r\n`);
  join(response.webSocket, connection, head, false);
}
