/** `syncline/viewer`: tells a server that somebody has the page open. */

import { SynclineError } from "./errors.js";

export { SynclineError };

/** Options of {@link startViewer}. Relative addresses count from the page, as in a link. */
export interface ViewerOptions {
  /** Where heartbeats go, by `POST`. Default: `/api/viewer`. */
  endpoint?: string | URL;
  /**
   * The room that this page's viewer is in, 1 to 128 bytes. The node counts sessions and people of each room apart, tells who comes and goes,
   * and can run a job only while somebody is there. Without a room the page counts for the node as a whole alone.
   */
  room?: string;
  /**
   * Who that is, 1 to 128 bytes, for those who may see it: three tabs of one user are one person. Only with a `room`. A page that shows a person's
   * token leaves it out: there it is the token's subject, and marked as verified.
   */
  user?: string;
  /**
   * A token or a publishable key, or a function that gives one, for a page of another site: its origin then needs no mention among
   * the viewer's. A function is asked before a heartbeat, one question at a time, and again shortly before the token ends.
   */
  token?: string | (() => string | null | Promise<string | null>);
  /** Where the worker script is. Default: `viewer-worker.js` beside this file. Must be on the page's own origin. */
  workerUrl?: string | URL;
  /** Where the WASM module is. Default: `syncline_viewer_bg.wasm` beside the worker script. */
  wasmUrl?: string | URL;
  /**
   * Hears of every failure. After `ping-failed` and `ping-refused` the next heartbeat is sent all the same, and a
   * `wasm-load-failed` that is retryable is tried again after 30 seconds. All others have ended the viewer;
   * `startViewer` may then be called again.
   *
   * Without a listener, failures that are not retryable go to the console as a warning.
   */
  onError?: (error: SynclineError) => void;
  /** Aborting it is the same as calling {@link ViewerHandle.stop}. */
  signal?: AbortSignal;
}

/** One caller's hold on the running viewer. */
export interface ViewerHandle {
  /**
   * The id under which the server counts this page. Rejects with a {@link SynclineError} if the viewer ends before it
   * has one; nothing needs to catch that, it does not become an unhandled rejection.
   */
  readonly sessionId: Promise<string>;
  /**
   * Lets go. When the last holder of this endpoint, room and user has let go, the server is told (`bye`) and the worker ends. Calling
   * it again does nothing. It needs no `this`, so it can be handed on as it is.
   */
  readonly stop: () => void;
}

/**
 * Tells the server that somebody has this page open: a heartbeat at once and every 30 seconds from a worker (which
 * browsers do not slow down in hidden tabs), whether the page is visible, a `bye` when it closes, and again a heartbeat
 * when it returns from the back/forward cache. Works on plain `http://` too.
 *
 * Calling it again for the same endpoint, room and user joins the viewer that is running; the other options of a later call, except
 * `onError` and `signal`, are then ignored.
 *
 * @throws {SynclineError} `invalid-argument` or `unsupported-environment`; everything else goes to `onError`
 */
export function startViewer(options?: ViewerOptions): ViewerHandle;
