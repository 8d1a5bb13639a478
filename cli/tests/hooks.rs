// SPDX-License-Identifier: GPL-2.0-only
//! `takt hook`: what the configurations of libvirt and Proxmox say reaches the VMs' metadata, and never keeps a VM from
//! starting.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use takt_control::Entry;
use takt_control::metadata::{Metadata, parse};

const UUID: &str = "6695eb01-f6a4-8304-79aa-97f2502e193f";

/// What `virsh -c test:///default dumpxml test` prints, with `metadata` put in.
fn domain(metadata: &str) -> String {
    format!(
        "<domain type='test' id='1'>\n  <name>test</name>\n  <uuid>6695EB01-f6a4-8304-79aa-97f2502e193f</uuid>\n{metadata}  \
         <memory unit='KiB'>8388608</memory>\n  <currentMemory unit='KiB'>2097152</currentMemory>\n  \
         <vcpu placement='static'>2</vcpu>\n  <os>\n    <type arch='i686'>hvm</type>\n    <boot dev='hd'/>\n  </os>\n  \
         <clock offset='utc'/>\n  <on_poweroff>destroy</on_poweroff>\n  <devices>\n    <disk type='file' device='disk'>\n      \
         <source file='/guest/diskimage1'/>\n      <target dev='hda' bus='ide'/>\n    </disk>\n  </devices>\n</domain>\n"
    )
}

fn settings(attributes: &str) -> String {
    let of_others = "<libosinfo:libosinfo xmlns:libosinfo='http://libosinfo.org/xmlns/libvirt/domain/1.0'/>";
    domain(&format!("<metadata>{of_others}<takt:settings xmlns:takt='urn:takt:settings:1' {attributes}/></metadata>\n"))
}

fn hook(dir: &Path, args: &[&str], input: &[u8]) -> Output {
    let mut hook = Command::new(env!("CARGO_BIN_EXE_takt"));
    hook.args(["hook", "--dir"]).arg(dir).args(args);
    hook.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut hook = hook.spawn().expect("takt");
    // It may end before it has read all.
    let _ = hook.stdin.take().unwrap().write_all(input);
    hook.wait_with_output().expect("takt")
}

/// What a hook has said on stderr; it never fails, and prints nothing.
fn said(out: &Output) -> String {
    assert!(out.status.success() && out.stdout.is_empty(), "{out:?}");
    String::from_utf8_lossy(&out.stderr).trim_end().to_owned()
}

fn libvirt(dir: &Path, operation: &str, xml: &str) -> String {
    said(&hook(dir, &["libvirt", "test", operation, "begin", "-"], xml.as_bytes()))
}

/// What the VM has, as `takt run` reads it.
fn has(dir: &Path, name: &str, uuid: Option<&str>) -> Option<Entry> {
    Metadata::new(dir).of(name, uuid).unwrap()
}

#[test]
fn a_domain_has_what_its_metadata_says() {
    let dir = tempfile::tempdir().unwrap();
    let dir = &dir.path().join("run/vm.d");
    for (attributes, want) in [
        ("weight='512'", "weight = 512"),
        ("rt='on'", "rt = \"on\""),
        ("rt='off' cap='150'", "rt = \"off\"\ncap = 150"),
        ("ports='5004,6000-6010'", "ports = [5004, \"6000-6010\"]"),
        ("group='web' latency='10ms'", "group = \"web\"\nlatency = \"10ms\""),
        (
            "budget='2ms' period='10ms' priority='3' extra='off'",
            "budget = \"2ms\"\nperiod = \"10ms\"\npriority = 3\nextra = false",
        ),
        ("laxity='20us'", "laxity = \"20us\""),
        ("weight='&#53;&#49;'", "weight = 51"),
    ] {
        assert_eq!(libvirt(dir, "prepare", &settings(attributes)), "", "{attributes}");
        assert_eq!(has(dir, "test", Some(UUID)), Some(parse(want).unwrap()), "{attributes}");
    }
    for operation in ["start", "started", "stopped", "attach"] {
        assert_eq!(libvirt(dir, operation, &settings("weight='9'")), "");
        assert_eq!(has(dir, "test", Some(UUID)).unwrap().params.get("weight"), Some(51), "{operation} changes nothing");
    }
    for operation in ["reconnect", "restore", "migrate"] {
        assert_eq!(libvirt(dir, operation, &settings("weight='10'")), "");
        assert_eq!(has(dir, "test", Some(UUID)).unwrap().params.get("weight"), Some(10), "{operation}");
        assert_eq!(libvirt(dir, "prepare", &settings("weight='11'")), "");
    }
    // A start without settings takes away what the one before had.
    assert_eq!(libvirt(dir, "prepare", &domain("")), "");
    assert_eq!(has(dir, "test", Some(UUID)), None);
    assert_eq!(libvirt(dir, "prepare", &settings("weight='12'")), "");
    assert_eq!(libvirt(dir, "release", &settings("weight='12'")), "");
    assert_eq!(has(dir, "test", Some(UUID)), None);
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0, "nothing is left");
    assert_eq!(libvirt(dir, "release", &domain("")), "", "nor is it an error that there is nothing");
    let unnamed = settings("weight='13'").replace("<uuid>6695EB01-f6a4-8304-79aa-97f2502e193f</uuid>", "");
    assert_eq!(libvirt(dir, "prepare", &unnamed), "");
    assert_eq!(has(dir, "test", None).unwrap().params.get("weight"), Some(13), "by its name");
}

#[test]
fn a_domain_that_says_nonsense_starts_without() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let ours = "<takt:settings xmlns:takt='urn:takt:settings:1' weight='1'/>";
    let entity = "<!DOCTYPE d [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'>]>";
    let deep = "<a>".repeat(100_000);
    for (xml, want) in [
        (String::new(), "domain test: XML: "),
        ("<domain".into(), "domain test: XML: "),
        ("\u{0}\u{1b}[31m".into(), "domain test: XML: "),
        (format!("{entity}{}", settings("weight='1'")), "domain test: XML: "),
        ("<network><name>x</name></network>".into(), "domain test: XML: `network` instead of a domain"),
        ("<domain><name/></domain>".into(), "domain test: XML: the domain has neither UUID nor name"),
        (settings("weight='0'"), "domain test: metadata: `weight` must be between 1 and 65535 (got `0`)"),
        (settings("wieght='1'"), "domain test: metadata: unknown key `wieght` (did you mean `weight`?)"),
        (settings(""), "domain test: metadata: nothing to set"),
        (settings("dev='tap0'"), "domain test: metadata: `dev` works only in `takt set`"),
        (
            settings("weight='1&#10;x'"),
            "domain test: metadata: `weight` must be a whole number between 1 and 65535 (got `1 x`)",
        ),
        (
            settings("weight='1'").replace("<takt:settings", "<takt:seting"),
            "domain test: metadata: `seting` is unknown",
        ),
        (
            domain(&format!("<metadata>{ours}{ours}</metadata>")),
            "domain test: metadata: there are two elements of Takt",
        ),
        (
            domain(&format!("<metadata>{ours}</metadata>"))
                .replace("<name>test", "<name>../x")
                .replace("<uuid>6695EB01-f6a4-8304-79aa-97f2502e193f</uuid>", ""),
            "domain test: `../x` cannot be the name of a file",
        ),
        (format!("<domain>{deep}"), "domain test: XML: "),
        (" ".repeat(5 << 20), "domain test: more than 4194304 bytes of XML"),
    ] {
        let line = libvirt(dir, "prepare", &xml);
        assert!(line.starts_with(&format!("takt: {want}")) && line.lines().count() == 1, "{line:?} for {want}");
        assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0, "{line}");
    }
    // Nor does it keep what an earlier start had.
    assert_eq!(libvirt(dir, "prepare", &settings("weight='9'")), "");
    assert!(has(dir, "test", Some(UUID)).is_some());
    assert!(libvirt(dir, "reconnect", &settings("weight='0'")).contains("metadata: `weight`"));
    assert_eq!(has(dir, "test", Some(UUID)), None);
    // Settings of ours elsewhere than in its metadata are not its operator's.
    assert_eq!(libvirt(dir, "prepare", &domain(&format!("<devices>{ours}</devices>"))), "");
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0);
}

#[test]
fn a_vm_of_proxmox_has_what_its_notes_say() {
    let dir = tempfile::tempdir().unwrap();
    let (run, conf) = (dir.path().join("vm.d"), dir.path().join("qemu-server"));
    std::fs::create_dir(&conf).unwrap();
    let hook = |vmid: &str, phase: &str, text: &str| {
        std::fs::write(conf.join(format!("{vmid}.conf")), text).unwrap();
        said(&hook(&run, &["proxmox", vmid, phase, "--conf-dir", conf.to_str().unwrap()], b""))
    };
    let all = "#A PBX for the office.\n#takt%3A weight=512\n#takt: ports=5004,6000-6010  rt=auto\nagent: 1\ncores: 2\nname: pbx\n\
        smbios1: uuid=6695EB01-f6a4-8304-79aa-97f2502e193f\n\n[before]\n#takt: weight=7\nname: old\n";
    assert_eq!(hook("100", "pre-start", all), "");
    let want = "weight = 512\nports = [5004, \"6000-6010\"]\nrt = \"auto\"\ncgroup = \"qemu.slice/100.scope\"";
    let want = parse(want).unwrap();
    assert_eq!(has(&run, "pbx", Some(UUID)), Some(want));
    for phase in ["post-start", "pre-stop"] {
        assert_eq!(hook("100", phase, all), "");
        assert!(has(&run, "pbx", Some(UUID)).is_some());
    }
    assert_eq!(hook("100", "post-stop", all), "");
    assert_eq!(has(&run, "pbx", Some(UUID)), None);
    let named = "#takt: cap=50\nname: web\n";
    assert_eq!(hook("101", "pre-start", named), "");
    assert_eq!(has(&run, "web", None).unwrap().params.get("cap"), Some(50));
    assert_eq!(hook("102", "pre-start", "#takt: cap=60\n"), "");
    assert_eq!(has(&run, "vm102", None).unwrap().params.get("cap"), Some(60));
    assert_eq!(hook("102", "pre-start", "#nothing for takt: cap=1\n"), "");
    assert_eq!(has(&run, "vm102", None), None);
    for (text, want) in [
        ("#takt: cap=-1\n", "VM 103: notes: `cap` must be a whole number between 0 and 6400 (got `-1`)"),
        ("#takt:\n", "VM 103: notes: nothing follows `takt:`; write key=value"),
        ("#takt: cap\n", "VM 103: notes: `cap` is not key=value"),
        ("#takt%3A cap=%00%1b[31m\n", "VM 103: notes: `cap` must be a whole number between 0 and 6400"),
        ("#takt: cap=1 cap=2\n", "VM 103: notes: `cap=2` sets a key a second time"),
        ("#takt: cap=1\nname: a/b\n", "VM 103: `a/b` cannot be the name of a file"),
    ] {
        let line = hook("103", "pre-start", text);
        assert!(line.starts_with(&format!("takt: {want}")) && line.lines().count() == 1, "{line}");
        assert_eq!(has(&run, "vm103", None), None);
    }
    assert_eq!(hook("103", "pre-start", "#takt: cap=1\n"), "");
    assert!(has(&run, "vm103", None).is_some());
    assert!(hook("103", "pre-start", "#takt: cap=-1\n").contains("`cap` must be"));
    assert_eq!(has(&run, "vm103", None), None, "nor does it keep what an earlier start had");
    let missing = self::hook(&run, &["proxmox", "104", "pre-start", "--conf-dir", conf.to_str().unwrap()], b"");
    assert!(said(&missing).contains("104.conf: No such file"), "{missing:?}");
}
