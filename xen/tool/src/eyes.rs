// SPDX-License-Identifier: GPL-2.0-only
//! What watches the domains' devices, and what it reports.

use crate::host::Domain;
use crate::status::DeviceStatus;
use anyhow::Result;
use takt_monitor::device::Times;

/// What watches the domains' devices.
pub trait Eyes {
    /// Follows the devices of these domains and of no others; says what has gone wrong that had not
    /// before.
    fn scan(&mut self, domains: &[Domain]) -> Vec<String>;
    /// The domain that a report is about, if it is still that one.
    fn domain_of(&self, report: &Report) -> Option<u16>;
    fn devices(&self, id: u16) -> Vec<DeviceStatus>;
    /// Why nothing that the domain sends can be seen; `None` if something can.
    fn blind(&self, id: u16) -> Option<String>;
    fn times(&self, id: u16) -> Option<Times>;
    /// What the domain sends from these ports is real-time, by the user's word.
    ///
    /// # Errors
    /// It has gone.
    fn ports(&mut self, id: u16, ports: &[u16]) -> Result<()>;
    /// Watches the network device `ifname` for this domain, too.
    ///
    /// # Errors
    /// No such device, or another domain's.
    fn watch(&mut self, id: u16, ifname: &str) -> Result<()>;
}

/// `struct report`: a monitor's state after an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Report {
    pub vm: u32,
    pub generation: u32,
    pub rt: u32,
    pub rule: u32,
    pub changes: u64,
    pub now: u64,
    pub period: u64,
    pub lease: u64,
}

// SAFETY: integers only, without padding; a test of the layout is below.
unsafe impl crate::wire::Plain for Report {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn reports_are_those_of_the_program() {
        assert_eq!((size_of::<Report>(), offset_of!(Report, changes), offset_of!(Report, lease)), (48, 16, 40));
    }
}
