// SPDX-License-Identifier: GPL-2.0-only
//! Who ran where and when, for the timeline of a report (drawn by `assets/timeline.js`).

use super::html::escape;
use super::theme;
use serde_json::{Value, json};
use std::fmt::Write;

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

/// One policy's part.
pub struct Lane {
    pub label: String,
    pub pcpus: u32,
    pub vcpus: Vec<Vcpu>,
    /// VCPUs whose waits get a row of their own.
    pub watch: Vec<u32>,
    pub runs: Vec<Run>,
}

/// The same span of time under several policies.
pub struct Timeline {
    pub caption: String,
    /// Absolute ns.
    pub from: u64,
    pub to: u64,
    /// Name, and whether to show it in full colour (what the scenario is about) or pale (its surroundings).
    pub vms: Vec<(String, bool)>,
    pub lanes: Vec<Lane>,
}

impl Timeline {
    pub(super) fn write(&self, h: &mut String) {
        let _ = writeln!(
            h,
            "<style>{}</style>\n<section>\n<h2>Who runs where</h2>\n<p>{}</p>\n\
             <div class=\"bar\"><button id=\"zoom-in\" type=\"button\">Zoom in</button>\
             <button id=\"zoom-out\" type=\"button\">Zoom out</button><button id=\"zoom-all\" type=\"button\">Show all</button>\
             <span>drag to move · double-click or Ctrl + wheel to zoom · arrows, + and − on the keyboard</span></div>\n\
             <ul class=\"legend\">",
            self.colours(),
            escape(&self.caption)
        );
        for (n, (name, _)) in self.vms.iter().enumerate() {
            let _ = write!(h, "<li><i class=\"vm{n}\"></i>{}</li>", escape(name));
        }
        *h += "<li><i style=\"background:var(--ink);height:.3rem;vertical-align:.2rem\"></i>picked as real-time</li>\
               <li><i style=\"background:var(--bad)\"></i>ready, but waiting</li></ul>\n";
        for (n, lane) in self.lanes.iter().enumerate() {
            let label = escape(&lane.label);
            let _ = writeln!(
                h,
                "<div class=\"lane\"><h3>{label}</h3><canvas id=\"lane-{n}\" tabindex=\"0\" role=\"img\" \
                 aria-label=\"PCPUs over time under {label}\"></canvas></div>"
            );
        }
        // `<` within JSON can only stand in strings, where it may be escaped.
        let data = self.json().to_string().replace('<', "\\u003c");
        let _ = writeln!(h, "</section>\n<script type=\"application/json\" id=\"timeline-data\">{data}</script>");
    }

    fn colours(&self) -> String {
        let rule = |dark: usize| -> String {
            (0..self.vms.len()).map(|n| format!(".vm{n}{{background:{}}}", theme::pair(self.colour(n))[dark])).collect()
        };
        format!("{}@media(prefers-color-scheme:dark){{{}}}", rule(0), rule(1))
    }

    /// VMs that the scenario is about get the strongest colours, all batch VMs share greys and browns.
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
            "length": self.to - self.from,
            "vms": self.vms.iter().enumerate().map(vm).collect::<Vec<_>>(),
            "policies": self.lanes.iter().enumerate().map(|(n, lane)| json!({
                "canvas": format!("lane-{n}"),
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
