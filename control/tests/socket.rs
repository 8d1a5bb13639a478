// SPDX-License-Identifier: GPL-2.0-only
//! The control socket with a host that only pretends to be one.

use anyhow::anyhow;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use takt_control::document::{TAKT, Versioned};
use takt_control::socket::{Asked, Client, Request, Socket, next_request};

/// A socket whose requests `answer` serves, one after the other.
fn serve(answer: impl Fn(Asked) + Send + 'static) -> (tempfile::TempDir, PathBuf, Socket) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("takt.sock");
    let socket = Socket::bind(&path).unwrap();
    let (send, receive) = channel();
    socket.serve(move |asked| send.send(asked).is_ok()).unwrap();
    std::thread::spawn(move || receive.into_iter().for_each(answer));
    (dir, path, socket)
}

/// Knows one VM.
fn fake(asked: Asked) {
    let answer = match &asked.request {
        Request::Status { .. } => Ok(json!({"vms": ["web"]})),
        Request::Set { vm: Some(vm), .. } if vm != "web" => Err(anyhow!("no VM `{vm}`; known: web")),
        Request::Set { .. } | Request::Saved { .. } => Ok(json!({})),
        Request::Overhead { on } => Ok(json!({"on": on})),
        Request::Why { vm, since_ms } => Ok(json!({"vm": vm, "since_ms": since_ms})),
        Request::Record { .. } => {
            // Until the client has enough.
            while !asked.enough.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            Ok(json!({"operations": 1}))
        }
    };
    asked.answer(answer);
}

/// Writes `bytes` and reads one line.
fn raw(path: &PathBuf, bytes: &[u8]) -> Value {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(bytes).unwrap();
    let _ = stream.shutdown(Shutdown::Write);
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn requests_are_answered() {
    let (_dir, path, _socket) = serve(fake);
    let client = Client::connect(&path).unwrap();
    assert_eq!(client.ask(&Request::Status { histograms: false }).unwrap(), json!({"vms": ["web"]}));
    assert_eq!(client.ask(&Request::Overhead { on: true }).unwrap(), json!({"on": true}));
    let why = Request::Why { vm: "web".into(), since_ms: 5 };
    assert_eq!(client.ask(&why).unwrap(), json!({"vm": "web", "since_ms": 5}));
    let set = |vm: &str| Request::Set { vm: Some(vm.into()), values: vec!["weight=1".into()] };
    client.ask(&set("web")).unwrap();
    assert_eq!(client.ask(&set("x")).unwrap_err().to_string(), "no VM `x`; known: web");
    assert_eq!(raw(&path, b"{\"version\":1,\"do\":\"status\"}\n"), json!({"ok": {"vms": ["web"]}}));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn malformed_requests_are_refused_one_by_one() {
    let (_dir, path, _socket) = serve(fake);
    let long = [vec![b'x'; 70_000], b"\n".to_vec()].concat();
    for (bytes, want) in [
        (&b"hello\n"[..], "malformed request"),
        (b"{\"version\":1,\"do\":\"reboot\"}\n", "unknown variant `reboot`"),
        (b"{\"version\":1,\"do\":\"status\",\"x\":1}\n", "unknown field `x`"),
        (b"{\"version\":1,\"do\":\"set\"}\n", "missing field `values`"),
        (b"\xff\xfe\n", "malformed request"),
        (b"{\"do\":\"status\"}", "does not end with a line break"),
        (&long, "at most 65536 bytes"),
    ] {
        let answer = raw(&path, bytes);
        assert!(answer["error"].as_str().is_some_and(|e| e.contains(want)), "{want}: {answer}");
    }
    // The next request of the same client is a new one.
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"?\n{\"version\":1,\"do\":\"status\"}\n").unwrap();
    let lines: Vec<String> = BufReader::new(stream).lines().take(2).map(Result::unwrap).collect();
    assert!(lines[0].contains("error") && lines[1].contains("ok"), "{lines:?}");
}

/// A request of another version, and one of a client that knows no versions, are answered by one
/// line that names both; so is the next one of that client, if it has the right version.
#[test]
fn other_versions_are_told_both() {
    let (_dir, path, _socket) = serve(fake);
    for (version, named) in [
        ("", "no version"),
        ("\"version\":0,", "version 0"),
        ("\"version\":2,", "version 2"),
        ("\"version\":1.5,", "version 1.5"),
        ("\"version\":\"1\",", "a version that is no number"),
        ("\"version\":null,", "a version that is no number"),
    ] {
        let answer = raw(&path, format!("{{{version}\"do\":\"status\",\"later\":[1]}}\n").as_bytes());
        let protocol = "version 1 of the control socket's protocol";
        let want = format!("this Takt ({TAKT}) speaks {protocol}, the request names {named}");
        assert_eq!(answer, json!({"error": want}));
    }
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"{\"do\":\"status\"}\n{\"version\":1,\"takt\":\"9.9\",\"do\":\"status\"}\n").unwrap();
    let lines: Vec<String> = BufReader::new(stream).lines().take(2).map(Result::unwrap).collect();
    assert!(lines[0].starts_with("{\"error\":\"this Takt") && lines[1] == "{\"ok\":{\"vms\":[\"web\"]}}", "{lines:?}");
}

#[test]
fn a_client_that_hangs_keeps_nobody_waiting() {
    let (_dir, path, _socket) = serve(fake);
    let mut silent = UnixStream::connect(&path).unwrap();
    silent.write_all(b"{\"do\":").unwrap();
    Client::connect(&path).unwrap().ask(&Request::Status { histograms: false }).unwrap();
    // Too many of them are sent away.
    let hanging: Vec<_> = (0..40).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let mut text = String::new();
    (&hanging[39]).read_to_string(&mut text).unwrap();
    assert!(text.contains("too many clients"), "{text}");
}

#[test]
fn a_recording_ends_when_its_client_has_enough() {
    let (_dir, path, _socket) = serve(fake);
    let client = Client::connect(&path).unwrap();
    let stream = client.stream().unwrap();
    let ending = std::thread::spawn(move || stream.shutdown(Shutdown::Write));
    let answer = client.ask(&Request::Record { file: "/x".into(), duration_ms: None, operations: None });
    // Whether the half was closed before or after the request was written.
    assert!(answer.is_err() || answer.unwrap() == json!({"operations": 1}));
    ending.join().unwrap().unwrap();
}

#[test]
fn one_takt_only_and_no_other_file_is_replaced() {
    let (dir, path, socket) = serve(fake);
    let refused = |path: &PathBuf| Socket::bind(path).err().map(|e| format!("{e:#}")).unwrap_or_default();
    assert!(refused(&path).contains("another Takt is running"));
    drop(socket);
    assert!(!path.exists());
    let error = Client::connect(&path).err().unwrap().to_string();
    assert!(error.contains("Takt is not running"), "{error}");
    let file = dir.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    assert!(refused(&file).contains("is not a socket"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    // What one that was killed has left behind is replaced.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    Socket::bind(&path).unwrap();
}

/// Each request as it is written, with its values in their places; what may be left out is nothing.
#[test]
fn requests_have_one_form() {
    let read = |text: &str| next_request(&mut format!("{text}\n").as_bytes()).unwrap().unwrap();
    let words = |list: &[&str]| list.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    let set = |vm: Option<&str>, values: &[&str]| Request::Set { vm: vm.map(Into::into), values: words(values) };
    let record = |duration_ms, operations| Request::Record { file: "/x".into(), duration_ms, operations };
    for (text, want) in [
        (r#"{"version":1,"do":"status"}"#, Request::Status { histograms: false }),
        (r#"{"version":1,"do":"set","vm":"a","values":["cap=1","weight=2"]}"#, set(Some("a"), &["cap=1", "weight=2"])),
        (r#"{"version":1,"do":"set","values":[]}"#, set(None, &[])),
        (r#"{"version":1,"do":"record","file":"/x","duration_ms":5,"operations":6}"#, record(Some(5), Some(6))),
        (r#"{"version":1,"do":"record","file":"/x"}"#, record(None, None)),
        (r#"{"version":1,"do":"overhead","on":true}"#, Request::Overhead { on: true }),
        (r#"{"version":1,"do":"overhead","on":false}"#, Request::Overhead { on: false }),
        (r#"{"version":1,"do":"why","vm":"a","since_ms":60000}"#, Request::Why { vm: "a".into(), since_ms: 60_000 }),
    ] {
        assert_eq!(read(text).unwrap(), want, "{text}");
        let again = serde_json::to_string(&Versioned::from(&want)).unwrap();
        assert_eq!(read(&again).unwrap(), want, "{again}");
    }
    for text in [
        r#"{"version":1,"do":"overhead"}"#,
        r#"{"version":1,"do":"record"}"#,
        r#"{"version":1,"do":"set","vm":1,"values":[]}"#,
        r#"{"version":1,"do":"Status"}"#,
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}

/// Sixteen clients are served at a time; one that leaves makes room.
#[test]
fn sixteen_clients_and_no_more() {
    let (_dir, path, _socket) = serve(fake);
    let client = || Client::connect(&path).unwrap();
    let mut all: Vec<Client> = (0..16).map(|_| client()).collect();
    all.iter().for_each(|c| drop(c.ask(&Request::Status { histograms: false }).unwrap()));
    let mut text = String::new();
    UnixStream::connect(&path).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "{\"error\":\"too many clients; allowed: at most 16\"}\n");
    assert_eq!(all[15].ask(&Request::Status { histograms: false }).unwrap(), json!({"vms": ["web"]}), "those go on");
    all.pop();
    // It is noticed by a thread of the server's.
    while client().ask(&Request::Status { histograms: false }).is_err() {
        std::thread::yield_now();
    }
}

#[test]
fn a_server_that_ends_without_an_answer_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("takt.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let client = Client::connect(&path).unwrap();
    let serving = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        line
    });
    assert_eq!(client.ask(&Request::Status { histograms: false }).unwrap_err().to_string(), "Takt has ended");
    let want = format!("{{\"version\":1,\"takt\":\"{TAKT}\",\"do\":\"status\"}}\n");
    assert_eq!(serving.join().unwrap(), want);
}
