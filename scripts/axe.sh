#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Fetches axe-core (MPL-2.0) into the cache: cli/tests/reports.rs judges by it whether reports are
# accessible. It is not part of Takt. Does nothing, and needs no network, when it is there already.
set -eu

VERSION=4.14.1
SHA256=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745

cd "$(dirname "$0")/.."
cache=${TAKT_CACHE:-target/cache}
file=$cache/axe-core-$VERSION.min.js
[ ! -s "$file" ] || exit 0

say() { echo "setup: $*" >&2; }
mkdir -p "$cache"
dir=$(mktemp -d -p "$cache")
trap 'rm -rf "$dir"' EXIT
say "fetching axe-core $VERSION"
source=https://registry.npmjs.org/axe-core/-/axe-core-$VERSION.tgz
fetch() { /usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file "$@" >&2; }
fetch "$source" "$dir/axe.tgz" "SHA256:$SHA256" || {
	say "axe-core cannot be fetched: the reports are not checked"
	exit 2
}
tar -C "$dir" -xzf "$dir/axe.tgz" package/axe.min.js
mv "$dir/package/axe.min.js" "$file"
