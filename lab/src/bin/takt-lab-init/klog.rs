// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's log.

/// The end of the kernel's log: a console that is quiet does not show why a scheduler was taken out.
pub fn tail() -> String {
    const READ_ALL: libc::c_int = 3;
    const LINES: usize = 20;
    let mut bytes = vec![0u8; 1 << 16];
    // SAFETY: the kernel writes no more than the length that it is told.
    let read = unsafe { libc::klogctl(READ_ALL, bytes.as_mut_ptr().cast(), bytes.len() as libc::c_int) };
    bytes.truncate(usize::try_from(read).unwrap_or(0));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
