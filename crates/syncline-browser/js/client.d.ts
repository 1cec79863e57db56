/** `syncline/client`: calls of a node's API, and its events, from a page. */

import { SynclineError } from "./errors.js";

export { SynclineError };

/** Options of {@link connect}. */
export interface ClientOptions {
  /** The node's address. Default: the page's own origin. */
  url?: string | URL;
  /** As for a {@link StateBridge}: a token or a publishable key, or a function that gives one. */
  token?: string | (() => string | null | Promise<string | null>);
}

/** What a stream tells: `open` each time it begins, and whenever something may have been missed; then what the node says. */
export interface NodeEvent {
  readonly type: string;
  readonly data?: any;
}

/** A node, as a page calls it. Its methods need no `this`. */
export interface NodeClient {
  /**
   * Calls an address of the node, such as `call("POST", "/api/locks/doc:1/acquire", { holder: "tab", ttlMs: 10_000 })`, and gives the
   * answer. A token that has ended is asked for again, once.
   *
   * @throws {SynclineError} (as a rejection) `needs-auth`, `refused`, `unreachable`, `stopped`
   */
  readonly call: (method: string, path: string, body?: unknown) => Promise<any>;
  /**
   * Hears the node's events until the returned function is called: `listen({ topics: "lock" }, ({ type, data }) => …)`. A stream that
   * breaks is opened again. `onProblem` hears why one was refused; after `needs-auth` it is not opened again.
   */
  readonly listen: (query: Record<string, string>, listener: (event: NodeEvent) => void, onProblem?: (error: SynclineError) => void) => () => void;
  /** Goes on after `needs-auth`: with another token, or by asking the function again. Streams that have ended are to be begun anew. */
  readonly resume: (options?: { token?: ClientOptions["token"] }) => void;
  /** Ends all streams and calls. */
  readonly close: () => void;
}

/**
 * A client for one node.
 *
 * @throws {SynclineError} `invalid-argument`, or `secret-key` for a key that belongs on servers
 */
export function connect(options?: ClientOptions): NodeClient;
