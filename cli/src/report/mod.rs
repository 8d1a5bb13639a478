// SPDX-License-Identifier: GPL-2.0-only
//! Reports: charts from rows, the timeline, and the page that holds them.

pub mod chart;
pub mod figures;
mod html;
pub mod page;
pub mod theme;
pub mod timeline;

pub use page::{Block, Page, Section, Table};
