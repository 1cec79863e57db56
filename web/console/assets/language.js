// English and Japanese, as the browser asks for. What stands in a page has its Japanese beside it (`data-ja`), and so has what a script says:
// t("Remove", "削除"). Guarantees that a text is in one of the two, and that the page says in which.

const isJapanese = (navigator.languages?.[0] ?? navigator.language ?? "").toLowerCase().startsWith("ja");

/** One of the two. */
export function t(/** @type {string} */ english, /** @type {string} */ japanese) {
  return isJapanese ? japanese : english;
}

/** Puts the page's own words in the language of the browser. */
export function translate(/** @type {HTMLElement} */ root = document.body) {
  if (!isJapanese) return;
  for (const element of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-ja]"))) {
    element.textContent = element.dataset.ja ?? "";
    element.lang = "ja";
  }
  for (const element of /** @type {NodeListOf<HTMLInputElement>} */ (root.querySelectorAll("[data-ja-placeholder]"))) {
    element.placeholder = element.dataset.jaPlaceholder ?? "";
  }
  const main = document.getElementById("main");
  if (main) main.lang = "ja";
}
