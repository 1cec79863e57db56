// A server in front of a node that shows the node's own pages to engines without a driver for them: it puts the agent and a watch for errors into each
// page, and passes everything else on as it is. The page's security policy stays, but for what the agent needs: to talk to the test, and `eval`.

import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { passOn } from "./pass-on.js";

const WATCH = `window.watched = [];
addEventListener("error", (event) => watched.push(String(event.message ?? event.target?.src ?? event.target?.href)), true);
addEventListener("unhandledrejection", (event) => watched.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => watched.push(event.violatedDirective + " " + event.blockedURI));
const complain = console.error;
console.error = (...words) => (watched.push(words.join(" ")), complain(...words));
`;
const HEAD = '<script src="/test/watch.js"></script>';
const AGENT = '<script type="module" src="/test/agent.js"></script>';

/** Serves the pages of the node at `nodeUrl` at another address. */
export async function openConsoleProxy(/** @type {string} */ nodeUrl) {
  const own = /** @type {Record<string, string>} */ ({
    "/test/watch.js": WATCH,
    "/test/agent.js": await readFile(new URL("agent.js", import.meta.url), "utf8"),
    "/test/axe.js": await readFile(new URL("../../node_modules/axe-core/axe.min.js", import.meta.url), "utf8"),
  });
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", nodeUrl);
    if (own[pathname]) return response.writeHead(200, { "content-type": "text/javascript" }).end(own[pathname]);
    const isPage = request.method === "GET" && (request.headers.accept ?? "").includes("text/html");
    if (!isPage) return passOn(request, response, nodeUrl);
    const answer = await fetch(nodeUrl + request.url, { headers: { accept: "text/html" } });
    const policy = (answer.headers.get("content-security-policy") ?? "")
      .replace("script-src 'self'", "script-src 'self' 'unsafe-eval'")
      .replace(/connect-src [^;]*|$/, (found) => (found ? `${found} ws://127.0.0.1:*` : "; connect-src 'self' ws://127.0.0.1:*"));
    const page = (await answer.text()).replace(/<head>|<title>/, (found) => (found === "<head>" ? found + HEAD : HEAD + found));
    response.writeHead(answer.status, { "content-type": "text/html; charset=utf-8", "content-security-policy": policy, "cache-control": "no-store" });
    response.end(searchParams.has("agent") ? page.replace("</head>", `${AGENT}</head>`) : page);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
