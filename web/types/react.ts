// The hooks, as components use them. Compiled, never run.

import { openState } from "syncline";
import { useAutoSave, useEntities, useEntity, useLink, useLock, useQueue, useSettings, useViewer, type BoundDocument, type HeldLock } from "syncline/react";
import { createQueue, type QueueStatus } from "syncline/queue";

interface Item {
  checked: boolean;
}

const state = typeof window === "undefined" ? null : openState<Item>();
const queue = createQueue({ name: "words", run: async (key) => key.length });
const other = openState({ settings: { schema: { colour: { type: "string", default: "red" } } } });

export function Component(): string {
  const item: Item | undefined = useEntity(state, "milk");
  const all: ReadonlyMap<string, Item> = useEntities(state);
  const colour: string | undefined = useSettings(other).colour;
  const status: QueueStatus | null = useQueue(queue);
  const { isHeld, lease, error }: HeldLock = useLock({ project: "export" });
  const { ref, save }: BoundDocument = useAutoSave({ project: "notes" });
  useViewer({ endpoint: "/api/viewer" });
  ref(document.createElement("textarea"));
  // @ts-expect-error entities have the type that the state was opened with
  const wrong: string | undefined = useEntity(state, "milk")?.checked;
  return [item?.checked, all.size, colour, status?.done, isHeld, lease?.source, error?.code, save?.text, useLink(state)?.status, wrong].join(" ");
}
