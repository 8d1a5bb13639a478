// SPDX-License-Identifier: GPL-2.0-only
//! A workload as a scenario has it: its keys, and the answers that they give to what a scenario and
//! a machine ask of them. What the workload does is a matter of `crate::workload`.

mod key;
mod kind;

pub use key::{Key, KeyInfo};
pub use kind::Kind;
pub(crate) use kind::workloads;

use crate::constants::Constants;
use anyhow::{Result, bail};
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use takt_control::{Server, duration, near};

/// A periodic, independent task that needs only the CPU; each job is due by the next release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// CPU time of a job, ns.
    pub cost: u64,
    /// Period and deadline, ns.
    pub period: u64,
}

impl fmt::Display for TaskSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", duration::format(self.cost), duration::format(self.period))
    }
}

/// An entry of a scenario without its workload.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub name: &'a str,
    /// How many VMs it stands for, and the VCPUs of each.
    pub count: u32,
    pub vcpus: u32,
    pub server: &'a Server,
}

/// What the keys of an entry's workload say. Each function has a default.
pub trait Spec: AsAny + fmt::Debug + Send + Sync {
    /// What no single key can tell.
    ///
    /// # Errors
    /// One line with key and what is allowed.
    fn validate(&self, _vm: &Entry) -> Result<()> {
        Ok(())
    }

    /// What a VM with so many VCPUs is, in a few words for titles of charts. `None`: titles have the
    /// name of the workload.
    fn about(&self, _vcpus: u32) -> Option<String> {
        None
    }

    /// Calls of a server.
    fn calls(&self) -> u32 {
        0
    }

    /// Streams that the clients of its calls send.
    fn streams(&self) -> u32 {
        self.calls()
    }

    /// CPU time for a packet of its calls, ns, if packets are all its work.
    fn per_packet(&self, _c: &Constants) -> Option<u64> {
        None
    }

    /// Periodic tasks of a set.
    fn tasks(&self) -> usize {
        0
    }

    /// What the tasks are in VM `vm`, the `n`-th of the guests, with this seed; those that are drawn
    /// at random use `load` percent of its share. Where each VCPU has the same ones, those of one.
    fn task_set(&self, _vm: &Entry, _n: u32, _load: u32, _seed: u64) -> Vec<TaskSpec> {
        Vec::new()
    }

    /// Threads that the user gives a number of, on so many VCPUs.
    fn threads(&self, _vcpus: u32) -> u32 {
        0
    }

    /// KiB that each VCPU works on.
    fn working_set(&self, c: &Constants) -> u64 {
        c.voip_ws
    }

    /// Whether its VCPUs get PCPUs of their own under `pin` if the VM says nothing of that.
    fn is_dedicated(&self) -> bool {
        false
    }

    /// Whether useful time of its threads is batch work.
    fn is_batch(&self) -> bool {
        false
    }

    /// Whether waits in run queues are predicted beside it.
    fn predicts(&self) -> bool {
        false
    }

    /// Whether its VCPUs are woken, each at a time of its own, before anything else happens. Sets of
    /// tasks begin `lead` ns after their VMs.
    fn starts(&self, _lead: u64) -> bool {
        true
    }

    /// Why the script may neither create nor destroy its VMs: what they are.
    fn stays(&self) -> Option<&'static str> {
        None
    }
}

/// The keys of a workload.
pub trait Keys: Spec + Clone + Default + PartialEq {
    const KIND: Kind;
    /// The workload in a line of the docs.
    const DOC: &'static str;
    /// Whether a late run of its threads matters: they wait for packets, requests or a time, and are
    /// no batch work. A report's timeline shows the waits of such VMs; in the Linux lab they have
    /// precedence under the kernel's own schedulers.
    const SERVES: bool;
    const KEYS: &'static [Key<Self>];

    /// What no single VM can tell, of all that have this workload.
    ///
    /// # Errors
    /// One line with key and what is allowed.
    fn agree(_vms: &[(Entry, &Self)], _c: &Constants) -> Result<()> {
        Ok(())
    }
}

/// Sets one key.
///
/// # Errors
/// One line with what is allowed.
pub(crate) fn set<W: Keys>(own: &mut W, key: &str, value: &str) -> Result<()> {
    key::set(W::KEYS, own, key, value)
}

/// The keys of a workload as the docs have them, with these values for defaults.
pub(crate) fn table<W: Keys>(own: &W) -> Vec<KeyInfo> {
    key::table(W::KEYS, own)
}

/// Gives the own type of a workload back, of which its list knows that it is a `Spec`.
pub trait AsAny: Any {
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<T: Any> AsAny for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Stands for a workload in a list of them.
pub struct Of<W>(PhantomData<fn() -> W>);

impl<W> Of<W> {
    pub const NEW: Self = Self(PhantomData);
}

/// A workload in the list that a scenario is read with.
pub trait Listed: Sync {
    fn kind(&self) -> Kind;
    fn doc(&self) -> &'static str;
    fn serves(&self) -> bool;
    /// Its keys, with the values of `own` for defaults.
    fn keys(&self, own: &dyn Spec) -> Vec<KeyInfo>;
    /// Names of the keys with `type`, for an error.
    fn key_names(&self) -> String;
    fn has_key(&self, key: &str) -> bool;
    /// Its defaults.
    fn fresh(&self) -> Box<dyn Spec>;
    fn copy(&self, own: &dyn Spec) -> Box<dyn Spec>;
    fn equal(&self, a: &dyn Spec, b: &dyn Spec) -> bool;
    fn set(&self, own: &mut dyn Spec, key: &str, value: &str) -> Result<()>;
    fn agree(&self, vms: &[(Entry, &Chosen)], c: &Constants) -> Result<()>;
}

impl<W: Keys> Listed for Of<W> {
    fn kind(&self) -> Kind {
        W::KIND
    }

    fn doc(&self) -> &'static str {
        W::DOC
    }

    fn serves(&self) -> bool {
        W::SERVES
    }

    fn keys(&self, own: &dyn Spec) -> Vec<KeyInfo> {
        own.as_any().downcast_ref().map_or(Vec::new(), table::<W>)
    }

    fn key_names(&self) -> String {
        key::names(W::KEYS)
    }

    fn has_key(&self, key: &str) -> bool {
        key::has(W::KEYS, key)
    }

    fn fresh(&self) -> Box<dyn Spec> {
        Box::new(W::default())
    }

    fn copy(&self, own: &dyn Spec) -> Box<dyn Spec> {
        Box::new(own.as_any().downcast_ref::<W>().cloned().unwrap_or_default())
    }

    fn equal(&self, a: &dyn Spec, b: &dyn Spec) -> bool {
        a.as_any().downcast_ref::<W>() == b.as_any().downcast_ref()
    }

    fn set(&self, own: &mut dyn Spec, key: &str, value: &str) -> Result<()> {
        own.as_any_mut().downcast_mut::<W>().map_or(Ok(()), |own| set(own, key, value))
    }

    fn agree(&self, vms: &[(Entry, &Chosen)], c: &Constants) -> Result<()> {
        let own: Vec<_> = vms.iter().filter_map(|(vm, workload)| Some((*vm, workload.of::<W>()?))).collect();
        W::agree(&own, c)
    }
}

/// The workloads that a scenario may name.
pub(crate) type List = &'static [&'static dyn Listed];

/// The names of a list, for an error.
fn names(list: List) -> String {
    list.iter().map(|of| of.kind().name()).collect::<Vec<_>>().join(", ")
}

/// The workload of an entry of a scenario.
pub struct Chosen {
    list: List,
    of: &'static dyn Listed,
    own: Box<dyn Spec>,
}

impl Chosen {
    /// The one of that name, with its defaults.
    ///
    /// # Errors
    /// There is none of that name; the message names all.
    pub(crate) fn named(list: List, name: &str) -> Result<Self> {
        match list.iter().find(|of| of.kind().name() == name) {
            Some(&of) => Ok(Self { list, of, own: of.fresh() }),
            None => {
                let names = list.iter().map(|of| of.kind().name());
                bail!("unknown workload '{name}'{}", near::allowed(name, names))
            }
        }
    }

    /// Another one of the same list.
    ///
    /// # Errors
    /// There is none of that name; the message names all.
    pub(crate) fn other(&self, name: &str) -> Result<Self> {
        Self::named(self.list, name)
    }

    /// The names of all in its list, for an error.
    pub(crate) fn names(&self) -> String {
        names(self.list)
    }

    pub fn kind(&self) -> Kind {
        self.of.kind()
    }

    /// As written in `type`.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// Its keys, if it is that workload.
    pub fn of<W: Any>(&self) -> Option<&W> {
        (*self.own).as_any().downcast_ref()
    }

    pub(crate) fn spec(&self) -> &dyn Spec {
        &*self.own
    }

    /// Sets one key.
    ///
    /// # Errors
    /// One line with what is allowed.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<()> {
        self.of.set(&mut *self.own, key, value)
    }

    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.of.has_key(key)
    }

    /// Names of its keys with `type`, for an error.
    pub(crate) fn key_names(&self) -> String {
        self.of.key_names()
    }
}

impl Clone for Chosen {
    fn clone(&self) -> Self {
        Self { own: self.of.copy(&*self.own), ..*self }
    }
}

impl PartialEq for Chosen {
    fn eq(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.of.equal(&*self.own, &*other.own)
    }
}

impl Eq for Chosen {}

impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.own.fmt(f)
    }
}

/// Whether the entries of a scenario go together, workload by workload.
///
/// # Errors
/// One line with key and what is allowed.
pub(crate) fn agree(vms: &[(Entry, &Chosen)], c: &Constants) -> Result<()> {
    let list = vms.first().map_or(&[][..], |(_, workload)| workload.list);
    list.iter().try_for_each(|of| of.agree(vms, c))
}
