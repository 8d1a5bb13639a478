#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Writes what the program prints now into README.md and docs/: outputs of commands, the settings, the
# schemas and examples of its JSON, the picture of the README. Then lists what was measured by hand.
set -eu

CARGO=${CARGO:-cargo}
bless() { TAKT_BLESS=1 $CARGO test --locked --quiet "$@"; }

$CARGO build --release --locked --quiet -p takt --features takt/linux,takt/xen
TAKT=$PWD/target/release/takt
echo "== settings, schemas and examples"
bless -p takt-control --test docs
bless -p takt-linux -p takt-xen --lib published
bless -p takt --features takt/linux,takt/xen --test schema
bless -p takt --features takt/linux,takt/xen --test fields
echo "== outputs of commands; experiments take ten minutes"
TAKT_PROGRAM=$TAKT bless -p takt --features takt/linux,takt/xen --test documents -- --include-ignored --test-threads 1
echo "== picture"
"$TAKT" experiment DORIS-E2 --known --svg docs/images/doris-e2.svg > /dev/null
echo "== measured in emulated machines, at the commit that each names; run the command to measure it again"
# shellcheck disable=SC2016
find README.md docs -name '*.md' | sort | xargs awk '
	/^<!-- measured at / { text = FILENAME ":" FNR ":"; sub(/^<!-- measured at/, "") ; on = 1 }
	on { text = text " " $0; sub(/^ +/, "", text) }
	on && / -->$/ { sub(/ -->$/, "", text); gsub(/ +/, " ", text); print text; on = 0 }'
