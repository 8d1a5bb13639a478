// SPDX-License-Identifier: GPL-2.0-only
//! Where a domain's packets come out of it: the backends that xenstore names.
//!
//! Only what a domain cannot write itself is believed: the toolstack's own records and the backends' directories, not the
//! frontend's.

use crate::xenstore::Store;
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Of netback.
    Vif,
    /// What a device model emulates for a guest without such a driver, under the vif's name and `-emu`.
    Emulated,
    /// Named by the user.
    Named,
}

/// What xenstore knows of a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backends {
    /// Network devices of this Dom0. They may not be there yet, or not all.
    pub here: BTreeSet<(String, Kind)>,
    /// Devices that this Dom0 does not see the packets of, and why.
    pub elsewhere: BTreeSet<String>,
}

impl Backends {
    /// Those of domain `id`.
    ///
    /// # Errors
    /// Xenstore does not answer.
    pub fn of(store: &dyn Store, id: u16) -> Result<Self> {
        let mut found = Self::default();
        let own = format!("/local/domain/0/backend/vif/{id}");
        let mut paths: BTreeSet<String> = store.list(&own)?.iter().map(|n| format!("{own}/{n}")).collect();
        let toolstack = format!("/libxl/{id}/device");
        for n in store.list(&format!("{toolstack}/vif"))? {
            paths.extend(store.read(&format!("{toolstack}/vif/{n}/backend"))?);
        }
        for path in paths {
            let words: Vec<&str> = path.split('/').collect();
            let ["", "local", "domain", by, "backend", "vif", of, n] = words[..] else { continue };
            if of.parse() != Ok(id) {
                continue;
            }
            if by == "0" {
                let name = store.read(&format!("{path}/vif-name"))?.unwrap_or_else(|| format!("vif{of}.{n}"));
                found.here.insert((format!("{name}-emu"), Kind::Emulated));
                found.here.insert((name, Kind::Vif));
            } else {
                found.elsewhere.insert(format!("vif {n} is served by domain {by}"));
            }
        }
        if !store.list(&format!("{toolstack}/pci"))?.is_empty() {
            found.elsewhere.insert("a PCI device is passed through".into());
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn backends(entries: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let found = Backends::of(&*Fake::new().host(entries).store(), 3).unwrap();
        let vifs = found.here.into_iter().filter(|(_, kind)| *kind == Kind::Vif).map(|(name, _)| name);
        (vifs.collect(), found.elsewhere.into_iter().collect())
    }

    #[test]
    fn vifs_of_this_dom0() {
        let backend = "/local/domain/0/backend/vif/3/0";
        assert_eq!(backends(&[]), (vec![], vec![]));
        let toolstack = ("/libxl/3/device/vif/0/backend", backend);
        assert_eq!(backends(&[toolstack]).0, ["vif3.0"]);
        assert_eq!(backends(&[("/local/domain/0/backend/vif/3/0/state", "4")]).0, ["vif3.0"], "without libxl");
        let named = ("/local/domain/0/backend/vif/3/0/vif-name", "web0");
        assert_eq!(backends(&[toolstack, named]).0, ["web0"]);
        let second = ("/libxl/3/device/vif/1/backend", "/local/domain/0/backend/vif/3/1");
        assert_eq!(backends(&[toolstack, named, second]).0, ["vif3.1", "web0"]);
    }

    #[test]
    fn what_is_served_elsewhere_is_named() {
        let (here, elsewhere) = backends(&[
            ("/libxl/3/device/vif/0/backend", "/local/domain/5/backend/vif/3/0"),
            ("/libxl/3/device/pci/0/backend", "/local/domain/0/backend/pci/3/0"),
        ]);
        assert!(here.is_empty());
        assert_eq!(elsewhere, ["a PCI device is passed through", "vif 0 is served by domain 5"]);
    }

    #[test]
    fn a_domain_cannot_claim_the_device_of_another_one() {
        let claims = [
            ("/local/domain/3/device/vif/0/backend", "/local/domain/0/backend/vif/3/7"),
            ("/libxl/3/device/vif/0/backend", "/local/domain/0/backend/vif/7/0"),
            ("/libxl/3/device/vif/1/backend", "garbage"),
        ];
        assert_eq!(backends(&claims), (vec![], vec![]));
    }
    #[test]
    fn each_vif_may_have_an_emulated_twin() {
        let named = ("/local/domain/0/backend/vif/3/0/vif-name", "web0");
        let found = Backends::of(&*Fake::new().host(&[named]).store(), 3).unwrap();
        let both = [("web0".to_owned(), Kind::Vif), ("web0-emu".to_owned(), Kind::Emulated)];
        assert_eq!(found, Backends { here: both.into(), elsewhere: BTreeSet::new() });
        assert_eq!(Backends::of(&*Fake::new().host(&[named]).store(), 4).unwrap(), Backends::default(), "another's");
    }

    /// Each part of a backend's path must be what it is.
    #[test]
    fn a_path_that_is_odd_in_one_word_names_no_device() {
        for path in [
            "/local/domain/0/backend/vif/3/0/x",
            "/local/domain/0/backend/vif/3",
            "local/domain/0/backend/vif/3/0",
            "/locale/domain/0/backend/vif/3/0",
            "/local/domains/0/backend/vif/3/0",
            "/local/domain/0/frontend/vif/3/0",
            "/local/domain/0/backend/vbd/3/0",
            "/local/domain/0/backend/vif/33/0",
            "/local/domain/0/backend/vif/x/0",
        ] {
            assert_eq!(backends(&[("/libxl/3/device/vif/0/backend", path)]), (vec![], vec![]), "{path}");
        }
        let elsewhere = backends(&[("/libxl/3/device/vif/7/backend", "/local/domain/00/backend/vif/3/7")]).1;
        assert_eq!(elsewhere, ["vif 7 is served by domain 00"]);
    }
}
