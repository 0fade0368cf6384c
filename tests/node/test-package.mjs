// The package as a project has it: packed, installed without a network, imported both ways, and the page of docs/provider.md on it.
// RIND_NODES: further node programs to run all of this with, separated by colons.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { ROOT, daemon } from './harness.mjs';

const run = promisify(execFile);
const CLIENT = join(ROOT, 'clients/node');
const TIMEOUT = 120_000;
const nodes = [process.execPath, ...(process.env.RIND_NODES ?? '').split(':').filter(Boolean)];
const d = await daemon();
const project = mkdtempSync(join(tmpdir(), 'rind-package-'));
after(() => rmSync(project, { recursive: true, force: true }));

const env = { PATH: process.env.PATH, HOME: project, RIND_SOCKET: d.socket };
const tool = (file, args, cwd = project) => run(file, args, { cwd, env, timeout: TIMEOUT });
const write = (name, text) => writeFileSync(join(project, name), text);

test('it is packed and installed', async () => {
  await tool('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', project], CLIENT);
  const [archive] = readdirSync(project).filter((name) => name.endsWith('.tgz'));
  write('package.json', '{ "name": "project", "version": "1.0.0", "private": true }');
  await tool('npm', ['install', '--offline', '--ignore-scripts', '--no-audit', '--no-fund', `./${archive}`]);
  assert.deepEqual(
    readdirSync(join(project, 'node_modules')).filter((name) => !name.startsWith('.')),
    ['rind-client'],
  );
});

test('ESM and CommonJS have the same', async () => {
  write(
    'both.mjs',
    `import * as esm from 'rind-client';
import { createRequire } from 'node:module';
const cjs = createRequire(import.meta.url)('rind-client');
const names = (m) => Object.keys(m).filter((name) => name !== 'default' && name !== '__esModule' && name !== 'module.exports').sort().join();
if (names(esm) !== names(cjs)) throw new Error(names(esm) + ' / ' + names(cjs));
for (const name of Object.keys(cjs)) if (esm[name] !== cjs[name]) throw new Error(name + ' is there twice');
console.log(process.version, Object.keys(cjs).length);`,
  );
  write(
    'common.cjs',
    `const { Rind, SandboxNamespace, getSandbox } = require('rind-client');
const box = getSandbox(new SandboxNamespace({ rind: new Rind() }), 'common');
box.exec('echo $((6 * 7))').then(async ({ stdout }) => {
  await box.destroy();
  process.stdout.write(stdout);
});`,
  );
  for (const node of nodes) {
    assert.match((await tool(node, ['both.mjs'])).stdout, /^v\d+\S+ \d\d/);
    assert.equal((await tool(node, ['common.cjs'])).stdout, '42\n');
  }
});

test('the page of docs/provider.md compiles strictly, and runs', async () => {
  const [, page] = /```ts\n([\s\S]*?)```/.exec(readFileSync(join(ROOT, 'docs/provider.md'), 'utf8'));
  write('page.mts', page);
  write(
    'tsconfig.json',
    JSON.stringify({
      compilerOptions: {
        strict: true,
        target: 'es2022',
        module: 'nodenext',
        typeRoots: [join(CLIENT, 'node_modules/@types')],
        types: ['node'],
      },
      files: ['page.mts'],
    }),
  );
  await tool(process.execPath, [join(CLIENT, 'node_modules/typescript/bin/tsc')]).catch((error) => {
    assert.fail(error.stdout);
  });
  write(
    'visit.mjs',
    `import { getSandbox } from 'rind-client';
import provider from './page.mjs';
const answer = await provider.fetch(new Request('http://localhost/'));
console.log(answer.status, await answer.text());`,
  );
  for (const node of nodes) assert.equal((await tool(node, ['visit.mjs'])).stdout, '200 42\n\n');
});
