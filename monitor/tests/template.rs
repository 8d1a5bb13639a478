// SPDX-License-Identifier: GPL-2.0-only
//! The template of a detector (monitor/template/detect_tick.h) as one more line of the list: the
//! monitor compiles with it, finds what the template is for, and leaves alone what only looks like
//! it.

mod common;

use common::compile;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Prints what five packets of each kind are taken for, each kind by a monitor of its own.
const MAIN: &str = r#"
#include <stdio.h>
#include <string.h>
const char *takt_native_rule(unsigned rule);
#include "monitor.h"

static struct takt_work w;

/* A packet from port 5000 to port 257 with 12 bytes of payload. */
static void packet(u32 proto, const char *word, u32 number)
{
	static const u8 ip[20] = { 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2 };
	u32 head = proto == TAKT_UDP ? 8 : 20, n = sizeof(ip) + head + 12;

	memset(&w, 0, sizeof(w));
	memcpy(w.b, ip, sizeof(ip));
	w.b[3] = n;
	w.b[9] = proto;
	w.b[20] = 0x13;
	w.b[21] = 0x88;
	w.b[22] = w.b[23] = 1;
	if (proto == TAKT_UDP)
		w.b[25] = head + 12;
	else
		w.b[32] = 0x50;
	memcpy(w.b + 20 + head, word, 4);
	w.b[20 + head + 7] = number;
	w.link = TAKT_LINK_RAW;
	w.caplen = w.len = n;
	takt_parse(&w);
}

static void stream(const char *what, u32 proto, const char *word, u32 step)
{
	static struct takt_mon m;

	memset(&m, 0, sizeof(m));
	takt_config_init(&m.cfg);
	printf("%s:", what);
	for (u32 i = 0; i < 5; i++) {
		packet(proto, word, 7 + i * step);
		if (takt_mon_packet(&m, &w, i * 20000000ULL) & TAKT_EV_PACKET)
			printf(" %s/%u", takt_native_rule(w.rule), w.after);
		else
			printf(" -");
	}
	printf("\n");
}

int main(void)
{
	stream("tick", TAKT_UDP, "TICK", 1);
	stream("another word", TAKT_UDP, "TOCK", 1);
	stream("numbers with gaps", TAKT_UDP, "TICK", 2);
	stream("another protocol", TAKT_TCP, "TICK", 1);
	return 0;
}
"#;

const FOUND: &str = "\
tick: - - tick/3 port/1 port/1
another word: - - - - -
numbers with gaps: - - - - -
another protocol: - - - - -
";

#[test]
fn the_template_of_a_detector_finds_its_stream_and_no_twin() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::tempdir().expect("directory");
    for from in ["core", "template"] {
        for entry in fs::read_dir(root.join(from)).expect(from) {
            let path = entry.expect("entry").path();
            fs::copy(&path, dir.path().join(path.file_name().expect("name"))).expect("copy");
        }
    }
    let list = fs::read_to_string(root.join("core/detect.h")).expect("detect.h");
    let last = "	X(IAX2, iax2)\n";
    assert_eq!(list.matches(last).count(), 1, "the list ends otherwise");
    let longer = list.replace(last, "	X(IAX2, iax2) \\\n	X(TICK, tick)\n");
    let longer =
        longer.replace("#include \"detect_rtsp.h\"\n", "#include \"detect_rtsp.h\"\n#include \"detect_tick.h\"\n");
    fs::write(dir.path().join("detect.h"), longer).expect("write");
    fs::write(dir.path().join("main.c"), MAIN).expect("write");

    let sources = ["main.c", "native.c"].map(|f| dir.path().join(f));
    compile(&sources, &[dir.path().into(), root.join("../policy/core")], &dir.path().join("main"));
    let run = Command::new(dir.path().join("main")).output().expect("run");
    assert_eq!(String::from_utf8_lossy(&run.stdout), FOUND);
}
