// SPDX-License-Identifier: GPL-2.0-only
// Reads policies.def; for the build scripts that compile something for each policy.

/// A line `TAKT_POLICY(number, name, traits, "what it is")`, its four parts as they stand there.
#[allow(dead_code, reason = "each build script reads what it needs")]
pub struct Policy {
    pub id: String,
    pub name: String,
    pub traits: String,
    pub text: String,
}

/// Those of a file's text, in its order.
pub fn policies(text: &str) -> Vec<Policy> {
    let line = |rest: &str| {
        let parts: Vec<&str> = rest.strip_suffix(')')?.splitn(4, ", ").collect();
        let [id, name, traits, text] = parts.try_into().ok()?;
        Some(Policy { id: id.into(), name: name.into(), traits: traits.into(), text: text.into() })
    };
    let wrong = |rest: &str| panic!("policies.def: `TAKT_POLICY({rest}` is not number, name, traits, text");
    text.lines()
        .filter_map(|l| l.strip_prefix("TAKT_POLICY("))
        .map(|rest| line(rest).unwrap_or_else(|| wrong(rest)))
        .collect()
}
