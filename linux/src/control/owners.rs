// SPDX-License-Identifier: GPL-2.0-only
//! Which VM an entry of the configuration means: a VMM may call its VM what it likes, its cgroup and user it may not choose.

use super::names;
use std::path::Path;
use takt_control::{HostConfig, VmConfig};

/// What the configuration says of the VM `name` of process `tgid`: nothing, where it means another owner's.
pub fn config_of<'a>(config: &'a HostConfig, root: &Path, name: &str, tgid: u32) -> Option<&'a VmConfig> {
    let found = config.vm.get(name)?;
    let meant = !found.has_owner() || found.admits(names::cgroup(root, tgid).as_deref(), names::uid(root, tgid));
    meant.then_some(found)
}

/// The name of the VM of process `tgid` that calls it `called`: a name of the configuration is its owner's only.
pub fn name(config: &HostConfig, root: &Path, called: &str, tgid: u32) -> String {
    let free = !config.vm.contains_key(called) || config_of(config, root, called, tgid).is_some();
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
        let entry = |cgroup: Option<&str>, uid| VmConfig { cgroup: cgroup.map(Into::into), uid, ..VmConfig::default() };
        let name = |config: VmConfig, called: &str, tgid| {
            super::name(&HostConfig { vm: [("web".into(), config)].into() }, root.path(), called, tgid)
        };
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
        let config = HostConfig { vm: [("web-8".into(), both())].into() };
        assert!(config_of(&config, root.path(), "web-8", 8).is_none());
        assert!(config_of(&config, root.path(), "web-8", 7).is_some());
        assert!(config_of(&config, root.path(), "web", 7).is_none());
    }
}
