// What runs in the container: a server that shows what it is asked for. CommonJS, Node's own modules alone.
const http = require('node:http');
const https = require('node:https');
const net = require('node:net');
const dgram = require('node:dgram');
const fs = require('node:fs');
const dns = require('node:dns').promises;
const { createHash } = require('node:crypto');

const CA = '/etc/cloudflare/certs/cloudflare-containers-ca.crt';
const signals = [];
for (const name of ['SIGUSR1', 'SIGUSR2']) process.on(name, () => signals.push(name));
process.on('SIGTERM', () => process.exit(143));

/** A request out of the container. */
function visit(url) {
  return new Promise((resolve) => {
    const secure = url.startsWith('https:');
    const options = { timeout: 8000, agent: false, ...(secure && fs.existsSync(CA) ? { ca: fs.readFileSync(CA) } : {}) };
    const req = (secure ? https : http).get(url, options, (res) => {
      let body = '';
      res.on('data', (d) => (body += d)).on('end', () => resolve({ status: res.statusCode, body }));
    });
    req.on('timeout', () => req.destroy(new Error('timeout')));
    req.on('error', (e) => resolve({ error: e.code ?? e.message }));
  });
}

/** One line to a TCP server and its answer. */
function talk(host, port, line) {
  return new Promise((resolve) => {
    const s = net.connect({ host, port, timeout: 8000 }, () => s.end(line));
    let data = '';
    s.on('data', (d) => (data += d)).on('close', () => resolve({ data }));
    s.on('timeout', () => s.destroy(new Error('timeout')));
    s.on('error', (e) => resolve({ error: e.code ?? e.message }));
  });
}

/** What a TCP server says by itself. */
function hear(host, port) {
  return new Promise((resolve) => {
    const s = net.connect({ host, port, timeout: 8000 });
    s.once('data', (d) => (s.destroy(), resolve({ data: String(d) })));
    s.on('timeout', () => s.destroy(new Error('timeout')));
    s.on('error', (e) => resolve({ error: e.code ?? e.message }));
    s.on('close', () => resolve({ data: '' }));
  });
}

/** A datagram, and how many answers come within the time. */
function datagram(host, port, ms) {
  return new Promise((resolve) => {
    const s = dgram.createSocket('udp4');
    let answers = 0;
    s.on('message', () => answers++).on('error', () => {});
    s.send('x', port, host, () => {});
    setTimeout(() => (s.close(), resolve({ answers })), ms);
  });
}

const routes = {
  '/': () => 'hello from the container',
  '/env': () => JSON.stringify(process.env),
  '/args': () => JSON.stringify(process.argv.slice(2)),
  '/signals': () => JSON.stringify(signals),
  '/proc1': () => fs.readFileSync('/proc/1/status', 'utf8'),
  '/exit': (q) => (setTimeout(() => process.exit(Number(q.get('code'))), 5), 'bye'),
  '/visit': async (q) => JSON.stringify(await visit(q.get('url'))),
  '/talk': async (q) => JSON.stringify(await talk(q.get('host'), Number(q.get('port')), q.get('line'))),
  '/hear': async (q) => JSON.stringify(await hear(q.get('host'), Number(q.get('port')))),
  '/udp': async (q) => JSON.stringify(await datagram(q.get('host'), Number(q.get('port')), 500)),
  '/dns': async (q) =>
    JSON.stringify(await dns.resolve4(q.get('name')).then((a) => ({ a }), (e) => ({ error: e.code }))),
};

const server = http.createServer((req, res) => {
  const url = new URL(req.url, 'http://container');
  if (url.pathname === '/digest') {
    const hash = createHash('sha256');
    let size = 0;
    req.on('data', (d) => (hash.update(d), (size += d.length)));
    req.on('end', () => res.end(JSON.stringify({ size, sha256: hash.digest('hex') })));
  } else if (url.pathname === '/big') {
    const piece = Buffer.alloc(65536, 0x61);
    let left = Number(url.searchParams.get('bytes'));
    const more = () => {
      while (left > 0) {
        const n = Math.min(left, piece.length);
        left -= n;
        if (!res.write(piece.subarray(0, n))) return res.once('drain', more);
      }
      res.end();
    };
    more();
  } else if (routes[url.pathname]) {
    Promise.resolve()
      .then(() => routes[url.pathname](url.searchParams))
      .then((text) => res.end(text), (e) => ((res.statusCode = 500), res.end(String(e))));
  } else {
    res.statusCode = 404;
    res.end('no such path');
  }
});

// WebSockets: each text frame (shorter than 126 bytes) is answered by itself, in capitals.
server.on('upgrade', (req, socket) => {
  const key = createHash('sha1').update(req.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64');
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${key}\r\n\r\n`);
  socket.on('data', (d) => {
    const size = d[1] & 0x7f;
    if ((d[0] & 0x0f) !== 1) return socket.end();
    const text = Buffer.from(d.subarray(6, 6 + size).map((b, i) => b ^ d[2 + (i % 4)])).toString().toUpperCase();
    socket.write(Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)]));
  });
  socket.on('error', () => socket.destroy());
});

server.listen(8080, '0.0.0.0');
net.createServer({ allowHalfOpen: true }, (s) => {
  let data = '';
  s.on('data', (d) => (data += d)).on('end', () => s.end(`you said ${data}`)).on('error', () => s.destroy());
}).listen(9000, '127.0.0.1');
