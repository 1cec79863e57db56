// Settings that follow a schema of the caller's: one document that every context shows, checked field by field.
//
// Guarantees: what is wrong is refused with every wrong field before anything is written; fields that are stored and that the
// schema does not know (a newer program's) stay as they are. A stored document that does not follow the schema is reported by
// the rules and not followed. Without a schema every plain object will do.

import { SynclineError } from "./errors.js";
import { encode } from "./state-value.js";

const ROOT = "settings";
const WRONG_TYPE = {
  boolean: "must be true or false",
  number: "must be a number",
  string: "must be a string",
};
const LONE_SURROGATE = /\p{Surrogate}/u;

export class SettingsSchema {
  #fields;
  #check;
  #defaults;

  constructor({ schema, check } = {}) {
    this.#fields = schema === undefined ? undefined : new Map(Object.entries(schema));
    this.#check = check ?? (() => []);
    this.#fields?.forEach(readField);
    const defaults = [...(this.#fields ?? [])].filter(([, field]) => field.default !== undefined);
    this.#defaults = Object.fromEntries(defaults.map(([name, field]) => [name, field.default]));
  }

  // What holds when this text is stored; the empty text: nothing is.
  read(text) {
    const stored = text === "" ? {} : JSON.parse(text);
    return deepFreeze(this.#fields === undefined ? stored : { ...this.#defaults, ...this.#known(stored, true) });
  }

  // Whether what is stored can be followed.
  takes(text) {
    try {
      const settings = this.read(text);
      return this.#problems(settings).length === 0;
    } catch {
      return false;
    }
  }

  // The text to be stored in the place of `before`, or throws.
  write(settings, before) {
    if (typeof settings !== "object" || settings === null || Array.isArray(settings)) refuse([problem(ROOT, "must be an object")]);
    // A member that is undefined is one that is not there.
    const given = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
    const problems = this.#problems(given);
    if (problems.length > 0) refuse(problems);
    const kept = before === "" || this.#fields === undefined ? {} : this.#known(JSON.parse(before), false);
    try {
      return encode({ ...kept, ...given });
    } catch (error) {
      if (error?.code === "invalid-value") refuse(error.fields);
      throw error;
    }
  }

  #known(settings, is) {
    return Object.fromEntries(Object.entries(settings).filter(([name]) => this.#fields.has(name) === is));
  }

  #problems(settings) {
    if (this.#fields === undefined) return [];
    const found = [];
    for (const [name, field] of this.#fields) {
      const wrong = settings[name] === undefined && field.default === undefined ? undefined : problemOf(field, settings[name]);
      if (wrong !== undefined) found.push(problem(name, wrong));
    }
    for (const name of Object.keys(settings)) {
      if (!this.#fields.has(name)) found.push(problem(name, "is not a setting"));
    }
    // What fields mean together is asked of those that are right.
    const wrong = new Set(found.map(({ field }) => field));
    const right = Object.fromEntries(Object.entries(settings).filter(([name]) => !wrong.has(name)));
    const more = [...(this.#check(right) ?? [])].filter(({ field }) => !wrong.has(field));
    const all = [...found, ...more.map(({ field, problem: text }) => problem(field, text))];
    // In the order of the schema, as a form has them.
    const names = [...this.#fields.keys()];
    const place = ({ field }) => (names.includes(field) ? names.indexOf(field) : names.length);
    return all.sort((one, other) => place(one) - place(other));
  }
}

function readField(field, name) {
  const { type, choices, pattern, maxLength, min, max } = Object(field);
  const isChoice = type === "choice" && Array.isArray(choices) && choices.length > 0 && choices.every((one) => typeof one === "string");
  const isKnown = type in WRONG_TYPE || isChoice;
  const hasBounds = [maxLength, min, max].every((bound) => bound === undefined || Number.isFinite(bound));
  const hasPattern = pattern === undefined || pattern instanceof RegExp;
  if (isKnown && hasBounds && hasPattern && (field.default === undefined || problemOf(field, field.default) === undefined)) return;
  throw new SynclineError("invalid-argument", `settings.schema.${name} must be a boolean, number, string or choice, with a default that it takes`);
}

function problemOf(field, value) {
  const { type, choices, pattern, maxLength = Infinity, min = -Infinity, max = Infinity } = field;
  if (type === "choice") return choices.includes(value) ? undefined : `must be ${choices.map((one) => JSON.stringify(one)).join(" or ")}`;
  if (typeof value !== type || Number.isNaN(value) || Math.abs(value) === Infinity) return WRONG_TYPE[type];
  if (type === "number" && value < min) return `must be ${min} at least`;
  if (type === "number" && value > max) return `must be ${max} at most`;
  if (type !== "string") return undefined;
  if (LONE_SURROGATE.test(value)) return "has half a surrogate pair";
  if (value.length > maxLength) return `may have ${maxLength} characters at most`;
  // From the beginning, also where somebody gave a pattern that remembers.
  return pattern === undefined || value.search(pattern) >= 0 ? undefined : (field.problem ?? "has the wrong form");
}

function problem(field, text) {
  return { field, problem: text };
}

function refuse(fields) {
  const sentence = fields.map(({ field, problem: text }) => `${field} ${text}`).join("; ");
  throw new SynclineError("invalid-settings", `the settings are not valid: ${sentence}`, { fields });
}

function deepFreeze(value) {
  if (typeof value === "object" && value !== null) Object.values(Object.freeze(value)).forEach(deepFreeze);
  return value;
}
