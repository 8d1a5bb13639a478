// SPDX-License-Identifier: GPL-2.0-only
//! The reader of capture files and the monitor behind it: any bytes give a report or an error, and every packet of a report
//! belongs to a sender or to none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use takt_monitor::Report;

fuzz_target!(|data: &[u8]| {
    match Report::from_reader(data) {
        Ok(report) => {
            let attributed: u64 = report.senders.iter().map(|s| s.packets).sum();
            assert_eq!(report.packets, attributed + report.unattributed);
            for s in &report.senders {
                assert_eq!(s.rt, s.rule.is_some());
                assert!(s.rt_packets <= s.packets);
            }
        }
        Err(e) => assert!(!e.to_string().contains('\n')),
    }
});
