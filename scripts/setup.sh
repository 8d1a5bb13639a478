#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Installs what `make demo` (build), `make takt-linux` (linux) or `make test` (test) needs on Debian 12 or 13. Does nothing, and needs no
# network, when it is there already.
set -eu

what=${1:-build}
packages="gcc libc6-dev make ca-certificates"
[ "$what" = build ] || packages="$packages pkg-config libelf-dev zlib1g-dev libbpf-dev linux-libc-dev"
[ "$what" != test ] || packages="$packages sip-tester tshark python3 cpio zstd xz-utils binutils iproute2 systemd tmux"
# What the monitor costs them is measured.
[ "$what" != test ] || packages="$packages iperf3 iputils-ping"
# Shows the reports to their test: the smallest of Debian's packages of Chromium that renders a page without a screen.
[ "$what" != test ] || packages="$packages chromium-headless-shell"

say() { echo "setup: $*" >&2; }

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
		say "needs root to run: $*"
		exit 2
	fi
}

installed() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

updated=no
apt_updated() { [ "$updated" = yes ] || { as_root apt-get update -qq; updated=yes; }; }
install() {
	command -v apt-get >/dev/null || { say "not a Debian system; please install: $*"; exit 2; }
	apt_updated
	say "installing $*"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

missing=
for p in $packages; do installed "$p" || missing="$missing $p"; done
# shellcheck disable=SC2086
[ -z "$missing" ] || install $missing

# Rust 1.85 or newer: the one in the PATH, else Debian 13's own, else Debian 12's package for browsers.
new_enough() {
	v=$("$1" --version 2>/dev/null | sed -n 's/^[a-z]* 1\.\([0-9]*\)\..*/\1/p')
	[ -n "$v" ] && [ "$v" -ge 85 ]
}
if ! new_enough cargo || ! new_enough rustc; then
	version() { apt-cache policy "$1" | sed -n 's/ *Candidate: \(1\.[0-9]*\).*/\1/p' | cut -d. -f2; }
	apt_updated
	if [ "$(version rustc)" -ge 85 ] 2>/dev/null; then
		install rustc cargo
	elif [ "$(version rustc-web)" -ge 85 ] 2>/dev/null; then
		install rustc-web cargo-web
	else
		say "no Rust 1.85 or newer among the packages; please install it by rustup"
		exit 2
	fi
	new_enough cargo || { say "cargo in the PATH is older than 1.85: $(command -v cargo)"; exit 2; }
fi

# Style checks, from where the compiler came.
if [ "$what" = test ] && ! { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1; then
	if installed rustc-web; then install rustfmt-web rust-web-clippy
	elif installed rustc; then install rustfmt rust-clippy
	else say "please add the components rustfmt and clippy to your Rust"; fi
fi

# A clang that knows the target BPF and enumerators of 64 bits.
if [ "$what" != build ]; then
	found=no
	for c in clang-21 clang-20 clang-19 clang-18 clang-17 clang-16 clang-15; do
		command -v "$c" >/dev/null && found=yes
	done
	if [ "$found" = no ]; then
		newest=
		apt_updated
		for c in clang-19 clang-18 clang-17 clang-16 clang-15; do
			[ -n "$newest" ] || { apt-cache show "$c" >/dev/null 2>&1 && newest=$c; } || true
		done
		[ -n "$newest" ] || { say "no clang of version 15 or newer among the packages; please install one"; exit 2; }
		install "$newest"
	fi
fi

# Its formatter, of one version: another one formats otherwise.
if [ "$what" = test ] && ! command -v clang-format-19 >/dev/null; then
	apt_updated
	if apt-cache show clang-format-19 >/dev/null 2>&1; then install clang-format-19; else
		say "no clang-format-19 among the packages: the format of C is not checked"
	fi
fi

# A way to boot a kernel where the machine refuses BPF, and the lab.
if [ "$what" = test ]; then
	"$(dirname "$0")/qemu.sh"
	# What needs one of these says SKIPPED without it.
	"$(dirname "$0")/axe.sh" || :
	"$(dirname "$0")/deny.sh" || :
fi

# Crates come once; afterwards builds run offline.
if ! cargo fetch --locked --offline >/dev/null 2>&1; then
	say "downloading crates"
	cargo fetch --locked
fi
