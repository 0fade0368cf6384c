// Owns one sandbox of a name: finds or creates it, starts it, and recreates it if it was removed.
import { createHash, randomBytes } from 'node:crypto';
import type * as api from '../api-types';
import { RindError } from '../errors';
import type { Rind } from '../rind';
import { ProviderMismatchError, SandboxSecurityError } from './errors';
import type { SandboxOptions } from './types';

export const WORKSPACE = '/workspace';
export const LABEL_PROVIDER = 'rind.provider';
export const LABEL_ID = 'rind.sandbox';
const RESERVED = ['www', 'api', 'admin', 'root', 'system', 'cloudflare', 'workers'];
const TRIES = 5;
const GONE_MS = 30_000; // time-out for a removal or a stop in progress

/** Checks an id by the SDK's rules. */
export function checkId(id: string): string {
  if (typeof id !== 'string' || id.length < 1 || id.length > 63)
    throw new SandboxSecurityError('Sandbox ID must be 1-63 characters long.', 'INVALID_SANDBOX_ID_LENGTH');
  if (id.startsWith('-') || id.endsWith('-'))
    throw new SandboxSecurityError(
      'Sandbox ID cannot start or end with hyphens (DNS requirement).',
      'INVALID_SANDBOX_ID_HYPHENS',
    );
  if (RESERVED.includes(id.toLowerCase()))
    throw new SandboxSecurityError(`Reserved sandbox ID '${id}' is not allowed.`, 'RESERVED_SANDBOX_ID');
  return id;
}

/** The sandbox's name for an id, equal to the id if possible. Ids with other characters (upper case…), that could be a
 * prefix of an id of rind, or with two hyphens become `x--` and a digest. So two ids never have the same name. */
export function boxName(id: string): string {
  const same = /^[a-z0-9][a-z0-9_-]*$/.test(id) && !id.includes('--') && !/^[0-9a-f]{4,}$/.test(id);
  return same ? id : `x--${createHash('sha256').update(id).digest('hex').slice(0, 32)}`;
}

/** Converts `30s`, `10m`, `1h` or seconds to milliseconds. */
export function sleepMs(value: string | number): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(String(value).trim());
  const unit = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }[match?.[2] ?? 's'];
  const ms = match && unit ? Math.round(Number(match[1]) * unit) : 0;
  if (ms < 1)
    throw new TypeError(`sleepAfter: ${JSON.stringify(value)} is neither seconds nor text such as 30s, 10m or 1h`);
  return ms;
}

export interface BoxSettings {
  rind: Rind;
  /** The creator's name; sandboxes of other providers are refused. */
  provider: string;
  /** The spec of each new sandbox: root file system, policy, limits, user, volumes… */
  spec: Omit<api.SandboxCreate, 'name' | 'start' | 'command'>;
}

/** True if an existing sandbox must be updated with these options. */
const asks = ({ keepAlive, sleepAfter, labels }: SandboxOptions): boolean =>
  keepAlive !== undefined || sleepAfter !== undefined || labels !== undefined;

export class Box {
  readonly name: string;
  /** Distinguishes this client from others of the same sandbox. */
  readonly client = randomBytes(6).toString('hex');
  /** Set by setEnvVars: for sessions created later, and for commands without session. */
  env: Record<string, string> = {};

  private current: Promise<string> | undefined;
  /** True if an existing sandbox has not been updated with the options yet. */
  private untold: boolean;
  /** Labels of an earlier setLabels, which the next one removes. */
  private stale: string[] = [];
  private readonly onGone: Array<() => void> = [];

  constructor(
    readonly id: string,
    readonly settings: BoxSettings,
    private options: SandboxOptions,
  ) {
    this.name = boxName(id);
    this.untold = asks(options);
  }

  get rind(): Rind {
    return this.settings.rind;
  }

  /** Called when the sandbox turns out to be removed or stopped: its contents or processes are lost. */
  whenGone(forget: () => void): void {
    this.onGone.push(forget);
  }

  forget(): void {
    this.current = undefined;
    for (const forget of this.onGone) forget();
  }

  /** Sets options for a sandbox created later; an existing one is updated with the next call. */
  configure(options: SandboxOptions): void {
    const before = { ...this.options };
    const gone = Object.keys(before.labels ?? {}).filter((key) => options.labels && !(key in options.labels));
    this.options = { ...before, ...options };
    this.stale.push(...gone);
    this.untold ||= asks(options);
  }

  /** Like configure, and updates an existing sandbox at once. */
  async apply(options: SandboxOptions): Promise<void> {
    if (options.sleepAfter !== undefined) sleepMs(options.sleepAfter);
    this.configure(options);
    const box = await this.inspect(this.name);
    if (!box) return;
    this.check(box);
    await this.tell(box.id);
  }

  /** The options that can be changed on an existing sandbox. */
  private changes(): api.SandboxUpdate {
    const { keepAlive, sleepAfter, labels } = this.options;
    const { provider, spec } = this.settings;
    const changes: api.SandboxUpdate = {};
    if (keepAlive) changes.inactivityTimeoutMs = null;
    else if (keepAlive === false || sleepAfter !== undefined)
      changes.inactivityTimeoutMs = sleepMs(sleepAfter ?? '10m');
    if (labels || this.stale.length > 0)
      changes.labels = {
        ...Object.fromEntries(this.stale.map((key) => [key, null])),
        ...spec.labels,
        ...labels,
        [LABEL_PROVIDER]: provider,
        [LABEL_ID]: this.id,
      };
    return changes;
  }

  private async tell(id: string): Promise<void> {
    await this.rind.updateSandbox(id, this.changes());
    this.told();
  }

  private told(): void {
    this.untold = false;
    this.stale = [];
  }

  /** Ensures that the sandbox runs and returns its id in rind. */
  async ensure(): Promise<string> {
    if (!this.current) {
      const found = this.open();
      this.current = found;
      found.catch(() => {
        if (this.current === found) this.current = undefined;
      });
    }
    const id = await this.current;
    if (this.untold) await this.tell(id);
    return id;
  }

  /** Runs `what` in the sandbox; if the sandbox was removed or stopped meanwhile, once more in a new or restarted one. */
  async use<T>(what: (id: string) => Promise<T>): Promise<T> {
    let id = '';
    try {
      id = await this.ensure();
      return await what(id);
    } catch (error) {
      id ||= (await this.current?.catch(() => undefined)) ?? '';
      if (id === '' || !(await this.hasGone(error, id))) throw error;
      this.forget();
      return what(await this.ensure());
    }
  }

  /** True if an error means that the sandbox does not exist or run. Then the failed call had no effect. */
  private async hasGone(error: unknown, id: string): Promise<boolean> {
    if (!(error instanceof RindError) || (error.status !== 404 && error.status !== 409 && error.status !== 410))
      return false;
    const now = await this.inspect(id);
    return now === undefined || now.state !== 'running';
  }

  /** Finds the sandbox with exactly this name or id: the API would accept a prefix of an id, too. */
  async inspect(nameOrId: string): Promise<api.Sandbox | undefined> {
    try {
      const box = await this.rind.inspectSandbox(nameOrId);
      return box.name === nameOrId || box.id === nameOrId ? box : undefined;
    } catch (error) {
      if (error instanceof RindError && error.status === 404) return undefined;
      throw error;
    }
  }

  private async open(): Promise<string> {
    for (let tries = 1; ; tries++) {
      const box = (await this.inspect(this.name)) ?? (await this.create());
      if (box) {
        this.check(box);
        const running = await this.run(box);
        if (running) return box.id;
      }
      if (tries === TRIES)
        throw new RindError(
          {
            code: 'EAGAIN',
            message: `sandbox '${this.id}' comes and goes: ${box?.state ?? 'gone'} (${box?.error ?? 'no error'})`,
          },
          503,
        );
    }
  }

  private check(box: api.Sandbox): void {
    const provider = box.labels[LABEL_PROVIDER] ?? null;
    if (provider !== this.settings.provider || box.labels[LABEL_ID] !== this.id)
      throw new ProviderMismatchError(this.id, provider, this.settings.provider);
  }

  /** Makes it run; false if it was removed. */
  private async run(box: api.Sandbox): Promise<boolean> {
    switch (box.state) {
      case 'running':
        return true;
      case 'paused':
        return (await this.rind.resumeSandbox(box.id)) !== undefined;
      case 'removing':
      case 'stopping':
        await this.past(box.id, box.state);
        return false;
      case 'broken':
        throw new RindError(
          {
            code: 'EIO',
            message: `sandbox '${this.id}' is broken: its files cannot be read; destroy() it to have a new one`,
          },
          500,
        );
      default:
        return this.start(box.id);
    }
  }

  private async start(id: string): Promise<boolean> {
    try {
      await this.rind.makeDirectory(id, WORKSPACE, { recursive: true });
      return (await this.rind.startSandbox(id)) !== undefined;
    } catch (error) {
      // Another client has started or removed it.
      if (error instanceof RindError && (error.status === 404 || error.status === 409))
        return (await this.inspect(id))?.state === 'running';
      throw error;
    }
  }

  /** Waits until it has left a state in which it cannot be started. */
  private async past(id: string, state: 'removing' | 'stopping'): Promise<void> {
    const deadline = Date.now() + GONE_MS;
    while ((await this.inspect(id))?.state === state) {
      if (Date.now() > deadline)
        throw new RindError(
          { code: 'EBUSY', message: `sandbox '${this.id}' is still ${state} after ${GONE_MS} ms` },
          409,
        );
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Undefined if another client created it first. */
  private async create(): Promise<api.Sandbox | undefined> {
    const { spec, provider } = this.settings;
    const { keepAlive, sleepAfter, labels } = this.options;
    try {
      const box = await this.rind.createSandbox({
        init: true,
        cwd: WORKSPACE,
        ...spec,
        name: this.name,
        command: ['/bin/sh', '-c', 'while :; do sleep 86400; done'],
        env: { LANG: 'C.UTF-8', ...(spec.env as Record<string, string> | undefined) },
        labels: { ...spec.labels, ...labels, [LABEL_PROVIDER]: provider, [LABEL_ID]: this.id },
        inactivityTimeoutMs: keepAlive ? null : sleepMs(sleepAfter ?? '10m'),
      });
      this.told();
      return box;
    } catch (error) {
      if (error instanceof RindError && error.code === 'EEXIST') return undefined;
      throw error;
    }
  }

  /** Removes it with everything in it. A sandbox of another provider is refused. */
  async destroy(): Promise<void> {
    const box = await this.inspect(this.name);
    if (box) {
      this.check(box);
      try {
        await this.rind.deleteSandbox(box.id, { force: true });
      } catch (error) {
        if (!(error instanceof RindError && error.status === 404)) throw error;
      }
    }
    this.forget();
  }

  async stop(): Promise<void> {
    const box = await this.inspect(this.name);
    if (box) {
      this.check(box);
      if (box.state !== 'stopped') await this.rind.stopSandbox(box.id);
    }
    this.forget();
  }
}
