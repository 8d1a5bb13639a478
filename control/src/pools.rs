// SPDX-License-Identifier: GPL-2.0-only
//! Names of policies that stand for two pools: `risa`, whose rt-pool follows the VMs, and `sp`, whose rt-pool an administrator has made.

use crate::duration;
use crate::need::Rule;
use anyhow::{Result, bail};

/// Who is not real-time is scheduled by this, here and in the papers' baseline.
pub const NON_RT: &str = "credit-4.2";
/// All in one pool under [`NON_RT`].
pub const BASELINE: &str = "baseline";
pub const RISA: &str = "risa";
/// Static pools ("sp" in the paper).
pub const STATIC: &str = "sp";

/// The rt-pool beside that of [`NON_RT`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pools {
    /// The core's policy of the rt-pool.
    pub rt: String,
    pub size: Size,
}

/// How large it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    /// As the partition manager finds.
    Managed(Settings),
    /// So many PCPUs until the last real-time VM has gone; the first so many of these VMs are pinned to the first PCPU and the
    /// others to the next ones in turn, unless that is 0.
    Fixed { pcpus: u32, first: u32 },
}

/// Which PCPUs leave the rt-pool (rule K9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shrink {
    /// Those off its home node, then the highest.
    #[default]
    Far,
    /// Algorithm 2 to the letter: those of the non-rt-pool's node, then the lowest.
    Literal,
}

/// How long the rt-pool holds PCPUs that it does not need any more (rule K28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// For the delay, which begins again with each change.
    Delay,
    /// For the delay, or for a fiftieth of the time for which they have been needed if that is less: a
    /// VM that comes and goes keeps PCPUs from others for 1.02 times its time at most.
    Use,
}

/// Switches of the partition manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub rule: Rule,
    /// Before the rt-pool shrinks, ns.
    pub delay: u64,
    /// Unless it is given: as published in the simulator, `use` on live hosts.
    pub hold: Option<Hold>,
    pub shrink: Shrink,
    /// The rt-pool may take all PCPUs. Then all VMs live there, and VMs without budget get what is
    /// left (rule K7).
    pub take_all: bool,
    /// Percent of each PCPU of the rt-pool that its policy keeps for VCPUs without budget.
    pub reserve: u32,
}

impl Default for Settings {
    fn default() -> Self {
        let (rule, shrink) = (Rule::default(), Shrink::default());
        Self { rule, delay: 15_000_000_000, hold: None, shrink, take_all: false, reserve: 0 }
    }
}

impl Settings {
    /// With a live host's defaults.
    #[must_use]
    pub fn live(self) -> Self {
        Self { hold: self.hold.or(Some(Hold::Use)), ..self }
    }

    /// As published, also on a live host.
    #[must_use]
    pub fn published(self) -> Self {
        Self { hold: self.hold.or(Some(Hold::Delay)), ..self }
    }
}

impl Pools {
    /// What a policy's name stands for, with its defaults.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            RISA => Some(Self { rt: "vgedf".into(), size: Size::Managed(Settings::default()) }),
            STATIC => Some(Self { rt: "sedf".into(), size: Size::Fixed { pcpus: 2, first: 0 } }),
            _ => None,
        }
    }

    /// Its own keys.
    pub fn keys(&self) -> Vec<&'static str> {
        match self.size {
            Size::Managed(_) => vec!["rt", "need", "delay", "hold", "shrink", "rt_pool_may_take_all"],
            Size::Fixed { .. } => vec!["rt", "pcpus", "first"],
        }
    }

    /// Sets one of its own keys; false if it is none.
    ///
    /// # Errors
    /// One line with what is allowed.
    pub fn set(&mut self, key: &str, text: &str) -> Result<bool> {
        match (&mut self.size, key) {
            // Who lives in a pool that is managed has a server.
            (size, "rt") => {
                let managed = matches!(size, Size::Managed(_));
                let names = takt_policy::policies().into_iter().map(|p| p.name);
                let names: Vec<_> = names.filter(|name| !managed || Rule::of(name).is_some()).collect();
                if !names.contains(&text) {
                    let servers = if managed { ", the policies with budgets" } else { "" };
                    bail!("`rt` must be one of {}{servers} (got `{text}`)", names.join(", "));
                }
                self.rt = text.into();
            }
            (Size::Managed(s), "need") => {
                s.rule = word(key, text, &[("paper", Rule::Paper), ("gfb", Rule::Gfb), ("whole", Rule::Whole)])?;
            }
            (Size::Managed(s), "delay") => match duration::parse(text) {
                Ok(ns @ ..=3_600_000_000_000) => s.delay = ns,
                _ => bail!("`delay` must be between 0 and 1h (got `{text}`)"),
            },
            (Size::Managed(s), "hold") => {
                s.hold = Some(word(key, text, &[("delay", Hold::Delay), ("use", Hold::Use)])?);
            }
            (Size::Managed(s), "shrink") => {
                s.shrink = word(key, text, &[("far", Shrink::Far), ("literal", Shrink::Literal)])?;
            }
            (Size::Managed(s), "rt_pool_may_take_all") => {
                s.take_all = word(key, text, &[("off", false), ("on", true)])?
            }
            (Size::Fixed { pcpus, .. }, "pcpus") => *pcpus = number(key, text, 1, 63)?,
            (Size::Fixed { first, .. }, "first") => *first = number(key, text, 0, 255)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes note of the other settings: without `need` the policy of the rt-pool determines how
    /// many PCPUs the pool needs (rule K23), and a reserve is room that the rt-pool does not have.
    pub fn know(&mut self, keys: &[&str], params: &[(u32, u64)]) {
        if let Size::Managed(settings) = &mut self.size {
            if !keys.contains(&"need") {
                settings.rule = Rule::of(&self.rt).unwrap_or_default();
            }
            let reserve = params.iter().find(|(key, _)| *key == reserve_key()).map_or(0, |&(_, value)| value as u32);
            settings.reserve = reserve;
        }
    }

    /// What the rt-pool is told before the parameters that were given: nobody without budget lives there, so nothing is kept for them.
    pub fn defaults() -> (u32, u64) {
        (reserve_key(), 0)
    }

    /// The same in the simulator. A static pool is a published baseline, where SEDF refuses nothing
    /// (rule E14).
    #[must_use]
    pub fn published(&self) -> Vec<(u32, u64)> {
        let mut all = vec![Self::defaults()];
        if matches!(self.size, Size::Fixed { .. }) {
            all.push((key_of("admission"), 0));
        }
        all
    }
}

pub(crate) fn reserve_key() -> u32 {
    key_of("reserve")
}

fn key_of(name: &str) -> u32 {
    takt_policy::param(name, false).map_or(0, |p| p.key)
}

fn word<T: Copy>(key: &str, text: &str, words: &[(&str, T)]) -> Result<T> {
    match words.iter().find(|(w, _)| *w == text) {
        Some((_, value)) => Ok(*value),
        None => {
            bail!("`{key}` must be one of {} (got `{text}`)", words.iter().map(|w| w.0).collect::<Vec<_>>().join(", "))
        }
    }
}

fn number(key: &str, text: &str, min: u32, max: u32) -> Result<u32> {
    match text.parse() {
        Ok(n) if (min..=max).contains(&n) => Ok(n),
        _ => bail!("`{key}` must be between {min} and {max} (got `{text}`)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicySpec;

    #[test]
    fn names_and_switches() {
        let parse = |text: &str| PolicySpec::parse(text).unwrap();
        let risa = parse("risa(need=gfb,delay=5s,hold=use,shrink=literal,reserve=5,slice=5ms)");
        let want = Settings {
            rule: Rule::Gfb,
            delay: 5_000_000_000,
            hold: Some(Hold::Use),
            shrink: Shrink::Literal,
            take_all: false,
            reserve: 5,
        };
        assert_eq!((risa.name.as_str(), risa.params.len()), ("credit", 4 + 2), "those of the preset and two");
        assert_eq!(risa.pools.unwrap(), Pools { rt: "vgedf".into(), size: Size::Managed(want) });
        let rule = |text: &str| match parse(text).pools.unwrap().size {
            Size::Managed(settings) => settings.rule,
            Size::Fixed { .. } => panic!("{text}"),
        };
        assert_eq!(["risa", "risa(rt=sedf)", "risa(rt=rtxen)"].map(rule), [Rule::Paper, Rule::Whole, Rule::Whole]);
        assert_eq!(["risa(need=paper,rt=sedf)", "risa(need=whole)"].map(rule), [Rule::Paper, Rule::Whole]);
        let sp = parse("sp(pcpus=3,first=6,rt=vgedf)").pools.unwrap();
        assert_eq!(sp, Pools { rt: "vgedf".into(), size: Size::Fixed { pcpus: 3, first: 6 } });
        assert_eq!(PolicySpec { label: NON_RT.into(), ..parse("baseline") }, parse(NON_RT));
        assert!(PolicySpec::list(["baseline", NON_RT].into_iter()).is_err());
        assert!(PolicySpec::list(["risa", "risa(delay=15s)"].into_iter()).is_err());
        PolicySpec::list(["risa", "risa(delay=5s)", "sp", "sp(first=4)", "baseline"].into_iter()).unwrap();
    }

    #[test]
    fn errors_name_the_key_and_what_is_allowed() {
        for (text, want) in [
            ("risa(rt=fifo)", "`rt` must be one of "),
            ("risa(rt=credit)", "`rt` must be one of rtxen, sedf, vgedf, the policies with budgets (got `credit`)"),
            ("sp(rt=fifo)", "`rt` must be one of credit, "),
            ("risa(need=all)", "must be one of paper, gfb, whole"),
            ("risa(delay=2h)", "between 0 and 1h"),
            ("risa(pcpus=2)", "unknown key `pcpus`; known: rt, need, delay, hold"),
            ("risa(rt_pool_may_take_all=1)", "must be one of off, on"),
            ("sp(pcpus=0)", "between 1 and 63"),
            ("sp(first=4,first=5)", "a second time"),
            ("sp(delay=1s)", "unknown key `delay`; known: rt, pcpus, first"),
        ] {
            let error = PolicySpec::parse(text).unwrap_err().to_string();
            assert!(error.contains(want) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
