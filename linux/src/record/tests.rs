// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's ring as it is read: what is whole, what has been overwritten, and what is somebody else's.

use super::*;
use takt_policy::Op;

/// Memory of one log or two: a test writes head and records.
fn ring(logs: usize, write: impl Fn(&mut [u8])) -> Ring {
    let mut memory = memmap2::MmapMut::map_anon(logs * LOG).unwrap();
    write(&mut memory);
    Ring { map: MmapRaw::from(memory) }
}

/// The ring of one pool: the operations after the `before`th are these.
pub(crate) fn ring_of(before: u64, records: &[Record]) -> Ring {
    ring(1, |m| {
        let head = before + records.len() as u64;
        m[..8].copy_from_slice(&head.to_ne_bytes());
        for (n, record) in (before..).zip(records) {
            let at = FIRST + (n % RING) as usize * size_of::<Record>();
            // SAFETY: the memory has room for RING records, and a record is plain.
            unsafe { m.as_mut_ptr().add(at).cast::<Record>().write_unaligned(*record) };
        }
    })
}

/// `head` records, of which those numbered have a time of their own.
fn fill(log: &mut [u8], head: u64, numbered: &[u64]) {
    log[..8].copy_from_slice(&head.to_ne_bytes());
    for n in numbered {
        let at = FIRST
            + (n % RING) as usize * size_of::<Record>()
            + std::mem::offset_of!(Record, op)
            + std::mem::offset_of!(Op, now);
        log[at..at + 8].copy_from_slice(&(1_000 + n).to_ne_bytes());
    }
}

fn times(ring: &Ring, side: Side, from: u64) -> Result<Vec<u64>, String> {
    let mut all = Vec::new();
    ring.read(side, from, &mut all).map_err(|e| e.to_string())?;
    Ok(all.iter().map(|r| r.op.now).collect())
}

#[test]
fn the_layout_is_that_of_the_kernels_log() {
    assert_eq!((RING, FIRST, size_of::<Record>(), LOG), (131_072, 64, 104, 64 + 131_072 * 104));
    assert_eq!(LONGEST, 10_000_000);
}

#[test]
fn records_are_read_from_where_they_are_wanted() {
    let ring = ring(1, |m| fill(m, 5, &[0, 1, 2, 3, 4, 5]));
    assert_eq!(times(&ring, Side::Rest, 0).unwrap(), [1_000, 1_001, 1_002, 1_003, 1_004]);
    assert_eq!(times(&ring, Side::Rest, 3).unwrap(), [1_003, 1_004]);
    assert!(times(&ring, Side::Rest, 5).unwrap().is_empty());
    assert!(times(&ring, Side::Rest, 6).unwrap().is_empty(), "nothing has been recorded since");
}

#[test]
fn the_ring_goes_round() {
    let last = 3 * RING + 1;
    let ring = ring(1, |m| fill(m, last, &[3 * RING - 1, 3 * RING]));
    assert_eq!(times(&ring, Side::Rest, last - 2).unwrap(), [1_000 + last - 2, 1_000 + last - 1]);
    let all = times(&ring, Side::Rest, last - (RING - 1)).unwrap();
    assert_eq!((all.len() as u64, all.last()), (RING - 1, Some(&(1_000 + last - 1))));
    let lost = "the recording is lost: more than 131072 operations between two reads";
    assert_eq!(times(&ring, Side::Rest, last - RING).unwrap_err(), lost);
    assert_eq!(times(&ring, Side::Rest, 0).unwrap_err(), lost);
}

#[test]
fn each_pool_has_its_own_log() {
    let ring = ring(2, |m| {
        fill(m, 1, &[0]);
        fill(&mut m[LOG..], 9, &[8]);
    });
    assert_eq!(times(&ring, Side::Rest, 0).unwrap(), [1_000]);
    assert_eq!(times(&ring, Side::Rt, 8).unwrap(), [1_008]);
    assert_eq!((ring.head(0), ring.head(LOG)), (1, 9));
}
