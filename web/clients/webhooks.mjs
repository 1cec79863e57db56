// A receiver of webhooks: checks each with the package `standardwebhooks` and tells what came at GET /seen.

import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.env.HOOK_SECRET);
const seen = {};
const refused = [];

const server = createServer(async (request, response) => {
  if (request.method === "GET") return response.end(JSON.stringify({ seen, refused }));
  let body = "";
  for await (const piece of request.setEncoding("utf8")) body += piece;
  try {
    seen[request.headers["webhook-id"]] = webhook.verify(body, request.headers);
    response.writeHead(204).end();
  } catch (error) {
    refused.push(String(error));
    response.writeHead(401).end();
  }
});
server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
