// The peer from Cloudflare's world: heartbeats as keys with a time to live in miniflare's KV, the local simulator of
// Workers KV, behind miniflare's own HTTP server. Prints where it listens; stops when told to or when
// its standard input ends.

import { Miniflare } from "miniflare";

const worker = `export default {
  async fetch(request, env) {
    if (request.method === "GET") {
      const { keys } = await env.VIEWERS.list({ prefix: "viewer:", limit: 1000 });
      return Response.json({ viewers: keys.length });
    }
    const { sessionId } = await request.json();
    await env.VIEWERS.put("viewer:" + sessionId, "1", { expirationTtl: 60 });
    return Response.json({ success: true });
  },
};`;

// Without a folder to persist to, what is put lives as long as this process: nothing has to reach a disk.
const miniflare = new Miniflare({
  modules: true,
  script: worker,
  compatibilityDate: "2026-04-01",
  kvNamespaces: ["VIEWERS"],
  host: "127.0.0.1",
  port: 0,
});
const url = await miniflare.ready;
console.log(`listening on ${url.origin}`);

async function stop() {
  await miniflare.dispose();
  process.exit(0);
}
process.stdin.resume();
process.stdin.on("end", stop);
process.on("SIGTERM", stop);
