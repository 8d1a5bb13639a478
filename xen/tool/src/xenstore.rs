// SPDX-License-Identifier: GPL-2.0-only
//! Xenstore: what domains are called, where their devices end, and which of them come and go. Written are only names of cpupools that
//! Takt makes, and what it is about to do to them.
//!
//! A request and its answer are a header of 16 bytes and a payload each, by the daemon's socket or, where it runs in
//! another domain, by a device of the kernel's. Each costs Dom0 two switches of processes, and who asks looks twice a second: so
//! answers are kept until the daemon says that something has changed.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{Error, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Where the daemon listens, and the device.
const SOCKETS: [&str; 2] = ["/run/xenstored/socket", "/var/run/xenstored/socket"];
const DEVICE: &str = "/dev/xen/xenbus";
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Changes at and below these paths are told: what the toolstack and the backends write, and guests cannot.
const WATCHED: [&str; 2] = ["/local/domain/0/backend/vif", "/libxl"];
/// What the daemon tells of domains: one has been made, or is about to go.
const DOMAINS: [&str; 2] = ["@introduceDomain", "@releaseDomain"];
/// How long an answer from elsewhere is kept, which is a domain's name.
const KEPT: Duration = Duration::from_secs(10);

/// `enum xsd_sockmsg_type`
const DIRECTORY: u32 = 1;
const READ: u32 = 2;
const WATCH: u32 = 4;
const WRITE: u32 = 11;
const RM: u32 = 13;
const WATCH_EVENT: u32 = 15;
const ERROR: u32 = 16;
const IS_DOMAIN_INTRODUCED: u32 = 17;
const DIRECTORY_PART: u32 = 20;
/// Most bytes of a payload.
const PAYLOAD: u32 = 4096;
/// Most bytes of a directory that comes in parts: no domain has so many devices.
const DIRECTORY_BYTES: usize = 1 << 20;
/// How often a directory that changes while it is read is read again.
const ATTEMPTS: u32 = 16;
/// Most messages about changes that may come before an answer.
const EVENTS: u32 = 1 << 16;

/// What is asked of xenstore.
pub trait Store: Send + Sync {
    /// The value at `path`; `None` if there is none.
    ///
    /// # Errors
    /// Xenstore does not answer, or refuses.
    fn read(&self, path: &str) -> Result<Option<String>>;

    /// The names below `path`; none if it is not there.
    ///
    /// # Errors
    /// Xenstore does not answer, or refuses.
    fn list(&self, path: &str) -> Result<Vec<String>>;

    /// Puts a value at `path`.
    ///
    /// # Errors
    /// Xenstore does not answer, or refuses.
    fn write(&self, path: &str, value: &str) -> Result<()>;

    /// Takes `path` away, and all below it, if it is there.
    ///
    /// # Errors
    /// Xenstore does not answer, or refuses.
    fn remove(&self, path: &str) -> Result<()>;

    /// Whether the toolstack has made all of a domain.
    ///
    /// # Errors
    /// Xenstore does not answer, or refuses.
    fn introduced(&self, domain: u16) -> Result<bool>;
}

/// What leads to the daemon.
pub trait Stream: Read + Write + AsFd + Send {}
impl<T: Read + Write + AsFd + Send> Stream for T {}

/// A connection.
pub struct Xenstore<S> {
    line: Mutex<Line<S>>,
}

/// Answers, by kind and path of the request.
type Answers = BTreeMap<(u32, String), Option<Vec<u8>>>;

struct Line<S> {
    stream: S,
    /// What has been answered since `since`, if changes are told.
    known: Option<Answers>,
    since: Instant,
}

/// Connects to the xenstore of this machine.
///
/// # Errors
/// One line that says where none was found.
pub fn connect() -> Result<Box<dyn Store>> {
    Ok(Box::new(Xenstore::new(stream(Some(PATIENCE))?).watching()))
}

/// Calls `tell` for each domain that has been made, or is about to go, until it says that it is enough.
///
/// # Errors
/// One line that says where no xenstore was found, or that it does not tell.
pub fn follow(tell: impl FnMut() -> bool + Send + 'static) -> Result<()> {
    Xenstore::new(stream(None)?).follow(tell)
}

/// An answer may take so long.
fn stream(patience: Option<Duration>) -> Result<Box<dyn Stream>> {
    for path in SOCKETS {
        if let Ok(stream) = UnixStream::connect(path) {
            stream.set_read_timeout(patience).and_then(|()| stream.set_write_timeout(patience))?;
            return Ok(Box::new(stream));
        }
    }
    if Path::new(DEVICE).exists() {
        return Ok(Box::new(OpenOptions::new().read(true).write(true).open(DEVICE).context(DEVICE)?));
    }
    bail!("xenstore does not answer: no process serves {} and there is no {DEVICE}", SOCKETS[0])
}

impl<S: Read + Write + AsFd> Line<S> {
    /// The next message: its kind and its payload.
    fn message(&mut self) -> Result<(u32, Vec<u8>)> {
        let mut header = [0; 16];
        self.stream.read_exact(&mut header)?;
        let word = |n: usize| u32::from_ne_bytes([header[n], header[n + 1], header[n + 2], header[n + 3]]);
        let (kind, len) = (word(0), word(12));
        ensure!(len <= PAYLOAD, "an answer of {len} bytes; allowed: 0 to {PAYLOAD}");
        let mut body = vec![0; len as usize];
        self.stream.read_exact(&mut body)?;
        if kind == WATCH_EVENT {
            self.forget();
        }
        Ok((kind, body))
    }

    fn forget(&mut self) {
        self.known.iter_mut().for_each(BTreeMap::clear);
        self.since = Instant::now();
    }

    /// Forgets what may have changed.
    fn refresh(&mut self) -> Result<()> {
        if self.since.elapsed() >= KEPT {
            self.forget();
        }
        for _ in 0..EVENTS {
            if self.known.is_none() || !self.is_told()? {
                return Ok(());
            }
            let (kind, _) = self.message()?;
            ensure!(kind == WATCH_EVENT, "an answer of kind {kind} to no request");
        }
        bail!("{EVENTS} changes reported without an end")
    }

    /// Whether there is a message.
    fn is_told(&self) -> Result<bool> {
        let mut fd = libc::pollfd { fd: self.stream.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, which is open.
        match unsafe { libc::poll(&raw mut fd, 1, 0) } {
            n if n >= 0 => Ok(n > 0),
            _ => Err(Error::last_os_error().into()),
        }
    }

    /// The answer to request `kind` about `words`, each of which ends by 0; `None`: there is nothing.
    fn ask(&mut self, kind: u32, words: &[&str]) -> Result<Option<Vec<u8>>> {
        self.ask_bytes(kind, words.iter().flat_map(|w| w.bytes().chain([0])).collect())
    }

    fn ask_bytes(&mut self, kind: u32, body: Vec<u8>) -> Result<Option<Vec<u8>>> {
        ensure!(body.len() <= PAYLOAD as usize, "a path of xenstore is too long");
        // In one piece: the device takes what one write brings for a message or a part of one.
        let header = [kind, 0, 0, body.len() as u32];
        let message: Vec<u8> = header.iter().flat_map(|n| n.to_ne_bytes()).chain(body).collect();
        self.stream.write_all(&message)?;
        for _ in 0..EVENTS {
            let (answer, body) = self.message()?;
            match answer {
                WATCH_EVENT => {}
                ERROR if body.starts_with(b"ENOENT") => return Ok(None),
                ERROR => bail!("{}", text(&body)),
                n if n == kind => return Ok(Some(body)),
                n => bail!("an answer of kind {n} to a request of kind {kind}"),
            }
        }
        bail!("{EVENTS} changes reported without an answer")
    }
}

impl<S: Read + Write + AsFd> Xenstore<S> {
    pub fn new(stream: S) -> Self {
        Self { line: Mutex::new(Line { stream, known: None, since: Instant::now() }) }
    }

    /// With answers kept, unless the daemon refuses to tell what changes.
    #[must_use]
    pub fn watching(self) -> Self {
        let told = WATCHED.iter().all(|path| self.ask(WATCH, &[path, path]).is_ok());
        self.line.lock().unwrap_or_else(PoisonError::into_inner).known = told.then(BTreeMap::new);
        self
    }

    /// Calls `tell` for domains that come and go, from a thread of its own.
    ///
    /// # Errors
    /// The daemon refuses to tell.
    pub fn follow(self, mut tell: impl FnMut() -> bool + Send + 'static) -> Result<()>
    where
        S: Send + 'static,
    {
        for path in DOMAINS {
            self.ask(WATCH, &[path, path]).with_context(|| format!("xenstore: {path}"))?;
        }
        let mut line = self.line.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Without a daemon there are no domains that come or go either.
        std::thread::spawn(move || while line.message().is_ok() && tell() {});
        Ok(())
    }

    /// Changes something, after which nothing is known.
    fn change(&self, kind: u32, body: Vec<u8>) -> Result<()> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.forget();
        line.ask_bytes(kind, body).map(drop)
    }

    fn ask(&self, kind: u32, words: &[&str]) -> Result<Option<Vec<u8>>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).ask(kind, words)
    }

    /// As [`Self::ask`], about one path, unless the answer is known.
    fn know(&self, kind: u32, path: &str) -> Result<Option<Vec<u8>>> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.refresh()?;
        let key = (kind, path.to_owned());
        if let Some(answer) = line.known.as_ref().and_then(|known| known.get(&key)) {
            return Ok(answer.clone());
        }
        let answer = line.ask(kind, &[path])?;
        // Nobody tells when a name comes.
        let told = answer.is_some() || WATCHED.iter().any(|top| path.starts_with(top));
        if let Some(known) = line.known.as_mut().filter(|_| told) {
            known.insert(key, answer.clone());
        }
        Ok(answer)
    }

    /// A directory that does not fit into one answer, part by part.
    fn parts(&self, path: &str) -> Result<Option<Vec<u8>>> {
        'again: for _ in 0..ATTEMPTS {
            let (mut all, mut generation) = (Vec::new(), None);
            loop {
                let Some(part) = self.ask(DIRECTORY_PART, &[path, &all.len().to_string()])? else { return Ok(None) };
                let end = part.iter().position(|b| *b == 0).context("a part of a directory without its generation")?;
                if *generation.get_or_insert_with(|| part[..end].to_vec()) != part[..end] {
                    continue 'again;
                }
                all.extend(&part[end + 1..]);
                ensure!(all.len() <= DIRECTORY_BYTES, "a directory of more than {DIRECTORY_BYTES} bytes");
                // The last part ends by an empty name.
                if all.is_empty() || all.ends_with(&[0, 0]) || part.len() == end + 1 {
                    return Ok(Some(all));
                }
            }
        }
        bail!("the directory changes at every read")
    }
}

impl<S: Read + Write + AsFd + Send> Store for Xenstore<S> {
    fn read(&self, path: &str) -> Result<Option<String>> {
        let value = self.know(READ, path).with_context(|| format!("xenstore: {path}"))?;
        Ok(value.map(|v| text(&v)))
    }

    fn list(&self, path: &str) -> Result<Vec<String>> {
        let names = match self.know(DIRECTORY, path) {
            Err(e) if e.to_string() == "E2BIG" => self.parts(path),
            other => other,
        };
        let names = names.with_context(|| format!("xenstore: {path}"))?.unwrap_or_default();
        Ok(names.split(|b| *b == 0).filter(|n| !n.is_empty()).map(text).collect())
    }

    fn write(&self, path: &str, value: &str) -> Result<()> {
        // The value ends with the message.
        self.change(WRITE, [path.as_bytes(), &[0], value.as_bytes()].concat())
            .with_context(|| format!("xenstore: {path}"))
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.change(RM, [path.as_bytes(), &[0]].concat()).with_context(|| format!("xenstore: {path}"))
    }

    fn introduced(&self, domain: u16) -> Result<bool> {
        let answer = self.ask(IS_DOMAIN_INTRODUCED, &[&domain.to_string()]).context("xenstore")?;
        Ok(answer.is_some_and(|a| a.starts_with(b"T")))
    }
}

/// What the daemon says as text; names go into messages of one line.
fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end_matches('\0').chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::JoinHandle;

    fn message(kind: u32, body: &[u8]) -> Vec<u8> {
        [kind, 0, 0, body.len() as u32].iter().flat_map(|n| n.to_ne_bytes()).chain(body.iter().copied()).collect()
    }

    /// A daemon that expects requests and answers them so.
    fn daemon(script: Vec<(Vec<u8>, Vec<u8>)>) -> (Xenstore<UnixStream>, JoinHandle<()>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let serve = move || {
            for (want, answer) in script {
                let mut got = vec![0; want.len()];
                theirs.read_exact(&mut got).unwrap();
                assert_eq!(got, want);
                theirs.write_all(&answer).unwrap();
            }
        };
        (Xenstore::new(ours), std::thread::spawn(serve))
    }

    #[test]
    fn values_and_directories() {
        let (store, served) = daemon(vec![
            (message(READ, b"/local/domain/1/name\0"), message(READ, b"voip")),
            (message(READ, b"/gone\0"), message(ERROR, b"ENOENT\0")),
            (message(DIRECTORY, b"/local/domain\0"), message(DIRECTORY, b"0\x001\0")),
            (message(DIRECTORY, b"/empty\0"), message(DIRECTORY, b"")),
            (message(DIRECTORY, b"/gone\0"), message(ERROR, b"ENOENT\0")),
        ]);
        assert_eq!(store.read("/local/domain/1/name").unwrap().as_deref(), Some("voip"));
        assert_eq!(store.read("/gone").unwrap(), None);
        assert_eq!(store.list("/local/domain").unwrap(), ["0", "1"]);
        assert!(store.list("/empty").unwrap().is_empty());
        assert!(store.list("/gone").unwrap().is_empty());
        served.join().unwrap();
    }

    #[test]
    fn watches_of_others_are_passed_over_and_refusals_told() {
        let answer = [message(WATCH_EVENT, b"/x\0token\0"), message(READ, b"1")].concat();
        let (store, served) = daemon(vec![
            (message(READ, b"/a\0"), answer),
            (message(READ, b"/b\0"), message(ERROR, b"EACCES\0")),
            (message(READ, b"/c\0"), message(DIRECTORY, b"")),
        ]);
        assert_eq!(store.read("/a").unwrap().as_deref(), Some("1"));
        assert_eq!(format!("{:#}", store.read("/b").unwrap_err()), "xenstore: /b: EACCES");
        assert!(format!("{:#}", store.read("/c").unwrap_err()).contains("an answer of kind 1"));
        served.join().unwrap();
        assert!(store.read("/d").is_err(), "the daemon has gone");
    }

    #[test]
    fn answers_are_kept_until_something_changes() {
        let watch = |path: &str| {
            let event = message(WATCH_EVENT, format!("{path}\0{path}\0").as_bytes());
            (message(WATCH, format!("{path}\0{path}\0").as_bytes()), [message(WATCH, b"OK\0"), event].concat())
        };
        let told = message(WATCH_EVENT, b"/libxl/3/device/vif\0/libxl\0");
        let (store, served) = daemon(vec![
            watch(WATCHED[0]),
            watch(WATCHED[1]),
            (message(READ, b"/libxl/1\0"), message(READ, b"a")),
            (message(READ, b"/libxl/2\0"), message(ERROR, b"ENOENT\0")),
            (message(READ, b"/name\0"), message(ERROR, b"ENOENT\0")),
            (message(READ, b"/name\0"), [message(READ, b"b"), told].concat()),
            (message(READ, b"/libxl/1\0"), message(READ, b"c")),
        ]);
        let store = store.watching();
        let read = |path: &str| store.read(path).unwrap();
        for _ in 0..2 {
            assert_eq!(read("/libxl/1").as_deref(), Some("a"));
            assert_eq!(read("/libxl/2"), None);
        }
        assert_eq!((read("/name"), read("/name").as_deref()), (None, Some("b")));
        // The daemon has written both at once.
        assert_eq!(read("/libxl/1").as_deref(), Some("c"));
        served.join().unwrap();
        assert!(store.read("/libxl/1").is_err(), "the daemon has gone");
    }

    #[test]
    fn what_is_written_is_not_remembered_as_it_was() {
        let watch = |path: &str| (message(WATCH, format!("{path}\0{path}\0").as_bytes()), message(WATCH, b"OK\0"));
        let (store, served) = daemon(vec![
            watch(WATCHED[0]),
            watch(WATCHED[1]),
            (message(READ, b"/a\0"), message(READ, b"1")),
            (message(WRITE, b"/a\x002"), message(WRITE, b"OK\0")),
            (message(READ, b"/a\0"), message(READ, b"2")),
            (message(RM, b"/a\0"), message(RM, b"OK\0")),
            (message(RM, b"/a\0"), message(ERROR, b"ENOENT\0")),
            (message(WRITE, b"/b\x003"), message(ERROR, b"EACCES\0")),
            (message(IS_DOMAIN_INTRODUCED, b"3\0"), message(IS_DOMAIN_INTRODUCED, b"T\0")),
            (message(IS_DOMAIN_INTRODUCED, b"4\0"), message(IS_DOMAIN_INTRODUCED, b"F\0")),
        ]);
        let store = store.watching();
        assert_eq!(store.read("/a").unwrap().as_deref(), Some("1"));
        store.write("/a", "2").unwrap();
        assert_eq!(store.read("/a").unwrap().as_deref(), Some("2"));
        store.remove("/a").unwrap();
        store.remove("/a").unwrap();
        assert_eq!(format!("{:#}", store.write("/b", "3").unwrap_err()), "xenstore: /b: EACCES");
        assert!(store.introduced(3).unwrap() && !store.introduced(4).unwrap());
        served.join().unwrap();
    }

    #[test]
    fn domains_that_come_and_go_are_told() {
        let watch = |path: &str, events: usize| {
            let body = format!("{path}\0{path}\0");
            let told = message(WATCH_EVENT, body.as_bytes()).repeat(events);
            (message(WATCH, body.as_bytes()), [message(WATCH, b"OK\0"), told].concat())
        };
        let (store, served) = daemon(vec![watch(DOMAINS[0], 0), watch(DOMAINS[1], 3)]);
        let (send, told) = std::sync::mpsc::channel();
        store.follow(move || send.send(()).is_ok()).unwrap();
        assert_eq!(told.iter().count(), 3, "and then the daemon has gone");
        served.join().unwrap();
        let (store, served) = daemon(vec![(watch(DOMAINS[0], 0).0, message(ERROR, b"EACCES\0"))]);
        assert!(format!("{:#}", store.follow(|| true).unwrap_err()).contains("@introduceDomain: EACCES"));
        served.join().unwrap();
    }

    #[test]
    fn large_directories_come_in_parts() {
        let part = |from: &str, body: &[u8]| {
            (message(DIRECTORY_PART, format!("/d\0{from}\0").as_bytes()), message(DIRECTORY_PART, body))
        };
        let (store, served) = daemon(vec![
            (message(DIRECTORY, b"/d\0"), message(ERROR, b"E2BIG\0")),
            part("0", b"7\0one\0two\0"),
            part("8", b"8\0three\0\0"),
            part("0", b"8\0one\0two\0"),
            part("8", b"8\0three\0\0"),
        ]);
        assert_eq!(store.list("/d").unwrap(), ["one", "two", "three"]);
        served.join().unwrap();
    }

    #[test]
    fn a_directory_without_an_end_is_refused() {
        let part = |from: usize, generation: u32, body: &[u8]| {
            let answer = [format!("{generation}\0").as_bytes(), body].concat();
            (message(DIRECTORY_PART, format!("/d\0{from}\0").as_bytes()), message(DIRECTORY_PART, &answer))
        };
        let large = (message(DIRECTORY, b"/d\0"), message(ERROR, b"E2BIG\0"));
        let name = [&[b'a'; 4000][..], &[0]].concat();
        let parts = DIRECTORY_BYTES / name.len() + 1;
        let script = std::iter::once(large.clone()).chain((0..parts).map(|i| part(i * name.len(), 1, &name)));
        let (store, served) = daemon(script.collect());
        assert!(format!("{:#}", store.list("/d").unwrap_err()).contains("more than 1048576 bytes"));
        served.join().unwrap();

        let changing = (0..ATTEMPTS).flat_map(|i| [part(0, 2 * i, b"a\0"), part(2, 2 * i + 1, b"a\0")]);
        let (store, served) = daemon(std::iter::once(large).chain(changing).collect());
        assert!(format!("{:#}", store.list("/d").unwrap_err()).contains("changes at every read"));
        served.join().unwrap();
    }

    #[test]
    fn a_name_of_several_lines_is_one_line() {
        let (store, served) = daemon(vec![(message(READ, b"/a\0"), message(READ, b"web\nb\x1b[2J\0"))]);
        assert_eq!(store.read("/a").unwrap().as_deref(), Some("web\u{fffd}b\u{fffd}[2J"));
        served.join().unwrap();
    }

    #[test]
    fn answers_that_are_none_end_it() {
        let mut long = message(READ, b"");
        long[12..16].copy_from_slice(&(PAYLOAD + 1).to_ne_bytes());
        let (store, served) = daemon(vec![(message(READ, b"/a\0"), long)]);
        assert!(format!("{:#}", store.read("/a").unwrap_err()).contains("allowed: 0 to 4096"));
        served.join().unwrap();
    }
    #[test]
    fn a_message_has_at_most_4096_bytes_each_way() {
        let path = format!("/{}", "p".repeat(4094));
        let request = message(READ, format!("{path}\0").as_bytes());
        let (store, served) = daemon(vec![(request, message(READ, &[b'v'; 4096]))]);
        assert_eq!(store.read(&path).unwrap().map(|v| v.len()), Some(4096));
        let error = format!("{:#}", store.read(&format!("{path}p")).unwrap_err());
        assert!(error.ends_with("a path of xenstore is too long"), "{error}");
        served.join().unwrap();
    }

    #[test]
    fn numbers_are_those_of_the_protocol() {
        let kinds = [DIRECTORY, READ, WATCH, WRITE, RM, WATCH_EVENT, ERROR, IS_DOMAIN_INTRODUCED, DIRECTORY_PART];
        assert_eq!(kinds, [1, 2, 4, 11, 13, 15, 16, 17, 20]);
        assert_eq!((PAYLOAD, DIRECTORY_BYTES, PATIENCE.as_secs(), KEPT.as_secs()), (4096, 1 << 20, 5, 10));
    }

    #[test]
    fn what_comes_unasked_is_told_from_an_answer() {
        let watch = |path: &str| (message(WATCH, format!("{path}\0{path}\0").as_bytes()), message(WATCH, b"OK\0"));
        let stray = [message(READ, b"1"), message(READ, b"stray")].concat();
        let (store, served) = daemon(vec![watch(WATCHED[0]), watch(WATCHED[1]), (message(READ, b"/a\0"), stray)]);
        let store = store.watching();
        assert_eq!(store.read("/a").unwrap().as_deref(), Some("1"));
        served.join().unwrap();
        assert_eq!(format!("{:#}", store.read("/a").unwrap_err()), "xenstore: /a: an answer of kind 2 to no request");
    }

    #[test]
    fn a_daemon_that_does_not_tell_is_asked_each_time() {
        let watch = format!("{0}\0{0}\0", WATCHED[0]);
        let (store, served) = daemon(vec![
            (message(WATCH, watch.as_bytes()), message(ERROR, b"EINVAL\0")),
            (message(READ, b"/libxl/1\0"), message(READ, b"a")),
            (message(READ, b"/libxl/1\0"), message(READ, b"b")),
        ]);
        let store = store.watching();
        let read = || store.read("/libxl/1").unwrap();
        assert_eq!((read().as_deref(), read().as_deref()), (Some("a"), Some("b")));
        served.join().unwrap();
    }

    #[test]
    fn the_last_part_of_a_directory_may_be_empty() {
        for (parts, want) in
            [(&[&b"7\0"[..]][..], &[][..]), (&[&b"7\0one\0"[..], b"7\0"], &["one"]), (&[&b"7\0one\0\0"[..]], &["one"])]
        {
            let mut script = vec![(message(DIRECTORY, b"/d\0"), message(ERROR, b"E2BIG\0"))];
            let mut at = 0;
            for part in parts {
                let request = message(DIRECTORY_PART, format!("/d\0{at}\0").as_bytes());
                script.push((request, message(DIRECTORY_PART, part)));
                at += part.len() - 2;
            }
            let (store, served) = daemon(script);
            assert_eq!(store.list("/d").unwrap(), want);
            served.join().unwrap();
        }
        let gone = vec![
            (message(DIRECTORY, b"/d\0"), message(ERROR, b"E2BIG\0")),
            (message(DIRECTORY_PART, b"/d\x000\0"), message(ERROR, b"ENOENT\0")),
        ];
        let (store, served) = daemon(gone);
        assert!(store.list("/d").unwrap().is_empty(), "it has gone meanwhile");
        served.join().unwrap();
    }
}
