// SPDX-License-Identifier: GPL-2.0-only
//! An analysis as text.

use super::latency::Poris;
use super::{Analysis, Bound, KINDS, Kinds, Vcpu, name};
use crate::table;
use takt_control::duration::format;

pub fn text(a: &Analysis) -> String {
    let latencies = a.poris.iter().map(poris).collect::<Vec<_>>().join("\n");
    match (a.vcpus.is_empty(), a.poris.is_empty()) {
        (true, false) => latencies,
        (false, false) => servers(a) + "\n" + &latencies,
        (_, true) => servers(a),
    }
}

fn poris(p: &Poris) -> String {
    let about = format!(
        "Poris on machine {}: {} VCPUs on {} PCPUs, {} per PCPU; slice {}, longest wait {}",
        p.machine,
        p.vcpus,
        p.pcpus,
        p.vcpus_per_pcpu,
        format(p.slice_ns),
        format(p.wait_ns)
    );
    let verdict = |slack: i64| match slack {
        0.. => "holds".into(),
        late => format!("{} late", format(late.unsigned_abs())),
    };
    let rows: Vec<_> =
        p.vms.iter().map(|vm| vec![vm.vm.clone(), format(vm.latency_ns), verdict(vm.slack_ns)]).collect();
    let mut out = table::render(&about, &["VM", "latency", ""], &rows, 1..) + "\n";
    let group = |g: &super::latency::Group| {
        let once = if g.fits { "yes".into() } else { format!("{} too many", g.too_many) };
        let mut row = vec![g.name.clone()];
        row.extend([g.vms, g.vcpus].map(|n| n.to_string()));
        row.extend([once, g.subgroups.to_string(), g.rounds.to_string()]);
        row.extend([g.lag_credit_ns, g.lag_alone_ns, g.lag_group_ns, g.lag_rounds_ns].map(format));
        row
    };
    let rows: Vec<_> = p.groups.iter().map(group).collect();
    let head = [
        "group",
        "VMs",
        "VCPUs",
        "all at once",
        "subgroups",
        "rounds",
        "Credit",
        "slice alone",
        "groups",
        "with rounds",
    ];
    out += &table::render("Groups, and the longest lag between the starts of their VCPUs", &head, &rows, 1..);
    out
}

fn servers(a: &Analysis) -> String {
    let mut out = String::new();
    let rows: Vec<_> = a.vcpus.iter().flat_map(task_rows).collect();
    if !rows.is_empty() {
        let head = ["VM", "task", "deadline", "deferrable", "", "periodic", ""];
        out += &(table::render("Worst-case response time of each task", &head, &rows, 2..) + "\n");
    }
    let head = ["VM", "PCPU", "budget", "period", "priority", "deferrable", "periodic"];
    let servers: Vec<_> = a.vcpus.iter().map(server_row).collect();
    out += &(table::render("Servers", &head, &servers, 1..) + "\n");
    let head = ["pool", "VCPUs", "utilization", "PCPUs", "PCPUs for global EDF"];
    let pools: Vec<_> = a
        .pools
        .iter()
        .map(|p| {
            let gfb = p.pcpus_gfb.map_or("no bound".into(), |m| m.to_string());
            vec![p.name.clone(), p.vcpus.to_string(), format!("{:.3}", p.share), p.pcpus.to_string(), gfb]
        })
        .collect();
    out += &(table::render("Pools", &head, &pools, 1..) + "\n");
    for kind in KINDS {
        let names = a.does_not_fit.get(kind);
        let verdict =
            if names.is_empty() { "every VM fits".into() } else { format!("{} do not fit", names.join(", ")) };
        out += &format!("{} servers: {verdict}\n", name(kind));
    }
    for admission in &a.admission {
        let verdict = admission.refusal.as_deref().unwrap_or("has room for every budget");
        out += &format!("{}: {verdict}\n", admission.policy);
    }
    if !a.without_budget.is_empty() {
        out += &format!("no budget, so their tasks are not analyzed: {}\n", a.without_budget.join(", "));
    }
    out
}

fn vm(v: &Vcpu) -> String {
    if v.vcpu == 0 { v.vm.clone() } else { format!("{}.{}", v.vm, v.vcpu) }
}

fn task_rows(v: &Vcpu) -> Vec<Vec<String>> {
    let cells = |t: &super::Task| {
        let mut row = vec![vm(v), format!("{}/{}", format(t.cost_ns), format(t.period_ns)), format(t.period_ns)];
        for kind in KINDS {
            let bound = t.response.get(kind);
            row.push(bound.response_ns.map_or("unbounded".into(), format));
            row.push(fit(bound));
        }
        row
    };
    v.tasks.iter().map(cells).collect()
}

fn fit(bound: &Bound) -> String {
    match bound.slack_ns {
        _ if bound.fits => "fits".into(),
        Some(slack) => format!("{} late", format(slack.unsigned_abs())),
        None => "does not fit".into(),
    }
}

fn server_row(v: &Vcpu) -> Vec<String> {
    let verdict = |fits: bool, guaranteed: bool| match (v.pcpu, fits, guaranteed) {
        (None, ..) => "no room",
        (_, false, _) => "does not fit",
        (_, true, true) => "fits",
        // The analysis presumes the budget.
        (_, true, false) => "fits, if it gets its budget",
    };
    let Kinds { deferrable, periodic } = v.fits;
    vec![
        vm(v),
        v.pcpu.map_or("-".into(), |c| c.to_string()),
        format(v.budget_ns),
        format(v.period_ns),
        v.priority.to_string(),
        verdict(deferrable, v.guaranteed.deferrable).into(),
        verdict(periodic, v.guaranteed.periodic).into(),
    ]
}
