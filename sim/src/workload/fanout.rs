// SPDX-License-Identifier: GPL-2.0-only
//! Applications that answer a request from several VMs together (rule P41): one VM, the front, has
//! the clients. A client's request reaches the front, and the front's first VCPU splits it. A
//! message goes through Dom0 to each other VM that computes a part. Workers compute, and the last
//! worker of a VM answers. The front replies when all VMs have answered.

mod keys;
mod requests;

pub use keys::Fanout;

use crate::guest::OTHER;
use crate::machine::{Machine, Program};
use crate::net::{Packet, Vif};
use crate::result::VmResult;
use anyhow::Result;
use requests::Apps;

impl Program for Fanout {
    type State = Apps;

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        requests::add_site(m, vm, self);
        Ok(())
    }

    fn begin(m: &mut Machine, vms: &[u32]) {
        requests::begin(m, vms);
    }

    fn due(m: &mut Machine, n: u32) {
        requests::request(m, n);
    }

    fn wakes(all: &Apps, n: u32, bit: u8) -> bool {
        bit == OTHER && all.is_ready(n)
    }

    fn next(m: &mut Machine, n: u32, _v: u32) -> Option<(u64, bool)> {
        Some((m.programs.of_mut::<Self>().next(n)?, false))
    }

    fn done(m: &mut Machine, n: u32, cpu: u32) {
        requests::part_done(m, n, cpu);
    }

    fn work(all: &Apps, vif: &Vif, packet: &Packet) -> u64 {
        all.desk(vif.program, packet.message)
    }

    fn received(m: &mut Machine, n: u32, packet: Packet, cpu: u32) {
        if let Some(message) = packet.message {
            requests::taken_in(m, n, message, cpu);
        }
    }

    fn leaves(m: &mut Machine, _n: u32, packet: &Packet) {
        if let Some(message) = packet.message {
            requests::delivered(m, message, *packet);
        }
    }

    fn reset(all: &mut Apps) {
        all.reset();
    }

    fn result(m: &Machine, vm: usize, out: &mut VmResult) {
        out.fanout = requests::result(m, vm);
    }
}
