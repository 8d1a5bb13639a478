// SPDX-License-Identifier: GPL-2.0-only
//! Boots of the hypervisor: each once, for all tests that look at it, and two at a time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, Mutex, OnceLock};
use takt_bpf_build::skip;

/// Machines at a time.
const SLOTS: usize = 2;
/// Real time that one may take, s: more than twice what it takes where the machine does nothing else; and one of a long test.
const PATIENCE: u32 = 900;
const LONG_PATIENCE: u32 = 3600;
/// Runs of one boot, by different randomness of the machine. Only a failure of the emulator itself, which boot.sh tells from one of what
/// it emulates, leads to another; the hypervisor gets no second chance.
const MACHINES: usize = 3;
/// boot.sh's exit status for that.
const EMULATOR_FAILED: i32 = 3;

/// A boot that is made when it is first asked for.
pub struct Shared {
    variant: &'static str,
    name: &'static str,
    /// Options of the hypervisor.
    xen: &'static str,
    /// The case and its options.
    case: &'static str,
    /// Whether dom0 has `takt`, the program.
    tool: bool,
    /// Whether the case is told which settings are others than as published.
    published: bool,
    patience: u32,
    boot: OnceLock<Boot>,
}

/// What is left of one.
pub struct Boot {
    pub name: &'static str,
    /// The serial console: the hypervisor, dom0, guests.
    pub console: String,
    pub log: PathBuf,
}

impl Shared {
    /// `variant` is what scripts/xen.sh builds.
    pub const fn new(variant: &'static str, name: &'static str, xen: &'static str, case: &'static str) -> Self {
        Self { variant, name, xen, case, tool: false, published: false, patience: PATIENCE, boot: OnceLock::new() }
    }

    /// The same with the option `lab.published`.
    pub const fn published(variant: &'static str, name: &'static str, xen: &'static str, case: &'static str) -> Self {
        let mut boot = Self::new(variant, name, xen, case);
        boot.published = true;
        boot
    }

    /// The same with `takt` in dom0.
    pub const fn with_tool(variant: &'static str, name: &'static str, xen: &'static str, case: &'static str) -> Self {
        let mut boot = Self::new(variant, name, xen, case);
        boot.tool = true;
        boot
    }

    /// The same for a long test.
    pub const fn long(variant: &'static str, name: &'static str, xen: &'static str, case: &'static str) -> Self {
        let mut boot = Self::new(variant, name, xen, case);
        boot.patience = LONG_PATIENCE;
        boot
    }

    /// Nothing where this machine cannot have one.
    pub fn get(&self) -> Option<&Boot> {
        match prepared().and_then(|()| self.takt()) {
            Ok(takt) => Some(self.boot.get_or_init(|| self.run(&takt))),
            Err(reason) => {
                skip("a boot of Xen", reason);
                None
            }
        }
    }

    /// The tool; no path if dom0 is to have none.
    fn takt(&self) -> Result<PathBuf, String> {
        if !self.tool {
            return Ok(PathBuf::new());
        }
        let programs = takt_lab::programs(env!("CARGO_BIN_EXE_takt-lab-init").as_ref(), &["takt"]);
        programs.map(|dir| dir.join("takt")).map_err(|e| format!("{e:#}"))
    }

    fn run(&self, takt: &Path) -> Boot {
        let _slot = Slot::take();
        let given = std::env::var("TAKT_QEMU_SEED").unwrap_or_else(|_| "1".into());
        let first: u32 = given.parse().unwrap_or_else(|e| panic!("TAKT_QEMU_SEED={given}: {e}"));
        for seed in (first..=u32::MAX).take(MACHINES) {
            match self.run_once(takt, seed) {
                Ok(boot) => return boot,
                Err(said) => println!("{}: machine seed {seed}: {said}; once more with the next", self.name),
            }
        }
        panic!("{}: the emulator failed {MACHINES} times; see {}", self.name, directory().display());
    }

    /// The case and its options: KEY=VALUE of each setting, with + between.
    fn options(&self) -> String {
        let settings = takt_policy::live(|p| p.xen).into_iter().map(|(p, _)| format!("{}={}", p.key, p.default));
        match self.published {
            true => format!("{} lab.published={}", self.case, settings.collect::<Vec<_>>().join("+")),
            false => self.case.to_owned(),
        }
    }

    /// What boot.sh said if the emulator failed.
    fn run_once(&self, takt: &Path, seed: u32) -> Result<Boot, String> {
        let log = directory().join(format!("{}.log", self.name));
        let start = std::time::Instant::now();
        let out = Command::new(root().join("xen/lab/boot.sh"))
            .arg(&log)
            .args([self.xen, &self.options()])
            .env("SECONDS_MAX", self.patience.to_string())
            .env("VARIANT", self.variant)
            .env("TAKT", takt)
            .env("TAKT_QEMU_SEED", seed.to_string())
            .output()
            .expect("xen/lab/boot.sh");
        let console = std::fs::read(&log).unwrap_or_default();
        let console = String::from_utf8_lossy(&console).replace('\r', "");
        println!("{}: {} s, console in {}", self.name, start.elapsed().as_secs(), log.display());
        let tail: Vec<_> = console.lines().rev().take(30).collect();
        let said = String::from_utf8_lossy(&out.stderr);
        if out.status.code() == Some(EMULATOR_FAILED) {
            return Err(said.trim_end().to_owned());
        }
        assert!(out.status.success(), "{}: {said}{}", self.name, tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        Ok(Boot { name: self.name, console, log })
    }
}

impl Boot {
    /// All that the case has checked went well, and the hypervisor has not complained.
    pub fn sound(&self, checks: usize) {
        let lines = |what: &str| self.console.lines().filter(|l| l.starts_with(what)).collect::<Vec<_>>();
        assert!(lines("LAB FAIL").is_empty(), "{}: {:#?}", self.name, lines("LAB FAIL"));
        let ok = lines("LAB ok").len();
        assert!(ok >= checks, "{}: {ok} checks were made, of at least {checks}", self.name);
        let bad = ["Assertion", "BUG", "WARN", "Panic", "panic", "FATAL", "Xen call trace", "leaves its pool"];
        let complaints: Vec<_> = self.console.lines().filter(|l| bad.iter().any(|b| l.contains(b))).collect();
        assert!(complaints.is_empty(), "{}: {complaints:#?}", self.name);
    }

    /// The files that dom0 emitted.
    pub fn files(&self) -> PathBuf {
        let dir = self.log.with_extension("files");
        std::fs::create_dir_all(&dir).expect("directory");
        let data = self.log.with_extension("log.data");
        let tar = Command::new("tar").arg("-C").arg(&dir).arg("-xzf").arg(&data).status().expect("tar");
        assert!(tar.success(), "{}: {tar}", data.display());
        dir
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn directory() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("xen");
    std::fs::create_dir_all(&dir).expect("directory");
    dir
}

/// The hypervisor is built, and dom0's packages and the emulator are there. That what is there does not build is no excuse.
fn prepared() -> Result<(), String> {
    static DONE: OnceLock<Result<(), String>> = OnceLock::new();
    DONE.get_or_init(|| {
        let cache = std::env::var_os("TAKT_CACHE").map_or_else(|| root().join("target/cache"), PathBuf::from);
        let script = |path: &str, argument: &std::ffi::OsStr| {
            let out = Command::new(root().join(path)).arg(argument).output().map_err(|e| format!("{path}: {e}"))?;
            let said = String::from_utf8_lossy(&out.stderr);
            let said = said.lines().last().unwrap_or("it says nothing").to_owned();
            assert!(out.status.code() != Some(1), "{path}: {said}");
            if out.status.success() { Ok(()) } else { Err(format!("{path}: {said}")) }
        };
        script("scripts/xen.sh", "lab".as_ref())?;
        script("scripts/xen.sh", "cost".as_ref())?;
        script("xen/lab/packages.sh", cache.as_ref())
    })
    .clone()
}

/// One of the machines that may run now.
struct Slot;

static TAKEN: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

impl Slot {
    fn take() -> Self {
        let taken = TAKEN.lock().unwrap_or_else(|e| e.into_inner());
        *FREED.wait_while(taken, |n| *n >= SLOTS).unwrap_or_else(|e| e.into_inner()) += 1;
        Self
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(|e| e.into_inner()) -= 1;
        FREED.notify_one();
    }
}

/// boot.sh takes the emulator for broken by flags that no CPU has, and by no others.
#[test]
fn flags_that_no_cpu_has() {
    let script = include_str!("../../../xen/lab/boot.sh");
    let pattern = script.lines().find_map(|l| l.strip_prefix("impossible='")?.strip_suffix('\'')).expect("the pattern");
    let impossible = |line: &str| {
        let grep = format!("printf '%s\\n' '{line}' | grep -aqE '{pattern}'");
        Command::new("sh").args(["-c", &grep]).status().expect("sh").success()
    };
    for broken in ["RIP=ffff RFL=06000246 [---Z-P-]", "EFLAGS: 06010402", "(XEN) RFLAGS: 0000000000400246"] {
        assert!(impossible(broken), "{broken}");
    }
    // The highest flag of all is ID, bit 21.
    for whole in ["RIP=ffff RFL=00200246 [---Z-P-]", "EFLAGS: 00010246", "(XEN) RFLAGS: 0000000000250246"] {
        assert!(!impossible(whole), "{whole}");
    }
}
