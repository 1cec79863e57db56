// A value of JavaScript as the text that is stored.
//
// Guarantees: what comes back is what went in, except that negative zero comes back as zero. Storage areas drop or change what
// they cannot keep without a word, so a value is written part by part, and what would be lost is refused with its path. The rules
// read the text again, put its members in order and take nothing larger or deeper, whoever wrote it.

import { SynclineError } from "./errors.js";

// As the rules have them.
const BYTES_MAX = 256 * 1024;
const DEPTH_MAX = 64;
const RESERVED = "sync";
const LONE_SURROGATE = /\p{Surrogate}/u;
const CANNOT = "cannot be stored";
const FOREIGN = { undefined: "undefined", function: "a function", symbol: "a symbol", bigint: "a bigint" };

export function encode(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) refuse([], "not an object");
  const writing = { path: [], size: 0 };
  const text = write(writing, value);
  if (new TextEncoder().encode(text).length > BYTES_MAX) refuse([], "too large");
  return text;
}

function write(writing, value) {
  const { path } = writing;
  // Something that holds itself ends here, too.
  if (path.length > DEPTH_MAX) refuse(path, "nested too deeply");
  switch (typeof value) {
    case "string":
      return quote(writing, value);
    case "boolean":
      return String(value);
    case "number":
      if (!Number.isFinite(value)) refuse(path, "a number that JSON cannot hold");
      return String(value);
    case "object":
      if (value === null) return "null";
      if (Array.isArray(value)) return `[${Array.from(value, (item, index) => within(writing, index, item))}]`;
      if (isPlain(value)) return `{${Reflect.ownKeys(value).map((name) => member(writing, name, value))}}`;
      return refuse(path, `${value instanceof Date ? "a date" : "an object that is not plain"} ${CANNOT}`);
    default:
      return refuse(path, `${FOREIGN[typeof value]} ${CANNOT}`);
  }
}

function member(writing, name, value) {
  if (typeof name === "symbol") refuse(writing.path, `${FOREIGN.symbol} ${CANNOT}`);
  if (name === RESERVED && writing.path.length === 0) refuse([name], "the name is reserved");
  return `${quote(writing, name)}:${within(writing, name, value[name])}`;
}

function within(writing, place, value) {
  // Far more than fits is not written to the end.
  if (++writing.size > BYTES_MAX) refuse([], "too large");
  writing.path.push(place);
  const text = write(writing, value);
  writing.path.pop();
  return text;
}

function quote(writing, text) {
  if (LONE_SURROGATE.test(text)) refuse(writing.path, "text with half a surrogate pair");
  writing.size += text.length;
  return JSON.stringify(text);
}

// Of another realm, such as a frame, the prototype is another object.
function isPlain(value) {
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function refuse(path, problem) {
  const field = path.join(".").toWellFormed?.() ?? path.join(".");
  throw new SynclineError("invalid-value", `the value ${CANNOT}: ${field === "" ? "" : `${field}: `}${problem}`, {
    fields: [{ field, problem }],
  });
}
