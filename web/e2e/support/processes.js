// Processes of a browser, as Linux tells of them: a tab crashes when its content process is killed.

import { once } from "node:events";
import { readFile, readdir } from "node:fs/promises";

// Much longer than an answer takes.
const SILENCE_MS = 400;

/** The processes that `pid` has started, and those that they have, whose name begins with `name`. */
export async function descendants(/** @type {number} */ pid, /** @type {string} */ name) {
  const pids = (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry));
  const stats = await Promise.all(pids.map((entry) => readFile(`/proc/${entry}/stat`, "utf8").catch(() => "")));
  /** @type {Map<number, { parent: number, comm: string }>} */
  const all = new Map();
  for (const stat of stats) {
    // The name is in brackets, and may have some itself.
    const [, own, comm, , parent] = /^(\d+) \((.*)\) (\S) (\d+)/s.exec(stat) ?? [];
    if (own !== undefined) all.set(Number(own), { parent: Number(parent), comm });
  }
  const isOurs = (/** @type {number} */ one) => {
    for (let at = all.get(one)?.parent; at !== undefined && at !== 0; at = all.get(at)?.parent) if (at === pid) return true;
    return false;
  };
  return [...all].filter(([one, { comm }]) => comm.startsWith(name) && isOurs(one)).map(([one]) => one);
}

/**
 * Which of the processes shows a page: the one without which the page does not answer. Browsers start processes ahead, so when one
 * began says nothing.
 */
export async function processOf(/** @type {number[]} */ pids, /** @type {() => Promise<unknown>} */ ask) {
  for (const pid of pids) {
    process.kill(pid, "SIGSTOP");
    // Twice: the machine may be busy with something else.
    const isSilent = !(await answers(ask)) && !(await answers(ask));
    process.kill(pid, "SIGCONT");
    if (isSilent) return pid;
  }
  throw new Error("no process of this browser shows the page");
}

async function answers(/** @type {() => Promise<unknown>} */ ask) {
  let timer;
  const silence = new Promise((resolve) => (timer = setTimeout(resolve, SILENCE_MS, false)));
  const answer = ask().then(() => true, () => true);
  const isAnswered = await Promise.race([answer, silence]);
  clearTimeout(timer);
  return isAnswered;
}

/** Kills a process with its whole group, and waits for its end. */
export async function end(/** @type {import("node:child_process").ChildProcess} */ child) {
  const exited = child.exitCode === null && child.signalCode === null ? once(child, "exit") : undefined;
  try {
    process.kill(-(/** @type {number} */ (child.pid)), "SIGKILL");
  } catch {
    // It leads no group.
    child.kill("SIGKILL");
  }
  await exited;
}
