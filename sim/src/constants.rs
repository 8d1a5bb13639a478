// SPDX-License-Identifier: GPL-2.0-only
//! The model's constants: one table, one set for every policy, each reachable by name (`--set machine.switch=3us`).
//!
//! A constant is an input of the model and never depends on the policy that runs.

use crate::units::Unit;
use anyhow::{Result, bail};

/// Time between the creation of VMs and the first call, ns.
pub(crate) const SETTLE: u64 = 100_000_000;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct ConstantInfo {
    /// `section.key`, as in a scenario file.
    pub key: &'static str,
    pub unit: Unit,
    pub default: u64,
    pub min: u64,
    pub max: u64,
    /// Why this value.
    pub reason: &'static str,
}

impl ConstantInfo {
    /// The allowed range as text, such as "0 to 1ms".
    pub fn range(&self) -> String {
        format!("{} to {}", self.unit.show(self.min), self.unit.show(self.max))
    }
}

macro_rules! constants {
    ($($field:ident $key:literal $unit:ident $default:literal in $min:literal ..= $max:literal $reason:literal;)*) => {
        /// The values in force; times in ns, rates and decimals in thousandths.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Constants { $(#[doc = $reason] pub $field: u64,)* }

        /// Every constant with its default, range and reason.
        pub const CONSTANTS: &[ConstantInfo] = &[$(ConstantInfo {
            key: $key, unit: Unit::$unit, default: $default, min: $min, max: $max, reason: $reason,
        },)*];

        impl Default for Constants {
            fn default() -> Self { Self { $($field: $default,)* } }
        }

        impl Constants {
            fn slot(&mut self, key: &str) -> Option<&mut u64> {
                match key { $($key => Some(&mut self.$field),)* _ => None }
            }

            /// Every constant with the value in force.
            pub fn values(&self) -> Vec<(&'static ConstantInfo, u64)> {
                CONSTANTS.iter().zip([$(self.$field,)*]).collect()
            }
        }
    };
}

constants! {
    switch "machine.switch" Time 2_000 in 0..=1_000_000
        "context switch between two VCPUs; measured: 1.5 to 2.9 us; see below";
    decision "machine.decision" Time 150 in 0..=1_000_000
        "time of one scheduling decision: 0.12-0.16 us";
    ipi "machine.ipi" Time 1_000 in 0..=1_000_000
        "inter-processor interrupt until the other PCPU reacts: 1-2 us";
    resume "machine.resume" Time 0 in 0..=1_000_000
        "time after a context switch before the guest resumes; see below";
    refill "machine.refill" Time 40 in 0..=100_000
        "time to fetch one KiB of a cold working set: about 25 GB/s with prefetching";
    decay "machine.decay" Time 1_000_000 in 1..=1_000_000_000
        "run time of other VCPUs on a PCPU after which its private cache is cold";
    llc_decay "machine.llc_decay" Time 20_000_000 in 1..=10_000_000_000
        "run time of other VCPUs on a last-level cache after which it is cold";
    private_share "machine.private_share" Milli 300 in 0..=1_000
        "part of a working set lost by moving between PCPUs that share a last-level cache";
    stagger "machine.stagger" Time 1_370_000 in 0..=10_000_000
        "time between the starts of two PCPUs, so that their ticks do not coincide";
    dom0_rx "dom0.rx_per_packet" Time 23_000 in 0..=10_000_000
        "cost of netback and bridge per packet to a guest; see below";
    dom0_tx "dom0.tx_per_packet" Time 23_000 in 0..=10_000_000
        "cost of netback and bridge per packet from a guest; see below";
    monitor "dom0.monitor_per_packet" Time 0 in 0..=1_000_000
        "what the monitor adds to that, if the policy promotes on events; see DORIS-E8";
    dom0_hz "dom0.housekeeping" Hz 20_000 in 0..=10_000_000
        "wakes of each Dom0 VCPU by timers and daemons, Poisson; fitted; see below";
    dom0_job "dom0.housekeeping_cost" Time 30_000 in 0..=100_000_000
        "work per such wake; fitted";
    dom0_ws "dom0.working_set" KiB 64 in 0..=1_048_576
        "working set of a Dom0 VCPU: packet path only";
    nic_ring "net.nic_ring" Count 256 in 1..=65_536
        "receive descriptors of the NIC (e1000 default)";
    coalesce "net.coalesce" Time 0 in 0..=10_000_000
        "interrupt moderation of the NIC; small effect, off";
    vif_ring "net.vif_ring" Count 256 in 1..=65_536
        "slots of each split-driver ring, per direction (one page)";
    vif_queue "net.vif_queue" Count 32 in 0..=65_536
        "packets queued in Dom0 in front of a full receive ring (netback's txqueuelen)";
    wire "net.wire" Time 50_000 in 0..=1_000_000_000
        "one-way delay between client and host on the same LAN";
    wire_spread "net.wire_spread" Time 0 in 0..=20_000_000
        "largest additional delay of a call's packet to the host, uniform; 0 on a LAN";
    napi "net.napi" Count 64 in 1..=65_536
        "packets handled in one direction before the other direction (NAPI weight)";
    hz "guest.hz" Hz 250_000 in 0..=10_000_000
        "timer ticks of a guest kernel that is not idle; small effect";
    tick "guest.tick" Time 1_500 in 0..=1_000_000
        "cost of one guest timer tick";
    irq "guest.irq" Time 1_000 in 0..=1_000_000
        "cost of taking one event-channel interrupt in a guest or Dom0";
    rr "guest.rr" Time 100_000_000 in 1_000..=10_000_000_000
        "time slice among the round-robin threads of one guest VCPU (SCHED_RR of Linux)";
    voip_packet "voip.guest_per_packet" Time 90_000 in 0..=10_000_000
        "work of network stack and server per packet; see below";
    voip_ws "voip.working_set" KiB 128 in 0..=1_048_576
        "working set of a VoIP server's VCPU";
    jitter_buffer "voip.jitter_buffer" Time 40_000_000 in 0..=10_000_000_000
        "fixed buffer of the receiving client; fitted; see below";
    phase_spread "voip.phase_spread" Time 20_000_000 in 0..=1_000_000_000
        "longest random delay between the turn of a call and its start: its signalling takes time";
    send_jitter "voip.send_jitter" Time 2_000_000 in 0..=20_000_000
        "largest random delay of a packet at its client (user-space timers); see below";
    packet_gap "voip.packet_gap" Time 20_000_000 in 1_000_000..=1_000_000_000
        "time between the packets of a call: G.711 in 20 ms packets";
    ramp "voip.ramp" Hz 10_000 in 1..=1_000_000
        "calls set up per second (DORIS-E2)";
    bpl "voip.bpl" Milli 4_300 in 1_000..=100_000
        "robustness of G.711 to loss (Bpl), without concealment; with concealment 25.1";
    noise "voip.pesq_noise" Milli 50 in 0..=500
        "random spread of PESQ around the value of the E-model";
    hog_ws "hog.working_set" KiB 256 in 0..=1_048_576
        "working set of a busy loop: about 10 us of refill when cold; small effect";
    idle_hz "idle.housekeeping" Hz 10_000 in 0..=10_000_000
        "wakes of each VCPU of an idle VM, Poisson";
    idle_job "idle.housekeeping_cost" Time 20_000 in 0..=100_000_000
        "work per such wake";
}

impl Constants {
    /// Sets a constant from text. Errors name the allowed range; `None` means that there is no such key.
    pub fn set(&mut self, key: &str, text: &str) -> Option<Result<()>> {
        let info = CONSTANTS.iter().find(|c| c.key == key)?;
        Some(self.set_known(info, text))
    }

    fn set_known(&mut self, info: &ConstantInfo, text: &str) -> Result<()> {
        let value = match info.unit.parse(text) {
            Ok(value) => value,
            Err(e) => bail!("{e}; allowed: {}", info.range()),
        };
        if !(info.min..=info.max).contains(&value) {
            bail!("{text} is out of range; allowed: {}", info.range());
        }
        if let Some(slot) = self.slot(info.key) {
            *slot = value;
        }
        Ok(())
    }

    /// Scales a constant to so many percent of its value, within its range (`--sensitivity`).
    pub fn scale(&mut self, key: &str, percent: u64) -> Option<()> {
        let info = CONSTANTS.iter().find(|c| c.key == key)?;
        let slot = self.slot(key)?;
        *slot = (u128::from(*slot) * u128::from(percent) / 100).clamp(info.min.into(), info.max.into()) as u64;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_lie_in_their_ranges_and_read_back() {
        let mut c = Constants::default();
        for (info, value) in Constants::default().values() {
            assert!((info.min..=info.max).contains(&value), "{}", info.key);
            c.set(info.key, &info.unit.show(value)).unwrap().unwrap();
        }
        assert_eq!(c, Constants::default());
    }

    #[test]
    fn errors_name_the_range() {
        let mut c = Constants::default();
        let e = c.set("machine.switch", "5s").unwrap().unwrap_err().to_string();
        assert_eq!(e, "5s is out of range; allowed: 0 to 1ms");
        assert!(c.set("machine.nothing", "1").is_none());
        c.scale("machine.switch", 125).unwrap();
        assert_eq!(c.switch, 2_500);
    }
}
