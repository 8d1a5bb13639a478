// SPDX-License-Identifier: GPL-2.0-only
//! Runs what judges a directory on a tree with one change.

use super::{Directory, Judge, Mutation, sorted};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// CPU seconds after which a core or a test program is taken to loop for ever; they need a few.
const CPU_SECONDS: u32 = 60;
/// Changes that repay a tree with a target directory of its own.
const LIST: usize = 60;
/// Seconds after which a test program is taken to wait for ever.
const SECONDS: u32 = 300;
/// KiB of address space that a core's suite has: what one that allocates for ever gets.
const MEMORY: u32 = 8 << 20;

/// What is built again for each change is better built quickly than well.
const QUICKLY: [&str; 3] = [
    "profile.dev.debug=0",
    "profile.dev.package.takt-control.opt-level=0",
    "profile.dev.package.takt-monitor.opt-level=0",
];

/// How a C compiler and a linker complain.
const C_ERRORS: [&str; 3] = [": error: ", ": fatal error: ", ": undefined reference to "];

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// By what.
    Caught(String),
    Survived,
    /// It is no program.
    DoesNotCompile(String),
}

/// A change with what became of it.
pub struct Judged {
    pub mutation: Mutation,
    pub verdict: Verdict,
}

/// `DIRECTORY: N of M caught`, and how many of the N did nothing but change an outcome that `outcomes.txt` lists. A change that does not
/// compile is no mutant.
pub fn score(directory: &str, judged: &[Judged]) -> String {
    let count = |of: fn(&Verdict) -> bool| judged.iter().filter(|j| of(&j.verdict)).count();
    let caught = count(|v| matches!(v, Verdict::Caught(_)));
    let valid = caught + count(|v| *v == Verdict::Survived);
    let alone = count(|v| matches!(v, Verdict::Caught(by) if by.starts_with(crate::suite::CHANGED)));
    let by = if alone > 0 { format!(", {alone} of them by changed outcomes alone") } else { String::new() };
    format!("{directory}: {caught} of {valid} caught{by}")
}

/// A copy of the tree, and what judges it.
pub struct Worker {
    root: PathBuf,
    tree: PathBuf,
    judge: Judge,
    runner: PathBuf,
}

impl Worker {
    /// Copies what changed since the last time to `dir`. `runner` is `takt-conform`.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn new(root: &Path, dir: &Path, directory: &Directory, runner: &Path) -> Result<Self> {
        let tree = dir.to_path_buf();
        match directory.judge {
            Judge::Core => copy(&root.join("policy"), &tree.join("policy"))?,
            Judge::Cargo(_) => copy(root, &tree)?,
        }
        Ok(Self { root: root.into(), tree, judge: directory.judge, runner: runner.into() })
    }

    /// Judges the tree with a change, or as it is.
    ///
    /// # Errors
    /// The judge cannot run.
    pub fn judge(&self, mutation: Option<&Mutation>) -> Result<Verdict> {
        let write = |m: &Mutation, text: &str| {
            std::fs::write(self.tree.join(&m.path), text).with_context(|| format!("{}: cannot be written", m.path))
        };
        if let Some(m) = mutation {
            write(m, &m.text)?;
        }
        let verdict = match self.judge {
            Judge::Core => self.core(),
            Judge::Cargo(args) => self.cargo(args),
        };
        if let Some(m) = mutation {
            write(m, &std::fs::read_to_string(self.root.join(&m.path))?)?;
        }
        verdict
    }

    fn core(&self) -> Result<Verdict> {
        let library = self.tree.join("core.so");
        let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let mut command = Command::new(&cc);
        command.args(["-shared", "-fPIC", "-std=gnu11", "-O0", "-w", "-fwrapv", "-fno-strict-aliasing", "-o"]);
        let out = command.arg(&library).arg(self.tree.join("policy/core/native.c")).output();
        let out = out.with_context(|| cc.clone())?;
        if !out.status.success() {
            return Ok(Verdict::DoesNotCompile(first_with(&out.stderr, "error:")));
        }
        let out = limited(&self.runner).arg("suite").arg(&library).output().context("takt-conform")?;
        Ok(match out.status.code() {
            Some(0) => Verdict::Survived,
            Some(1) => Verdict::Caught(String::from_utf8_lossy(&out.stdout).trim().to_string()),
            Some(n) if n < 124 => bail!("status {n}: {}", String::from_utf8_lossy(&out.stderr)),
            _ => Verdict::Caught(out.status.to_string()),
        })
    }

    fn cargo(&self, args: &[&str]) -> Result<Verdict> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        // Its own: in a common one Cargo takes the same package of two trees for one.
        let target = self.tree.with_extension("target");
        let quickly = QUICKLY.iter().flat_map(|of| ["--config", of]);
        let limits = format!(
            r#"target."cfg(all())".runner=["sh","-c","ulimit -t {CPU_SECONDS}; exec timeout {SECONDS} \"$0\" \"$@\""]"#
        );
        let mut command = Command::new(&cargo);
        command.args(["test", "--quiet", "--locked", "--offline", "--config", &limits]).args(quickly).args(args);
        // Changed C may have unused variables.
        command.env("CARGO_TARGET_DIR", target).env("CFLAGS", "-w").env("RUST_BACKTRACE", "0");
        for inherited in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "OUT_DIR"] {
            command.env_remove(inherited);
        }
        let out = command.current_dir(&self.tree).output().with_context(|| cargo.clone())?;
        Ok(cargo_verdict(&out))
    }
}

fn cargo_verdict(out: &Output) -> Verdict {
    if out.status.success() {
        return Verdict::Survived;
    }
    let (said, noise) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    if noise.contains("could not compile") || noise.contains("failed to run custom build command") {
        return Verdict::DoesNotCompile(first_with(&out.stderr, "error"));
    }
    // A test that compiles C itself: the first line of its panic has the compiler's.
    let compiler = said.lines().find(|l| C_ERRORS.iter().any(|e| l.contains(e)));
    if let Some(line) = compiler {
        return Verdict::DoesNotCompile(line.trim().into());
    }
    // "---- NAME stdout ----", then what the test said.
    let mut lines = said.lines().skip_while(|l| !(l.starts_with("---- ") && l.ends_with(" stdout ----")));
    let test = lines.next().map(|l| l.trim_start_matches("---- ").trim_end_matches(" stdout ----"));
    let why = lines.find(|l| !l.trim().is_empty() && !l.contains("panicked at")).unwrap_or("").trim();
    let other = || noise.lines().rev().find(|l| l.contains("signal") || l.contains("exit status")).map(str::to_string);
    Verdict::Caught(match test {
        Some(test) => format!("test {test}: {why}"),
        None => other().unwrap_or_else(|| first_with(&out.stderr, "error")),
    })
}

fn limited(program: &Path) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -t {CPU_SECONDS}; ulimit -v {MEMORY}; exec timeout {SECONDS} \"$0\" \"$@\""));
    command.arg(program);
    command
}

fn first_with(text: &[u8], what: &str) -> String {
    String::from_utf8_lossy(text).lines().find(|l| l.contains(what)).unwrap_or("").trim().to_string()
}

/// Makes `to` what `from` is, but for build results; leaves files alone that are the same.
fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for path in sorted(to)? {
        let gone = path.file_name().is_some_and(|n| !from.join(n).exists());
        match gone {
            true if path.is_dir() => std::fs::remove_dir_all(&path)?,
            true => std::fs::remove_file(&path)?,
            false => {}
        }
    }
    for path in sorted(from)? {
        let name = path.file_name().unwrap_or_default();
        if [".git", "target", "out"].iter().any(|s| name == *s) || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            copy(&path, &to.join(name))?;
        } else if path.is_file() {
            let text = std::fs::read(&path).with_context(|| path.display().to_string())?;
            if std::fs::read(to.join(name)).ok().as_ref() != Some(&text) {
                std::fs::write(to.join(name), text).with_context(|| to.join(name).display().to_string())?;
            }
        }
    }
    Ok(())
}

/// Judges all changes on as many workers as there are CPUs, below `dir`; in their order. `each` hears of one at a time.
///
/// # Errors
/// The judge cannot run, or finds fault with the tree as it is.
pub fn judge_all(
    root: &Path,
    dir: &Path,
    directory: &Directory,
    runner: &Path,
    mutations: Vec<Mutation>,
    each: impl Fn(&Judged) + Sync,
) -> Result<Vec<Judged>> {
    if mutations.is_empty() {
        return Ok(Vec::new());
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    // Cargo directories have a common tree. Another one builds all dependencies first, which a short list does not repay.
    let (workers, tree) = match directory.judge {
        Judge::Core => (cpus.min(mutations.len()), directory.name),
        Judge::Cargo(_) => (cpus.min(mutations.len().div_ceil(LIST)), "cargo"),
    };
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let work = |i: usize| -> Result<()> {
        let worker = Worker::new(root, &dir.join(format!("{tree}-{i}")), directory, runner)?;
        if i == 0 {
            let unchanged = worker.judge(None)?;
            ensure!(unchanged == Verdict::Survived, "{}: the unchanged tree: {unchanged:?}", directory.name);
        }
        loop {
            let n = next.fetch_add(1, Relaxed);
            let Some(mutation) = mutations.get(n) else { return Ok(()) };
            let verdict = worker.judge(Some(mutation)).with_context(|| mutation.place())?;
            let judged = Judged { mutation: mutation.clone(), verdict };
            let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            each(&judged);
            done.push((n, judged));
        }
    };
    std::thread::scope(|s| {
        let threads: Vec<_> = (0..workers).map(|i| s.spawn(move || work(i))).collect();
        threads.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| bail!("a worker panicked")))
    })?;
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|d| d.0);
    Ok(done.into_iter().map(|d| d.1).collect())
}
