// SPDX-License-Identifier: GPL-2.0-only
//! What can be said of budgets before anything runs: response times of tasks on servers, and how many PCPUs servers need.
//!
//! Integers throughout: a bound that depends on rounding is none.

mod fraction;
mod pool;
mod response;

pub use pool::{Share, Sizes, sizes};
pub use response::{Kind, Response, Server, Task, guaranteed, responses};
