// A throwaway PostgreSQL, by the program that the workspace builds for it. It ends with its pipe, whatever becomes of the test.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";

/** Starts a server; `url` is for DATABASE_URL. */
export async function startPostgres() {
  const program = join(dirname(process.env.SYNCLINE_BIN ?? ""), "throwaway-postgres");
  const child = spawn(program, [], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(child, "exit");
  const lines = createInterface({ input: child.stdout });
  const url = await new Promise((started, failed) => {
    lines.once("line", started);
    child.once("error", failed);
    child.once("exit", (code) => failed(new Error(`${program} ended with ${code}`)));
  });
  return {
    url: String(url).trim(),
    async stop() {
      child.stdin.end();
      await ended;
    },
  };
}
