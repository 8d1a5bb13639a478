// SPDX-License-Identifier: GPL-2.0-only
//! Seeded randomness. Each source (a call, a VCPU's daemons) draws from a stream of its own, so that what a policy does
//! does not change what arrives.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;

/// What a stream of numbers is for.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub enum Purpose {
    Start,
    Housekeeping,
    Call,
    Pesq,
    Tasks,
    Servers,
    Team,
    Client,
    Worker,
    Signal,
    Stream,
    Game,
    Film,
    Job,
}

#[derive(Clone, Debug)]
pub struct Rng(Pcg32);

impl Rng {
    /// The stream of source `index`.
    pub fn new(seed: u64, purpose: Purpose, index: u32) -> Self {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        // The second word selects the PCG's sequence; its lowest bit is ignored by the generator.
        let stream = (purpose as u64) << 40 | u64::from(index) << 1 | 1;
        bytes[8..].copy_from_slice(&stream.to_le_bytes());
        let mut rng = Self(Pcg32::from_seed(bytes));
        // Neighbouring seeds have neighbouring first outputs.
        for _ in 0..4 {
            rng.0.next_u32();
        }
        rng
    }

    /// Uniform in `0..n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponential with this mean, ns. The logarithm is computed in software: every machine draws the same numbers.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        (-libm::log(1.0 - self.unit()) * mean as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |seed, purpose, index| Rng::new(seed, purpose, index).below(u64::MAX);
        assert_eq!(draw(1, Purpose::Call, 3), draw(1, Purpose::Call, 3));
        let all = [
            draw(1, Purpose::Call, 3),
            draw(2, Purpose::Call, 3),
            draw(1, Purpose::Call, 4),
            draw(1, Purpose::Housekeeping, 3),
        ];
        for (n, x) in all.iter().enumerate() {
            assert!(!all[..n].contains(x));
        }
    }

    #[test]
    fn means_are_right() {
        let mut rng = Rng::new(7, Purpose::Housekeeping, 0);
        let mean = (0..20_000).map(|_| rng.exponential(1_000_000)).sum::<u64>() / 20_000;
        assert!((970_000..1_030_000).contains(&mean), "{mean}");
    }
}
