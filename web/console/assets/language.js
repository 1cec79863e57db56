// English and Japanese, as the browser asks for. What stands in a page is in the dictionary of ja.js, or has its Japanese beside it (`data-ja`); what
// a script says has both: t("Remove", "削除"). Guarantees that a text is in one of the two, and that the page says in which.

const isJapanese = (globalThis.navigator?.languages?.[0] ?? globalThis.navigator?.language ?? "").toLowerCase().startsWith("ja");

/** For numbers and dates. */
export const locale = isJapanese ? "ja-JP" : "en-GB";

/** One of the two. */
export function t(/** @type {string} */ english, /** @type {string} */ japanese) {
  return isJapanese ? japanese : english;
}

/** Puts the page's own words in the language of the browser, before anything of the node's is in it. */
export async function translate(/** @type {HTMLElement} */ root = document.body) {
  if (!isJapanese) return;
  document.documentElement.lang = "ja";
  for (const element of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-ja]"))) {
    element.textContent = element.dataset.ja ?? "";
    element.removeAttribute("data-ja");
  }
  for (const element of /** @type {NodeListOf<HTMLInputElement>} */ (root.querySelectorAll("[data-ja-placeholder]"))) {
    element.placeholder = element.dataset.jaPlaceholder ?? "";
  }
  const { JAPANESE } = await import("./ja.js");
  document.title = document.title.split(" · ").map((part) => JAPANESE[part] ?? part).join(" · ");
  const words = (/** @type {string} */ text) => JAPANESE[text.trim().replace(/\s+/g, " ")];
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = /** @type {Text} */ (texts.currentNode);
    const found = node.parentElement?.closest("code, pre, script, #listing, article, [translate=no]") ? undefined : words(node.data);
    if (found !== undefined) node.data = node.data.replace(/\S[^]*\S|\S/, found);
  }
  for (const name of ["aria-label", "placeholder", "title"]) {
    for (const element of root.querySelectorAll(`[${name}]`)) {
      const found = words(element.getAttribute(name) ?? "");
      if (found !== undefined) element.setAttribute(name, found);
    }
  }
}
