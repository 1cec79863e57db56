// The words of the rules for why something was not stored, as the errors that callers see.

import { SynclineError } from "./errors.js";
import { invalid } from "./state-options.js";

export function refusal(reason, cause) {
  switch (reason) {
    case "id":
      return invalid("an id must be a text of 1 to 256 bytes without control characters");
    case "settings":
      return new SynclineError("invalid-settings", "the settings are not valid", { fields: [] });
    case "value":
      return new SynclineError("invalid-value", "the value cannot be stored: too large", { fields: [] });
    case "full":
      return new SynclineError("state-full", "there are as many entities as a state may hold");
    case "busy":
      return new SynclineError("busy", "too many operations wait to be stored", { retryable: true });
    case "quota":
      return new SynclineError("quota-exceeded", "the storage is full; what was changed has been changed back", { cause });
    case "closed":
      return stopped();
    default:
      return new SynclineError("storage-failed", "the storage failed; what was changed has been changed back", {
        retryable: true,
        cause,
      });
  }
}

export function stopped() {
  return new SynclineError("stopped", "the state was closed");
}
