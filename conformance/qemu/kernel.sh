#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# kernel.sh CACHE: prints the path of a Debian kernel of 6.12 or later in CACHE; fetches it with apt if it is not there.
#
# The system's own apt sources name the mirror; the suites asked for are those that have such kernels. apt works in a
# directory of its own below CACHE: nothing of the system's changes.
set -eu
cache=$1/kernel
kernel=$cache/vmlinuz
[ -s "$kernel" ] && { echo "$kernel"; exit 0; }
mkdir -p "$cache/apt/lists/partial" "$cache/apt/archives/partial"
cache=$(cd "$cache" && pwd)
kernel=$cache/vmlinuz
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null |
	sed -nE 's/^(URIs:|deb )[[:space:]]*(\[[^]]*\][[:space:]]*)?(https?:[^[:space:]]*\/debian)\/?([[:space:]].*)?$/\3/p' | head -n 1)
mirror=${mirror:-http://deb.debian.org/debian}
for suite in trixie bookworm-backports; do
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" > "$cache/apt/sources.list"
	set -- -o Dir::Etc::SourceList="$cache/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State::Lists="$cache/apt/lists" -o Dir::Cache="$cache/apt" -o APT::Sandbox::User=root
	apt-get "$@" -q update >&2 || continue
	package=$(apt-cache "$@" depends linux-image-cloud-amd64 | sed -nE 's/^ *Depends: (linux-image-[^ ]+).*/\1/p' | head -n 1)
	[ -n "$package" ] || continue
	(cd "$cache" && apt-get "$@" -q download "$package" >&2) || continue
	dpkg-deb --fsys-tarfile "$cache/$package"_*.deb | tar -xO --wildcards './boot/vmlinuz-*' > "$kernel.part"
	[ -s "$kernel.part" ] || continue
	mv "$kernel.part" "$kernel"
	rm -f "$cache/$package"_*.deb
	echo "$package" > "$cache/name"
	echo "$kernel"
	exit 0
done
exit 1
