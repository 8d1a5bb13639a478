// SPDX-License-Identifier: GPL-2.0-only
//! What a cpupool's decisions and switches take: the hypervisor counts it while it is told to.

use crate::host::{TaktPool, Xen};
use crate::refusal::refused;
use crate::status;
use crate::wire::{self, Act};
use anyhow::{Context, Result, anyhow};
use std::io::Error;
use takt_control::overhead::Window;
use takt_policy::Overhead;

impl Xen {
    /// Begins to count, from nothing; who has begun before has his counts no more.
    ///
    /// # Errors
    /// The hypervisor has no memory for it, or is of another version.
    pub fn begin_measuring(&self, pool: &TaktPool) -> Result<()> {
        self.ask_pool(pool, Act::Put, wire::OVERHEAD, [1, 0, 0], &mut []).map(drop).map_err(|e| cannot(pool, &e))
    }

    /// Ends it: what all PCPUs of the cpupool have counted.
    ///
    /// # Errors
    /// Nobody has begun; the hypervisor is of another version.
    pub fn end_measuring(&self, pool: &TaktPool) -> Result<Window> {
        self.ask_pool(pool, Act::Put, wire::OVERHEAD, [0; 3], &mut []).map_err(|e| cannot(pool, &e))?;
        let pcpus = status::pcpus(&self.snapshot(pool, false)?);
        let (mut all, mut window) = (Overhead::default(), (0, 0));
        for &cpu in &pcpus {
            let mut bytes = vec![0; size_of::<Overhead>()];
            let arg = [cpu.into(), bytes.len() as u64, 0];
            let answer = self.ask_pool(pool, Act::Get, wire::OVERHEAD, arg, &mut bytes);
            let [from, size, to] = answer.map_err(|e| cannot(pool, &e))?;
            let own = Overhead::from_bytes(&bytes).filter(|_| size == bytes.len() as u64);
            all.merge(&own.with_context(|| foreign(pool))?);
            window = (from, to);
        }
        Ok(Window::new(pool.policy.name, pcpus.len(), window, &all))
    }
}

fn foreign(pool: &TaktPool) -> String {
    format!("cpupool {}: the hypervisor's policy core is from another build than this takt", pool.id)
}

fn cannot(pool: &TaktPool, e: &Error) -> anyhow::Error {
    match e.raw_os_error() {
        Some(libc::ENOENT) => anyhow!("cpupool {}: nothing is counted", pool.id),
        Some(libc::ENOSPC) => anyhow!(foreign(pool)),
        _ => refused(e, &format!("cpupool {}: its overhead", pool.id)),
    }
}

#[cfg(test)]
mod tests {
    use crate::fake::Fake;

    #[test]
    fn the_counts_of_all_pcpus_are_one_window() {
        let fake = Fake::new();
        let host = fake.host(&[]);
        let pool = host.pool(None).unwrap();
        assert_eq!(host.end_measuring(&pool).unwrap_err().to_string(), "cpupool 0: nothing is counted");
        host.begin_measuring(&pool).unwrap();
        if let Some((took, ..)) = &mut fake.state().took {
            took[0].decision.add(100);
            took[1].decision.add(300);
            took[1].switch.add(2_000);
        }
        fake.state().now += 24_000;
        let window = host.end_measuring(&pool).unwrap();
        assert_eq!((window.policy.as_str(), window.pcpus, window.to_ns - window.from_ns), ("doris", 2, 24_000));
        assert_eq!((window.decision.count, window.decision.max_ns, window.change.count), (2, 300, 1));
        assert!((window.loss_pct - 5.0).abs() < 1e-9, "{}", window.loss_pct);
        host.begin_measuring(&pool).unwrap();
        assert_eq!(host.end_measuring(&pool).unwrap().decision.count, 0, "from nothing");
    }

    #[test]
    fn a_hypervisor_that_cannot_says_so() {
        let fake = Fake::new();
        let host = fake.host(&[]);
        let pool = host.pool(None).unwrap();
        fake.state().fails = Some(libc::EINVAL);
        let error = host.begin_measuring(&pool).unwrap_err().to_string();
        assert!(error.contains("its overhead") && error.contains("or another version"), "{error}");
    }
}
