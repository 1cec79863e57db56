// A node's API from a page, as its users write it. Compiled, never run.

import { connect, startViewer, SynclineError, type ClientOptions, type NodeClient, type NodeEvent } from "syncline";
import { connect as connectDirectly } from "syncline/client";

export const options: ClientOptions = { url: "https://node.example", token: () => "a token" };

export async function holds(): Promise<string | undefined> {
  const client: NodeClient = connect(options);
  const stop: () => void = client.listen({ topics: "lock" }, ({ type, data }: NodeEvent) => console.log(type, data), (problem) => console.log(problem.reason));
  try {
    await client.call("POST", "/api/locks/doc:1/acquire", { holder: "tab", ttlMs: 10_000 });
  } catch (error) {
    if (error instanceof SynclineError && error.code === "needs-auth") return error.grant;
  } finally {
    stop();
  }
  client.resume({ token: "another" });
  client.close();
  // @ts-expect-error the address of a node is a text
  connectDirectly({ url: 7 });
  startViewer({ endpoint: "https://node.example/api/viewer", token: async () => "a token" });
  return undefined;
}
