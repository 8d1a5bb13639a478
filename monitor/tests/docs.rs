// SPDX-License-Identifier: GPL-2.0-only
//! The worked example of docs/monitor.md compiles and decides as it says.

use std::fs;
use std::path::Path;
use std::process::Command;

const MAIN: &str = r#"
#include <stdio.h>
#include <string.h>
const char *takt_native_rule(unsigned rule);
#include "monitor.h"

static struct takt_mon m;
static struct takt_work w;

int main(void)
{
	static const u8 head[28] = { 0x45, 0, 0, 34, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x13, 0x88, 1, 1, 0, 14 };
	unsigned i;

	takt_config_init(&m.cfg);
	for (i = 0; i < 5; i++) {
		memcpy(w.b, head, 28);
		memcpy(w.b + 28, i ? "TICK.." : "TOCK..", 6);
		w.link = TAKT_LINK_RAW;
		w.caplen = w.len = 34;
		takt_parse(&w);
		takt_mon_packet(&m, &w, i * 20000000ULL);
		printf("%u %s %u\n", w.events, takt_native_rule(w.rule), w.after);
	}
	return 0;
}
"#;

#[test]
fn the_detector_of_the_documentation_works() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let doc = fs::read_to_string(root.join("../docs/monitor.md")).expect("docs/monitor.md");
    let mut blocks = doc.split("```c\n").skip(1).map(|b| b.split("```").next().unwrap_or(""));
    let (detector, list) = (blocks.next().expect("detector"), blocks.next().expect("list"));

    let dir = tempfile::tempdir().expect("directory");
    for entry in fs::read_dir(root.join("core")).expect("core") {
        let path = entry.expect("entry").path();
        fs::copy(&path, dir.path().join(path.file_name().expect("name"))).expect("copy");
    }
    let detect = fs::read_to_string(root.join("core/detect.h")).expect("detect.h");
    let begin = detect.find("#define TAKT_DETECTORS(X)").expect("list");
    let end = begin + detect[begin..].find("\n\n").expect("end of the list");
    let patched = [&detect[..begin], list.trim_end(), &detect[end..]].concat();
    fs::write(dir.path().join("detect.h"), patched).expect("write");
    fs::write(dir.path().join("detect_tick.h"), detector).expect("write");
    fs::write(dir.path().join("main.c"), MAIN).expect("write");

    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let build = Command::new(cc)
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "main.c", "native.c", "-o", "main", "-I."])
        .arg("-I")
        .arg(root.join("../policy/core"))
        .current_dir(dir.path())
        .output()
        .expect("compiler");
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    let run = Command::new(dir.path().join("main")).output().expect("run");
    assert_eq!(String::from_utf8_lossy(&run.stdout), "0  0\n0  0\n0  0\n3 tick 3\n1 port 1\n");
}
