// The calls page against a real node, with a box that knows the plain contract alone.

import { AxeBuilder } from "../../../web/e2e/support/playwright.js";
import { expect, open, test } from "../../../web/e2e/support/test.js";
import { send, sendRecording, wav } from "./call-box.js";

const calls = (/** @type {import("../../../web/e2e/support/playwright.js").Page} */ page) => page.locator("#calls .call");
const call = { callerNumber: "+81-90-0000-1234", disposition: "answered", durationSec: 12, startedAt: new Date().toISOString() };

test("ss_09 calls appear as they arrive, newest first, and their recordings when these do", async ({ node, page }) => {
  await open(page, "/calls");
  await expect(page.locator("#calls-empty")).toBeVisible();
  expect(await send(node.url, "call_log", "c-1", call)).toEqual({ status: 200, answer: { ok: true } });
  await expect(calls(page)).toHaveCount(1);
  await expect(calls(page).first()).toContainText("+81-90-0000-1234 answered, 00:12");
  await expect(calls(page).first()).toContainText("No recording here");
  await send(node.url, "call_log", "c-2", { ...call, callerNumber: "+81-90-0000-9999" });
  await expect(calls(page).first()).toContainText("9999");

  const { status, answer } = await sendRecording(node.url, "c-1", wav(2));
  expect([status, answer.fileUrl]).toEqual([200, `${node.url}/storage/recordings/c-1/mixed.wav`]);
  await expect(page.getByRole("button", { name: "Listen to the call of +81-90-0000-1234" })).toBeVisible();
  await page.reload();
  await expect(calls(page)).toHaveCount(2);
  await page.getByLabel("Find a call").fill("9999");
  await expect(calls(page)).toHaveCount(1);
});

test("ss_09 a recording shows its waveform, plays, and is sought in by keyboard and mouse", async ({ node, page }) => {
  await send(node.url, "call_log", "c-1", call);
  await sendRecording(node.url, "c-1", wav(30));
  await open(page, "/calls");
  await page.getByRole("button", { name: "Listen to the call" }).click();
  const slider = page.getByRole("slider", { name: /^Place in the call/ });
  await expect(slider).toHaveAttribute("aria-valuemax", "30");
  // To listen is to play.
  await page.getByRole("button", { name: "Pause" }).click();
  // Silence first and then a tone: the second half is higher than the first.
  const bars = async () => (await page.locator(".wave .bars").getAttribute("d"))?.match(/M\S+ (\S+?)V(\S+?)(?=M|$)/g)?.map((bar) => {
    const [, from, to] = /M\S+ (\S+?)V(\S+)/.exec(bar) ?? [];
    return Number(to) - Number(from);
  }) ?? [];
  await expect.poll(async () => Math.max(...(await bars()).slice(100))).toBeGreaterThan(40);
  expect(Math.max(...(await bars()).slice(0, 70))).toBeLessThan(2);

  await slider.focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  await expect(slider).toHaveAttribute("aria-valuenow", "5");
  await page.keyboard.press("End");
  await expect(slider).toHaveAttribute("aria-valuenow", "30");
  await page.keyboard.press("Home");
  await expect(slider).toHaveAttribute("aria-valuenow", "0");
  const box = await slider.boundingBox();
  await slider.click({ position: { x: (box?.width ?? 0) / 2, y: 10 } });
  await expect(slider).toHaveAttribute("aria-valuenow", "15");
  await page.getByRole("button", { name: "Play", exact: true }).click();
  await expect(page.getByRole("button", { name: "Pause" })).toBeVisible();
  await expect.poll(async () => Number(await slider.getAttribute("aria-valuenow"))).toBeGreaterThan(15);
  const { violations } = await new AxeBuilder({ page }).analyze();
  expect(violations.map(({ id, nodes }) => `${id} ${nodes[0].html}`)).toEqual([]);
});

test("ss_10 a setting is edited, leaves through the outbox, and a newer change elsewhere is not overwritten unasked", async ({ node, page }) => {
  await send(node.url, "routing_rule", "r-1", { name: "Office", ring: true, seconds: 20, hours: [9, 18] });
  await open(page, "/calls");
  await page.getByLabel("Kind of setting").selectOption("routing_rule");
  await page.getByRole("button", { name: "Edit Office" }).click();
  await page.getByLabel("seconds").fill("soon");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.locator("#editor-trouble")).toHaveText("seconds: this is no number.");
  await page.getByLabel("seconds").fill("25");
  await page.getByLabel("ring").uncheck();
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.locator("#editor-told")).toHaveText("Saved here, and on its way to the box.");
  const kept = await node.ask("/api/entities/routing_rule/r-1");
  expect(kept.payload).toEqual({ name: "Office", ring: false, seconds: 25, hours: [9, 18] });
  await expect.poll(async () => (await node.ask("/api/outbox")).pending).toBe(1);

  // Somebody else is faster.
  await page.getByLabel("name", { exact: true }).fill("Mine");
  const later = new Date(Date.now() + 60_000);
  await send(node.url, "routing_rule", "r-1", { name: "Theirs", ring: true, seconds: 5, hours: [] }, later);
  await expect(page.locator("#editor-stale")).toContainText("changed elsewhere");
  await expect(page.getByLabel("name", { exact: true })).toHaveValue("Mine");
  await page.getByRole("button", { name: "Show theirs" }).click();
  await expect(page.getByLabel("name", { exact: true })).toHaveValue("Theirs");
});

test("ss_06 a new setting is added by hand, of a kind that only the configuration knows", async ({ node, page }) => {
  await open(page, "/calls");
  await page.getByLabel("Kind of setting").selectOption("greeting");
  await expect(page.locator("#settings-empty")).toHaveText("There is no greeting yet. Add one, or wait for the box to send its own.");
  await page.getByRole("button", { name: "Add one" }).click();
  await page.getByLabel("Id", { exact: true }).fill("g-1");
  await page.getByLabel("name", { exact: true }).fill("Summer");
  await page.getByLabel("Another field").fill("volume");
  await page.getByLabel("Its kind").selectOption("number");
  await page.getByRole("button", { name: "Add field" }).click();
  await page.getByLabel("volume").fill("7");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.locator("#settings-list")).toContainText("Summer");
  expect((await node.ask("/api/entities/greeting/g-1")).payload).toEqual({ name: "Summer", enabled: true, volume: 7 });
});
test.use({ nodeOptions: { config: '[[entities]]\nname = "greeting"\nsettings = true\n' } });

test("ss_27 hostile text in calls and settings stays text", async ({ node, page }) => {
  await page.addInitScript(() => {
    /** @type {any} */ (window).boom = () => console.error("a payload ran");
  });
  const hostile = '"><img src=x onerror=boom()><script>boom()</script>';
  await send(node.url, "call_log", hostile, { callerNumber: hostile, disposition: "javascript:boom()", startedAt: hostile, durationSec: hostile });
  await send(node.url, "call_log", "__proto__", { callerNumber: "__proto__", constructor: hostile });
  await send(node.url, "registered_number", hostile, { name: hostile, [hostile]: hostile, nested: { [hostile]: [hostile] } });
  await open(page, "/calls");
  await expect(calls(page)).toHaveCount(2);
  await expect(calls(page).nth(1)).toContainText(hostile);
  await page.getByRole("button", { name: /^Edit/ }).click();
  await expect(page.locator("#editor-title")).toHaveText(hostile.slice(0, 80));
  await expect(page.locator("main img, main script, main iframe")).toHaveCount(0);
});
