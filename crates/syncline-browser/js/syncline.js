// The package's front door: what users import. Types and documentation: syncline.d.ts.
//
// Guarantees: importing does nothing but define (safe in Node, in a service worker, before a page exists); every
// failure is a SynclineError. The rules themselves are WASM; this file only opens the door to them.

import { version as wasmVersion } from "./syncline_wasm.js";
import { SynclineError } from "./errors.js";
import { isLoaded, load, loadSync } from "./wasm.js";

export { openAutoSave } from "./autosave.js";
export { SynclineError } from "./errors.js";
export {
  acquireProjectLock,
  ProjectLockError,
  releaseProjectLock,
  renewProjectLock,
  subscribeLockEvents,
  withProjectLock,
} from "./lock.js";
export { openCoverCache } from "./covers.js";
export { RetryLater, createQueue } from "./queue.js";
export { startViewer } from "./viewer.js";

export function init(input) {
  return load(input);
}

export function initSync(module) {
  loadSync(module);
}

export function version() {
  if (!isLoaded()) {
    throw new SynclineError("not-initialized", "call init() and wait for it before using this function");
  }
  return wasmVersion();
}
