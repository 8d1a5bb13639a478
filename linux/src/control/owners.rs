// SPDX-License-Identifier: GPL-2.0-only
//! Which VM an entry of the configuration means: a VMM may call its VM what it likes, its cgroup and user it may not choose.

use super::names;
use std::path::Path;
use takt_control::{Entry, HostConfig, Identity};

/// The tables of the configuration that mean the VM `name` of process `tgid`, the weakest first: none that means another owner's.
pub fn entries<'a>(
    config: &'a HostConfig,
    root: &Path,
    name: &str,
    uuid: Option<&str>,
    tgid: u32,
) -> Vec<(String, &'a Entry)> {
    let cgroup = names::cgroup(root, tgid);
    config.entries(Identity { name, uuid, cgroup: cgroup.as_deref(), uid: names::uid(root, tgid) })
}

/// Whether `entry` means the VM of process `tgid`, whatever it is called.
pub fn admits(entry: &Entry, root: &Path, tgid: u32) -> bool {
    !entry.has_owner() || entry.admits(names::cgroup(root, tgid).as_deref(), names::uid(root, tgid))
}

/// The name of the VM of process `tgid` that calls it `called`: a name of the configuration is its owner's only.
pub fn name(config: &HostConfig, root: &Path, called: &str, tgid: u32) -> String {
    let free = config.vm.get(called).is_none_or(|entry| admits(entry, root, tgid));
    if free { called.to_owned() } else { names::other(called, tgid) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_the_configuration_is_its_owners() {
        let root = tempfile::tempdir().unwrap();
        for (tgid, cgroup, uid) in
            [(7, "/machine.slice/vm1", 107), (8, "/user.slice/x", 107), (9, "/machine.slice/vm1", 1000)]
        {
            let dir = root.path().join(format!("proc/{tgid}"));
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("cgroup"), format!("1:name=x:/machine.slice\n0::{cgroup}\n")).unwrap();
            let status = format!("Name:\tUid:\t107\nGid:\t107\nUid:\t{uid}\t0\t0\t0\n");
            std::fs::write(dir.join("status"), status).unwrap();
        }
        let entry = |cgroup: Option<&str>, uid| Entry { cgroup: cgroup.map(Into::into), uid, ..Entry::default() };
        let only = |name: &str, entry| HostConfig { vm: [(name.into(), entry)].into(), ..HostConfig::default() };
        let name = |entry: Entry, called: &str, tgid| super::name(&only("web", entry), root.path(), called, tgid);
        for tgid in [7, 8, 9, 10] {
            assert_eq!(name(entry(None, None), "web", tgid), "web", "by name alone, as it says");
            assert_eq!(name(entry(Some("other"), Some(1)), "db", tgid), "db", "a name that it does not know");
        }
        let both = || entry(Some("machine.slice"), Some(107));
        assert_eq!(name(both(), "web", 7), "web");
        for tgid in [8, 9, 10] {
            assert_eq!(name(both(), "web", tgid), format!("web-{tgid}"), "cgroup, user, or process are not its");
        }
        assert_eq!(name(entry(Some("machine.slice"), None), "web", 9), "web");
        assert_eq!(name(entry(None, Some(107)), "web", 8), "web");
        assert_eq!(name(entry(None, Some(107)), "web", 9), "web-9");
        // Nor does a name that it has been given instead get it another's configuration.
        let config = only("web-8", both());
        let tables = |name, tgid| entries(&config, root.path(), name, None, tgid).len();
        assert_eq!([tables("web-8", 8), tables("web-8", 7), tables("web", 7)], [0, 1, 0]);
    }
}
