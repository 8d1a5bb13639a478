// SPDX-License-Identifier: GPL-2.0-only
//! Where the devices are in the map `net_devices` (`bpf/net.bpf.c`): each at the first free one of some places, from
//! that of its key on.

use std::collections::BTreeMap;
use takt_monitor::device::Key;

/// `NET_PLACES`, `NET_PROBES`.
const PLACES: u32 = 4096;
const PROBES: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<u32, Key>);

impl Places {
    fn of(key: &Key) -> impl Iterator<Item = u32> {
        let first = (key.netns as u32).wrapping_mul(37).wrapping_add(key.ifindex);
        (0..PROBES).map(move |nth| first.wrapping_add(nth) % PLACES)
    }

    /// A free place, which is the device's from now on; `None`: all that it may have are others'.
    pub fn take(&mut self, key: Key) -> Option<u32> {
        let free = Self::of(&key).find(|at| !self.0.contains_key(at))?;
        self.0.insert(free, key);
        Some(free)
    }

    /// The place that the device had.
    pub fn give_back(&mut self, key: &Key) -> Option<u32> {
        let at = Self::of(key).find(|at| self.0.get(at) == Some(key))?;
        self.0.remove(&at);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(netns: u64, ifindex: u32) -> Key {
        Key { netns, ifindex, pad: 0 }
    }

    #[test]
    fn each_device_has_a_place_of_its_own_near_that_of_its_key() {
        let mut places = Places::default();
        // One after the other in a namespace, and the same numbers in others: a pod of each VM.
        for n in 0..64 {
            assert_eq!(places.take(key(1, 2 + n)), Some(37 + 2 + n));
        }
        for netns in 1000..1100 {
            let first = (netns as u32 * 37 + 3) % PLACES;
            assert_eq!(places.take(key(netns, 3)), Some(first));
        }
        assert_eq!(places.take(key(u64::MAX, u32::MAX)), Some(PLACES - 38));
    }

    #[test]
    fn devices_of_one_place_get_those_behind_it_while_there_are_some() {
        let mut places = Places::default();
        let same = |n: u64| key(1 + n * u64::from(PLACES), 5);
        let taken: Vec<_> = (0..9).map(|n| places.take(same(n))).collect();
        let want: Vec<_> = (0..8).map(|n| Some(42 + n)).chain([None]).collect();
        assert_eq!(taken, want);
        assert_eq!(places.give_back(&same(3)), Some(45));
        assert_eq!((places.give_back(&same(3)), places.give_back(&same(8))), (None, None));
        assert_eq!(places.take(same(8)), Some(45));
    }
}
