// What people paste into the scan field, as ISBNs that may be.

const SEPARATED = /[\s,;|/、，；・]+/u;
// The digits of an ISBN with hyphens or spaces inside, so that "978 4 10 101001 4" is one. Not a part of a longer number: that
// is left whole, for the node to say what is wrong with it.
const SPACED = /(?<![\d-])(?:97[89][\s-]?)?(?:\d[\s-]?){9}[\dXx](?![\d])/gu;

/** What may be ISBNs in a pasted text, each once, in order; the node says which of them are. */
export function candidates(/** @type {string} */ text) {
  /** @type {string[]} */
  const found = [];
  const rest = text.normalize("NFKC").replace(/[‐-―−]/gu, "-").replace(SPACED, (match) => {
    found.push(match.trim());
    return " ";
  });
  for (const part of rest.replace(/ISBN(?:-1[03])?:?/giu, " ").split(SEPARATED)) {
    if (/[\p{L}\p{N}]/u.test(part)) found.push(part);
  }
  return [...new Set(found)];
}
