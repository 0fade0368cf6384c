// The server of an image in the style of cloudflare/sandbox, for Bun and for Node.js.
import { execFileSync } from 'node:child_process';
import { Hono } from 'hono';

const app = new Hono();
app.get('/health', (c) => c.text('ok'));
app.get('/run', (c) =>
  c.json({
    runtime: globalThis.Bun ? 'bun' : 'node',
    git: execFileSync('git', ['--version'], { encoding: 'utf8' }),
    py: execFileSync('python3', ['-c', 'print(6 * 7)'], { encoding: 'utf8' }),
    cwd: process.cwd(),
    uid: process.getuid(),
    env: process.env.MODE,
  }),
);
process.on('SIGTERM', () => process.exit(7));
if (globalThis.Bun) Bun.serve({ port: 3000, fetch: app.fetch });
else (await import('@hono/node-server')).serve({ port: 3000, fetch: app.fetch });
