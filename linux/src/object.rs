// SPDX-License-Identifier: GPL-2.0-only
//! BPF objects: embedded, loaded with the maps of the first one.

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, Object, OpenObject};
use std::os::fd::AsFd;
use takt_monitor::object;

/// Maps that all objects share; `bpf/host.h` declares them.
const SHARED: [&str; 8] = ["hosts", "logs", "timers", "tgids", "vcpus", "tasks", "notices", "vm_waits"];

/// Opens an embedded object; with `shared` its common maps are those of that one.
pub fn open(bytes: &[u8], shared: Option<&Object>) -> Result<OpenObject> {
    let mut object = object::open(bytes)?;
    let Some(shared) = shared else { return Ok(object) };
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if SHARED.contains(&name.as_str()) {
            let theirs = shared.maps().find(|m| m.name() == name.as_str()).with_context(|| format!("no map {name}"))?;
            map.reuse_fd(theirs.as_fd()).with_context(|| format!("map {name}"))?;
        }
    }
    Ok(object)
}

/// Loads it; the error tells known reasons plainly.
pub fn load(object: OpenObject) -> Result<Object> {
    object.load().map_err(|e| {
        let why = object::complaints();
        let program = why.lines().find(|l| l.contains("BPF program load failed")).unwrap_or_default().to_owned();
        let last = || format!("{program} {}", object::last_lines(&why));
        explain(&why).map_or_else(|| anyhow::anyhow!(e).context(last()), |text| anyhow::anyhow!(text))
    })
}

/// Failures that are not ours to mend.
fn explain(why: &str) -> Option<String> {
    let kfunc = why.lines().find(|l| {
        l.contains("kernel function prototype") || (l.contains("extern (func ksym)") && l.contains("incompatible"))
    });
    if let Some(line) = kfunc {
        return Some(format!(
            "this kernel's BTF describes its own functions wrongly (as in Debian's 7.1 and 7.2); use another kernel; libbpf says: {}",
            line.trim()
        ));
    }
    let missing = why
        .lines()
        .find(|l| l.contains("failed to find BTF ID for ksym") || l.contains("'scx_") && l.contains("not found"));
    missing.map(|line| {
        format!("this kernel lacks a function that Takt needs (Linux 6.16 or later has it): {}", line.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::explain;

    /// As libbpf says it on Debian's 7.2.12.
    const WRONG: &str = "libbpf: extern (func ksym) 'scx_bpf_kick_cpu': func_proto [192] incompatible with vmlinux [51379]\n\
                         libbpf: failed to load object 'takt'\n";

    #[test]
    fn a_kernel_that_describes_itself_wrongly_is_named_in_one_line() {
        let said = explain(WRONG).unwrap();
        assert!(said.contains("use another kernel") && said.contains("'scx_bpf_kick_cpu'"), "{said}");
        assert!(!said.contains("failed to load object") && said.lines().count() == 1, "{said}");
    }

    #[test]
    fn a_function_that_is_missing_is_named_and_nothing_else_explained() {
        for line in [
            "libbpf: failed to find BTF ID for ksym 'x'",
            "libbpf: extern (func ksym) 'scx_bpf_x': not found in kernel",
        ] {
            let said = explain(&format!("libbpf: before\n  {line}\nlibbpf: after\n")).unwrap();
            assert!(said.starts_with("this kernel lacks a function") && said.ends_with(line), "{said}");
        }
        for other in ["'scx_bpf_x': found", "'bpf_x': not found", "extern (func ksym) 'x'", "'x' incompatible", ""] {
            assert_eq!(explain(other), None, "{other}");
        }
        assert!(explain("the kernel function prototype mismatches").unwrap().contains("use another kernel"));
        let missing = "libbpf: extern (func ksym) 'scx_bpf_dsq_insert': not found in kernel or module BTFs\n";
        assert!(explain(missing).unwrap().contains("lacks a function"), "{missing}");
        assert_eq!(explain("libbpf: prog 'takt_dispatch': BPF program load failed: -EACCES\n"), None);
    }
}
