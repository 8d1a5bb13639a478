// SPDX-License-Identifier: GPL-2.0-only
//! Xenstore, read only: what domains are called and where their devices end.
//!
//! A request and its answer are a header of 16 bytes and a payload each, by the daemon's socket or, where it runs in
//! another domain, by a device of the kernel's.

use anyhow::{Context, Result, bail, ensure};
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Where the daemon listens, and the device.
const SOCKETS: [&str; 2] = ["/run/xenstored/socket", "/var/run/xenstored/socket"];
const DEVICE: &str = "/dev/xen/xenbus";
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// `enum xsd_sockmsg_type`
const DIRECTORY: u32 = 1;
const READ: u32 = 2;
const WATCH_EVENT: u32 = 15;
const ERROR: u32 = 16;
const DIRECTORY_PART: u32 = 20;
/// Most bytes of a payload.
const PAYLOAD: u32 = 4096;

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
}

/// A connection.
pub struct Xenstore<S> {
    stream: Mutex<S>,
}

/// Connects to the xenstore of this machine.
///
/// # Errors
/// One line that says where none was found.
pub fn connect() -> Result<Box<dyn Store>> {
    for path in SOCKETS {
        if let Ok(stream) = UnixStream::connect(path) {
            stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE)))?;
            return Ok(Box::new(Xenstore::new(stream)));
        }
    }
    if Path::new(DEVICE).exists() {
        let device = OpenOptions::new().read(true).write(true).open(DEVICE).context(DEVICE)?;
        return Ok(Box::new(Xenstore::new(device)));
    }
    bail!("xenstore does not answer: nobody serves {} and there is no {DEVICE}", SOCKETS[0])
}

impl<S: Read + Write> Xenstore<S> {
    pub fn new(stream: S) -> Self {
        Self { stream: Mutex::new(stream) }
    }

    /// The answer to request `kind` about `words`, each of which ends by 0; `None`: there is nothing.
    fn ask(&self, kind: u32, words: &[&str]) -> Result<Option<Vec<u8>>> {
        let body: Vec<u8> = words.iter().flat_map(|w| w.bytes().chain([0])).collect();
        ensure!(body.len() <= PAYLOAD as usize, "a path of xenstore is too long");
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        // In one piece: the device takes what one write brings for a message or a part of one.
        let header = [kind, 0, 0, body.len() as u32];
        let message: Vec<u8> = header.iter().flat_map(|n| n.to_ne_bytes()).chain(body).collect();
        stream.write_all(&message)?;
        loop {
            let mut header = [0; 16];
            stream.read_exact(&mut header)?;
            let word = |n: usize| u32::from_ne_bytes([header[n], header[n + 1], header[n + 2], header[n + 3]]);
            let (answer, len) = (word(0), word(12));
            ensure!(len <= PAYLOAD, "an answer of {len} bytes, allowed 0..={PAYLOAD}");
            let mut body = vec![0; len as usize];
            stream.read_exact(&mut body)?;
            match answer {
                WATCH_EVENT => {}
                ERROR if body.starts_with(b"ENOENT") => return Ok(None),
                ERROR => bail!("{}", text(&body)),
                n if n == kind => return Ok(Some(body)),
                n => bail!("an answer of kind {n} to a request of kind {kind}"),
            }
        }
    }

    /// A directory that does not fit into one answer, part by part.
    fn parts(&self, path: &str) -> Result<Option<Vec<u8>>> {
        'again: loop {
            let (mut all, mut generation) = (Vec::new(), None);
            loop {
                let Some(part) = self.ask(DIRECTORY_PART, &[path, &all.len().to_string()])? else { return Ok(None) };
                let end = part.iter().position(|b| *b == 0).context("a part of a directory without its generation")?;
                if *generation.get_or_insert_with(|| part[..end].to_vec()) != part[..end] {
                    continue 'again;
                }
                all.extend(&part[end + 1..]);
                // The last part ends by an empty name.
                if all.is_empty() || all.ends_with(&[0, 0]) || part.len() == end + 1 {
                    return Ok(Some(all));
                }
            }
        }
    }
}

impl<S: Read + Write + Send> Store for Xenstore<S> {
    fn read(&self, path: &str) -> Result<Option<String>> {
        let value = self.ask(READ, &[path]).with_context(|| format!("xenstore: {path}"))?;
        Ok(value.map(|v| text(&v)))
    }

    fn list(&self, path: &str) -> Result<Vec<String>> {
        let names = match self.ask(DIRECTORY, &[path]) {
            Err(e) if e.to_string() == "E2BIG" => self.parts(path),
            other => other,
        };
        let names = names.with_context(|| format!("xenstore: {path}"))?.unwrap_or_default();
        Ok(names.split(|b| *b == 0).filter(|n| !n.is_empty()).map(text).collect())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
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
    fn answers_that_are_none_end_it() {
        let mut long = message(READ, b"");
        long[12..16].copy_from_slice(&(PAYLOAD + 1).to_ne_bytes());
        let (store, served) = daemon(vec![(message(READ, b"/a\0"), long)]);
        assert!(format!("{:#}", store.read("/a").unwrap_err()).contains("allowed 0..=4096"));
        served.join().unwrap();
    }
}
