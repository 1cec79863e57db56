// The token view: shown in place of the page while the node wants a token. Guarantees that the token is sent once, in a
// request body, and kept nowhere; the node answers with a cookie that scripts cannot read.

import { ask } from "./api.js";
import { h, say } from "./dom.js";

/**
 * @param {HTMLElement} main the page's content, hidden while the view is shown
 * @param {() => void} signedIn
 */
export function showLogin(main, signedIn) {
  const field = /** @type {HTMLInputElement} */ (
    h("input", {
      id: "token",
      name: "token",
      type: "password",
      autocomplete: "current-password",
      required: true,
      spellcheck: "false",
    })
  );
  const button = /** @type {HTMLButtonElement} */ (h("button", { class: "button primary", type: "submit" }, "Open"));
  const trouble = h("p", { class: "error", role: "alert", hidden: true });
  const form = h(
    "form",
    { class: "stack" },
    h("div", {}, h("label", { for: "token" }, "Token"), field),
    trouble,
    button,
  );
  const view = h(
    "section",
    { class: "card login", "aria-labelledby": "login-title" },
    h("h1", { id: "login-title" }, "This node asks for a token"),
    h(
      "p",
      { class: "quiet" },
      "It is the value of ",
      h("code", {}, "SYNCLINE_TOKEN"),
      " on the machine that runs the node, or a key that its owner gave you.",
    ),
    form,
  );

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    trouble.hidden = true;
    try {
      await ask("/api/session", { method: "POST", body: { token: field.value } });
      view.remove();
      for (const child of hidden) child.hidden = false;
      signedIn();
    } catch (error) {
      say(trouble, error.needsToken || error.status === 403 ? "That is not the token of this node." : error.message);
      trouble.hidden = false;
      field.select();
    } finally {
      button.disabled = false;
    }
  });

  const hidden = /** @type {HTMLElement[]} */ ([...main.children].filter((child) => !child.hasAttribute("hidden")));
  for (const child of hidden) child.hidden = true;
  main.append(view);
  field.focus();
}
