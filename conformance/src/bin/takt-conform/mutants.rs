// SPDX-License-Identifier: GPL-2.0-only
//! `takt-conform mutants`.

use anyhow::{Context, Result, ensure};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use takt_conformance::mutants::{Judged, Mutation, OPERATORS, Sources, Verdict, directory, judge_all, sample, score};

#[derive(clap::Args)]
pub struct Args {
    /// policy, monitor, control, linux or xen
    directory: String,
    /// Run a sample of that many of all that the operators make, instead of the named ones
    #[arg(long)]
    sample: Option<usize>,
    /// Which sample
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run one named entry
    #[arg(long, conflicts_with = "sample")]
    name: Option<String>,
    /// Run only changes of this file or function
    #[arg(long)]
    only: Option<String>,
    /// Print the changes, and run nothing
    #[arg(long)]
    list: bool,
    /// The tree
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/.."))]
    root: PathBuf,
}

fn list(out: &mut impl Write, directory: &str, mutations: &[Mutation]) -> std::io::Result<()> {
    mutations.iter().try_for_each(|m| write!(out, "{}\n{}", m.place(), m.diff()))?;
    for (op, does) in OPERATORS {
        writeln!(out, "{op:10} {:6}  {does}", mutations.iter().filter(|m| m.name == *op).count())?;
    }
    writeln!(out, "{directory}: {} changes", mutations.len())
}

pub fn run(args: &Args) -> Result<bool> {
    let directory = directory(&args.directory)?;
    let root = args.root.canonicalize()?;
    let sources = Sources::read(&root, directory)?;
    let named = || sources.named(&root.join("conformance/mutants"));
    let mut mutations: Vec<Mutation> = match (args.sample, args.list && args.name.is_none()) {
        (None, true) => sources.all(),
        (None, false) => named()?.into_iter().map(|n| n.1).collect(),
        (Some(_), _) => sources.all(),
    };
    let of = |m: &Mutation, only: &str| Path::new(&m.path).ends_with(only) || m.function == only;
    mutations.retain(|m| args.name.as_ref().is_none_or(|n| &m.name == n));
    mutations.retain(|m| args.only.as_ref().is_none_or(|only| of(m, only)));
    if let Some(n) = args.sample {
        mutations = sample(mutations, n, args.seed);
    }
    ensure!(!mutations.is_empty(), "{}: there is no such change", directory.name);
    if args.list {
        return match list(&mut std::io::stdout().lock(), directory.name, &mutations) {
            // Ten thousand lines are read by `head` and the like.
            Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e).context("stdout: cannot be written"),
            _ => Ok(true),
        };
    }
    let runner = std::env::current_exe()?;
    let say = |j: &Judged| match &j.verdict {
        Verdict::Caught(by) => {
            println!("caught   {}: {}", j.mutation.place(), by.chars().take(150).collect::<String>())
        }
        Verdict::Survived => print!("SURVIVED {}\n{}", j.mutation.place(), j.mutation.diff()),
        Verdict::DoesNotCompile(why) => println!("invalid  {}: {why}", j.mutation.place()),
    };
    let judged = judge_all(&root, &root.join("target/mutants"), directory, &runner, mutations, say)?;
    let survived: Vec<_> = judged.iter().filter(|j| j.verdict == Verdict::Survived).collect();
    let valid = judged.iter().filter(|j| !matches!(j.verdict, Verdict::DoesNotCompile(_))).count();
    if !survived.is_empty() {
        println!("\nsurvivors:");
        survived.iter().for_each(|j| print!("{}\n{}", j.mutation.place(), j.mutation.diff()));
    }
    println!("{}", score(directory.name, &judged));
    Ok(survived.is_empty() && (args.sample.is_some() || valid == judged.len()))
}
