// The package as its users write it, and the mistakes the compiler must catch for them.
// This file is compiled, never run: each `@ts-expect-error` fails the check if the line below it becomes legal.

import {
  createQueue,
  RetryLater,
  startViewer,
  SynclineError,
  type Queue,
  type QueueStatus,
  type SynclineErrorCode,
  type ViewerHandle,
  type ViewerOptions,
} from "syncline";
import * as queues from "syncline/queue";
import { init, initSync, version, type InitInput } from "syncline/queue";
import { openAutoSave } from "syncline/autosave";
import { withProjectLock } from "syncline/lock";
import * as viewer from "syncline/viewer";
import { wasmModule, type WasmGlue } from "syncline/wasm";

/** Each door leads to the same things as the front door. */
export const sameThings: [typeof createQueue, typeof startViewer, typeof SynclineError] = [
  queues.createQueue,
  viewer.startViewer,
  queues.SynclineError,
];

export async function savesUnderTheLock(): Promise<void> {
  await openAutoSave({ project: "notes" }).ready;
  await withProjectLock({ project: "export" }, async (_, lost) => lost.throwIfAborted());
  // @ts-expect-error the worker loads its own module
  await viewer.init();
}

export async function loadsFromEverywhere(bytes: Uint8Array<ArrayBuffer>, module: WebAssembly.Module): Promise<string> {
  await init();
  await init("/pkg/syncline_queue_bg.wasm");
  await init(new URL("https://example.com/syncline_queue_bg.wasm"));
  await init(fetch("/pkg/syncline_queue_bg.wasm"));
  await init(bytes);
  const input: InitInput = module;
  await init(input);
  initSync(bytes);
  initSync(module);

  // @ts-expect-error a number is no source
  await init(42);
  // @ts-expect-error an address needs the asynchronous way
  initSync("/pkg/syncline_queue_bg.wasm");
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
    wasmUrl: "/assets/syncline_viewer_bg.wasm",
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
    case "secret-key":
      return "fix the call";
    case "needs-auth":
      return `sign in: ${error.reason ?? ""} ${error.grant ?? ""}`;
    case "refused":
      return error.reason ?? "look at the node";
    case "wasm-blocked":
    case "worker-blocked":
      return "fix the Content-Security-Policy";
    case "wasm-load-failed":
    case "ping-failed":
    case "ping-refused":
    case "unreachable":
      return error.retryable ? "wait" : "fix the server";
    case "stopped":
    case "answer-lost":
    case "queue-taken":
      return "nothing to do";
    case "task-failed":
    case "task-dead":
    case "unknown-key":
      return "look at the key";
    case "invalid-value":
    case "invalid-settings":
      return error.fields?.map(({ field }) => field).join() ?? "fix the value";
    case "busy":
    case "codec-failed":
    case "newer-schema":
      return error.retryable ? "wait" : "update";
    case "state-full":
    case "queue-full":
    case "storage-failed":
    case "quota-exceeded":
      return "make room";
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

export async function worksAtAPace(): Promise<number> {
  const queue: Queue<{ price: number }> = createQueue({
    name: "prices",
    concurrency: 2,
    intervalMs: 500,
    persist: true,
    group: (key) => (key.startsWith("http") ? new URL(key).host : undefined),
    groupConcurrency: 2,
    groupIntervalMs: 1_000,
    run: async (key, { signal, attempt, group }) => {
      if (attempt > 3) throw new RetryLater(5_000);
      const response = await fetch(`/api/price/${key}?shop=${group ?? ""}`, { signal });
      return response.ok ? ((await response.json()) as { price: number }) : response;
    },
  });
  const { added } = await queue.enqueue(["apples", "pears"], { kind: "priority" });
  await queue.enqueue("plums");
  await queue.enqueue([{ key: "figs", group: "south" }, "dates"], { group: "north" });
  await queue.pause({ group: "south" });
  for (const { name, waiting, nextCallAt } of await queue.groups({ limit: 10 })) console.log(name, waiting, nextCallAt);
  await queue.resume({ group: "south" });
  const unsubscribe = queue.subscribe((event) => {
    if (event.type === "settled" && event.state === "done") console.log(event.result.price);
  });
  const status: QueueStatus = queue.status();
  const [dead] = await queue.keys("dead", { limit: 1 });
  if (dead !== undefined) await queue.retryDead([dead.key]);
  unsubscribe();
  await queue.close();

  // @ts-expect-error keys are texts
  await queue.enqueue([1, 2]);
  // @ts-expect-error the name of a group is a text
  await queue.enqueue({ key: "figs", group: 1 });
  // @ts-expect-error no such kind
  await queue.enqueue("apples", { kind: "first" });
  // @ts-expect-error no such state
  await queue.keys("lost");
  // @ts-expect-error the work is missing
  createQueue({ name: "idle" });
  return (await queue.result("apples")).price + added + (status.leftMs ?? 0);
}

export async function loadsAModuleOfItsOwn(glue: WasmGlue): Promise<number> {
  const module = wasmModule(glue);
  await module.init();
  // @ts-expect-error the glue has to say where the module is
  wasmModule({ instantiate: glue.instantiate, instantiateSync: glue.instantiateSync, version: glue.version });
  return module.heap().length;
}
