// One stream of server-sent events, read with fetch, because an EventSource can show no token.
//
// Guarantees: it settles when the stream ends, was refused or was aborted, and throws when it breaks or falls silent.

// A stream that is not even kept alive for so long has died unnoticed; a node sends something every 15 s.
const SILENCE_MAX_MS = 45_000;
// No node asks for more.
const LEAVE_ALONE_MAX_MS = 300_000;

// How long an answer asks to be left alone: its `Retry-After` in seconds, as nodes say it.
export function retryAfterMs(response) {
  const seconds = Number(response.headers.get("retry-after"));
  return seconds > 0 ? Math.min(seconds * 1_000, LEAVE_ALONE_MAX_MS) : 0;
}

export async function readEvents(address, headers, over, { onRefused, onOpen, onEvent }) {
  const silence = new AbortController();
  const signal = AbortSignal.any([over, silence.signal]);
  let timer = setTimeout(() => silence.abort(), SILENCE_MAX_MS);
  try {
    const accept = { ...headers, accept: "text/event-stream" };
    const response = await fetch(address, { headers: accept, signal, credentials: "same-origin", cache: "no-store" });
    if (!response.ok) return onRefused(response.status, await response.text(), retryAfterMs(response));
    onOpen();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let read = ""; ; ) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MAX_MS);
      const events = (read + value).split("\n\n");
      read = events.pop();
      for (const text of events) {
        const field = (name) => text.split("\n").find((line) => line.startsWith(`${name}:`))?.slice(name.length + 1).trim();
        onEvent(field("event"), field("data") ?? "{}", field("id"));
      }
    }
  } finally {
    clearTimeout(timer);
  }
}
