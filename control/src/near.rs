// SPDX-License-Identifier: GPL-2.0-only
//! "Did you mean": the known name that a mistyped one is closest to.

/// The closest of `known` to `word`. At most a third of the letters may differ; case does not
/// count.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer words are no names.
    const LONGEST: usize = 64;
    let lower = |text: &str| text.to_lowercase();
    let length = word.chars().count();
    if length > LONGEST {
        return None;
    }
    let near = |other: &'a str| {
        let differ = strsim::osa_distance(&lower(word), &lower(other));
        (differ * 3 <= length.max(other.chars().count())).then_some((differ, other))
    };
    known.into_iter().filter_map(near).min_by_key(|(differ, _)| *differ).map(|(_, other)| other)
}

/// ` (did you mean ...?)` to put behind `word` in an error, or nothing.
#[must_use]
pub fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}

/// The same with all names that are known, to put behind `word` in an error.
#[must_use]
pub fn known_are<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    with_list(word, "; known: ", known)
}

/// The same with all names that are allowed.
#[must_use]
pub fn allowed<'a>(word: &str, allowed: impl IntoIterator<Item = &'a str>) -> String {
    with_list(word, "; allowed: ", allowed)
}

fn with_list<'a>(word: &str, before: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<_> = known.into_iter().collect();
    let list = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    format!("{}{before}{list}", hint(word, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_or_two_may_differ() {
        let known = ["voip", "vod", "voip-vod", "rr", "ALL", "doris"];
        for (word, want) in [
            ("voop", Some("voip")),
            ("viop", Some("voip")),
            ("VOIP", Some("voip")),
            ("all", Some("ALL")),
            ("voip_vod", Some("voip-vod")),
            ("dorsi", Some("doris")),
            ("rs", None),
            ("fifo", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), want, "{word}");
        }
        assert_eq!(nearest(&"v".repeat(100_000), known), None);
        assert_eq!(hint("voop", known), " (did you mean `voip`?)");
        assert_eq!(hint("fifo", known), "");
        assert_eq!(known_are("voop", known), " (did you mean `voip`?); known: voip, vod, voip-vod, rr, ALL, doris");
        assert_eq!(allowed("fifo", ["a", "b"]), "; allowed: a, b");
    }
}
