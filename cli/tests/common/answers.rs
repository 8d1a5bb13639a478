// SPDX-License-Identifier: GPL-2.0-only
//! A socket that answers as a running Takt does.

use serde_json::Value;
use std::path::{Path, PathBuf};
use takt_control::socket::{Asked, Request, Socket};

pub const STATUS: &str = include_str!("../../../docs/schema/examples/status-linux.json");

/// Something that answers as a running Takt does.
pub struct Host {
    dir: tempfile::TempDir,
    _socket: Socket,
}

impl Host {
    pub fn new() -> Self {
        Self::with(|_| ())
    }

    /// With another status.
    pub fn with(change: impl Fn(&mut Value)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = Socket::bind(&dir.path().join("takt.sock")).unwrap();
        let mut status: Value = serde_json::from_str(STATUS).unwrap();
        change(&mut status);
        let answer = move |asked: Asked| {
            let full = asked.request == Request::Status { histograms: true };
            asked.answer(if full { Ok(status.clone()) } else { Err(anyhow::anyhow!("no histograms")) });
            true
        };
        socket.serve(answer).unwrap();
        Self { dir, _socket: socket }
    }

    /// The test's own, which goes with the host.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("takt.sock")
    }
}
