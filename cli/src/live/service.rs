// SPDX-License-Identifier: GPL-2.0-only
//! What systemd is told while `takt run` is a service (`Type=notify`). Without systemd nobody listens.

use sd_notify::{NotifyState, notify};

/// The host is scheduled, by `policy`.
pub fn ready(policy: &str) {
    let status = format!("{policy} schedules this host");
    tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// The configuration is being read again; [`ready`] follows.
pub fn reloading() {
    tell(&[NotifyState::Reloading]);
}

/// The host goes back to the kernel.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(state: &[NotifyState<'_>]) {
    // It is told for systemd's display only.
    let _ = notify(false, state);
}
