// SPDX-License-Identifier: GPL-2.0-only
//! `takt new`: a scenario to begin with, with comments.

use crate::carried::TEMPLATES;
use crate::{args, output};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{ErrorKind, Write};
use takt_control::near;

/// Runs the command.
///
/// # Errors
/// There is no such template, the file exists, or it cannot be written.
pub fn run(args: &args::New) -> Result<bool> {
    let Some((_, text)) = TEMPLATES.iter().find(|(name, _)| *name == args.kind) else {
        let names = TEMPLATES.iter().map(|(name, _)| *name);
        bail!("no template `{}`{}", args.kind, near::allowed(&args.kind, names));
    };
    match &args.output {
        None => output::print(text)?,
        Some(path) if args.force => output::Pending::open(path)?.write(text.as_bytes())?,
        Some(path) => match File::create_new(path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                bail!("{}: already exists; --force replaces it", path.display());
            }
            file => file
                .and_then(|mut file| file.write_all(text.as_bytes()))
                .with_context(|| format!("{}: cannot be written", path.display()))?,
        },
    }
    Ok(true)
}
