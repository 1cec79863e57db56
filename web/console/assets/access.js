// The access page: who this browser is, the node's keys with their last use, its issuers, and what was taken back.
// Guarantees that a key is shown once, where it was made, and kept nowhere.

import { ask, serverNow } from "./api.js";
import { openPage } from "./app.js";
import { at, h, keyed, say } from "./dom.js";
import { ago, exact, moment } from "./format.js";
import { t, translate } from "./language.js";
import { may, whoAmI } from "./session.js";

const REVOCATIONS_SHOWN = 50;
const KINDS = { owner: t("owner", "所有者"), key: t("key", "鍵"), person: t("person", "人") };

translate();

const page = openPage({
  async read() {
    const [session, keys, issuers] = await Promise.all([
      whoAmI(),
      may("key", "read") ? ask("/api/keys") : null,
      may("issuer", "read", "*") ? ask("/api/issuers").catch(unknownHere) : null,
    ]);
    const revocations = may("token", "revoke") ? await ask(`/api/revocations?limit=${REVOCATIONS_SHOWN}`) : null;
    showYou(session);
    showKeys(keys?.keys ?? null);
    showIssuers(issuers?.issuers ?? null);
    showRevocations(revocations?.revocations ?? [], revocations?.next ?? null);
  },
  on: { audit: () => page.refresh() },
});

/** A node of an earlier version. */
function unknownHere(/** @type {any} */ error) {
  if (error.status === 404 || error.status === 403) return null;
  throw error;
}

function showYou(/** @type {import("./session.js").Session | null} */ session) {
  const open = session?.required === false && session.kind === "owner";
  say(at("you-kind"), session?.kind ? KINDS[session.kind] : "–");
  say(at("you-name"), session?.kind === "owner" ? t("everybody who reaches this node", "このノードに届くすべての人") : `${session?.subject ?? session?.name ?? "–"}`);
  if (session?.kind === "owner" && !open) say(at("you-name"), t("whoever has the node's token", "ノードのトークンを持つ人"));
  say(at("you-ends"), session?.endsAt ? moment(session.endsAt, serverNow()) : t("never", "なし"));
  const grants = session?.grants ?? [t("everything", "すべて")];
  at("you-grants").replaceChildren(...grants.map((grant) => h("li", {}, grant)));
}

/** @typedef {{ name: string, kind: string, grants: string[], origins: string[], source: string, createdAt?: number, createdBy?: string, lastUsedAt: number | null, lastUsedFrom: string | null }} Key */

function showKeys(/** @type {Key[] | null} */ keys) {
  at("keys-part").hidden = keys === null;
  at("keys-table").hidden = !keys?.length;
  at("keys-empty").hidden = keys === null || keys.length > 0;
  say(at("keys-note"), keys?.length ? t(`${keys.length} in all`, `${keys.length} 個`) : "");
  keyed(at("keys"), keys ?? [], ({ name, source }) => `${source} ${name}`, createKey);
}

function createKey(/** @type {Key} */ first) {
  const used = h("div");
  const remove = h(
    "button",
    { class: "button small", type: "button", "aria-label": `${t("Remove", "削除")} ${first.name}`, "data-needs": `key:${first.name}:manage`, on: { click: () => removeKey(first) } },
    t("Remove", "削除"),
  );
  const kind = first.kind === "publishable" ? t("publishable", "公開") : t("secret", "秘密");
  const node = h(
    "tr",
    {},
    h("th", { scope: "row" }, h("strong", { class: "mono" }, first.name), h("small", { class: "note" }, ` ${kind}, ${first.source === "file" ? t("from syncline.toml", "syncline.toml") : t(`made by ${first.createdBy ?? "–"}`, `作成者 ${first.createdBy ?? "–"}`)}`)),
    h("td", { "data-label": t("Grants", "許可") }, h("ul", { class: "grants" }, ...first.grants.map((grant) => h("li", {}, grant)))),
    h("td", { "data-label": t("Origins", "オリジン") }, h("div", {}, first.origins.length ? first.origins.join(", ") : "–")),
    h("td", { "data-label": t("Last use", "最後の使用") }, used),
    h("td", { class: "number" }, remove),
  );
  return {
    node,
    update(/** @type {Key} */ key) {
      const when = key.lastUsedAt;
      say(used, when === null ? t("never", "なし") : `${ago(when, serverNow())}${key.lastUsedFrom ? t(` from ${key.lastUsedFrom}`, `（${key.lastUsedFrom}）`) : ""}`);
      used.title = when === null ? "" : exact(when);
    },
  };
}

async function removeKey(/** @type {Key} */ { name }) {
  const question = t(`Remove the key ${name}? Whoever shows it is refused within seconds, on every node, and its open streams end.`, `鍵 ${name} を削除しますか。数秒以内にすべてのノードで拒否され、開いているストリームも終わります。`);
  if (!confirm(question)) return;
  await attempt(at("keys-trouble"), async () => {
    const { inFile } = await ask(`/api/keys/${encodeURIComponent(name)}`, { method: "DELETE" });
    if (inFile) fail(at("keys-trouble"), t(`${name} is refused from now on. Remove its table from syncline.toml, too.`, `${name} は拒否されます。syncline.toml の表も消してください。`));
  });
}

const lines = (/** @type {string} */ id) => /** @type {HTMLTextAreaElement} */ (at(id)).value.split("\n").map((line) => line.trim()).filter(Boolean);

at("key-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = /** @type {HTMLFormElement} */ (event.target);
  const name = /** @type {HTMLInputElement} */ (at("key-name")).value.trim();
  const isPublic = /** @type {HTMLInputElement} */ (at("key-public")).checked;
  await attempt(at("keys-trouble"), async () => {
    const made = await ask("/api/keys", { method: "POST", body: { name, may: lines("key-grants"), public: isPublic, origins: lines("key-origins") } });
    showMade(made);
    form.reset();
    /** @type {HTMLDetailsElement} */ (form.parentElement).open = false;
  });
});

function showMade(/** @type {{ name: string, key: string }} */ { name, key }) {
  const copy = h("button", { class: "button small", type: "button", on: { click: () => navigator.clipboard?.writeText(key).then(() => say(copy, t("Copied", "コピーしました"))) } }, t("Copy", "コピー"));
  const done = h("button", { class: "button small", type: "button", on: { click: () => (at("key-made").replaceChildren(), (at("key-made").hidden = true)) } }, t("I have kept it", "保存しました"));
  at("key-made").replaceChildren(
    h("p", {}, h("strong", {}, name), t(": this key is shown once. Keep it now.", "：この鍵は一度だけ表示されます。今保存してください。")),
    h("code", {}, key),
    h("p", { class: "actions" }, copy, done),
  );
  at("key-made").hidden = false;
}

/** @typedef {{ name: string, issuer: string, audience: string, alg: string, keys: { kid?: string, until?: number }[], jwks: boolean, origins: string[], grants: string[] }} Issuer */

function showIssuers(/** @type {Issuer[] | null} */ issuers) {
  at("issuers-part").hidden = issuers === null;
  at("issuers-table").hidden = !issuers?.length;
  at("issuers-empty").hidden = issuers === null || issuers.length > 0;
  keyed(at("issuers"), issuers ?? [], ({ name }) => name, (issuer) => ({
    node: h(
      "tr",
      {},
      h("th", { scope: "row" }, h("strong", { class: "mono" }, issuer.name), h("small", { class: "note" }, ` ${issuer.issuer}`)),
      h("td", { "data-label": t("Signs with", "署名") }, h("div", {}, issuer.alg, h("small", { class: "note" }, ` ${issuer.jwks ? "JWKS" : issuer.keys.map(({ kid, until }) => `${kid ?? "–"}${until ? t(` until ${moment(until, serverNow())}`, `（${moment(until, serverNow())} まで）`) : ""}`).join(", ")}`))),
      h("td", { "data-label": t("At most", "最大の許可") }, h("ul", { class: "grants" }, ...issuer.grants.map((grant) => h("li", {}, grant)))),
      h("td", { "data-label": t("Origins", "オリジン") }, h("div", {}, issuer.origins.length ? issuer.origins.join(", ") : "–")),
    ),
    update() {},
  }));
  const choice = /** @type {HTMLSelectElement} */ (at("revoke-issuer"));
  keyed(choice, issuers ?? [], ({ name }) => name, ({ name }) => ({ node: h("option", { value: name }, name), update() {} }));
}

/** @typedef {{ id: number, kind: string, issuer: string, value: string, before: number, madeAt: number, madeBy: string, endsAt: number | null }} Revocation */

/** @type {Revocation[]} */
let revoked = [];

function showRevocations(/** @type {Revocation[]} */ found, /** @type {number | null} */ next) {
  revoked = found;
  at("revocations-table").hidden = found.length === 0;
  at("revocations-empty").hidden = found.length > 0;
  keyed(at("revocations"), found, ({ id }) => id, createRevocation);
  const more = at("revocations-more");
  more.hidden = next === null;
  more.onclick = () =>
    attempt(at("revocations-told"), async () => {
      const page = await ask(`/api/revocations?limit=${REVOCATIONS_SHOWN}&after=${next}`);
      showRevocations([...revoked, ...page.revocations], page.next);
    }, false);
}

const WHAT = /** @type {Record<string, string>} */ ({ token: t("token", "トークン"), subject: t("subject", "人"), key: t("key", "鍵") });

function createRevocation(/** @type {Revocation} */ each) {
  const undo = h("button", { class: "button small", type: "button", "aria-label": `${t("Accept again", "再び受け入れる")} ${each.value}`, on: { click: () => acceptAgain(each) } }, t("Accept again", "再び受け入れる"));
  const node = h(
    "tr",
    {},
    h("th", { scope: "row" }, WHAT[each.kind] ?? each.kind, " ", h("strong", { class: "mono" }, each.kind === "key" ? each.issuer : each.value)),
    h("td", { "data-label": t("Issuer", "発行者"), class: "mono" }, each.kind === "key" ? "–" : each.issuer),
    h("td", { "data-label": t("When", "取り消した時刻") }, h("div", {}, h("time", { datetime: new Date(each.madeAt).toISOString(), title: exact(each.madeAt) }, moment(each.madeAt, serverNow())), h("small", { class: "note" }, ` ${each.madeBy}`))),
    h("td", { "data-label": t("Forgotten", "忘れる時刻") }, each.endsAt === null ? t("never", "なし") : moment(each.endsAt, serverNow())),
    h("td", { class: "number" }, undo),
  );
  return { node, update() {} };
}

async function acceptAgain(/** @type {Revocation} */ { id, value }) {
  if (!confirm(t(`Accept ${value} again? What was refused because of this counts again until it ends.`, `${value} を再び受け入れますか。`))) return;
  await attempt(at("revocations-told"), () => ask(`/api/revocations/${id}`, { method: "DELETE" }));
}

at("revoke-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = /** @type {HTMLFormElement} */ (event.target);
  const value = /** @type {HTMLInputElement} */ (at("revoke-value")).value.trim();
  const kind = /** @type {HTMLSelectElement} */ (at("revoke-kind")).value;
  const issuer = /** @type {HTMLSelectElement} */ (at("revoke-issuer")).value || undefined;
  const question = kind === "subject"
    ? t(`Take back every token that ${value} has now? Its open streams end within seconds.`, `${value} の現在のトークンをすべて取り消しますか。`)
    : t(`Take back the token ${value}?`, `トークン ${value} を取り消しますか。`);
  if (!confirm(question)) return;
  await attempt(at("revocations-told"), async () => {
    await ask("/api/revocations", { method: "POST", body: { issuer, [kind]: value } });
    form.reset();
    say(at("revocations-told"), t(`${value} is taken back.`, `${value} を取り消しました。`));
  });
});

/** Does something, says what went wrong with it, and reads the page again. */
async function attempt(/** @type {HTMLElement} */ place, /** @type {() => Promise<any>} */ work, again = true) {
  if (place.classList.contains("error")) place.hidden = true;
  say(place, "");
  try {
    await work();
  } catch (error) {
    fail(place, error.message);
  }
  if (again) page.refresh();
}

function fail(/** @type {HTMLElement} */ place, /** @type {string} */ words) {
  say(place, words);
  place.hidden = false;
}
