// SPDX-License-Identifier: GPL-2.0-only
//! Cache warmth: how much of its working set a VCPU has to fetch again when it comes onto a PCPU
//! (docs/scenarios.md).

use super::Machine;

/// Part of a working set that is cold, in thousandths: `others` ns of other VCPUs' run time have displaced it, all of it
/// after `decay` ns.
fn displaced(others: u64, decay: u64) -> u64 {
    // Below `decay`, which is at most some seconds, the product fits.
    if others >= decay { 1000 } else { others * 1000 / decay }
}

impl Machine<'_> {
    /// VCPU `v` comes onto `cpu`: counts migrations, and adds the refill to what it has to pay first.
    pub(super) fn warm_up(&mut self, v: u32, cpu: u32) {
        let p = &self.pcpus[cpu as usize];
        let vcpu = &mut self.vcpus[v as usize];
        let before = &self.pcpus[vcpu.pcpu as usize];
        let cold = match vcpu.left_at {
            Some((run, _)) if vcpu.pcpu == cpu => displaced(p.run - run, self.c.decay),
            Some((_, llc)) if before.llc == p.llc => {
                self.count.migrations += 1;
                displaced(self.llc_run[p.llc as usize] - llc, self.c.llc_decay).max(self.c.private_share)
            }
            Some(_) => {
                self.count.migrations += 1;
                self.count.llc_migrations += 1;
                1000
            }
            None => 1000,
        };
        vcpu.pcpu = cpu;
        let penalty = vcpu.refill * cold / 1000;
        vcpu.overhead += penalty;
        vcpu.cold += penalty;
    }
}

#[cfg(test)]
mod tests {
    use super::displaced;

    #[test]
    fn warmth_is_lost_linearly() {
        assert_eq!([0, 250, 1000, 9000].map(|t| displaced(t, 1000)), [0, 250, 1000, 1000]);
    }
}
