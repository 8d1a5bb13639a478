// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn private_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    set_mode(dir.path(), 0o700);
    dir
}

#[test]
fn a_file_that_is_there_keeps_its_mode() {
    let dir = private_dir();
    let file = dir.path().join("a");
    for bits in [0o640, 0o600, 0o666, 0o755] {
        std::fs::write(&file, "old").unwrap();
        set_mode(&file, bits);
        Pending::open(&file).unwrap().write(b"new").unwrap();
        assert_eq!((mode(&file), std::fs::read(&file).unwrap()), (bits, b"new".to_vec()));
    }
}

#[test]
fn what_is_private_is_never_more_open_than_for_its_owner() {
    let dir = private_dir();
    let file = dir.path().join("a");
    Pending::open_private(&file).unwrap().write(b"new").unwrap();
    assert_eq!(mode(&file), 0o600);
    set_mode(&file, 0o666);
    Pending::open_private(&file).unwrap().write(b"new").unwrap();
    assert_eq!(mode(&file), 0o600);
}

/// Needs root, as does to give a file to somebody.
#[test]
fn a_file_keeps_its_owner_and_what_is_private_is_given_to_nobody() {
    let dir = private_dir();
    let file = dir.path().join("a");
    std::fs::write(&file, "old").unwrap();
    if std::os::unix::fs::chown(&file, Some(65534), Some(65534)).is_err() {
        println!("SKIPPED: needs root");
        return;
    }
    Pending::open(&file).unwrap().write(b"new").unwrap();
    let owner = file.metadata().unwrap();
    assert_eq!((owner.uid(), owner.gid()), (65534, 65534));
    let error = format!("{:#}", Pending::open_private(&file).err().expect("refused"));
    assert!(error.contains("belongs to another user"), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), b"new");
}

#[test]
fn a_link_is_followed_where_nobody_else_could_have_made_it() {
    let dir = private_dir();
    let (link, target) = (dir.path().join("link"), dir.path().join("target"));
    std::fs::write(&target, "old").unwrap();
    symlink("target", &link).unwrap();
    Pending::open(&link).unwrap().write(b"new").unwrap();
    assert!(link.is_symlink());
    assert_eq!(std::fs::read(&target).unwrap(), b"new");
    for bits in [0o777, 0o1777, 0o770, 0o702] {
        set_mode(dir.path(), bits);
        let error = format!("{:#}", Pending::open(&link).err().expect("refused"));
        assert!(error.contains("is a link in a directory that other users can write"), "{bits:o}: {error}");
    }
    assert_eq!(std::fs::read(&target).unwrap(), b"new");
    Pending::open(&target).unwrap().write(b"newer").unwrap();
}

#[test]
fn a_directory_that_is_such_a_link_is_none_to_write_to() {
    let (dir, elsewhere) = (private_dir(), private_dir());
    symlink(elsewhere.path(), dir.path().join("sub")).unwrap();
    let file = dir.path().join("sub/a");
    Pending::open(&file).unwrap().write(b"new").unwrap();
    set_mode(dir.path(), 0o1777);
    assert!(Pending::open(&file).is_err());
    assert!(Pending::open(&dir.path().join("a")).is_ok(), "no link, no danger");
}

/// What has no room, and what has no reader.
struct Full(ErrorKind);

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Err(self.0.into())
    }
}

#[test]
fn what_nobody_can_hear_ends_nothing() {
    say_to(&mut Full(ErrorKind::StorageFull), "a");
    say_to(&mut Full(ErrorKind::BrokenPipe), "a");
    let mut heard = Vec::new();
    say_to(&mut heard, "VM a\u{1b}[2J\nb: found");
    assert_eq!(heard, b"takt: VM a\\u{1b}[2J\\nb: found\n");
}

#[test]
fn names_do_not_drive_a_terminal() {
    assert_eq!(shown("tap\u{1b}]0;x\u{7}"), "tap\\u{1b}]0;x\\u{7}");
    assert_eq!(shown("a\u{9b}2J\u{7f}\r\n\t"), "a\\u{9b}2J\\u{7f}\\r\\n\\t");
    assert_eq!(shown("\u{202e}cod\u{2066}\u{2028}\u{200f}"), "\\u{202e}cod\\u{2066}\\u{2028}\\u{200f}");
    assert_eq!(shown("Grüße µs – 你好…"), "Grüße µs – 你好…");
    assert_eq!(lines("a\nb\u{1b}\n"), "a\nb\\u{1b}\n");
}

#[test]
fn json_says_the_same_in_its_own_escapes() {
    let name = "a\u{1b}\u{7f}\u{9b}\u{202e}\nü";
    let text = json(&serde_json::to_string_pretty(&[name]).unwrap());
    assert!(!text.chars().any(|c| drives(c) && c != '\n'), "{text}");
    assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), [name]);
}
