#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Installs QEMU 10 or newer: older ones now and then trip over what the lab does. Debian 12 has it in backports, which this run of
# apt alone sees: the system's own sources stay as they are.
set -eu

say() { echo "setup: $*" >&2; }
as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
		say "needs root to run: $*"
		exit 2
	fi
}
new_enough() {
	v=$(qemu-system-x86_64 --version 2>/dev/null | sed -nE 's/^QEMU emulator version ([0-9]+)\..*/\1/p')
	[ -n "$v" ] && [ "$v" -ge 10 ]
}
! new_enough || exit 0

command -v apt-get >/dev/null || { say "not a Debian system; please install QEMU 10 or newer (qemu-system-x86_64)"; exit 2; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
mkdir -p "$dir/parts" "$dir/lists/partial"
for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list; do
	[ ! -f "$f" ] || cp "$f" "$dir/parts/"
done
# shellcheck disable=SC1091
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")-backports
mirror=$(cat "$dir"/parts/* | sed -nE 's/^(URIs:|deb )[[:space:]]*(\[[^]]*\][[:space:]]*)?(https?:[^[:space:]]*\/debian)\/?([[:space:]].*)?$/\3/p' | head -n 1)
mirror=${mirror:-http://deb.debian.org/debian}
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" > "$dir/parts/takt-backports.list"
apt() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$dir/parts" \
		-o Dir::State::Lists="$dir/lists" -o APT::Sandbox::User=root -o DPkg::Lock::Timeout=300 "$@"
}
apt -qq update
say "installing QEMU from $suite or the release"
# What Debian 13 has itself is new enough; Debian 12's is not.
if apt-cache -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$dir/parts" -o Dir::State::Lists="$dir/lists" policy qemu-system-x86 |
	grep -qE 'Candidate: 1:[1-9][0-9]'; then
	apt install -y -qq --no-install-recommends qemu-system-x86 >/dev/null
else
	apt install -y -qq --no-install-recommends -t "$suite" qemu-system-x86 >/dev/null
fi
new_enough || { say "QEMU 10 or newer is not among the packages; please install it"; exit 2; }
