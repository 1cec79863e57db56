/** Where the WASM modules come from. */

/**
 * The module's bytes, or the compiled module. (`& object`, because the interface `WebAssembly.Module` is empty and would
 * accept any value.)
 */
export type WasmSource = BufferSource | (WebAssembly.Module & object);

/** Where the WASM module comes from: an address, a response, its bytes, or the compiled module. */
export type InitInput = string | URL | Request | Response | WasmSource;
