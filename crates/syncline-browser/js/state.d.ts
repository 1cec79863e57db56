/** `syncline/state`: entities and settings that are the same in every context, with no update lost. */

import { SynclineError } from "./errors.js";
import type { InitInput, WasmSource } from "./wasm.js";

export { SynclineError };
export type { InitInput, WasmSource };

/**
 * A field of your settings. With a `default` it always has a value, and {@link State.setSettings} needs one; without, it may be left out.
 */
export type StateField =
  | { readonly type: "boolean"; readonly default?: boolean }
  | { readonly type: "number"; readonly default?: number; readonly min?: number; readonly max?: number }
  | { readonly type: "choice"; readonly choices: readonly string[]; readonly default?: string }
  | {
      readonly type: "string";
      readonly default?: string;
      /** In UTF-16 units, as `length` counts. */
      readonly maxLength?: number;
      readonly pattern?: RegExp;
      /** What is said of a value that does not match `pattern`, after the field's name: `"must be a hex colour"`. */
      readonly problem?: string;
    };

/** Your settings, field by field. The names are those under which they are stored. */
export type StateSchema = { readonly [field: string]: StateField };

type FieldValue<F extends StateField> = F extends { type: "boolean" }
  ? boolean
  : F extends { type: "number" }
    ? number
    : F extends { type: "choice"; choices: readonly (infer C)[] }
      ? C
      : string;

/** What settings of a schema look like: `SettingsOf<typeof schema>`. */
export type SettingsOf<S extends StateSchema> = {
  readonly [F in keyof S as S[F] extends { default: unknown } ? F : never]: FieldValue<S[F]>;
} & {
  readonly [F in keyof S as S[F] extends { default: unknown } ? never : F]?: FieldValue<S[F]>;
};

/** The settings that every context follows; stored at `syncSettings`. Without a schema, any object of what JSON can hold. */
export type StateSettings = { readonly [field: string]: unknown };

/**
 * How entities lie in storage. `A`: all under one key, for a few. `B`: one key each and an index (the default). `C`: one
 * key each and an index in shards, for very many: adding one costs the same however many there are.
 */
export type StateLayout = "A" | "B" | "C";

/**
 * Something worth a line in a log; nothing of it is a failure of an operation.
 *
 * - `poisoned`: a key holds what nobody here can read; `detail` is the key. It is not shown, the rest is.
 * - `not-migrated`: `migrate` could not do the entity `detail`, which stays as it is.
 * - `not-decoded`: `codec.decode` could not do the entity `detail`. It is not shown and stays stored.
 * - `newer-schema`: what is stored follows a newer version of the schema; the state has closed.
 * - `no-receiver`, `unacknowledged`: nobody heard a message; what it said is stored.
 * - `storage-failed`: the storage refused something that is tried again.
 * - `overflow`, `clock-jumped`: everything is read again.
 * - `storage-cleared`: somebody cleared the storage (site data, eviction); what it held is gone, what is changed from now on is kept.
 */
export type StateReport =
  | "poisoned"
  | "not-migrated"
  | "not-decoded"
  | "newer-schema"
  | "no-receiver"
  | "unacknowledged"
  | "storage-failed"
  | "overflow"
  | "clock-jumped"
  | "storage-cleared"
  | "other";

/** An entity was added, changed or removed, here or anywhere else. */
export interface StateEntityEvent<V> {
  readonly type: "entity";
  readonly id: string;
  /** `undefined`: it is gone. */
  readonly value: V | undefined;
}

/** What a listener hears. */
export type StateEvent<V, S = StateSettings> =
  | StateEntityEvent<V>
  /** All entities are gone: clear the whole view. */
  | { readonly type: "cleared"; readonly ids: readonly string[] }
  | { readonly type: "settings"; readonly settings: S }
  /** Everything that was stored is loaded. */
  | { readonly type: "ready" }
  | ({ readonly type: "link" } & StateLink)
  | { readonly type: "report"; readonly report: StateReport; readonly detail?: string }
  /** `gone`: the extension was reloaded, and this page is left without its storage. Nothing follows. */
  | { readonly type: "closed"; readonly reason: "asked" | "erased" | "gone" | "failed"; readonly error?: SynclineError };

/** All there is at one moment. The same object until something changes. */
export interface StateSnapshot<V, S = StateSettings> {
  readonly isReady: boolean;
  readonly settings: S;
  /** Changing it throws. */
  readonly entities: ReadonlyMap<string, V>;
}

/**
 * A place to store things that all contexts share. It needs no transactions and no compare-and-set. Contents are JSON texts.
 * A method that fails throws an error whose `kind` is `"quota"`, `"gone"` (this context is cut off for good), `"overtaken"` (only
 * `set`: somebody wrote since this context last called `get`, and nothing was done; it reads again and merges) or `"other"`. One that
 * has not answered after 10 s (`set` and `remove`: 30 s) counts as failed.
 */
export interface StateStorage {
  /** Called once, synchronously. Registers for everything that others do, from this moment on. */
  listen(heard: StateStorageListener): void;
  /** Every key that was asked for, with its contents, if it has any. */
  get(keys: readonly string[]): Promise<readonly (readonly [key: string, text: string | undefined])[]>;
  /** All at once where that can be done, otherwise in this order; resolves when it survives a crash of this context. */
  set(entries: readonly (readonly [key: string, text: string])[]): Promise<void>;
  /**
   * Where a storage can do it in one step that nobody comes between, all of it or nothing: as `set()`, and resolves with what each
   * key held before. A new value of an entity then takes one question instead of two. May be left out.
   */
  swap?(entries: readonly (readonly [key: string, text: string])[]): Promise<readonly (readonly [key: string, text: string | undefined])[]>;
  remove(keys: readonly string[]): Promise<void>;
  /** All keys, foreign ones too. */
  list(): Promise<readonly string[]>;
  /** A hint for the other contexts; tells whether somebody heard it, if anything is known of it. */
  send(text: string): Promise<"acked" | "no-receiver" | undefined>;
  close(): void;
}

/** What a {@link StateStorage} tells. */
export interface StateStorageListener {
  /** False for keys whose changes need not be told. */
  readonly isOurs: (key: string) => boolean;
  readonly changed: (entries: readonly (readonly [key: string, text: string | undefined])[]) => void;
  /** Another context has sent this text. */
  readonly message: (text: string) => void;
  /** Changes may have been missed: everything is read again. */
  readonly missed: () => void;
  /** Another context has erased everything ({@link State.close}): this one ends. */
  readonly erased: () => void;
}

/** A space on a node. Of all contexts on one storage, one talks to the node at a time. */
export interface StateBridge {
  /** The node's address. Default: the page's own origin. */
  url?: string | URL;
  /** Which space: 1 to 64 letters, digits, dots, underscores or dashes. */
  space: string;
  /**
   * A token or a publishable key, where a page is not signed in; or a function that gives one, such as a call of your back end. It is
   * asked before a connection, one question at a time, and again shortly before the token ends; of several tabs the one that talks to the
   * node asks. `null` means that nobody is signed in. After a failure it is asked again, ever more seldom.
   */
  token?: string | (() => string | null | Promise<string | null>);
}

/**
 * How a context stands with the node.
 *
 * - `follows`: another context talks to the node, or this one is about to. One that stands still is replaced within 5 s.
 * - `paused`: {@link State.pauseBridge} was called.
 * - `behind`: changes are being exchanged. `in-step`: everything is.
 * - `unreachable`: the node does not answer; changes wait and are sent when it does.
 * - `clock-off`: this machine's clock is more than 5 minutes off the node's; nothing is exchanged until it is right.
 * - `needs-auth`: the node wants another credential, and is not asked again before {@link State.resumeBridge}, or before another context is
 *   let in. `detail` is its stable word, such as `token-revoked` or `forbidden`, then with the `grant` that is missing; or `other-user`: what
 *   is stored here belongs to another subject than the token; `token-missing`: nobody is signed in; `secret-key`.
 * - `refused`: the node refuses something else; `detail` is its stable word, such as `space-full`, or `token-failed` where the token function
 *   failed. It is tried again, ever more seldom.
 */
export interface StateLink {
  readonly status: "follows" | "paused" | "behind" | "in-step" | "unreachable" | "clock-off" | "needs-auth" | "refused";
  readonly detail?: string;
  /** With `forbidden`: the grant that is missing, such as `state:cart-8:read`. */
  readonly grant?: string;
}

/** Options of {@link openState}. */
export interface StateOptions<V extends object, S extends StateSchema = {}> {
  /** Which state of the origin, where it is not in an extension's storage. Default: `"state"`. */
  name?: string;
  /**
   * Whose data these are: any text that stands for the person who is signed in. It is part of the database's name (of every key, in an
   * extension), so that two people on one device never see each other's data. A storage of your own has to tell them apart itself.
   */
  user?: string;
  /**
   * Where it is stored. Default: `chrome.storage.local` in an extension, anywhere else IndexedDB with a BroadcastChannel.
   */
  storage?: StateStorage;
  /**
   * Your settings: a table of fields, and a `check` of what they mean together, which is given the fields that are right. It
   * returns what else is wrong, if anything. Types follow from the table: of {@link State.settings} and {@link State.setSettings}.
   */
  settings?: {
    readonly schema: S;
    readonly check?: (settings: Partial<SettingsOf<S>>) => Iterable<{ field: string; problem: string }> | undefined;
  };
  /** The version of the schema that your values follow, from 1. Default: 1. */
  schemaVersion?: number;
  /**
   * Brings a value from `version` to the next one. Called once for each entity and step; if the page dies in the middle,
   * what was not stored is done again. What it throws is reported as `not-migrated`.
   */
  migrate?: (version: number, id: string, value: unknown) => V;
  /**
   * Another form of values at rest, encrypted for one: what `encode` returns is stored, and sent where there is a `bridge`; `decode`
   * makes it a value again. Ids and settings stay readable. Both may take their time: a value shows when it was encoded and
   * decoded, in the order of the calls. All contexts, and all devices of a space, need the same codec. `migrate` is given
   * encoded values. What `encode` throws rejects the operation as `codec-failed`; what `decode` throws is reported as `not-decoded`.
   * Its part of the package is loaded when it is asked for; a service worker imports `syncline/state-codec` too.
   */
  codec?: {
    readonly encode: (value: V, id: string) => object | Promise<object>;
    readonly decode: (stored: any, id: string) => V | Promise<V>;
  };
  /**
   * A space on a node to keep in step with, and by it with other devices. Offline, changes wait in the storage. Its part of
   * the package is loaded when it is asked for; a service worker, which cannot do that, imports `syncline/state-bridge` too.
   */
  bridge?: StateBridge;
  /** Where the WASM module is. Default: `syncline_state_bg.wasm` beside this file, `syncline_bridge_bg.wasm` with a bridge. */
  wasmUrl?: string | URL;
  /** Aborting it is the same as calling {@link State.close}. */
  signal?: AbortSignal;
}

/**
 * One context's view of the shared state. Its methods need no `this`. Operations show at once, resolve when they are
 * stored, and otherwise are taken back and reject with a {@link SynclineError}.
 */
export interface State<V extends object, S = StateSettings> {
  /**
   * Settles when everything that was stored is loaded. Operations need not wait for it. Rejects when the storage could not be read
   * three times in a row: reading goes on, and the event `ready` still comes when it succeeds.
   */
  readonly ready: Promise<void>;
  readonly isReady: boolean;
  readonly size: number;
  /** Frozen. The defaults of your schema, until others were stored. */
  readonly settings: S;
  readonly layout: StateLayout | null;
  /** How this context stands with the node; `null` without a `bridge`. */
  readonly link: StateLink | null;
  /** The entity, frozen; the same object until it changes. */
  readonly get: (id: string) => V | undefined;
  readonly has: (id: string) => boolean;
  readonly ids: () => string[];
  /** For React's `useSyncExternalStore(state.subscribe, state.getSnapshot)`. */
  readonly getSnapshot: () => StateSnapshot<V, S>;
  /** Calls the listener for everything that happens, or for one entity alone, until the returned function is called. */
  readonly subscribe: {
    (listener: (event: StateEvent<V, S>) => void): () => void;
    (id: string, listener: (event: StateEntityEvent<V>) => void): () => void;
  };
  /**
   * Adds an entity, or gives it another value: a plain object of what JSON can hold, 256 KiB at most, without a member
   * `sync`. Anything that storage would change or drop without a word (dates, `undefined`, `NaN`, half a surrogate pair)
   * is refused as `invalid-value` with its path in `fields`.
   */
  readonly put: (id: string, value: V) => Promise<void>;
  /** Removes entities; one that is not there is no error. */
  readonly remove: (ids: string | Iterable<string>) => Promise<void>;
  /** Removes all entities, and nothing else that is in the storage. */
  readonly reset: () => Promise<void>;
  /**
   * Stores all settings, or rejects with `invalid-settings` and every wrong field in `fields`: one that is missing, of the wrong
   * type or form, or not in the schema. To change one: `setSettings({ ...state.settings, size: 3 })`.
   */
  readonly setSettings: (settings: S) => Promise<void>;
  readonly setLayout: (layout: StateLayout) => Promise<void>;
  /** Looks for keys that no index lists; they are removed a minute later if nobody lists them by then. */
  readonly sweep: () => Promise<void>;
  /**
   * This context stops talking to the node, until it is told to go on. Changes wait in the storage. Other contexts on the same
   * storage go on, unless they are paused as well.
   */
  readonly pauseBridge: () => void;
  /** Goes on, also after `needs-auth`: with another token, or by asking the function again. */
  readonly resumeBridge: (options?: { token?: StateBridge["token"] }) => void;
  /** How many entities have changes that the node has not confirmed; 0 without a `bridge`. */
  readonly unsent: number;
  /**
   * Lets go. What is stored stays. With `erase`, for whoever signs out, all of it is removed, all contexts end (event `closed`, reason
   * `erased`), and the answer says how many entities had changes that were not sent: they are lost. Ask before, with {@link State.unsent}.
   */
  readonly close: { (options?: { erase?: false }): void; (options: { erase: true }): Promise<{ unsent: number }> };
}

/**
 * Opens the state that all contexts of an origin or an extension share: what one adds, changes or removes, all others show,
 * and nothing that anyone added is lost, although the storage between them has no compare-and-set.
 *
 * ```js
 * const state = openState();
 * state.subscribe("milk", ({ value }) => (box.checked = value?.checked ?? false));
 * box.onchange = () => state.put("milk", { checked: box.checked, timestamp: Date.now() });
 * ```
 *
 * It registers all its listeners before it returns, so that a service worker may call it in its first turn.
 *
 * @throws {SynclineError} `invalid-argument`, `unsupported-environment`, or `storage-failed` where the browser forbids to listen
 */
export function openState<V extends object = Record<string, unknown>>(
  options?: StateOptions<V> & { settings?: undefined },
): State<V>;
/**
 * With settings of your own. To name the type of your entities, name that of the schema too:
 * `openState<Item, typeof schema>({ settings: { schema } })`.
 */
export function openState<V extends object = Record<string, unknown>, const S extends StateSchema = StateSchema>(
  options: StateOptions<V, S> & { settings: object },
): State<V, SettingsOf<S>>;

/**
 * Loads the WASM module into this page or worker, ahead of {@link openState}, which otherwise does it. A state with a
 * bridge has a module of its own, and always loads it by itself.
 *
 * Calls made at the same time share one download, and once it has succeeded further calls return at once and ignore
 * `input`. After a failure it can be called again.
 *
 * @param input defaults to `syncline_state_bg.wasm` beside this file
 * @throws {SynclineError} (as a rejection) `wasm-blocked` or `wasm-load-failed`
 */
export function init(input?: InitInput | Promise<InitInput>): Promise<void>;

/**
 * The same from bytes or a compiled module that are already here, for workers and for servers that compile nothing. It blocks the
 * thread while it compiles; prefer {@link init} in pages. Node, Bun and Deno find the module by themselves.
 *
 * @throws {SynclineError} `wasm-blocked` or `wasm-load-failed`
 */
export function initSync(module: WasmSource): void;

/**
 * The version of the rules in the WASM module, such as `"0.1.0"`.
 *
 * @throws {SynclineError} `not-initialized` before {@link init} has succeeded
 */
export function version(): string;
