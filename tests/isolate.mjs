// Runs the test file that imports this on a host of its own (tests/integ/isolate.py), unless it is on one.
import { spawnSync } from 'node:child_process';
import { readlinkSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const inside = process.env.RIND_TEST_INSIDE === readlinkSync('/proc/self/ns/pid');
if (process.geteuid() === 0 && !inside && !process.env.RIND_TEST_DOCKER_SOCKET) {
  const isolate = fileURLToPath(new URL('integ/isolate.py', import.meta.url));
  const { status } = spawnSync(isolate, [process.execPath, ...process.execArgv, ...process.argv.slice(1)], { stdio: 'inherit' });
  process.exit(status ?? 1);
}
