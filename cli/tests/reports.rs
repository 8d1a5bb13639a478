// SPDX-License-Identifier: GPL-2.0-only
//! Reports in a browser, on a phone, a tablet and a desktop, light and dark. Nothing is wider than
//! the page, and no text is too small to read. Ticks of an axis differ, and labels of a chart do
//! not cover one another. axe-core finds nothing.
//!
//! `scripts/setup.sh test` installs Chromium and axe-core.

mod common;

use common::{files, takt, workdir};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Widths of a phone, a tablet and a desktop, CSS pixels.
const WIDTHS: [u32; 3] = [390, 768, 1920];
const BROWSERS: [&str; 2] = ["chromium-headless-shell", "chromium"];
/// Names the version of axe-core.
const FETCH: &str = include_str!("../../scripts/axe.sh");

/// Each page: its name, and the command that writes it.
const PAGES: [(&str, &str); 15] = [
    ("voip", "sim voip.toml --duration 400ms --seed 1-2"),
    ("cloud-gaming", "sim cloud-gaming.toml --duration 400ms"),
    ("stream", "sim stream.toml --duration 400ms"),
    ("vod", "sim vod.toml --duration 400ms"),
    ("game", "sim game.toml --duration 400ms"),
    ("gang", "sim gang.toml --duration 400ms"),
    ("search", "sim search.toml --duration 400ms"),
    ("cyclictest", "sim risa-cyclictest.toml --duration 400ms"),
    ("rtxen", "sim rtxen.toml --duration 400ms"),
    ("DORIS-E1", "experiment DORIS-E1 --seeds 1 --duration 1s"),
    ("DORIS-E2", "experiment DORIS-E2 --seeds 1 --duration 100ms"),
    ("PORIS-E5", "experiment PORIS-E5 --seeds 1 --duration 100ms"),
    ("RTXEN-E1", "experiment RTXEN-E1 --seeds 1 --duration 200ms"),
    ("RTXEN-E3", "experiment RTXEN-E3 --seeds 1 --duration 200ms"),
    ("recording", "replay run.log"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

/// The browser and axe-core, or what is missing.
fn tools() -> Result<(&'static str, String), String> {
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    let browser = BROWSERS.into_iter().find(runs).ok_or("Chromium is not installed")?;
    let cache = std::env::var_os("TAKT_CACHE").map_or_else(|| "target/cache".into(), PathBuf::from);
    let version = FETCH.lines().find_map(|line| line.strip_prefix("VERSION=")).expect("a version in scripts/axe.sh");
    let axe = root().join(cache).join(format!("axe-core-{version}.min.js"));
    let text =
        std::fs::read_to_string(&axe).map_err(|e| format!("{}: {e} (scripts/axe.sh fetches it)", axe.display()))?;
    Ok((browser, text))
}

/// Writes the page that `command` makes, and reads it.
fn page(dir: &Path, (name, command): (&str, &str)) -> Value {
    let file = dir.join(format!("{name}.html"));
    let mut args: Vec<_> = command.split(' ').map(str::to_owned).collect();
    if args[0] == "sim" {
        args[1] = root().join("scenarios").join(&args[1]).display().to_string();
    }
    args.extend(["--html".to_owned(), file.display().to_string()]);
    let out = takt(dir, &args.iter().map(String::as_str).collect::<Vec<_>>());
    // So short a run misses gates.
    let (code, errors) = (out.status.code(), String::from_utf8_lossy(&out.stderr));
    assert!(code == Some(0) || code == Some(1) && command.starts_with("experiment"), "{command}: {errors}");
    let html = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{command}: {e}: {errors}"));
    json!({ "name": name, "html": html })
}

/// The faults of all pages in one scheme, as the browser finds them.
fn faults(browser: &str, axe: &str, dir: &Path, pages: &[Value], dark: bool) -> Vec<String> {
    // `<` within JSON can only stand in strings, where it may be escaped.
    let input = json!({ "pages": pages, "widths": WIDTHS, "dark": dark }).to_string().replace('<', "\\u003c");
    let script = |id: &str, kind: &str, text: &str| format!("<script id=\"{id}\" type=\"{kind}\">{text}</script>\n");
    let all = [
        script("input", "application/json", &input),
        script("axe", "text/plain", axe),
        script("check", "text/plain", include_str!("browser/check.js")),
        script("frames", "text/javascript", include_str!("browser/frames.js")),
    ];
    let scheme = if dark { "dark" } else { "light" };
    let frames = dir.join(format!("frames-{scheme}.html"));
    std::fs::write(&frames, format!("<!doctype html><meta charset=\"utf-8\"><body>{}</body>", all.concat()))
        .expect("written");
    let out = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=3600000"])
        .args(["--hide-scrollbars", "--window-size=2000,1000"])
        .arg(format!("--user-data-dir={}", dir.join(scheme).display()))
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
        .arg(format!("file://{}", frames.display()))
        .output()
        .expect("the browser runs");
    let dom = String::from_utf8_lossy(&out.stdout);
    let found = dom.split_once("<pre id=\"faults\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let Some((text, _)) = found else { panic!("no result in {scheme}: {}", String::from_utf8_lossy(&out.stderr)) };
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let result: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(result["checked"], pages.len() * WIDTHS.len());
    result["faults"].as_array().expect("faults").iter().map(|f| f.as_str().unwrap_or_default().to_owned()).collect()
}

/// The browser and axe-core; without them a test is skipped, and says so.
fn tools_or_skip() -> Option<(&'static str, String)> {
    tools()
        .inspect_err(|missing| {
            println!("SKIPPED reports in a browser: {missing}");
            assert!(std::env::var_os("CI").is_none(), "{missing}");
        })
        .ok()
}

#[test]
fn pages_are_readable_everywhere() {
    let Some((browser, axe)) = tools_or_skip() else { return };
    let temporary = workdir();
    let dir = temporary.path();
    let begin = Instant::now();
    let out = takt(dir, &["sim", "host.toml", "-p", "doris", "--duration", "400ms", "--record", "run.log"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let pages: Vec<_> = PAGES.iter().map(|p| page(dir, *p)).collect();
    assert_eq!(files(dir).len(), PAGES.len() + 2, "besides the pages: {:?}", files(dir));
    let made = begin.elapsed().as_secs_f64();
    let found = std::thread::scope(|scope| {
        let one = |dark| {
            let (axe, pages) = (&axe, &pages);
            scope.spawn(move || faults(browser, axe, dir, pages, dark))
        };
        let both = [false, true].map(one);
        both.map(|t| t.join().expect("a scheme")).concat()
    });
    println!("{} pages, made in {made:.1} s, checked after {:.1} s", pages.len(), begin.elapsed().as_secs_f64());
    assert!(found.is_empty(), "{} faults:\n{}", found.len(), found.join("\n"));
}

/// What breaks a page, by replacing one text with another, and the fault that must be found then.
const BREAKS: [(&str, &str, &str, &str); 13] = [
    ("wide", "<main>", "<main><div style=\"width:3000px\">wide</div>", "the document is"),
    ("small", "<main>", "<main><p style=\"font-size:9px\">small</p>", "text of 9.0 px"),
    (
        "shrunk",
        "svg.wide { display: none; }",
        "svg.narrow { display: none !important; }",
        "at 390 px, dark: text of 5.",
    ),
    ("ticks", ">\n60\n</text>", ">\n50\n</text>", "has two ticks \"50\""),
    ("cut", "<text x=\"", "<text x=\"-9", "cuts \"asterisk\""),
    ("over", "section svg text {", "section svg text { font-size: 60px;", " over "),
    ("pale", "--muted:#A5ADBC", "--muted:#555555", "axe: color-contrast"),
    ("pale chart", "svg [fill=\"#545C6A\"]{fill:#A5ADBC", "svg [fill=\"#545C6A\"]{fill:#555555", "has contrast 2."),
    ("bright", "screen and (prefers-color-scheme: dark)", "print", "the scheme is not dark"),
    ("nameless", "aria-labelledby", "data-was", "axe: svg-img-alt"),
    ("no keys", "tabindex=\"0\" role=\"group\"", "", "axe: scrollable-region-focusable"),
    ("undrawn", "function draw(lane) {", "function draw(lane) { return;", "nothing is drawn of"),
    ("unchosen", "!wanted.has(lane.run.policy)", "true", "policies are chosen"),
];

#[test]
fn what_breaks_a_page_is_found() {
    let Some((browser, axe)) = tools_or_skip() else { return };
    let dir = workdir();
    let commands =
        [("chart", "experiment DORIS-E1 --seeds 1 --duration 1s"), ("timeline", "sim tiny.toml --duration 200ms")];
    let sound = commands.map(|command| page(dir.path(), command)["html"].as_str().expect("a page").to_owned());
    let pages = BREAKS.map(|(name, from, to, _)| {
        let html = sound.iter().find(|html| html.contains(from));
        json!({ "name": name, "html": html.unwrap_or_else(|| panic!("{name}: nothing to break")).replace(from, to) })
    });
    let found = faults(browser, &axe, dir.path(), &pages, true);
    for (name, .., want) in BREAKS {
        let mine: Vec<_> = found.iter().filter(|f| f.starts_with(&format!("{name} at "))).collect();
        assert!(mine.iter().any(|f| f.contains(want)), "{name}: {want}: {mine:#?}");
    }
}
