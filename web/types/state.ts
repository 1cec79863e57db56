// Shared state as its users write it, and the mistakes the compiler must catch for them. Compiled, never run.

import { openState, SynclineError, type InitInput, type State, type StateBridge, type StateEvent, type StateLink, type StateSettings, type StateStorage } from "syncline";
import { init, initSync, openState as openDirectly, version } from "syncline/state";

interface Item {
  readonly checked: boolean;
  readonly timestamp: number;
}

export const elsewhere: StateBridge = { url: "https://node.example", space: "list" };
export const whereFrom: InitInput = new URL("https://node.example/syncline_state_bg.wasm");
export const hearsOf = ({ status }: StateLink): string => status;

export async function shares(signal: AbortSignal): Promise<number> {
  const state: State<Item> = openState<Item>({ name: "list", schemaVersion: 2, migrate, signal });
  const unsubscribe = state.subscribe("milk", ({ id, value }) => console.log(id, value?.checked));
  const stop: () => void = state.subscribe((event: StateEvent<Item>) => hears(event));
  await state.ready;
  await state.put("milk", { checked: true, timestamp: Date.now() });
  await state.remove(["milk", "bread"]);
  await state.remove("milk");
  await state.setLayout("C");
  await state.sweep();
  await state.reset();
  unsubscribe();
  stop();
  const { entities, settings } = state.getSnapshot();
  const colour: string | undefined = settings?.themeToken;

  // @ts-expect-error a member is missing
  await state.put("milk", { checked: true });
  // @ts-expect-error an entity is an object
  openState<string>();
  // @ts-expect-error what was handed out is not for writing
  state.getSnapshot().entities.set("milk", { checked: true, timestamp: 1 });
  // @ts-expect-error it may be gone
  const checked: boolean = state.get("milk").checked;
  // @ts-expect-error no such layout
  await state.setLayout("D");
  // @ts-expect-error half of the settings
  await state.setSettings({ featureEnabled: true });
  state.close();
  return entities.size + state.size + Number(checked) + (colour?.length ?? 0);
}

function migrate(version: number, id: string, value: unknown): Item {
  return { checked: Boolean((value as { done?: boolean }).done), timestamp: version + id.length };
}

function hears(event: StateEvent<Item>): string {
  switch (event.type) {
    case "entity":
      return `${event.id} ${event.value?.timestamp}`;
    case "cleared":
      return event.ids.join();
    case "settings":
      return event.settings.scopeTargetId ?? "";
    case "ready":
      return "ready";
    case "link":
      return `${event.status} ${event.detail ?? ""}`;
    case "report":
      return `${event.report} ${event.detail ?? ""}`;
    case "closed":
      return event.error?.code ?? event.reason;
    default:
      return event satisfies never;
  }
}

export async function stores(settings: StateSettings): Promise<string[]> {
  await init();
  initSync(new Uint8Array(8));
  const state = openDirectly({ storage: memory() });
  try {
    await state.setSettings(settings);
    return [version()];
  } catch (error) {
    if (!(error instanceof SynclineError)) throw error;
    return (error.fields ?? []).map(({ field, problem }) => `${field} ${problem}`);
  }
}

function memory(): StateStorage {
  const keys = new Map<string, string>();
  return {
    listen: ({ changed, message, missed, isOurs }) => console.log(changed, message, missed, isOurs("a")),
    get: async (names) => names.map((name) => [name, keys.get(name)] as const),
    set: async (entries) => entries.forEach(([key, text]) => keys.set(key, text)),
    remove: async (names) => names.forEach((name) => keys.delete(name)),
    list: async () => [...keys.keys()],
    send: async () => "no-receiver",
    close: () => keys.clear(),
  };
}
