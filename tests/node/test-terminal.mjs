// terminal(): a shell on a terminal, over a WebSocket; and the WebSockets themselves against another implementation.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { after, test } from 'node:test';
import { SandboxNamespace, upgradeWebSocket } from '../../clients/node/dist/index.mjs';
import { daemon, until } from './harness.mjs';

const d = await daemon();
const box = new SandboxNamespace({ rind: d.client() }).get('tty');
const http = createServer((_, res) => res.end());
const sockets = new Set();

http.on('upgrade', (req, socket, head) => {
  sockets.add(socket.on('close', () => sockets.delete(socket)));
  const request = new Request(`http://${req.headers.host}${req.url}`, { headers: Object.entries(req.headers) });
  box
    .terminal(request, { cols: 100, rows: 30, shell: '/bin/sh' })
    .catch((error) => new Response(error.message, { status: 500 }))
    .then((response) => upgradeWebSocket(response, req, socket, head));
});
await new Promise((resolve) => http.listen(0, '127.0.0.1', resolve));
after(() => {
  http.close();
  for (const socket of sockets) socket.destroy();
});

/** A WebSocket client by hand, so that it may also send what no library would. */
class Client {
  static async open(extra = '') {
    const client = new Client();
    client.socket = connect(http.address().port, '127.0.0.1');
    client.buffer = Buffer.alloc(0);
    client.messages = [];
    client.socket.on('data', (chunk) => client.take(chunk)).on('error', () => undefined);
    client.ended = new Promise((resolve) => client.socket.on('close', resolve));
    client.socket.write(
      `GET /x HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n${extra}\r\n`,
    );
    await until(() => client.head, 'an answer');
    return client;
  }

  take(chunk) {
    this.buffer = Buffer.concat([this.buffer, chunk]);
    if (!this.head) {
      const end = this.buffer.indexOf('\r\n\r\n');
      if (end < 0) return;
      this.head = this.buffer.subarray(0, end).toString();
      this.buffer = this.buffer.subarray(end + 4);
    }
    for (;;) {
      const b = this.buffer;
      if (b.length < 2) return;
      const short = b[1] & 127;
      const extra = short === 126 ? 2 : short === 127 ? 8 : 0;
      const length = extra === 0 ? short : extra === 2 ? b.readUInt16BE(2) : Number(b.readBigUInt64BE(2));
      if (b.length < 2 + extra + length) return;
      this.messages.push([b[0] & 15, Buffer.from(b.subarray(2 + extra, 2 + extra + length))]);
      this.buffer = b.subarray(2 + extra + length);
    }
  }

  send(first, data) {
    const payload = Buffer.from(data);
    const key = randomBytes(4);
    const head =
      payload.length < 126
        ? Buffer.from([first, 128 | payload.length])
        : Buffer.from([first, 254, payload.length >> 8, payload.length & 255]);
    this.socket.write(Buffer.concat([head, key, payload.map((byte, i) => byte ^ key[i & 3])]));
  }

  type = (text) => this.send(0x82, text);
  control = (value) => this.send(0x81, JSON.stringify(value));
  get screen() {
    return Buffer.concat(this.messages.filter(([op]) => op === 2).map(([, data]) => data)).toString();
  }
  get texts() {
    return this.messages.filter(([op]) => op === 1).map(([, data]) => JSON.parse(data));
  }
  get closed() {
    return this.messages.find(([op]) => op === 8)?.[1];
  }
}

test('a terminal: handshake, size, keys, resize, end', async () => {
  const client = await Client.open();
  assert.match(client.head, /^HTTP\/1\.1 101 .*Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=/s);
  await until(() => client.texts.length > 0, 'the first message');
  assert.deepEqual(client.texts, [{ type: 'ready' }]);
  client.type('stty size; tty; pwd; echo $TERM\r');
  await until(
    () => /30 100\r\n\/dev\/pts\/\d+\r\n\/workspace\r\nxterm-256color/.test(client.screen),
    'size and terminal',
  );
  client.control({ type: 'resize', cols: 132, rows: 50 });
  client.type('stty size\r');
  await until(() => client.screen.includes('50 132'), 'the new size');
  client.type('grün=ü; echo "<$grün>"\r'.replaceAll('grün', 'g'));
  await until(() => client.screen.includes('<ü>'), 'what was typed');
  client.control({ type: 'nonsense' });
  client.send(0x81, 'no json');
  client.send(0x89, 'ping');
  await until(
    () => client.messages.some(([op, data]) => op === 10 && data.toString() === 'ping'),
    'the answer to a ping',
  );
  client.type('exit 7\r');
  await until(() => client.closed, 'the end');
  assert.deepEqual(client.texts.at(-1), { type: 'exit', code: 7 });
  assert.equal(client.closed.readUInt16BE(0), 1000);
});

test('a full-screen program, and what is pasted in parts', async () => {
  const client = await Client.open();
  client.type('vi /workspace/typed\r');
  await until(() => client.screen.includes('typed'), 'vi');
  client.type('i');
  client.send(0x02, 'frag');
  client.send(0x00, 'men');
  client.send(0x80, 'ted');
  await until(() => client.screen.includes('fragmented'), 'the text');
  client.type('\x1b');
  await until(() => /- .*typed \[Modified\]/.test(client.screen), 'command mode');
  client.type(':wq\r');
  await until(async () => (await box.exists('/workspace/typed')).exists, 'the file');
  assert.equal((await box.readFile('/workspace/typed')).content, 'fragmented\n');
  client.socket.destroy();
});

test('a client that goes takes its shell with it', async () => {
  const shells = async () =>
    (await d.clients[0].exec(await box.rindId(), { cmd: 'ps -o args' })).stdout
      .split('\n')
      .filter((l) => l.trim() === '/bin/sh -i').length;
  await until(async () => (await shells()) === 0, 'no shell of an earlier client');
  const gone = await Client.open();
  await until(async () => (await shells()) === 1, 'its shell');
  gone.socket.destroy();
  await until(async () => (await shells()) === 0, 'its end');
});

test('what breaks the protocol is closed with its code', async () => {
  const key = Buffer.alloc(4);
  const masked = (first, second, ...rest) =>
    Buffer.concat([Buffer.from([first, 128 | second]), key, Buffer.from(rest)]);
  const rows = [
    ['a frame without a mask', Buffer.from([0x82, 1, 97]), 1002],
    ['a reserved bit', masked(0xc2, 1, 97), 1002],
    ['an opcode that there is not', masked(0x83, 1, 97), 1002],
    ['a fragment without a beginning', masked(0x80, 1, 97), 1002],
    ['a ping in parts', masked(0x09, 1, 97), 1002],
    ['text that is no UTF-8', masked(0x81, 1, 0xff), 1007],
    ['a close code that may not be sent', masked(0x88, 2, 3, 237), 1002],
    ['a message that is too big', Buffer.concat([Buffer.from([0x82, 255, 0, 0, 0, 1, 0, 0, 0, 0]), key]), 1009],
  ];
  for (const [what, sent, code] of rows) {
    const client = await Client.open();
    client.socket.write(sent);
    await until(() => client.closed, what);
    assert.equal(client.closed.readUInt16BE(0), code, what);
    await client.ended;
  }
});

test('what is no WebSocket request is refused', async () => {
  await assert.rejects(box.terminal(new Request('http://x/')), /requires a WebSocket upgrade request/);
  const old = await Client.open('Sec-WebSocket-Version: 8\r\n');
  assert.match(old.head, /^HTTP\/1\.1 400 /);
});
