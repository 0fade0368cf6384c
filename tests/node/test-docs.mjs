// What the documents say is there.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Rind, Sandbox } from '../../clients/node/dist/index.mjs';
import { ROOT } from './harness.mjs';

const read = (path) => readFileSync(join(ROOT, path), 'utf8');

test('each test that the threat model names exists', () => {
  const text = read('docs/threat-model.md');
  const shown = text
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .map((line) => line.split('|').at(-2));
  const integ = shown.flatMap((cell) => [...cell.matchAll(/([a-z-]+) `([a-z_0-9]+)`/g)]);
  assert.ok(integ.length > 40);
  const missing = integ.filter(
    ([, file, name]) => !new RegExp(`^def ${name}\\(`, 'm').test(read(`tests/integ/test-${file}`)),
  );
  assert.deepEqual(
    missing.map(([whole]) => whole),
    [],
  );
  const node = ['sandbox', 'sessions', 'sessions-truth'].map((file) => read(`tests/node/test-${file}.mjs`)).join('');
  const named = [...text.matchAll(/"([^"]{20,})"/g)].map(([, name]) => name);
  assert.equal(named.length, 11);
  assert.deepEqual(
    named.filter((name) => !node.includes(`test('${name}'`)),
    [],
  );
});

test('the table of calls has each call of a sandbox', () => {
  const rows = read('docs/provider.md')
    .split('\n')
    .filter((line) => line.startsWith('| '));
  const methods = [];
  for (let p = Sandbox.prototype; p !== Object.prototype; p = Object.getPrototypeOf(p))
    methods.push(...Object.getOwnPropertyNames(p));
  const ours = ['constructor', 'session', 'execIn', 'known', 'set', 'configure', 'rindId'];
  const missing = methods.filter(
    (m) =>
      !ours.includes(m) &&
      !rows.some((row) => row.split('|')[1].includes(`\`${m}\``) || row.split('|')[1].startsWith(` \`${m}\``)),
  );
  assert.deepEqual(missing, []);
});

test('what the README shows of the client is there', () => {
  for (const [, name] of read('clients/node/README.md').matchAll(/rind\.(\w+)\(/g))
    assert.equal(typeof Rind.prototype[name], 'function', name);
});
