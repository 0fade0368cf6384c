// A command's output as text: complete, or in parts.
import type { ReadableStream } from 'node:stream/web';
import { CommandTimeoutError, SandboxError, SessionTerminatedError } from './errors';
import type { Command, Running } from './session';
import type { ExecEvent, ExecOptions, ExecResult } from './types';

export const OUTPUT_MAX = 64 << 20; // bytes kept of each output for an exec's result

type Heard = (stream: 'stdout' | 'stderr', text: string) => void;

async function text(
  stream: ReadableStream<Uint8Array>,
  which: 'stdout' | 'stderr',
  heard: Heard | undefined,
): Promise<string> {
  const decoder = new TextDecoder();
  const parts: string[] = [];
  let size = 0;
  const take = (part: string) => {
    if (part === '') return;
    parts.push(part);
    heard?.(which, part);
  };
  for await (const part of stream) {
    size += part.byteLength;
    if (size > OUTPUT_MAX)
      throw new SandboxError({
        code: 'COMMAND_EXECUTION_ERROR',
        message: `${which} is more than ${OUTPUT_MAX} bytes: use execStream, or a file`,
        context: {},
        httpStatus: 413,
      });
    take(decoder.decode(part, { stream: true }));
  }
  take(decoder.decode());
  return parts.join('');
}

/** True if the shell had ended before the command began: the command can be repeated. */
export function notBegun(error: unknown): boolean {
  return error instanceof SessionTerminatedError && !error.begun;
}

/** Runs a command to its end. The error of a time-out contains its output so far. */
export async function execute(
  start: (command: Command) => Promise<Running>,
  command: string,
  options: ExecOptions,
  sessionId: string | undefined,
): Promise<ExecResult> {
  const begun = Date.now();
  const said = { stdout: '', stderr: '' };
  const heard: Heard = (stream, part) => {
    said[stream] += part;
    options.onOutput?.(stream, part);
  };
  const attempt = async () => {
    const running = await start({ command, ...options });
    const outputs = Promise.all([text(running.stdout, 'stdout', heard), text(running.stderr, 'stderr', heard)]);
    outputs.catch(() => running.cancel());
    const { exitCode } = await running.exit.catch(async (error: unknown) => {
      await outputs.catch(() => undefined);
      throw error instanceof CommandTimeoutError ? new CommandTimeoutError({ ...error.context, ...said }) : error;
    });
    return { exitCode, outputs: await outputs };
  };
  try {
    const { exitCode, outputs } = await attempt().catch((error: unknown) =>
      notBegun(error) ? attempt() : Promise.reject(error),
    );
    const [stdout, stderr] = outputs;
    const result: ExecResult = {
      success: exitCode === 0,
      exitCode,
      stdout,
      stderr,
      command,
      duration: Date.now() - begun,
      timestamp: new Date(begun).toISOString(),
    };
    if (sessionId !== undefined) result.sessionId = sessionId;
    options.onComplete?.(result);
    return result;
  } catch (error) {
    if (error instanceof Error) options.onError?.(error);
    throw error;
  }
}

/** The parts of two streams in order of arrival. */
async function* merged(running: Running): AsyncGenerator<{ type: 'stdout' | 'stderr'; data: string }> {
  const sources = (['stdout', 'stderr'] as const).map((type) => ({
    type,
    reader: running[type].getReader(),
    decoder: new TextDecoder(),
  }));
  const next = (s: (typeof sources)[number]) => {
    const part = s.reader.read().then((read) => ({ s, part: read }));
    part.catch(() => undefined); // it may fail while the other stream is awaited
    return part;
  };
  const waiting = new Map(sources.map((s) => [s, next(s)]));
  while (waiting.size > 0) {
    const { s, part } = await Promise.race(waiting.values());
    const data = part.done ? s.decoder.decode() : s.decoder.decode(part.value, { stream: true });
    if (part.done) waiting.delete(s);
    else waiting.set(s, next(s));
    if (data !== '') yield { type: s.type, data };
  }
}

/** A command as events: start, stdout and stderr parts, then complete or error. */
export async function* events(
  running: Running,
  command: string,
  sessionId: string | undefined,
): AsyncGenerator<ExecEvent> {
  const begun = Date.now();
  const stamp = () => ({ timestamp: new Date().toISOString(), ...(sessionId === undefined ? {} : { sessionId }) });
  const said = { stdout: '', stderr: '' };
  yield { type: 'start', command, ...stamp() };
  try {
    for await (const part of merged(running)) {
      if (said[part.type].length < OUTPUT_MAX) said[part.type] += part.data;
      yield { ...part, ...stamp() };
    }
    const { exitCode } = await running.exit;
    const result = {
      success: exitCode === 0,
      exitCode,
      ...said,
      command,
      duration: Date.now() - begun,
      timestamp: new Date(begun).toISOString(),
    };
    yield { type: 'complete', exitCode, result, ...stamp() };
  } catch (error) {
    // A time-out or an abort ends the streams; `exit` has the reason.
    const why = await running.exit.then(
      () => error,
      (e: unknown) => e,
    );
    const message = why instanceof Error ? why.message : String(why);
    yield { type: 'error', error: message, data: message, ...stamp() };
  }
}
