// SPDX-License-Identifier: GPL-2.0-only
//! The screen of `takt top`: a table of VMs, or one VM. Nothing on it needs colour to be read.

use super::figures::{Figures, Vm, Waited};
use crate::output::shown;
use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};
use takt_control::duration;
use takt_linux::status::VcpuStatus;

const KEYS: &str = "up/down: choose   Enter: this VM   Esc: all VMs   q: quit";
/// Most lines that say what runs where, but for one that counts the rest.
const MAP_LINES: usize = 4;
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
/// Something that waited too long.
const LATE: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// What is chosen.
#[derive(Default)]
pub struct View {
    /// Name of the VM.
    chosen: Option<String>,
    /// Only that VM is shown.
    alone: bool,
}

impl View {
    /// Follows a key; false if it asks for the end.
    pub fn key(&mut self, key: KeyCode, figures: &Figures<'_>) -> bool {
        match key {
            KeyCode::Char('q') => return false,
            KeyCode::Esc => self.alone = false,
            KeyCode::Enter => {
                if self.at(figures).is_none() {
                    self.go(figures, |_| 0);
                }
                self.alone = self.chosen.is_some();
            }
            KeyCode::Down | KeyCode::Char('j') => self.go(figures, |at| at.map_or(0, |at| at + 1)),
            KeyCode::Up | KeyCode::Char('k') => self.go(figures, |at| at.map_or(0, |at| at.saturating_sub(1))),
            _ => {}
        }
        true
    }

    fn go(&mut self, figures: &Figures<'_>, next: impl Fn(Option<usize>) -> usize) {
        let last = figures.vms.len().saturating_sub(1);
        let at = next(self.at(figures)).min(last);
        self.chosen = figures.vms.get(at).map(|vm| vm.status.name.clone());
    }

    fn at(&self, figures: &Figures<'_>) -> Option<usize> {
        figures.vms.iter().position(|vm| self.chosen.as_ref() == Some(&vm.status.name))
    }

    pub fn draw(&self, frame: &mut Frame<'_>, figures: &Figures<'_>) {
        let map = map(figures, frame.area().width.into());
        let parts =
            [Constraint::Length(2), Constraint::Length(map.len() as u16), Constraint::Min(0), Constraint::Length(1)];
        let [head, pcpus, rest, keys] = Layout::vertical(parts).areas(frame.area());
        frame.render_widget(Paragraph::new(self::head(figures)), head);
        frame.render_widget(Paragraph::new(map), pcpus);
        let at = self.at(figures);
        match at.filter(|_| self.alone).and_then(|at| figures.vms.get(at)) {
            Some(vm) => one(frame, rest, vm),
            None => all(frame, rest, figures, at),
        }
        frame.render_widget(Paragraph::new(KEYS), keys);
    }
}

fn us(us: f64) -> String {
    duration::human(us * 1e3)
}

/// Median and 99th percentile, if there was a wait.
fn percentiles(w: &Waited) -> [String; 2] {
    [w.p50_us, w.p99_us].map(|time| if w.count == 0 { "-".into() } else { us(time) })
}

fn head(figures: &Figures<'_>) -> Vec<Line<'static>> {
    let h = figures.host;
    let first = format!(
        "{} on Linux {} for {}: {} PCPUs, {} VMs, {} of them real-time",
        h.policy,
        h.kernel,
        duration::human(h.uptime_s * 1e9),
        h.pcpus.len(),
        figures.vms.len(),
        h.real_time_vms
    );
    let [p50, p99] = percentiles(&figures.host_waits);
    let host = format!("host threads: waits p50 {p50}, p99 {p99}");
    vec![Line::styled(first, BOLD), Line::raw(host)]
}

/// What runs where, in lines of so many columns; what does not fit is counted.
fn map(figures: &Figures<'_>, wide: usize) -> Vec<Line<'static>> {
    let mut lines = vec!["PCPUs".to_owned()];
    let mut left = figures.running.len();
    for (cpu, name) in &figures.running {
        let one = format!("  {cpu}: {}", name.as_deref().map_or_else(|| "-".into(), shown));
        let last = lines.last_mut().expect("the first line");
        if last.chars().count() + one.chars().count() <= wide {
            *last += &one;
        } else if lines.len() < MAP_LINES {
            lines.push(format!("     {one}"));
        } else {
            lines.push(format!("       and {left} more"));
            break;
        }
        left -= 1;
    }
    lines.into_iter().map(Line::raw).collect()
}

fn all(frame: &mut Frame<'_>, area: Rect, figures: &Figures<'_>, at: Option<usize>) {
    let head = ["VM", "rt", "why", "period", "p50", "p99", "late", "CPU", "steal", "io", "prom/s", "ref/s"];
    let widths = [0, 3, 7, 7, 7, 7, 5, 5, 5, 3, 6, 5].map(|n| match n {
        0 => Constraint::Min(9),
        n => Constraint::Length(n),
    });
    let row = |vm: &Vm<'_>| {
        let s = vm.status;
        let late = if vm.waits.late > 0 && s.rt { LATE } else { Style::new() };
        let [p50, p99] = percentiles(&vm.waits);
        let why = match (&s.rule, &s.blind) {
            (Some(rule), _) => rule.clone(),
            (None, Some(_)) => "blind".into(),
            (None, None) => "-".into(),
        };
        Row::new([
            Cell::new(shown(&s.name)),
            Cell::new(if s.rt { "yes" } else { "no" }),
            Cell::new(why),
            Cell::new(s.period_us.map_or_else(|| "-".into(), us)),
            Cell::new(p50),
            Cell::new(p99).style(late),
            Cell::new(vm.waits.late.to_string()).style(late),
            Cell::new(format!("{:.2}", vm.ran)),
            Cell::new(format!("{:.2}", vm.steal)),
            Cell::new(s.io.len().to_string()),
            Cell::new(format!("{:.0}", vm.promoted)),
            Cell::new(format!("{:.0}", vm.refused)),
        ])
    };
    let table =
        Table::new(figures.vms.iter().map(row), widths).header(Row::new(head).style(BOLD)).row_highlight_style(CHOSEN);
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(at));
}

/// A VM with its settings and threads.
fn one(frame: &mut Frame<'_>, area: Rect, vm: &Vm<'_>) {
    let s = vm.status;
    let why = match (&s.rule, s.rt) {
        (Some(rule), true) => format!("real-time ({rule})"),
        _ => "not real-time".into(),
    };
    let time = |us: Option<f64>| us.map_or_else(|| "-".into(), self::us);
    let devices: Vec<_> = s.devices.iter().map(|d| shown(&format!("{} ({})", d.name, d.kind))).collect();
    let settings: Vec<_> = s.set_by.iter().map(|(key, by)| shown(&format!("{key} by {by}"))).collect();
    let or_dash = |list: &[String]| if list.is_empty() { "-".to_owned() } else { list.join(", ") };
    let [p50, p99] = percentiles(&vm.waits);
    let cap = if s.params.cap() == 0 { "none".into() } else { format!("{} %", s.params.cap()) };
    let mut text = vec![
        Line::styled(
            format!("{}: {why}, period {}, lease {}", shown(&s.name), time(s.period_us), time(s.lease_us)),
            BOLD,
        ),
        Line::raw(format!(
            "last seconds: {} waits, p50 {p50}, p99 {p99}, {} late; {:.2} PCPUs, {:.2} waited for",
            vm.waits.count, vm.waits.late, vm.ran, vm.steal
        )),
        Line::raw(format!("weight {}, cap {cap}; set: {}", s.params.weight(), or_dash(&settings))),
        Line::raw(format!("devices: {}", or_dash(&devices))),
    ];
    text.extend(s.blind.as_ref().map(|why| Line::raw(format!("its packets are not seen: {}", shown(why)))));
    let height = text.len() as u16;
    let [top, rest] = Layout::vertical([Constraint::Length(height + 1), Constraint::Min(0)]).areas(area);
    frame.render_widget(Paragraph::new(text), top);
    let head = ["thread", "PCPU", "state", "class", "credit", "entries", "mean wait", "longest"];
    let row = |part: String, v: &VcpuStatus| {
        let waits = || v.waits.values();
        let count: u64 = waits().map(|w| w.count).sum();
        let sum: f64 = waits().map(|w| w.mean_us * w.count as f64).sum();
        let longest = waits().map(|w| w.max_us).fold(0.0, f64::max);
        Row::new([
            part,
            v.pcpu.to_string(),
            v.state.clone(),
            v.class.clone(),
            v.credit.to_string(),
            count.to_string(),
            us(if count == 0 { 0.0 } else { sum / count as f64 }),
            us(longest),
        ])
    };
    let vcpus = s.vcpus.iter().map(|v| row(format!("VCPU {}", v.id), v));
    let rows = vcpus.chain(s.io.iter().map(|v| row(format!("I/O {}", v.tid), v)));
    let widths = [12, 4, 12, 6, 6, 9, 9, 9].map(Constraint::Length);
    frame.render_widget(Table::new(rows, widths).header(Row::new(head).style(BOLD)), rest);
}

#[cfg(test)]
mod tests;
