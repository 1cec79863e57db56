// When a page asks for a token, as it is shipped (web/pkg): one question at a time, and a thousand pages that do not ask together.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { AGAIN, NeedsAuth, Token, init } from "../pkg/token.js";

await init(await readFile(new URL("../pkg/syncline_token_bg.wasm", import.meta.url)));

const encoded = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
let made = 0;
const tokenOf = (claims) => `${encoded({ alg: "HS256" })}.${encoded({ jti: ++made, ...claims })}.signature`;
const forTenMinutes = () => tokenOf({ iat: 1_000, exp: 1_600, sub: "7" });

test("ac_09 one question for everybody who needs the answer, and none while the token is good", async () => {
  let asked = 0;
  const give = async () => ((asked += 1), forTenMinutes());
  const [one, other] = [Token.of(give), Token.of(give)];
  assert.equal(one, other);
  const headers = await Promise.all(Array.from({ length: 50 }, () => one.headers()));
  assert.equal(new Set(headers.map(({ authorization }) => authorization)).size, 1);
  assert.equal(asked, 1);
  await one.headers();
  assert.equal(asked, 1);
  assert.equal(one.subject, "7");
});

test("ac_09 a token counts from its arrival, whatever the clock of the device says", async (t) => {
  let asked = 0;
  const token = Token.of(() => ((asked += 1), forTenMinutes()));
  await token.headers();
  const { now } = Date;
  t.after(() => (Date.now = now));
  for (const days of [365, -365]) {
    Date.now = () => now() + days * 86_400_000;
    await token.headers();
  }
  assert.equal(asked, 1);
  const renewedIn = token.renewAt - performance.now();
  assert.ok(renewedIn > 560_000 && renewedIn < 596_000, `${renewedIn}`);
});

test("ac_09 a thousand pages whose tokens end at once are spread over 25 seconds", async () => {
  const tokens = Array.from({ length: 1_000 }, () => Token.of(() => forTenMinutes()));
  await Promise.all(tokens.map((token) => token.headers()));
  const first = Math.min(...tokens.map(({ renewAt }) => renewAt));
  const perSecond = new Map();
  for (const { renewAt } of tokens) {
    const second = Math.floor((renewAt - first) / 1_000);
    perSecond.set(second, (perSecond.get(second) ?? 0) + 1);
  }
  // 40 a second on average; one in a billion draws has a second with twice as many.
  assert.ok(perSecond.size >= 24, `${perSecond.size} seconds`);
  assert.ok(Math.max(...perSecond.values()) < 90, `${Math.max(...perSecond.values())} in one second`);
});

test("ac_09 an expired token is asked for again, and any other refusal needs a person", async () => {
  let asked = 0;
  const token = Token.of(() => ((asked += 1), forTenMinutes()));
  const headers = await token.headers();
  assert.equal(token.judge(headers, 200, "{}"), undefined);
  assert.equal(token.judge(headers, 503, ""), undefined);
  assert.equal(token.judge(headers, 401, '{"code":"token-expired"}'), AGAIN);
  // The same answer to a second request with the old one asks for nothing more.
  assert.equal(token.judge(headers, 401, '{"code":"token-expired"}'), AGAIN);
  const next = await token.headers();
  assert.notDeepEqual(next, headers);
  assert.equal(asked, 2);
  for (const [status, body, code, grant] of [
    [401, '{"code":"token-revoked"}', "token-revoked", undefined],
    [401, "<html>", "status-401", undefined],
    [403, '{"code":"forbidden","grant":"state:a:read"}', "forbidden", "state:a:read"],
    [403, '{"code":"foreign-origin"}', "foreign-origin", undefined],
    [403, '{"code":"<script>"}', "status-403", undefined],
  ]) {
    const need = token.judge(next, status, body);
    assert.ok(need instanceof NeedsAuth);
    assert.deepEqual([need.code, need.grant], [code, grant]);
  }
  const fixed = Token.of(forTenMinutes());
  assert.equal(fixed.judge(await fixed.headers(), 401, '{"code":"token-expired"}').code, "token-expired");
});

test("ac_09 an identical token is fine, one that does not come is asked for later, and an aborted wait ends", async () => {
  const same = tokenOf({ iat: 10, exp: 10.02, sub: "7" });
  let asked = 0;
  const token = Token.of(() => ((asked += 1), same));
  const first = await token.headers();
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.deepEqual(await token.headers(), first);
  const before = asked;
  for (let n = 0; n < 20; n++) await token.headers();
  assert.equal(asked, before);

  let failures = 0;
  const failing = Token.of(() => {
    failures += 1;
    throw new Error("the back end is away");
  });
  await assert.rejects(failing.headers(), /the back end is away/);
  const over = new AbortController();
  const waiting = failing.headers(over.signal).catch((error) => error);
  over.abort(new Error("over"));
  await waiting;
  assert.ok(failures <= 2);
});

test("ac_10 a function that serves the next person is asked anew for them", async () => {
  let asked = 0;
  const give = () => ((asked += 1), forTenMinutes());
  const first = await Token.of(give, "7").headers();
  assert.deepEqual(await Token.of(give).headers(), first);
  assert.deepEqual(await Token.of(give, "7").headers(), first);
  assert.notDeepEqual(await Token.of(give, "8").headers(), first);
  assert.equal(asked, 2);
});

test("ac_04 ac_09 nobody signed in, a secret key and nonsense are no tokens", async () => {
  for (const nothing of [null, undefined, ""]) {
    await assert.rejects(Token.of(() => nothing).headers(), (error) => error instanceof NeedsAuth && error.code === "token-missing");
  }
  await assert.rejects(Token.of(() => `slk_${"a".repeat(43)}`).headers(), (error) => error instanceof NeedsAuth && error.code === "secret-key" && !error.message.includes("aaaa"));
  await assert.rejects(Token.of(() => 7).headers(), TypeError);
  assert.deepEqual(await Token.of(undefined).headers(), {});
});
