// SPDX-License-Identifier: GPL-2.0-only
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| takt_fuzz_bodies::begun(data));
