// What workerd sees of rind and of the distribution's dockerd, interleaved in one run: the same worker, the same image. Prints medians
// and minima, and writes build/bench-workerd.json. usage: node tests/bench/workerd.mjs [ROUNDS]; dockerd comes by scripts/deps docker.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Dockerd } from '../workerd/dockerd.mjs';
import { Engine, ROOT, STAND_IN, Workerd } from '../workerd/harness.mjs';

const ROUNDS = Number(process.argv[2] ?? 10);

const median = (list) => list.sort((a, b) => a - b)[Math.floor(list.length / 2)];
const timed = async (fn) => {
  const began = performance.now();
  await fn();
  return performance.now() - began;
};

const sides = [{ name: 'rind', engine: new Engine() }, { name: 'docker', engine: new Dockerd(), sidecar: STAND_IN }];
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
const both = (list) => ({ median: median(list), minimum: Math.min(...list) });
const table = Object.entries(samples).map(([what, by]) => ({ what, rind: both(by.rind), docker: both(by.docker) }));
const show = (value) => `${value.median.toFixed(1).padStart(8)} ${value.minimum.toFixed(1).padStart(8)} ms`;
console.log('medians and minima, and how many times the medians are');
for (const row of table)
  console.log(`${row.what.padEnd(40)} rind ${show(row.rind)}   docker ${show(row.docker)}   ${(row.docker.median / row.rind.median).toFixed(1)} x`);
writeFileSync(join(ROOT, 'build/bench-workerd.json'), JSON.stringify(table, null, 2));
