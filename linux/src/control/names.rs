// SPDX-License-Identifier: GPL-2.0-only
//! Which processes run VMs, what each VM is called, as its VMM was told on its command line, and to which user it belongs.

use std::path::{Path, PathBuf};

/// Most characters of a name.
const LONGEST: usize = 64;

/// What a directory has; nothing if it is gone.
pub fn entries(dir: PathBuf) -> impl Iterator<Item = std::fs::DirEntry> {
    std::fs::read_dir(dir).into_iter().flatten().flatten()
}

/// The directories below `proc` of processes that hold a VCPU of KVM.
pub fn vmms(proc: &Path) -> Vec<PathBuf> {
    let holds_vcpu = |process: &PathBuf| {
        let target = |e: std::fs::DirEntry| std::fs::read_link(e.path()).ok();
        entries(process.join("fd")).filter_map(target).any(|t| t.to_string_lossy().starts_with("anon_inode:kvm-vcpu"))
    };
    let numbered = |e: &std::fs::DirEntry| e.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let mut all: Vec<_> = entries(proc.to_owned()).filter(numbered).map(|e| e.path()).filter(holds_vcpu).collect();
    all.sort();
    all
}

/// The name of the VM that process `tgid` runs; `root` is `/`, or a tree of a test's.
pub fn name_of(root: &Path, tgid: u32) -> String {
    let comm = String::from_utf8_lossy(&read(root, tgid, "comm")).trim().to_owned();
    name(&read(root, tgid, "cmdline"), &comm, tgid)
}

/// The UUID of the VM of process `tgid`, as its VMM was told, in small letters: QEMU by `-uuid` (libvirt) or by
/// `-smbios type=1,uuid=…` (Proxmox).
pub fn uuid(root: &Path, tgid: u32) -> Option<String> {
    let line = String::from_utf8_lossy(&read(root, tgid, "cmdline")).into_owned();
    let arguments: Vec<&str> = line.split('\0').collect();
    let after = |name: &'static str| {
        // With one dash or two.
        let is = move |pair: &&[&str]| pair[0].trim_start_matches('-') == name && pair[0].starts_with('-');
        arguments.windows(2).filter(is).map(|pair| pair[1])
    };
    let of_smbios = |value: &str| {
        let first = value.split(',').next() == Some("type=1");
        value.split(',').find_map(|part| part.strip_prefix("uuid=")).filter(|_| first).map(str::to_owned)
    };
    let own = after("uuid").next().map(str::to_owned);
    let found = own.or_else(|| after("smbios").find_map(of_smbios));
    found.filter(|uuid| !uuid.is_empty()).map(|uuid| uuid.to_ascii_lowercase())
}

/// The cgroup (version 2) that it is in, as `/proc` writes it.
pub fn cgroup(root: &Path, tgid: u32) -> Option<String> {
    let text = String::from_utf8_lossy(&read(root, tgid, "cgroup")).into_owned();
    text.lines().find_map(|l| l.strip_prefix("0::")).map(str::to_owned)
}

/// The number of the user whose process it is (the real one).
pub fn uid(root: &Path, tgid: u32) -> Option<u32> {
    let text = String::from_utf8_lossy(&read(root, tgid, "status")).into_owned();
    let numbers = text.lines().find_map(|l| l.strip_prefix("Uid:"))?;
    numbers.split_whitespace().next()?.parse().ok()
}

/// The same where another VM has that name already.
pub fn other(name: &str, tgid: u32) -> String {
    format!("{name}-{tgid}")
}

/// Whether process `tgid` has not exited: the kernel takes its VM's threads out some time after that.
pub fn lives(root: &Path, tgid: u32) -> bool {
    !read(root, tgid, "cmdline").is_empty()
}

fn read(root: &Path, tgid: u32, file: &str) -> Vec<u8> {
    std::fs::read(root.join(format!("proc/{tgid}/{file}"))).unwrap_or_default()
}

/// By command line (arguments that end by 0): QEMU and libvirt `-name`, Firecracker and its jailer `--id`, Cloud
/// Hypervisor `--api-socket`; else the program and its process.
fn name(cmdline: &[u8], comm: &str, tgid: u32) -> String {
    let line = String::from_utf8_lossy(cmdline);
    let arguments: Vec<&str> = line.split('\0').collect();
    let option = |names: &[&str]| {
        arguments.iter().enumerate().skip(1).find_map(|(i, a)| {
            let (key, value) = a.split_once('=').map_or((*a, None), |(k, v)| (k, Some(v)));
            names.contains(&key).then(|| value.or(arguments.get(i + 1).copied())).flatten()
        })
    };
    let found = option(&["-name", "--name"]).and_then(of_qemu);
    let found = found.or_else(|| option(&["--id", "-id"]).map(str::to_owned));
    let found = found.or_else(|| option(&["--api-socket"]).and_then(of_socket));
    let program = if comm.is_empty() { "vm" } else { comm };
    found.and_then(|n| clean(&n)).unwrap_or_else(|| format!("{}-{tgid}", clean(program).unwrap_or_default()))
}

/// `guest=web,debug-threads=on` or `web,process=x`; a comma of the name itself is doubled.
fn of_qemu(value: &str) -> Option<String> {
    let value = value.replace(",,", "\0");
    let mut parts = value.split(',');
    let named = parts.clone().find_map(|p| p.strip_prefix("guest="));
    let first = parts.next().filter(|p| !p.contains('='));
    named.or(first).map(|n| n.replace('\0', ","))
}

/// `/run/web.sock` or `path=/run/web.sock`.
fn of_socket(value: &str) -> Option<String> {
    let path = value.strip_prefix("path=").unwrap_or(value);
    if path.starts_with("fd=") {
        return None;
    }
    Some(std::path::Path::new(path).file_stem()?.to_string_lossy().into_owned())
}

/// A name that a line of output and a command line can take; `None` if nothing is left of it.
fn clean(name: &str) -> Option<String> {
    let allowed = |c: char| if c.is_control() || c.is_whitespace() { '_' } else { c };
    let name: String = name.trim().chars().take(LONGEST).map(allowed).collect();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn command_lines() {
        for (arguments, want) in [
            (&["qemu-system-x86_64", "-name", "guest=web,debug-threads=on", "-S"][..], "web"),
            (&["qemu", "-name", "debug-threads=on,guest=web"], "web"),
            (&["qemu", "-name", "web,process=kvm-web"], "web"),
            (&["qemu", "-name", "a,,b"], "a,b"),
            (&["kvm", "-id", "100", "-name", "pve,debug-threads=on"], "pve"),
            (&["kvm", "-id", "100"], "100"),
            (&["vmm", "--name", "foo"], "foo"),
            (&["vmm", "--name=foo"], "foo"),
            (&["firecracker", "--id", "fc-1", "--api-sock", "/run/fc.sock"], "fc-1"),
            (&["jailer", "--id=fc-2"], "fc-2"),
            (&["cloud-hypervisor", "--api-socket", "/run/ch/web.sock"], "web"),
            (&["cloud-hypervisor", "--api-socket=path=/run/web"], "web"),
            (&["cloud-hypervisor", "--api-socket", "fd=3"], "comm-7"),
            (&["qemu", "-name", "debug-threads=on"], "comm-7"),
            (&["vmm", "--name"], "comm-7"),
            (&["--name", "x"], "comm-7"),
            (&["vmm", "--name", "a b\u{1b}c"], "a_b_c"),
            (&[], "comm-7"),
        ] {
            let line: String = arguments.iter().map(|a| format!("{a}\0")).collect();
            assert_eq!(name(line.as_bytes(), "comm", 7), want, "{arguments:?}");
        }
        assert_eq!(name(b"", "", 7), "vm-7");
    }

    /// Process 7 below a root, with these files.
    fn process(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("proc/7");
        std::fs::create_dir_all(&dir).unwrap();
        files.iter().for_each(|(name, text)| std::fs::write(dir.join(name), text).unwrap());
        root
    }

    #[test]
    fn a_name_is_of_that_process_and_of_one_line() {
        let root = process(&[("cmdline", "qemu\0-name\0web\0"), ("comm", "qemu-kvm\n")]);
        assert_eq!((name_of(root.path(), 7), name_of(root.path(), 8)), ("web".into(), "vm-8".into()));
        let root = process(&[("cmdline", "vmm\0"), ("comm", "a b\u{1b}[1m\n")]);
        assert_eq!(name_of(root.path(), 7), "a_b_[1m-7");
        for (given, want) in [
            ("x".repeat(64), Some("x".repeat(64))),
            ("x".repeat(65), Some("x".repeat(64))),
            ("ä".repeat(65), Some("ä".repeat(64))),
            (" a\tb\n".into(), Some("a_b".into())),
            ("a\u{a0}b\u{2028}c".into(), Some("a_b_c".into())),
            (" \n".into(), None),
            (String::new(), None),
        ] {
            assert_eq!(clean(&given), want, "{given:?}");
        }
        assert_eq!(other("web", 7), "web-7");
    }

    #[test]
    fn the_first_name_that_is_one_counts() {
        for (arguments, want) in [
            (&["qemu", "-id", "100", "--id", "7"][..], "100"),
            (&["qemu", "-id", "100", "-name", ""], "comm-7"),
            (&["qemu", "-name", "a", "-name", "b"], "a"),
            (&["qemu", "-name", "process=x,guest=b"], "b"),
            (&["qemu", "-name", "a,guest=b"], "b"),
            (&["qemu", "-name", "guest=a=b"], "a=b"),
            (&["ch", "--api-socket", "/run/a.b.sock"], "a.b"),
            (&["ch", "--api-socket", "path=fd=3"], "comm-7"),
            (&["fc", "--id", "", "--api-socket", "/run/x.sock"], "comm-7"),
            (&["fc", "--api-socket", "/run/x.sock", "--id", "y"], "y"),
            (&["fc", "--api-socket", "/"], "comm-7"),
        ] {
            let line: String = arguments.iter().map(|a| format!("{a}\0")).collect();
            assert_eq!(name(line.as_bytes(), "comm", 7), want, "{arguments:?}");
        }
    }

    #[test]
    fn a_uuid_is_that_of_the_command_line() {
        for (cmdline, want) in [
            ("qemu\0-name\0web\0-uuid\0AB-12\0-S\0", Some("ab-12")),
            ("qemu\0-name\0web\0", None),
            ("qemu\0-uuid\0", None),
            ("kvm\0-id\x00100\0-smbios\0type=1,uuid=CD-3,serial=x\0", Some("cd-3")),
            ("kvm\0-smbios\0type=2,uuid=cd-3\0-smbios\0type=1,uuid=cd-4\0", Some("cd-4")),
            ("kvm\0-smbios\0type=1,uuid=cd-3\0-uuid\0ab-1\0", Some("ab-1")),
            ("kvm\0-smbios\0uuid=cd-3\0", None),
            ("qemu\0-uuid", None),
        ] {
            let root = process(&[("cmdline", cmdline)]);
            assert_eq!(uuid(root.path(), 7).as_deref(), want, "{cmdline:?}");
        }
        assert_eq!(uuid(process(&[]).path(), 7), None);
    }

    #[test]
    fn owners_are_read_where_the_kernel_writes_them() {
        let owner = |files: &[(&str, &str)]| {
            let root = process(files);
            (cgroup(root.path(), 7), uid(root.path(), 7))
        };
        let both =
            [("cgroup", "2:cpu:/a\n0::/b/c\n0::/d\n"), ("status", "Name:\tx\nUid:\t5\t6\t7\t8\nGid:\t9\t9\t9\t9\n")];
        assert_eq!(owner(&both), (Some("/b/c".into()), Some(5)), "the real user's");
        assert_eq!(owner(&[]), (None, None));
        for status in ["Uid:\n", "Uid:\tx\n", "xUid:\t5\n", "Uid:\t-1\n", "Gid:\t5\n"] {
            assert_eq!(owner(&[("status", status)]).1, None, "{status}");
        }
        for text in ["0:/a\n", "1::/a\n", "10::/a\n", " 0::/a\n"] {
            assert_eq!(owner(&[("cgroup", text)]).0, None, "{text}");
        }
    }

    #[test]
    fn a_process_lives_until_it_exits() {
        assert!(lives(Path::new("/"), std::process::id()));
        let mut process = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Between two programs a process has no command line for a moment: it has begun when it answers.
        process.stdin.as_mut().unwrap().write_all(b"!").unwrap();
        process.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        assert!(lives(Path::new("/"), process.id()));
        drop(process.stdin.take());
        while lives(Path::new("/"), process.id()) {
            std::thread::yield_now(); // until it is a zombie
        }
        process.wait().unwrap();
        assert!(!lives(Path::new("/"), process.id()));
    }
}
