// Starts a worker, also in pages whose policy wants Trusted Types.
//
// Guarantees: a worker, or an error that says what keeps it away. Whether its script can be loaded and run shows later, as an
// `error` event of the worker: workerError().

import { SynclineError } from "./errors.js";

const POLICY = Symbol.for("syncline.policy");
const NAME = "syncline";

/** `make` is where `new Worker(…)` is written out, so that bundlers find it; `blocked(cause, why)` makes the error. */
export function startWorker(make, blocked) {
  try {
    return make();
  } catch (cause) {
    if (globalThis.trustedTypes === undefined) throw blocked(cause);
    return startTrusted(make, cause, blocked);
  }
}

/** What an `error` event of a worker means; `name` is whose worker it is, `blocked` as above. */
export function workerError({ message, error }, name, blocked) {
  // A worker whose script did not load fires a bare event; an ErrorEvent with a text comes from running code.
  if (!message) return blocked(undefined);
  // It was loaded, and not a line of it was run: a browser without module workers takes it for another kind of script.
  if (message.includes("SyntaxError")) return blocked(undefined, "this browser has no module workers, or the script is not the package's own");
  return new SynclineError("internal", `${name} failed: ${message}`, { cause: error ?? undefined });
}

function startTrusted(make, refusal, blocked) {
  const Plain = globalThis.Worker;
  let policy;
  try {
    policy = globalThis[POLICY] ??= trustedTypes.createPolicy(NAME, { createScriptURL: ownScript });
  } catch (cause) {
    throw blocked(cause, `its address must be a trusted one: allow the policy ${NAME} in trusted-types of the Content-Security-Policy`);
  }
  // For as long as make() runs: the address is known there alone.
  globalThis.Worker = function (address, options) {
    return new Plain(policy.createScriptURL(String(address)), options);
  };
  try {
    return make();
  } catch {
    throw blocked(refusal);
  } finally {
    globalThis.Worker = Plain;
  }
}

function ownScript(address) {
  if (new URL(address, document.baseURI).origin !== location.origin) throw new TypeError("not a script of this origin");
  return address;
}
