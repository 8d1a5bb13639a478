// SPDX-License-Identifier: GPL-2.0-only
//! Which PCPU a server keeps to: where there is most room, as the policies choose
//! (`policy/core/room.h`). The reserve makes every PCPU smaller by as much, so it changes no
//! choice; whether it leaves room for all is for `takt_sim::admits` to say.

use takt_control::{Server, analysis};
use takt_sim::Scenario;

/// A whole PCPU, in the parts that the core counts shares in.
const WHOLE: u64 = 1_000_000;

/// A VCPU with a server.
pub struct Placed {
    pub vm: String,
    pub vcpu: u32,
    pub server: Server,
    /// `None`: no PCPU has room.
    pub pcpu: Option<u32>,
}

impl Placed {
    pub fn budget(&self) -> analysis::Server {
        analysis::Server { budget: self.server.budget, period: self.server.period }
    }
}

/// Every VCPU with a server, Dom0's first, in the order in which they are placed.
pub fn all(s: &Scenario) -> Vec<Placed> {
    let mut room = vec![WHOLE; s.machine.pcpus as usize];
    let dom0 = [("dom0".to_owned(), s.dom0_vcpus(), s.dom0.server, &s.dom0.affinity)];
    let guests = s.vms.iter().flat_map(|vm| vm.names().map(|name| (name, vm.vcpus, vm.server, &vm.affinity)));
    let mut next = 0;
    let mut out = Vec::new();
    for (name, vcpus, server, affinity) in dom0.into_iter().chain(guests) {
        for vcpu in 0..vcpus {
            let own = next % s.machine.pcpus;
            next += 1;
            if server.is_some() {
                let pcpu = place(&mut room, server, affinity, own);
                out.push(Placed { vm: name.clone(), vcpu, server, pcpu });
            }
        }
    }
    out
}

fn place(room: &mut [u64], server: Server, affinity: &[u32], own: u32) -> Option<u32> {
    // Rounded down, as the core does: three thirds are one PCPU.
    let share = (u128::from(server.budget) * u128::from(WHOLE) / u128::from(server.period)).max(1) as u64;
    let count = room.len() as u32;
    // Its own PCPU first, then those that follow: the first of the roomiest is taken.
    let order = (0..count).map(|n| (own + n) % count).filter(|c| affinity.is_empty() || affinity.contains(c));
    let best = order.reduce(|best, c| if room[c as usize] > room[best as usize] { c } else { best })?;
    let left = room[best as usize].checked_sub(share)?;
    room[best as usize] = left;
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(text: &str) -> Vec<Option<u32>> {
        let s = Scenario::from_toml(&format!("[machine]\npcpus = 2\n[dom0]\nvcpus = 1\n{text}"), "t.toml").unwrap();
        all(&s).iter().map(|p| p.pcpu).collect()
    }

    #[test]
    fn most_room_then_none() {
        let vm = |name: &str, budget: u32, more: &str| {
            format!("[[vm]]\nname = \"{name}\"\nvcpus = 1\nbudget = \"{budget}ms\"\nperiod = \"10ms\"\n{more}\n")
        };
        let three = vm("a", 6, "") + &vm("b", 3, "") + &vm("c", 6, "");
        assert_eq!(placed(&three), [Some(1), Some(0), Some(0)]);
        assert_eq!(placed(&(three.clone() + &vm("d", 5, ""))), [Some(1), Some(0), Some(0), None]);
        assert_eq!(placed(&(vm("a", 6, "affinity = 1") + &vm("b", 6, "affinity = 1"))), [Some(1), None]);
        assert_eq!(placed(&vm("a", 10, "count = 2")), [Some(1), Some(0)]);
        let thirds = "[[vm]]\nname = \"a\"\ncount = 6\nvcpus = 1\nbudget = \"1ms\"\nperiod = \"3ms\"\n";
        assert!(placed(thirds).iter().all(Option::is_some));
    }
}
