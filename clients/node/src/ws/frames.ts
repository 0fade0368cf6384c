// WebSocket frames (RFC 6455): parses a peer's frames and encodes our own. All input is validated: lengths, masks, reserved
// bits, the order of fragments, UTF-8.
import { randomBytes } from 'node:crypto';

export const MESSAGE_MAX = 16 << 20; // bytes of a message

export enum Op {
  continuation = 0,
  text = 1,
  binary = 2,
  close = 8,
  ping = 9,
  pong = 10,
}

/** A protocol violation, with the code for closing the connection. */
export class WebSocketError extends Error {
  override readonly name = 'WebSocketError';
  constructor(
    readonly closeCode: number,
    message: string,
  ) {
    super(message);
  }
}

/** Encodes a whole frame. Clients mask theirs. */
export function encodeFrame(op: Op, payload: Uint8Array, masked: boolean): Buffer {
  const n = payload.byteLength;
  const extra = n < 126 ? 0 : n < 65536 ? 2 : 8;
  const head = 2 + extra + (masked ? 4 : 0);
  const frame = Buffer.allocUnsafe(head + n);
  frame[0] = 0x80 | op;
  frame[1] = (masked ? 0x80 : 0) | (extra === 0 ? n : extra === 2 ? 126 : 127);
  if (extra === 2) frame.writeUInt16BE(n, 2);
  if (extra === 8) frame.writeBigUInt64BE(BigInt(n), 2);
  frame.set(payload, head);
  if (masked) {
    randomBytes(4).copy(frame, head - 4);
    mask(frame.subarray(head), frame.subarray(head - 4, head));
  }
  return frame;
}

function mask(data: Buffer, key: Uint8Array): void {
  for (let i = 0; i < data.length; i++) data[i]! ^= key[i & 3]!;
}

export interface Message {
  op: Op.text | Op.binary | Op.close | Op.ping | Op.pong;
  data: Buffer;
}

export class MessageReader {
  private buffer = Buffer.alloc(0);
  private parts: Buffer[] = [];
  private size = 0;
  private kind: Op.text | Op.binary | undefined;

  /** `masked`: the peer must mask, as clients do. */
  constructor(private readonly masked: boolean) {}

  /** Returns the completed messages. */
  feed(chunk: Uint8Array): Message[] {
    this.buffer = this.buffer.length === 0 ? Buffer.from(chunk) : Buffer.concat([this.buffer, chunk]);
    const found: Message[] = [];
    for (let message; (message = this.next()) !== undefined;) if (message) found.push(message);
    return found;
  }

  /** The next message; null after a frame that completes none; undefined if more bytes are needed. */
  private next(): Message | null | undefined {
    const b = this.buffer;
    if (b.length < 2) return undefined;
    const short = b[1]! & 0x7f;
    const extra = short === 126 ? 2 : short === 127 ? 8 : 0;
    if ((b[0]! & 0x70) !== 0) throw new WebSocketError(1002, 'a reserved bit is set');
    if (((b[1]! & 0x80) !== 0) !== this.masked)
      throw new WebSocketError(1002, this.masked ? 'a frame without a mask' : 'a masked frame');
    if (b.length < 2 + extra) return undefined;
    const length = extra === 0 ? short : extra === 2 ? b.readUInt16BE(2) : Number(b.readBigUInt64BE(2));
    if (length + this.size > MESSAGE_MAX) throw new WebSocketError(1009, `a message of more than ${MESSAGE_MAX} bytes`);
    const head = 2 + extra + (this.masked ? 4 : 0);
    if (b.length < head + length) return undefined;
    const data = Buffer.from(b.subarray(head, head + length));
    if (this.masked) mask(data, b.subarray(head - 4, head));
    this.buffer = b.subarray(head + length);
    return this.frame(b[0]! & 0x0f, (b[0]! & 0x80) !== 0, data);
  }

  private frame(op: number, final: boolean, data: Buffer): Message | null {
    if (op >= Op.close) {
      if (op > Op.pong) throw new WebSocketError(1002, `no such frame: ${op}`);
      if (!final || data.length > 125)
        throw new WebSocketError(1002, 'a control frame in parts, or of more than 125 bytes');
      return { op: op as Message['op'], data };
    }
    if (op > Op.binary) throw new WebSocketError(1002, `no such frame: ${op}`);
    if ((op === Op.continuation) !== (this.kind !== undefined))
      throw new WebSocketError(1002, 'fragments out of order');
    this.kind ??= op as Op.text | Op.binary;
    this.parts.push(data);
    this.size += data.length;
    if (!final) return null;
    const message = { op: this.kind, data: this.parts.length === 1 ? data : Buffer.concat(this.parts) };
    this.parts = [];
    this.size = 0;
    this.kind = undefined;
    return message;
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

export function decodeText(data: Uint8Array): string {
  try {
    return utf8.decode(data);
  } catch {
    throw new WebSocketError(1007, 'text that is no UTF-8');
  }
}

/** Encodes the payload of a close frame. */
export function closePayload(code: number, reason: string): Uint8Array {
  const text = Buffer.from(reason).subarray(0, 123);
  const payload = Buffer.alloc(2 + text.length);
  payload.writeUInt16BE(code, 0);
  payload.set(text, 2);
  return payload;
}

/** Code and reason of a close frame; 1005 for an empty one. */
export function parseClose(data: Buffer): { code: number; reason: string } {
  if (data.length === 0) return { code: 1005, reason: '' };
  const code = data.length >= 2 ? data.readUInt16BE(0) : 0;
  const valid = (code >= 1000 && code <= 1014 && ![1004, 1005, 1006].includes(code)) || (code >= 3000 && code <= 4999);
  if (!valid) throw new WebSocketError(1002, 'a close frame with a code that may not be sent');
  return { code, reason: decodeText(data.subarray(2)) };
}
