#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Writes what the program prints now into README.md, and the schemas and examples of its JSON into
# docs/schema. Shows the figures that docs/experiments.md has of DORIS-E2 and DORIS-E3.
set -eu

CARGO=${CARGO:-cargo}

TAKT_BLESS=1 $CARGO test --locked --quiet -p takt --test readme -- --include-ignored --test-threads 1
TAKT_BLESS=1 $CARGO test --locked --quiet -p takt-linux -p takt-xen --lib published
TAKT_BLESS=1 $CARGO test --locked --quiet -p takt --test schema
TAKT_BLESS=1 $CARGO test --locked --quiet -p takt --test fields
$CARGO build --release --locked --quiet -p takt
for seeds in 1-8 101-108; do
	for id in DORIS-E2 DORIS-E3; do
		printf '\n== %s, seeds %s\n' "$id" "$seeds"
		target/release/takt experiment "$id" --known --seeds "$seeds" | grep -E '^(ok|MISSED|not reached) '
	done
done
