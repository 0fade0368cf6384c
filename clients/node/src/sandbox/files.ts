// The file methods of the 0.x SDK.
import { createHash } from 'node:crypto';
import { posix } from 'node:path';
import type { ReadableStream } from 'node:stream/web';
import type * as api from '../api-types';
import type { WatchEvent } from '../rind';
import { WORKSPACE, type Box } from './box';
import { SandboxError, fileError } from './errors';
import { eventStream, parseSSEStream } from './sse';
import type * as t from './types';

const MIME: Record<string, string> = {
  css: 'text/css', csv: 'text/csv', gif: 'image/gif', gz: 'application/gzip', htm: 'text/html', html: 'text/html', ico: 'image/x-icon',
  jpeg: 'image/jpeg', jpg: 'image/jpeg', js: 'text/javascript', json: 'application/json', md: 'text/markdown', mjs: 'text/javascript',
  mp3: 'audio/mpeg', mp4: 'video/mp4', pdf: 'application/pdf', png: 'image/png', py: 'text/x-python', sh: 'text/x-shellscript',
  svg: 'image/svg+xml', tar: 'application/x-tar', ts: 'text/typescript', txt: 'text/plain', wasm: 'application/wasm', webp: 'image/webp',
  xml: 'application/xml', yaml: 'application/yaml', yml: 'application/yaml', zip: 'application/zip',
}; // prettier-ignore

const SAMPLE = 8192; // bytes examined to distinguish text from binary files
const BASE64_PART = 3 * 16384; // bytes of one chunk event: base64 of whole groups of three
const EXCLUDED = ['.git', 'node_modules', '.DS_Store'];

const now = () => new Date().toISOString();

/** Makes a path absolute; relative ones are below the workspace. */
export function absolute(path: string): string {
  if (typeof path !== 'string' || path === '')
    throw new SandboxError({
      code: 'VALIDATION_FAILED',
      message: 'a path must not be empty',
      context: {},
      httpStatus: 400,
    });
  return path.startsWith('/') ? path : posix.join(WORKSPACE, path);
}

function isText(sample: Uint8Array, whole: boolean): boolean {
  if (sample.includes(0)) return false;
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(sample, { stream: !whole });
    return true;
  } catch {
    return false;
  }
}

function mimeType(path: string, text: boolean): string {
  const extension = posix.extname(path).slice(1).toLowerCase();
  return MIME[extension] ?? (text ? 'text/plain' : 'application/octet-stream');
}

/** Converts octal digits to `rw-r--r--`. */
function modeText(octal: string): string {
  const bits = Number.parseInt(octal, 8);
  return Array.from('rwxrwxrwx', (letter, i) => (bits & (1 << (8 - i)) ? letter : '-')).join('');
}

function fileInfo(base: string, entry: api.FileEntry): t.FileInfo {
  const bits = Number.parseInt(entry.mode ?? '0', 8);
  return {
    name: posix.basename(entry.name),
    absolutePath: posix.join(base, entry.name),
    relativePath: entry.name,
    type: entry.type === 'file' || entry.type === 'directory' || entry.type === 'symlink' ? entry.type : 'other',
    size: entry.size ?? 0,
    modifiedAt: new Date(entry.mtimeMs ?? 0).toISOString(),
    mode: modeText(entry.mode ?? '0'),
    permissions: { readable: (bits & 0o400) !== 0, writable: (bits & 0o200) !== 0, executable: (bits & 0o100) !== 0 },
  };
}

/** Converts a glob to an expression: `*` within a name, `**` across, `?`. Without a slash it matches any part of a path. */
function glob(pattern: string): RegExp {
  const body = pattern
    .replace(/[.+^${}()|[\]\\]/g, '\\$&')
    .replace(/\*\*\/?|\*|\?/g, (m) => (m.startsWith('**') ? '.*' : m === '*' ? '[^/]*' : '[^/]'));
  return new RegExp(pattern.includes('/') ? `^${body}(/|$)` : `(^|/)${body}(/|$)`);
}

function wanted(options: t.WatchOptions): (path: string) => boolean {
  const include = options.include?.map(glob);
  const exclude = (options.exclude ?? EXCLUDED).map(glob);
  return (path) => (include ? include.some((g) => g.test(path)) : !exclude.some((g) => g.test(path)));
}

const WATCH_TYPES: Partial<Record<WatchEvent['type'], t.FileWatchEventType>> = {
  create: 'create',
  modify: 'modify',
  delete: 'delete',
  movedFrom: 'move_from',
  movedTo: 'move_to',
  attributes: 'attrib',
};

export class Files {
  constructor(private readonly box: Box) {}

  private async op<T>(operation: string, path: string, what: (id: string) => Promise<T>): Promise<T> {
    try {
      return await this.box.use(what);
    } catch (error) {
      throw fileError(error, operation, path);
    }
  }

  async writeFile(
    path: string,
    content: string | ReadableStream<Uint8Array>,
    options: { encoding?: string } = {},
  ): Promise<t.WriteFileResult> {
    const at = absolute(path);
    const { encoding = 'utf-8' } = options;
    let body: Uint8Array | ReadableStream<Uint8Array>;
    if (typeof content !== 'string') body = content;
    else if (encoding === 'base64') body = fromBase64(content);
    else if (encoding === 'utf-8' || encoding === 'utf8') body = Buffer.from(content);
    else
      throw new SandboxError({
        code: 'VALIDATION_FAILED',
        message: `encoding ${JSON.stringify(encoding)}: utf-8 or base64`,
        context: {},
        httpStatus: 400,
      });
    // A stream can be sent only once, so the sandbox must exist first.
    await this.box.ensure();
    await this.op('file.write', path, (id) => this.box.rind.writeFile(id, at, body));
    return {
      success: true,
      path,
      timestamp: now(),
      ...(body instanceof Uint8Array ? { bytesWritten: body.byteLength } : {}),
    };
  }

  readFile(path: string, options: { encoding: 'none' }): Promise<t.ReadFileStreamResult>;
  readFile(path: string, options?: { encoding?: Exclude<t.FileEncoding, 'none'> }): Promise<t.ReadFileResult>;
  async readFile(
    path: string,
    options: { encoding?: t.FileEncoding } = {},
  ): Promise<t.ReadFileStreamResult | t.ReadFileResult> {
    const at = absolute(path);
    const file = await this.op('file.read', path, (id) => this.box.rind.readFile(id, at));
    if (options.encoding === 'none')
      return {
        success: true,
        path,
        content: file.body,
        size: file.size ?? 0,
        mimeType: mimeType(at, false),
        timestamp: now(),
      };
    const bytes = await this.op('file.read', path, () => file.bytes());
    const text = isText(bytes, true);
    const base64 = options.encoding === 'base64' || (options.encoding === undefined && !text);
    return {
      success: true,
      path,
      content: Buffer.from(bytes).toString(base64 ? 'base64' : 'utf8'),
      encoding: base64 ? 'base64' : 'utf-8',
      isBinary: !text,
      mimeType: mimeType(at, text),
      size: bytes.byteLength,
      timestamp: now(),
    };
  }

  /** Server-sent events: metadata, chunks, complete. For streamFile() and collectFile(). */
  async readFileStream(path: string): Promise<ReadableStream<Uint8Array>> {
    const at = absolute(path);
    const file = await this.op('file.read', path, (id) => this.box.rind.readFile(id, at));
    return eventStream(fileEvents(at, file.body, file.size ?? 0), () => void file.body.cancel().catch(() => undefined));
  }

  async mkdir(path: string, options: { recursive?: boolean } = {}): Promise<t.MkdirResult> {
    const recursive = options.recursive ?? false;
    await this.op('directory.create', path, (id) => this.box.rind.makeDirectory(id, absolute(path), { recursive }));
    return { success: true, path, recursive, timestamp: now() };
  }

  async deleteFile(path: string): Promise<t.DeleteFileResult> {
    await this.op('file.delete', path, (id) => this.box.rind.removeFile(id, absolute(path)));
    return { success: true, path, timestamp: now() };
  }

  async renameFile(path: string, newPath: string): Promise<t.RenameFileResult> {
    await this.op('file.rename', path, (id) => this.box.rind.renameFile(id, absolute(path), absolute(newPath)));
    return { success: true, path, newPath, timestamp: now() };
  }

  async moveFile(path: string, newPath: string): Promise<t.MoveFileResult> {
    await this.op('file.move', path, (id) => this.box.rind.moveFile(id, absolute(path), absolute(newPath)));
    return { success: true, path, newPath, timestamp: now() };
  }

  async exists(path: string): Promise<t.FileExistsResult> {
    const exists = await this.op('file.stat', path, (id) => this.box.rind.fileExists(id, absolute(path)));
    return { success: true, path, exists, timestamp: now() };
  }

  async listFiles(path: string, options: t.ListFilesOptions = {}): Promise<t.ListFilesResult> {
    const base = absolute(path);
    const { recursive = false, includeHidden = false } = options;
    const list = await this.op('directory.list', path, (id) =>
      this.box.rind.listFiles(id, base, { recursive, hidden: includeHidden }),
    );
    if (list.truncated)
      throw new SandboxError({
        code: 'FILE_TOO_LARGE',
        message: `${path} has more entries than are listed at once`,
        context: { path },
        httpStatus: 413,
      });
    const files = list.entries.map((entry) => fileInfo(base, entry));
    return { success: true, path, files, count: files.length, timestamp: now() };
  }

  /** Resolves when the watch stands. Server-sent events: watching, event, error, stopped. */
  async watch(path: string, options: t.WatchOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const at = absolute(path);
    const abort = new AbortController();
    const source = await this.op('file.watch', path, (id) =>
      this.box.rind.watchFiles(id, at, { recursive: options.recursive ?? true, signal: abort.signal }),
    );
    const reader = source.getReader();
    await this.op('file.watch', path, () => reader.read());
    return eventStream(watchEvents(at, reader, wanted(options)), () => abort.abort());
  }

  /** Tells whether anything has changed since the version of an earlier result. */
  async checkChanges(path: string, options: t.CheckChangesOptions = {}): Promise<t.CheckChangesResult> {
    const at = absolute(path);
    const { recursive = true } = options;
    const keep = wanted(options);
    const [run, list] = await this.op(
      'file.stat',
      path,
      async (id) =>
        [
          (await this.box.rind.inspectSandbox(id)).startedAt,
          await this.box.rind.listFiles(id, at, { recursive, hidden: true }),
        ] as const,
    );
    const facts = list.entries
      .filter((e) => keep(e.name))
      .map((e) => [e.nameEncoded ?? e.name, e.type, e.size, e.mode, e.mtimeMs, e.ctimeMs, e.inode].join('\0'));
    const digest = createHash('sha256').update(facts.sort().join('\n')).digest('hex');
    const version = `${Buffer.from(run ?? '').toString('base64url')}.${digest.slice(0, 32)}`;
    const same = { success: true as const, version, timestamp: now() };
    if (options.since === undefined || options.since === version) return { ...same, status: 'unchanged' };
    if (options.since.split('.')[0] !== version.split('.')[0])
      return { ...same, status: 'resync', reason: 'restarted' };
    return { ...same, status: 'changed' };
  }
}

function fromBase64(content: string): Uint8Array {
  const plain = content.replace(/\s/g, '');
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(plain) || plain.length % 4 === 1)
    throw new SandboxError({
      code: 'VALIDATION_FAILED',
      message: 'content is no base64',
      context: {},
      httpStatus: 400,
    });
  return Buffer.from(plain, 'base64');
}

async function* watchEvents(
  at: string,
  reader: { read(): Promise<{ done: boolean; value?: WatchEvent | undefined }> },
  keep: (path: string) => boolean,
): AsyncGenerator<t.FileWatchSSEEvent> {
  yield {
    type: 'watching',
    path: at,
    watchId: createHash('sha256').update(`${at}${Date.now()}`).digest('hex').slice(0, 16),
  };
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || value === undefined || value.type === 'gone') {
        yield { type: 'stopped', reason: value?.type === 'gone' ? 'what was watched is gone' : 'the watch has ended' };
        return;
      }
      if (value.type === 'overflow') yield { type: 'error', error: 'events were lost: look at all of it again' };
      const eventType = WATCH_TYPES[value.type];
      if (eventType && keep(value.name))
        yield {
          type: 'event',
          eventType,
          path: posix.join(at, value.name),
          isDirectory: value.directory,
          timestamp: now(),
        };
    }
  } catch (error) {
    yield { type: 'error', error: (error as Error).message };
  }
}

async function* fileEvents(
  path: string,
  body: ReadableStream<Uint8Array>,
  size: number,
): AsyncGenerator<t.FileStreamEvent> {
  let held = Buffer.alloc(0);
  let binary: boolean | undefined;
  const decoder = new TextDecoder();
  let bytesRead = 0;
  const metadata = (whole: boolean): t.FileStreamEvent => {
    binary = !isText(held.subarray(0, SAMPLE), whole && held.length <= SAMPLE);
    return {
      type: 'metadata',
      mimeType: mimeType(path, !binary),
      size,
      isBinary: binary,
      encoding: binary ? 'base64' : 'utf-8',
    };
  };
  try {
    for await (const part of body) {
      bytesRead += part.byteLength;
      held = Buffer.concat([held, part]);
      if (binary === undefined) {
        if (held.length < SAMPLE) continue;
        yield metadata(false);
      }
      while (held.length >= BASE64_PART) {
        const chunk = held.subarray(0, BASE64_PART);
        held = held.subarray(BASE64_PART);
        yield { type: 'chunk', data: binary ? chunk.toString('base64') : decoder.decode(chunk, { stream: true }) };
      }
    }
    if (binary === undefined) yield metadata(true);
    const last = binary ? held.toString('base64') : decoder.decode(held);
    if (last !== '') yield { type: 'chunk', data: last };
    yield { type: 'complete', bytesRead };
  } catch (error) {
    yield { type: 'error', error: (error as Error).message };
  }
}

/** The chunks of readFileStream(): text, or bytes of a binary file. Returns the file's metadata. */
export async function* streamFile(stream: ReadableStream<Uint8Array>): AsyncGenerator<t.FileChunk, t.FileMetadata> {
  let metadata: t.FileMetadata | undefined;
  for await (const event of parseSSEStream<t.FileStreamEvent>(stream)) {
    if (event.type === 'metadata')
      metadata = { mimeType: event.mimeType, size: event.size, isBinary: event.isBinary, encoding: event.encoding };
    else if (event.type === 'chunk')
      yield metadata?.isBinary ? new Uint8Array(Buffer.from(event.data, 'base64')) : event.data;
    else if (event.type === 'error') throw new Error(`File streaming error: ${event.error}`);
    else if (metadata) return metadata;
  }
  throw new Error('Stream ended unexpectedly');
}

export async function collectFile(
  stream: ReadableStream<Uint8Array>,
): Promise<{ content: string | Uint8Array; metadata: t.FileMetadata }> {
  const chunks: t.FileChunk[] = [];
  const source = streamFile(stream);
  for (;;) {
    const { done, value } = await source.next();
    if (!done) {
      chunks.push(value);
      continue;
    }
    const content = value.isBinary ? new Uint8Array(Buffer.concat(chunks as Uint8Array[])) : chunks.join('');
    return { content, metadata: value };
  }
}
