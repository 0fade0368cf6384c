// A dockerd of our own, the distribution's, beside which nothing of the host changes: for the comparison of the suite
// (RIND_TEST_DOCKER_SOCKET=scratch) and of the bench. It comes by scripts/deps docker.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Engine, IMAGE, ROOT, STAND_IN, until } from './harness.mjs';

const DOCKER = process.env.RIND_BENCH_DOCKER ?? join(ROOT, 'build/bench/docker');
const BRIDGE = `rindb${process.pid % 100000}`;

/** Its own bridge, no firewall rules, everything below one directory. */
export class Dockerd extends Engine {
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

  /** The app's image with the stand-in for an entry point: its ingress, and nothing of the way out. */
  async makeSidecar() {
    const box = (await this.request('POST', '/containers/create', { Image: IMAGE })).json.Id;
    const [repo, tag] = STAND_IN.split(':');
    const r = await this.request('POST', `/commit?container=${box}&repo=${repo}&tag=${tag}&changes=${encodeURIComponent('ENTRYPOINT ["node","/app/sidecar.js"]')}`);
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
