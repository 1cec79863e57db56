// The package's front door: what users import. Types and documentation: syncline.d.ts.
//
// Guarantees: importing does nothing but define (safe in Node, in a service worker, before a page exists); every
// failure is a SynclineError. The rules themselves are WASM, a module for each system, loaded by who uses it. Each system
// has a door of its own too (`syncline/queue`), for pages without a bundler and for `init`.

export { openAutoSave } from "./autosave.js";
export { connect } from "./client.js";
export { SynclineError } from "./errors.js";
export {
  acquireProjectLock,
  ProjectLockError,
  releaseProjectLock,
  renewProjectLock,
  subscribeLockEvents,
  withProjectLock,
} from "./lock.js";
export { RetryLater, createQueue } from "./queue.js";
export { openState } from "./state.js";
export { startViewer } from "./viewer.js";
