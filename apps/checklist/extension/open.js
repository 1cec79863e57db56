// The extension's state: its entries, and the settings that every context follows.

import "./names.js";
import { openState } from "./pkg/state.js";
import { settings } from "./settings.js";

const { SCHEMA_VERSION } = globalThis.synclineNames;

export function openChecklist() {
  return openState({ schemaVersion: SCHEMA_VERSION, settings });
}
