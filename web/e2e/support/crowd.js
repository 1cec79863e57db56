// Clients of a node in a process of their own, with the package as pages load it: each has a token function, which asks an issuer, and
// streams that are renewed when the rules say so. What happens is told to the process that started this one.

import { readFile } from "node:fs/promises";

const PACKAGE = new URL("../../pkg/", import.meta.url);
const CALLS_EVERY_MS = 200;

const plan = JSON.parse(process.argv[2]);
const { init } = await import(new URL("token.js", PACKAGE).href);
await init(await readFile(new URL("syncline_token_bg.wasm", PACKAGE)));
const { connect } = await import(new URL("client.js", PACKAGE).href);

const told = { opened: 0, answered: 0, problems: /** @type {string[]} */ ([]) };
const failed = (/** @type {any} */ error) => told.problems.push(`${error.code} ${error.reason ?? ""} ${error.message}`);

for (let number = 0; number < plan.clients; number++) {
  let age = plan.age ?? 0;
  const token = async () => {
    const answer = await fetch(`${plan.issuer}/token?sub=${number}&lives=${age === 0 ? plan.lives : 30}&age=${age}`);
    age = 0;
    return answer.text();
  };
  const client = connect({ url: plan.node, token });
  for (let stream = 0; stream < plan.streams; stream++) {
    client.listen({ topics: "state", space: `cart-${number}` }, (/** @type {any} */ { type }) => type === "open" && (told.opened += 1), failed);
  }
  if (plan.calls) setInterval(() => client.call("GET", `/api/state/cart-${number}`).then(() => (told.answered += 1), failed), CALLS_EVERY_MS);
}

setInterval(() => process.send?.(told), 100);
