// SPDX-License-Identifier: GPL-2.0-only
//! Tokens of C and Rust, as far as comparing pieces of text without white space and comments needs them.

use std::ops::Range;

/// Byte ranges of the tokens of `text`. Each punctuation character is a token of its own.
pub fn tokens(text: &str) -> Vec<Range<usize>> {
    let b = text.as_bytes();
    let mut out = Vec::new();
    let mut i = 0;
    while i < b.len() {
        let rest = &b[i..];
        let end = match b[i] {
            c if c.is_ascii_whitespace() => {
                i += 1;
                continue;
            }
            b'/' if rest.starts_with(b"//") => {
                i += rest.iter().position(|&c| c == b'\n').unwrap_or(rest.len());
                continue;
            }
            b'/' if rest.starts_with(b"/*") => {
                i += text[i..].find("*/").map_or(rest.len(), |n| n + 2);
                continue;
            }
            b'r' if raw_string(rest).is_some() => i + raw_string(rest).unwrap_or(1),
            b'"' => i + quoted(rest, b'"'),
            b'\'' if rest.get(1) == Some(&b'\\') || rest.get(2) == Some(&b'\'') => i + quoted(rest, b'\''),
            c if is_word(c) => i + rest.iter().position(|&c| !is_word(c)).unwrap_or(rest.len()),
            _ => i + text[i..].chars().next().map_or(1, char::len_utf8),
        };
        out.push(i..end);
        i = end;
    }
    out
}

pub fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_'
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut i = 1;
    while i < rest.len() {
        match rest[i] {
            b'\\' => i += 2,
            c if c == quote => return i + 1,
            _ => i += 1,
        }
    }
    rest.len()
}

/// Length of `r"…"` or `r#"…"#`.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|&&c| c == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let from = 2 + hashes;
    rest[from..].windows(close.len()).position(|w| w == close).map(|n| from + n + close.len())
}

/// Where the tokens of `wanted` stand in `text`: byte ranges from the first token to the last.
pub fn find(text: &str, wanted: &str) -> Vec<Range<usize>> {
    let (have, want) = (tokens(text), tokens(wanted));
    if want.is_empty() {
        return Vec::new();
    }
    let same = |w: &&[Range<usize>]| w.iter().zip(&want).all(|(a, b)| text[a.clone()] == wanted[b.clone()]);
    have.windows(want.len()).filter(same).map(|w| w[0].start..w[w.len() - 1].end).collect()
}

/// C with the words replaced that its grammar cannot know without the preprocessor; each byte stays where it is.
pub fn plain_c(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    let all = tokens(text);
    for (i, t) in all.iter().enumerate() {
        let next = all.get(i + 1).map(|n| &text[n.clone()]);
        let word = &text[t.clone()];
        let (plain, end): (&[u8], _) = match word {
            "TAKT_FN" | "TAKT_INLINE" | "TAKT_COLD" => (b"static", t.end),
            "TAKT_LOOP" | "bpf_for" => (b"while", t.end),
            "cf_check" | "__init" | "__noinline" | "__always_inline" | "__weak" | "__hidden" | "__ksym" => (b"", t.end),
            "SEC" if next == Some("(") => (b"", all.get(i + 3).map_or(t.end, |c| c.end)),
            _ if (word.starts_with("for_each_") || word.starts_with("FOR_EACH_")) && next == Some("(") => {
                (b"while", t.end)
            }
            _ => continue,
        };
        out[t.start..end].fill(b' ');
        out[t.start..t.start + plain.len()].copy_from_slice(plain);
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        tokens(text).into_iter().map(|t| &text[t]).collect()
    }

    #[test]
    fn white_space_and_comments_do_not_count() {
        assert_eq!(words("a->b /* c */ += 0x1fULL; // d\ne"), ["a", "-", ">", "b", "+", "=", "0x1fULL", ";", "e"]);
        assert_eq!(words(r#"f("/* \" */", '\'', 'x', &'a b)"#).len(), 13);
        assert_eq!(words("r#\"a \" b\"# c"), ["r#\"a \" b\"#", "c"]);
        assert_eq!(find("if (a  ==\n b) a == b;", "a == b").len(), 2);
        assert_eq!(find("ab", "a"), Vec::<Range<usize>>::new());
        assert_eq!(find("ab", " /* nothing */ "), Vec::<Range<usize>>::new());
    }

    #[test]
    fn masking_moves_nothing() {
        let text = "SEC(\"tc\") TAKT_INLINE u32 f(void) { TAKT_LOOP(p, i, n) g(); }";
        let plain = plain_c(text);
        assert_eq!(plain.len(), text.len());
        assert_eq!(plain.find("u32"), text.find("u32"));
        assert!(plain.contains("static") && plain.contains("while    (p, i, n)") && !plain.contains("SEC"));
    }
}
