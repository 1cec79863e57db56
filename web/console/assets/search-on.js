// A button that looks further back than what was read: page by page, until something is found or nothing is left.

/**
 * @param {HTMLElement} button hidden until it is of use
 * @param {{ found: () => boolean, isWhole: () => boolean, readMore: () => Promise<unknown>, failed: (error: any) => void }} list
 */
export function openSearch(button, { found, isWhole, readMore, failed }) {
  let turn = 0;
  button.addEventListener("click", async () => {
    const mine = (turn += 1);
    button.setAttribute("aria-busy", "true");
    try {
      // One page at least: more of what is shown already is asked for too.
      do await readMore();
      while (mine === turn && !found() && !isWhole());
    } catch (error) {
      failed(error);
    } finally {
      if (mine === turn) button.removeAttribute("aria-busy");
    }
  });
  return {
    show: (/** @type {boolean} */ isOfUse) => (button.hidden = !isOfUse),
    /** Something else is looked for. */
    stop() {
      turn += 1;
      button.removeAttribute("aria-busy");
    },
  };
}
