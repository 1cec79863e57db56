// Documents taken apart: their snippets, the commands in them, and running these as somebody who pastes them.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "@playwright/test";

export const ROOT = join(import.meta.dirname, "../../..");
const COMMAND_MAX_MS = 60_000;

/** @typedef {{ language: string, file?: string, text: string, line: number }} Snippet */

/** @returns {Promise<Snippet[]>} */
export async function snippets(/** @type {string} */ document) {
  const text = await readFile(join(ROOT, document), "utf8");
  return [...text.matchAll(/^```(\w+)(?: file=(\S+))?\n([^]*?)^```/gm)].map(({ 1: language, 2: file, 3: body, index }) => ({
    language,
    file,
    text: body,
    line: text.slice(0, index).split("\n").length + 1,
  }));
}

/** Commands of a snippet with their line; what continues on the next line is one. */
export function commands(/** @type {Snippet} */ { text, line }) {
  /** @type {{ command: string, line: number }[]} */
  const found = [];
  let open = "";
  for (const [at, each] of text.split("\n").entries()) {
    const joined = open + each;
    open = joined.endsWith("\\") ? `${joined.slice(0, -1)} ` : "";
    // A comment is one behind two spaces, or a line of its own.
    const command = joined.replace(/(^|\s{2,})#.*$/, "").trim();
    if (open === "" && command !== "") found.push({ command, line: line + at });
  }
  return found;
}

/** What was said is what the document shows; `…` stands for anything on its line, and for any lines where it is alone. */
export function expectOutput(/** @type {string} */ said, /** @type {string} */ shown, /** @type {string} */ place) {
  const escape = (/** @type {string} */ text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const lines = shown.trimEnd().split("\n").map((line) => (line.trim() === "…" ? "[^]*" : line.split("…").map(escape).join(".*")));
  expect(said.trimEnd(), place).toMatch(new RegExp(`^${lines.join("\\n")}$`));
}

/** @returns {Promise<{ code: number, output: string }>} */
export function run(/** @type {string} */ command, /** @type {string} */ cwd, /** @type {Record<string, string | undefined>} */ environment) {
  return new Promise((resolve) => {
    execFile("bash", ["--norc", "-o", "pipefail", "-c", command], { cwd, env: environment, timeout: COMMAND_MAX_MS }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : typeof error.code === "number" ? error.code : 128, output: stdout + stderr });
    });
  });
}
