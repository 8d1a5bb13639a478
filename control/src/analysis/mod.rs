// SPDX-License-Identifier: GPL-2.0-only
//! What can be said before anything runs: response times of tasks on servers, how many PCPUs servers need, and how long Poris lets VCPUs
//! wait.
//!
//! Integers throughout: a bound that depends on rounding is none.

mod fraction;
mod latency;
mod pool;
mod response;

pub use latency::{Fit, Host, Lags};
pub use pool::{Share, Sizes, sizes};
pub use response::{Kind, Response, Server, Task, guaranteed, responses};
