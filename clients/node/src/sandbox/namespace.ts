// getSandbox(): the set of sandboxes, and the settings that they are created with.
import { Rind } from '../rind';
import { checkId, type BoxSettings } from './box';
import { Sandbox, proxyPreview } from './sandbox';
import type { PtyOptions } from './types';
import type { SandboxOptions } from './types';

export interface NamespaceOptions {
  /** The daemon; default: the one of RIND_SOCKET, the user's, or the system's. */
  rind?: Rind;
  /** The creator's name: sandboxes of other providers are refused. Default `rind`. */
  provider?: string;
  /** The spec of each new sandbox: `rootfs`, `policy`, `limits`, `env`, `user`, `volumes`… */
  spec?: BoxSettings['spec'];
}

/** Takes the place of a Worker's binding: `env.Sandbox`. */
export class SandboxNamespace {
  /** Settings of the sandboxes created here. */
  readonly settings: BoxSettings;
  private readonly sandboxes = new Map<string, Sandbox>();

  constructor(options: NamespaceOptions = {}) {
    this.settings = {
      rind: options.rind ?? new Rind(),
      provider: options.provider ?? 'rind',
      spec: options.spec ?? {},
    };
  }

  get rind(): Rind {
    return this.settings.rind;
  }

  /** Returns the sandbox of an id. Equal ids give the same object, so they share sessions. */
  get(id: string, options: SandboxOptions = {}): Sandbox {
    const effective = options.normalizeId ? checkId(id).toLowerCase() : checkId(id);
    const known = this.sandboxes.get(effective);
    if (known) return known.configure(options);
    const made = new Sandbox(effective, this.settings, options);
    this.sandboxes.set(effective, made);
    return made;
  }
}

let usual: SandboxNamespace | undefined;

/** `getSandbox('name')`, or with a namespace as in a Worker: `getSandbox(env.Sandbox, 'name')`. */
export function getSandbox(id: string, options?: SandboxOptions): Sandbox;
export function getSandbox(namespace: SandboxNamespace, id: string, options?: SandboxOptions): Sandbox;
export function getSandbox(
  first: string | SandboxNamespace,
  second?: string | SandboxOptions,
  third?: SandboxOptions,
): Sandbox {
  if (typeof first === 'string')
    return (usual ??= new SandboxNamespace()).get(first, second as SandboxOptions | undefined);
  if (!(first instanceof SandboxNamespace))
    throw new TypeError('getSandbox: the namespace must be a SandboxNamespace of this package');
  return first.get(second as string, third);
}

/**
 * Answers a request to a preview URL, as in a Worker: `(await proxyToSandbox(request, env)) ?? next()`. The token is checked; a
 * WebSocket's answer is for upgradeWebSocket().
 */
export async function proxyToSandbox(request: Request, env: { Sandbox: SandboxNamespace }): Promise<Response | null> {
  return proxyPreview(request, env.Sandbox.settings);
}

/** Another name for sandbox.terminal(). The session id is ignored, as each terminal is a separate shell. */
export async function proxyTerminal(
  sandbox: Sandbox,
  _sessionId: string,
  request: Request,
  options?: PtyOptions,
): Promise<Response> {
  return sandbox.terminal(request, options);
}
