// Passes a request on to a node, as a server in front of it does: pages of the tests' own talk to a real node.

import { request as ask } from "node:http";
import { pipeline } from "node:stream";

/** @param {import("node:http").IncomingMessage} request @param {import("node:http").ServerResponse} response @param {string} nodeUrl */
export function passOn(request, response, nodeUrl) {
  const { host, hostname, port, origin } = new URL(nodeUrl);
  const headers = { ...request.headers, host, ...(request.headers.origin === undefined ? {} : { origin }) };
  const passed = ask({ hostname, port, path: request.url, method: request.method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    // Ends with the node, too: a stream whose node was killed would seem to live.
    pipeline(answer, response, () => {});
  });
  passed.on("error", () => response.destroy());
  response.on("close", () => passed.destroy());
  request.pipe(passed);
}
