// SPDX-License-Identifier: GPL-2.0-only
//! Inputs made of valid ones, as a seed says: bytes replaced, words set to what breaks arithmetic, pieces cut, repeated and swapped.

pub use fastrand::Rng;

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

/// Below `n`; 0 if `n` is.
fn below(rng: &mut Rng, n: usize) -> usize {
    if n == 0 { 0 } else { rng.usize(..n) }
}

/// One of `seeds`, damaged a few times, and of at most `largest` bytes.
#[must_use]
pub fn input(rng: &mut Rng, seeds: &[Vec<u8>], largest: usize) -> Vec<u8> {
    let mut data = seeds.get(below(rng, seeds.len())).cloned().unwrap_or_default();
    for _ in 0..below(rng, 6) {
        let at = below(rng, data.len() + 1);
        let end = at + below(rng, (data.len() - at + 1).min(64));
        match below(rng, 8) {
            0 if at < data.len() => data[at] = rng.u8(..),
            1 if at < data.len() => data[at] ^= 1 << below(rng, 8),
            // A word of a binary format, in either order of bytes.
            2 => {
                let word = WORDS[below(rng, WORDS.len())];
                let bytes = if below(rng, 2) == 0 { word.to_le_bytes() } else { word.to_be_bytes() };
                let (at, width) = (at & !1, 1 << below(rng, 4));
                let from = if below(rng, 2) == 0 { 0 } else { 8 - width };
                for (to, byte) in data.iter_mut().skip(at).zip(&bytes[from..from + width]) {
                    *to = *byte;
                }
            }
            3 => drop(data.drain(at..end)),
            4 => {
                let piece = data[at..end].to_vec();
                data.splice(at..at, piece.repeat(1 + below(rng, 4)));
            }
            5 => {
                let token = TOKENS[below(rng, TOKENS.len())];
                data.splice(at..end.min(at + below(rng, 8)), token.bytes());
            }
            6 => {
                let other = &seeds[below(rng, seeds.len())];
                let from = below(rng, other.len() + 1);
                let to = from + below(rng, (other.len() - from + 1).min(256));
                data.splice(at..end, other[from..to].iter().copied());
            }
            _ if below(rng, 4) == 0 => data.truncate(at),
            _ => {}
        }
    }
    data.truncate(largest);
    data
}
