// Shared state of the package where no browser is needed: several contexts in one process over a storage of the test's own,
// which has no compare-and-set, answers late and can refuse. Needs `cargo xtask wasm` first.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { initSync, openState } from "../pkg/state.js";

initSync(await readFile(new URL("../pkg/syncline_state_bg.wasm", import.meta.url)));

/** A storage area as browsers have it; each `port()` is one context's way to it. */
class Area {
  keys = new Map();
  ports = new Set();
  /** What the next write is answered with, if it is refused. */
  refusal;

  port() {
    const area = this;
    let heard;
    const turn = () => new Promise((resolve) => setTimeout(resolve, Math.random() * 3));
    const told = (entries) => {
      const there = [...area.ports];
      setTimeout(() => there.forEach((port) => port.heard?.changed(entries)), 1);
    };
    const port = {
      get heard() {
        return heard;
      },
      listen(listener) {
        heard = listener;
        area.ports.add(port);
      },
      async get(keys) {
        await turn();
        return keys.map((key) => [key, area.keys.get(key)]);
      },
      async set(entries) {
        await turn();
        if (area.refusal !== undefined) throw Object.assign(new Error("refused"), { kind: area.refusal });
        for (const [key, text] of entries) area.keys.set(key, text);
        told(entries);
      },
      async remove(keys) {
        await turn();
        for (const key of keys) area.keys.delete(key);
        told(keys.map((key) => [key, undefined]));
      },
      async list() {
        await turn();
        return [...area.keys.keys()];
      },
      async send(text) {
        for (const other of area.ports) if (other !== port) other.heard?.message(text);
        return area.ports.size > 1 ? "acked" : "no-receiver";
      },
      close() {
        area.ports.delete(port);
      },
    };
    return port;
  }
}

function open(t, area, options) {
  const state = openState({ storage: area.port(), ...options });
  t.after(() => state.close());
  return state;
}

/** Resolves when `holds` does, looked at after every change. */
function until(state, holds) {
  if (holds()) return Promise.resolve();
  return new Promise((resolve) => {
    const stop = state.subscribe(() => {
      if (!holds()) return;
      stop();
      resolve();
    });
  });
}

test("st_20 four contexts add 50 ids each at once, and each has all of them", async (t) => {
  const area = new Area();
  const states = Array.from({ length: 4 }, () => open(t, area));
  const adds = states.flatMap((state, context) =>
    Array.from({ length: 50 }, (_, number) => state.put(`${context}-${number}`, { checked: true })),
  );
  await Promise.all(adds);
  for (const state of states) await until(state, () => state.size === 200);
  const late = open(t, area);
  // An index that somebody has just overwritten is mended by those who know what it lacks.
  await until(late, () => late.size === 200);
});

test("st_11 an operation shows at once and is taken back when the storage refuses", async (t) => {
  const area = new Area();
  const state = open(t, area);
  await state.put("a", { checked: false });
  area.refusal = "quota";
  const events = [];
  state.subscribe("a", ({ value }) => events.push(value));
  const refused = state.put("a", { checked: true });
  await until(state, () => state.get("a").checked);
  await assert.rejects(refused, { name: "SynclineError", code: "quota-exceeded", retryable: false });
  assert.deepEqual(state.get("a"), { checked: false });
  assert.deepEqual(events, [{ checked: true }, { checked: false }]);
  area.refusal = undefined;
  await state.put("a", { checked: true });
  assert.equal(JSON.parse(area.keys.get("trackedEntity:a")).checked, true);
});

test("st_13 snapshots and values stay the same object until they change", async (t) => {
  const area = new Area();
  const [one, other] = [open(t, area), open(t, area)];
  await one.put("a", { list: [1, { deep: true }] });
  await until(other, () => other.has("a"));
  const before = other.getSnapshot();
  assert.equal(other.getSnapshot(), before);
  assert.equal(other.get("a"), before.entities.get("a"));
  assert.ok(Object.isFrozen(other.get("a").list[1]));
  await one.put("b", {});
  await until(other, () => other.has("b"));
  assert.notEqual(other.getSnapshot(), before);
  assert.equal(other.get("a"), before.entities.get("a"), "what did not change is the same");
  assert.equal(before.entities.size, 1, "what was handed out stays as it was");
});

test("st_12 a listener of one entity hears of that one alone, and of a reset", async (t) => {
  const area = new Area();
  const state = open(t, area);
  await state.put("a", { n: 1 });
  const [heard, all] = [[], []];
  state.subscribe("a", ({ id, value }) => heard.push([id, value]));
  const stop = state.subscribe(({ type }) => type !== "report" && all.push(type));
  await state.put("b", { n: 2 });
  await state.put("a", { n: 3 });
  await state.put("a", { n: 3 });
  await state.reset();
  assert.deepEqual(heard, [["a", { n: 3 }], ["a", undefined]]);
  assert.deepEqual(all, ["entity", "entity", "cleared"]);
  stop();
  await state.put("c", {});
  assert.equal(all.length, 3);
});

test("st_26 what storage would lose is refused with the path of the field, and nothing is written", async (t) => {
  const area = new Area();
  const state = open(t, area);
  await state.ready;
  const cases = [
    [{ list: [0, { due: new Date(0) }] }, "list.1.due", "a date cannot be stored"],
    [{ n: NaN }, "n", "a number that JSON cannot hold"],
    [{ a: undefined }, "a", "undefined cannot be stored"],
    [{ list: [1, , 2] }, "list.1", "undefined cannot be stored"],
    [{ text: "half \ud800" }, "text", "text with half a surrogate pair"],
    [{ f() {} }, "f", "a function cannot be stored"],
    [{ n: 1n }, "n", "a bigint cannot be stored"],
    [{ bytes: new Uint8Array(2) }, "bytes", "an object that is not plain cannot be stored"],
    [{ map: new Map() }, "map", "an object that is not plain cannot be stored"],
    [{ sync: 1 }, "sync", "the name is reserved"],
    [[1], "", undefined],
    ["text", "", undefined],
    [null, "", undefined],
  ];
  const round = {};
  round.again = { round };
  cases.push([round, undefined, "nested too deeply"]);
  for (const [value, field, problem] of cases) {
    await assert.rejects(state.put("a", value), (error) => {
      assert.equal(error.code, "invalid-value");
      if (field !== undefined) assert.equal(error.fields[0].field, field);
      if (problem !== undefined) assert.equal(error.fields[0].problem, problem);
      return true;
    });
  }
  await assert.rejects(state.put("", {}), { code: "invalid-argument" });
  await assert.rejects(state.put("a\n", {}), { code: "invalid-argument" });
  await assert.rejects(state.put("x".repeat(257), {}), { code: "invalid-argument" });
  assert.equal(area.keys.size, 0);
  await state.put("日本 😀", { null: null, list: [[], {}, "é😀", 1e21, -2.5], "": true });
  assert.deepEqual(state.get("日本 😀"), { null: null, list: [[], {}, "é😀", 1e21, -2.5], "": true });
});

const SETTINGS = {
  schema: {
    isLoud: { type: "boolean", default: false },
    size: { type: "choice", choices: ["small", "large"], default: "small" },
    volume: { type: "number", default: 5, min: 0, max: 10 },
    colour: { type: "string", default: "#abc", pattern: /^#[0-9a-f]{3}$/, problem: "must be a short hex colour" },
    room: { type: "string", maxLength: 4 },
  },
  check: ({ size, room }) => (size === "large" && room === undefined ? [{ field: "room", problem: "is needed" }] : []),
};

test("st_36 settings follow the caller's schema, and are refused field by field before anything is written", async (t) => {
  const area = new Area();
  const [one, other] = [open(t, area, { settings: SETTINGS }), open(t, area, { settings: SETTINGS })];
  const defaults = { isLoud: false, size: "small", volume: 5, colour: "#abc" };
  assert.deepEqual(one.settings, defaults, "there before anything is loaded");
  await Promise.all([one.ready, other.ready]);
  const refused = async (settings, fields) => {
    await assert.rejects(one.setSettings(settings), (error) => {
      assert.equal(error.code, "invalid-settings");
      assert.deepEqual(Object.fromEntries(error.fields.map(({ field, problem }) => [field, problem])), fields);
      return true;
    });
  };
  await refused({ ...defaults, isLoud: 1, size: "large", colour: "red" }, {
    isLoud: "must be true or false",
    room: "is needed",
    colour: "must be a short hex colour",
  });
  await refused({ ...defaults, size: "huge", volume: 11, room: "hall\ud800" }, {
    size: 'must be "small" or "large"',
    volume: "must be 10 at most",
    room: "has half a surrogate pair",
  });
  await refused({ ...defaults, volume: Number.NaN, room: "kitchen" }, { volume: "must be a number", room: "may have 4 characters at most" });
  await refused({ ...defaults, more: 1 }, { more: "is not a setting" });
  await refused({ isLoud: true }, {
    size: 'must be "small" or "large"',
    volume: "must be a number",
    colour: "must be a string",
  });
  for (const none of [null, undefined, 3, "text", []]) await refused(none, { settings: "must be an object" });
  assert.equal(area.keys.has("syncSettings"), false);
  const settings = { isLoud: true, size: "large", volume: 0, colour: "#def", room: "hall" };
  await one.setSettings(settings);
  await until(other, () => other.settings.isLoud);
  assert.deepEqual(other.settings, settings);
  assert.ok(Object.isFrozen(other.settings));
});

test("st_36 what a newer program set stays, what follows no schema is reported, and without a schema anything is a setting", async (t) => {
  const area = new Area();
  area.keys.set("syncSettings", JSON.stringify({ isLoud: true, later: [1] }));
  const one = open(t, area, { settings: SETTINGS });
  await one.ready;
  assert.deepEqual(one.settings, { isLoud: true, size: "small", volume: 5, colour: "#abc" });
  await one.setSettings({ ...one.settings, volume: 1 });
  assert.deepEqual(JSON.parse(area.keys.get("syncSettings")).later, [1]);
  const free = open(t, area);
  await free.ready;
  await free.setSettings({ anything: { at: ["all"] } });
  assert.deepEqual(free.settings, { anything: { at: ["all"] } });
  await assert.rejects(free.setSettings({ when: new Date() }), { code: "invalid-settings" });
  const poisoned = new Area();
  poisoned.keys.set("syncSettings", JSON.stringify({ isLoud: "yes" }));
  const reports = [];
  const careful = open(t, poisoned, { settings: SETTINGS });
  careful.subscribe((event) => event.type === "report" && reports.push([event.report, event.detail]));
  await careful.ready;
  assert.deepEqual([careful.settings.isLoud, reports], [false, [["poisoned", "syncSettings"]]]);
  for (const schema of [{ a: {} }, { a: { type: "date" } }, { a: { type: "choice" } }, { a: { type: "number", default: "1" } }]) {
    assert.throws(() => open(t, new Area(), { settings: { schema } }), { code: "invalid-argument" });
  }
});

test("st_26 poisoned and foreign keys are left alone, reported, and the rest loads", async (t) => {
  const area = new Area();
  const first = open(t, area);
  await Promise.all([first.put("good", { n: 1 }), first.put("bad", { n: 2 })]);
  first.close();
  area.keys.set("trackedEntity:bad", "no JSON \0 at all");
  area.keys.set("theirs", "{\"kept\":true}");
  area.keys.set("trackedEntity:nul\0l", "{}");
  const state = open(t, area);
  const reports = [];
  state.subscribe((event) => event.type === "report" && reports.push([event.report, event.detail]));
  await state.ready;
  assert.deepEqual(state.ids(), ["good"]);
  assert.deepEqual(reports, [["poisoned", "trackedEntity:bad"]]);
  await state.reset();
  assert.equal(area.keys.get("theirs"), "{\"kept\":true}");
  assert.equal(area.keys.get("trackedEntity:nul\0l"), "{}");
});

test("st_25 an extension that was reloaded leaves a page that goes quiet", async (t) => {
  const area = new Area();
  const state = open(t, area);
  await state.put("a", {});
  const events = [];
  state.subscribe((event) => events.push(event));
  area.refusal = "gone";
  await assert.rejects(state.put("b", {}), { code: "stopped" });
  await assert.rejects(state.put("c", {}), { code: "stopped" });
  assert.deepEqual(events.at(-1), { type: "closed", reason: "gone" });
  assert.equal(area.ports.size, 0, "it listens to nothing any more");
});

test("st_21 migrations run once for each entity, and a newer schema is not touched", async (t) => {
  const area = new Area();
  const old = open(t, area);
  await Promise.all([old.put("a", { done: true }), old.put("odd", { done: 1 })]);
  old.close();
  const calls = [];
  const migrate = (version, id, value) => {
    calls.push([version, id]);
    if (typeof value.done !== "boolean") throw new Error("no idea");
    return { checked: value.done };
  };
  const state = open(t, area, { schemaVersion: 2, migrate });
  const reports = [];
  state.subscribe((event) => event.type === "report" && reports.push(event.report));
  await state.ready;
  assert.deepEqual(state.get("a"), { checked: true });
  assert.ok(calls.length >= 2 && reports.includes("not-migrated"));
  const again = open(t, area, { schemaVersion: 2, migrate });
  await again.ready;
  assert.deepEqual(again.get("a"), { checked: true });
  const older = open(t, area);
  await assert.rejects(older.ready, { code: "newer-schema" });
  await assert.rejects(older.put("a", {}), { code: "stopped" });
});

test("st_25 nothing is missed before the rules are there, and options are checked", async (t) => {
  assert.throws(() => openState(), { code: "unsupported-environment" });
  assert.throws(() => openState({ storage: {} }), { code: "invalid-argument" });
  assert.throws(() => openState({ storage: new Area().port(), schemaVersion: 0 }), { code: "invalid-argument" });
  const area = new Area();
  const port = area.port();
  const state = openState({ storage: port });
  t.after(() => state.close());
  assert.equal(typeof port.heard.changed, "function", "registered before openState returns");
  const controller = new AbortController();
  const aborted = openState({ storage: area.port(), signal: controller.signal });
  controller.abort();
  await assert.rejects(aborted.ready, { code: "stopped" });
  await state.ready;
});

test("st_36 ids, numbers and snapshots are as documented", async (t) => {
  const area = new Area();
  const state = open(t, area);
  for (const id of ["\ud800", "a\udfff", "\udc00\ud800"]) {
    await assert.rejects(state.put(id, {}), { code: "invalid-argument" });
    await assert.rejects(state.remove(id), { code: "invalid-argument" });
  }
  await state.put("😀", { x: -0, list: [-0] });
  assert.deepEqual(state.get("😀"), { x: 0, list: [0] });
  for (const wrong of [5, null, undefined, {}, [5], [""]]) await assert.rejects(state.remove(wrong), { code: "invalid-argument" });
  const { entities } = state.getSnapshot();
  assert.throws(() => entities.set("a", {}), TypeError);
  assert.throws(() => entities.delete("😀"), TypeError);
  assert.throws(() => entities.clear(), TypeError);
  assert.deepEqual([...entities.keys()], ["😀"]);
});

test("st_32 a storage that throws, answers nonsense or never answers is a typed error, and every promise settles", async (t) => {
  let now = performance.now();
  t.mock.timers.enable({ apis: ["setTimeout"] });
  t.mock.method(performance, "now", () => now);
  const never = () => new Promise(() => {});
  const throws = () => {
    throw new TypeError("broken");
  };
  const broken = { listen() {}, get: async () => [], set: async () => {}, remove: async () => {}, list: async () => [], send: async () => "acked", close() {} };
  const ways = [
    { get: throws },
    { get: never },
    { get: async () => undefined },
    { get: async () => 7 },
    { get: async (keys) => keys.map((key) => [key, { not: "text" }]) },
    { get: async () => Promise.reject(null) },
    { get: throws, close: throws },
    { set: throws },
    { set: never },
    { set: () => Promise.reject(undefined) },
  ];
  for (const way of ways) {
    const state = openState({ storage: { ...broken, ...way } });
    const settled = Promise.allSettled([state.ready, state.put("a", {}), state.setSettings({ a: 1 }), state.remove("a"), state.reset()]);
    let isDone = false;
    settled.then(() => (isDone = true));
    for (let turn = 0; turn < 400 && !isDone; turn++) {
      now += 1_000;
      t.mock.timers.tick(1_000);
      for (let rest = 0; rest < 5; rest++) await new Promise((resolve) => setImmediate(resolve));
    }
    assert.ok(isDone, `something never settles with ${JSON.stringify(Object.keys(way))} ${Object.values(way)[0]}`);
    const [ready, put] = await settled;
    assert.equal(put.reason?.code, "storage-failed", String(Object.values(way)[0]));
    if (way.get !== undefined) assert.equal(ready.reason?.code, "storage-failed", String(way.get));
    state.close();
  }
  const deaf = { ...broken, listen: throws };
  assert.throws(() => openState({ storage: deaf }), { code: "storage-failed" });
});

test("st_30 a write that was overtaken reads again, and nobody is told of it", async (t) => {
  const area = new Area();
  const port = area.port();
  let refusals = 3;
  const set = port.set;
  port.set = async (entries) => {
    if (refusals-- > 0) throw Object.assign(new Error("overtaken"), { kind: "overtaken" });
    return set(entries);
  };
  const state = openState({ storage: port });
  t.after(() => state.close());
  const reports = [];
  state.subscribe((event) => event.type === "report" && event.report === "storage-failed" && reports.push(event));
  await state.put("a", { n: 1 });
  assert.deepEqual([JSON.parse(area.keys.get("trackedEntity:a")).n, reports.length, refusals], [1, 0, -1]);
});

test("st_11 operations count in the order of the calls, from the first moment", async (t) => {
  const state = open(t, new Area());
  await Promise.all([state.put("a", { n: 1 }), state.remove("a"), state.put("b", { n: 1 }), state.put("b", { n: 2 })]);
  assert.deepEqual([state.ids(), state.get("b")], [["b"], { n: 2 }]);
});

test("st_14 a reset makes room at once", async (t) => {
  const area = new Area();
  const state = open(t, area);
  for (let number = 0; number < 20; number++) await state.put(`id${number}`, { number });
  await state.reset();
  while ([...area.keys.keys()].some((key) => key.startsWith("trackedEntity:"))) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(state.size, 0);
});

test("st_36 what a program that knows only ids removes right after it was added is gone", async (t) => {
  const area = new Area();
  const [state, legacy] = [open(t, area), area.port()];
  await state.put("kept", { n: 1 });
  for (const [id, byPage] of [["brief", true], ["short", false]]) {
    if (byPage) await state.put(id, { n: 2 });
    else {
      await legacy.set([[`trackedEntity:${id}`, JSON.stringify({ n: 3 })]]);
      await legacy.set([["trackedEntities:index", JSON.stringify({ ids: ["kept", id] })]]);
      await until(state, () => state.has(id));
    }
    await legacy.set([["trackedEntities:index", JSON.stringify({ ids: ["kept"] })]]);
    await legacy.remove([`trackedEntity:${id}`]);
    await until(state, () => !state.has(id));
    const stored = () => JSON.parse(area.keys.get("trackedEntities:index"));
    while (stored().ids.includes(id) || stored().gone?.[id] === undefined) await new Promise((resolve) => setTimeout(resolve, 5));
    assert.deepEqual([state.ids(), area.keys.has(`trackedEntity:${id}`)], [["kept"], false]);
  }
});

/** AES-GCM, with the id sealed in, so that nobody can put one entity in another's place. */
function sealedWith(key) {
  const bytes = (text) => new TextEncoder().encode(text);
  return {
    async encode(value, id) {
      const iv = crypto.getRandomValues(new Uint8Array(12));
      const sealed = await crypto.subtle.encrypt({ name: "AES-GCM", iv, additionalData: bytes(id) }, key, bytes(JSON.stringify(value)));
      return { iv: Buffer.from(iv).toString("base64"), sealed: Buffer.from(sealed).toString("base64") };
    },
    async decode({ iv, sealed }, id) {
      const how = { name: "AES-GCM", iv: Buffer.from(iv, "base64"), additionalData: bytes(id) };
      return JSON.parse(new TextDecoder().decode(await crypto.subtle.decrypt(how, key, Buffer.from(sealed, "base64"))));
    },
  };
}

const newKey = () => crypto.subtle.generateKey({ name: "AES-GCM", length: 256 }, false, ["encrypt", "decrypt"]);

test("st_36 encrypted values are readable with the key alone, and shown as they were put", async (t) => {
  const area = new Area();
  const codec = sealedWith(await newKey());
  const [one, other] = [open(t, area, { codec }), open(t, area, { codec })];
  await one.put("a", { secret: "milk" });
  assert.deepEqual(one.get("a"), { secret: "milk" }, "what is answered is shown");
  await until(other, () => other.has("a"));
  assert.deepEqual(other.get("a"), { secret: "milk" });
  assert.ok(Object.isFrozen(other.get("a")));
  assert.ok(area.keys.has("trackedEntity:a") && ![...area.keys.values()].some((text) => text.includes("milk")));

  const late = open(t, area, { codec });
  await late.ready;
  assert.deepEqual(late.get("a"), { secret: "milk" }, "ready means decoded");

  const stranger = open(t, area, { codec: sealedWith(await newKey()) });
  const reports = [];
  stranger.subscribe((event) => event.type === "report" && reports.push([event.report, event.detail]));
  await stranger.ready;
  assert.deepEqual([stranger.ids(), reports], [[], [["not-decoded", "a"]]]);
  assert.deepEqual(one.get("a"), { secret: "milk" }, "what one cannot read stays");
});

test("st_36 operations count in the order of their calls, however long each takes to encode", async (t) => {
  const area = new Area();
  const waits = [30, 1, 20, 5];
  const codec = {
    encode: (value) => new Promise((resolve) => setTimeout(() => resolve({ kept: value }), waits.shift() ?? 0)),
    decode: ({ kept }) => kept,
  };
  const state = open(t, area, { codec });
  await Promise.all([state.put("a", { n: 1 }), state.put("b", { n: 1 }), state.put("a", { n: 2 }), state.remove("b"), state.put("c", { n: 1 })]);
  assert.deepEqual(state.ids().sort(), ["a", "c"]);
  assert.deepEqual(state.get("a"), { n: 2 });
});

test("st_36 a codec that fails refuses the operation and harms no other", async (t) => {
  const area = new Area();
  const codec = {
    encode(value) {
      if (value.bad) throw new Error("no key");
      return { kept: value };
    },
    decode: ({ kept }) => kept,
  };
  const state = open(t, area, { codec });
  const refused = state.put("a", { bad: true });
  const taken = state.put("b", { n: 1 });
  await assert.rejects(refused, { name: "SynclineError", code: "codec-failed", message: /no key/ });
  await taken;
  assert.deepEqual(state.ids(), ["b"]);
  for (const wrong of [{}, { encode() {} }, null, 7]) assert.throws(() => openState({ storage: area.port(), codec: wrong }), { code: "invalid-argument" });
});
