// Builds dist/: the API's types from its description, the sources by tsc as CommonJS, and an ESM entry that hands on the same
// module, so that a program which loads both has one copy of every class.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { apiTypes } from './api-types.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const openapi = JSON.parse(readFileSync(join(root, '../../docs/openapi.json'), 'utf8'));

writeFileSync(join(root, 'src/api-types.ts'), apiTypes(openapi));
function tsc(project) {
  const { status } = spawnSync(
    process.execPath,
    [join(root, 'node_modules/typescript/bin/tsc'), '-p', join(root, project)],
    { stdio: 'inherit' },
  );
  if (status !== 0) process.exit(status ?? 1);
}

tsc('tsconfig.json');
mkdirSync(join(root, 'dist'), { recursive: true });
writeFileSync(join(root, 'dist/index.mjs'), "export * from './index.js';\n");
writeFileSync(join(root, 'dist/index.d.mts'), "export * from './index.js';\n");
// The examples are programs of their own, which use the package by its name.
tsc('tsconfig.examples.json');
