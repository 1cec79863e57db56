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
 *
 * The document can be changed while it is `saved`, `saving` or `unsaved`.
 */
export type AutoSaveStatus = "opening" | "saved" | "saving" | "unsaved" | "read-only" | "taken-over" | "lost" | "conflict" | "closed";

/**
 * A text, and what became of it.
 *
 * - `adopted`: it replaces the one you have: another tab saved it, an earlier page had put it aside, or another user in this page
 *   changed it
 * - `refused`: it is the one that is there; your change was based on an older one
 * - `saved`: it is stored
 */
export interface AutoSaveTextEvent {
  readonly type: "adopted" | "refused" | "saved";
  readonly text: string;
  readonly version: number;
}

export interface AutoSaveState {
  readonly status: AutoSaveStatus;
  /** This tab holds the project. */
  readonly heldHere: boolean;
  /** Whoever holds it, as far as known, and since when. */
  readonly holder?: ProjectLockLease & { readonly since?: number };
  /** When this tab last stored something, in milliseconds since 1970. */
  readonly savedAt?: number;
  /** The version that is stored; 0: there is none. */
  readonly stamp: number;
  /** The version of `text`. */
  readonly version: number;
  /** The text. Whoever reads it here, in `event` or in {@link AutoSave.text} has been handed it, and may change it. */
  readonly text: string;
  /** Something that was typed here is not stored. */
  readonly unstored: boolean;
  /** What went wrong last, while it still matters. */
  readonly problem?: string;
  /** What this call of the listener is about, if it is about a text. */
  readonly event?: AutoSaveTextEvent;
  /** The same as `event.type` being `adopted` or `refused`: show `text`. */
  readonly adopted?: true;
}

/** Something that happened: an event of the lock, or of the document. */
export type AutoSaveEntry =
  | ProjectLockEvent
  | { readonly type: "saved"; readonly at: number; readonly stamp: number }
  | { readonly type: "lost"; readonly at: number; readonly loss: "expired" | "taken-over" | "hidden" }
  /** `drafts-off`: what is typed right before this tab is closed cannot be put aside, because localStorage is full or forbidden. */
  | { readonly type: "conflict" | "recovered" | "drafts-off"; readonly at: number };

/** Any editor, for {@link AutoSave.bind}. */
export interface AutoSaveEditor {
  readonly read: () => string;
  readonly write: (text: string) => void;
  readonly setReadOnly: (isReadOnly: boolean) => void;
  /** Calls `listener` after each change by the user, until the function it returns is called. */
  readonly onInput: (listener: () => void) => (() => void) | void;
}

/** A document that saves itself. Its methods need no `this`. */
export interface AutoSave {
  /** Settles when the stored text is there. */
  readonly ready: Promise<void>;
  readonly text: string;
  /** The version of `text`. */
  readonly version: number;
  readonly state: AutoSaveState;
  /** The last 200 things that happened, the newest last. */
  readonly history: readonly AutoSaveEntry[];
  /**
   * Binds an editor: it shows the document, is read-only while this tab may not change it, and what is typed into it is saved. The
   * caret stays at its place in the text. Returns what unbinds it.
   */
  readonly bind: (editor: HTMLTextAreaElement | HTMLInputElement | AutoSaveEditor) => () => void;
  /**
   * The new text, 4 million characters at most. `base` is the version that it grew out of; without it, the one that you were
   * handed last. False: this tab may not change the document, or somebody else has changed it since that version; then your
   * listeners are handed what is there (`refused`).
   */
  readonly change: (text: string, options?: { readonly base?: number }) => boolean;
  /**
   * Stores what is not stored yet, without waiting for a pause. Rejects with a {@link ProjectLockError} if it cannot, or with a
   * {@link SynclineError} `quota-exceeded` where there is no more room.
   */
  readonly flush: () => Promise<void>;
  /**
   * Asks the tab that holds the project for it: that tab stores its last change, gives way, and becomes read-only. A tab
   * that does not answer is followed when its lease has ended. Rejects if the holder keeps it.
   */
  readonly takeOver: () => Promise<void>;
  /** Ends a `conflict`. */
  readonly resolve: (which: "mine" | "theirs") => void;
  readonly subscribe: (listener: (state: AutoSaveState) => void) => { unsubscribe(): void };
  /**
   * Unbinds and ends, for this caller. The last one in the page stores what there is to store and gives the project back; it may be
   * opened again at once, without waiting for that.
   */
  readonly close: () => Promise<void>;
}

/**
 * Opens a document of the project that is saved by itself while this tab holds the project: half a second after the last
 * change, two seconds after the first. A crash leaves the old version or the new one. A tab that does not hold the
 * project is read-only, shows what the holder saves, and takes over when the holder goes. Several calls in one page share the
 * document; of the options, those of the first one count.
 *
 * @throws {SynclineError} `invalid-argument`, `unsupported-environment` or `worker-blocked`
 */
export function openAutoSave(options?: AutoSaveOptions): AutoSave;
