// Stands for workerd's sidecar on a real dockerd, as far as the bench needs it: the ingress alone (docs/workerd.md). rind has its own.
const net = require('node:net');

const PEM = '-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n'; // never used: nothing is intercepted
const answer = (s, text, body = '') =>
  s.end(`HTTP/1.1 ${text}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`);

net
  .createServer({ allowHalfOpen: true }, (s) => {
    let head = Buffer.alloc(0);
    const onData = (d) => {
      head = Buffer.concat([head, d]);
      const end = head.indexOf('\r\n\r\n');
      if (end < 0) return;
      const text = head.subarray(0, end).toString();
      const rest = head.subarray(end + 4);
      if (text.startsWith('CONNECT')) {
        s.off('data', onData);
        s.pause();
        const [, host, port] = /x-dst-addr: *([^:\r]+):(\d+)/i.exec(text);
        const to = net.connect({ host, port: Number(port), allowHalfOpen: true }, () => {
          s.write('HTTP/1.1 200 OK\r\n\r\n');
          if (rest.length > 0) to.write(rest);
          s.pipe(to);
          to.pipe(s);
        });
        to.on('error', () => answer(s, '400 Bad Request'));
      } else if (text.startsWith('GET /ca')) {
        answer(s, '200 OK', PEM);
      } else if (/content-length: *(\d+)/i.test(text) ? rest.length >= Number(/content-length: *(\d+)/i.exec(text)[1]) : rest.includes('0\r\n\r\n')) {
        answer(s, '204 No Content');
      }
    };
    s.on('data', onData).on('error', () => s.destroy());
  })
  .listen(39001, '0.0.0.0');
