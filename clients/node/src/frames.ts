// The frames of an exec's stream form: type, three zero bytes, length (32 bits, big-endian), payload.

export enum Frame {
  stdin = 0,
  stdout = 1,
  stderr = 2,
  exit = 3,
  error = 4,
  stdinEnd = 5,
  size = 6,
  signal = 7,
  leave = 8,
}

const HEADER = 8;
const CONTROL_MAX = 1 << 20; // bytes of an exit or error frame
export const STDIN_PART = 1 << 20; // bytes of one stdin frame

export function frame(type: Frame, payload: Uint8Array = new Uint8Array(0)): Buffer {
  const whole = Buffer.allocUnsafe(HEADER + payload.byteLength);
  whole.writeUInt32BE(type << 24, 0);
  whole.writeUInt32BE(payload.byteLength, 4);
  whole.set(payload, HEADER);
  return whole;
}

export interface FrameSink {
  /** A part of stdout or stderr. Frames are passed on in parts, so that large ones are not buffered. */
  output(type: Frame.stdout | Frame.stderr, part: Uint8Array): void;
  /** The whole payload of an exit or error frame. */
  control(type: Frame.exit | Frame.error, text: string): void;
}

/** Parses frames from a connection's bytes. Throws on an invalid frame; then the connection must be closed. */
export class FrameReader {
  private header = Buffer.alloc(HEADER);
  private have = 0;
  private type = 0;
  private left = 0;
  private control: Buffer[] = [];

  constructor(private readonly sink: FrameSink) {}

  feed(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.have < HEADER) {
        const n = chunk.copy(this.header, this.have, at, Math.min(chunk.length, at + HEADER - this.have));
        at += n;
        this.have += n;
        if (this.have === HEADER) this.begin();
        continue;
      }
      const part = chunk.subarray(at, at + this.left);
      at += part.length;
      this.left -= part.length;
      this.take(part);
    }
  }

  private begin(): void {
    this.type = this.header[0]!;
    this.left = this.header.readUInt32BE(4);
    const output = this.type === Frame.stdout || this.type === Frame.stderr;
    if (this.header.readUInt32BE(0) !== this.type << 24 || this.type < Frame.stdout || this.type > Frame.error)
      throw new Error(`no frame: ${this.header.toString('hex')}`);
    if (!output && this.left > CONTROL_MAX) throw new Error(`a control frame of ${this.left} bytes`);
    if (this.left === 0) this.end();
  }

  private take(part: Buffer): void {
    if (this.type === Frame.stdout || this.type === Frame.stderr) this.sink.output(this.type, part);
    else this.control.push(part);
    if (this.left === 0) this.end();
  }

  private end(): void {
    this.have = 0;
    if (this.type !== Frame.exit && this.type !== Frame.error) return;
    const text = Buffer.concat(this.control).toString('utf8');
    this.control = [];
    this.sink.control(this.type, text);
  }
}
