//! What a telephone call leaves behind, invented: who called, for how long, and a recording that can be heard.
//!
//! The same number always makes the same call. The recording is a real WAV file: the ring-back tone, then two voices in turn,
//! high and low, which hum instead of speaking, so that nobody is quoted.

use std::f64::consts::TAU;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// Samples in a second, as telephones have them.
pub const SAMPLE_RATE: u32 = 8_000;

const RING_SEC: f64 = 1.0;
const RING_HZ: f64 = 400.0;
const WAV_HEADER_BYTES: u32 = 44;

/// A call that nobody made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InventedCall {
    /// The number that called, from a range that is given to nobody.
    pub caller: String,
    /// What became of it.
    pub disposition: &'static str,
    /// How long it took.
    pub duration_sec: u32,
    /// The recording, a whole WAV file.
    pub wav: Vec<u8>,
}

/// Invents the call with this number, of a few seconds.
#[must_use]
pub fn invent(number: u64) -> InventedCall {
    let mut dice = StdRng::seed_from_u64(number);
    let duration_sec = dice.random_range(4..=9);
    InventedCall {
        caller: format!("+81-90-0000-{:04}", dice.random_range(0..10_000)),
        disposition: ["answered", "answered", "answered", "voicemail"][dice.random_range(0..4)],
        duration_sec,
        wav: wav(duration_sec, &mut dice),
    }
}

/// 16-bit samples of one channel, with their header.
fn wav(duration_sec: u32, dice: &mut StdRng) -> Vec<u8> {
    let samples = SAMPLE_RATE * duration_sec;
    let bytes = samples * 2;
    let mut wav = Vec::with_capacity((WAV_HEADER_BYTES + bytes) as usize);
    wav.extend_from_slice(b"RIFF");
    wav.extend_from_slice(&(WAV_HEADER_BYTES - 8 + bytes).to_le_bytes());
    wav.extend_from_slice(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    wav.extend_from_slice(&SAMPLE_RATE.to_le_bytes());
    wav.extend_from_slice(&(SAMPLE_RATE * 2).to_le_bytes());
    wav.extend_from_slice(b"\x02\0\x10\0data");
    wav.extend_from_slice(&bytes.to_le_bytes());
    let mut voice = Voice::new(dice);
    for number in 0..samples {
        let second = f64::from(number) / f64::from(SAMPLE_RATE);
        let loudness = if second < RING_SEC { ring(second) } else { voice.hum(second, dice) };
        wav.extend_from_slice(&((loudness * f64::from(i16::MAX)) as i16).to_le_bytes());
    }
    wav
}

/// The tone that a caller hears while it rings: 400 Hz that swell sixteen times a second.
fn ring(second: f64) -> f64 {
    0.2 * (TAU * RING_HZ * second).sin() * (0.6 + 0.4 * (TAU * 16.0 * second).sin())
}

/// One syllable after the other, each a little higher or lower than the one before; every so often the other one speaks.
struct Voice {
    pitch_hz: f64,
    begins: f64,
    ends: f64,
    low: bool,
}

impl Voice {
    fn new(dice: &mut StdRng) -> Voice {
        Voice { pitch_hz: 0.0, begins: RING_SEC, ends: RING_SEC, low: dice.random() }
    }

    fn hum(&mut self, second: f64, dice: &mut StdRng) -> f64 {
        if second >= self.ends {
            self.low ^= dice.random_bool(0.2);
            let middle_hz = if self.low { 115.0 } else { 205.0 };
            self.pitch_hz = middle_hz * dice.random_range(0.85..1.2);
            self.begins = second + dice.random_range(0.01..0.12);
            self.ends = self.begins + dice.random_range(0.1..0.3);
        }
        if second < self.begins {
            return 0.0;
        }
        let through = (second - self.begins) / (self.ends - self.begins);
        let swell = (TAU / 2.0 * through).sin().powf(0.6);
        let phase = TAU * self.pitch_hz * second;
        // Overtones make it a voice rather than a whistle.
        let overtones: f64 = (1..=6).map(|n| (phase * f64::from(n)).sin() / f64::from(n)).sum();
        0.22 * swell * overtones
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_a_wav_file_as_long_as_its_call_and_can_be_heard() {
        for number in 0..20 {
            let call = invent(number);
            let (header, samples) = call.wav.split_at(WAV_HEADER_BYTES as usize);
            assert_eq!(
                (&header[..4], &header[8..16], &header[36..40]),
                (&b"RIFF"[..], &b"WAVEfmt "[..], &b"data"[..])
            );
            let size = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap()) as usize;
            assert_eq!((size(4), size(40)), (call.wav.len() - 8, samples.len()));
            assert_eq!(samples.len() as u32, call.duration_sec * SAMPLE_RATE * 2);
            let loudest =
                samples.chunks(2).map(|two| i16::from_le_bytes([two[0], two[1]]).unsigned_abs()).max();
            assert!(loudest > Some(5_000) && loudest < Some(i16::MAX as u16), "{loudest:?}");
        }
        assert_eq!(invent(7), invent(7));
        assert_ne!(invent(7).wav, invent(8).wav);
    }
}
