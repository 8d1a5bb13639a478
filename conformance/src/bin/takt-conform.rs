// SPDX-License-Identifier: GPL-2.0-only
//! Conformance from the command line: judge and replay logs, run random hosts, compare the kernel with the native core.

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use takt_conformance::{
    Checker, HANDOVER, Limits, LogFile, Mode, Run, Shape, agree, ftrace, hash, maker, read_log, replay, write_log,
    xentrace,
};

#[cfg(feature = "mutants")]
#[path = "takt-conform/mutants.rs"]
mod mutants;

#[derive(Parser)]
#[command(name = "takt-conform", about = "Judges operation logs and cores by docs/states.md")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Judge a log by the state table; prints a summary as JSON
    Check {
        log: PathBuf,
        /// Longest wait of a queued VCPU, ns
        #[arg(long)]
        wait: Option<u64>,
        /// How late a timer may be called, ns
        #[arg(long, alias = "late")]
        timer_slack: Option<u64>,
        /// Longest time between kick and schedule, schedule and started or put, ns
        #[arg(long, alias = "limbo")]
        max_pending: Option<u64>,
        /// How far time may step back, ns
        #[arg(long, default_value_t = 0)]
        skew: u64,
    },
    /// Repeat a log natively and compare every outcome
    Replay { log: PathBuf },
    /// Compare a live host's log with the kernel's trace of who ran where; prints the result as JSON
    Agree {
        log: PathBuf,
        /// What `takt status --json` said while the log was made: it tells which thread is which VCPU
        #[arg(long)]
        status: PathBuf,
        /// events/sched/sched_switch/format of tracefs
        #[arg(long)]
        format: PathBuf,
        /// Bytes of a page of the trace
        #[arg(long, default_value_t = 4096)]
        page: usize,
        /// Compare from then, ns of CLOCK_MONOTONIC
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Compare until then
        #[arg(long, default_value_t = u64::MAX)]
        until: u64,
        /// per_cpu/cpuN/trace_pipe_raw of each CPU, made with trace_clock `mono`
        #[arg(required = true)]
        cpus: Vec<PathBuf>,
    },
    /// Make a log of what a Xen host has saved: its pool at the beginning, the operations, its pool at the end
    Xen { begin: PathBuf, operations: PathBuf, end: PathBuf, log: PathBuf },
    /// Compare a log of a Xen host with the hypervisor's trace of who ran where; prints the result as JSON
    AgreeXen {
        log: PathBuf,
        /// What `xentrace -e 0x00023000` wrote while the log was made
        trace: PathBuf,
    },
    /// Run a random host on the native core and store its log
    Generate {
        log: PathBuf,
        #[arg(long, default_value = "doris")]
        policy: String,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        #[arg(long, default_value_t = 100_000)]
        operations: u64,
        /// 1, 2, 4, 8 or 64
        #[arg(long, default_value_t = 8)]
        pcpus: u16,
    },
    /// Run vectors and random hosts on this build's core, or on that of a shared library; exit
    /// status 1 if anything fails. Says what failed first; with --policy, what came of each part,
    /// which takes less than 20 s, in a debug build too
    Suite {
        library: Option<PathBuf>,
        /// Judge this policy alone: its vectors, and random hosts under every check
        #[arg(long)]
        policy: Option<String>,
    },
    /// Print the lines of the policies in outcomes.txt: digests of what each does under random hosts
    Outcomes,
    /// Change a directory's code and see what catches it; exit status 1 if anything survives
    #[cfg(feature = "mutants")]
    Mutants(mutants::Args),
    /// Run random operations in the kernel and natively; compare outcomes and pools
    #[cfg(feature = "bpf")]
    Bpf {
        /// Where bpf/pool.bpf.c is, compiled for each policy: pool-POLICY.bpf.o
        objects: PathBuf,
        #[arg(long, default_value_t = 1_000_000)]
        operations: u64,
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

fn main() -> ExitCode {
    #[cfg(feature = "bpf")]
    if std::process::id() == 1 {
        takt_conformance::qemu::init(|objects, operations| bpf(objects, operations, 1));
    }
    match run(Args::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => {
            eprintln!("takt-conform: {e:#}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> Result<bool> {
    match command {
        Command::Check { log, wait, timer_slack, max_pending, skew } => {
            let file = read_log(&log)?;
            let mut checker =
                Checker::of_log(&file, Limits { wait, timer_slack, max_pending, skew, ..Limits::of(&file.policy) })?;
            let judged = file.records.iter().try_for_each(|r| checker.step(r)).and_then(|()| checker.finish());
            match judged {
                Ok(summary) => println!("{}", serde_json::to_string_pretty(&summary)?),
                Err(v) => {
                    eprintln!("{}: {v}", log.display());
                    return Ok(false);
                }
            }
        }
        Command::Xen { begin, operations, end, log } => {
            let read = |path: &PathBuf| std::fs::read(path).with_context(|| path.display().to_string());
            write_log(&log, &takt_conformance::xen::assemble(&read(&begin)?, &read(&operations)?, &read(&end)?)?)?;
        }
        Command::Replay { log } => {
            let file = read_log(&log)?;
            let hash = replay(&file).with_context(|| log.display().to_string())?;
            println!("{} records, policy {}: identical, final pool {hash:#018x}", file.records.len(), file.policy);
        }
        Command::Agree { log, status, format, page, from, until, cpus } => {
            let read = |path: &PathBuf| std::fs::read(path).with_context(|| path.display().to_string());
            let status = serde_json::from_slice(&read(&status)?).with_context(|| status.display().to_string())?;
            let format = ftrace::Format::parse(&String::from_utf8_lossy(&read(&format)?))?;
            let threads = ftrace::threads(&status)?;
            let cpu = |path| ftrace::switches(&read(path)?, page, &format).with_context(|| path.display().to_string());
            let trace = cpus.iter().map(|path| Ok(ftrace::seen(&cpu(path)?, &threads))).collect::<Result<Vec<_>>>()?;
            let agreement = agree(&read_log(&log)?, &trace, (from, until), HANDOVER)?;
            println!("{}", serde_json::to_string_pretty(&agreement)?);
        }
        Command::AgreeXen { log, trace } => {
            let raw = std::fs::read(&trace).with_context(|| trace.display().to_string())?;
            let log = read_log(&log)?;
            let trace = xentrace::parse(&raw).with_context(|| trace.display().to_string())?;
            println!("{}", serde_json::to_string_pretty(&xentrace::compare(&log, &trace, HANDOVER)?)?);
        }
        Command::Generate { log, policy, seed, operations, pcpus } => {
            let shape = Shape::ALL.into_iter().find(|s| s.cpus == pcpus).context("--pcpus is 1, 2, 4, 8 or 64")?;
            let mut run = Run::new(maker(None)?(&policy)?, seed, shape, Mode::Chaos, 64);
            let mut records = run.steps(operations, true)?;
            // What the format cannot express is no operation at all.
            ensure!(!records.is_empty(), "--operations is at least 1");
            records.retain(|r| takt_policy::OpCode::from_u16(r.op.op).is_some());
            let mut pool = takt_policy::Pool::new(&policy).context("policy")?;
            for (i, r) in (1..).zip(&mut records) {
                r.res = pool.op(r.op);
                r.op.seq = i;
            }
            let bytes = pool.bytes();
            write_log(
                &log,
                &LogFile {
                    policy,
                    pool_size: bytes.len() as u64,
                    pool_hash: hash(bytes),
                    records,
                    ..LogFile::default()
                },
            )?;
        }
        Command::Suite { library, policy: Some(policy) } => {
            let judgement = takt_conformance::judge(library.as_deref(), &policy)?;
            println!("{judgement}");
            return Ok(judgement.ok());
        }
        Command::Suite { library, policy: None } => {
            if let Some(caught) = takt_conformance::suite(&maker(library.as_deref())?) {
                println!("{caught}");
                return Ok(false);
            }
        }
        Command::Outcomes => {
            for policy in takt_policy::policies() {
                println!("{} {:016x}", policy.name, takt_conformance::outcomes(&maker(None)?, policy.name)?);
            }
        }
        #[cfg(feature = "mutants")]
        Command::Mutants(args) => return mutants::run(&args),
        #[cfg(feature = "bpf")]
        Command::Bpf { objects, operations, seed } => bpf(&objects, operations, seed)?,
    }
    Ok(true)
}

#[cfg(feature = "bpf")]
fn bpf(objects: &std::path::Path, operations: u64, seed: u64) -> Result<()> {
    use takt_conformance::bpf::{Kernel, each_policy, object};
    let said = each_policy(|policy| {
        let mut kernel = Kernel::load(&object(objects, policy))?;
        let verified = kernel.verified()?;
        let most =
            verified.iter().filter(|v| v.program != "run_batch").max_by_key(|v| v.walked).context("no program")?;
        let loaded = format!(
            "{policy}: loaded in {} ms; instructions walked by the verifier (of at most 1000000): {} in all, {} for {}",
            kernel.load_time.as_millis(),
            verified.iter().map(|v| u64::from(v.walked)).sum::<u64>(),
            most.walked,
            most.program,
        );
        for (shape, mode) in Shape::ALL.into_iter().flat_map(|s| [(s, Mode::Chaos), (s, Mode::Faithful)]) {
            let what = || format!("{} PCPUs, {mode:?}, seed {seed}", shape.cpus);
            let core = maker(None)?(policy)?;
            let empty = core.bytes().to_vec();
            let mut run = Run::new(core, seed, shape, mode, 1024);
            let records = run.steps(operations.div_ceil(Shape::ALL.len() as u64 * 2), true).with_context(what)?;
            let pool = kernel.run(&empty, &records).with_context(what)?;
            let differs = pool.iter().zip(run.core.bytes()).position(|(a, b)| a != b);
            ensure!(differs.is_none(), "{}: the final pools differ at byte {}", what(), differs.unwrap_or(0));
        }
        let per = kernel.spent.as_nanos() / u128::from(kernel.done.max(1));
        let singly = if kernel.by_kind { "; no batch loads here: a system call for each" } else { "" };
        let same = format!(
            "{policy}: {} outcomes and all pool bytes identical, {per} ns each with lock and maps{singly}",
            kernel.done
        );
        Ok([loaded, same])
    })?;
    said.iter().flatten().for_each(|line| println!("{line}"));
    Ok(())
}
