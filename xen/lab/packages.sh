#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# packages.sh CACHE: prints the directory in CACHE with kernel/, dom0/ and sipp/ (Debian trixie's; xl and what it needs, SIPp) and qemu/
# (QEMU 7.2 with its own libraries: newer ones fail to set up Xen's timers when they count instructions). Nothing is installed.
set -eu

mkdir -p "$1/xen/packages"
dir=$(cd "$1/xen/packages" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/apt.sh
. "$here/../../scripts/apt.sh"
say() { echo "xen lab: $*" >&2; }

# unpack NAME SUITE PACKAGE...: the packages with all that they depend on
unpack() {
	name=$1 suite=$2
	shift 2
	[ ! -e "$dir/$name/done" ] || return 0
	say "fetching $* of $suite"
	rm -rf "$dir/$name" "$dir/debs"
	mkdir -p "$dir/$name" "$dir/debs/partial"
	apt_get -qq -y -o Dir::Cache::archives="$dir/debs" install --no-install-recommends --download-only "$@" >&2
	for deb in "$dir"/debs/*.deb; do dpkg-deb -x "$deb" "$dir/$name"; done
	rm -rf "$dir/debs"
	touch "$dir/$name/done"
}

exec 9> "$dir/lock"
flock 9
if [ ! -e "$dir/dom0/done" ] || [ ! -e "$dir/kernel/done" ]; then
	apt_suite trixie "$1/xen"
	unpack dom0 trixie xen-utils-4.20 xenstore-utils busybox-static
	kernel=$(apt_cache depends linux-image-amd64 | sed -nE 's/^ *Depends: (linux-image-.*)/\1/p' | head -n 1)
	say "fetching $kernel"
	rm -rf "$dir/kernel"
	mkdir "$dir/kernel"
	(cd "$dir/kernel" && apt_get -qq download "$kernel" >&2 && dpkg-deb -x "$kernel"_*.deb . && rm -f "$kernel"_*.deb && touch done)
fi
if [ ! -e "$dir/sipp/done" ]; then
	apt_suite trixie "$1/xen"
	unpack sipp trixie sip-tester
fi
if [ ! -e "$dir/qemu/done" ]; then
	apt_suite bookworm "$1/xen"
	unpack qemu bookworm qemu-system-x86
fi
echo "$dir"
