// One engine's calls as a Node.js program makes them. usage: drive.mjs rind|docker SOCKET ROOT ROUNDS MIB
// Prints {"samples": {NAME: [µs, …]}}.
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { Rind } from '../../../clients/node/dist/index.mjs';

const [kind, socket, root, roundsText, mibText] = process.argv.slice(2);
const rounds = Number(roundsText);
const bytes = Number(mibText) << 20;
const PORT = 18474;
const WARM = 3;
const READY_MS = 20_000;
const small = Buffer.alloc(1024, 'x');
const large = Buffer.alloc(bytes, 'x');
const out = ['/bin/payload', 'out', String(bytes)];

/** Both servers are reached as their clients would reach them: rind's by the daemon, Docker's on the host's own network. */
const server = ['/bin/payload', 'serve-http', String(PORT), '127.0.0.1'];

async function lengthOf(body) {
  let length = 0;
  for await (const part of body) length += part.length;
  return length;
}

async function rindCalls() {
  const rind = new Rind({ socket });
  const { id } = await rind.createSandbox({ rootfs: root, command: server, start: true });
  const path = '/tmp/file';
  return {
    'exec true': async () => assert.equal((await rind.exec(id, { argv: ['/bin/true'] })).exitCode, 0),
    'exec, output': async () => {
      const exec = await rind.execStream(id, { argv: out });
      assert.equal(await lengthOf(exec.stdout), bytes);
      assert.equal((await exec.exit).exitCode, 0);
    },
    'write 1 KiB': () => rind.writeFile(id, path, small),
    'read 1 KiB': async () => assert.equal((await (await rind.readFile(id, path)).bytes()).length, small.length),
    'write a file': () => rind.writeFile(id, '/tmp/large', large),
    'read a file': async () => assert.equal(await lengthOf((await rind.readFile(id, '/tmp/large')).body), bytes),
    fetch: async () => {
      const { status, body } = await rind.fetchPort(id, PORT, { method: 'GET', path: '/pid' });
      assert.equal(status, 200);
      assert.ok((await lengthOf(body)) > 0);
    },
    'fetch, a body': async () =>
      assert.equal(
        await lengthOf((await rind.fetchPort(id, PORT, { method: 'GET', path: `/bytes/${bytes}` })).body),
        bytes,
      ),
    end: async () => {
      await rind.deleteSandbox(id, { force: true });
      rind.close();
    },
  };
}

/** A tar archive of one file, which is how Docker's API takes files. */
function archive(name, data) {
  const header = Buffer.alloc(512);
  header.write(name);
  header.write('0000644\0', 100);
  header.write('0000000\0'.repeat(2), 108);
  header.write(`${data.length.toString(8).padStart(11, '0')}\0`, 124);
  header.write('00000000000\0        0', 136);
  header.write('ustar\x0000', 257);
  header.write(
    `${header
      .reduce((sum, byte) => sum + byte, 0)
      .toString(8)
      .padStart(6, '0')}\0 `,
    148,
  );
  return Buffer.concat([header, data, Buffer.alloc(((512 - (data.length % 512)) % 512) + 1024)]);
}

async function dockerCalls() {
  const { default: Docker } = await import('dockerode'); // not there when only rind is measured
  const docker = new Docker({ socketPath: socket });
  const HostConfig = { NetworkMode: 'host', SecurityOpt: ['apparmor=unconfined'] };
  const box = await docker.createContainer({ Image: root, Cmd: server, HostConfig });
  await box.start();
  const run = async (argv) => {
    const exec = await box.exec({ Cmd: argv, AttachStdout: true, AttachStderr: true });
    const stream = await exec.start({});
    const stdout = new PassThrough();
    const stderr = new PassThrough();
    docker.modem.demuxStream(stream, stdout, stderr);
    stream.once('end', () => stdout.end());
    stderr.resume();
    const length = await lengthOf(stdout);
    assert.equal((await exec.inspect()).ExitCode, 0);
    return length;
  };
  const put = (name, data) => box.putArchive(archive(name, data), { path: '/tmp' });
  const get = async (name, length) =>
    assert.ok((await lengthOf(await box.getArchive({ path: `/tmp/${name}` }))) > length);
  const fetched = async (path) => lengthOf((await fetch(`http://127.0.0.1:${PORT}${path}`)).body);
  return {
    'exec true': () => run(['/bin/true']),
    'exec, output': async () => assert.equal(await run(out), bytes),
    'write 1 KiB': () => put('file', small),
    'read 1 KiB': () => get('file', small.length),
    'write a file': () => put('large', large),
    'read a file': () => get('large', large.length),
    fetch: async () => assert.ok((await fetched('/pid')) > 0),
    'fetch, a body': async () => assert.equal(await fetched(`/bytes/${bytes}`), bytes),
    end: () => box.remove({ force: true }),
  };
}

/** Until the server answers. */
async function ready(call) {
  const deadline = Date.now() + READY_MS;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

const { end, ...calls } = await (kind === 'rind' ? rindCalls() : dockerCalls());
const samples = {};
try {
  await ready(calls.fetch);
  for (const [name, call] of Object.entries(calls)) {
    // Of what moves many bytes, one a round: it takes as long as all the others together.
    const bulk = /,|a file/.test(name);
    for (let i = 0; i < (bulk ? 1 : WARM); i++) await call();
    samples[name] = [];
    for (let i = 0; i < (bulk ? Math.ceil(rounds / 10) : rounds); i++) {
      const start = process.hrtime.bigint();
      await call();
      samples[name].push(Number(process.hrtime.bigint() - start) / 1e3);
    }
  }
} finally {
  await end();
}
console.log(JSON.stringify({ samples }));
