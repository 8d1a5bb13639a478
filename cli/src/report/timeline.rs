// SPDX-License-Identifier: GPL-2.0-only
//! What ran where and when, for the timeline of a report (drawn by `assets/timeline.js`).

use super::html::{self, escape};
use super::theme;
use crate::stat::distinct;
use serde_json::{Value, json};
use std::fmt::Write;
use takt_control::duration;

/// Policies that are shown until a reader chooses others, if not all are.
const SHOWN: usize = 3;

/// One stay of a VCPU on a PCPU, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub cpu: u32,
    pub from: u64,
    pub to: u64,
    pub vcpu: u32,
    /// Class it was picked in, as in [`takt_policy::Class`].
    pub class: u8,
    /// How long it was ready before.
    pub wait: u64,
}

/// A VCPU's name and the VM it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vcpu {
    pub name: String,
    /// Index into [`Timeline::vms`].
    pub vm: usize,
}

/// One run: a policy with a seed; a recording has none.
pub struct Lane {
    pub policy: String,
    pub seed: Option<u64>,
    pub pcpus: u32,
    pub vcpus: Vec<Vcpu>,
    /// VCPUs whose waits get a row of their own.
    pub watch: Vec<u32>,
    pub runs: Vec<Run>,
}

/// The same span of time of several runs, of which a reader chooses some.
pub struct Timeline {
    pub caption: String,
    /// What was run and is not here.
    pub left_out: Option<String>,
    /// Absolute ns.
    pub from: u64,
    pub to: u64,
    /// Name, and whether to show it in full colour (what the scenario is about) or pale (its
    /// surroundings).
    pub vms: Vec<(String, bool)>,
    pub lanes: Vec<Lane>,
}

impl Timeline {
    pub(super) fn write(&self, h: &mut String) {
        let _ = writeln!(
            h,
            "<style>{}</style>\n<section>\n<h2>What runs where</h2>\n<p>{}</p>",
            self.colours(),
            escape(&self.caption)
        );
        if let Some(left_out) = &self.left_out {
            let _ = writeln!(h, "<p>{}</p>", escape(left_out));
        }
        self.choices(h);
        *h += "<ul class=\"legend\">";
        for (n, (name, _)) in self.vms.iter().enumerate() {
            let _ = write!(h, "<li><i class=\"vm{n}\"></i>{}</li>", escape(name));
        }
        *h += "<li><i class=\"picked\"></i>picked as real-time</li><li><i class=\"waits\"></i>ready, but waiting</li></ul>\n";
        let shown = self.shown();
        let seed = self.lanes.first().map(|l| l.seed);
        for (n, lane) in self.lanes.iter().enumerate() {
            let name = lane.seed.map_or_else(|| lane.policy.clone(), |seed| format!("{}, seed {seed}", lane.policy));
            let hidden = if shown.contains(&lane.policy.as_str()) && Some(lane.seed) == seed { "" } else { " hidden" };
            let _ = write!(
                h,
                "<div class=\"lane\" id=\"run-{n}\"{hidden}><h3>{0}</h3><canvas id=\"lane-{n}\" tabindex=\"0\" role=\"img\" \
                 aria-label=\"PCPUs over time under {0}. The arrow keys move it, plus and minus zoom. The table below has the sums.\"></canvas>\n\
                 <details><summary>What each VM ran and waited</summary>\n",
                escape(&name)
            );
            let head =
                ["VM", "ran", "of the PCPUs' time", "waits that ended", "waited", "longest wait"].map(str::to_owned);
            html::table(
                h,
                &format!("What each VM ran and waited under {name}"),
                &head,
                &self.sums(lane),
                &(1..usize::MAX),
            );
            *h += "</details></div>\n";
        }
        // `<` within JSON can only stand in strings, where it may be escaped.
        let data = self.json().to_string().replace('<', "\\u003c");
        let _ = writeln!(h, "</section>\n<script type=\"application/json\" id=\"timeline-data\">{data}</script>");
    }

    /// Each policy and each seed once, in their order.
    fn runs(&self) -> (Vec<&str>, Vec<u64>) {
        let policies = distinct(self.lanes.iter().map(|lane| lane.policy.as_str()));
        (policies, distinct(self.lanes.iter().filter_map(|lane| lane.seed)))
    }

    /// The policies that a page shows at first: Credit and Doris if both ran, or the first ones.
    fn shown(&self) -> Vec<&str> {
        const MAIN: [&str; 2] = ["credit", "doris"];
        let (policies, _) = self.runs();
        let both = policies.len() > SHOWN && MAIN.iter().all(|p| policies.contains(p));
        if both { MAIN.to_vec() } else { policies.into_iter().take(SHOWN).collect() }
    }

    /// What a reader chooses: policies and a seed, unless it is a recording; what is zoomed in to.
    fn choices(&self, h: &mut String) {
        let (policies, seeds) = self.runs();
        let shown = self.shown();
        if !seeds.is_empty() {
            *h += "<div class=\"bar\"><fieldset id=\"policies\"><legend>Policies</legend>";
            for policy in policies {
                let checked = if shown.contains(&policy) { " checked" } else { "" };
                let policy = escape(policy);
                let _ = write!(h, "<label><input type=\"checkbox\" value=\"{policy}\"{checked}> {policy}</label>");
            }
            *h += "</fieldset>\n<label>Seed <select id=\"seed\">";
            for seed in seeds {
                let _ = write!(h, "<option>{seed}</option>");
            }
            *h += "</select></label></div>\n";
        }
        *h += "<div class=\"bar\"><button id=\"zoom-in\" type=\"button\">Zoom in</button>\
               <button id=\"zoom-out\" type=\"button\">Zoom out</button><button id=\"zoom-all\" type=\"button\">Show all</button>\
               <span>drag to move · double-click or Ctrl + wheel to zoom · arrows, + and − on the keyboard</span></div>\n";
    }

    /// What each VM ran and waited in the span, for readers without the picture. A wait counts once
    /// it has ended.
    fn sums(&self, lane: &Lane) -> Vec<Vec<String>> {
        let length = self.to.saturating_sub(self.from).max(1) * u64::from(lane.pcpus.max(1));
        let row = |(n, (name, _)): (usize, &(String, bool))| {
            let (mut ran, mut waits, mut waited, mut longest) = (0, 0u64, 0, 0);
            for r in lane.runs.iter().filter(|r| lane.vcpus[r.vcpu as usize].vm == n) {
                ran += r.to.min(self.to).saturating_sub(r.from.max(self.from));
                if r.wait > 0 && r.from >= self.from && r.from < self.to {
                    waits += 1;
                    waited += r.wait.min(r.from - self.from);
                    longest = longest.max(r.wait);
                }
            }
            let time = |ns: u64| duration::human(ns as f64);
            let part = format!("{:.1} %", ran as f64 * 100.0 / length as f64);
            vec![name.clone(), time(ran), part, waits.to_string(), time(waited), time(longest)]
        };
        self.vms.iter().enumerate().map(row).collect()
    }

    fn colours(&self) -> String {
        let rule = |dark: usize| -> String {
            (0..self.vms.len()).map(|n| format!(".vm{n}{{background:{}}}", theme::pair(self.colour(n))[dark])).collect()
        };
        format!("{}@media screen and (prefers-color-scheme:dark){{{}}}", rule(0), rule(1))
    }

    /// VMs that the scenario is about get the strongest colours, all batch VMs share greys and
    /// browns.
    fn colour(&self, vm: usize) -> usize {
        const BOLD: [usize; 5] = [1, 0, 3, 4, 6];
        const PALE: [usize; 5] = [11, 7, 10, 8, 9];
        let bold = self.vms[vm].1;
        let nth = self.vms[..vm].iter().filter(|(_, b)| *b == bold).count();
        if bold { BOLD[nth % BOLD.len()] } else { PALE[nth % PALE.len()] }
    }

    fn json(&self) -> Value {
        let vm = |(n, (name, bold)): (usize, &(String, bool))| json!({"name": name, "bold": bold, "colour": theme::pair(self.colour(n))});
        json!({
            "length": self.to.saturating_sub(self.from),
            "vms": self.vms.iter().enumerate().map(vm).collect::<Vec<_>>(),
            "runs": self.lanes.iter().map(|lane| json!({
                "policy": lane.policy,
                "seed": lane.seed.map(|seed| seed.to_string()),
                "vcpus": lane.vcpus.iter().map(|v| json!({"name": v.name, "vm": v.vm})).collect::<Vec<_>>(),
                "watch": lane.watch,
                "rows": (0..lane.pcpus).map(|cpu| self.row(lane, cpu)).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        })
    }

    /// A PCPU's runs as a flat list: distance from the previous end, length, VCPU, class, wait.
    fn row(&self, lane: &Lane, cpu: u32) -> Vec<u64> {
        let mut runs: Vec<_> =
            lane.runs.iter().filter(|r| r.cpu == cpu && r.to > self.from && r.from < self.to).collect();
        runs.sort_by_key(|r| r.from);
        let mut flat = Vec::with_capacity(runs.len() * 5);
        let mut at = self.from;
        for r in runs {
            let (from, to) = (r.from.max(at), r.to.min(self.to));
            flat.extend([from - at, to.saturating_sub(from), r.vcpu.into(), r.class.into(), r.wait]);
            at = to.max(from);
        }
        flat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(policy: &str, seed: u64) -> Lane {
        let run = |cpu, vcpu, from, to, wait| Run { cpu, from, to, vcpu, class: 0, wait };
        Lane {
            policy: policy.into(),
            seed: Some(seed),
            pcpus: 2,
            vcpus: vec![Vcpu { name: "a.0".into(), vm: 0 }, Vcpu { name: "b.0".into(), vm: 1 }],
            watch: vec![0],
            runs: vec![run(0, 0, 900, 1_200, 50), run(0, 1, 1_200, 3_500, 400), run(1, 0, 1_500, 1_600, 10)],
        }
    }

    fn timeline(lanes: Vec<Lane>) -> Timeline {
        let vms = vec![("a".into(), true), ("b".into(), false)];
        Timeline { caption: String::new(), left_out: None, from: 1_000, to: 3_000, vms, lanes }
    }

    #[test]
    fn sums_are_of_the_span_alone() {
        let t = timeline(vec![lane("credit", 1)]);
        // What began before the span has waited before it, too; of the wait of b 200 ns lie in the
        // span.
        assert_eq!(t.sums(&t.lanes[0])[0], ["a", "300ns", "7.5 %", "1", "10ns", "10ns"]);
        assert_eq!(t.sums(&t.lanes[0])[1], ["b", "1.80us", "45.0 %", "1", "200ns", "400ns"]);
    }

    #[test]
    fn every_run_is_there_and_some_are_shown() {
        let policies = ["pin", "credit", "poris", "doris"];
        let t = timeline([1, 7].into_iter().flat_map(|seed| policies.map(|p| lane(p, seed))).collect());
        let mut html = String::new();
        t.write(&mut html);
        assert_eq!(html.matches("<canvas").count(), 8);
        assert_eq!(html.matches("\" hidden>").count(), 6, "Credit and Doris with the first seed are shown");
        assert_eq!(html.matches("<option>").count(), 2);
        assert_eq!((html.matches("checkbox").count(), html.matches(" checked>").count()), (4, 2));
    }
}
