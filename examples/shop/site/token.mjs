// What lets a visitor in: a token for ten minutes, signed with the secret that the shop shares with the node.

import { createHmac } from "node:crypto";

const encoded = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

export function tokenFor(subject, { secret, issuer, audience, seconds = 600 }) {
  const now = Math.floor(Date.now() / 1000);
  const header = { alg: "HS256", typ: "JWT", kid: "shop-1" };
  const claims = { iss: issuer, aud: audience, sub: subject, iat: now, exp: now + seconds };
  const message = `${encoded(header)}.${encoded(claims)}`;
  return `${message}.${createHmac("sha256", secret).update(message).digest("base64url")}`;
}
