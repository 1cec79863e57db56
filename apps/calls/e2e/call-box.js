// A box that knows the plain contract and nothing else: sends calls, settings and recordings to a node.

/**
 * A WAV file of 16-bit samples: silence, and then a tone.
 * @param {number} seconds
 */
export function wav(seconds, rate = 8_000) {
  const samples = Math.round(seconds * rate);
  const bytes = new ArrayBuffer(44 + samples * 2);
  const view = new DataView(bytes);
  const text = (/** @type {number} */ at, /** @type {string} */ word) => [...word].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, 36 + samples * 2, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, rate * 2, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, samples * 2, true);
  for (let i = 0; i < samples; i += 1) {
    const loud = i > samples / 2 ? 0.8 : 0;
    view.setInt16(44 + i * 2, Math.sin((i / rate) * 2 * Math.PI * 440) * loud * 32_767, true);
  }
  return bytes;
}

/**
 * @param {string} url of the node
 * @param {string} entityType
 * @param {string} entityId
 * @param {unknown} payload
 * @param {Date} [at]
 */
export async function send(url, entityType, entityId, payload, at = new Date()) {
  const entries = [{ entityType, entityId, payload, createdAt: at.toISOString() }];
  const response = await fetch(`${url}/api/ingest/sync`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ entries }),
  });
  return { status: response.status, answer: await response.json() };
}

/**
 * @param {string} url of the node
 * @param {string} callLogId
 * @param {ArrayBuffer} sound
 */
export async function sendRecording(url, callLogId, sound) {
  const form = new FormData();
  form.set("callLogId", callLogId);
  form.set("recordingId", `r-${callLogId}`);
  form.set("audio", new Blob([sound], { type: "application/octet-stream" }), "mixed.wav");
  form.set("meta", new Blob([JSON.stringify({ sampleRate: 8_000 })], { type: "application/json" }), "meta.json");
  const response = await fetch(`${url}/api/ingest/recording-file`, { method: "POST", body: form });
  return { status: response.status, answer: await response.json() };
}
