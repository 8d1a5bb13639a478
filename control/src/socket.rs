// SPDX-License-Identifier: GPL-2.0-only
//! The control socket of a running Takt: one JSON object a line each way, for root only
//! (docs/json.md).
//!
//! A thread a client reads requests and hands them to the owner of the scheduler, which answers between two looks at its
//! host: a client that hangs keeps nobody else waiting.

use crate::document::{self, Document, TAKT, Versioned};
use anyhow::{Context, Result, anyhow, bail, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Where it is unless one says otherwise.
pub const PATH: &str = "/run/takt.sock";
/// Longest request, bytes.
const REQUEST: u64 = 64 << 10;
/// Clients at a time.
const CLIENTS: usize = 16;
/// How long a client may take to write a request or to read an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a client that waits for its answer is looked after.
const LOOK: Duration = Duration::from_millis(100);

/// What a client may ask for. Each request names the version that the client speaks; the answer is
/// in that version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// All that is known of the host and its VMs.
    Status {
        /// Linux: waits of VMs with their buckets.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        histograms: bool,
    },
    /// Sets values of a VM, or of the policy.
    Set {
        /// Name of the VM; without it, parameters of the policy are set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vm: Option<String>,
        /// `key=value` each, as `takt set` takes them.
        values: Vec<String>,
    },
    /// Linux: what was set is in the file of `--config` now: reads it again. From then on the file says these values.
    Saved {
        /// Name of the VM; without it, parameters of the policy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vm: Option<String>,
        /// The keys that the file says now.
        keys: Vec<String>,
    },
    /// Records until so long or so much is reached, or the client closes its half of the
    /// connection.
    Record {
        /// Absolute path.
        file: PathBuf,
        /// Longest time, ms.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
        /// Most operations.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operations: Option<u64>,
    },
    /// Linux: what a VM waited for.
    Why {
        /// Its name; it may have ended.
        vm: String,
        /// From how long ago, ms.
        since_ms: u64,
    },
    /// Counts what decisions and switches take.
    Overhead {
        /// Begins to count; or ends it, and answers with what was counted.
        on: bool,
    },
}

impl Document for Request {
    const NAME: &'static str = "request";
    const VERSION: u32 = 1;
}

/// A request with the way back.
pub struct Asked {
    pub request: Request,
    answer: mpsc::Sender<Result<Value>>,
    /// The client has said that it has enough, or has gone.
    pub enough: Arc<AtomicBool>,
}

impl Asked {
    /// Answers; a client that has gone does not hear it.
    pub fn answer(self, answer: Result<Value>) {
        let _ = self.answer.send(answer);
    }
}

/// The answer to a request, in the version that the request names.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Answer {
    /// What was asked for: a document, or an empty object where there is nothing to say.
    Ok(Value),
    /// One line; nothing was changed.
    Error(String),
}

/// The schema of an answer.
#[must_use]
pub fn answer_schema() -> Value {
    document::root::<Answer>("takt: answer")
}

/// The socket while it is there; dropping it takes it away.
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Takes `path`. One that nobody serves any more is replaced.
    ///
    /// # Errors
    /// Another Takt serves it, or it cannot be made.
    pub fn bind(path: &Path) -> Result<Self> {
        let what = || format!("control socket {}", path.display());
        if let Ok(there) = path.symlink_metadata() {
            ensure!(there.file_type().is_socket(), "{}: exists and is not a socket", what());
            ensure!(UnixStream::connect(path).is_err(), "{}: another Takt is running", what());
            std::fs::remove_file(path).with_context(what)?;
        }
        let listener = UnixListener::bind(path).with_context(what)?;
        let socket = Self { listener, path: path.to_owned() };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).with_context(what)?;
        Ok(socket)
    }

    /// Hands what clients ask to `hand`, from threads of its own.
    ///
    /// # Errors
    /// The listener cannot be shared.
    pub fn serve(&self, hand: impl Fn(Asked) -> bool + Send + Sync + 'static) -> Result<()> {
        let listener = self.listener.try_clone().context("control socket")?;
        let (hand, clients) = (Arc::new(hand), Arc::new(AtomicUsize::new(0)));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    std::thread::sleep(LOOK); // out of descriptors, perhaps
                    continue;
                };
                let (hand, clients) = (hand.clone(), clients.clone());
                if clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS {
                    clients.fetch_sub(1, Ordering::Relaxed);
                    tell(&stream, &Answer::Error(format!("too many clients; allowed: at most {CLIENTS}")));
                    continue;
                }
                std::thread::spawn(move || {
                    serve_one(&stream, &*hand);
                    clients.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Ok(())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve_one(stream: &UnixStream, hand: &dyn Fn(Asked) -> bool) {
    if let Err(e) = allowed(stream) {
        return tell(stream, &Answer::Error(format!("{e:#}")));
    }
    let _ = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    let mut input = BufReader::new(stream);
    loop {
        let request = match next_request(&mut input) {
            Ok(None) => return,
            Ok(Some(request)) => request,
            Err(e) => return tell(stream, &Answer::Error(format!("{e:#}"))),
        };
        let answer = match request.and_then(|request| ask_owner(stream, request, hand)) {
            Ok(value) => Answer::Ok(value),
            Err(e) => Answer::Error(format!("{e:#}")),
        };
        tell(stream, &answer);
    }
}

/// Root, and who serves it (who is root but in tests).
fn allowed(stream: &UnixStream) -> Result<()> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut size = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: the value lives through the call and has the size that is given.
    let failed = unsafe {
        let value = (&raw mut peer).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, value, &mut size)
    };
    // SAFETY: no arguments, cannot fail.
    let own = unsafe { libc::geteuid() };
    ensure!(failed == 0 && may_ask(peer.uid, own), "only root may control Takt");
    Ok(())
}

fn may_ask(peer: u32, own: u32) -> bool {
    peer == 0 || peer == own
}

/// The next request of a client: `None` where the input ends. The inner error is of this request alone.
///
/// # Errors
/// The input ends within a request, or a request is too long: nothing after it can be understood.
pub fn next_request(input: &mut impl BufRead) -> Result<Option<Result<Request>>> {
    Ok(read_line(input)?.map(|line| parse(&line)))
}

/// A request in a version that this Takt speaks.
fn parse(line: &[u8]) -> Result<Request> {
    // A text in it may have line breaks, which an answer may not.
    let malformed = |e: serde_json::Error| anyhow!("malformed request: {}", crate::printable(&e.to_string()));
    let mut fields: Map<String, Value> = serde_json::from_slice(line).map_err(malformed)?;
    let version = fields.remove("version");
    if version != Some(Request::VERSION.into()) {
        let named = match version {
            None => "no version".to_owned(),
            Some(Value::Number(n)) => format!("version {n}"),
            Some(_) => "a version that is no number".to_owned(),
        };
        bail!(
            "this Takt ({TAKT}) speaks version {} of the control socket's protocol, the request names {named}",
            Request::VERSION
        );
    }
    fields.remove("takt");
    serde_json::from_value(Value::Object(fields)).map_err(malformed)
}

/// A line without its end; `None` where the input ends.
fn read_line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    match input.take(REQUEST + 1).read_until(b'\n', &mut line) {
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => bail!("no request in time"),
        Err(e) => return Err(e).context("control socket"),
        Ok(0) => return Ok(None),
        Ok(_) => {}
    }
    if line.last() != Some(&b'\n') {
        ensure!(line.len() as u64 <= REQUEST, "a request may have at most {REQUEST} bytes");
        bail!("malformed request: it does not end with a line break");
    }
    line.pop();
    Ok(Some(line))
}

/// Hands the request over and waits, with an eye on the client.
fn ask_owner(stream: &UnixStream, request: Request, hand: &dyn Fn(Asked) -> bool) -> Result<Value> {
    let (answer, receive) = mpsc::channel();
    let enough = Arc::new(AtomicBool::new(false));
    ensure!(hand(Asked { request, answer, enough: enough.clone() }), "Takt is shutting down");
    loop {
        match receive.recv_timeout(LOOK) {
            Ok(answer) => return answer,
            Err(mpsc::RecvTimeoutError::Disconnected) => bail!("Takt is shutting down"),
            Err(mpsc::RecvTimeoutError::Timeout) if ended(stream) => enough.store(true, Ordering::Relaxed),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Whether the client has closed its half.
fn ended(stream: &UnixStream) -> bool {
    let mut byte = [0u8];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: one byte of a buffer of one.
    unsafe { libc::recv(stream.as_raw_fd(), byte.as_mut_ptr().cast(), 1, flags) == 0 }
}

fn tell(mut stream: &UnixStream, answer: &Answer) {
    let Ok(mut line) = serde_json::to_vec(answer) else { return };
    line.push(b'\n');
    let _ = stream.write_all(&line);
}

/// A connection to the Takt that serves `path`.
pub struct Client {
    stream: UnixStream,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// One line that says whether nobody serves it or one may not.
    pub fn connect(path: &Path) -> Result<Self> {
        let stream = UnixStream::connect(path).map_err(|e| match e.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                anyhow!("Takt is not running (no process serves {}); start it with `takt run`", path.display())
            }
            ErrorKind::PermissionDenied => anyhow!("{}: only root may control Takt", path.display()),
            _ => anyhow!(e).context(path.display().to_string()),
        })?;
        Ok(Self { stream })
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// What the other side says, or that it has gone.
    pub fn ask(&self, request: &Request) -> Result<Value> {
        let mut line = serde_json::to_vec(&Versioned::from(request))?;
        line.push(b'\n');
        (&self.stream).write_all(&line).context("control socket")?;
        let mut answer = String::new();
        BufReader::new(&self.stream).read_line(&mut answer).context("control socket")?;
        ensure!(!answer.is_empty(), "Takt has ended");
        match serde_json::from_str(&answer).context("control socket")? {
            Answer::Ok(value) => Ok(value),
            Answer::Error(text) => bail!(text),
        }
    }

    /// The connection to end a recording by: see [`Request::Record`].
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn stream(&self) -> Result<UnixStream> {
        self.stream.try_clone().context("control socket")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Vec<u8> {
        b"{\"version\":1,\"do\":\"status\"}\n".to_vec()
    }

    /// A client's end of a connection that is served here with `hand`; what the client has written before.
    fn serve(written: &[u8], hand: &dyn Fn(&UnixStream, Asked) -> bool) -> String {
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(written).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        serve_one(&server, &|asked| hand(&server, asked));
        drop(server);
        let mut said = String::new();
        client.read_to_string(&mut said).unwrap();
        said
    }

    #[test]
    fn a_client_has_ten_seconds_each_way() {
        let said = serve(&status(), &|stream, asked| {
            let ten = Some(Duration::from_secs(10));
            let limits = (stream.read_timeout().unwrap(), stream.write_timeout().unwrap());
            asked.answer(if limits == (ten, ten) { Ok(Value::Null) } else { Err(anyhow!("{limits:?}")) });
            true
        });
        assert_eq!(said, "{\"ok\":null}\n");
        let (_silent, server) = UnixStream::pair().unwrap();
        server.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let error = next_request(&mut BufReader::new(&server)).unwrap_err();
        assert_eq!(error.to_string(), "no request in time");
    }

    #[test]
    fn an_owner_that_ends_says_so() {
        assert_eq!(serve(&status(), &|_, _| false), "{\"error\":\"Takt is shutting down\"}\n", "it takes no request");
        assert_eq!(serve(&status(), &|_, _| true), "{\"error\":\"Takt is shutting down\"}\n", "it has dropped one");
    }

    #[test]
    fn a_request_has_at_most_64_kib() {
        // So many bytes, without the end of the line.
        let request = |bytes: usize| {
            let values = "x".repeat(bytes - 38);
            format!("{{\"version\":1,\"do\":\"set\",\"values\":[\"{values}\"]}}\n")
        };
        assert_eq!(request(100).len(), 101);
        let read = |text: &str| next_request(&mut text.as_bytes());
        assert!(read(&request(65_536)).unwrap().unwrap().is_ok());
        for long in [request(65_537), request(65_537).trim_end().into(), request(200_000)] {
            assert_eq!(read(&long).unwrap_err().to_string(), "a request may have at most 65536 bytes");
        }
        let cut = request(65_536);
        let error = read(cut.trim_end()).unwrap_err().to_string();
        assert_eq!(error, "malformed request: it does not end with a line break");
        assert!(read("").unwrap().is_none() && read("\n").unwrap().unwrap().is_err());
        let two = request(65_536) + "{\"version\":1,\"do\":\"status\"}\n";
        let mut input = two.as_bytes();
        next_request(&mut input).unwrap().unwrap().unwrap();
        assert_eq!(
            next_request(&mut input).unwrap().unwrap().unwrap(),
            Request::Status { histograms: false },
            "the next one is whole"
        );
    }

    #[test]
    fn a_peer_is_root_or_who_serves() {
        for (peer, own, want) in [(0, 0, true), (0, 7, true), (7, 7, true), (7, 0, false), (8, 7, false)] {
            assert_eq!(may_ask(peer, own), want, "{peer} of {own}");
        }
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(allowed(&one).is_ok(), "this process");
    }

    #[test]
    fn a_client_that_has_closed_its_half_has_enough() {
        let (client, server) = UnixStream::pair().unwrap();
        assert!(!ended(&server), "it is silent");
        (&client).write_all(b"x").unwrap();
        assert!(!ended(&server), "it says something");
        let mut byte = [0];
        (&server).read_exact(&mut byte).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(ended(&server));
        assert_eq!(byte, *b"x", "to look takes nothing away");
    }
}
