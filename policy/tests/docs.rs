// SPDX-License-Identifier: GPL-2.0-only
//! The worked example of docs/writing-a-policy.md is the policy that is compiled and tested.

#[test]
fn the_example_in_the_docs_is_the_policy_that_runs() {
    let doc = include_str!("../../docs/writing-a-policy.md");
    let code = doc.split("```c\n").nth(1).and_then(|s| s.split("\n```").next()).expect("a C block");
    assert!(include_str!("../rr.c").contains(code), "docs/writing-a-policy.md quotes a policy/rr.c that is gone");
    let lines = code.lines().filter(|l| !l.trim().is_empty()).count();
    assert!((25..=40).contains(&lines), "{lines} lines are no 30-line example");
}
