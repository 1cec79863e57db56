// Shared state as its users write it, and the mistakes the compiler must catch for them. Compiled, never run.

import { openState, SynclineError, type InitInput, type State, type StateBridge, type StateEvent, type StateLink, type SettingsOf, type StateSettings, type StateStorage } from "syncline";
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
  const anything: unknown = settings.whatever;

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
  state.pauseBridge();
  state.resumeBridge();
  state.close();
  return entities.size + state.size + Number(checked) + Number(anything);
}

const schema = {
  isLoud: { type: "boolean", default: false },
  size: { type: "choice", choices: ["small", "large"], default: "small" },
  volume: { type: "number", default: 5, min: 0, max: 10 },
  room: { type: "string", maxLength: 40, pattern: /^[a-z]+$/, problem: "must be in small letters" },
} as const;

export async function setsSettings(): Promise<SettingsOf<typeof schema>> {
  const state = openState({
    settings: { schema, check: ({ isLoud, room }) => (isLoud && room === undefined ? [{ field: "room", problem: "is needed" }] : []) },
  });
  const size: "small" | "large" = state.settings.size;
  const room: string | undefined = state.settings.room;
  await state.setSettings({ isLoud: true, size, volume: 7 });
  await state.setSettings({ ...state.settings, room: room ?? "kitchen" });
  state.subscribe((event) => event.type === "settings" && event.settings.volume.toFixed());

  // @ts-expect-error half of the settings
  await state.setSettings({ isLoud: true });
  // @ts-expect-error no such choice
  await state.setSettings({ ...state.settings, size: "huge" });
  // @ts-expect-error not a setting
  await state.setSettings({ ...state.settings, colour: "red" });
  // @ts-expect-error frozen
  state.settings.volume = 3;

  const items = openState<Item, typeof schema>({ settings: { schema } });
  const inline = openState({ settings: { schema: { isLoud: { type: "boolean", default: true } } } });
  const isLoud: boolean = inline.settings.isLoud;
  return { ...items.settings, isLoud };
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
      return Object.keys(event.settings).join();
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

export function encodesValues(): void {
  const state = openState<{ text: string }>({
    codec: {
      encode: async ({ text }, id) => ({ sealed: `${id}:${text}` }),
      decode: ({ sealed }: { sealed: string }) => ({ text: sealed }),
    },
  });
  state.put("a", { text: "b" });
  // @ts-expect-error a codec has both ways
  openState({ codec: { encode: (value: object) => value } });
}

/** A state of one person, on a node that wants to know who that is. */
export async function signsInAndOut(name: string): Promise<number> {
  const token = async () => (await fetch("/token")).text();
  const state = openState<Item>({ user: name, bridge: { url: "https://node.example", space: `cart-${name}`, token } });
  state.subscribe((event) => {
    if (event.type === "link" && event.status === "needs-auth") console.log(event.detail, event.grant);
    if (event.type === "closed" && event.reason === "erased") console.log("signed out elsewhere");
  });
  state.resumeBridge({ token: async () => null });
  // @ts-expect-error a token is a text or a function
  state.resumeBridge({ token: 7 });
  const waiting: number = state.unsent;
  const { unsent } = await state.close({ erase: true });
  return waiting + unsent;
}
