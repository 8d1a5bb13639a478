// SPDX-License-Identifier: GPL-2.0-only
//! Any text as a scenario: a scenario that can be set further, or one line that names the file. Never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use takt_sim::Scenario;

fuzz_target!(|text: &str| {
    match Scenario::from_toml(text, "f.toml") {
        Ok(mut s) => {
            // What a file may say, `--set` may say; both keep what makes a scenario valid.
            for (key, value) in [("machine.pcpus", "1"), ("duration", "1ms"), ("policies", text)] {
                let _ = s.set(key, value);
            }
            assert!(!s.vms.is_empty() && s.vms.iter().all(|vm| vm.vcpus > 0 && vm.weight > 0));
        }
        Err(e) => {
            let line = format!("{e:#}");
            assert!(line.starts_with("f.toml: ") && !line.contains('\n'), "{line:?}");
        }
    }
});
