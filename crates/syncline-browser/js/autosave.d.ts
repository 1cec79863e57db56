/** `syncline/autosave`: a document that saves itself while its tab holds the project. */

import { SynclineError } from "./errors.js";
import type { ProjectLockAcquireOptions, ProjectLockError, ProjectLockEvent, ProjectLockLease } from "./lock.js";

export { SynclineError };

/** Options of {@link openAutoSave}; those of the lock mean the same as there. */
export interface AutoSaveOptions extends Omit<ProjectLockAcquireOptions, "maxWaitMs"> {
  /** The document's file in the project's folder. Default: `"document.json"`. */
  readonly file?: string;
  /** Whether another tab may have the project for the asking. Default: true. */
  readonly allowTakeOver?: boolean;
}

/**
 * - `opening`: nothing is known yet
 * - `saved`, `saving`: this tab holds the project, and all changes are stored or will be in a moment
 * - `unsaved`: storing failed, and is tried again
 * - `read-only`: another tab holds the project; what it saves appears in `text`
 * - `taken-over`: the same, and it took the project from this tab
 * - `lost`: the lease was lost; nothing is saved until there is a new one
 * - `conflict`: stored and typed text have both changed: call `resolve`
 * - `closed`
 */
export type AutoSaveStatus = "opening" | "saved" | "saving" | "unsaved" | "read-only" | "taken-over" | "lost" | "conflict" | "closed";

export interface AutoSaveState {
  readonly status: AutoSaveStatus;
  /** This tab holds the project. */
  readonly heldHere: boolean;
  /** Whoever holds it, as far as known, and since when. */
  readonly holder?: ProjectLockLease & { readonly since?: number };
  /** When this tab last stored something, in milliseconds since 1970. */
  readonly savedAt?: number;
  /** The number of the stored version; 0: there is none. */
  readonly stamp: number;
  /** What went wrong last, while it still matters. */
  readonly problem?: string;
  /** `text` was replaced by what another tab, or an earlier page, wrote. */
  readonly adopted?: true;
}

/** Something that happened: an event of the lock, or of the document. */
export type AutoSaveEntry =
  | ProjectLockEvent
  | { readonly type: "saved"; readonly at: number; readonly stamp: number }
  | { readonly type: "lost"; readonly at: number; readonly loss: "expired" | "taken-over" | "hidden" }
  | { readonly type: "conflict" | "recovered"; readonly at: number };

/** A document that saves itself. Its methods need no `this`. */
export interface AutoSave {
  /** Settles when the stored text is there. */
  readonly ready: Promise<void>;
  readonly text: string;
  readonly state: AutoSaveState;
  /** The last 200 things that happened, the newest last. */
  readonly history: readonly AutoSaveEntry[];
  /** The new text, 4 million characters at most. False: this tab may not change it. */
  readonly change: (text: string) => boolean;
  /** Stores what is not stored yet, without waiting for a pause. Rejects with a {@link ProjectLockError} if it cannot. */
  readonly flush: () => Promise<void>;
  /**
   * Asks the tab that holds the project for it: that tab stores its last change, gives way, and becomes read-only. A tab
   * that does not answer is followed when its lease has ended. Rejects if the holder keeps it.
   */
  readonly takeOver: () => Promise<void>;
  /** Ends a `conflict`. */
  readonly resolve: (which: "mine" | "theirs") => void;
  readonly subscribe: (listener: (state: AutoSaveState) => void) => { unsubscribe(): void };
  /** Stores, gives the project back, and ends. */
  readonly close: () => Promise<void>;
}

/**
 * Opens a document of the project that is saved by itself while this tab holds the project: half a second after the last
 * change, five seconds after the first. A crash leaves the old version or the new one. A tab that does not hold the
 * project is read-only, shows what the holder saves, and takes over when the holder goes.
 *
 * @throws {SynclineError} `invalid-argument`, `unsupported-environment` or `worker-blocked`
 */
export function openAutoSave(options?: AutoSaveOptions): AutoSave;
