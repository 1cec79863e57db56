// A value of JavaScript as the rules store it.
//
// Guarantees: what comes back is what went in. Storage areas drop or change what they cannot keep without a word, so a
// value is handed over part by part, and what would be lost is refused with its path.

import { Foreign } from "./syncline_state.js";
import { SynclineError } from "./errors.js";

const FOREIGN = {
  undefined: Foreign.Undefined,
  function: Foreign.Function,
  symbol: Foreign.Symbol,
  bigint: Foreign.BigInt,
};

// `rules`: the exports of the module in use.
export function encode(rules, value) {
  const encoder = new rules.ValueEncoder();
  hand(encoder, value);
  const text = encoder.finish();
  if (!text.startsWith("!")) return text;
  const [path, problem] = text.slice(1).split("\0");
  throw new SynclineError("invalid-value", `the value cannot be stored: ${path === "" ? "" : `${path}: `}${problem}`, {
    fields: [{ field: path, problem }],
  });
}

function hand(encoder, value) {
  switch (typeof value) {
    case "string":
      return encoder.text(units(value));
    case "boolean":
      return encoder.bool(value);
    case "number":
      // Negative zero is stored as zero, as JSON.stringify() does.
      return encoder.number(String(value));
    case "object":
      if (value === null) return encoder.null();
      if (Array.isArray(value)) return handList(encoder, value);
      if (isPlain(value)) return handMap(encoder, value);
      return encoder.foreign(value instanceof Date ? Foreign.Date : Foreign.Object);
    default:
      return encoder.foreign(FOREIGN[typeof value]);
  }
}

function handList(encoder, list) {
  encoder.beginList();
  for (let index = 0; index < list.length && !encoder.isRefused; index++) hand(encoder, list[index]);
  encoder.end();
}

function handMap(encoder, map) {
  encoder.beginMap();
  for (const name of Reflect.ownKeys(map)) {
    if (encoder.isRefused) break;
    if (typeof name === "symbol") {
      encoder.foreign(Foreign.Symbol);
      continue;
    }
    encoder.name(units(name));
    hand(encoder, map[name]);
  }
  encoder.end();
}

// Of another realm, such as a frame, the prototype is another object.
function isPlain(value) {
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

// As UTF-16: on its way as text, half of a surrogate pair would become a question mark before anybody saw it.
function units(text) {
  const found = new Uint16Array(text.length);
  for (let index = 0; index < text.length; index++) found[index] = text.charCodeAt(index);
  return found;
}
