// What a recording looks like: its loudest moments, from the sound itself. Small files are decoded whole by the browser; of
// large ones only a slice for each bar is asked for, by range requests, so that an hour costs no more than a minute.

const WHOLE_MAX_BYTES = 16 * 1024 * 1024;
const HEAD_BYTES = 4_096;
const SLICE_FRAMES = 1_024;
const AT_ONCE = 4;

/** Bars of a waveform. */
export const BARS = 160;

/**
 * From 0 to 1 for each bar.
 * @param {string} url
 * @param {number} bytes
 * @param {AbortSignal} signal
 * @returns {Promise<number[]>}
 */
export async function waveform(url, bytes, signal) {
  if (bytes > WHOLE_MAX_BYTES) return scaled(await sliced(url, bytes, signal));
  const response = await fetch(url, { signal });
  if (!response.ok) throw new Error(`the recording cannot be read (${response.status})`);
  const sound = await new OfflineAudioContext(1, 1, 8_000).decodeAudioData(await response.arrayBuffer());
  return scaled(peaks(sound.getChannelData(0), BARS));
}

/** The loudest of each of `bars` stretches. */
export function peaks(/** @type {Float32Array} */ samples, /** @type {number} */ bars) {
  return Array.from({ length: bars }, (_, bar) => {
    const end = Math.floor(((bar + 1) * samples.length) / bars);
    let loudest = 0;
    for (let i = Math.floor((bar * samples.length) / bars); i < end; i += 1) loudest = Math.max(loudest, Math.abs(samples[i]));
    return loudest;
  });
}

/** Quiet recordings are shown as large as loud ones; silence stays flat. */
export function scaled(/** @type {number[]} */ bars) {
  const loudest = Math.max(...bars);
  return loudest < 0.001 ? bars.map(() => 0) : bars.map((bar) => bar / loudest);
}

/**
 * Where the sound is in a WAV file of 16-bit samples, from its beginning; null for any other file.
 * @param {ArrayBuffer} head
 * @param {number} bytes of the whole file
 */
export function readHead(head, bytes) {
  const view = new DataView(head);
  const word = (/** @type {number} */ at) => String.fromCharCode(...new Uint8Array(head, at, 4));
  if (head.byteLength < 12 || word(0) !== "RIFF" || word(8) !== "WAVE") return null;
  let frameBytes = 0;
  for (let at = 12; at + 8 <= head.byteLength; ) {
    const size = view.getUint32(at + 4, true);
    if (word(at) === "fmt " && at + 24 <= head.byteLength) {
      if (view.getUint16(at + 8, true) !== 1 || view.getUint16(at + 22, true) !== 16) return null;
      frameBytes = view.getUint16(at + 10, true) * 2;
    }
    if (word(at) === "data") {
      const start = at + 8;
      return frameBytes > 0 ? { start, length: Math.min(size, bytes - start), frameBytes } : null;
    }
    at += 8 + size + (size % 2);
  }
  return null;
}

async function sliced(/** @type {string} */ url, /** @type {number} */ bytes, /** @type {AbortSignal} */ signal) {
  const part = async (/** @type {number} */ from, /** @type {number} */ to) => {
    const response = await fetch(url, { signal, headers: { range: `bytes=${from}-${to - 1}` } });
    if (response.status !== 206) throw new Error(`no part of the recording can be read (${response.status})`);
    return response.arrayBuffer();
  };
  const sound = readHead(await part(0, Math.min(HEAD_BYTES, bytes)), bytes);
  if (!sound) throw new Error("the recording is no WAV file of 16-bit samples");
  const { start, length, frameBytes } = sound;
  const bars = new Array(BARS).fill(0);
  let nextBar = 0;
  const work = async () => {
    for (let bar = nextBar++; bar < BARS; bar = nextBar++) {
      const frame = Math.floor((bar * length) / BARS / frameBytes);
      const from = start + frame * frameBytes;
      const slice = await part(from, Math.min(from + SLICE_FRAMES * frameBytes, start + length));
      const samples = new Int16Array(slice.slice(0, slice.byteLength - (slice.byteLength % 2)));
      bars[bar] = samples.reduce((loudest, sample) => Math.max(loudest, Math.abs(sample)), 0) / 32_768;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return bars;
}
