// SPDX-License-Identifier: GPL-2.0-only
//! Writes the valid inputs of each target to `DIR/NAME/`, for a fuzzer to begin with: `corpus DIR`.

use std::{env, fs, io, path::Path};
use takt_fuzz_bodies::TARGETS;

fn main() -> io::Result<()> {
    let dir = env::args().nth(1).ok_or_else(|| io::Error::other("corpus DIR"))?;
    for t in &TARGETS {
        let dir = Path::new(&dir).join(t.name);
        fs::create_dir_all(&dir)?;
        for (n, seed) in (t.seeds)().iter().enumerate() {
            fs::write(dir.join(format!("seed-{n}")), seed)?;
        }
    }
    Ok(())
}
