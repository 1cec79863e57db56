// The outbox page: this node's own entries on their way elsewhere, and the kinds of entities that are taken in, live.

import { ask } from "./api.js";
import { openPage } from "./app.js";
import { at, h, say } from "./dom.js";
import { count } from "./format.js";
import { t } from "./language.js";
import { merge } from "./news.js";
import { openOutbox } from "./outbox-figures.js";
import { askIf, may } from "./session.js";

const outbox = openOutbox();

openPage({
  async read() {
    const own = may("outbox", "read", "*");
    at("outbox-title").closest("section")?.toggleAttribute("hidden", !own);
    const [kinds] = await Promise.all([askIf(may("entity", "read"), "/api/entities", { types: [] }), own ? merge(ask("/api/outbox"), outbox.put) : null]);
    show(kinds.types);
  },
  on: { outbox: outbox.put },
  tick: outbox.tick,
});

function show(/** @type {{ name: string, settings: boolean }[]} */ kinds) {
  say(at("kinds-note"), kinds.length > 0 ? t(count(kinds.length, "kind"), `${kinds.length} 種類`) : "");
  at("kinds-empty").hidden = kinds.length > 0;
  at("kinds").replaceChildren(
    ...kinds.map(({ name, settings }) =>
      h(
        "li",
        {},
        h("div", {}, h("a", { class: "mono", href: `/outbox/inbox?type=${encodeURIComponent(name)}` }, name)),
        h("p", { class: "note" }, settings ? t("may be edited here", "ここで編集可能") : t("read only", "読み取り専用")),
      ),
    ),
  );
}
