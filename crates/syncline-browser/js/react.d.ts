/**
 * `syncline/react`: hooks. On a server, and in the first render of a page, each gives the constant that its documentation names.
 * `state` and `queue` may be `null` there, where they are not opened:
 * `const state = typeof window === "undefined" ? null : openState()`.
 */

import type { AutoSave, AutoSaveOptions, AutoSaveState } from "./autosave.js";
import { SynclineError } from "./errors.js";
import type { ProjectLockAcquireOptions, ProjectLockError, ProjectLockLease } from "./lock.js";
import type { Queue, QueueStatus } from "./queue.js";
import type { State, StateLink } from "./state.js";
import type { ViewerOptions } from "./viewer.js";

export { SynclineError };

/** One entity; `undefined` while it is not there. The component is rendered again when it changes, and not for others. */
export function useEntity<V extends object>(state: State<V, any> | null | undefined, id: string): V | undefined;

/** All entities by id; empty on a server. The same map until one of them changes. */
export function useEntities<V extends object>(state: State<V, any> | null | undefined): ReadonlyMap<string, V>;

/** The settings; an empty object on a server. */
export function useSettings<S>(state: State<any, S> | null | undefined): Partial<S>;

/** How this context stands with the node; `null` without a bridge, and on a server. */
export function useLink(state: State<any, any> | null | undefined): StateLink | null;

/** How a queue stands, looked at twice a second; `null` before the first look, and on a server. */
export function useQueue(queue: Queue<any> | null | undefined): QueueStatus | null;

/** The page counts as watching while a component with this is mounted. */
export function useViewer(options?: ViewerOptions): void;

/** What {@link useLock} gives. */
export interface HeldLock {
  readonly isHeld: boolean;
  /** While it is held. */
  readonly lease?: ProjectLockLease;
  /** Why it is not held, if something went wrong. */
  readonly error?: ProjectLockError | SynclineError;
}

/**
 * Holds a project while the component is mounted: `isHeld` is true when this tab has it. It waits while another tab has it, and asks
 * again after it was lost. Several components of one page that want the same project have it one after the other.
 */
export function useLock(options?: ProjectLockAcquireOptions): HeldLock;

/** What {@link useAutoSave} gives. */
export interface BoundDocument {
  /** For the editor: `<textarea ref={ref} />`. */
  readonly ref: (editor: HTMLTextAreaElement | HTMLInputElement | null) => void;
  /** `null` before it is opened, and on a server. */
  readonly save: AutoSave | null;
  readonly state: AutoSaveState | null;
  /** Why it cannot be opened. */
  readonly error?: ProjectLockError | SynclineError;
}

/** A document that saves itself while the component is mounted, bound to an editor. */
export function useAutoSave(options?: AutoSaveOptions): BoundDocument;
