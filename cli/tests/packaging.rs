// SPDX-License-Identifier: GPL-2.0-only
//! `make install`, `make uninstall` and `make deb`: what they put where, and that nothing stays.
#![cfg(feature = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs a script of the project with these variables.
fn script(name: &str, variables: &[(&str, &Path)]) -> Output {
    let mut script = Command::new(root().join("scripts").join(name));
    script.current_dir(root()).env("TAKT", env!("CARGO_BIN_EXE_takt")).env_remove("DESTDIR");
    script.envs(variables.iter().copied()).output().expect(name)
}

fn done(out: &Output) -> String {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let paths = entries.map(|e| e.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn has(program: &str) -> bool {
    let there =
        Command::new("sh").args(["-c", &format!("command -v {program}")]).output().is_ok_and(|o| o.status.success());
    if !there {
        takt_bpf_build::skip("packaging", format!("{program} is not installed"));
    }
    there
}

#[test]
fn what_is_installed_can_be_removed() {
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &str| dir.path().join(path);
    let (prefix, etc) = (at("usr"), at("etc"));
    let variables: [(&str, &Path); 2] = [("PREFIX", &prefix), ("SYSCONFDIR", &etc)];
    done(&script("install.sh", &variables));
    for file in [
        "usr/bin/takt",
        "usr/share/man/man1/takt.1.gz",
        "usr/share/bash-completion/completions/takt",
        "usr/share/zsh/vendor-completions/_takt",
        "usr/share/fish/vendor_completions.d/takt.fish",
        "usr/share/doc/takt/docs/operating.md",
        "usr/lib/systemd/system/takt.service",
        "usr/share/takt/hooks/libvirt",
        "usr/share/takt/hooks/proxmox",
        "usr/share/takt/prometheus/takt.rules.yml",
        "usr/share/takt/prometheus/takt.dashboard.json",
        "etc/takt/takt.toml",
    ] {
        assert!(at(file).metadata().is_ok_and(|m| m.len() > 0), "{file}");
    }
    let unit = std::fs::read_to_string(at("usr/lib/systemd/system/takt.service")).unwrap();
    let start = format!("ExecStart={}/bin/takt run --config {}/takt/takt.toml", prefix.display(), etc.display());
    assert!(unit.contains(&start) && !unit.contains('@'), "{unit}");
    if has("systemd-analyze") {
        let unit = at("usr/lib/systemd/system/takt.service");
        let out = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output().unwrap();
        // It also complains about units of this system.
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        let ours: Vec<_> = said.lines().filter(|line| line.contains("takt")).collect();
        assert!(ours.is_empty(), "{ours:?}");
    }

    // Again, over a configuration that was changed: it stays, then and when all else goes.
    std::fs::write(at("etc/takt/takt.toml"), "[vm.web]\nweight = 7\n").unwrap();
    assert!(done(&script("install.sh", &variables)).contains("was changed and stays"));
    let remove = [variables[0], variables[1], ("UNINSTALL", Path::new("1"))];
    assert!(done(&script("install.sh", &remove)).contains("was changed and stays"));
    assert_eq!(files(dir.path()), [at("etc/takt/takt.toml")]);
    std::fs::remove_file(at("etc/takt/takt.toml")).unwrap();
    done(&script("install.sh", &variables));
    done(&script("install.sh", &remove));
    assert!(files(dir.path()).is_empty(), "{:?}", files(dir.path()));
}

#[test]
fn what_cannot_be_installed_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut relative = Command::new(root().join("scripts/install.sh"));
    let out = relative.current_dir(root()).env("PREFIX", "usr").env("DESTDIR", dir.path()).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&out.stderr), "install: `usr` must be an absolute path\n");
    let mut other = Command::new(root().join("scripts/install.sh"));
    let out = other.current_dir(root()).env("TAKT", "/bin/true").env("DESTDIR", dir.path()).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("/bin/true is missing or has no Linux host"));
    assert!(files(dir.path()).is_empty());
}

/// As it is, and with all its examples.
#[test]
fn the_configuration_that_comes_along_is_valid() {
    let text = std::fs::read_to_string(root().join("packaging/takt.toml")).unwrap();
    let example = |line: &str| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line).to_owned();
    let all: String = text.lines().map(|line| example(line) + "\n").collect();
    assert_ne!(all, text);
    let dir = tempfile::tempdir().unwrap();
    for (name, text, want) in
        [("a.toml", text, "policy doris, 0 VMs"), ("b.toml", all, "policy doris(slice=30ms), 2 VMs")]
    {
        std::fs::write(dir.path().join(name), text).unwrap();
        let mut takt = Command::new(env!("CARGO_BIN_EXE_takt"));
        let said = done(&takt.current_dir(dir.path()).args(["check", name]).output().unwrap());
        assert!(said.starts_with(&format!("{name}: ok: {want}")), "{said}");
    }
}

#[test]
#[ignore = "needs lintian, and a program as it is released"]
fn lintian_finds_nothing() {
    let program = root().join("target/release/takt");
    if !has("lintian") || !program.exists() {
        takt_bpf_build::skip("lintian", format!("lintian, or {}, is not there", program.display()));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let package = done(&script("deb.sh", &[("OUT", dir.path()), ("TAKT", &program)]));
    let mut lintian = Command::new("lintian");
    let out = lintian.args(["--fail-on", "error,warning", "--allow-root", &package]).output().unwrap();
    let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    assert!(out.status.success() && !said.contains("takt: "), "{said}");
}

#[test]
fn the_package_has_what_an_operator_needs() {
    if !has("dpkg-deb") || !has("strip") {
        return;
    }
    // The year 2100: as where the clock is behind the last commit.
    let fixed = [("LEVEL", Path::new("0")), ("SOURCE_DATE_EPOCH", Path::new("4102444800"))];
    let build = |out: &Path| done(&script("deb.sh", &[("OUT", out), fixed[0], fixed[1]]));
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let package = PathBuf::from(build(first.path()));
    let again = PathBuf::from(build(second.path()));
    let name = format!("takt_{}_amd64.deb", env!("CARGO_PKG_VERSION"));
    assert_eq!(package.file_name().unwrap().to_str(), Some(name.as_str()));
    let of = |how: &str, package: &Path| done(&Command::new("dpkg-deb").arg(how).arg(package).output().unwrap());
    let (about, listed) = (of("--info", &package), of("--contents", &package));
    // What differs is named before the bytes are compared.
    assert_eq!((&about, &listed), (&of("--info", &again), &of("--contents", &again)));
    assert!(std::fs::read(&package).unwrap() == std::fs::read(again).unwrap(), "equal input, other bytes");
    for line in
        ["Package: takt", "Depends: ", "libelf1", "zlib1g", "libc6 (>= ", "postinst", "prerm", "postrm", "conffiles"]
    {
        assert!(about.contains(line), "{line}: {about}");
    }
    for file in [
        "./usr/bin/takt",
        "./usr/lib/systemd/system/takt.service",
        "./etc/takt/takt.toml",
        "./usr/share/doc/takt/copyright",
        "./usr/share/doc/takt/changelog.gz",
        "./usr/share/doc/takt/CHANGELOG.md",
        "./usr/share/man/man1/takt.1.gz",
        "./usr/share/lintian/overrides/takt",
    ] {
        assert!(listed.lines().any(|line| line.ends_with(file) && line.contains("root/root")), "{file}: {listed}");
    }
    for script in ["postinst", "prerm", "postrm"] {
        let out = Command::new("sh").arg("-n").arg(root().join("packaging/deb").join(script)).output().unwrap();
        assert!(out.status.success(), "{script}");
    }
}
