// SPDX-License-Identifier: GPL-2.0-only
//! Inputs made of valid ones, as a seed says: bytes replaced, words set to what breaks arithmetic, pieces cut, repeated and swapped.

/// splitmix64
pub struct Rng(pub u64);

impl Rng {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`; 0 if `n` is.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.word() % n as u64) as usize }
    }
}

/// Values at the ends of ranges.
const WORDS: [u64; 12] =
    [0, 1, 2, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 62, i64::MAX as u64, 1 << 63, u64::MAX];
/// What means something in a text.
const TOKENS: [&str; 16] = [
    "\n",
    "\"",
    "[",
    "]",
    "=",
    "{",
    "}",
    ",",
    "-1",
    "1e999",
    "99999999999999999999",
    "0ns",
    "10s",
    "\\u0000",
    "\\n",
    "€",
];

/// One of `seeds`, damaged a few times, and of at most `largest` bytes.
#[must_use]
pub fn input(rng: &mut Rng, seeds: &[Vec<u8>], largest: usize) -> Vec<u8> {
    let mut data = seeds.get(rng.below(seeds.len())).cloned().unwrap_or_default();
    for _ in 0..rng.below(6) {
        let at = rng.below(data.len() + 1);
        let end = at + rng.below((data.len() - at + 1).min(64));
        match rng.below(8) {
            0 if at < data.len() => data[at] = rng.word() as u8,
            1 if at < data.len() => data[at] ^= 1 << rng.below(8),
            // A word of a binary format, in either order of bytes.
            2 => {
                let word = WORDS[rng.below(WORDS.len())];
                let bytes = if rng.below(2) == 0 { word.to_le_bytes() } else { word.to_be_bytes() };
                let (at, width) = (at & !1, 1 << rng.below(4));
                let from = if rng.below(2) == 0 { 0 } else { 8 - width };
                for (to, byte) in data.iter_mut().skip(at).zip(&bytes[from..from + width]) {
                    *to = *byte;
                }
            }
            3 => drop(data.drain(at..end)),
            4 => {
                let piece = data[at..end].to_vec();
                data.splice(at..at, piece.repeat(1 + rng.below(4)));
            }
            5 => {
                let token = TOKENS[rng.below(TOKENS.len())];
                data.splice(at..end.min(at + rng.below(8)), token.bytes());
            }
            6 => {
                let other = &seeds[rng.below(seeds.len())];
                let from = rng.below(other.len() + 1);
                let to = from + rng.below((other.len() - from + 1).min(256));
                data.splice(at..end, other[from..to].iter().copied());
            }
            _ if rng.below(4) == 0 => data.truncate(at),
            _ => {}
        }
    }
    data.truncate(largest);
    data
}
