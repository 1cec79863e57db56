/**
 * Syncline in the browser. Written by hand; checked against real use by `web/types`.
 *
 * Importing this module does nothing but define: it is safe in Node, during server-side rendering and in a service worker.
 * Each system has a door of its own as well: `syncline/autosave`, `/client`, `/lock`, `/queue`, `/state`, `/viewer`. A page without a
 * bundler that uses it loads no script of the others; `init`, which loads the WASM module ahead of its first use, is there.
 * `syncline/wasm` loads a module of your own in the same way.
 */

export {
  SynclineError,
  type SynclineErrorCode,
  type FieldProblem,
} from "./errors.js";
export {
  connect,
  type ClientOptions,
  type NodeClient,
  type NodeEvent,
} from "./client.js";
export {
  startViewer,
  type ViewerOptions,
  type ViewerHandle,
} from "./viewer.js";
export {
  ProjectLockError,
  acquireProjectLock,
  renewProjectLock,
  releaseProjectLock,
  withProjectLock,
  subscribeLockEvents,
  type ProjectLockSource,
  type ProjectLockLease,
  type LockRetryPolicy,
  type ProjectLockAcquireOptions,
  type ProjectLockRenewOptions,
  type ProjectLockReleaseOptions,
  type ProjectLockEvent,
  type ProjectLockEventListener,
  type ProjectLockSubscription,
  type ProjectLockErrorCode,
} from "./lock.js";
export {
  type AutoSave,
  type AutoSaveEditor,
  type AutoSaveEntry,
  type AutoSaveOptions,
  type AutoSaveState,
  type AutoSaveStatus,
  type AutoSaveTextEvent,
  openAutoSave,
} from "./autosave.js";
export {
  createQueue,
  RetryLater,
  type QueueKind,
  type QueueState,
  type QueueContext,
  type QueueOptions,
  type QueueEnqueued,
  type QueueStatus,
  type QueueEntry,
  type QueueEvent,
  type Queue,
} from "./queue.js";
export {
  openState,
  type SettingsOf,
  type StateField,
  type StateSchema,
  type StateSettings,
  type StateLayout,
  type StateReport,
  type StateEntityEvent,
  type StateEvent,
  type StateSnapshot,
  type StateStorage,
  type StateStorageListener,
  type StateBridge,
  type StateLink,
  type StateOptions,
  type State,
} from "./state.js";
export type { InitInput, WasmSource } from "./wasm.js";
