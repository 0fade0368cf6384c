// miniflare driven directly, as tools beside wrangler do, in a process of the Node.js that it needs. usage: miniflare.mjs PACKAGE SOCKET IMAGE
// Prints what the container answers as JSON, waits for the end of stdin, and ends miniflare.
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [, , packageDir, socket, image] = process.argv;
const { Miniflare } = await import(pathToFileURL(join(packageDir, 'dist/src/index.js')));
const SCRIPT = `import { DurableObject } from 'cloudflare:workers';
class Base extends DurableObject {
  async fetch(request) {
    const c = this.ctx.container;
    if (!c.running) c.start({ enableInternet: false, env: { CLASS: this.constructor.name } });
    for (let i = 0; ; i++) {
      try {
        return await c.getTcpPort(8080).fetch('http://c/env');
      } catch (e) {
        if (i > 400) throw e;
        await new Promise((r) => setTimeout(r, 25));
      }
    }
  }
}
export class One extends Base {}
export class Two extends Base {}
export default {
  async fetch(request, env) {
    const of = async (ns) => (await (await ns.get(ns.idFromName('x')).fetch(request)).json()).CLASS;
    return Response.json([await of(env.One), await of(env.Two)]);
  },
};`;
const CLASSES = ['One', 'Two'];
const each = (fn) => Object.fromEntries(CLASSES.map((name) => [name, fn(name)]));
const containerEngine = { localDocker: { socketPath: `unix:${socket}` } };
const compatibilityDate = '2026-04-01';
const container = { imageName: image };

/** Options as miniflare 4 takes them. */
const flat = {
  modules: true,
  script: SCRIPT,
  compatibilityDate,
  durableObjects: each((className) => ({ className, useSQLite: true, container })),
  containerEngine,
  cf: false,
};
/** And as miniflare 5. */
const nested = {
  containerEngine,
  cf: false,
  workers: [
    {
      config: {
        name: 'main',
        compatibilityDate,
        manifest: { mainModule: 'index.mjs', modules: { 'index.mjs': { type: 'esm', contents: SCRIPT } } },
        exports: each(() => ({ type: 'durable-object', storage: 'sqlite', container })),
        env: each((exportName) => ({ type: 'durable-object', worker: 'main', exportName })),
      },
    },
  ],
};

const { version } = JSON.parse(await readFile(join(packageDir, 'package.json'), 'utf8'));
const mf = new Miniflare(version.startsWith('4.') ? flat : nested);
try {
  const r = await mf.dispatchFetch('http://x/');
  console.log(JSON.stringify({ status: r.status, text: await r.text() }));
  process.stdin.resume();
  await once(process.stdin, 'end');
} finally {
  await mf.dispose();
}
