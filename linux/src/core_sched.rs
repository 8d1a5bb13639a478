// SPDX-License-Identifier: GPL-2.0-only
//! Core scheduling (`prctl(PR_SCHED_CORE)`): threads with a cookie share a core with none of another cookie.
//!
//! The kernel's choice of threads for a core does not fit `sched_ext`: on a machine with SMT a thread with a cookie has been
//! seen to hang the host within milliseconds under any such scheduler. To take cookies away would weaken the isolation that
//! somebody has asked for, so Takt does not start while there is one, and leaves when one appears.

use anyhow::{Context, Result, bail, ensure};
use std::fmt;
use std::io::{Error, ErrorKind};
use std::path::Path;

/// The flag that accepts the risk.
pub const FLAG: &str = "--accept-core-scheduling";

/// What the kernel says of cookies; a test says it instead.
pub trait Cookies {
    /// That of thread `tid`, 0: of the one that asks; 0 = none.
    ///
    /// # Errors
    /// The number of the kernel's error.
    fn of(&self, tid: u32) -> std::result::Result<u64, i32>;
}

/// The kernel that this runs on.
pub struct Kernel;

impl Cookies for Kernel {
    fn of(&self, tid: u32) -> std::result::Result<u64, i32> {
        let mut cookie = 0u64;
        // SAFETY: the kernel writes eight bytes to `cookie`, which lives through the call.
        let failed = unsafe {
            let scope = libc::c_ulong::from(0u8); // of one thread
            let at = &raw mut cookie;
            libc::prctl(libc::PR_SCHED_CORE, libc::PR_SCHED_CORE_GET, libc::c_ulong::from(tid), scope, at)
        };
        if failed == 0 { Ok(cookie) } else { Err(Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)) }
    }
}

/// A thread with a cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tagged {
    pub pid: u32,
    pub tid: u32,
    pub comm: String,
}

impl fmt::Display for Tagged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, tid, comm } = self;
        write!(f, "process {pid}, thread {tid} ({comm}), has a core scheduling cookie")
    }
}

/// The first thread with a cookie, where that is dangerous; `root` is `/`, or a tree of a test's.
///
/// # Errors
/// It cannot be told.
pub fn tagged(root: &Path, cookies: &dyn Cookies) -> Result<Option<Tagged>> {
    let smt = std::fs::read_to_string(root.join("sys/devices/system/cpu/smt/active"));
    if smt.is_ok_and(|active| active.trim() == "0") {
        return Ok(None);
    }
    match cookies.of(0) {
        Ok(_) => {}
        // The kernel has none of it; it knows of no core with two threads.
        Err(libc::EINVAL | libc::ENODEV) => return Ok(None),
        Err(e) => bail!("core scheduling cookies cannot be read: {}", Error::from_raw_os_error(e)),
    }
    for (pid, tid) in threads(root)? {
        match cookies.of(tid) {
            Ok(0) | Err(libc::ESRCH) => {}
            Ok(_) => {
                let comm = std::fs::read(root.join(format!("proc/{pid}/task/{tid}/comm"))).unwrap_or_default();
                let comm = String::from_utf8_lossy(&comm).trim_end_matches('\n').to_owned();
                return Ok(Some(Tagged { pid, tid, comm }));
            }
            Err(e) => {
                let why = Error::from_raw_os_error(e);
                bail!("process {pid}, thread {tid}: its core scheduling cookie cannot be read: {why}")
            }
        }
    }
    Ok(None)
}

/// Refuses to begin where a thread has a cookie.
///
/// # Errors
/// One line that names it, or why it cannot be told, and the flag that accepts the risk.
pub fn check(root: &Path, cookies: &dyn Cookies) -> Result<()> {
    let found = tagged(root, cookies).with_context(|| format!("use {FLAG} to start anyway"))?;
    ensure!(
        found.is_none(),
        "{}: with SMT, this may hang the machine under any sched_ext scheduler; turn off core scheduling \
         where it is set, or SMT, or accept the risk with {FLAG}",
        found.as_ref().map(ToString::to_string).unwrap_or_default()
    );
    Ok(())
}

/// Why a host that is scheduled already must be left, unless the risk is `accepted`.
pub fn must_leave(accepted: bool, root: &Path, cookies: &dyn Cookies) -> Option<String> {
    if accepted {
        return None;
    }
    match tagged(root, cookies) {
        Ok(found) => found.map(|t| t.to_string()),
        Err(e) => Some(format!("{e:#}")),
    }
}

/// Process and thread of all there are. Those that end meanwhile are left out.
fn threads(root: &Path) -> Result<Vec<(u32, u32)>> {
    let proc = root.join("proc");
    let mut all = Vec::new();
    for pid in numbers(&proc)? {
        let tids = match numbers(&proc.join(pid.to_string()).join("task")) {
            Err(e) if e.kind() == ErrorKind::NotFound || e.raw_os_error() == Some(libc::ESRCH) => continue,
            tids => tids?,
        };
        all.extend(tids.into_iter().map(|tid| (pid, tid)));
    }
    Ok(all)
}

/// Names in a directory that are numbers, ascending.
fn numbers(dir: &Path) -> std::io::Result<Vec<u32>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        all.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    all.sort_unstable();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// What the kernel answers for 0, and for threads; those that are not named have no cookie.
    struct Fake(std::result::Result<u64, i32>, BTreeMap<u32, std::result::Result<u64, i32>>);

    impl Cookies for Fake {
        fn of(&self, tid: u32) -> std::result::Result<u64, i32> {
            if tid == 0 { self.0 } else { self.1.get(&tid).copied().unwrap_or(Ok(0)) }
        }
    }

    fn fake(all: &[(u32, std::result::Result<u64, i32>)]) -> Fake {
        Fake(Ok(0), all.iter().copied().collect())
    }

    /// Processes 7 (threads 7, 8) and 30; `smt`: what the file says.
    fn tree(smt: Option<&str>) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        file("proc/7/task/7/comm", "vmm\n");
        file("proc/7/task/8/comm", "vcpu0\n");
        file("proc/30/task/30/comm", "sh\n");
        file("proc/uptime", "1 1\n");
        file("proc/40/status", "it is about to end\n");
        smt.into_iter().for_each(|smt| file("sys/devices/system/cpu/smt/active", smt));
        root
    }

    fn found(smt: Option<&str>, cookies: &Fake) -> Option<u32> {
        tagged(tree(smt).path(), cookies).unwrap().map(|t| t.tid)
    }

    #[test]
    fn any_thread_of_any_process_counts() {
        for tid in [7, 8, 30] {
            assert_eq!(found(Some("1\n"), &fake(&[(tid, Ok(5))])), Some(tid));
        }
        assert_eq!(found(Some("1\n"), &fake(&[])), None);
        assert_eq!(found(Some("1\n"), &fake(&[(9, Ok(5))])), None, "it is not there");
        let two = tagged(tree(Some("1\n")).path(), &fake(&[(8, Ok(5)), (30, Ok(5))])).unwrap().unwrap();
        assert_eq!(two.to_string(), "process 7, thread 8 (vcpu0), has a core scheduling cookie");
    }

    #[test]
    fn it_is_dangerous_with_smt_only() {
        let cookies = fake(&[(8, Ok(5))]);
        assert_eq!(found(Some("0\n"), &cookies), None);
        assert_eq!(found(Some("1\n"), &cookies), Some(8));
        assert_eq!(found(None, &cookies), Some(8), "where the file is missing the kernel's answer counts");
    }

    #[test]
    fn a_kernel_without_it_has_no_cookies() {
        for error in [libc::EINVAL, libc::ENODEV] {
            let cookies = Fake(Err(error), [(8, Ok(5))].into());
            assert_eq!(found(Some("1\n"), &cookies), None, "{error}");
        }
    }

    #[test]
    fn what_cannot_be_told_is_refused_and_what_has_ended_is_not() {
        let denied = Fake(Err(libc::EPERM), BTreeMap::new());
        assert!(tagged(tree(Some("1\n")).path(), &denied).is_err());
        assert!(tagged(tree(Some("1\n")).path(), &fake(&[(8, Err(libc::EPERM))])).is_err());
        assert_eq!(found(Some("1\n"), &fake(&[(7, Err(libc::ESRCH)), (8, Ok(5))])), Some(8));
    }

    #[test]
    fn the_refusal_names_the_thread_and_the_flag() {
        let root = tree(Some("1\n"));
        let said = format!("{:#}", check(root.path(), &fake(&[(8, Ok(5))])).unwrap_err());
        assert!(
            said.starts_with("process 7, thread 8 (vcpu0)") && said.contains(FLAG) && !said.contains('\n'),
            "{said}"
        );
        let said = format!("{:#}", check(root.path(), &fake(&[(8, Err(libc::EPERM))])).unwrap_err());
        assert!(said.contains("thread 8") && said.contains(FLAG), "{said}");
        assert!(check(root.path(), &fake(&[])).is_ok());
    }

    /// Every thread has this cookie.
    struct All(std::result::Result<u64, i32>);

    impl Cookies for All {
        fn of(&self, _: u32) -> std::result::Result<u64, i32> {
            self.0
        }
    }

    #[test]
    fn it_leaves_when_a_cookie_appears_unless_that_is_accepted() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/7/task/8")).unwrap();
        let why = must_leave(false, root.path(), &All(Ok(1))).expect("a reason");
        assert!(why.starts_with("process 7, thread 8"), "{why}");
        assert!(must_leave(false, root.path(), &All(Err(libc::EPERM))).is_some());
        assert_eq!(must_leave(true, root.path(), &All(Ok(1))), None);
        assert_eq!(must_leave(false, root.path(), &All(Ok(0))), None);
        assert_eq!(must_leave(false, root.path(), &All(Err(libc::EINVAL))), None);
    }

    #[test]
    fn this_kernel_answers() {
        assert!(matches!(Kernel.of(0), Ok(_) | Err(libc::EINVAL | libc::ENODEV)), "{:?}", Kernel.of(0));
    }
}
