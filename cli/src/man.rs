// SPDX-License-Identifier: GPL-2.0-only
//! `takt man`: the manual page, from the command line's own description.

use crate::{args, output};
use anyhow::Result;
use clap::{Arg, Command};
use takt_control::{metadata, socket};

/// Of a Linux host.
const FILES: [(&str, &str); 3] = [
    ("/etc/takt/takt.toml", "Configuration of takt.service: how Takt runs, parameters of the policy, settings of VMs."),
    (metadata::DIR, "Settings of VMs, NAME.toml or UUID.toml each, which the hooks of libvirt and Proxmox write."),
    (socket::PATH, "Control socket of a running Takt, for root only."),
];

/// What an operator of a Linux host does, in this order.
const EXAMPLES: [(&str, &str); 9] = [
    ("takt doctor", "Check whether Takt can run on this host."),
    ("systemctl enable --now takt", "Start it now and at each boot."),
    ("takt status", "See which VMs are real-time, by which rule, and where each setting comes from."),
    ("takt top", "Watch waits and CPU time of the last seconds."),
    ("takt set pbx weight=512 ports=5004 --save", "Change settings of VM pbx, now and for good."),
    ("takt check /etc/takt/takt.toml --vm pbx", "Check the configuration, and see what it says of VM pbx."),
    ("takt record pbx.log --duration 30s", "Record all decisions for 30 seconds."),
    ("takt replay pbx.log", "Check these decisions, and repeat them."),
    ("apt purge takt", "Uninstall the package; the VMs keep running."),
];

/// Where the package has its documents.
const MORE: &str = "/usr/share/doc/takt/docs/operating.md for operators, linux.md for details, libvirt.md and proxmox.md \
    for hosts with these; /usr/local/share/doc/takt/docs after make install.";

/// Runs the command.
///
/// # Errors
/// stdout cannot be written.
pub fn run() -> Result<bool> {
    output::print(&page(&args::built()))?;
    Ok(true)
}

fn page(takt: &Command) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let about = takt.get_about().map(ToString::to_string).unwrap_or_default();
    let mut out = format!(".TH TAKT 1 \"\" \"takt {version}\" \"User Commands\"\n");
    out += ".SH NAME\ntakt \\- simulate, reproduce and inspect schedulers for soft real\\-time virtual machines\n";
    out += &format!(".SH SYNOPSIS\n.B takt\nCOMMAND [OPTIONS]\n.SH DESCRIPTION\n{}\n.SH OPTIONS\n", text(&about));
    takt.get_arguments().for_each(|arg| out += &option(arg));
    out += ".SH COMMANDS\n";
    commands(takt, &mut out);
    out += ".SH EXIT STATUS\n";
    for (status, what) in args::EXIT {
        out += &format!(".TP\n.B {status}\n{}\n", text(what));
    }
    terms("FILES", &FILES, &mut out);
    terms("EXAMPLES", &EXAMPLES, &mut out);
    out += &format!(".SH SEE ALSO\n{}\n", text(MORE));
    out
}

/// A section of terms, each with what it is.
fn terms(section: &str, all: &[(&str, &str)], out: &mut String) {
    *out += &format!(".SH {section}\n");
    for (term, what) in all {
        *out += &format!(".TP\n.B {}\n{}\n", text(term), text(what));
    }
}

fn commands(above: &Command, out: &mut String) {
    for command in above.get_subcommands().filter(|c| c.get_name() != "help") {
        if command.has_subcommands() {
            commands(command, out);
            continue;
        }
        let usage = command.clone().render_usage().to_string();
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        *out += &format!(".SS {}\n{}\n", text(usage.trim_start_matches("Usage: ")), text(&about));
        command.get_arguments().filter(|a| a.get_id() != "help").for_each(|arg| *out += &option(arg));
    }
}

fn option(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let names: Vec<_> = short.into_iter().chain(arg.get_long().map(|long| format!("--{long}"))).collect();
    let values = arg.get_value_names().unwrap_or_default().iter().map(|name| name.as_str());
    let values = if arg.get_action().takes_values() { values.collect::<Vec<_>>().join(" ") } else { String::new() };
    let head = format!("{} {values}", names.join(", "));
    let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
    format!(".TP\n.B {}\n{}\n", text(head.trim()), text(&about))
}

/// A line that roff takes as it is.
fn text(line: &str) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ").replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_and_option_is_in_the_page() {
        let takt = args::built();
        let page = page(&takt);
        let mut waiting: Vec<&Command> = takt.get_subcommands().filter(|c| c.get_name() != "help").collect();
        let mut seen = 0;
        while let Some(command) = waiting.pop() {
            waiting.extend(command.get_subcommands().filter(|c| c.get_name() != "help"));
            if command.has_subcommands() {
                continue;
            }
            let heading = format!("{} ", text(command.get_name()));
            assert!(
                page.lines().any(|l| l.starts_with(".SS takt ") && format!("{l} ").contains(&heading)),
                "{heading}"
            );
            for long in command.get_arguments().filter_map(Arg::get_long) {
                assert!(page.contains(&text(&format!("--{long}"))), "{heading} --{long}");
            }
            seen += 1;
        }
        assert!(seen > 12, "{seen} commands");
        assert!(page.lines().all(|l| !l.starts_with('\'') && !l.is_empty()), "{page}");
        assert_eq!(text(".a\\b -c"), "\\&.a\\eb \\-c");
    }
}
