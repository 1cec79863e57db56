// The project lock as its users write it, and the mistakes the compiler must catch for them. Compiled, never run.

import {
  acquireProjectLock,
  openAutoSave,
  ProjectLockError,
  releaseProjectLock,
  renewProjectLock,
  subscribeLockEvents,
  withProjectLock,
  type AutoSave,
  type AutoSaveStatus,
  type LockRetryPolicy,
  type ProjectLockAcquireOptions,
  type ProjectLockEvent,
  type ProjectLockLease,
  type ProjectLockSource,
} from "syncline";
import type { AutoSaveEditor } from "syncline/autosave";

export async function byHand(signal: AbortSignal): Promise<string> {
  const retryPolicy: LockRetryPolicy = { initialDelayMs: 200, maxDelayMs: 5_000, multiplier: 2, maxAttempts: Infinity };
  const options: ProjectLockAcquireOptions = { signal, maxWaitMs: 5_000, retryPolicy };
  const { lease, didFallback } = await acquireProjectLock(options);
  await acquireProjectLock();
  const flag: boolean = didFallback;
  const renewed: ProjectLockLease = await renewProjectLock({ lease });
  await renewProjectLock({ lease, extendByMs: 15_000 });
  const nothing: void = await releaseProjectLock({ lease: renewed, reason: "completed" });
  await releaseProjectLock({ lease });
  const copy: ProjectLockLease = JSON.parse(JSON.stringify(lease));
  const source: ProjectLockSource = copy.source;

  // @ts-expect-error a policy is whole, as in its source
  await acquireProjectLock({ retryPolicy: { maxAttempts: 3 } });
  // @ts-expect-error a lease is not for writing
  lease.expiresAt = 0;
  // @ts-expect-error a lease is needed, not its id
  await renewProjectLock({ lease: lease.leaseId });
  // @ts-expect-error no such reason
  await releaseProjectLock({ lease, reason: "bored" });
  // @ts-expect-error no such mechanism
  await acquireProjectLock({ mechanism: "cookie" });
  return `${flag} ${nothing} ${source} ${lease.leaseId} ${lease.expiresAt}`;
}

export async function work(): Promise<number> {
  const plain: number = await withProjectLock(undefined, async (lease) => lease.expiresAt);
  const text: string = await withProjectLock({ project: "atlas", leaseMs: 5_000 }, async (lease, signal) => {
    signal.throwIfAborted();
    return lease.leaseId;
  });
  // @ts-expect-error work must be given
  await withProjectLock({});
  return plain + text.length;
}

export function listens(): () => void {
  const subscription = subscribeLockEvents((event: ProjectLockEvent) => {
    switch (event.type) {
      case "acquired":
      case "renewed":
      case "released":
        console.log(event.lease?.leaseId);
        break;
      case "acquire-failed":
      case "release-failed":
      case "expired":
      case "switch-to-fallback":
      case "record-doubtful":
      case "storage-low":
      case "storage-denied":
        console.log(event.error?.code);
        break;
      case "backoff":
        console.log(event.attempt, event.delayMs);
        break;
      default:
        event.type satisfies never;
    }
  });
  return () => subscription.unsubscribe();
}

export function advice(error: unknown): string {
  if (!(error instanceof ProjectLockError)) return "not the lock's";
  const { code, retryable, cause } = error;
  switch (code) {
    case "web-lock-unavailable":
    case "fallback-read-failed":
    case "fallback-write-failed":
      return retryable ? "try again" : String(cause);
    case "web-lock-aborted":
    case "fallback-open-failed":
    case "lease-mismatch":
      return error.message;
    case "lease-expired":
      return "acquire again";
    default:
      return code satisfies never;
  }
}

new ProjectLockError("ended", { code: "lease-expired", retryable: false, cause: new Error("why") });
// @ts-expect-error only known codes
new ProjectLockError("ended", { code: "oops", retryable: false });

export async function saves(editor: HTMLTextAreaElement): Promise<AutoSave> {
  const save = openAutoSave({ project: "atlas", file: "map.json", allowTakeOver: false });
  await save.ready;
  const unbind: () => void = save.bind(editor);
  const other: AutoSaveEditor = {
    read: () => editor.textContent ?? "",
    write: (text) => (editor.textContent = text),
    setReadOnly: (isReadOnly) => (editor.contentEditable = String(!isReadOnly)),
    onInput: (listener) => editor.addEventListener("input", listener),
  };
  save.bind(other);
  const accepted: boolean = save.change(`${save.text}!`, { base: save.version });
  // @ts-expect-error a version is a number
  save.change("", { base: "newest" });
  // @ts-expect-error neither an editor nor an adapter
  save.bind(document.body);
  console.log(accepted);
  const { unsubscribe } = save.subscribe((state) => {
    const status: AutoSaveStatus = state.status;
    console.log(status, state.heldHere, state.holder?.since, state.savedAt, state.problem);
    if (state.event?.type === "saved") console.log(state.event.text, state.event.version, state.unstored);
    if (status === "conflict") save.resolve("theirs");
  });
  for (const entry of save.history) console.log(entry.type, entry.at);
  await save.takeOver();
  await save.flush();
  unsubscribe();
  unbind();
  await save.close();

  // @ts-expect-error the document is text
  save.change({});
  // @ts-expect-error one or the other
  save.resolve("both");
  // @ts-expect-error text is changed by change()
  save.text = "";
  return save;
}
