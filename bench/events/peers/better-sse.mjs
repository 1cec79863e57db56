// The peer: a channel of better-sse on Node's own HTTP server. `POST /publish` tells everybody who listens on `/events`.

import { createServer } from "node:http";
import { createChannel, createSession } from "better-sse";

const channel = createChannel();
const server = createServer(async (request, response) => {
  if (request.url === "/events") {
    const session = await createSession(request, response);
    session.push("hello", "hello");
    return channel.register(session);
  }
  if (request.url === "/publish") {
    let body = "";
    for await (const piece of request) body += piece;
    channel.broadcast(JSON.parse(body), "lock.acquired");
  }
  response.writeHead(200, { "content-type": "application/json" }).end("{}");
});
server.keepAliveTimeout = 0;
server.listen(Number(process.argv[2]), "127.0.0.1");
