// What workerd sees of rind and of the distribution's dockerd, interleaved in one run: the same worker, the same image. Prints medians
// and writes build/bench-workerd.json. usage: node tests/bench/workerd.mjs [ROUNDS]; dockerd comes by scripts/deps docker.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Engine, IMAGE, ROOT, Workerd, until } from '../workerd/harness.mjs';

const ROUNDS = Number(process.argv[2] ?? 10);
const DOCKER = process.env.RIND_BENCH_DOCKER ?? join(ROOT, 'build/bench/docker');
const BRIDGE = `rindb${process.pid % 100000}`;
const SIDECAR = 'rind-test/sidecar:1';

/** A dockerd of our own: its own bridge, no firewall rules, everything below one directory. */
class Dockerd extends Engine {
  constructor() {
    super();
    this.socket = join(this.dir, 'docker.sock');
    this.procs = [];
  }

  run(command, args, name) {
    const log = openSync(join(this.dir, name), 'a');
    const env = { ...process.env, PATH: `${DOCKER}/usr/sbin:${DOCKER}/usr/bin:${process.env.PATH}` };
    const p = spawn(command, args, { stdio: ['ignore', log, log], env });
    this.procs.push(p);
    return p;
  }

  async start() {
    const grpc = join(this.dir, 'c.sock');
    writeFileSync(
      join(this.dir, 'containerd.toml'),
      `version = 2\nroot = "${this.dir}/c-root"\nstate = "${this.dir}/c-state"\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "${grpc}"\n`,
    );
    writeFileSync(join(this.dir, 'daemon.json'), '{}');
    execFileSync('ip', ['link', 'add', BRIDGE, 'type', 'bridge']);
    execFileSync('ip', ['addr', 'add', '172.31.251.1/24', 'dev', BRIDGE]);
    execFileSync('ip', ['link', 'set', BRIDGE, 'up']);
    const c = this.run('unshare', ['--mount', '--propagation', 'private', 'sh', '-c', 'mount -t tmpfs bench /run && exec "$0" --config "$1"',
      join(DOCKER, 'usr/bin/containerd'), join(this.dir, 'containerd.toml')], 'containerd.log');
    await until(() => existsSync(grpc), 'containerd listens');
    this.run('nsenter', ['--mount', '--target', String(c.pid), join(DOCKER, 'usr/sbin/dockerd'), '--config-file', join(this.dir, 'daemon.json'),
      '--containerd', grpc, '--host', `unix://${this.socket}`, '--data-root', join(this.dir, 'data'), '--exec-root', join(this.dir, 'exec'),
      '--pidfile', join(this.dir, 'pid'), `--bridge=${BRIDGE}`, '--iptables=false', '--ip6tables=false', '--ip-forward=false', '--ip-masq=false',
      '--group=root', '--log-level=error'], 'serve.log');
    await until(() => this.request('GET', '/_ping').then((r) => r.status === 200, () => false), 'dockerd answers', 60_000);
    return this;
  }

  /** The app's image with the stand-in for an entry point. */
  async makeSidecar() {
    const box = (await this.request('POST', '/containers/create', { Image: IMAGE })).json.Id;
    const r = await this.request('POST', `/commit?container=${box}&repo=rind-test/sidecar&tag=1&changes=${encodeURIComponent('ENTRYPOINT ["node","/app/sidecar.js"]')}`);
    assert.equal(r.status, 201, r.text);
    await this.request('DELETE', `/containers/${box}?force=true`);
  }

  async stop() {
    for (const c of await this.containers()) await this.request('DELETE', `/containers/${c.Id}?force=true`);
    for (const p of this.procs.reverse()) {
      p.kill('SIGTERM');
      await until(() => p.exitCode !== null || p.signalCode !== null, 'dockerd ends', 30_000);
    }
    execFileSync('ip', ['link', 'del', BRIDGE]);
    rmSync(this.dir, { recursive: true, force: true });
  }
}

const median = (list) => list.sort((a, b) => a - b)[Math.floor(list.length / 2)];
const timed = async (fn) => {
  const began = performance.now();
  await fn();
  return performance.now() - began;
};

const sides = [{ name: 'rind', engine: new Engine() }, { name: 'docker', engine: new Dockerd(), sidecar: SIDECAR }];
const samples = {};
const note = (side, what, ms) => ((samples[what] ??= {})[side.name] ??= []).push(ms);

try {
  for (const side of sides) {
    await side.engine.start();
    await side.engine.loadImage();
    if (side.sidecar) await side.engine.makeSidecar();
    side.workerd = await new Workerd(side.engine, { sidecar: side.sidecar }).start();
    await side.workerd.ok('first', 'startFast'); // files are in the page cache for both
    await side.workerd.ok('first', 'destroy');
  }
  for (let i = 0; i < ROUNDS; i++)
    for (const side of i % 2 ? sides : [...sides].reverse()) {
      const id = `round${i}`;
      note(side, 'start, cold, to the first fetch', await timed(() => side.workerd.ok(id, 'startFast')));
      for (const ms of await side.workerd.ok(id, 'execTimes', { count: 10 })) note(side, 'exec of true', ms);
      note(side, '64 MiB through exec', (await side.workerd.ok(id, 'execBig', { bytes: 64 << 20 })).ms);
      note(side, 'destroy and start, to the first fetch', await timed(async () => {
        await side.workerd.ok(id, 'destroy');
        await side.workerd.ok(id, 'startFast');
      }));
      await side.workerd.ok(id, 'destroy');
      note(side, 'start, warm, to the first fetch', await timed(() => side.workerd.ok(id, 'startFast')));
      note(side, 'destroy', await timed(() => side.workerd.ok(id, 'destroy')));
    }
} finally {
  for (const side of sides) {
    await side.workerd?.stop();
    await side.engine.stop();
  }
}
const table = Object.entries(samples).map(([what, by]) => ({ what, rind: median(by.rind), docker: median(by.docker) }));
for (const row of table)
  console.log(`${row.what.padEnd(40)} rind ${row.rind.toFixed(1).padStart(8)} ms   docker ${row.docker.toFixed(1).padStart(8)} ms   ${(row.docker / row.rind).toFixed(1)} x`);
writeFileSync(join(ROOT, 'build/bench-workerd.json'), JSON.stringify(table, null, 2));
