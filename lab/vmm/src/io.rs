// SPDX-License-Identifier: GPL-2.0-or-later
//! The I/O thread of a VM: packets from its wire into the rx ring, and from the tx ring to the wire. And MSIs.

use anyhow::{Context, Result};
use kvm_bindings::kvm_msi;
use kvm_ioctls::VmFd;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex};
use vmm_sys_util::eventfd::EventFd;

use crate::clock::{monotonic, sleep_until, tsc};
use crate::layout::{FRAME, Ring, SLOTS, Shared};
use crate::machine::msi;
use crate::packet::Incoming;
use crate::wire::Wire;

/// The ways of MSIs into the VM. It holds the VM: without its descriptor KVM closes them.
pub struct Msis {
    shared: &'static Shared,
    fds: Vec<EventFd>,
    vm: VmFd,
}

impl Msis {
    pub fn new(shared: &'static Shared, fds: Vec<EventFd>, vm: VmFd) -> Self {
        Self { shared, fds, vm }
    }

    /// Sends an MSI to VCPU `index`; the guest measures from the oldest that it has not seen.
    pub fn send(&self, index: usize) -> Result<()> {
        self.stamp(index);
        self.fds[index].write(1).context("irqfd")
    }

    /// Sends one as a VMM does that emulates a device without irqfd: another way through the kernel.
    pub fn signal(&self, index: usize) -> Result<()> {
        self.stamp(index);
        let (address, data) = msi(index);
        let msi = kvm_msi { address_lo: address, data, ..Default::default() };
        self.vm.signal_msi(msi).context("KVM_SIGNAL_MSI").map(drop)
    }

    fn stamp(&self, index: usize) {
        let _ = self.shared.vcpu[index].msi_sent.compare_exchange(0, tsc(), AcqRel, Relaxed);
    }

    /// Sends to each VCPU every `period` ns from `start` on, for ever.
    pub fn repeat(&self, start: u64, period: u64) -> Result<()> {
        for at in (1..).map(|n| start + n * period) {
            // After a long wait of this thread, do not make up for what was left out.
            if at + period > monotonic() {
                sleep_until(at);
                (0..self.fds.len()).try_for_each(|i| self.send(i))?;
            }
        }
        Ok(())
    }
}

/// What an I/O thread has done; readable from others.
#[derive(Default)]
pub struct Counters {
    pub packets_in: AtomicU64,
    pub packets_out: AtomicU64,
    /// The wire would not take it.
    pub refused: AtomicU64,
    /// TSC cycles from a sender's sending to this thread's reading, for packets that say when they were sent.
    pub waits: Mutex<Vec<u64>>,
}

pub struct Io {
    pub wire: Wire,
    pub tx: EventFd,
    pub msis: Arc<Msis>,
    pub shared: &'static Shared,
    pub counters: Arc<Counters>,
}

impl Io {
    /// Serves the VM for ever.
    pub fn run(mut self) -> Result<()> {
        loop {
            // SAFETY: the eventfd is owned by self, which outlives the call.
            let tx = unsafe { BorrowedFd::borrow_raw(self.tx.as_raw_fd()) };
            let mut fds = [PollFd::new(self.wire.as_fd(), PollFlags::POLLIN), PollFd::new(tx, PollFlags::POLLIN)];
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(e) => return Err(e).context("poll"),
            }
            let ready = fds.map(|f| f.any().unwrap_or(false));
            if ready[1] {
                self.transmit()?;
            }
            if ready[0] {
                self.receive()?;
            }
        }
    }

    fn receive(&mut self) -> Result<()> {
        let mut frame = [0; FRAME];
        while let Some(n) = self.wire.read(&mut frame)? {
            let now = tsc();
            match self.wire.judge(&frame[..n]) {
                Incoming::Guest(sent) => {
                    self.counters.packets_in.fetch_add(1, Relaxed);
                    if let Some(sent) = sent {
                        self.counters.waits.lock().expect("no panic under it").push(now.saturating_sub(sent));
                    }
                    if self.shared.rx.push(&frame[..n]) {
                        self.msis.send(0)?;
                    }
                }
                Incoming::Question(answer) => self.put(&answer)?,
                Incoming::Other => {}
            }
        }
        Ok(())
    }

    fn transmit(&mut self) -> Result<()> {
        let _ = self.tx.read(); // only to be told again; empty if another notice was read with it
        let mut frame = [0; FRAME];
        while let Some(n) = self.shared.tx.pop(&mut frame) {
            self.counters.packets_out.fetch_add(1, Relaxed);
            self.put(&frame[..n])?;
        }
        Ok(())
    }

    fn put(&mut self, frame: &[u8]) -> Result<()> {
        if !self.wire.write(frame)? {
            self.counters.refused.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}

impl Ring {
    /// Puts a packet in, stamped with the time; false if there is no room.
    fn push(&self, packet: &[u8]) -> bool {
        let head = self.head.load(Relaxed);
        if head.wrapping_sub(self.tail.load(Acquire)) >= SLOTS || packet.len() > FRAME {
            self.dropped.fetch_add(1, Relaxed);
            return false;
        }
        let slot = &self.slot[(head % SLOTS) as usize];
        // SAFETY: between `tail` and `head` only the producer, which this is, touches a slot.
        unsafe { (&mut *slot.data.get())[..packet.len()].copy_from_slice(packet) };
        slot.len.store(packet.len() as u64, Relaxed);
        slot.tsc.store(tsc(), Relaxed);
        self.head.store(head + 1, Release);
        true
    }

    /// Takes the next packet out.
    fn pop(&self, into: &mut [u8; FRAME]) -> Option<usize> {
        let tail = self.tail.load(Relaxed);
        if tail == self.head.load(Acquire) {
            return None;
        }
        let slot = &self.slot[(tail % SLOTS) as usize];
        let n = (slot.len.load(Relaxed) as usize).min(FRAME);
        // SAFETY: a filled slot belongs to the consumer, which this is.
        unsafe { into[..n].copy_from_slice(&(&*slot.data.get())[..n]) };
        self.tail.store(tail + 1, Release);
        Some(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::{Layout, alloc_zeroed};

    fn ring() -> Box<Ring> {
        // SAFETY: zeros are an empty ring, and the box has the allocation's layout.
        unsafe { Box::from_raw(alloc_zeroed(Layout::new::<Ring>()).cast()) }
    }

    #[test]
    fn a_ring_keeps_order_and_says_when_it_is_full() {
        let (ring, mut packet) = (ring(), [0; FRAME]);
        assert_eq!(ring.pop(&mut packet), None);
        for round in 0..3u64 {
            for i in 0..SLOTS {
                assert!(ring.push(&[i as u8; 60]), "{round} {i}");
            }
            assert!(!ring.push(&[0; 60]));
            for i in 0..SLOTS {
                assert_eq!(ring.pop(&mut packet), Some(60));
                assert_eq!(packet[..60], [i as u8; 60]);
            }
            assert_eq!(ring.pop(&mut packet), None);
            assert_eq!(ring.dropped.load(Relaxed), round + 1);
        }
    }

    #[test]
    fn a_ring_takes_no_packet_that_is_too_long() {
        let ring = ring();
        assert!(ring.push(&[1; FRAME]) && !ring.push(&[1; FRAME + 1]));
    }
}
