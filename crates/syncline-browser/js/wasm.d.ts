/** `syncline/wasm`: loads a WASM module that wasm-bindgen made, as the systems of this package load theirs. */

import { SynclineError } from "./errors.js";

export { SynclineError };

/**
 * The module's bytes, or the compiled module. (`& object`, because the interface `WebAssembly.Module` is empty and would
 * accept any value.)
 */
export type WasmSource = BufferSource | (WebAssembly.Module & object);

/** Where the WASM module comes from: an address, a response, its bytes, or the compiled module. */
export type InitInput = string | URL | Request | Response | WasmSource;

/** The script that wasm-bindgen made for the target `web`, and where the module is. */
export interface WasmGlue {
  /** The default export of the script. */
  instantiate(options: { module_or_path: InitInput }): Promise<{ readonly memory: WebAssembly.Memory }>;
  /** Its `initSync`. */
  instantiateSync(options: { module: WasmSource }): { readonly memory: WebAssembly.Memory };
  /** An export of the module: its version. */
  version(): string;
  /** Where the module is: `new URL("./name_bg.wasm", import.meta.url)`, written out, so that bundlers find it. */
  address(): string | URL;
}

/** A module that is loaded once in each page or worker. */
export interface WasmModule {
  /**
   * Loads the module. Calls made at the same time share one download, and once it has succeeded further calls return at
   * once and ignore `input`. After a failure it can be called again.
   *
   * @param input defaults to the `address` of the glue
   * @throws {SynclineError} (as a rejection) `wasm-blocked` or `wasm-load-failed`
   */
  init(input?: InitInput | Promise<InitInput>): Promise<void>;
  /**
   * The same from bytes or a compiled module that are already here.
   *
   * @throws {SynclineError} `wasm-blocked` or `wasm-load-failed`
   */
  initSync(module: WasmSource): void;
  /** @throws {SynclineError} `not-initialized` before {@link WasmModule.init} has succeeded */
  version(): string;
  /** The module's memory, after it was loaded. Ask again before each use: the memory moves when it grows. */
  heap(): Float64Array;
}

/** A module of your own. Nothing is loaded before {@link WasmModule.init} or {@link WasmModule.initSync} is called. */
export function wasmModule(glue: WasmGlue): WasmModule;
