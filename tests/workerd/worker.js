// The worker under test: each method of Box is one scenario, asked for by its name; what it returns or throws is the answer.
import { DurableObject, WorkerEntrypoint } from 'cloudflare:workers';

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const text = (buffer) => new TextDecoder().decode(buffer);

/** What outbound requests of the container come to. */
export class Interceptor extends WorkerEntrypoint {
  async fetch(request) {
    return new Response(`intercepted ${this.ctx.props.name} ${request.method} ${request.url}`);
  }
  async connect(socket) {
    const writer = socket.writable.getWriter();
    await writer.write(new TextEncoder().encode(`tcp ${this.ctx.props.name}`));
    await writer.close();
  }
}

export class Box extends DurableObject {
  get c() {
    return this.ctx.container;
  }

  async fetch(request) {
    const url = new URL(request.url);
    try {
      const args = request.method === 'POST' ? await request.json() : {};
      return Response.json({ ok: (await this[url.pathname.slice(1)](args)) ?? null });
    } catch (e) {
      return Response.json({ error: String(e?.message ?? e), name: e?.name, exitCode: e?.exitCode });
    }
  }

  visitor(name) {
    return this.ctx.exports.Interceptor({ props: { name } });
  }

  async get(path, init) {
    return this.c.getTcpPort(8080).fetch(`http://container${path}`, init);
  }
  async json(path) {
    return (await this.get(path)).json();
  }
  /** Until the server in the container answers. */
  async ready(pause = 25) {
    for (let i = 0; ; i++) {
      try {
        const r = await this.get('/');
        if (r.ok) return r.text();
      } catch (e) {
        if (i * pause > 10_000) throw e;
      }
      await sleep(pause);
    }
  }
  async up(options) {
    if (!this.c.running) this.c.start(options);
    return this.ready();
  }
  /** For the bench: how long it takes until the first answer of a server that starts at once. */
  async startFast() {
    const began = performance.now();
    this.c.start({ entrypoint: ['busybox', 'httpd', '-f', '-p', '8080', '-h', '/app'] });
    await this.ready(2);
    return performance.now() - began;
  }
  async run(cmd, options) {
    const p = await this.c.exec(cmd, options);
    const r = await p.output();
    return { stdout: text(r.stdout), stderr: text(r.stderr), exitCode: r.exitCode };
  }
  async down() {
    if (!this.c.running) return;
    await this.c.destroy();
    for (let i = 0; this.c.running && i < 400; i++) await sleep(10);
  }

  // ---- life
  async start(options) {
    const before = this.c.running;
    const hello = await this.up(options);
    return { before, hello, running: this.c.running };
  }
  async running() {
    return this.c.running;
  }
  async twice() {
    await this.up();
    this.c.start();
  }
  async environment() {
    return this.json('/env');
  }
  async args() {
    return this.json('/args');
  }
  async proc1() {
    return (await this.get('/proc1')).text();
  }
  async monitorExit({ code }) {
    await this.up();
    const end = this.c.monitor();
    await (await this.get(`/exit?code=${code}`)).text();
    await end;
    return { running: this.c.running };
  }
  async monitorDestroy({ reason }) {
    await this.up();
    const end = this.c.monitor();
    await this.c.destroy(reason ? new Error(reason) : undefined);
    await end;
  }
  async monitorMissing(options) {
    this.c.start(options);
    await this.c.monitor();
  }
  async signal({ signo }) {
    await this.up();
    this.c.signal(signo);
    for (let i = 0; i < 200; i++) {
      const seen = await this.json('/signals');
      if (seen.length > 0) return seen;
      await sleep(20);
    }
    return [];
  }
  async loop({ times }) {
    const took = [];
    for (let i = 0; i < times; i++) {
      const began = Date.now();
      await this.up();
      took.push(Date.now() - began);
      await this.down();
    }
    return took;
  }
  async destroy() {
    await this.down();
    return this.c.running;
  }
  async inactivity({ ms }) {
    await this.up();
    await this.c.setInactivityTimeout(ms);
    return this.c.running;
  }
  async inspect(options) {
    if (options.labels) await this.up(options);
    return this.c.inspect();
  }
  async setLabels({ labels }) {
    await this.up();
    await this.c.setLabels(labels);
    return this.c.inspect();
  }

  // ---- exec
  async exec({ cmd, options }) {
    await this.up();
    return this.run(cmd, options);
  }
  async execStdin({ input }) {
    await this.up();
    const p = await this.c.exec(['sh', '-c', 'cat; exit 4'], { stdin: 'pipe' });
    const writer = p.stdin.getWriter();
    await writer.write(new TextEncoder().encode(input));
    await writer.close();
    const r = await p.output();
    return { stdout: text(r.stdout), exitCode: r.exitCode };
  }
  /** Without a stdin, and with one that is a stream. */
  async execStreams({ pieces }) {
    await this.up();
    const none = await this.run(['cat']);
    const bytes = pieces.map((piece) => new TextEncoder().encode(piece));
    const stdin = new ReadableStream({ pull: (c) => (bytes.length ? c.enqueue(bytes.shift()) : c.close()), type: 'bytes' });
    return { none, stream: await this.run(['cat'], { stdin }) };
  }
  async execIgnored() {
    await this.up();
    const p = await this.c.exec(['sh', '-c', 'head -c 1000000 /dev/zero; echo err >&2; exit 6'], { stdout: 'ignore', stderr: 'ignore' });
    return { stdout: p.stdout ?? null, stderr: p.stderr ?? null, exitCode: await p.exitCode };
  }
  /** Nobody reads one's output for a while: it waits, others do not, and nothing of it is lost. */
  async execUnread({ bytes, pause }) {
    await this.up();
    const p = await this.c.exec(['sh', '-c', `head -c ${bytes} /dev/zero; echo over > /tmp/over`]);
    await sleep(pause);
    const meanwhile = await this.run(['sh', '-c', 'cat /tmp/over 2>/dev/null; echo other']);
    let size = 0;
    for await (const piece of p.stdout) size += piece.byteLength;
    return { meanwhile: meanwhile.stdout, size, exitCode: await p.exitCode };
  }
  async execDestroyed() {
    await this.up();
    const p = await this.c.exec(['sleep', '1000']);
    const output = p.output();
    await this.c.destroy();
    return Promise.race([output.then((r) => `exit code ${r.exitCode}`, (e) => `error ${e.message}`), sleep(20_000).then(() => 'nothing')]);
  }
  async execAborted() {
    await this.up();
    return this.run(['true'], { signal: AbortSignal.abort(new Error('not any more')) });
  }
  async execCombined() {
    await this.up();
    const p = await this.c.exec(['sh', '-c', 'echo a; sleep 0.2; echo b >&2; sleep 0.2; echo c'], { stderr: 'combined' });
    return { stderr: (p.stderr ?? null) === null, stdout: text((await p.output()).stdout) };
  }
  async execBig({ bytes }) {
    await this.up();
    const p = await this.c.exec(['head', '-c', String(bytes), '/dev/zero']);
    const began = Date.now();
    let size = 0;
    for await (const piece of p.stdout) size += piece.byteLength;
    return { size, exitCode: await p.exitCode, ms: Date.now() - began };
  }
  async execPid() {
    await this.up();
    const p = await this.c.exec(['sleep', '100']);
    const pid = p.pid;
    p.kill(9);
    return { pid, exitCode: await p.exitCode };
  }
  async execKill({ signo }) {
    await this.up();
    const p = await this.c.exec(['sleep', '100']);
    p.kill(signo);
    return p.exitCode;
  }
  async execAbort() {
    await this.up();
    const controller = new AbortController();
    const p = await this.c.exec(['sleep', '100'], { signal: controller.signal });
    setTimeout(() => controller.abort(), 50);
    return p.exitCode;
  }
  async pty({ size, resize }) {
    await this.up();
    const resized = resize ? 'until [ "$(stty size)" != "$first" ]; do sleep 0.02; done; stty size; ' : '';
    const p = await this.c.exec(['sh', '-c', `first=$(stty size); echo $first; ${resized}read x; echo got $x`], { pty: size ?? true });
    const writer = p.stdin.getWriter();
    let seen = '';
    const reading = (async () => {
      for await (const piece of p.stdout) seen += text(piece);
    })();
    for (let i = 0; !/\d+ \d+/.test(seen) && i < 300; i++) await sleep(20);
    if (resize) p.resize(resize.cols, resize.rows);
    await writer.write(new TextEncoder().encode('word\n'));
    const exitCode = await p.exitCode;
    await reading;
    return { isPty: p.isPty, seen, exitCode };
  }
  /** A terminal without a stdin, which workerd half-closes at once: what comes later is seen. */
  async ptyLater() {
    await this.up();
    const p = await this.c.exec(['sh', '-c', 'sleep 0.3; [ -t 0 ] && echo later $TERM'], { pty: true, stdin: new ReadableStream({ start: (c) => c.close() }) });
    const r = await p.output();
    return { stdout: text(r.stdout), exitCode: r.exitCode };
  }
  async execMany({ count }) {
    await this.up();
    const all = await Promise.all(Array.from({ length: count }, (_, i) => this.run(['echo', String(i)])));
    return all.map((r) => r.stdout.trim());
  }
  async execTimes({ count }) {
    await this.up();
    const took = [];
    for (let i = 0; i < count; i++) {
      const began = performance.now();
      await this.run(['true']);
      took.push(performance.now() - began);
    }
    return took;
  }

  // ---- ports
  async digest({ bytes }) {
    await this.up();
    const body = new Uint8Array(bytes).fill(0x61);
    return (await this.get('/digest', { method: 'POST', body })).json();
  }
  async download({ bytes }) {
    await this.up();
    let size = 0;
    for await (const piece of (await this.get(`/big?bytes=${bytes}`)).body) size += piece.byteLength;
    return size;
  }
  async webSocket({ words }) {
    await this.up();
    const r = await this.get('/ws', { headers: { Upgrade: 'websocket' } });
    const ws = r.webSocket;
    ws.accept();
    const answers = [];
    for (const word of words) {
      const answer = new Promise((resolve) => ws.addEventListener('message', (e) => resolve(e.data), { once: true }));
      ws.send(word);
      answers.push(await answer);
    }
    ws.close();
    return answers;
  }
  async connect({ port, line }) {
    await this.up();
    const socket = this.c.getTcpPort(port).connect(`container:${port}`);
    const writer = socket.writable.getWriter();
    await writer.write(new TextEncoder().encode(line));
    await writer.close();
    let data = '';
    for await (const piece of socket.readable) data += text(piece);
    return data;
  }
  async closedPort({ port }) {
    await this.up();
    const began = Date.now();
    try {
      await this.c.getTcpPort(port).fetch('http://container/');
      return { answered: true };
    } catch (e) {
      return { message: e.message, ms: Date.now() - began };
    }
  }

  // ---- outbound
  async interceptHttp({ host, url, before }) {
    if (before) {
      await this.c.interceptOutboundHttp(host, this.visitor('http'));
      await this.up({ enableInternet: false });
    } else {
      await this.up({ enableInternet: false });
      await this.c.interceptOutboundHttp(host, this.visitor('http'));
    }
    return this.json(`/visit?url=${encodeURIComponent(url)}`);
  }
  async interceptAll({ url }) {
    await this.c.interceptAllOutboundHttp(this.visitor('all'));
    await this.up({ enableInternet: false });
    return this.json(`/visit?url=${encodeURIComponent(url)}`);
  }
  async interceptHttps({ host, url, before }) {
    if (before) {
      await this.c.interceptOutboundHttps(host, this.visitor('https'));
      await this.up({ enableInternet: false });
    } else {
      await this.up({ enableInternet: false });
      await this.c.interceptOutboundHttps(host, this.visitor('https'));
    }
    return this.json(`/visit?url=${encodeURIComponent(url)}`);
  }
  async interceptTcp({ address, host, port, before }) {
    if (!before) await this.up({ enableInternet: false });
    await this.c.interceptOutboundTcp(address, this.visitor('tcp'));
    await this.up({ enableInternet: false });
    return this.json(`/talk?host=${host}&port=${port}&line=x`);
  }
  async replaceHandler({ host, url }) {
    await this.c.interceptOutboundHttp(host, this.visitor('first'));
    await this.up({ enableInternet: false });
    const first = await this.json(`/visit?url=${encodeURIComponent(url)}`);
    await this.c.interceptOutboundHttp(host, this.visitor('second'));
    return [first, await this.json(`/visit?url=${encodeURIComponent(url)}`)];
  }
  /** Addresses with handlers of their own, in this order, and what each URL comes to. */
  async interceptSeveral({ addresses, urls, internet }) {
    for (const address of addresses) await this.c.interceptOutboundHttp(address, this.visitor(address));
    await this.up({ enableInternet: internet ?? false });
    const all = [];
    for (const url of urls) all.push((await this.json(`/visit?url=${encodeURIComponent(url)}`)).body ?? null);
    return all;
  }
  async visit({ url, internet }) {
    await this.up({ enableInternet: internet });
    return this.json(`/visit?url=${encodeURIComponent(url)}`);
  }
  async talk({ host, port, internet }) {
    await this.up({ enableInternet: internet });
    return this.json(`/talk?host=${host}&port=${port}&line=x`);
  }
  async hear({ host, port }) {
    await this.up({ enableInternet: true });
    return this.json(`/hear?host=${host}&port=${port}`);
  }
  async udp({ host, port }) {
    await this.up({ enableInternet: false });
    return this.json(`/udp?host=${host}&port=${port}`);
  }
  async dns({ name, internet }) {
    await this.up({ enableInternet: internet });
    return this.json(`/dns?name=${name}`);
  }

  // ---- snapshots
  async snapshotDirectory({ dir, text: words }) {
    await this.up();
    await this.run(['sh', '-c', `mkdir -p ${dir}/deep && echo ${words} > ${dir}/deep/file && ln -s deep ${dir}/link`]);
    return this.c.snapshotDirectory({ dir, name: 'of a test' });
  }
  async restoreDirectory({ snapshot, mountPoint }) {
    await this.up({ directorySnapshots: [{ snapshot, ...(mountPoint ? { mountPoint } : {}) }] });
    const at = mountPoint ?? snapshot.dir;
    const r = await this.run(['sh', '-c', `cat ${at}/link/file; echo more > ${at}/deep/more; ls ${at}/deep`]);
    return r;
  }
  async restoreSeveral({ snapshots }) {
    await this.up({ directorySnapshots: snapshots });
    const places = snapshots.map((s) => s.mountPoint ?? s.snapshot.dir);
    return this.run(['sh', '-c', `for d in ${places.join(' ')}; do cat $d/deep/file; done`]);
  }
  async snapshotContainer({ text: words }) {
    await this.up();
    await this.run(['sh', '-c', `echo ${words} > /data/snapped`]);
    return this.c.snapshotContainer({ name: 'of a test' });
  }
  async restoreContainer({ snapshot }) {
    await this.up({ containerSnapshot: { id: snapshot.id } });
    return this.run(['cat', '/data/snapped']);
  }
}

export class Plain extends Box {}

export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    const [, cls, id, scenario] = url.pathname.split('/');
    const ns = env[cls];
    return ns.get(ns.idFromName(id)).fetch(`http://box/${scenario}`, {
      method: 'POST',
      body: request.method === 'POST' ? await request.text() : '{}',
    });
  },
};
