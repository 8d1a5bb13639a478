// SPDX-License-Identifier: GPL-2.0-only
//! `takt completions`: what a shell needs to complete the command line, from the command line's own
//! description.

use crate::args::{self, Shell};
use crate::carried::{SCENARIOS, TEMPLATES};
use crate::output;
use anyhow::Result;
use clap::{Arg, Command};
use std::fmt::Write;
use takt_control::spec;

/// A command with what may follow it.
struct Node {
    /// As it is typed: `takt lab linux`.
    path: String,
    /// Names of subcommands or of a first argument, each with what it is.
    names: Vec<(String, String)>,
    /// Whether a file may follow as well.
    files: bool,
    options: Vec<Opt>,
}

struct Opt {
    long: Option<String>,
    short: Option<char>,
    about: String,
    takes_value: bool,
    /// Values to choose from; none where it takes a file or free text.
    values: Vec<String>,
}

impl Opt {
    fn words(&self) -> Vec<String> {
        let long = self.long.iter().map(|long| format!("--{long}"));
        long.chain(self.short.map(|short| format!("-{short}"))).collect()
    }
}

/// Runs the command.
///
/// # Errors
/// stdout cannot be written.
pub fn run(args: &args::Completions) -> Result<bool> {
    let mut all = Vec::new();
    collect(&args::built(), "", &mut all);
    output::print(&match args.shell {
        Shell::Bash => shell(&all, &BASH),
        Shell::Fish => fish(&all),
        Shell::Zsh => shell(&all, &ZSH),
    })?;
    Ok(true)
}

/// The command and all below it.
fn collect(command: &Command, above: &str, all: &mut Vec<Node>) {
    let path = format!("{above}{}", command.get_name());
    let about = |c: &Command| (c.get_name().to_owned(), c.get_about().map(ToString::to_string).unwrap_or_default());
    let mut names: Vec<_> = command.get_subcommands().map(about).collect();
    let positional: Vec<_> = command.get_positionals().collect();
    names.extend(positional.iter().flat_map(|arg| values(arg)).map(|name| (name, String::new())));
    let files = |arg: &&Arg| value_name(arg).is_some_and(|name| ["FILE", "SCENARIO"].contains(&name));
    let options = command.get_opts().chain(command.get_arguments().filter(|a| !a.get_action().takes_values()));
    all.push(Node {
        path: path.clone(),
        names,
        files: positional.iter().any(files),
        options: options.map(opt).collect(),
    });
    for sub in command.get_subcommands().filter(|c| c.get_name() != "help") {
        collect(sub, &format!("{path} "), all);
    }
}

fn opt(arg: &Arg) -> Opt {
    Opt {
        long: arg.get_long().map(str::to_owned),
        short: arg.get_short(),
        about: arg.get_help().map(ToString::to_string).unwrap_or_default(),
        takes_value: arg.get_action().takes_values(),
        values: values(arg),
    }
}

fn value_name(arg: &Arg) -> Option<&str> {
    arg.get_value_names().and_then(|names| names.first()).map(|name| name.as_str())
}

/// Known values of an argument.
fn values(arg: &Arg) -> Vec<String> {
    let possible = arg.get_possible_values();
    if arg.get_action().takes_values() && !possible.is_empty() {
        return possible.iter().map(|value| value.get_name().to_owned()).collect();
    }
    let names = |list: &[(&str, &str)]| list.iter().map(|(name, _)| (*name).to_owned()).collect();
    match value_name(arg) {
        Some("SCENARIO") => names(SCENARIOS),
        Some("KIND") => names(TEMPLATES),
        Some("P") => spec::known(),
        _ => Vec::new(),
    }
}

/// All commands but the first, for a pattern of `case`.
fn paths(all: &[Node]) -> String {
    all.iter().skip(1).map(|node| format!("'{}'", node.path)).collect::<Vec<_>>().join("|")
}

/// Patterns of options that take a value, each with the values.
fn valued(all: &[Node]) -> Vec<(String, String)> {
    let of = |node: &Node| {
        let one = |opt: &Opt| {
            let words = opt.words();
            let patterns: Vec<_> = words.iter().map(|word| format!("'{} {word}'", node.path)).collect();
            (patterns.join("|"), opt.values.join(" "))
        };
        node.options.iter().filter(|opt| opt.takes_value).map(one).collect::<Vec<_>>()
    };
    all.iter().flat_map(of).collect()
}

fn options(node: &Node) -> String {
    node.options.iter().flat_map(Opt::words).collect::<Vec<_>>().join(" ")
}

fn names(node: &Node) -> String {
    node.names.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
}

/// What bash and zsh have in common: the words before the one that is typed say which command it
/// belongs to; then an option's values, or the options and names of that command.
struct Like {
    head: &'static str,
    /// The word that is typed, the one before, and all before.
    typed: [&'static str; 3],
    /// What follows an option that takes one of these values.
    value: fn(values: &str) -> String,
    /// What a command offers: options, names, and whether a file.
    offer: fn(options: &str, names: &str, files: bool) -> String,
    tail: &'static str,
}

const BASH: Like = Like {
    head: "_takt() {\n    local words=",
    typed: ["${COMP_WORDS[COMP_CWORD]}", "${COMP_WORDS[COMP_CWORD-1]}", "${COMP_WORDS[@]:1:COMP_CWORD-1}"],
    value: |values| format!("COMPREPLY=($(compgen -W '{values}' -- \"$cur\"))"),
    offer: |options, names, _| format!("[[ $cur == -* ]] && words='{options}' || words='{names}'"),
    // What is no name is a file.
    tail: "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -o bashdefault -o default -F _takt takt\n",
};

const ZSH: Like = Like {
    head: "#compdef takt\n_takt() {",
    typed: ["${words[CURRENT]}", "${words[CURRENT-1]}", "${(@)words[2,CURRENT-1]}"],
    value: |values| if values.is_empty() { "_files".into() } else { format!("compadd -- {values}") },
    offer: |options, names, files| {
        let files = if files { "; _files" } else { "" };
        format!("if [[ $cur == -* ]]; then compadd -- {options}; else compadd -- {names}{files}; fi")
    },
    tail: "}\nif [[ $funcstack[1] == _takt ]]; then _takt \"$@\"; else compdef _takt takt; fi\n",
};

fn shell(all: &[Node], like: &Like) -> String {
    let [cur, prev, before] = like.typed;
    let mut out = format!(
        "{}\n    local cur={cur} prev={prev} at=takt word\n    for word in \"{before}\"; do\n        \
         case \"$at $word\" in\n            {}) at=\"$at $word\" ;;\n        esac\n    done\n    \
         case \"$at $prev\" in\n",
        like.head,
        paths(all)
    );
    for (pattern, values) in valued(all) {
        let _ = writeln!(out, "        {pattern}) {}; return ;;", (like.value)(&values));
    }
    out += "    esac\n    case \"$at\" in\n";
    for node in all {
        let offer = (like.offer)(&options(node), &names(node), node.files);
        let _ = writeln!(out, "        '{}') {offer} ;;", node.path);
    }
    out + "    esac\n" + like.tail
}

fn fish(all: &[Node]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let mut out = format!(
        "function __takt_at\n    set -l at takt\n    for word in (commandline -opc)[2..-1]\n        \
         switch \"$at $word\"\n            case {}\n                set at \"$at $word\"\n        end\n    end\n    \
         test \"$at\" = \"$argv\"\nend\n",
        paths(all).replace('|', " ")
    );
    for node in all {
        let here = format!("complete -c takt -n {}", quoted(&format!("__takt_at {}", node.path)));
        if !node.files {
            let _ = writeln!(out, "{here} -f");
        }
        for (name, about) in &node.names {
            let _ = writeln!(out, "{here} -a {} -d {}", quoted(name), quoted(about));
        }
        for opt in &node.options {
            let long = opt.long.iter().map(|long| format!(" -l {long}"));
            let words: String = long.chain(opt.short.map(|short| format!(" -s {short}"))).collect();
            let value = match (opt.takes_value, opt.values.is_empty()) {
                (false, _) => String::new(),
                (true, true) => " -r -F".into(),
                (true, false) => format!(" -x -a {}", quoted(&opt.values.join(" "))),
            };
            let _ = writeln!(out, "{here}{words}{value} -d {}", quoted(&opt.about));
        }
    }
    out
}
