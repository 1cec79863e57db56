// The token view: shown in place of the page while the node wants a token. Guarantees that the token is sent once, in a
// request body, and kept nowhere; the node answers with a cookie that scripts cannot read.

import { ask } from "./api.js";
import { h, say } from "./dom.js";
import { t } from "./language.js";

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
  const button = /** @type {HTMLButtonElement} */ (h("button", { class: "button primary", type: "submit" }, t("Open", "開く")));
  const trouble = h("p", { class: "error", role: "alert", hidden: true });
  const form = h(
    "form",
    { class: "stack" },
    h("div", {}, h("label", { for: "token" }, t("Token", "トークン")), field),
    trouble,
    button,
  );
  const view = h(
    "section",
    { class: "card login", lang: t("en", "ja"), "aria-labelledby": "login-title" },
    h("h1", { id: "login-title" }, t("This node asks for a token", "このノードにはトークンが必要です")),
    h(
      "p",
      { class: "quiet" },
      t("It is the value of ", "ノードを動かしているマシンの "),
      h("code", {}, "SYNCLINE_TOKEN"),
      t(" on the machine that runs the node, or a key that its owner gave you.", " の値か、所有者から受け取った鍵です。"),
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
      say(trouble, error.needsToken || error.status === 403 ? t("That is not the token of this node.", "このノードのトークンではありません。") : error.message);
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
