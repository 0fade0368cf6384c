// A sandbox provider on rind: what a Workers runtime needs to run `@cloudflare/sandbox` code on this machine. Its state is one
// JSON value that can be stored and connected to again, by this program or another one, after any restart.
import {
  Rind,
  SandboxNamespace,
  getSandbox,
  proxyToSandbox,
  type ExecOptions,
  type ExecResult,
  type NamespaceOptions,
  type Process,
  type ProcessOptions,
  type Sandbox,
} from 'rind-client';

export const PROVIDER = 'rind';

/** What is stored of a sandbox. */
export interface SandboxState {
  provider: string;
  id: string;
}

export interface ProviderOptions {
  /** The daemon; started when none runs. */
  rind?: Rind;
  /** Below which preview URLs lie: `<port>-<id>-<token>.<hostname>`. */
  hostname: string;
  /** What each sandbox is made with; the programs of this machine when absent. */
  spec?: NamespaceOptions['spec'];
}

/**
 * The host's own toolchain, as with a provider that is a directory and `sh -c`, but nothing else of the host. An image's directory
 * (`rootfs: '/srv/images/python'`) makes it independent of what is installed here.
 */
const SPEC: NamespaceOptions['spec'] = { rootfs: 'host', limits: { memory: '2g', pids: 1024 } };

export class RindProvider {
  readonly name = PROVIDER;
  private readonly namespace: SandboxNamespace;

  constructor(private readonly options: ProviderOptions) {
    this.namespace = new SandboxNamespace({
      rind: options.rind ?? new Rind({ start: true }),
      provider: PROVIDER,
      spec: options.spec ?? SPEC,
    });
  }

  /** The sandbox of an id: found, or made. */
  async create(id: string): Promise<ProviderSandbox> {
    const sandbox = getSandbox(this.namespace, id);
    await sandbox.rindId();
    return new ProviderSandbox(sandbox, this.options.hostname);
  }

  /** A sandbox of which the state was stored. One that has gone is made anew; another provider's is refused. */
  async connect(state: SandboxState): Promise<ProviderSandbox> {
    if (state.provider !== PROVIDER)
      throw new Error(`sandbox '${state.id}' was made by the provider '${state.provider}'; this is '${PROVIDER}'`);
    return this.create(state.id);
  }

  /** Answers requests to preview URLs; null for any other. */
  route(request: Request): Promise<Response | null> {
    return proxyToSandbox(request, { Sandbox: this.namespace });
  }
}

export class ProviderSandbox {
  constructor(
    readonly sandbox: Sandbox,
    private readonly hostname: string,
  ) {}

  get state(): SandboxState {
    return { provider: PROVIDER, id: this.sandbox.id };
  }

  exec(command: string, options?: ExecOptions): Promise<ExecResult> {
    return this.sandbox.exec(command, options);
  }

  async read(path: string): Promise<Uint8Array> {
    const { content } = await this.sandbox.readFile(path, { encoding: 'base64' });
    return new Uint8Array(Buffer.from(content, 'base64'));
  }

  async write(path: string, content: Uint8Array | string): Promise<void> {
    if (typeof content === 'string') await this.sandbox.writeFile(path, content);
    else await this.sandbox.writeFile(path, Buffer.from(content).toString('base64'), { encoding: 'base64' });
  }

  start(command: string, options?: ProcessOptions): Promise<Process> {
    return this.sandbox.startProcess(command, options);
  }

  /** The URL of a server in it. */
  async expose(port: number, token?: string): Promise<string> {
    return (await this.sandbox.exposePort(port, { hostname: this.hostname, token })).url;
  }

  destroy(): Promise<void> {
    return this.sandbox.destroy();
  }
}
