// The shop: a small back end that signs visitors in, gives them tokens for the node, and serves the page. It needs Node.js and nothing else.
//
// A visitor types a name and is signed in: a shop of yours asks for more. The session is a cookie that scripts cannot read; the
// token for the node goes to the page, which shows it to the node. So the node needs no cookie, and the shop no access to the baskets.

import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join, normalize } from "node:path";
import { tokenFor } from "./token.mjs";

const HERE = import.meta.dirname;
const { PORT = "4000", NODE_URL = "http://127.0.0.1:3000", SECRET_FILE = join(HERE, "shop.secret"), TOKEN_SECONDS = "600" } = process.env;
const ORIGIN = `http://127.0.0.1:${PORT}`;
// From npm, or as this tree builds it.
const PACKAGE = [join(HERE, "node_modules/syncline"), join(HERE, "../../../web/pkg")].find(existsSync);
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css", svg: "image/svg+xml", wasm: "application/wasm" };
const NAME = /^[a-z0-9][a-z0-9-]{0,31}$/;
const BODY_MAX_BYTES = 1_000;
const SESSIONS_MAX = 10_000;
// The page, its own scripts and rules, and the node: nothing else.
const POLICY = `default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self' ${NODE_URL}; img-src 'self' data:; frame-ancestors 'none'`;

if (!existsSync(SECRET_FILE)) fail(`there is no ${SECRET_FILE}: make one with\n  openssl rand -hex 32 > ${SECRET_FILE}`);
if (PACKAGE === undefined) fail("the package syncline is missing: cargo xtask wasm builds it");
const secret = readFileSync(SECRET_FILE, "utf8").trim();

// By the cookie; a shop of yours keeps them where they survive a restart.
const sessions = new Map();

const routes = {
  "GET /config": (_, response) => send(response, 200, { node: NODE_URL }),
  "GET /me": (request, response) => send(response, 200, { name: visitorOf(request) ?? null }),
  // Asked by the page before it connects, and again before the token ends. `null`: nobody is signed in.
  "GET /token": (request, response) => {
    const name = visitorOf(request);
    const token = name && tokenFor(name, { secret, issuer: ORIGIN, audience: NODE_URL, seconds: Number(TOKEN_SECONDS) });
    send(response, name ? 200 : 401, { token: token ?? null });
  },
  "POST /sign-in": async (request, response) => {
    const { name } = await bodyOf(request);
    if (typeof name !== "string" || !NAME.test(name)) return send(response, 400, { error: "a name has 1 to 32 letters, digits and dashes" });
    const id = randomBytes(24).toString("base64url");
    if (sessions.size >= SESSIONS_MAX) sessions.delete(sessions.keys().next().value);
    sessions.set(id, name);
    send(response, 200, { name }, { "set-cookie": `shop=${id}; HttpOnly; SameSite=Strict; Path=/` });
  },
  "POST /sign-out": (request, response) => {
    sessions.delete(cookieOf(request));
    send(response, 200, {}, { "set-cookie": "shop=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0" });
  },
};

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url, ORIGIN);
  try {
    // Another site's page must not sign anybody in or out.
    const origin = request.headers.origin ?? ORIGIN;
    if (request.method !== "GET" && origin !== ORIGIN) return send(response, 403, { error: "this is for the shop's own pages" });
    const route = routes[`${request.method} ${pathname}`];
    if (route !== undefined) return await route(request, response);
    if (request.method === "GET") return await sendFile(response, pathname);
    send(response, 405, { error: "there is nothing to do here" });
  } catch (error) {
    send(response, error.status ?? 500, { error: error.status ? error.message : "the shop failed" });
  }
});

server.listen(Number(PORT), "127.0.0.1", () => console.log(`the shop is at ${ORIGIN}, its node at ${NODE_URL}`));

function cookieOf(request) {
  return /(?:^|; )shop=([\w-]+)/.exec(request.headers.cookie ?? "")?.[1];
}

function visitorOf(request) {
  return sessions.get(cookieOf(request));
}

async function bodyOf(request) {
  let text = "";
  for await (const part of request) {
    text += part;
    if (text.length > BODY_MAX_BYTES) throw Object.assign(new Error("the body is too large"), { status: 413 });
  }
  try {
    return Object(JSON.parse(text));
  } catch {
    throw Object.assign(new Error("the body is no JSON"), { status: 400 });
  }
}

async function sendFile(response, pathname) {
  const [folder, name] = pathname.startsWith("/syncline/") ? [PACKAGE, pathname.slice(10)] : [join(HERE, "public"), pathname === "/" ? "index.html" : pathname];
  const file = join(folder, normalize(`/${name}`));
  const bytes = await readFile(file).catch(() => null);
  if (bytes === null) return send(response, 404, { error: "there is no such page" });
  const type = TYPES[file.split(".").at(-1)] ?? "application/octet-stream";
  response.writeHead(200, { "content-type": type, "content-security-policy": POLICY, "cache-control": "no-cache" }).end(bytes);
}

function send(response, status, body, headers = {}) {
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store", ...headers }).end(JSON.stringify(body));
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
