// The credential of a bridge: nothing, a text, or a function that is asked for one.
//
//     const token = Token.of(() => fetch("/token").then((answer) => answer.text()));
//     const headers = await token.headers();
//
// Guarantees: one question at a time, whoever needs the answer; a token is used until 30 s before its end, counted from its arrival
// by its own `exp - iat`, because the clock of a device may be wrong; one that a node called expired is asked for anew; a
// function that does not answer within 30 s has failed.

const EARLY_MS = 30_000;
const ANSWER_MAX_MS = 30_000;

const asked = new WeakMap();

export class Token {
  given;
  #held;
  #text;
  #endsAt = 0;

  static of(given) {
    if (typeof given !== "function") return new Token(given);
    if (!asked.has(given)) asked.set(given, new Token(given));
    return asked.get(given);
  }

  constructor(given) {
    this.given = given;
  }

  async headers() {
    const token = typeof this.given === "function" ? await this.#current() : this.given;
    return token === undefined ? {} : { authorization: `Bearer ${token}` };
  }

  // A node said so of the one in `headers`. By now there may be another.
  expired({ authorization }) {
    if (authorization === `Bearer ${this.#text}`) this.#endsAt = 0;
  }

  #current() {
    if (Date.now() < this.#endsAt) return this.#held;
    this.#endsAt = Infinity;
    let timer;
    const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error("no token came in time")), ANSWER_MAX_MS)));
    this.#held = Promise.race([Promise.resolve().then(this.given), late]).then((token) => {
      if (typeof token !== "string") throw new TypeError("the token function gave no text");
      const livesMs = lifetimeMs(token);
      this.#text = token;
      this.#endsAt = Date.now() + Math.max(livesMs - EARLY_MS, livesMs / 2);
      return token;
    });
    this.#held.catch(() => (this.#endsAt = 0)).finally(() => clearTimeout(timer));
    return this.#held;
  }
}

// How long a signed token counts; one that does not say so counts until a node says otherwise.
function lifetimeMs(token) {
  try {
    const { exp, iat } = JSON.parse(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
    return exp > iat ? (exp - iat) * 1_000 : Infinity;
  } catch {
    return Infinity;
  }
}
