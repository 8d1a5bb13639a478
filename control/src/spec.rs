// SPDX-License-Identifier: GPL-2.0-only
//! A policy as people name it: `doris`, `doris(dom0=off)`, `credit(slice=5ms,activate=tick)`, `pin`, `credit-4.2`, `risa(delay=5s)`.

use crate::duration;
use crate::near;
use crate::pools::{self, Pools, Size};
use anyhow::{Context, Result, bail};
use std::fmt;
use takt_policy::ParamInfo;

/// A name for a policy with certain parameters.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    pub name: &'static str,
    /// As [`PolicySpec::parse`] reads it.
    pub means: &'static str,
    pub doc: &'static str,
}

/// The variants that papers name (rules C35, L21 and R35; docs/rules/baselines.md).
pub const PRESETS: [Preset; 18] = [
    Preset {
        name: "credit-4.2",
        means: "credit(weights=vcpu,ratelimit=1ms,tickle=one,overflow=half)",
        doc: "Credit of Xen 4.2.1",
    },
    Preset {
        name: "credit-sampled",
        means: "credit(charge=sampled)",
        doc: "Credit before 2009: a VCPU that runs only between ticks is never charged",
    },
    Preset {
        name: "credit-base",
        means: "credit(balance=on)",
        doc: "Credit with a VM's credit shared equally among its VCPUs",
    },
    Preset { name: "deferrable", means: "rtxen(server=deferrable)", doc: "RT-Xen's deferrable servers" },
    Preset { name: "periodic", means: "rtxen(server=periodic)", doc: "RT-Xen's periodic servers" },
    Preset { name: "polling", means: "rtxen(server=polling)", doc: "RT-Xen's polling servers" },
    Preset { name: "sporadic", means: "rtxen(server=sporadic)", doc: "RT-Xen's sporadic servers" },
    Preset { name: "base", means: "credit(balance=on)", doc: "baseline of S, the same as credit-base" },
    Preset { name: "A", means: "laxs(balance=on,steal=credit)", doc: "S: laxity queueing alone" },
    Preset {
        name: "AL",
        means: "laxs(balance=on,steal=latency)",
        doc: "S: laxity queueing and latency-aware stealing",
    },
    Preset { name: "ALL", means: "laxs(balance=on)", doc: "S: laxity queueing, latency-aware stealing, binding" },
    Preset { name: "ABLL", means: "laxs(balance=on,boost=queued)", doc: "S: ALL, and events also boost queued VCPUs" },
    Preset {
        name: "AILL",
        means: "laxs(balance=on,infinite=on)",
        doc: "S: ALL, and real-time VCPUs never run out of credit",
    },
    Preset { name: "rs", means: "poris(parallel=off)", doc: "Poris: promotion and dynamic slice alone" },
    Preset {
        name: "par-only",
        means: "poris(promote=off,dynamic=off,parallel=vm)",
        doc: "Poris: the VCPUs of a VM start together, nothing else",
    },
    Preset {
        name: "co",
        means: "gang",
        doc: "co-scheduling: all VCPUs of a VM start and stop together, VMs take turns",
    },
    Preset {
        name: "balance",
        means: "gang(turns=off)",
        doc: "balance scheduling: the VCPUs of a VM queue on different PCPUs",
    },
    Preset { name: "poris_s", means: "poris(parallel=vm)", doc: "Poris without groups" },
];

/// A policy and the pool parameters that differ from its defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySpec {
    /// As given, without blanks; names the policy in every table and file.
    pub label: String,
    /// The core's policy.
    pub name: String,
    /// Real-time VMs get PCPUs of their own, which every other guest is kept off (rule B12).
    pub pin: bool,
    /// Real-time VMs get a pool of their own; the rest is about the other one.
    pub pools: Option<Pools>,
    /// For `adjust` on the pool: those that a preset stands for, then what was given, in that order; each key once.
    pub params: Vec<(u32, u64)>,
}

impl PolicySpec {
    /// Reads a policy; parameters, units and ranges are those of [`takt_policy::params`]. Those given to a preset win over its own.
    ///
    /// # Errors
    /// One line that names the policy or the key, and what is allowed.
    pub fn parse(text: &str) -> Result<Self> {
        Self::read(text).map_err(|e| crate::one_line(&e))
    }

    fn read(text: &str) -> Result<Self> {
        let label: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (head, list) = match label.split_once('(') {
            None => (label.as_str(), ""),
            Some((head, rest)) => match rest.strip_suffix(')') {
                Some(list) if !list.contains(['(', ')']) => (head, list),
                _ => bail!("policy `{text}`: write it as NAME or NAME(key=value,…)"),
            },
        };
        let pin = head == "pin";
        let mut pools = Pools::named(head);
        let means = match head {
            "pin" => "credit",
            pools::BASELINE | pools::RISA | pools::STATIC => pools::NON_RT,
            _ => head,
        };
        let (name, preset) = match PRESETS.iter().find(|p| p.name == means) {
            Some(preset) => {
                let means = Self::parse(preset.means)?;
                (means.name, means.params)
            }
            None => (means.to_owned(), Vec::new()),
        };
        if !takt_policy::policies().iter().any(|p| p.name == name) {
            bail!("unknown policy `{head}`{}", near::known_are(head, known().iter().map(String::as_str)));
        }
        let table = takt_policy::params();
        let mut params: Vec<(u32, u64)> = Vec::new();
        let mut keys = Vec::new();
        let mut live = None;
        for pair in list.split(',').filter(|p| !p.is_empty() || !list.is_empty()) {
            let context = || format!("policy `{label}`");
            let Some((key, text)) = pair.split_once('=') else { bail!("{}: `{pair}` is not key=value", context()) };
            if keys.contains(&key) {
                bail!("policy `{label}`: `{pair}` sets a key a second time");
            }
            keys.push(key);
            if key == LIVE {
                live = Some(Live::parse(text).with_context(context)?);
                continue;
            }
            let own = pools.as_mut().map_or(Ok(false), |p| p.set(key, text)).with_context(context)?;
            if !own {
                let own = pools.as_ref().map_or_else(Vec::new, Pools::keys);
                let param = param(key, text, &table, &own).with_context(context)?;
                // By its older name, perhaps.
                if params.iter().any(|&(other, _)| other == param.0) {
                    bail!("policy `{label}`: `{pair}` sets a key a second time");
                }
                params.push(param);
            }
        }
        if let Some(pools) = &mut pools {
            pools.know(&keys, &params);
            if let (Size::Managed(settings), Some(live)) = (&mut pools.size, live) {
                *settings = if live == Live::Off { settings.published() } else { settings.live() };
            }
        }
        let given = |all: &[(u32, u64)], key| all.iter().any(|&(other, _)| other == key);
        let mut all: Vec<_> =
            preset.into_iter().filter(|&(key, _)| !given(&params, key)).chain(params.iter().copied()).collect();
        if let Some(live) = live {
            let others = table.iter().filter(|p| !p.per_vm && !given(&all, p.key));
            let others: Vec<_> = others.filter_map(|p| Some((p.key, live.value(p)?))).collect();
            all.splice(0..0, others);
        }
        Ok(Self { name, pin, pools, params: all, label })
    }
}

impl PolicySpec {
    /// Reads several policies.
    ///
    /// # Errors
    /// Those of [`PolicySpec::parse`]; a policy that is named twice, in whatever form.
    pub fn list<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<Self>> {
        let mut all: Vec<Self> = Vec::new();
        for text in texts {
            let policy = Self::parse(text)?;
            if let Some(other) = all.iter().find(|p| p.same(&policy)) {
                bail!("policy `{policy}`: named twice, also as `{other}`");
            }
            all.push(policy);
        }
        Ok(all)
    }

    /// Sets those of `defaults` that neither the policy's name nor what was given sets.
    pub fn add_defaults(&mut self, defaults: &[(u32, u64)]) {
        for &(key, value) in defaults {
            if self.params.iter().all(|&(other, _)| other != key) {
                self.params.push((key, value));
            }
        }
    }

    /// Refuses what a guest may gain by, unless it is `accepted` (`--accept-unfair`).
    ///
    /// # Errors
    /// One line that says which parameter, and what may happen.
    pub fn fair(&self, accepted: bool) -> Result<()> {
        let table = takt_policy::params();
        for &(key, value) in self.params.iter().filter(|_| !accepted) {
            let info = table.iter().find(|p| !p.per_vm && p.key == key);
            if let Some((info, (_, why))) = info.and_then(|p| p.unfair.filter(|u| u.0 == value).map(|u| (p, u))) {
                let word = show(info, value);
                bail!("policy `{self}`: {}={word} is unfair: {why} (--accept-unfair accepts it)", info.name);
            }
        }
        Ok(())
    }

    /// Whether both mean the same, however they are written.
    fn same(&self, other: &Self) -> bool {
        let table = takt_policy::params();
        let value = |p: &Self, info: &ParamInfo| {
            p.params.iter().find(|(key, _)| *key == info.key).map_or(info.default, |&(_, value)| value)
        };
        let mut pool = table.iter().filter(|info| !info.per_vm);
        let same = (&self.name, self.pin, &self.pools) == (&other.name, other.pin, &other.pools);
        same && pool.all(|info| value(self, info) == value(other, info))
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

/// What [`PolicySpec::parse`] takes as a name: the core's policies, presets, `pin`, and those with two pools.
pub fn known() -> Vec<String> {
    let core = takt_policy::policies().into_iter().map(|p| p.name);
    let more = ["pin", pools::BASELINE, pools::RISA, pools::STATIC];
    core.chain(PRESETS.iter().map(|p| p.name)).chain(more).map(str::to_owned).collect()
}

/// In the place of a parameter: selects the values of all that are not given.
const LIVE: &str = "live";

/// Which values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Live {
    /// Those of a live host.
    Linux,
    Xen,
    /// The published values of all that live hosts change.
    Off,
}

impl Live {
    fn parse(text: &str) -> Result<Self> {
        match text {
            "linux" => Ok(Self::Linux),
            "xen" => Ok(Self::Xen),
            "off" => Ok(Self::Off),
            _ => bail!("`{LIVE}` must be one of linux, xen, off (got `{text}`)"),
        }
    }

    /// The value to set, if there is one.
    fn value(self, info: &ParamInfo) -> Option<u64> {
        let differs = |value: u64| value != info.default;
        match self {
            Self::Linux => differs(info.linux).then_some(info.linux),
            Self::Xen => differs(info.xen).then_some(info.xen),
            Self::Off => (differs(info.linux) || differs(info.xen)).then_some(info.default),
        }
    }
}

/// Reads a value against the pool's parameters in `table`; `own` are the keys of the name itself.
fn param(key: &str, text: &str, table: &[ParamInfo], own: &[&'static str]) -> Result<(u32, u64)> {
    let Some(info) = table.iter().find(|p| !p.per_vm && p.is(key)) else {
        let keys = own.iter().copied().chain(table.iter().filter(|p| !p.per_vm).map(|p| p.name)).chain([LIVE]);
        bail!("unknown key `{key}`{}", near::known_are(key, keys));
    };
    Ok((info.key, value(info, text)?))
}

/// Reads parameters of pools as they stand within a policy's parentheses: `tickle=xen,activate=tick`.
///
/// # Errors
/// One line that names the key and its range.
pub fn parameters(text: &str) -> Result<Vec<(u32, u64)>> {
    let table = takt_policy::params();
    let mut all: Vec<(u32, u64)> = Vec::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').with_context(|| format!("`{pair}` is not key=value"))?;
        let param = param(key, value, &table, &[])?;
        if all.iter().any(|&(other, _)| other == param.0) {
            bail!("`{pair}` sets a key a second time");
        }
        all.push(param);
    }
    Ok(all)
}

/// Parameters of a pool in an order in which nothing has changed when one is refused: `reserve`
/// alone may find no room.
#[must_use]
pub fn refusable_first(mut params: Vec<(u32, u64)>) -> Vec<(u32, u64)> {
    params.sort_by_key(|&(key, _)| key != pools::reserve_key());
    params
}

/// Reads the value of a parameter: a duration, a word, or a number, within its range.
///
/// # Errors
/// One line that names the key and its range.
pub fn value(info: &ParamInfo, text: &str) -> Result<u64> {
    let value = match words(info) {
        Some(_) => info.word(text),
        None if info.unit == "ns" => duration::parse(text).ok(),
        None => text.parse().ok(),
    };
    match value {
        Some(v) if (info.min..=info.max).contains(&v) => Ok(v),
        _ => {
            let number = words(info).is_none() && info.unit != "ns" && text.parse::<u64>().is_err();
            let whole = if number { "a whole number " } else { "" };
            bail!("`{}` must be {whole}{} (got `{text}`)", info.name, must_be(info))
        }
    }
}

/// The value that live hosts refuse, and why, for a table.
pub fn unfair(info: &ParamInfo) -> Option<String> {
    info.unfair.map(|(value, why)| format!("live hosts refuse the value \"{}\": {why}", show(info, value)))
}

/// The values a parameter takes, for `takt policies --json`.
pub fn range(info: &ParamInfo) -> String {
    match words(info) {
        Some(words) => words.join("|"),
        None => format!("{}..={}", show(info, info.min), show(info, info.max)),
    }
}

/// The same for people, in a table.
pub fn allowed(info: &ParamInfo) -> String {
    match words(info) {
        Some(words) => words.join("|"),
        None => format!("{} to {}", show(info, info.min), show(info, info.max)),
    }
}

/// The same in an error, behind "must be".
pub fn must_be(info: &ParamInfo) -> String {
    match words(info) {
        Some(words) => format!("one of {}", words.join(", ")),
        None => format!("between {} and {}", show(info, info.min), show(info, info.max)),
    }
}

/// Whether a VM has no value of its own, and goes by its pool's.
pub fn is_unset(info: &ParamInfo, value: u64) -> bool {
    value == 0 && info.default == 0 && info.min > 0
}

/// A value as [`value`] reads it.
pub fn show(info: &ParamInfo, value: u64) -> String {
    match words(info) {
        _ if is_unset(info, value) => "the pool's".into(),
        Some(words) => words.get(value as usize).map_or_else(|| value.to_string(), |w| (*w).to_owned()),
        None if info.unit == "ns" => duration::format(value),
        None => value.to_string(),
    }
}

/// Words that stand for 0, 1, …; the core gives them in place of a unit.
pub(crate) fn words(info: &ParamInfo) -> Option<Vec<&'static str>> {
    info.unit.contains('|').then(|| info.unit.split('|').collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pools::Hold;

    fn refused(text: &str) -> String {
        let error = PolicySpec::parse(text).expect_err(text).to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    }

    fn get(spec: &PolicySpec, name: &str) -> Option<u64> {
        let key = takt_policy::params().iter().find(|p| !p.per_vm && p.name == name).expect(name).key;
        spec.params.iter().find(|(k, _)| *k == key).map(|&(_, v)| v)
    }

    #[test]
    fn plain_names_set_nothing() {
        for name in ["credit", "doris"] {
            let spec = PolicySpec::parse(name).unwrap();
            assert_eq!((spec.name.as_str(), spec.pin, spec.params.len()), (name, false, 0));
        }
        let pin = PolicySpec::parse("pin").unwrap();
        assert_eq!((pin.name.as_str(), pin.pin, pin.label.as_str()), ("credit", true, "pin"));
    }

    #[test]
    fn parameters_have_words_and_units() {
        let spec = PolicySpec::parse("credit( slice=5ms, activate=tick )").unwrap();
        assert_eq!(spec.label, "credit(slice=5ms,activate=tick)");
        assert_eq!((get(&spec, "slice"), get(&spec, "activate")), (Some(5_000_000), Some(0)));
        let spec = PolicySpec::parse("doris(dom0=off,period=10us,eligible=credit)").unwrap();
        assert_eq!(get(&spec, "dom0"), Some(0));
        assert_eq!(get(&spec, "period"), Some(10_000));
        assert_eq!(get(&spec, "eligible"), Some(0));
    }

    #[test]
    fn older_names_are_understood() {
        let new = PolicySpec::parse("rtxen(surplus=redistribute,rt_contention=migrate,reserve=0)").unwrap();
        let old = PolicySpec::parse("rtxen(spare=share,crowd=move,floor=0)").unwrap();
        assert_eq!((&new.params, new.params.len()), (&old.params, 3));
        assert_eq!(old.label, "rtxen(spare=share,crowd=move,floor=0)", "as written");
        assert!(
            refused("credit(spare=discard,surplus=discard)").contains("`surplus=discard` sets a key a second time")
        );
        assert!(refused("credit(spare=all)").contains("`surplus` must be one of discard, redistribute (got `all`)"));
        let known = refused("credit(x=1)");
        assert!(known.contains(" reserve,") && !known.contains(" floor,") && !known.contains("crowd"), "{known}");
    }

    #[test]
    fn a_policy_is_listed_once() {
        let list = |texts: &[&str]| PolicySpec::list(texts.iter().copied());
        assert_eq!(list(&["doris", "doris(dom0=off)", "credit", "pin"]).unwrap().len(), 4);
        for twice in [["doris", "doris"], ["doris", "doris()"], ["doris", "doris( dom0=on )"]] {
            assert!(list(&twice).unwrap_err().to_string().contains("named twice"), "{twice:?}");
        }
        list(&["doris(slice=5ms,period=1ms)", "doris(period=1ms,slice=5ms)"]).unwrap_err();
    }

    #[test]
    fn presets_stand_for_parameters() {
        for (text, name, values) in [
            ("credit-4.2", "credit", &[("weights", 1), ("ratelimit", 1_000_000), ("tickle", 1), ("overflow", 1)][..]),
            ("credit-sampled", "credit", &[("charge", 1)]),
            ("credit-base", "credit", &[("balance", 1)]),
            ("deferrable", "rtxen", &[("server", 0)]),
            ("periodic", "rtxen", &[("server", 1)]),
            ("polling", "rtxen", &[("server", 2)]),
            ("sporadic", "rtxen", &[("server", 3)]),
        ] {
            let spec = PolicySpec::parse(text).unwrap();
            assert_eq!((spec.label.as_str(), spec.name.as_str(), spec.pin), (text, name, false));
            assert_eq!(spec.params.len(), values.len(), "{text}");
            values.iter().for_each(|&(key, value)| assert_eq!(get(&spec, key), Some(value), "{text}: {key}"));
            assert!(known().contains(&text.to_owned()));
        }
        assert_eq!(known().len(), takt_policy::policies().len() + PRESETS.len() + 4);
    }

    #[test]
    fn what_a_guest_gains_by_is_refused_unless_accepted() {
        for (text, culprit) in [
            ("credit(charge=sampled)", "charge=sampled"),
            ("credit(slice=5ms,activate=tick)", "activate=tick"),
            ("AILL", "infinite=on"),
            ("doris(debts=vcpu)", "debts=vcpu"),
        ] {
            let policy = PolicySpec::parse(text).unwrap();
            let line = policy.fair(false).unwrap_err().to_string();
            assert!(line.contains(culprit) && line.contains("--accept-unfair"), "{line}");
            policy.fair(true).unwrap();
        }
        for text in ["doris", "credit(charge=exact)", "laxs(infinite=off)", "poris(slice=5ms)"] {
            PolicySpec::parse(text).unwrap().fair(false).unwrap();
        }
    }

    #[test]
    fn a_live_hosts_parameters_can_be_asked_for() {
        let of = |text: &str| {
            let spec = PolicySpec::parse(text).unwrap();
            ["surplus", "preempted", "rt_contention"].map(|key| get(&spec, key))
        };
        assert_eq!(of("doris"), [None; 3]);
        assert_eq!(of("doris(live=linux)"), [Some(1), Some(1), Some(2)]);
        assert_eq!(of("doris(live=xen)"), [Some(1), Some(1), Some(2)]);
        assert_eq!(of("doris(surplus=discard,live=xen)"), [Some(0), Some(1), Some(2)], "what is given wins");
        let refused = PolicySpec::parse("doris(live=bsd)").unwrap_err();
        assert!(format!("{refused:#}").ends_with("must be one of linux, xen, off (got `bsd`)"), "{refused:#}");
    }

    #[test]
    fn the_published_parameters_can_be_asked_for() {
        let off = PolicySpec::parse("doris(preempted=head,live=off)").unwrap();
        for p in takt_policy::params().iter().filter(|p| !p.per_vm) {
            let changed = (p.linux, p.xen) != (p.default, p.default);
            let want = if p.name == "preempted" { Some(1) } else { changed.then_some(p.default) };
            assert_eq!(get(&off, p.name), want, "{}", p.name);
        }
        let same = |a: &str, b: &str| PolicySpec::parse(a).unwrap().same(&PolicySpec::parse(b).unwrap());
        assert!(same("credit(live=off)", "credit") && same("credit-4.2(live=off)", "credit-4.2"));
        let hold = |text: &str| match PolicySpec::parse(text).unwrap().pools.unwrap().size {
            Size::Managed(settings) => settings.hold,
            Size::Fixed { .. } => panic!("{text}"),
        };
        let holds = ["risa", "risa(live=off)", "risa(live=xen)", "risa(hold=use,live=off)"].map(hold);
        assert_eq!(holds, [None, Some(Hold::Delay), Some(Hold::Use), Some(Hold::Use)]);
    }

    #[test]
    fn what_is_given_to_a_preset_wins() {
        let spec = PolicySpec::parse("credit-4.2( slice=5ms, ratelimit=0 )").unwrap();
        assert_eq!(spec.label, "credit-4.2(slice=5ms,ratelimit=0)", "as written");
        let got = ["weights", "ratelimit", "tickle", "overflow", "slice"].map(|key| get(&spec, key));
        assert_eq!(got, [Some(1), Some(0), Some(1), Some(1), Some(5_000_000)]);
        assert_eq!(spec.params.len(), 5, "each key once");
        assert_eq!(get(&PolicySpec::parse("sporadic(server=polling)").unwrap(), "server"), Some(2));
        assert!(refused("credit-4.2(slice=1ms,slice=2ms)").contains("a second time"));
        assert!(refused("credit-4.2(tickle=two)").contains("must be one of all, one"));
        assert!(refused("credit-4.3").contains("unknown policy `credit-4.3` (did you mean `credit-4.2`?); known: "));
    }

    #[test]
    fn a_preset_is_what_it_means() {
        let same = |a: &str, b: &str| PolicySpec::parse(a).unwrap().same(&PolicySpec::parse(b).unwrap());
        PRESETS.iter().for_each(|p| assert!(same(p.name, p.means), "{}", p.name));
        assert!(same("deferrable", "rtxen") && same("sporadic(server=polling)", "polling"));
        assert!(same("credit-sampled(charge=exact)", "credit") && same("credit(balance=on)", "credit-base()"));
        assert!(!same("credit-4.2", "credit") && !same("credit-4.2(overflow=zero)", "credit-4.2"));
        assert!(!same("periodic", "polling") && !same("pin", "credit"));
        PolicySpec::list(["credit-base", "credit(balance=on)"].into_iter()).unwrap_err();
    }

    #[test]
    fn errors_name_the_culprit_and_what_is_allowed() {
        assert!(refused("fifo").contains("unknown policy `fifo`; known: "));
        assert!(refused("").contains("unknown policy"));
        assert!(refused("doris(slize=1ms)").contains("unknown key `slize` (did you mean `slice`?); known: "));
        assert!(refused("doris(slice=1000s)").contains("`slice` must be between "));
        assert!(refused("doris(slice=-1ms)").contains("slice"));
        assert!(refused("doris(dom0=maybe)").contains("must be one of off, on"));
        assert!(refused("doris(activate=later)").contains("must be one of tick, burn"));
        for text in ["doris(", "doris)", "doris()x", "doris(slice)", "doris(slice=1ms,)", "doris(slice=1ms,slice=2ms)"]
        {
            refused(text);
        }
    }

    #[test]
    fn every_default_lies_in_its_range_and_is_read_back() {
        for info in takt_policy::params() {
            if is_unset(&info, info.default) {
                assert!(info.per_vm, "{}: the pool has no other to go by", info.name);
                continue;
            }
            assert_eq!(value(&info, &show(&info, info.default)).unwrap(), info.default, "{}", info.name);
        }
    }
}
