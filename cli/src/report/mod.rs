// SPDX-License-Identifier: GPL-2.0-only
//! Reports: charts from values, the timeline, and the page that holds them.

pub mod chart;
mod html;
pub mod legend;
pub mod page;
pub mod theme;
pub mod timeline;

pub use page::{Block, Charts, Page, Section, Table};
