// The tests of sessions once more, in the host's own root file system: with bash and the GNU tools instead of busybox.
import { existsSync } from 'node:fs';
import { test } from 'node:test';

if (existsSync('/bin/bash')) {
  process.env.RIND_TEST_ROOTFS = 'host';
  await import('./test-sessions.mjs');
} else {
  test('sessions in bash', { skip: 'no bash on this host' });
}
