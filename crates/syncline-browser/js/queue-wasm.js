// The queue's rules in this realm, for the files that use them.

import instantiate, { initSync as instantiateSync, version as rulesVersion } from "./syncline_queue.js";
import { wasmModule } from "./wasm.js";

export const { init, initSync, version, heap } = wasmModule({
  instantiate,
  instantiateSync,
  version: rulesVersion,
  // Written out like this, bundlers find the file and ship it.
  address: () => new URL("./syncline_queue_bg.wasm", import.meta.url),
});
