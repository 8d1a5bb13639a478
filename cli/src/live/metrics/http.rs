// SPDX-License-Identifier: GPL-2.0-only
//! As much of HTTP as a scrape needs. A client gets one answer, and is bounded in time and in what it may send.

use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Longest request, bytes.
const REQUEST: usize = 8 << 10;
/// Most headers of one.
const HEADERS: usize = 64;
/// Clients at a time.
const CLIENTS: usize = 8;
/// For a request, and for its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What `/metrics` is.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers from now on: to `GET /metrics` with `text`.
///
/// # Errors
/// There is no thread for it.
pub fn serve(listener: TcpListener, text: impl Fn() -> Result<String> + Send + Sync + 'static) -> Result<()> {
    let (text, clients) = (Arc::new(text), Arc::new(AtomicUsize::new(0)));
    let accept = move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Such as too many open files: others need time to close some.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let (text, mine) = (text.clone(), clients.clone());
            if clients.fetch_add(1, Ordering::SeqCst) >= CLIENTS {
                clients.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            let one = thread::Builder::new().spawn(move || {
                // A client that went away hears no answer.
                let _ = answer(&stream, &*text);
                mine.fetch_sub(1, Ordering::SeqCst);
            });
            if one.is_err() {
                clients.fetch_sub(1, Ordering::SeqCst);
            }
        }
    };
    thread::Builder::new().name("metrics".into()).spawn(accept).context("metrics")?;
    Ok(())
}

fn answer(mut stream: &TcpStream, text: &dyn Fn() -> Result<String>) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (status, kind, body) = match asked(stream)? {
        Asked::Metrics => match text() {
            Ok(text) => ("200 OK", OPEN_METRICS, text),
            Err(e) => ("500 Internal Server Error", "text/plain", format!("{e:#}\n")),
        },
        Asked::Else => ("404 Not Found", "text/plain", "metrics are at /metrics\n".into()),
        Asked::Method => ("405 Method Not Allowed", "text/plain", "only GET is answered\n".into()),
        Asked::Bad => ("400 Bad Request", "text/plain", "this is no request of HTTP\n".into()),
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Metrics,
    Else,
    Method,
    Bad,
}

/// Reads a request's head. A client that sends it byte by byte has no longer than another one.
fn asked(mut stream: &TcpStream) -> std::io::Result<Asked> {
    let (mut buffer, end) = (Vec::new(), Instant::now() + PATIENCE);
    loop {
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        let mut some = [0; 1024];
        let n = stream.read(&mut some)?;
        buffer.extend_from_slice(&some[..n]);
        if let Some(asked) = parse(&buffer) {
            return Ok(asked);
        }
        if n == 0 || buffer.len() >= REQUEST || Instant::now() >= end {
            return Ok(Asked::Bad);
        }
    }
}

/// `None`: the head is not whole yet.
fn parse(bytes: &[u8]) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => None,
        Err(_) => Some(Asked::Bad),
        Ok(httparse::Status::Complete(_)) => Some(match (request.method, request.path) {
            (Some("GET"), Some(path)) if path.split('?').next() == Some("/metrics") => Asked::Metrics,
            (Some("GET"), _) => Asked::Else,
            _ => Asked::Method,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_far_as_it_matters() {
        let of = |text: &str| parse(text.as_bytes());
        assert_eq!(of("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), Some(Asked::Metrics));
        assert_eq!(of("GET /metrics?all HTTP/1.0\r\n\r\n"), Some(Asked::Metrics));
        assert_eq!(of("GET / HTTP/1.1\r\n\r\n"), Some(Asked::Else));
        assert_eq!(of("POST /metrics HTTP/1.1\r\n\r\n"), Some(Asked::Method));
        assert_eq!(of("GET /metrics HTTP/1.1\r\nHost"), None);
        assert_eq!(of("\u{1}\u{2}\r\n\r\n"), Some(Asked::Bad));
        assert_eq!(of(&format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS + 1))), Some(Asked::Bad));
    }

    /// What a client gets for `request`.
    fn got(request: &[u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        serve(listener, || Ok("takt_up 1\n# EOF\n".into())).unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(request).unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_client_gets_one_answer() {
        let text = got(b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text;"), "{text}");
        assert!(text.contains("\r\nContent-Length: 16\r\n") && text.ends_with("\r\n\r\ntakt_up 1\n# EOF\n"), "{text}");
        assert!(got(b"GET /else HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(got(&[b'a'; REQUEST]).starts_with("HTTP/1.1 400 "));
    }
}
