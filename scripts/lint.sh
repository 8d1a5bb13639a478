#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Style. What is not installed is skipped, and that fails when CI=true.
set -eu

CARGO=${CARGO:-cargo}

skip() {
	echo "SKIPPED: $* is not installed"
	[ "${CI:-}" != true ]
}

if $CARGO fmt --version >/dev/null 2>&1; then $CARGO fmt --all --check; else skip cargo fmt; fi
if $CARGO clippy --version >/dev/null 2>&1; then
	$CARGO clippy --quiet --locked --workspace --all-targets --features takt/linux,takt/xen,takt-conformance/bpf,takt-conformance/mutants,takt-monitor/bpf -- -D warnings
else
	skip cargo clippy
fi
# C, but for what follows Xen's style (xen/sched/.clang-format).
if command -v clang-format-19 >/dev/null; then
	find conformance fuzz lab linux monitor policy xen -name '*.[ch]' ! -path '*/target/*' -exec clang-format-19 --dry-run --Werror {} +
else
	skip clang-format-19
fi
# Licences and origins of all packages that Takt is built from, by deny.toml.
deny=${TAKT_CACHE:-target/cache}/cargo-deny/bin/cargo-deny
if [ -x "$deny" ]; then
	"$deny" --offline --locked --log-level error check licenses bans sources
else
	skip "cargo-deny (scripts/deny.sh)"
fi
