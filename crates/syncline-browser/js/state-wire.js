// Inputs and effects as texts, on their way to the rules and back: fields and effects have a mark between them that neither an
// id nor JSON can have.

export const FIELD = "\0";
export const EFFECT = "\x01";

// Key and contents by turns. Contents with one of the two marks are no JSON with another character in its place, either.
export function flat(entries) {
  return entries
    .filter(([key]) => isPrintable(key))
    .flatMap(([key, text = ""]) => [key, isPrintable(text) ? text : text.replace(/[\0\x01]/g, "\ufffd")]);
}

export function inPairs(fields) {
  const found = [];
  for (let index = 0; index + 1 < fields.length; index += 2) found.push([fields[index], fields[index + 1]]);
  return found;
}

export function isPrintable(text) {
  return !text.includes(FIELD) && !text.includes(EFFECT);
}
