#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds cargo-deny into the cache: scripts/lint.sh checks by it what Takt is built from. Does nothing, and needs no
# network, when it is there already.
set -eu

# The last one that Rust 1.85 builds.
VERSION=0.18.3

cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
cache=${TAKT_CACHE:-target/cache}
root=$cache/cargo-deny
[ "$("$root/bin/cargo-deny" --version 2>/dev/null)" != "cargo-deny $VERSION" ] || exit 0

say() { echo "setup: $*" >&2; }
mkdir -p "$cache"
dir=$(mktemp -d -p "$cache")
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
say "building cargo-deny $VERSION: seven minutes of CPU time, once"
# Without TLS: it never uses the network here.
$CARGO install --quiet --locked --version "=$VERSION" --no-default-features --root "$dir/root" --target-dir "$dir/target" cargo-deny || {
	say "cargo-deny cannot be built: licences and origins of packages are not checked"
	exit 2
}
rm -rf "$root"
mv "$dir/root" "$root"
say "cargo-deny $VERSION is in $root"
