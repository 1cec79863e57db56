// Hooks for React. Types and documentation: react.d.ts.
//
// Guarantees: on a server every hook gives the same constant, and so does the first render in a page, so that both agree; nothing is
// opened before a component is mounted, and nothing is left when it is gone, however often effects are run (StrictMode). A component
// is rendered again when what it asked for has changed, and only then.

import { useCallback, useEffect, useState, useSyncExternalStore } from "react";
import { openAutoSave } from "./autosave.js";
import { SynclineError } from "./errors.js";
import { withProjectLock } from "./lock.js";
import { startViewer } from "./viewer.js";

export { SynclineError };

const NO_SETTINGS = Object.freeze({});
const NO_ENTITIES = new Map();
const NOT_HELD = Object.freeze({ isHeld: false });
// What a queue that is not kept does is told when a key ends; its numbers move before.
const LOOK_MS = 500;
// Between a lease that was lost and the next question for one.
const AGAIN_MS = 1_000;

const nothing = () => {};

// `read` must give the same value until it changes.
function useStore(state, id, read, onServer) {
  const subscribe = useCallback(
    (changed) => (state == null ? nothing : id === undefined ? state.subscribe(changed) : state.subscribe(id, changed)),
    [state, id],
  );
  return useSyncExternalStore(subscribe, () => (state == null ? onServer : read(state)), () => onServer);
}

export function useEntity(state, id) {
  return useStore(state, id, (state) => state.get(id), undefined);
}

export function useEntities(state) {
  return useStore(state, undefined, (state) => state.getSnapshot().entities, NO_ENTITIES);
}

export function useSettings(state) {
  return useStore(state, undefined, (state) => state.settings, NO_SETTINGS);
}

export function useLink(state) {
  return useStore(state, undefined, (state) => state.link, null);
}

export function useQueue(queue) {
  const [status, setStatus] = useState(null);
  useEffect(() => {
    if (queue == null) return setStatus(null);
    const look = () => {
      const now = queue.status();
      setStatus((last) => (JSON.stringify(last) === JSON.stringify(now) ? last : now));
    };
    look();
    const unsubscribe = queue.subscribe(look);
    const timer = setInterval(look, LOOK_MS);
    return () => {
      clearInterval(timer);
      unsubscribe();
    };
  }, [queue]);
  return status;
}

export function useViewer(options = {}) {
  const { endpoint, room, user } = options;
  // Of the options, those of the first call of a page count anyway; functions in them are new with every render.
  useEffect(() => startViewer(options).stop, [endpoint && `${endpoint}`, room, user]);
}

export function useLock(options = {}) {
  const { project = "project" } = options;
  const [lock, setLock] = useState(NOT_HELD);
  useEffect(() => {
    const over = new AbortController();
    inTurn(project, () => hold(options, over.signal, setLock));
    return () => over.abort();
  }, [project]);
  return lock;
}

// A page holds a project once: hooks that want the same one take turns, as an effect does that is undone and run again.
const turns = new Map();

function inTurn(project, work) {
  const turn = (turns.get(project) ?? Promise.resolve()).then(work).catch(nothing);
  turns.set(project, turn);
  return turn;
}

async function hold(options, over, tell) {
  while (!over.aborted) {
    try {
      await withProjectLock({ ...options, signal: over }, async (lease, lost) => {
        tell({ isHeld: true, lease });
        await new Promise((resolve) => [over, lost].forEach((signal) => (signal.aborted ? resolve() : signal.addEventListener("abort", resolve, { once: true }))));
      });
    } catch (error) {
      if (!over.aborted) tell({ isHeld: false, error });
      if (error.code !== "lease-expired" && error.retryable !== true) return;
    }
    if (over.aborted) return tell(NOT_HELD);
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

export function useAutoSave(options = {}) {
  const { project, file } = options;
  const [editor, ref] = useState(null);
  const [{ save, state, error }, show] = useState({ save: null, state: null });
  useEffect(() => {
    let opened;
    try {
      opened = openAutoSave(options);
    } catch (error) {
      return show({ save: null, state: null, error });
    }
    const look = () => show({ save: opened, state: opened.state });
    const { unsubscribe } = opened.subscribe(look);
    look();
    opened.ready.catch((error) => show({ save: opened, state: opened.state, error }));
    return () => {
      unsubscribe();
      void opened.close();
    };
  }, [project, file]);
  useEffect(() => (save === null || editor === null ? undefined : save.bind(editor)), [save, editor]);
  return { ref, save, state, error };
}
