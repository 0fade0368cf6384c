export * from './errors';
export * from './rind';
export type * as api from './api-types';
export { ExecConnection, type ExecExit } from './exec-connection';
export { defaultSockets, findSocket } from './socket';
export type { StartOptions, StartedDaemon } from './daemon';
