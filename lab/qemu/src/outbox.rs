// SPDX-License-Identifier: GPL-2.0-only
//! Files out of an emulated machine: memory of a PCI device that is a file outside. Needs no driver
//! and takes no virtual time worth speaking of, where a serial line would need minutes.

use anyhow::{Context, Result, bail, ensure};
use memmap2::MmapMut;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of the device's memory.
pub const SIZE: u64 = 256 << 20;
/// Of it at the end, a number that the machine tells while it runs.
const TOLD: u64 = 8;
/// ivshmem's PCI identity.
const DEVICE: [&str; 2] = ["0x1af4", "0x1110"];
/// Its memory.
const BAR: &str = "resource2";

/// Contents by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The empty file behind the device.
///
/// # Errors
/// `path` cannot be written.
pub fn create(path: &Path) -> Result<()> {
    let file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
    file.set_len(SIZE).with_context(|| path.display().to_string())
}

/// In the machine: hands out `files`, in place of any before.
///
/// # Errors
/// There is no such device, or too little room.
pub fn send(files: &Files) -> Result<()> {
    let mut map = memory()?;
    let room = map.len() - TOLD as usize;
    encode(files, &mut map[..room])
}

/// In the machine: tells a number, which [`told`] reads outside meanwhile.
///
/// # Errors
/// There is no such device.
pub fn tell(number: u64) -> Result<()> {
    let mut map = memory()?;
    let at = map.len() - TOLD as usize;
    map[at..].copy_from_slice(&number.to_le_bytes());
    Ok(())
}

/// The device's memory.
fn memory() -> Result<MmapMut> {
    let path = device()?.join(BAR);
    let file = OpenOptions::new().read(true).write(true).open(&path).with_context(|| path.display().to_string())?;
    // SAFETY: nobody else in this machine maps the device, and outside nothing is written.
    unsafe { MmapMut::map_mut(&file) }.with_context(|| path.display().to_string())
}

/// Outside: the number that the machine has told last, 0 before. A torn one is read as any other:
/// it is for progress only.
///
/// # Errors
/// `path` cannot be read.
pub fn told(path: &Path) -> Result<u64> {
    let read = || -> std::io::Result<u64> {
        let mut number = [0; TOLD as usize];
        std::fs::File::open(path)?.read_exact_at(&mut number, SIZE - TOLD)?;
        Ok(u64::from_le_bytes(number))
    };
    read().with_context(|| path.display().to_string())
}

/// Outside: what a machine that is off has sent.
///
/// # Errors
/// `path` is not as [`send`] leaves it.
pub fn receive(path: &Path) -> Result<Files> {
    let context = || format!("{}: not an outbox", path.display());
    let file = std::fs::File::open(path).with_context(context)?;
    // SAFETY: the machine is off, so nobody alters the file.
    let map = unsafe { memmap2::Mmap::map(&file) }.with_context(context)?;
    decode(&map).with_context(context)
}

/// Each file: lengths of name and contents as u64, then both. A name of no length ends it.
fn encode(files: &Files, mut to: &mut [u8]) -> Result<()> {
    let bytes: usize = files.iter().map(|(name, data)| 16 + name.len() + data.len()).sum();
    ensure!(bytes + 8 <= to.len(), "outbox: {bytes} bytes, allowed are {}", to.len() - 8);
    let mut put = |from: &[u8]| {
        let (head, rest) = std::mem::take(&mut to).split_at_mut(from.len());
        head.copy_from_slice(from);
        to = rest;
    };
    for (name, data) in files {
        put(&(name.len() as u64).to_le_bytes());
        put(&(data.len() as u64).to_le_bytes());
        put(name.as_bytes());
        put(data);
    }
    put(&[0; 8]);
    Ok(())
}

fn decode(mut from: &[u8]) -> Result<Files> {
    let mut files = Files::new();
    loop {
        let name = number(&mut from)?;
        if name == 0 {
            return Ok(files);
        }
        let data = number(&mut from)?;
        let name = std::str::from_utf8(take(&mut from, name)?)?;
        files.insert(name.to_owned(), take(&mut from, data)?.to_vec());
    }
}

fn number(from: &mut &[u8]) -> Result<u64> {
    Ok(u64::from_le_bytes(take(from, 8)?.try_into()?))
}

fn take<'a>(from: &mut &'a [u8], length: u64) -> Result<&'a [u8]> {
    let length = usize::try_from(length)?;
    ensure!(length <= from.len(), "{length} bytes where {} are left", from.len());
    let (head, rest) = from.split_at(length);
    *from = rest;
    Ok(head)
}

/// The device's directory in sysfs.
fn device() -> Result<PathBuf> {
    const DEVICES: &str = "/sys/bus/pci/devices";
    for entry in std::fs::read_dir(DEVICES).context(DEVICES)? {
        let path = entry.context(DEVICES)?.path();
        let is = |file: &str, id: &str| std::fs::read_to_string(path.join(file)).is_ok_and(|s| s.trim() == id);
        if is("vendor", DEVICE[0]) && is("device", DEVICE[1]) {
            return Ok(path);
        }
    }
    bail!("outbox: no PCI device {}:{}", DEVICE[0], DEVICE[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Files {
        Files::from([("a".to_owned(), vec![1, 2, 3]), ("b/c".to_owned(), Vec::new())])
    }

    #[test]
    fn what_is_sent_arrives() {
        let mut memory = vec![0xff; 100];
        encode(&files(), &mut memory).unwrap();
        assert_eq!(decode(&memory).unwrap(), files());
    }

    #[test]
    fn an_untouched_outbox_is_empty() {
        assert!(decode(&[0; 64]).unwrap().is_empty());
    }

    #[test]
    fn too_much_is_refused_and_a_torn_outbox_found() {
        let mut memory = vec![0; 40];
        assert!(encode(&files(), &mut memory).unwrap_err().to_string().contains("allowed are 32"));
        let mut memory = vec![0; 100];
        encode(&files(), &mut memory).unwrap();
        assert!(decode(&memory[..20]).is_err());
    }
}
