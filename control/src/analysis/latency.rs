// SPDX-License-Identifier: GPL-2.0-only
//! Poris' formulas (rules P21 and P40): the slice that a latency requires, how long a VCPU then
//! waits, and how far apart the VCPUs of an application start.

use crate::groups;
use anyhow::Result;

/// What Poris' slices depend on; times are ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// All that share the PCPUs, Dom0's too (rule P22).
    pub vcpus: u64,
    pub pcpus: u64,
    /// The shortest expected latency of a real-time VM; `None`: no VM is real-time.
    pub latency: Option<u64>,
    pub long_slice: u64,
    pub min_slice: u64,
    pub t_round: u64,
}

/// VCPUs of one application, on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lags {
    /// When its last VCPU may start after the first, one by one: with Credit's slice, and with Poris'.
    pub credit: u64,
    pub alone: u64,
    /// The same where subgroups start together and take turns, of a slice or of a round.
    pub group: u64,
    pub rounds: u64,
}

/// How a group goes on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    pub vcpus: u64,
    pub subgroups: u64,
    /// VCPUs that cannot run at once with the others: those above the number of PCPUs.
    pub too_many: u64,
    /// Turns of T_round in a slice; one subgroup takes no turns.
    pub rounds: u64,
    pub lags: Lags,
}

const MS: u64 = 1_000_000;

impl Host {
    /// N_V, VCPUs to a PCPU.
    pub fn per_pcpu(&self) -> u64 {
        self.vcpus.div_ceil(self.pcpus.max(1))
    }

    /// S, in whole ms.
    pub fn slice(&self) -> u64 {
        let others = self.per_pcpu().saturating_sub(1);
        match self.latency {
            Some(latency) if others > 0 => {
                let slice = latency / others;
                (slice - slice % MS).max(self.min_slice).min(self.long_slice)
            }
            _ => self.long_slice,
        }
    }

    /// The worst-case scheduling latency, (N_V - 1) S.
    pub fn wait(&self) -> u64 {
        self.turns(self.per_pcpu(), self.slice())
    }

    fn turns(&self, of: u64, each: u64) -> u64 {
        of.saturating_sub(1).saturating_mul(each)
    }

    /// How a group of VMs with so many VCPUs each goes, packed as the hosts pack it.
    ///
    /// # Errors
    /// One line: it has too many subgroups.
    pub fn fit(&self, vms: &[u32]) -> Result<Fit> {
        let pcpus = u32::try_from(self.pcpus)?;
        let first = groups::pack(vms, pcpus)?;
        let last = vms.iter().zip(first).map(|(vcpus, sub)| sub + vcpus.saturating_sub(1) / pcpus);
        let subgroups = last.max().map_or(0, |sub| u64::from(sub) + 1);
        let vcpus = vms.iter().map(|&n| u64::from(n)).sum();
        let slice = self.slice();
        Ok(Fit {
            vcpus,
            subgroups,
            too_many: u64::saturating_sub(vcpus, self.pcpus),
            rounds: if subgroups > 1 { (slice / self.t_round.max(1)).max(1) } else { 0 },
            lags: Lags {
                credit: self.turns(self.per_pcpu(), self.long_slice),
                alone: self.wait(),
                group: self.turns(subgroups, slice),
                rounds: self.turns(subgroups, self.t_round),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host(vcpus: u64, pcpus: u64, latency_ms: u64) -> Host {
        let latency = (latency_ms > 0).then_some(latency_ms * MS);
        Host { vcpus, pcpus, latency, long_slice: 30 * MS, min_slice: MS, t_round: MS }
    }

    /// The worked examples of rules P21, P22 and P23.
    #[test]
    fn slices() {
        let cases = [
            (33, 8, 10, 5, 2, 8),
            (33, 8, 1, 5, 1, 4),
            (40, 8, 15, 5, 3, 12),
            (48, 8, 15, 6, 3, 15),
            (10, 2, 15, 5, 3, 12),
            (4, 1, 15, 4, 5, 15),
            (8, 8, 15, 1, 30, 0),
            (33, 8, 0, 5, 30, 120),
        ];
        for (vcpus, pcpus, latency, per_pcpu, slice, wait) in cases {
            let h = host(vcpus, pcpus, latency);
            let got = (h.per_pcpu(), h.slice(), h.wait());
            assert_eq!(got, (per_pcpu, slice * MS, wait * MS), "{vcpus} VCPUs on {pcpus}, L = {latency} ms");
        }
    }

    /// PORIS-E2: four VMs of two VCPUs on four PCPUs, S = 5 ms: 5 ms without rounds and 1 ms with them, five of them.
    #[test]
    fn synchronisation() {
        let fit = host(8, 4, 5).fit(&[2; 4]).unwrap();
        assert_eq!((fit.vcpus, fit.subgroups, fit.too_many, fit.rounds), (8, 2, 4, 5));
        assert_eq!(fit.lags, Lags { credit: 30 * MS, alone: 5 * MS, group: 5 * MS, rounds: MS });
        // All at once: nobody waits for the others.
        let fit = host(16, 4, 15).fit(&[2, 2]).unwrap();
        assert_eq!((fit.subgroups, fit.too_many, fit.rounds), (1, 0, 0));
        assert_eq!(fit.lags, Lags { credit: 90 * MS, alone: 15 * MS, group: 0, rounds: 0 });
        // A VM that just fills the machine, and one that is larger by a VCPU.
        assert_eq!(host(4, 4, 15).fit(&[4]).unwrap().subgroups, 1);
        assert_eq!(host(5, 4, 15).fit(&[5]).unwrap().subgroups, 2);
        assert_eq!(host(8, 4, 15).fit(&[8]).unwrap().subgroups, 2);
        // A VM larger than the machine (rule P8), and a slice shorter than a round (rule P11).
        let fit = Host { t_round: 7 * MS, ..host(10, 4, 10) }.fit(&[10]).unwrap();
        assert_eq!((fit.subgroups, fit.too_many, fit.rounds, fit.lags.rounds), (3, 6, 1, 14 * MS));
        assert!(host(65, 4, 15).fit(&[65]).unwrap_err().to_string().contains("at most 16"));
    }

    /// Where VMs do not fill their subgroups there are more of them than the published formula counts, never fewer.
    #[test]
    fn gaps_make_turns() {
        assert_eq!(host(15, 4, 15).fit(&[3; 5]).unwrap().subgroups, 5);
    }

    proptest! {
        #[test]
        fn the_latency_is_kept_down_to_the_shortest_slice(vcpus in 1u64..200, pcpus in 1u64..64, latency in 1u64..200) {
            let h = host(vcpus, pcpus, latency);
            prop_assert!(h.wait() <= latency * MS || h.slice() == h.min_slice);
            let fit = h.fit(&[2, 3, 1]).unwrap();
            prop_assert!(fit.subgroups >= 6u64.div_ceil(pcpus) && fit.lags.rounds <= fit.lags.group);
        }
    }
}
