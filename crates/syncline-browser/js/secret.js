// What a page may be given as its token: nothing, a text, or a function that is asked for one. A secret key is none.

import { SynclineError } from "./errors.js";

const PREFIX = "slk_";

// Everybody can read what a page holds.
export function isSecret(token) {
  return typeof token === "string" && token.startsWith(PREFIX);
}

export function readToken(token) {
  if (!["undefined", "string", "function"].includes(typeof token)) {
    throw new SynclineError("invalid-argument", "token must be a text or a function");
  }
  if (!isSecret(token)) return;
  const remedy = "take a publishable key (slp_), or a function that asks your back end for a token";
  throw new SynclineError("secret-key", `token is a secret key, which belongs on servers: everybody can read what a page holds; ${remedy}`);
}
