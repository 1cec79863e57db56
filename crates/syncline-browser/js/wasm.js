// Loads the rules of one system: a WASM module, per realm (page or worker) at most once. Types and documentation: wasm.d.ts.
//
// Guarantees: concurrent calls share one download; a failed one can be tried again; a failure says whether the
// browser forbids WASM (`wasm-blocked`) or the module could not be had (`wasm-load-failed`). Nothing happens on import.

import { SynclineError, deadline, isPassing } from "./errors.js";

export { SynclineError };

// The shortest valid module. A browser that refuses even this one forbids WASM as such; the text of the refusal
// differs between browsers and is sometimes empty, so it decides nothing.
const EMPTY_MODULE = new Uint8Array([0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00]);

// A network may be slow; one that says nothing for so long is none.
const DOWNLOAD_MAX_MS = 30_000;

export function wasmModule({ instantiate, instantiateSync, version, address }) {
  let loading;
  let memory;
  let numbers = new Float64Array(0);

  const start = async (input) => {
    try {
      const source = (await input) ?? address();
      ({ memory } = await instantiate({ module_or_path: isAddress(source) ? await download(source) : source }));
    } catch (cause) {
      throw explain(cause);
    }
  };

  return {
    init(input) {
      loading ??= start(input).catch((error) => {
        loading = undefined;
        throw error;
      });
      return loading;
    },

    initSync(module) {
      if (memory !== undefined) return;
      try {
        ({ memory } = instantiateSync({ module }));
      } catch (cause) {
        throw explain(cause);
      }
      loading = Promise.resolve();
    },

    version() {
      if (memory === undefined) {
        throw new SynclineError("not-initialized", "call init() and wait for it before using this function");
      }
      return version();
    },

    // The module's memory as numbers. Not to be held: the memory moves when it grows.
    heap() {
      if (numbers.length === 0) numbers = new Float64Array(memory.buffer);
      return numbers;
    },
  };
}

function isAddress(source) {
  return typeof source === "string" || source instanceof URL || source instanceof Request;
}

async function download(source) {
  const file = readFile(source);
  if (file !== undefined) return file;
  const response = await deadline(fetch(source), DOWNLOAD_MAX_MS, "wasm-load-failed", "the server of the WASM module");
  if (!response.ok) {
    throw new SynclineError("wasm-load-failed", `the server answered ${response.status} for ${response.url}`, {
      retryable: isPassing(response.status),
    });
  }
  return response;
}

// Outside of pages the module lies beside this script, where Node's fetch() does not go. Asked for in this way, bundlers for pages
// do not look for it.
function readFile(source) {
  const { protocol, href } = new URL(source.url ?? source, import.meta.url);
  const files = protocol === "file:" ? globalThis.process?.getBuiltinModule?.("node:fs/promises") : undefined;
  return files?.readFile(new URL(href));
}

function explain(cause) {
  if (cause instanceof SynclineError) return cause;
  if (!isAllowed()) {
    return new SynclineError(
      "wasm-blocked",
      "WebAssembly may not be compiled here: in a page, add 'wasm-unsafe-eval' to script-src in the Content-Security-Policy " +
        "that is sent with it and with the package's worker scripts; on a server that compiles nothing, hand the compiled " +
        "module to initSync()",
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
