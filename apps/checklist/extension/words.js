// What the extension says in sentences: failures of the state, and what it reports.

/** A failure of an operation, for people. Everything that failed has been taken back. */
export function sentenceOf(error) {
  switch (error?.code) {
    case "quota-exceeded":
      return "Not stored: the browser gives this extension no more room. Remove something first.";
    case "state-full":
      return "Not stored: there are as many entries as fit.";
    case "busy":
      return "Not stored: too much is waiting to be stored. Try again in a moment.";
    case "newer-schema":
      return "A newer version of this extension has written here. Update the extension to go on.";
    case "wasm-blocked":
    case "wasm-load-failed":
      return `The rules cannot be loaded: ${error.message}. Reload the extension.`;
    default:
      return `Not stored: ${error?.message ?? error}.`;
  }
}

/** A report of the state as `{ text, detail }`; null for what concerns nobody. */
export function noticeOf({ report, detail }) {
  switch (report) {
    case "poisoned":
      return { text: "Cannot be read, and is left alone", detail };
    case "not-migrated":
      return { text: "Could not be brought to the new version", detail };
    case "newer-schema":
      return { text: "Written by a newer version", detail };
    case "storage-failed":
      return { text: "The storage refused something, which is tried again", detail };
    default:
      // That nobody heard a hint, or that everything was read again, is nothing to do anything about.
      return null;
  }
}

export function sizeOf(bytes) {
  if (bytes < 1_000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${(bytes / 1_000).toFixed(1)} KB`;
  return `${(bytes / 1_000_000).toFixed(2)} MB`;
}
