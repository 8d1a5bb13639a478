// SPDX-License-Identifier: GPL-2.0-only
//! Colours and looks of reports, light and dark. An SVG carries the light ones; inside a page a
//! style sheet maps them to dark ones.

use plotters::style::RGBColor;
use std::fmt::Write;

/// Behind texts and charts.
pub const PAPER: RGBColor = RGBColor(255, 255, 254);
/// Texts.
pub const INK: RGBColor = RGBColor(31, 36, 48);
/// Captions and ticks.
pub const MUTED: RGBColor = RGBColor(84, 92, 106);
/// Lines that separate.
pub const GRID: RGBColor = RGBColor(229, 231, 235);

/// Variable of the style sheet, light, dark.
const COLOURS: [(&str, RGBColor, RGBColor); 8] = [
    ("paper", PAPER, RGBColor(21, 25, 34)),
    ("ink", INK, RGBColor(231, 234, 240)),
    ("muted", MUTED, RGBColor(165, 173, 188)),
    ("grid", GRID, RGBColor(42, 48, 60)),
    ("page", RGBColor(244, 245, 247), RGBColor(13, 16, 23)),
    ("good", RGBColor(20, 114, 56), RGBColor(74, 222, 128)),
    ("bad", RGBColor(180, 35, 24), RGBColor(255, 122, 107)),
    ("accent", RGBColor(0, 99, 166), RGBColor(86, 180, 255)),
];

/// Light and dark colour of a series; the first eight keep apart for the colour-blind (after Okabe
/// and Ito).
const SERIES: [(RGBColor, RGBColor); 12] = [
    (RGBColor(213, 94, 0), RGBColor(255, 140, 66)),
    (RGBColor(0, 107, 179), RGBColor(86, 180, 255)),
    (RGBColor(0, 145, 110), RGBColor(52, 211, 153)),
    (RGBColor(190, 90, 155), RGBColor(240, 150, 205)),
    (RGBColor(168, 125, 0), RGBColor(245, 200, 66)),
    (RGBColor(30, 140, 185), RGBColor(130, 215, 245)),
    (RGBColor(120, 94, 200), RGBColor(178, 160, 255)),
    (RGBColor(139, 90, 43), RGBColor(205, 155, 105)),
    (RGBColor(85, 130, 60), RGBColor(165, 210, 130)),
    (RGBColor(165, 60, 70), RGBColor(245, 130, 140)),
    (RGBColor(70, 90, 140), RGBColor(150, 170, 225)),
    (RGBColor(110, 118, 130), RGBColor(160, 168, 180)),
];

/// The last colour is grey, for what is no scheduler.
pub const GREY: usize = SERIES.len() - 1;

/// Dashes of a line, px on and off.
const DASHES: [Option<(u32, u32)>; 4] = [None, Some((8, 4)), Some((3, 3)), Some((12, 6))];

/// Form of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
}

const MARKERS: [Marker; 4] = [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond];

/// Look of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Style {
    pub colour: RGBColor,
    pub dash: Option<(u32, u32)>,
    pub marker: Marker,
}

/// Look of the n-th series. Series of one colour differ by dash and marker.
pub fn style(n: usize) -> Style {
    let round = n / SERIES.len() % DASHES.len();
    Style { colour: SERIES[n % SERIES.len()].0, dash: DASHES[round], marker: MARKERS[(n + round) % MARKERS.len()] }
}

/// Light and dark colour of the n-th series for a style sheet or script.
pub fn pair(n: usize) -> [String; 2] {
    let (light, dark) = SERIES[n % SERIES.len()];
    [hex(light), hex(dark)]
}

/// The colours of a page, and of charts where the page is dark.
pub fn rules() -> String {
    let variables = |of: fn(&(&str, RGBColor, RGBColor)) -> RGBColor| -> String {
        COLOURS.iter().map(|c| format!("--{}:{};", c.0, hex(of(c)))).collect()
    };
    let mut css = format!(
        ":root{{{}}}\n@media screen and (prefers-color-scheme: dark) {{\n:root{{{}}}\n",
        variables(|c| c.1),
        variables(|c| c.2)
    );
    for (light, dark) in COLOURS.iter().map(|c| (c.1, c.2)).chain(SERIES) {
        for property in ["fill", "stroke"] {
            let _ = writeln!(css, "section svg [{property}=\"{}\"]{{{property}:{}}}", hex(light), hex(dark));
        }
    }
    css + "}\n"
}

fn hex(c: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", c.0, c.1, c.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As WCAG has it.
    fn contrast(a: RGBColor, b: RGBColor) -> f64 {
        let linear = |v: u8| match f64::from(v) / 255.0 {
            v if v <= 0.04045 => v / 12.92,
            v => ((v + 0.055) / 1.055).powf(2.4),
        };
        let luminance = |c: RGBColor| 0.2126 * linear(c.0) + 0.7152 * linear(c.1) + 0.0722 * linear(c.2) + 0.05;
        let (a, b) = (luminance(a), luminance(b));
        a.max(b) / a.min(b)
    }

    #[test]
    fn texts_and_series_stand_out_from_what_is_behind() {
        let named = |name: &str| *COLOURS.iter().find(|c| c.0 == name).unwrap();
        for (under, least) in [("paper", 4.5), ("page", 4.5)] {
            for name in ["ink", "muted", "good", "bad", "accent"] {
                let (text, under) = (named(name), named(under));
                let both = [contrast(text.1, under.1), contrast(text.2, under.2)];
                assert!(both.iter().all(|c| *c >= least), "{name} on {}: {both:?}", under.0);
            }
        }
        for (light, dark) in SERIES {
            let both = [contrast(light, PAPER), contrast(dark, named("paper").2)];
            assert!(both.iter().all(|c| *c >= 3.0), "{light:?}, {dark:?}: {both:?}");
        }
    }

    /// Each colour comes once with each dash; a dot has no dash, so the markers must differ, too.
    #[test]
    fn no_two_looks_are_equal() {
        let looks: Vec<_> = (0..SERIES.len() * DASHES.len()).map(style).collect();
        for (n, look) in looks.iter().enumerate() {
            let alike = |l: &&Style| l.colour == look.colour && (l.dash == look.dash || l.marker == look.marker);
            assert_eq!(looks[..n].iter().find(alike), None, "{n}: {look:?}");
        }
    }
}
