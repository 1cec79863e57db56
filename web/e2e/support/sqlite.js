// SQL pasted into a SQLite database by Python, which brings the library with it: Node.js 20 has none.

import { execFile } from "node:child_process";

const SCRIPT = "import sqlite3, sys; sqlite3.connect(sys.argv[1], isolation_level=None).executescript(sys.argv[2])";

/** A function that runs statements in the database of `path`. */
export async function openDatabase(/** @type {string} */ path) {
  return (/** @type {string} */ sql) =>
    new Promise((resolve) => {
      execFile("python3", ["-c", SCRIPT, path, sql], (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : 1, output: stdout + stderr });
      });
    });
}
