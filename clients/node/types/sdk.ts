// What code written for the published SDK passes and takes must fit our layer, too: checked against its own declarations.
import type * as theirs from '@cloudflare/sandbox';
import type * as ours from 'rind-client';

type Args<T> = T extends (...args: infer A) => unknown ? A : never;
type Result<T> = T extends (...args: never[]) => infer R ? R : never;

/** `To` takes every `From`. */
function takes<From extends To, To>(): [From, To] | undefined {
  return undefined;
}

// The interfaces, as a whole: every method, its parameters and its results.
takes<ours.Sandbox, theirs.ISandbox>();
takes<ours.ExecutionSession, theirs.ExecutionSession>();
takes<ours.Process, theirs.Process>();

// Methods that the interface does not have, but the class does.
type Own =
  | 'exposePort' | 'unexposePort' | 'getExposedPorts' | 'isPortExposed' | 'validatePortToken' | 'getSession' | 'setKeepAlive' | 'setSleepAfter'
  | 'setLabels' | 'setTransport' | 'setContainerTimeouts' | 'destroy' | 'stop' | 'wsConnect' | 'containerFetch' | 'fetch' | 'tunnels'; // prettier-ignore
type Methods<T, K extends keyof T> = { [P in K]: T[P] };
takes<Methods<ours.Sandbox, Own>, Methods<theirs.Sandbox, Own>>();

// Options go in: what theirs accepts, ours accepts.
takes<theirs.ExecOptions, ours.ExecOptions>();
takes<theirs.StreamOptions, ours.StreamOptions>();
takes<theirs.WaitForPortOptions, ours.WaitForPortOptions>();
takes<theirs.ListFilesOptions, ours.ListFilesOptions>();
takes<theirs.WatchOptions, ours.WatchOptions>();
takes<theirs.CheckChangesOptions, ours.CheckChangesOptions>();
takes<theirs.SessionOptions, ours.SessionOptions>();
takes<theirs.SandboxOptions, ours.SandboxOptions>();
takes<theirs.PtyOptions, ours.PtyOptions>();
takes<theirs.ProcessOptions, ours.ProcessOptions>();
takes<Args<theirs.Sandbox['readFile']>, Args<ours.Sandbox['readFile']>>();
takes<Args<theirs.Sandbox['writeFile']>, Args<ours.Sandbox['writeFile']>>();
takes<Args<theirs.Sandbox['gitCheckout']>, Args<ours.Sandbox['gitCheckout']>>();

// Results and events come out: what ours gives, theirs takes.
takes<ours.ExecResult, theirs.ExecResult>();
takes<ours.ExecEvent, theirs.ExecEvent>();
takes<ours.LogEvent, theirs.LogEvent>();
takes<ours.FileWatchSSEEvent, theirs.FileWatchSSEEvent>();
takes<ours.FileStreamEvent, theirs.FileStreamEvent>();
takes<ours.CheckChangesResult, theirs.CheckChangesResult>();
takes<ours.GitCheckoutResult, theirs.GitCheckoutResult>();
takes<ours.ProcessStatus, theirs.ProcessStatus>();
takes<Result<ours.Sandbox['listFiles']>, Result<theirs.Sandbox['listFiles']>>();

// Functions beside the class.
takes<typeof ours.parseSSEStream, typeof theirs.parseSSEStream>();
takes<typeof ours.responseToAsyncIterable, typeof theirs.responseToAsyncIterable>();
takes<typeof ours.asyncIterableToSSEStream, typeof theirs.asyncIterableToSSEStream>();
takes<typeof ours.streamFile, typeof theirs.streamFile>();
takes<typeof ours.collectFile, typeof theirs.collectFile>();
takes<typeof ours.isExecResult, typeof theirs.isExecResult>();
takes<typeof ours.isProcess, typeof theirs.isProcess>();
takes<typeof ours.isProcessStatus, typeof theirs.isProcessStatus>();
takes<typeof ours.isPlatformTransientError, typeof theirs.isPlatformTransientError>();
takes<typeof ours.isDurableObjectCodeUpdateReset, typeof theirs.isDurableObjectCodeUpdateReset>();

// What is caught.
takes<
  Pick<ours.ProcessReadyTimeoutError, 'processId' | 'command' | 'condition' | 'timeout'>,
  Pick<theirs.ProcessReadyTimeoutError, 'processId' | 'command' | 'condition' | 'timeout'>
>();
takes<
  Pick<ours.SessionTerminatedError, 'sessionId' | 'exitCode'>,
  Pick<theirs.SessionTerminatedError, 'sessionId' | 'exitCode'>
>();

// @ts-expect-error the check itself can fail
takes<{ success: string }, theirs.ExecResult>();
// @ts-expect-error nor is their interface `any`
takes<Omit<ours.Sandbox, 'exec'>, theirs.ISandbox>();
// @ts-expect-error nor their class
takes<{ exposePort(port: number): Promise<string> }, Methods<theirs.Sandbox, 'exposePort'>>();
