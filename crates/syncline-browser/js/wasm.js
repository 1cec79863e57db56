// Loads the rules: one WASM module per realm (page or worker), at most once.
//
// Guarantees: concurrent calls share one download; a failed one can be tried again; a failure says whether the
// browser forbids WASM (`wasm-blocked`) or the module could not be had (`wasm-load-failed`). Nothing happens on import.

import instantiate, { initSync as instantiateSync } from "./syncline_wasm.js";
import { SynclineError, isPassing } from "./errors.js";

// The shortest valid module. A browser that refuses even this one forbids WASM as such; the text of the refusal
// differs between browsers and is sometimes empty, so it decides nothing.
const EMPTY_MODULE = new Uint8Array([0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00]);

let loading;
let loaded = false;
let memory;
let numbers = new Float64Array(0);

export function load(input) {
  loading ??= start(input).catch((error) => {
    loading = undefined;
    throw error;
  });
  return loading;
}

export function loadSync(module) {
  if (loaded) return;
  try {
    ({ memory } = instantiateSync({ module }));
  } catch (cause) {
    throw explain(cause);
  }
  loaded = true;
  loading = Promise.resolve();
}

export function isLoaded() {
  return loaded;
}

// The module's memory as numbers. Not to be held: the memory moves when it grows.
export function heap() {
  if (numbers.length === 0) numbers = new Float64Array(memory.buffer);
  return numbers;
}

async function start(input) {
  try {
    // Written out like this, bundlers find the file and ship it.
    const source = (await input) ?? new URL("./syncline_wasm_bg.wasm", import.meta.url);
    ({ memory } = await instantiate({ module_or_path: isAddress(source) ? await download(source) : source }));
  } catch (cause) {
    throw explain(cause);
  }
  loaded = true;
}

function isAddress(source) {
  return typeof source === "string" || source instanceof URL || source instanceof Request;
}

async function download(source) {
  const response = await fetch(source);
  if (!response.ok) {
    throw new SynclineError("wasm-load-failed", `the server answered ${response.status} for ${response.url}`, {
      retryable: isPassing(response.status),
    });
  }
  return response;
}

function explain(cause) {
  if (cause instanceof SynclineError) return cause;
  if (!isAllowed()) {
    return new SynclineError(
      "wasm-blocked",
      "this page may not run WebAssembly: add 'wasm-unsafe-eval' to script-src in the Content-Security-Policy " +
        "that is sent with the page and with viewer-worker.js",
      { cause },
    );
  }
  // Bytes that do not compile will not compile next time; what the network did may pass.
  const broken = cause instanceof WebAssembly.CompileError || cause instanceof WebAssembly.LinkError;
  return new SynclineError("wasm-load-failed", `the WASM module could not be loaded: ${cause?.message ?? cause}`, {
    retryable: !broken,
    cause,
  });
}

function isAllowed() {
  try {
    new WebAssembly.Module(EMPTY_MODULE);
    return true;
  } catch {
    return false;
  }
}
