// Predicates of the SDK on values and errors.
import { RindConnectionError, RindError } from '../errors';
import type { ExecResult, Process, ProcessStatus } from './types';

const has = (value: unknown, types: Record<string, string>): boolean =>
  typeof value === 'object' &&
  value !== null &&
  Object.entries(types).every(([key, type]) => typeof (value as Record<string, unknown>)[key] === type);

export function isExecResult(value: unknown): value is ExecResult {
  return has(value, { success: 'boolean', exitCode: 'number', stdout: 'string', stderr: 'string' });
}

export function isProcess(value: unknown): value is Process {
  return has(value, { id: 'string', command: 'string', status: 'string' });
}

export function isProcessStatus(value: string): value is ProcessStatus {
  return ['starting', 'running', 'completed', 'failed', 'killed', 'error'].includes(value);
}

function* causes(error: unknown): Generator<unknown> {
  for (let depth = 0; error !== undefined && error !== null && depth < 8; depth++) {
    yield error;
    error = (error as { cause?: unknown }).cause;
  }
}

/** True if a retry may succeed soon: the daemon is not reachable (it may be restarting), or is overloaded. */
export function isPlatformTransientError(error: unknown): boolean {
  for (const one of causes(error))
    if (one instanceof RindConnectionError || (one instanceof RindError && (one.status === 503 || one.status === 429)))
      return true;
  return false;
}

/** Always false: there are no Durable Objects here whose code could be replaced. */
export function isDurableObjectCodeUpdateReset(_error: unknown): boolean {
  return false;
}
