// The stream form of an exec: stdin, stdout and stderr as web streams over one upgraded connection.
import type { Socket } from 'node:net';
import {
  ByteLengthQueuingStrategy,
  CountQueuingStrategy,
  ReadableStream,
  WritableStream,
  type ReadableStreamDefaultController,
} from 'node:stream/web';
import { RindError, connectionError, type ErrorBody } from './errors';
import { Frame, FrameReader, STDIN_PART, frame, type FrameSink } from './frames';
import { HIGH_WATER, bytes, drained } from './streams';
import type { Upgraded } from './transport';

/** How an exec ended. */
export interface ExecExit {
  /** 128 + n for signal n. */
  exitCode: number;
  signal: string | null;
  timedOut: boolean;
  reason: 'timeout' | 'sandboxEnded' | null;
  durationMs: number;
  /** Only for a sandbox's main process. */
  oomKilled?: boolean;
}

type Output = 'stdout' | 'stderr';

/** A running exec. Both outputs share one connection: if one is not read, the other stops, too. So read both, or
 * `cancel()` the unwanted one. `close()` before the end closes the connection, which kills the exec unless it was
 * started with `keep`. */
export class ExecConnection implements FrameSink {
  readonly id: string;
  readonly stdin: WritableStream<Uint8Array | string>;
  readonly stdout: ReadableStream<Uint8Array>;
  readonly stderr: ReadableStream<Uint8Array>;
  /** Rejects if the connection is lost or the exec fails. */
  readonly exit: Promise<ExecExit>;

  private readonly socket: Socket;
  private readonly outputs: Partial<Record<Output, ReadableStreamDefaultController<Uint8Array>>> = {};
  private readonly full = new Set<Output>();
  private settle!: { resolve: (exit: ExecExit) => void; reject: (error: Error) => void };
  private over = false;

  constructor(
    upgraded: Upgraded,
    private readonly where: string,
    private readonly signalFrom?: AbortSignal,
  ) {
    this.id = String(upgraded.headers['rind-exec-id'] ?? upgraded.headers['rind-sandbox-id'] ?? '');
    this.socket = upgraded.socket;
    this.exit = new Promise((resolve, reject) => (this.settle = { resolve, reject }));
    this.exit.catch(() => undefined); // a caller that does not await `exit` must not get an unhandled rejection
    this.stdout = this.readable('stdout');
    this.stderr = this.readable('stderr');
    this.stdin = this.writable();
    this.listen(upgraded.head);
  }

  private listen(head: Buffer): void {
    const reader = new FrameReader(this);
    const feed = (chunk: Buffer) => {
      try {
        reader.feed(chunk);
      } catch (error) {
        this.broken(error);
      }
    };
    this.signalFrom?.addEventListener('abort', this.aborted, { once: true });
    this.socket.on('data', feed);
    this.socket.on('error', (error) => this.broken(error));
    this.socket.on('close', () =>
      this.broken(Object.assign(new Error('it was closed before the exec ended'), { code: 'ECONNRESET' })),
    );
    if (this.signalFrom?.aborted) this.aborted();
    if (head.length > 0) feed(head);
    this.socket.resume();
  }

  private readonly aborted = () =>
    this.finish(
      this.signalFrom!.reason instanceof Error ? this.signalFrom!.reason : new Error(String(this.signalFrom!.reason)),
    );

  private readable(which: Output): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => void (this.outputs[which] = controller),
        pull: () => this.wants(which),
        cancel: () => {
          delete this.outputs[which];
          this.wants(which);
        },
      },
      new ByteLengthQueuingStrategy({ highWaterMark: HIGH_WATER }),
    );
  }

  private wants(which: Output): void {
    this.full.delete(which);
    if (this.full.size === 0) this.socket.resume();
  }

  private writable(): WritableStream<Uint8Array | string> {
    const encoder = new TextEncoder();
    return new WritableStream<Uint8Array | string>(
      {
        write: async (chunk) => {
          const data = typeof chunk === 'string' ? encoder.encode(chunk) : chunk;
          for (let at = 0; at < data.byteLength; at += STDIN_PART)
            await this.send(Frame.stdin, data.subarray(at, at + STDIN_PART));
        },
        close: () => this.send(Frame.stdinEnd),
        abort: () => this.send(Frame.stdinEnd),
      },
      new CountQueuingStrategy({ highWaterMark: 1 }),
    );
  }

  private async send(type: Frame, payload?: Uint8Array): Promise<void> {
    if (this.over || this.socket.destroyed) {
      if (type === Frame.stdin)
        throw connectionError(Object.assign(new Error('the exec has ended'), { code: 'EPIPE' }), this.where, true);
      return;
    }
    if (!this.socket.write(frame(type, payload))) await drained(this.socket);
  }

  /** Sets the size of the terminal. */
  resize(rows: number, cols: number): Promise<void> {
    const payload = Buffer.alloc(4);
    payload.writeUInt16BE(rows, 0);
    payload.writeUInt16BE(cols, 2);
    return this.send(Frame.size, payload);
  }

  /** Signals the process group: `SIGTERM`, `TERM` or `15`. */
  signal(name: string | number): Promise<void> {
    return this.send(Frame.signal, Buffer.from(String(name)));
  }

  /** Closes the connection like `close()`, but what this client owns (`own`) continues. */
  async leave(): Promise<void> {
    await this.send(Frame.leave);
    this.socket.end();
  }

  close(): void {
    this.finish(Object.assign(new Error('closed'), { code: 'ECANCELED' }));
  }

  output(type: Frame.stdout | Frame.stderr, part: Uint8Array): void {
    const which = type === Frame.stdout ? 'stdout' : 'stderr';
    const controller = this.outputs[which];
    if (!controller || part.byteLength === 0) return;
    controller.enqueue(bytes(part));
    if ((controller.desiredSize ?? 0) > 0) return;
    this.full.add(which);
    this.socket.pause();
  }

  control(type: Frame.exit | Frame.error, text: string): void {
    const value = JSON.parse(text) as ExecExit | { error: ErrorBody } | ErrorBody;
    if (type === Frame.exit) this.finish(undefined, value as ExecExit);
    else this.finish(new RindError('error' in value ? value.error : (value as ErrorBody), 500));
  }

  private broken(error: unknown): void {
    this.finish(connectionError(error, this.where, true));
  }

  private finish(error: Error | undefined, exit?: ExecExit): void {
    if (this.over) return;
    this.over = true;
    this.signalFrom?.removeEventListener('abort', this.aborted);
    for (const controller of Object.values(this.outputs)) {
      if (error) controller.error(error);
      else controller.close();
    }
    if (error) this.settle.reject(error);
    else this.settle.resolve(exit!);
    this.socket.destroy();
  }
}
