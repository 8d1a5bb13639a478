// SPDX-License-Identifier: GPL-2.0-only
//! Colours of charts. An SVG carries the light ones; inside a page a style sheet maps them to dark ones.

use plotters::style::RGBColor;
use std::fmt::Write;

pub const PAPER: RGBColor = RGBColor(255, 255, 254);
pub const INK: RGBColor = RGBColor(31, 36, 48);
pub const MUTED: RGBColor = RGBColor(107, 114, 128);
pub const GRID: RGBColor = RGBColor(229, 231, 235);
pub const GOOD: RGBColor = RGBColor(22, 128, 61);

/// Light and dark colour of the n-th series; the first eight keep apart for the colour-blind (after Okabe and Ito).
const SERIES: [(RGBColor, RGBColor); 12] = [
    (RGBColor(213, 94, 0), RGBColor(255, 140, 66)),
    (RGBColor(0, 107, 179), RGBColor(86, 180, 255)),
    (RGBColor(0, 145, 110), RGBColor(52, 211, 153)),
    (RGBColor(190, 90, 155), RGBColor(240, 150, 205)),
    (RGBColor(176, 133, 0), RGBColor(245, 200, 66)),
    (RGBColor(60, 160, 200), RGBColor(130, 215, 245)),
    (RGBColor(120, 94, 200), RGBColor(178, 160, 255)),
    (RGBColor(139, 90, 43), RGBColor(205, 155, 105)),
    (RGBColor(85, 130, 60), RGBColor(165, 210, 130)),
    (RGBColor(165, 60, 70), RGBColor(245, 130, 140)),
    (RGBColor(70, 90, 140), RGBColor(150, 170, 225)),
    (RGBColor(110, 118, 130), RGBColor(160, 168, 180)),
];

const DARK: [(RGBColor, &str); 5] =
    [(PAPER, "#151922"), (INK, "#e7eaf0"), (MUTED, "#98a1b2"), (GRID, "#2a303c"), (GOOD, "#4ade80")];

/// Colour of the n-th series.
pub fn series(n: usize) -> RGBColor {
    SERIES[n % SERIES.len()].0
}

/// Light and dark colour of the n-th series for a style sheet or script.
pub fn pair(n: usize) -> [String; 2] {
    let (light, dark) = SERIES[n % SERIES.len()];
    [hex(light), hex(dark)]
}

/// Rules that turn the charts of a page dark, to be put where the page is dark.
pub fn dark_rules(scope: &str) -> String {
    let series = SERIES.iter().map(|&(light, dark)| (light, hex(dark)));
    let mut css = String::new();
    for (light, dark) in DARK.iter().map(|&(l, d)| (l, d.to_owned())).chain(series) {
        for property in ["fill", "stroke"] {
            let _ = writeln!(css, "{scope} svg [{property}=\"{}\"]{{{property}:{dark}}}", hex(light));
        }
    }
    css
}

fn hex(c: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", c.0, c.1, c.2)
}
