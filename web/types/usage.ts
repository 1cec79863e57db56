// The package as its users write it, and the mistakes the compiler must catch for them.
// This file is compiled, never run: each `@ts-expect-error` fails the check if the line below it becomes legal.

import {
  init,
  initSync,
  startViewer,
  SynclineError,
  version,
  type InitInput,
  type SynclineErrorCode,
  type ViewerHandle,
  type ViewerOptions,
} from "syncline";

export async function loadsFromEverywhere(bytes: Uint8Array<ArrayBuffer>, module: WebAssembly.Module): Promise<string> {
  await init();
  await init("/pkg/syncline_wasm_bg.wasm");
  await init(new URL("https://example.com/syncline_wasm_bg.wasm"));
  await init(fetch("/pkg/syncline_wasm_bg.wasm"));
  await init(bytes);
  const input: InitInput = module;
  await init(input);
  initSync(bytes);
  initSync(module);

  // @ts-expect-error a number is no source
  await init(42);
  // @ts-expect-error an address needs the asynchronous way
  initSync("/pkg/syncline_wasm_bg.wasm");
  return version();
}

/** The body of a React effect: it returns the function that ends it. */
export function effect(): () => void {
  return startViewer().stop;
}

export async function watches(signal: AbortSignal): Promise<string> {
  const options: ViewerOptions = {
    endpoint: new URL("https://example.com/api/viewer"),
    workerUrl: "/assets/viewer-worker.js",
    wasmUrl: "/assets/syncline_wasm_bg.wasm",
    signal,
    onError(error) {
      const code: SynclineErrorCode = error.code;
      const retryable: boolean = error.retryable;
      console.log(code, retryable, error.message, error.cause);
    },
  };
  const viewer: ViewerHandle = startViewer(options);
  const sessionId: string = await viewer.sessionId;
  viewer.stop();

  // @ts-expect-error the id comes later, as a promise
  const early: string = viewer.sessionId;
  // @ts-expect-error a handle is not for writing
  viewer.stop = () => {};
  // @ts-expect-error an interval is not an option
  startViewer({ intervalMs: 1_000 });
  // @ts-expect-error the endpoint is an address
  startViewer({ endpoint: 3000 });
  // @ts-expect-error options are an object
  startViewer("/api/viewer");
  return sessionId + early;
}

/** A switch over the codes can be complete, and the compiler sees when it is not. */
export function advice(error: unknown): string {
  if (!(error instanceof SynclineError)) return "not ours";
  switch (error.code) {
    case "invalid-argument":
    case "unsupported-environment":
    case "not-initialized":
      return "fix the call";
    case "wasm-blocked":
    case "worker-blocked":
      return "fix the Content-Security-Policy";
    case "wasm-load-failed":
    case "ping-failed":
    case "ping-refused":
      return error.retryable ? "wait" : "fix the server";
    case "stopped":
      return "nothing to do";
    case "internal":
      return "tell us";
    default:
      return error.code satisfies never;
  }
}

export function comparesCodes(error: SynclineError): boolean {
  // @ts-expect-error no such code
  return error.code === "network";
}

// @ts-expect-error errors are read, not changed
new SynclineError("stopped", "ended").code = "internal";
// @ts-expect-error only known codes
new SynclineError("oops", "unknown");
