// An application as it is written for the SDK in a Worker. Compiled twice: against theirs and, with the names of this package
// in their place, against ours. Only where its sandboxes come from differs.
import {
  getSandbox,
  parseSSEStream,
  proxyToSandbox,
  type ExecEvent,
  type LogEvent,
  type Sandbox,
  type SandboxNamespace,
} from 'rind-client';

interface Env {
  Sandbox: SandboxNamespace;
}

export async function handle(request: Request, env: Env): Promise<Response> {
  const preview = await proxyToSandbox(request, env);
  if (preview) return preview;
  const sandbox: Sandbox = getSandbox(env.Sandbox, 'my-sandbox', { sleepAfter: '5m', normalizeId: true });
  await sandbox.setEnvVars({ API_KEY: 'x', OLD: undefined });
  await sandbox.writeFile('/workspace/app.py', 'print(1)');
  const result = await sandbox.exec('python3 app.py', {
    timeout: 30_000,
    cwd: '/workspace',
    env: { A: '1' },
    stream: true,
    onOutput: (stream, data) => console.log(stream, data),
  });
  if (!result.success) return new Response(result.stderr, { status: 500 });
  for await (const event of parseSSEStream<ExecEvent>(await sandbox.execStream('make', { signal: request.signal }))) {
    if (event.type === 'complete') console.log(event.exitCode);
  }
  const server = await sandbox.startProcess('node server.js', {
    processId: 'web',
    onExit: (code) => console.log(code),
  });
  await server.waitForPort(8080, { mode: 'http', path: '/health', status: { min: 200, max: 299 }, timeout: 10_000 });
  const { line } = await server.waitForLog(/listening on (\d+)/, 5_000);
  for await (const log of parseSSEStream<LogEvent>(await sandbox.streamProcessLogs('web')))
    if (log.type === 'exit') break;
  const { url } = await sandbox.exposePort(8080, { hostname: 'example.com', token: 'tok_1' });
  const session = await sandbox.createSession({ id: 'user-1', cwd: '/workspace', env: { NODE_ENV: 'test' } });
  await session.exec('npm test');
  await sandbox.deleteSession('user-1');
  const file = await sandbox.readFile('/workspace/out.bin', { encoding: 'base64' });
  const { content } = await sandbox.readFile('/workspace/big', { encoding: 'none' });
  await content.cancel();
  const { files } = await sandbox.listFiles('/workspace', { recursive: true });
  await sandbox.gitCheckout('https://example.com/r.git', { branch: 'main', depth: 1 });
  await sandbox.destroy();
  return Response.json({ url, line, file: file.content, names: files.map((f) => f.name) });
}
