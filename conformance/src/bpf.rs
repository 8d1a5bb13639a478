// SPDX-License-Identifier: GPL-2.0-only
//! The core in the kernel: the same operations through `BPF_PROG_TEST_RUN`, compared with the native outcomes.

use crate::summary::name;
use anyhow::{Context, Result, ensure};
use libbpf_rs::libbpf_sys::{bpf_prog_get_info_by_fd, bpf_prog_info};
use libbpf_rs::{Map, MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};
use memmap2::{MmapMut, MmapOptions};
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use takt_policy::{Op, OpCode, Record, Res};

/// The lock in front of the pool in its map (`struct pool_slot`).
const LOCK: usize = 8;
/// Operations per system call.
const CHUNK: usize = 1 << 14;
/// The program that performs any operations.
const BATCH: &str = "run_batch";

/// The object of one policy in `dir`: hosts, too, load one policy at a time.
pub fn object(dir: &Path, policy: &str) -> PathBuf {
    dir.join(format!("pool-{policy}.bpf.o"))
}

/// What `of` says of each policy, in the order of the list; as many at a time as there are CPUs, for
/// compiler and verifier use one each.
///
/// # Errors
/// The first of the list's that failed.
pub fn each_policy<R: Send>(of: impl Fn(&'static str) -> Result<R> + Sync) -> Result<Vec<R>> {
    let policies = takt_policy::policies();
    let (next, said) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|threads| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            threads.spawn(|| {
                while let Some(policy) = policies.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = of(policy.name).with_context(|| policy.name);
                    said.lock().expect("no thread panics with it").push((policy.id, one));
                }
            });
        }
    });
    let mut said = said.into_inner().expect("no thread panics with it");
    said.sort_by_key(|(id, _)| *id);
    said.into_iter().map(|(_, one)| one).collect()
}

/// Compiles `bpf/pool.bpf.c` of the crate at `crate_dir` to an [`object`] of each policy. Fails without clang, or with what it said.
pub fn compile(crate_dir: &Path, dir: &Path) -> Result<()> {
    let include = format!("-I{}", crate_dir.join("../policy/core").display());
    let all = each_policy(|policy| {
        // A hook that a policy does not have takes its arguments for nothing.
        let flags = [include.clone(), format!("-DTAKT_ONLY={policy}"), "-Wno-unused-parameter".into()];
        takt_bpf_build::compile(&crate_dir.join("bpf/pool.bpf.c"), &object(dir, policy), &flags)
    });
    all.map(|_| ())
}

/// The verifier's work on a program.
#[derive(Clone, Debug)]
pub struct Verified {
    pub program: String,
    /// Instructions that the verifier walked; the kernel's limit is a million.
    pub walked: u32,
    /// Instructions of the program.
    pub size: usize,
}

/// A loaded core.
pub struct Kernel {
    object: Object,
    ops: MmapMut,
    results: MmapMut,
    /// The batch does not load here: operations run one by one, each by the program of its kind.
    pub by_kind: bool,
    /// Time that opening, verifying and compiling all programs took.
    pub load_time: Duration,
    /// Time spent in the kernel by [`Kernel::run`], and operations done.
    pub spent: Duration,
    pub done: u64,
}

impl Kernel {
    /// Loads the object that [`compile`] made. Fails if the kernel refuses BPF, or with the verifier's verdict.
    pub fn load(object: &Path) -> Result<Self> {
        let begin = Instant::now();
        let open = || ObjectBuilder::default().open_file(object);
        let batch = open()?.load();
        // The verifiers of older kernels walk more than a million instructions for all operations in one program.
        let by_kind = batch.is_err();
        let object = batch.or_else(|_| {
            let mut object = open()?;
            object.progs_mut().filter(|p| p.name() == BATCH).for_each(|mut p| {
                p.set_autoload(false);
            });
            object.load()
        })?;
        let load_time = begin.elapsed();
        let ops = memory(&map(&object, "ops")?)?;
        let results = memory(&map(&object, "results")?)?;
        Ok(Self { object, ops, results, by_kind, load_time, spent: Duration::ZERO, done: 0 })
    }

    /// Statistics of all programs, one per operation and the batch.
    pub fn verified(&self) -> Result<Vec<Verified>> {
        let one = |p: libbpf_rs::Program<'_>| {
            let program = p.name().to_string_lossy().into_owned();
            let mut info = bpf_prog_info::default();
            let mut size = size_of_val(&info) as u32;
            // SAFETY: the descriptor is open; the kernel fills at most `size` bytes of a structure of integers.
            let failed = unsafe { bpf_prog_get_info_by_fd(p.as_fd().as_raw_fd(), &mut info, &mut size) };
            ensure!(failed == 0, "cannot query program {program}");
            Ok(Verified { program, walked: info.verified_insns, size: info.xlated_prog_len as usize / 8 })
        };
        self.object.progs().filter(|p| !(self.by_kind && p.name() == BATCH)).map(one).collect()
    }

    /// Performs the operations of `records` on a pool with the bytes `pool`, demands equal outcomes, and returns the
    /// bytes of the final pool.
    pub fn run(&mut self, pool: &[u8], records: &[Record]) -> Result<Vec<u8>> {
        let slot = [&[0; LOCK], pool].concat();
        let pools = map(&self.object, "pools")?;
        ensure!(pools.value_size() as usize == slot.len(), "the BPF pool has another size than the native one");
        pools.update(&0u32.to_ne_bytes(), &slot, MapFlags::ANY)?;
        let programs: HashMap<_, _> =
            self.object.progs_mut().map(|p| (p.name().to_string_lossy().into_owned(), p)).collect();
        let run = |program: &str, first: usize, end: usize| -> Result<u32> {
            let program = programs.get(program).with_context(|| format!("no program {program}"))?;
            let mut request = [(first as u32).to_ne_bytes(), (end as u32).to_ne_bytes()].concat();
            let input = ProgramInput { context_in: Some(&mut request), ..ProgramInput::default() };
            Ok(program.test_run(input)?.return_value)
        };
        for chunk in records.chunks(CHUNK) {
            for (to, r) in self.ops.chunks_exact_mut(size_of::<Op>()).zip(chunk) {
                to.copy_from_slice(bytes(&r.op));
            }
            let begin = Instant::now();
            let done = if self.by_kind {
                let each = |(i, r): (usize, &Record)| {
                    let program = OpCode::from_u16(r.op.op).map_or("unknown", name);
                    run(program, i, i + 1).and_then(|failed| ensure_done(failed, program))
                };
                chunk.iter().enumerate().try_for_each(each)?;
                chunk.len() as u32
            } else {
                run(BATCH, 0, chunk.len())?
            };
            self.spent += begin.elapsed();
            self.done += u64::from(done);
            ensure!(done as usize == chunk.len(), "the kernel did {done} of {} operations", chunk.len());
            for (got, r) in self.results.chunks_exact(size_of::<Res>()).zip(chunk) {
                if got != bytes(&r.res) {
                    // SAFETY: `got` has the size of a Res, which is plain integers.
                    let got = unsafe { got.as_ptr().cast::<Res>().read_unaligned() };
                    anyhow::bail!("record {}: {:?}: the kernel has {got:?}, natively {:?}", r.op.seq, r.op, r.res);
                }
            }
        }
        let slot = pools.lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?.context("no pool")?;
        Ok(slot[LOCK..].to_vec())
    }
}

fn ensure_done(failed: u32, program: &str) -> Result<()> {
    ensure!(failed == 0, "program {program} found no map");
    Ok(())
}

fn map<'a>(object: &'a Object, name: &str) -> Result<Map<'a>> {
    object.maps().find(|m| m.name() == name).with_context(|| format!("no map {name}"))
}

/// The map's values as an array in memory.
fn memory(map: &Map<'_>) -> Result<MmapMut> {
    let len = map.value_size() as usize * map.max_entries() as usize;
    // SAFETY: the mapping is used by this process and, in `run`, by the program it waits for.
    unsafe { MmapOptions::new().len(len).map_mut(map.as_fd().as_raw_fd()) }.context("cannot map a BPF map")
}

fn bytes<T>(value: &T) -> &[u8] {
    // SAFETY: only used with Op and Res, which are integers without padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}
