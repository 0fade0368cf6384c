// The published SDK under our name, for types/usage.ts.
export * from '@cloudflare/sandbox';
import type { Sandbox } from '@cloudflare/sandbox';
export type SandboxNamespace = DurableObjectNamespace<Sandbox>;
