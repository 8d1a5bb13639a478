// SPDX-License-Identifier: GPL-2.0-only
//! The core in the kernel: the same operations through `BPF_PROG_TEST_RUN`, compared with the native outcomes.

use anyhow::{Context, Result, ensure};
use libbpf_rs::libbpf_sys::{bpf_prog_get_info_by_fd, bpf_prog_info};
use libbpf_rs::{Map, MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};
use memmap2::{MmapMut, MmapOptions};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::time::{Duration, Instant};
use takt_policy::{Op, Record, Res};

/// The lock in front of the pool in its map (`struct pool_slot`).
const LOCK: usize = 8;
/// Operations per system call.
const CHUNK: usize = 1 << 14;

/// Compiles `bpf/pool.bpf.c` of the crate at `crate_dir` to `object`. Fails without clang, or with what it said.
pub fn compile(crate_dir: &Path, object: &Path) -> Result<()> {
    let include = format!("-I{}", crate_dir.join("../policy/core").display());
    takt_bpf_build::compile(&crate_dir.join("bpf/pool.bpf.c"), object, &[include])
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
        let path = object;
        let object = ObjectBuilder::default().open_file(path)?.load();
        let object = object.with_context(|| format!("not loadable here: {}", unloadable(path).join(", ")))?;
        let load_time = begin.elapsed();
        let ops = memory(&map(&object, "ops")?)?;
        let results = memory(&map(&object, "results")?)?;
        Ok(Self { object, ops, results, load_time, spent: Duration::ZERO, done: 0 })
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
        self.object.progs().map(one).collect()
    }

    /// Performs the operations of `records` on a pool with the bytes `pool`, demands equal outcomes, and returns the
    /// bytes of the final pool.
    pub fn run(&mut self, pool: &[u8], records: &[Record]) -> Result<Vec<u8>> {
        let slot = [&[0; LOCK], pool].concat();
        let pools = map(&self.object, "pools")?;
        ensure!(pools.value_size() as usize == slot.len(), "the BPF pool has another size than the native one");
        pools.update(&0u32.to_ne_bytes(), &slot, MapFlags::ANY)?;
        let batch = self.object.progs_mut().find(|p| p.name() == "run_batch").context("no program run_batch")?;
        for chunk in records.chunks(CHUNK) {
            for (to, r) in self.ops.chunks_exact_mut(size_of::<Op>()).zip(chunk) {
                to.copy_from_slice(bytes(&r.op));
            }
            let mut request = [0u32.to_ne_bytes(), (chunk.len() as u32).to_ne_bytes()].concat();
            let begin = Instant::now();
            let input = ProgramInput { context_in: Some(&mut request), ..ProgramInput::default() };
            let done = batch.test_run(input)?.return_value;
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

/// Programs that this kernel does not load, each tried alone.
fn unloadable(path: &Path) -> Vec<String> {
    let open = || ObjectBuilder::default().open_file(path);
    let Ok(object) = open() else { return Vec::new() };
    let names = object.progs().map(|p| p.name().to_string_lossy().into_owned());
    let alone = |name: &String| {
        let mut object = open()?;
        for mut p in object.progs_mut() {
            let wanted = p.name() == name.as_str();
            p.set_autoload(wanted);
        }
        object.load()
    };
    names.filter(|n| alone(n).is_err()).collect()
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
