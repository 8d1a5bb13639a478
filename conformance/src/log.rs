// SPDX-License-Identifier: GPL-2.0-only
//! Operation logs in files: a header of 80 bytes, the pool that the log begins with, names of VMs, then records of 104 bytes,
//! all little-endian (docs/conformance.md).

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use takt_policy::{NVM, Op, OpCode, Pool, Record, Res};

/// First bytes of a log.
pub const MAGIC: [u8; 8] = *b"TAKTLOG\x1a";
/// Version of the format that this build reads and writes.
pub const VERSION: u32 = 2;

const HEADER: usize = 80;
const RECORD: usize = 104;
const NAME: usize = 24;
/// Most bytes of the names of a log's VMs, as JSON.
const NAMES: usize = 1 << 18;

/// A log with what is needed to replay it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFile {
    pub policy: String,
    /// Bytes of a pool where the log was made; another size is another core.
    pub pool_size: u64,
    /// [`crate::hash`] of the final pool; 0 = not recorded.
    pub pool_hash: u64,
    /// Bytes of the pool before the first record; none: an empty pool.
    pub start: Vec<u8>,
    /// Names of VMs by their numbers, as far as the host knew them.
    pub names: BTreeMap<u16, String>,
    pub records: Vec<Record>,
}

impl LogFile {
    /// The pool before the first record.
    ///
    /// # Errors
    /// This build does not know the policy, has other pools, or the bytes contradict themselves.
    pub fn pool(&self) -> Result<Pool> {
        let pool = Pool::new(&self.policy).with_context(|| format!("unknown policy {:?}", self.policy))?;
        let size = pool.bytes().len() as u64;
        ensure!(
            self.pool_size == size,
            "the log's pool has {} bytes, this build's {size}: another core",
            self.pool_size
        );
        if self.start.is_empty() {
            return Ok(pool);
        }
        let pool = Pool::from_bytes(&self.start).context("the log does not begin with a pool of this core")?;
        ensure!(pool.policy() == self.policy, "the log is of {:?}, its pool of {:?}", self.policy, pool.policy());
        pool.check().map_err(|e| anyhow::anyhow!("the pool that the log begins with contradicts itself: {e}"))?;
        Ok(pool)
    }

    /// The file's bytes. Fails if the policy's name or the names of VMs are too long.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let name = self.policy.as_bytes();
        ensure!(name.len() <= NAME, "policy name {:?} is longer than {NAME} bytes", self.policy);
        let names = if self.names.is_empty() { Vec::new() } else { serde_json::to_vec(&self.names)? };
        ensure!(names.len() <= NAMES, "the names of VMs have {} bytes, at most {NAMES} are allowed", names.len());
        let mut b = Vec::with_capacity(HEADER + self.start.len() + names.len() + RECORD * self.records.len());
        b.extend(MAGIC);
        b.extend(VERSION.to_le_bytes());
        b.extend((RECORD as u32).to_le_bytes());
        b.extend(self.pool_size.to_le_bytes());
        b.extend(self.pool_hash.to_le_bytes());
        b.extend((self.records.len() as u64).to_le_bytes());
        b.extend(name);
        b.resize(HEADER - 16, 0);
        b.extend((self.start.len() as u64).to_le_bytes());
        b.extend((names.len() as u64).to_le_bytes());
        b.extend(&self.start);
        b.extend(names);
        self.records.iter().for_each(|r| put_record(&mut b, r));
        Ok(b)
    }

    /// Reads a whole file. Fails on anything but a complete log of this version without gaps.
    pub fn from_bytes(b: &[u8]) -> Result<Self> {
        ensure!(b.len() >= 8 && b[..8] == MAGIC, "not a Takt log: the first bytes are not {MAGIC:02x?}");
        ensure!(b.len() >= HEADER, "truncated: {} bytes, the header has {HEADER}", b.len());
        let mut r = Reader(&b[8..]);
        let (version, size) = (r.u32(), r.u32());
        ensure!(version == VERSION, "log version {version}, this build reads version {VERSION}");
        ensure!(size as usize == RECORD, "record size {size}, expected {RECORD}");
        let (pool_size, pool_hash, count) = (r.u64(), r.u64(), r.u64());
        let name = &r.0[..NAME];
        let name = &name[..name.iter().position(|&c| c == 0).unwrap_or(NAME)];
        let policy = std::str::from_utf8(name).context("the policy's name is not text")?.to_string();
        let mut r = Reader(&b[HEADER - 16..]);
        let (start, names) = (r.u64(), r.u64());
        ensure!(
            start == 0 || start == pool_size,
            "a pool of {start} bytes at the beginning, but a pool has {pool_size}"
        );
        ensure!(names <= NAMES as u64, "names of {names} bytes, at most {NAMES} are allowed");
        let have = (b.len() - HEADER) as u64;
        let fits = start.checked_add(names).is_some_and(|n| n <= have);
        ensure!(fits, "truncated: {have} bytes after the header, of a pool with {start} and names with {names}");
        let (start, body) = b[HEADER..].split_at(start as usize);
        let (names, body) = body.split_at(names as usize);
        let names = read_names(names)?;
        let want = usize::try_from(count).ok().and_then(|n| n.checked_mul(RECORD));
        match want {
            Some(n) if n == body.len() => {}
            Some(n) if n < body.len() => bail!("{} bytes after the {count} records of the header", body.len() - n),
            _ => bail!("truncated: {} of {count} records", body.len() / RECORD),
        }
        let mut records = Vec::with_capacity(body.len() / RECORD);
        for (i, chunk) in (1..).zip(body.chunks_exact(RECORD)) {
            let rec = get_record(chunk);
            ensure!(rec.op.seq == i, "record {i}: sequence gap: seq {}, expected {i}", rec.op.seq);
            ensure!(OpCode::from_u16(rec.op.op).is_some(), "record {i}: unknown operation {}", rec.op.op);
            records.push(rec);
        }
        Ok(Self { policy, pool_size, pool_hash, start: start.to_vec(), names, records })
    }
}

fn read_names(bytes: &[u8]) -> Result<BTreeMap<u16, String>> {
    if bytes.is_empty() {
        return Ok(BTreeMap::new());
    }
    let names: BTreeMap<u16, String> = serde_json::from_slice(bytes).context("the names of VMs")?;
    let wild = names.keys().find(|&&n| u32::from(n) >= NVM);
    ensure!(wild.is_none(), "a name of VM {}, but VMs are 0 to {}", wild.copied().unwrap_or_default(), NVM - 1);
    Ok(names)
}

/// Records without a header, as a host keeps them.
pub fn records(bytes: &[u8]) -> Result<Vec<Record>> {
    ensure!(bytes.len() % RECORD == 0, "{} bytes are not whole records of {RECORD}", bytes.len());
    Ok(bytes.chunks_exact(RECORD).map(get_record).collect())
}

/// Reads the log in a file; the error names the file.
pub fn read_log(path: &Path) -> Result<LogFile> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    LogFile::from_bytes(&bytes).with_context(|| path.display().to_string())
}

/// Writes a log to a file, through a temporary one beside it, so that no partial log is left.
pub fn write_log(path: &Path, log: &LogFile) -> Result<()> {
    let bytes = log.to_bytes()?;
    let part = path.with_extension("part");
    std::fs::write(&part, bytes).and_then(|()| std::fs::rename(&part, path)).with_context(|| path.display().to_string())
}

pub(crate) fn put_record(b: &mut Vec<u8>, r: &Record) {
    let (op, res) = (&r.op, &r.res);
    b.extend(op.seq.to_le_bytes());
    b.extend(op.now.to_le_bytes());
    [op.op, op.cpu, op.vcpu, op.vm].iter().for_each(|x| b.extend(x.to_le_bytes()));
    op.arg.iter().for_each(|x| b.extend(x.to_le_bytes()));
    b.extend(res.ret.to_le_bytes());
    b.extend(res.next.to_le_bytes());
    [res.slice, res.kick, res.armed, res.cpu_timer, res.pool_timer].iter().for_each(|x| b.extend(x.to_le_bytes()));
}

fn get_record(b: &[u8]) -> Record {
    let mut r = Reader(b);
    let (seq, now) = (r.u64(), r.u64());
    let (op, cpu, vcpu, vm) = (r.u16(), r.u16(), r.u16(), r.u16());
    let arg = [r.u64(), r.u64(), r.u64(), r.u64()];
    let (ret, next) = (r.u32() as i32, r.u32());
    let (slice, kick, armed, cpu_timer, pool_timer) = (r.u64(), r.u64(), r.u64(), r.u64(), r.u64());
    Record {
        op: Op { seq, now, op, cpu, vcpu, vm, arg },
        res: Res { ret, next, slice, kick, armed, cpu_timer, pool_timer },
    }
}

/// Little-endian fields of a buffer whose length was checked.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut x = [0; N];
        x.copy_from_slice(&self.0[..N]);
        self.0 = &self.0[N..];
        x
    }
    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }
    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }
    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}
