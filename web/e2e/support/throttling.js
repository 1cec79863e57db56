// An API that asks everybody to come back later, always: keys of its queue end on the dead list.

import { once } from "node:events";
import { createServer } from "node:http";

export async function startThrottlingApi() {
  const server = createServer((_, response) => response.writeHead(429).end());
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    /** The configuration of a queue called `throttled` that asks it. */
    config: `[[queues]]\nname = "throttled"\nurl = "http://127.0.0.1:${port}/{key}"\ninterval_ms = 10\nretry_delay_ms = 10\nmax_attempts = 2\n`,
    async close() {
      server.closeAllConnections();
      await once(server.close(), "close");
    },
  };
}
