// How every peer sends: one keep-alive pool of connections, and success is what the contract says.

import { Pool } from "undici";

/** A function that posts entries and is done when they were taken. */
export function sender(base, connections) {
  const pool = new Pool(base, { connections, pipelining: 1 });
  return async (entries) => {
    const { statusCode, body } = await pool.request({
      method: "POST",
      path: "/api/ingest/sync",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ entries }),
    });
    const answer = await body.json();
    if (statusCode !== 200 || answer.ok !== true) {
      throw new Error(`${statusCode}: ${JSON.stringify(answer)}`);
    }
  };
}

/** The `n`th change, as all contenders send it. */
export function entry(n, createdAt) {
  return {
    entityType: "order",
    entityId: `order-${n}`,
    payload: { id: `order-${n}`, from: "+81312345678", to: "+81398765432", durationSec: n % 600, status: "ended" },
    createdAt,
  };
}
