// SPDX-License-Identifier: GPL-2.0-or-later
//! Names of datagram sockets in the abstract namespace.

use anyhow::{Context, Result, ensure};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;

/// Bytes of a socket's name; there is room for 107.
const NAME: usize = 100;

/// What such a name may be, and its address.
///
/// # Errors
/// It is empty, too long, or has characters that are not to be seen.
pub fn address(name: &str) -> Result<SocketAddr> {
    let ok = (1..=NAME).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic());
    ensure!(ok, "'{name}' is no name for a socket (1 to {NAME} bytes, no blanks)");
    SocketAddr::from_abstract_name(name).with_context(|| format!("socket {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sockets() {
        assert!(address("takt/front-1").is_ok() && address(&"a".repeat(100)).is_ok());
        for bad in ["", "a b", &"a".repeat(101)] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
