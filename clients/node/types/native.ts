// Programs on the native client must compile.
import { Rind, RindError, type api } from 'rind-client';

const rind = new Rind({ socket: '/run/rind/rind.sock', start: { rind: '/usr/local/bin/rind' } });

export async function use(signal: AbortSignal): Promise<number> {
  const box: api.Sandbox = await rind.createSandbox({ name: 'a', limits: { memory: '64m' } }, { signal });
  const run = await rind.execStream(box.id, { cmd: 'cat', tty: true, rows: 24, cols: 80 }, { signal });
  for await (const part of run.stdout) console.log(part.byteLength);
  // @ts-expect-error no such key
  await rind.exec(box.id, { command: 'x' });
  // @ts-expect-error a state that there is not
  await rind.listSandboxes({ state: ['nonsense'] });
  for await (const event of await rind.followProcessLogs(box.id, 'p'))
    if (event.type === 'exit') return event.process.exitCode ?? 1;
  return new RindError({ code: 'x', message: 'y' }, 1).status;
}
