// Ports: preview URLs and their tokens, HTTP and WebSockets to servers in the sandbox, through the client.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { SandboxError, SandboxNamespace, proxyToSandbox } from '../../clients/node/dist/index.mjs';
import { daemon, digest, until } from './harness.mjs';

const d = await daemon();
const rind = d.client();
const Sandbox = new SandboxNamespace({ rind });
const env = { Sandbox };
const box = Sandbox.get('web');

const refused = (promise, code) =>
  assert.rejects(
    promise,
    (e) => e instanceof SandboxError && (e.code === code || assert.fail(`${e.code}: ${e.message}`)),
  );

/** A request as it would come in at a preview URL. */
const visit = (url, init) => proxyToSandbox(new Request(url, init), env);

test('a server in the sandbox is visited by its preview URL', async () => {
  const www = '/workspace/www';
  await box.mkdir(`${www}/cgi-bin`, { recursive: true });
  await box.writeFile(`${www}/index.html`, 'page of the sandbox');
  await rind.writeFile(
    'web',
    `${www}/cgi-bin/echo`,
    '#!/bin/sh\nprintf "Content-Type: text/x\\r\\n\\r\\n%s %s " "$REQUEST_METHOD" "$QUERY_STRING"; cat\n',
    { mode: '755' },
  );
  await rind.writeFile('web', `${www}/big`, randomBytes(20 << 20));
  const server = await box.startProcess(`httpd -f -p 127.0.0.1:8080 -h ${www}`);
  await server.waitForPort(8080, { path: '/index.html', timeout: 20_000, interval: 20 });

  const { url, port, name } = await box.exposePort(8080, { hostname: 'localhost:8787', name: 'site' });
  assert.deepEqual([port, name], [8080, 'site']);
  assert.match(url, /^http:\/\/8080-web-[a-z0-9_]{16}\.localhost:8787\/$/);
  const page = await visit(url);
  assert.deepEqual([page.status, await page.text()], [200, 'page of the sandbox']);
  assert.equal((await visit(`${url}none`)).status, 404);
  const head = await visit(url, { method: 'HEAD' });
  assert.deepEqual([head.status, head.body], [200, null]);
  const posted = await visit(`${url}cgi-bin/echo?a=b%20c`, {
    method: 'POST',
    body: 'x'.repeat(100_000),
    headers: { 'content-length': '100000' },
  });
  assert.equal(await posted.text(), `POST a=b%20c ${'x'.repeat(100_000)}`);
  assert.equal(posted.headers.get('content-type'), 'text/x');
  const big = await visit(`${url}big`);
  assert.equal(await digest(big.body), await digest((await rind.readFile('web', `${www}/big`)).body));
  assert.equal(await box.containerFetch('http://any/index.html', 8080).then((r) => r.text()), 'page of the sandbox');
  assert.equal((await box.containerFetch('http://any/', {}, 9999)).status, 502, 'where nobody listens');
  assert.equal(await (await box.fetch(new Request('http://any/index.html'))).text(), 'page of the sandbox');
  const named = { headers: { 'cf-container-target-port': '9999' } };
  assert.equal((await box.fetch(new Request('http://any/index.html', named))).status, 502);
  assert.equal((await box.fetch(new Request('http://any/proxy/9999/x'))).status, 502);
  assert.equal(await visit('http://example.com/'), null);
  assert.equal(await visit('http://www-web-token.localhost/'), null);
});

test('tokens: wrong, missing, revoked, of one’s own, used again', async () => {
  const { url } = await box.exposePort(8080, { hostname: 'example.com', token: 'mine_1' });
  assert.equal(url, 'https://8080-web-mine_1.example.com/');
  assert.equal((await visit(url)).status, 200);
  assert.deepEqual(await box.exposePort(8080, { hostname: 'example.com', token: 'mine_1' }), {
    url,
    port: 8080,
    name: 'site',
  });
  for (const wrong of [
    'https://8080-web-mine_2.example.com/',
    'https://8081-web-mine_1.example.com/',
    'https://8080-other-mine_1.example.com/',
  ]) {
    const response = await visit(wrong);
    assert.deepEqual([response.status, (await response.json()).code], [404, 'INVALID_TOKEN'], wrong);
  }
  assert.deepEqual(
    [
      await box.validatePortToken(8080, 'mine_1'),
      await box.validatePortToken(8080, 'x'),
      await box.validatePortToken(8081, 'mine_1'),
    ],
    [true, false, false],
  );
  await refused(box.exposePort(8081, { hostname: 'example.com', token: 'mine_1' }), 'PORT_ALREADY_EXPOSED');
  for (const token of ['', 'UPPER', 'a-b', 'x'.repeat(17)])
    await refused(box.exposePort(8080, { hostname: 'example.com', token }), 'VALIDATION_FAILED');
  for (const port of [80, 1023, 65536, 1.5, Number.NaN])
    await refused(box.exposePort(port, { hostname: 'example.com' }), 'INVALID_PORT_NUMBER');
  await refused(box.exposePort(8080, { hostname: 'x.workers.dev' }), 'CUSTOM_DOMAIN_REQUIRED');
  await refused(Sandbox.get('UPPER').exposePort(8080, { hostname: 'example.com' }), 'VALIDATION_FAILED');

  await box.exposePort(8081, { hostname: 'example.com', token: 'second' });
  assert.deepEqual(
    (await box.getExposedPorts('h.test')).map((e) => e.url),
    ['https://8080-web-mine_1.h.test/', 'https://8081-web-second.h.test/'],
  );
  assert.equal(await box.isPortExposed(8081), true);
  await box.unexposePort(8081);
  await box.unexposePort(8081);
  assert.equal(await box.isPortExposed(8081), false);
  await box.unexposePort(8080);
  assert.equal((await visit(url)).status, 404);
});

// A WebSocket server of a shell: it shakes hands, says `hi`, keeps the 8 bytes of one small frame, and says close (1000, `bye`).
const SHELL_SERVER = `#!/bin/sh
while read -r line; do line=\${line%?}; [ "$line" ] || break; case $line in [Ss]ec-[Ww]eb[Ss]ocket-[Kk]ey:*) key=\${line#*: } ;; esac; done
hex=$(printf '%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11' "$key" | sha1sum | cut -c1-40 | sed 's/../\\\\x&/g')
printf 'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: %s\\r\\n\\r\\n' "$(printf "$hex" | base64)"
printf '\\201\\002hi'
dd bs=1 count=8 of=/tmp/frame 2>/dev/null
printf '\\210\\005\\003\\350bye'
sleep 1
`;

test('a WebSocket to a server in the sandbox', async () => {
  await rind.writeFile(await box.rindId(), '/tmp/ws', SHELL_SERVER, { mode: '755' });
  await box.startProcess('exec nc -ll -p 9000 -e /tmp/ws');
  const ask = () => box.wsConnect(new Request('http://any/path?q', { headers: { upgrade: 'websocket' } }), 9000);
  const response = await until(async () => {
    const r = await ask().catch(() => undefined);
    return r?.status === 101 && r;
  }, 'its answer');
  const { webSocket } = response;
  const events = [];
  webSocket.addEventListener('message', (e) => {
    events.push(e.data);
    webSocket.send('yo');
  });
  webSocket.addEventListener('close', (e) => events.push([e.code, e.reason]));
  webSocket.accept();
  await until(() => events.length === 2, 'a message and the end');
  assert.deepEqual(events, ['hi', [1000, 'bye']]);
  const frame = Buffer.from((await box.readFile('/tmp/frame', { encoding: 'base64' })).content, 'base64');
  const said = [frame[6] ^ frame[2], frame[7] ^ frame[3]];
  assert.deepEqual([frame[0], frame[1], String.fromCharCode(...said)], [0x81, 0x82, 'yo'], 'masked, as a client must');
  await assert.rejects(box.wsConnect(new Request('http://any/'), 9000), /requires a WebSocket upgrade request/);
});

test('preview URLs end with their sandbox, and outlive client and daemon', async () => {
  const s = Sandbox.get('short');
  const { url } = await s.exposePort(8080, { hostname: 'example.com', token: 'abc' });
  await d.kill();
  await d.start();
  const again = { Sandbox: new SandboxNamespace({ rind: d.client() }) };
  assert.equal((await proxyToSandbox(new Request(url), again)).status, 502, 'the token counts; nobody listens');
  await s.destroy();
  assert.equal((await visit(url)).status, 404);
  await s.exec('true');
  assert.equal((await visit(url)).status, 404, 'nor is it the new one’s');
  assert.deepEqual(await s.getExposedPorts('example.com'), []);
});
