//! A small number for each key that a queue knows.
//!
//! The keys themselves stay in JavaScript. Here each is known by a fingerprint of 128 bits that is keyed with a secret:
//! nobody can make two keys that share one, and by chance none will. Many keys come as one text and are numbered in one
//! call; JavaScript's own map of texts takes longer and more memory.

use std::hash::Hasher;

use hashbrown::HashTable;
use siphasher::sip128::{Hasher128, SipHasher13};
use wasm_bindgen::prelude::wasm_bindgen;

/// The number of a key that has none.
const NONE: u32 = u32::MAX;

/// The numbers of a queue's keys, from 0 on. Those taken back are given again.
#[wasm_bindgen]
#[derive(Debug)]
pub struct KeyNumbers {
    secret: SipHasher13,
    /// Found by the lower half of their fingerprints.
    known: HashTable<u32>,
    /// The fingerprint of each number.
    prints: Vec<u128>,
    free: Vec<u32>,
    /// Where JavaScript writes keys.
    text: Vec<u8>,
    /// Where it reads their numbers.
    told: Vec<u32>,
}

#[wasm_bindgen]
impl KeyNumbers {
    /// No key has a number yet. `secret` is four random numbers of 32 bits.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(secret: &[u32]) -> Self {
        let half =
            |at: usize| secret.iter().skip(at).take(2).fold(0, |half, &part| half << 32 | u64::from(part));
        Self {
            secret: SipHasher13::new_with_keys(half(0), half(2)),
            known: HashTable::new(),
            prints: Vec::new(),
            free: Vec::new(),
            text: Vec::new(),
            told: Vec::new(),
        }
    }

    /// So many keys are going to be added. Growing at once touches less memory than growing step by step.
    pub fn expect(&mut self, count: usize) {
        let Self { known, prints, free, .. } = self;
        known.reserve(count, |&number| prints[number as usize] as u64);
        prints.reserve(count.saturating_sub(free.len()));
    }

    /// Where in the module's memory to write a text of up to so many bytes for [`number`](Self::number).
    pub fn room(&mut self, bytes: usize) -> usize {
        if self.text.len() < bytes {
            self.text.resize(bytes, 0);
        }
        self.text.as_ptr().addr()
    }

    /// Numbers the keys in the first `bytes` of the text, which stand there in lines. Without `add` only those that have a
    /// number already. False, and nothing done, if these are not `count` keys: control characters may not be in one.
    pub fn number(&mut self, bytes: usize, count: usize, add: bool) -> bool {
        let Self { secret, known, prints, free, text, told } = self;
        let text = text.get(..bytes).unwrap_or_default();
        let lines = text.split(|&byte| byte == b'\n');
        let breaks = text.iter().filter(|&&byte| byte == b'\n').count();
        let fits = breaks + 1 == count && controls(text) == breaks;
        told.clear();
        if fits {
            told.extend(lines.map(|key| {
                let mut hasher = *secret;
                hasher.write(key);
                let print = hasher.finish128().as_u128();
                match known.find(print as u64, |&number| prints[number as usize] == print) {
                    Some(&number) => number,
                    None if !add => NONE,
                    None => {
                        let number = free.pop().unwrap_or(prints.len() as u32);
                        match prints.get_mut(number as usize) {
                            Some(place) => *place = print,
                            None => prints.push(print),
                        }
                        known.insert_unique(print as u64, number, |&number| prints[number as usize] as u64);
                        number
                    }
                }
            }));
        }
        fits
    }

    /// Where in the module's memory the numbers of the last keys are, in their order; [`u32::MAX`] is none.
    #[wasm_bindgen(getter, js_name = toldAt)]
    #[must_use]
    pub fn told_at(&self) -> usize {
        self.told.as_ptr().addr()
    }

    /// Takes a number back; false if no key has it.
    #[wasm_bindgen(js_name = takeBack)]
    pub fn take_back(&mut self, number: u32) -> bool {
        let Some(&print) = self.prints.get(number as usize) else { return false };
        let Ok(entry) = self.known.find_entry(print as u64, |&known| known == number) else { return false };
        entry.remove();
        self.free.push(number);
        true
    }
}

/// How many control characters are in this UTF-8.
fn controls(text: &[u8]) -> usize {
    let of_ascii = text.iter().filter(|byte| byte.is_ascii_control()).count();
    let beyond = |pair: &[u8]| pair[0] == 0xc2 && pair[1] < 0xa0;
    of_ascii + if text.is_ascii() { 0 } else { text.windows(2).filter(|pair| beyond(pair)).count() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(keys: &mut KeyNumbers, list: &[&str], add: bool) -> Option<Vec<u32>> {
        let text = list.join("\n");
        keys.room(text.len());
        keys.text[..text.len()].copy_from_slice(text.as_bytes());
        keys.number(text.len(), list.len(), add).then(|| keys.told.clone())
    }

    #[test]
    fn qu_01_a_key_has_one_number_until_it_is_taken_back() {
        let mut keys = KeyNumbers::new(&[1, 2, 3, 4]);
        assert_eq!(number(&mut keys, &["a", "b", "a", "図書"], true), Some(vec![0, 1, 0, 2]));
        assert_eq!(number(&mut keys, &["図書", "c", "b"], false), Some(vec![2, NONE, 1]));
        assert_eq!((keys.take_back(1), keys.take_back(1), keys.take_back(7)), (true, false, false));
        assert_eq!(number(&mut keys, &["b"], false), Some(vec![NONE]));
        assert_eq!(
            number(&mut keys, &["c", "b", "a"], true),
            Some(vec![1, 3, 0]),
            "what is free is given first"
        );
    }

    #[test]
    fn qu_05_a_hundred_thousand_keys_have_a_hundred_thousand_numbers() {
        let mut keys = KeyNumbers::new(&[7]);
        let texts: Vec<String> = (0..100_000).map(|n| format!("key-{n}")).collect();
        let lists: Vec<&str> = texts.iter().map(String::as_str).collect();
        let told: Vec<u32> =
            lists.chunks(999).flat_map(|some| number(&mut keys, some, true).unwrap()).collect();
        assert!(told.iter().copied().eq(0..100_000));
        assert_eq!(number(&mut keys, &lists, false), Some(told));
    }

    #[test]
    fn qu_01_what_cannot_be_a_key_is_refused_and_nothing_is_numbered() {
        let mut keys = KeyNumbers::new(&[]);
        for bad in ["a\nb", "\n", "a\0", "a\u{7f}", "a\u{85}b"] {
            assert_eq!(number(&mut keys, &["fine", bad], true), None, "{bad:?}");
        }
        assert_eq!(number(&mut keys, &["fine", "é\u{a0}"], false), Some(vec![NONE, NONE]));
        assert!(!keys.number(usize::MAX, 9, true), "what was never written is no key");
    }
}
