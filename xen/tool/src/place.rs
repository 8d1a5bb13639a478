// SPDX-License-Identifier: GPL-2.0-only
//! Where this program runs: below a hypervisor, and allowed to tell it anything.

use crate::{Privcmd, Xen, xenstore};
use anyhow::{Result, ensure};
use std::path::Path;
use std::sync::Arc;

/// What kind of machine this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Not below Xen.
    Other,
    /// A domain that does not control Xen.
    Guest,
    Dom0,
}

/// Looks at the machine whose file systems begin at `root`.
#[must_use]
pub fn place(root: &Path) -> Place {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    if read("sys/hypervisor/type").is_none_or(|t| t.trim() != "xen") {
        return Place::Other;
    }
    match read("proc/xen/capabilities") {
        Some(text) if text.contains("control_d") => Place::Dom0,
        Some(_) => Place::Guest,
        // xenfs is not mounted: whether this domain may ask is for the hypervisor to say.
        None if root.join("dev/xen/privcmd").exists() => Place::Dom0,
        None => Place::Guest,
    }
}

/// The host, if this is its Dom0.
///
/// # Errors
/// One line that says what is missing.
pub fn open() -> Result<Xen> {
    let place = place(Path::new("/"));
    ensure!(
        place != Place::Other,
        "this machine does not run on Xen (/sys/hypervisor/type); for a KVM host build takt with `make takt-linux`"
    );
    ensure!(
        place == Place::Dom0,
        "this domain does not control Xen (no control_d in /proc/xen/capabilities); run this in Dom0"
    );
    // SAFETY: no arguments, cannot fail.
    ensure!(unsafe { libc::geteuid() } == 0, "only root may access the hypervisor");
    let hypervisor = Privcmd::open()?;
    Ok(Xen::new(Arc::new(hypervisor), Arc::from(xenstore::connect()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_told_apart() {
        let machine = |files: &[(&str, &str)]| {
            let root = tempfile::tempdir().unwrap();
            for (name, text) in files {
                let path = root.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            place(root.path())
        };
        let xen = ("sys/hypervisor/type", "xen\n");
        assert_eq!(machine(&[]), Place::Other);
        assert_eq!(machine(&[("sys/hypervisor/type", "kvm\n")]), Place::Other);
        assert_eq!(machine(&[xen, ("proc/xen/capabilities", "control_d\n")]), Place::Dom0);
        assert_eq!(machine(&[xen, ("proc/xen/capabilities", "")]), Place::Guest);
        assert_eq!(machine(&[xen]), Place::Guest);
        assert_eq!(machine(&[xen, ("dev/xen/privcmd", "")]), Place::Dom0);
    }
}
