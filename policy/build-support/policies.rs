// SPDX-License-Identifier: GPL-2.0-only
// Reads policies.def; for the build scripts that compile something for each policy, and for the
// test that compiles one more.

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

/// `core/policies.h`: the list as C takes it, the files, then a macro over all of them.
#[allow(dead_code, reason = "each build script uses what it needs")]
pub fn list(all: &[Policy]) -> String {
    let files: String = all.iter().map(|p| format!("#include \"../{}.c\"\n", p.name)).collect();
    let lines: Vec<_> =
        all.iter().map(|p| format!("\tX({}, {}, {}, {}, ##__VA_ARGS__)", p.id, p.name, p.traits, p.text)).collect();
    format!(
        "/* SPDX-License-Identifier: GPL-2.0-only */\n\
         /* Made from ../policies.def by ../build.rs: change that. */\n\
         #ifndef TAKT_POLICIES_H\n#define TAKT_POLICIES_H\n\n{files}\n\
         /* id, name, traits, what it is; then what else X takes. */\n\
         /* clang-format off */\n\
         #define TAKT_POLICIES(X, ...) \\\n{}\n\
         /* clang-format on */\n\n#endif\n",
        lines.join(" \\\n")
    )
}
