#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Everything that can fail. A skipped check says so, and fails when CI=true.
set -eu

CARGO=${CARGO:-cargo}
TAKT_CACHE=${TAKT_CACHE:-$PWD/target/cache}
export TAKT_CACHE

step() { printf '\n== %s (%s)\n' "$1" "$(date +%H:%M:%S)"; }

step "unit tests, vectors, random operations"
$CARGO test --locked --workspace --exclude takt-lab --quiet

step "deliberate defects, and how many of each directory are caught"
$CARGO test --locked --quiet -p takt-conformance --features mutants --lib mutants
$CARGO test --locked --quiet -p takt-conformance --features mutants --test mutants -- --nocapture

step "the same operations in BPF; the monitor in BPF"
$CARGO test --locked --quiet -p takt-conformance --features bpf --test bpf -- --nocapture
$CARGO test --locked --quiet -p takt-monitor --features bpf --test bpf -- --nocapture

step "address and undefined-behaviour sanitizers"
monitor/tests/san.sh

# What these do not reach is marked as missed in their files, with the reason; all else holds.
GATES="DORIS-E1 DORIS-E2 DORIS-E3 DORIS-E4 PORIS-E0 PORIS-E1 PORIS-E2 LAXS-E1 LAXS-E2 LAXS-E3 LAXS-E4 LAXS-E5 LAXS-E6"
GATES="$GATES RTXEN-E1 RTXEN-E2 RTXEN-E3 RTXEN-E4 RTXEN-E5 RISA-E1 RISA-E2 RISA-E3"

step "the gates of the experiments on two seeds"
$CARGO build --release --locked --quiet -p takt --features takt/linux,takt/xen -p takt-vmm -p takt-lab
for id in $GATES; do
	echo "$id"
	target/release/takt experiment "$id" --known --seeds 1-2 > target/experiment || { cat target/experiment; exit 1; }
	grep -E '^(ok|MISSED) +gate' target/experiment
done

step "Linux and KVM: guests on a real kernel in an emulated machine"
$CARGO test --release --locked --quiet -p takt-lab --lib --bins --test linux -- --nocapture --test-threads 2

step "Xen: the hypervisor with dom0 and guests in an emulated machine"
$CARGO test --release --locked --quiet -p takt-lab --test xen --test hosts -- --nocapture --test-threads 2

printf '\nall tests passed (%s)\n' "$(date +%H:%M:%S)"
