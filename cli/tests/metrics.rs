// SPDX-License-Identifier: GPL-2.0-only
//! `takt metrics`: what Prometheus is told is what `takt status` says, and its alerts and dashboard ask for what there is.
#![cfg(feature = "linux")]

#[path = "common/answers.rs"]
mod answers;

use answers::{Host, STATUS};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

const RULES: &str = include_str!("../../packaging/prometheus/takt.rules.yml");
const DASHBOARD: &str = include_str!("../../packaging/prometheus/takt.dashboard.json");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// `takt metrics` of a host.
impl Host {
    fn command(&self, args: &[&str]) -> Command {
        let mut takt = Command::new(env!("CARGO_BIN_EXE_takt"));
        takt.arg("metrics").args(args).arg("--socket").arg(self.socket());
        takt
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("takt")
    }

    /// Its metrics as they are printed.
    fn text(&self) -> String {
        let out = self.run(&[]);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The value of a metric with these labels.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
}

/// Names of what there is, as a query writes them.
fn names(text: &str) -> BTreeSet<String> {
    let name = |line: &str| line.split(['{', ' ']).next().unwrap_or_default().to_owned();
    text.lines().filter(|line| !line.starts_with('#')).map(name).collect()
}

/// Names of our metrics in a query.
fn asked(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("takt_")).map(str::to_owned).collect()
}

#[test]
fn prometheus_is_told_what_status_says() {
    let (text, status) = (Host::new().text(), serde_json::from_str::<Value>(STATUS).unwrap());
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert_eq!(value(&text, "takt_up"), 1.0);
    assert!(text.contains("takt_build_info{version=\""), "{text}");
    for vm in status["vms"].as_array().unwrap() {
        let (name, number) = (vm["name"].as_str().unwrap(), |key: &str| vm[key].as_f64().unwrap());
        let rule = vm["rule"].as_str().unwrap_or_default();
        let real_time = value(&text, &format!("takt_vm_realtime{{vm=\"{name}\",rule=\"{rule}\"}}"));
        assert_eq!(real_time, f64::from(u8::from(vm["rt"] == true)));
        let of = |metric: &str| value(&text, &format!("{metric}{{vm=\"{name}\"}}"));
        let reason = vm["blind"].as_str().unwrap_or_default();
        let blind = value(&text, &format!("takt_vm_blind{{vm=\"{name}\",reason=\"{reason}\"}}"));
        assert_eq!(blind, f64::from(u8::from(!reason.is_empty())));
        assert_eq!(of("takt_promotions_total"), number("promotions"));
        assert_eq!(of("takt_promotions_refused_total"), number("refusals"));
        assert_eq!(of("takt_vm_run_seconds_total"), number("run_s"));
        for (class, wait) in vm["waits"].as_object().unwrap() {
            let labels = format!("vm=\"{name}\",class=\"{class}\"");
            let bucket = |le: &str| value(&text, &format!("takt_vcpu_wait_seconds_bucket{{le=\"{le}\",{labels}}}"));
            let to = |us: f64| {
                let buckets = wait["buckets"].as_array().unwrap().iter();
                let some = buckets.filter(|b| b["to_us"].as_f64().unwrap() <= us);
                some.map(|b| b["count"].as_f64().unwrap()).sum::<f64>()
            };
            assert_eq!(bucket("0.00001"), to(10.0));
            assert_eq!(bucket("0.005"), to(5_000.0));
            assert_eq!(bucket("+Inf"), wait["count"].as_f64().unwrap());
            assert_eq!(value(&text, &format!("takt_vcpu_wait_seconds_count{{{labels}}}")), bucket("+Inf"));
            let sum = wait["mean_us"].as_f64().unwrap() * wait["count"].as_f64().unwrap() / 1e6;
            assert!((value(&text, &format!("takt_vcpu_wait_seconds_sum{{{labels}}}")) - sum).abs() < 1e-12);
        }
    }
    let cost = &status["host"]["cost"]["run_s"];
    assert_eq!(Some(value(&text, "takt_scheduler_run_seconds_total")), cost.as_f64());
}

#[test]
fn a_vm_may_be_called_anything() {
    let hostile = "a\"b\\c\",rule=\"rtp";
    let text = Host::with(|status| status["vms"][0]["name"] = hostile.into()).text();
    assert!(text.contains(r#"takt_vm_run_seconds_total{vm="a\"b\\c\",rule=\"rtp"}"#), "{text}");
    assert!(!text.contains("vm=\"a\"b"), "{text}");
}

#[test]
fn alerts_and_dashboard_ask_for_what_there_is() {
    let there = names(&Host::new().text());
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let queries: Vec<_> =
        panels.flat_map(|p| p["targets"].as_array().unwrap()).map(|t| t["expr"].to_string()).collect();
    let expressions = RULES.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n");
    for (of, asked) in [("alerts", asked(&expressions)), ("dashboard", asked(&queries.join("\n")))] {
        assert!(asked.len() > 4, "{of}: {asked:?}");
        let unknown: Vec<_> = asked.difference(&there).collect();
        assert!(unknown.is_empty(), "{of}: {unknown:?} are not among {there:?}");
    }
}

#[test]
fn the_documents_list_what_there_is() {
    let docs = include_str!("../../docs/operating.md");
    let rows = docs.lines().filter_map(|line| line.strip_prefix("| `")?.split(['{', '`']).next());
    let listed: BTreeSet<_> = rows.filter(|name| name.starts_with("takt_")).map(str::to_owned).collect();
    let whole = |name: &String| {
        let part = ["_bucket", "_count", "_sum"].into_iter().find_map(|end| name.strip_suffix(end));
        part.unwrap_or(name).to_owned()
    };
    let there: BTreeSet<_> = names(&Host::new().text()).iter().map(whole).collect();
    assert_eq!(listed, there);
}

/// What `takt metrics` listens at says its first line.
fn listening(host: &Host, port: u16) -> Running {
    let address = format!("127.0.0.1:{port}");
    let mut takt = host.command(&["--listen", &address]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 8];
    takt.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    Running(takt)
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_scrape_is_answered_with_takt_and_without() {
    let (host, port) = (Host::new(), free_port());
    let _takt = listening(&host, port);
    let text = get(port, "/metrics");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("takt_vm_realtime{"), "{text}");
    let busy = host.run(&["--listen", &format!("127.0.0.1:{port}")]);
    let error = String::from_utf8_lossy(&busy.stderr).into_owned();
    assert!(
        busy.status.code() == Some(2) && error.lines().count() == 1 && error.contains(&port.to_string()),
        "{error}"
    );
    // Takt ends.
    std::fs::remove_file(host.socket()).unwrap();
    sleep(Duration::from_millis(1100)); // an answer may be a second old
    let text = get(port, "/metrics");
    assert!(text.contains("takt_up 0\n") && !text.contains("takt_vm_realtime"), "{text}");
    assert_eq!(host.run(&[]).status.code(), Some(2), "without options there is nothing to print");
}

#[test]
fn a_text_file_is_written_whole_and_goes_at_the_end() {
    let host = Host::new();
    let file = host.dir().join("takt.prom");
    let takt = host.command(&["--textfile", file.to_str().unwrap(), "--interval", "1s"]).spawn().unwrap();
    let mut takt = Running(takt);
    while !file.exists() {
        sleep(Duration::from_millis(20));
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), host.text());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(takt.0.id() as i32), nix::sys::signal::SIGTERM).unwrap();
    assert!(takt.0.wait().unwrap().success());
    assert!(!file.exists());
    let bad = host.run(&["--textfile", file.to_str().unwrap(), "--interval", "10ms"]);
    let error = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(error.contains("--interval must be between 1s and 1h (got `10ms`)"), "{error}");
}

/// A program of Debian's Prometheus. The package is unpacked, not installed: its service would start.
fn prometheus(program: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("TAKT_CACHE").map_or_else(|| root().join("target/cache"), PathBuf::from);
    let dir = cache.join("prometheus");
    // The other test would find a program that is half there.
    static UNPACKS: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = UNPACKS.lock();
    if !dir.join("usr/bin/prometheus").exists() {
        std::fs::create_dir_all(&dir).unwrap();
        let get = "apt-get download -q prometheus && dpkg -x prometheus_*.deb . && rm prometheus_*.deb";
        let got = Command::new("sh").args(["-c", get]).current_dir(&dir).output();
        if !got.is_ok_and(|out| out.status.success()) {
            takt_bpf_build::skip("metrics", "Debian's package prometheus cannot be downloaded");
            return None;
        }
    }
    Some(dir.join("usr/bin").join(program))
}

#[test]
#[ignore = "downloads Prometheus"]
fn each_alert_fires_when_it_should_and_no_other() {
    let Some(promtool) = prometheus("promtool") else { return };
    let rules = root().join("packaging/prometheus");
    let out =
        Command::new(&promtool).args(["test", "rules", "takt.rules.test.yml"]).current_dir(rules).output().unwrap();
    assert!(out.status.success(), "{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    // The older format, which the textfile collector reads.
    let mut check = Command::new(&promtool).args(["check", "metrics"]).stdin(Stdio::piped()).spawn().unwrap();
    check.stdin.take().unwrap().write_all(Host::new().text().as_bytes()).unwrap();
    assert_ne!(check.wait().unwrap().code(), Some(1), "the text cannot be parsed");
    let tests = include_str!("../../packaging/prometheus/takt.rules.test.yml");
    let alerts = RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    for alert in alerts {
        assert!(tests.contains(&format!("alertname: {alert}\n        exp_alerts")), "no test in which {alert} fires");
        assert!(tests.contains(&format!("alertname: {alert} }}")), "no test in which {alert} does not");
    }
}

#[test]
#[ignore = "downloads Prometheus"]
fn prometheus_scrapes_it_with_the_alerts_loaded() {
    let Some(prometheus) = prometheus("prometheus") else { return };
    let (host, [port, web]) = (Host::new(), [free_port(), free_port()]);
    let _takt = listening(&host, port);
    let at = |name: &str| host.dir().join(name).to_str().unwrap().to_owned();
    let rules = root().join("packaging/prometheus/takt.rules.yml");
    let config = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: ['{}']\n\
         scrape_configs: [{{ job_name: takt, static_configs: [{{ targets: ['127.0.0.1:{port}'] }}] }}]\n",
        rules.display()
    );
    std::fs::write(at("prometheus.yml"), config).unwrap();
    let server = Command::new(prometheus)
        .args([format!("--config.file={}", at("prometheus.yml")), format!("--storage.tsdb.path={}", at("data"))])
        .arg(format!("--web.listen-address=127.0.0.1:{web}"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _server = Running(server);
    let ask = |path: &str| -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", web)).ok()?;
        // 1.0: the answer comes in one piece.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
    };
    let query = |series: &str| -> Option<f64> {
        let answer = ask(&format!("/api/v1/query?query={series}"))?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    };
    let wait_for = |what: &dyn Fn() -> Option<f64>| {
        (0..600).find_map(|_| {
            sleep(Duration::from_millis(100));
            what()
        })
    };
    assert_eq!(wait_for(&|| query("up").filter(|up| *up == 1.0)), Some(1.0), "a scrape succeeds");
    let status: Value = serde_json::from_str(STATUS).unwrap();
    let vms = status["vms"].as_array().unwrap();
    let total = |key: &str| -> f64 {
        let waits = vms.iter().flat_map(|vm| vm["waits"].as_object().unwrap().values());
        waits.map(|w| w[key].as_f64().unwrap()).sum()
    };
    assert!(total("count") > 0.0);
    assert_eq!(wait_for(&|| query("sum(takt_vcpu_wait_seconds_count)")), Some(total("count")));
    assert_eq!(query("count(takt_vm_realtime)"), Some(vms.len() as f64));
    let groups = wait_for(&|| {
        let rules = ask("/api/v1/rules")?["data"]["groups"][0]["rules"].as_array()?.clone();
        let ok = rules.iter().filter(|rule| rule["health"] == "ok").count();
        (ok == rules.len()).then_some(ok as f64)
    });
    assert_eq!(groups, Some(5.0), "all alerts are evaluated");
}
