export * from './errors';
export * from './rind';
export type * as api from './api-types';
export { ExecConnection, type ExecExit } from './exec-connection';
export { defaultSockets, findSocket } from './socket';
export type { StartOptions, StartedDaemon } from './daemon';
export * from './sandbox/errors';
export * from './sandbox/types';
export { ExecutionSession, Sandbox } from './sandbox/sandbox';
export { CustomDomainRequiredError } from './sandbox/ports';
export { WebSocketResponse, WorkerSocket, upgradeWebSocket } from './ws/socket';
export {
  SandboxNamespace,
  getSandbox,
  proxyTerminal,
  proxyToSandbox,
  type NamespaceOptions,
} from './sandbox/namespace';
export { asyncIterableToSSEStream, parseSSEStream, responseToAsyncIterable } from './sandbox/sse';
export { collectFile, streamFile } from './sandbox/files';
export {
  isDurableObjectCodeUpdateReset,
  isExecResult,
  isPlatformTransientError,
  isProcess,
  isProcessStatus,
} from './sandbox/guards';
