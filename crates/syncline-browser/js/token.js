// The credential of a page: nothing, a text, or a function that is asked for one.
//
//     const token = Token.of(() => fetch("/token").then((answer) => answer.text()));
//     const headers = await token.headers(signal);
//     const need = token.judge(headers, response.status, await response.text());
//
// Guarantees: one question at a time for one function, whoever needs the answer; when to ask is decided by the rules (WASM), which
// are loaded with the first question. A function that does not answer within 30 s has failed. `judge` says what the node's answer
// means for the credential: nothing, that another one is to be asked for (AGAIN), or that a person has to do something.

import * as rules from "./syncline_token.js";
import { isSecret } from "./secret.js";
import { wasmModule } from "./wasm.js";

const ANSWER_MAX_MS = 30_000;
// The word of a node for a token that was good and has ended.
const EXPIRED = "token-expired";
const MISSING = "token-missing";

export const AGAIN = "again";

export const { init } = wasmModule({
  instantiate: rules.default,
  instantiateSync: rules.initSync,
  version: rules.version,
  // Written out like this, bundlers find the file and ship it.
  address: () => new URL("./syncline_token_bg.wasm", import.meta.url),
});

// What keeps a page from a node until a person does something: the node's stable word, and the grant that is missing.
export class NeedsAuth extends Error {
  constructor(code, grant) {
    super(`the node wants another credential: ${code}`);
    this.code = code;
    this.grant = grant;
  }
}

const asked = new WeakMap();

export class Token {
  given;
  // Of the token that was shown last: whose it is, if it says so.
  subject;
  #user;
  #schedule;
  #text;
  #asking;

  // `user`: for whom, where that is known. What was given for another one is not shown for this one.
  static of(given, user) {
    if (typeof given !== "function") return new Token(given);
    if (!asked.has(given)) asked.set(given, new Token(given));
    const token = asked.get(given);
    if (user !== undefined && token.#user !== undefined && token.#user !== user) token.reset();
    token.#user = user ?? token.#user;
    return token;
  }

  constructor(given) {
    this.given = given;
    if (typeof given === "string") this.subject = claims(given).sub;
  }

  // When connections that stand are to be renewed, by performance.now().
  get renewAt() {
    return this.#schedule?.renewAt;
  }

  async headers(signal) {
    const token = typeof this.given === "function" ? await this.#current(signal) : this.given;
    return token === undefined ? {} : { authorization: `Bearer ${token}` };
  }

  // What an answer to a request with these headers says about them: AGAIN, a NeedsAuth, or nothing.
  judge({ authorization }, status, text) {
    const isHeld = authorization === `Bearer ${this.#text}`;
    if (status !== 401 && status !== 403) {
      if (isHeld && status < 400) this.#schedule?.accepted();
      return undefined;
    }
    const { code = `status-${status}`, grant } = refusalOf(text);
    if (code !== EXPIRED || typeof this.given !== "function") return new NeedsAuth(code, grant);
    // By now there may be another.
    if (isHeld) {
      this.#schedule.expired(performance.now(), random());
      this.#text = undefined;
    }
    return AGAIN;
  }

  // Somebody did something: the next question is asked at once.
  reset() {
    this.#schedule?.reset();
    this.#text = undefined;
  }

  async #current(signal) {
    if (this.#schedule === undefined) {
      await init();
      this.#schedule ??= new rules.TokenRefresh();
    }
    for (;;) {
      signal?.throwIfAborted();
      const wait = this.#schedule.step(performance.now());
      if (wait === undefined) return this.#text;
      if (wait > 0) await pause(wait, signal);
      else await (this.#asking ??= this.#ask().finally(() => (this.#asking = undefined)));
    }
  }

  async #ask() {
    let timer;
    const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error("no token came in time")), ANSWER_MAX_MS)));
    try {
      const token = await Promise.race([Promise.resolve().then(this.given), late]);
      // Nobody is signed in.
      if (token === undefined || token === null || token === "") throw new NeedsAuth(MISSING);
      if (typeof token !== "string") throw new TypeError("the token function gave no text");
      if (isSecret(token)) throw new NeedsAuth("secret-key");
      if (token === this.#text) return this.#schedule.repeated(performance.now(), random());
      const { exp, iat, sub } = claims(token);
      this.#text = token;
      this.subject = sub;
      this.#schedule.arrived(performance.now(), (exp - iat) * 1_000, random());
    } catch (error) {
      const now = performance.now();
      this.#schedule.failed(now, random());
      // The one that is held may still do.
      if (error instanceof NeedsAuth || this.#schedule.step(now) !== undefined) throw error;
    } finally {
      clearTimeout(timer);
    }
  }
}

// What a signed token says of itself; of anything else nothing is known. It proves nothing here: nodes check it.
function claims(token) {
  try {
    const bytes = Uint8Array.from(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")), (byte) => byte.charCodeAt(0));
    const { exp, iat, sub } = JSON.parse(new TextDecoder().decode(bytes));
    return { exp, iat, sub: typeof sub === "string" ? sub : undefined };
  } catch {
    return {};
  }
}

// The stable word of an error's body, and the grant that it names.
export function refusalOf(text) {
  try {
    const { code, grant } = JSON.parse(text);
    return {
      code: /^[a-z-]{1,64}$/.test(code) ? code : undefined,
      grant: typeof grant === "string" ? grant : undefined,
    };
  } catch {
    return {};
  }
}

function random() {
  return crypto.getRandomValues(new Uint32Array(1))[0];
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
