// Sites of strangers around a node: a shop whose visitors it lets in, a site that nobody knows, and what the shop's back end signs.

import { createHash, createHmac, generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { openLockServer } from "./lock-server.js";
import { Node } from "./node.js";

export const OWNER = "the-owner-s-token-0123456789abcdef";
const SECRET = "correct-horse-battery-staple-and-more";
const RSA = generateKeyPairSync("rsa", { modulusLength: 2048 });
const RSA_PUBLIC = RSA.publicKey.export({ type: "spki", format: "pem" }).toString();

const encoded = (/** @type {object} */ value) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** The claims of a visitor's token that counts for so many seconds from now. */
function claimsOf(/** @type {string} */ sub, /** @type {object} */ claims = {}, seconds = 600) {
  const now = Math.floor(Date.now() / 1000);
  return { iss: "https://shop.example", aud: "https://node.example", sub, iat: now - 300, exp: now + seconds, ...claims };
}

/** What the shop's back end gives to a visitor who is signed in. */
export function tokenFor(/** @type {string} */ sub, seconds = 600, /** @type {object} */ claims = {}, /** @type {object} */ header = {}) {
  const message = `${encoded({ alg: "HS256", typ: "JWT", ...header })}.${encoded(claimsOf(sub, claims, seconds))}`;
  return `${message}.${createHmac("sha256", SECRET).update(message).digest("base64url")}`;
}

/** A token that counts from now on for so long, as a page reads it. */
export function freshToken(/** @type {string} */ sub, seconds = 600) {
  return tokenFor(sub, seconds, { iat: Math.floor(Date.now() / 1000) });
}

/** Tokens that somebody without the secret can make. */
export function forgedTokens() {
  const claims = claimsOf("7");
  const rsClaims = { ...claims, iss: "https://id.example" };
  const none = encoded({ alg: "none", typ: "JWT" });
  const asHmac = `${encoded({ alg: "HS256", typ: "JWT" })}.${encoded(rsClaims)}`;
  const ownKey = `${encoded({ alg: "RS256", typ: "JWT", jwk: RSA.publicKey.export({ format: "jwk" }) })}.${encoded(claims)}`;
  const good = tokenFor("7");
  const [head, , signature] = good.split(".");
  return {
    unsigned: `${none}.${encoded(claims)}.`,
    "signed with nothing": `${none}.${encoded(claims)}.${signature}`,
    "signed with the public key as a secret": `${asHmac}.${createHmac("sha256", RSA_PUBLIC).update(asHmac).digest("base64url")}`,
    "signed with a key that it brings along": `${ownKey}.${sign("sha256", Buffer.from(ownKey), RSA.privateKey).toString("base64url")}`,
    "a key id that is a path": tokenFor("7", 600, {}, { kid: "../../../../dev/null" }),
    "a key id that is a statement": tokenFor("7", 600, {}, { kid: "x' UNION SELECT 'secret" }),
    "an address of keys": tokenFor("7", 600, {}, { jku: "https://evil.example/keys.json" }),
    "another subject under the same signature": `${head}.${encoded(claimsOf("8"))}.${signature}`,
    "another issuer": tokenFor("7", 600, { iss: "https://evil.example" }),
    "another audience": tokenFor("7", 600, { aud: "https://evil.example" }),
    "an end that is a text": tokenFor("7", 600, { exp: "9999999999" }),
    "the signature cut off": good.slice(0, -4),
  };
}

/** A key of the prefix, and what the configuration knows of it. */
function key(/** @type {string} */ prefix) {
  const text = `${prefix}${randomBytes(32).toString("base64url")}`;
  return { text, hash: `sha256:${createHash("sha256").update(text).digest("hex")}` };
}

/**
 * A node that knows the shop's origin, the shop, and a site that nobody knows.
 * @param {{ more?: string }} [options] `more` is text for syncline.toml
 */
export async function openSites({ more = "" } = {}) {
  const [shop, stranger] = [await openLockServer(), await openLockServer()];
  const [publishable, dashboard] = [key("slp_"), key("slk_")];
  const config = `[[issuers]]
name = "shop"
issuer = "https://shop.example"
audience = "https://node.example"
keys = [{ kid = "2026-10", secret = "${SECRET}" }]
origins = ["${shop.url}"]
may = ["state:cart-{sub}:read,write", "state:shared:read,write", "lock:doc:*:hold,see", "queue:words:add,read", "viewer:*:beat,count"]

[[issuers]]
name = "id"
alg = "RS256"
issuer = "https://id.example"
audience = "https://node.example"
keys = [{ public_key = """
${RSA_PUBLIC}""" }]
origins = ["${shop.url}"]
may = ["state:cart-{sub}:read,write"]

[[keys]]
name = "menu"
hash = "${publishable.hash}"
public = true
origins = ["${shop.url}"]
may = ["state:shared:read"]

[[keys]]
name = "dashboard"
hash = "${dashboard.hash}"
may = ["state:*:read", "queue:*:read", "lock:*:see", "viewer:*:count", "job:*:read", "outbox:*:read", "entity:*:read", "node:*:metrics"]

[[queues]]
name = "words"
interval_ms = 0
url = "http://127.0.0.1:9/{key}"
${more}`;
  const node = await Node.start({ config, environment: { SYNCLINE_TOKEN: OWNER } });
  const close = async () => {
    await node.remove();
    await Promise.all([shop.close(), stranger.close()]);
  };
  /** What the owner is told. */
  const ask = async (/** @type {string} */ path) => (await fetch(node.url + path, { headers: { authorization: `Bearer ${OWNER}` } })).json();
  /** Who holds locks of pages; a node's jobs have their own. */
  const holders = async () => (await ask("/api/locks")).locks.filter((/** @type {any} */ { name }) => name.startsWith("doc:")).map((/** @type {any} */ { holder }) => holder);
  return { shop, stranger, node, holders, publishable: publishable.text, dashboard: dashboard.text, ask, close };
}

/** Runs in a page: what it gets for a call, or that the browser kept the answer from it. */
export async function callInPage(/** @type {{ url: string, token: string | null, body: unknown }} */ { url, token, body }) {
  const method = body === null ? "GET" : "POST";
  /** @type {Record<string, string>} */
  const headers = token === null ? {} : { authorization: `Bearer ${token}` };
  if (body !== null) headers["content-type"] = "application/json";
  try {
    const answer = await fetch(url, { method, headers, ...(body === null ? {} : { body: JSON.stringify(body) }) });
    return { status: answer.status, ...(await answer.json()) };
  } catch {
    return { kept: true };
  }
}
