#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# xen.sh [release|lab|cost]: builds Debian's Xen 4.20 with Takt in it and prints the directory that
# holds xen (for a boot loader's, or QEMU's, -kernel), xen-syms, config and include/public.
# `release` is without CONFIG_DEBUG. With `lab`, xen/patches/lab as well; `cost` is that without
# CONFIG_DEBUG.
#
# Fetches the source once and builds what has changed; without changes it does nothing, and needs no network. Ends with 1 if the
# build fails, with another status if it cannot begin.
set -eu

cd "$(dirname "$0")/.."
top=$PWD
variant=${1:-plain}
case $variant in plain | release | lab | cost) ;; *) echo "usage: xen.sh [release|lab|cost]" >&2; exit 2 ;; esac
mkdir -p "${TAKT_CACHE:-target/cache}/xen"
cache=$(cd "${TAKT_CACHE:-target/cache}/xen" && pwd)
# shellcheck source=scripts/apt.sh
. scripts/apt.sh

say() { echo "xen: $*" >&2; }
as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
		say "needs root to run: $*"
		exit 2
	fi
}

exec 9> "$cache/lock"
flock 9

# ---- the source: the suite's, as its signed index vouches for it, or the one that xen/source names ----

# fetch NAME URI HASH-KIND HASH: into the cache; not at all unless the hash is right. What apt says
# is in fetch.log.
fetch() {
	case $3 in SHA256 | SHA512) ;; *) say "no strong hash of $1"; exit 1 ;; esac
	say "fetching $1"
	/usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file "$2" "$cache/part.tar.xz" "$3:$4" \
		> "$cache/fetch.log" 2>&1 || return 1
	echo "$4  $cache/part.tar.xz" | "$(echo "$3" | tr '[:upper:]' '[:lower:]')sum" --check --quiet >&2 || return 1
	source=$cache/$1
	mv "$cache/part.tar.xz" "$source"
}

source=$(find "$cache" -maxdepth 1 -name 'xen_4.20.*.orig.tar.xz' | sort | tail -n 1)
if [ -z "$source" ]; then
	command -v apt-get >/dev/null || { say "not a Debian system; please put xen_4.20.*.orig.tar.xz into $cache"; exit 2; }
	say "looking for the source of Xen 4.20"
	apt_suite trixie "$cache"
	line=$(apt_get -qq source --print-uris xen | grep -F .orig.tar.xz | head -n 1)
	# 'uri' file size kind:hash
	# shellcheck disable=SC2086
	set -- $line
	[ $# -eq 4 ] || { say "no source of Xen in trixie"; exit 2; }
	case $2 in xen_4.20.*) ;; *) say "trixie has $2, not Xen 4.20"; exit 2 ;; esac
	uri=${1#\'} uri=${uri%\'}
	# A mirror may have an index of a new release before it has the files, and then has those of the release before.
	if ! fetch "$2" "$uri" "${4%%:*}" "${4#*:}"; then
		read -r tested hash <<-EOF
			$(grep -v '^#' xen/source)
		EOF
		why="$2 cannot be fetched"
		! grep -q ' 404  *Not Found' "$cache/fetch.log" || why="the mirror does not have $2"
		say "$why; taking $tested, with which Takt was tested"
		fetch "$tested" "$mirror/pool/main/x/xen/$tested" SHA256 "$hash" || {
			cat "$cache/fetch.log" >&2
			say "$tested cannot be fetched"
			exit 2
		}
	fi
fi

# ---- what it is built from ----

patches=$(find xen/patches -maxdepth 1 -name '*.patch' | sort)
case $variant in lab | cost) patches="$patches $(find xen/patches/lab -name '*.patch' | sort)" ;; esac
digest() { sha256sum "$@" | sha256sum | cut -c 1-16; }
# shellcheck disable=SC2086
base=$(digest "$source" $patches)
glue=$(cd "$top" && find xen/sched policy/core policy/*.[ch] policy/*.def -type f | grep -v '/\.' | sort)
# shellcheck disable=SC2086
key=$( (echo "$base"; sha256sum xen/config scripts/xen.sh $glue) | sha256sum | cut -c 1-16)
out=$cache/$variant-$key
[ ! -e "$out/done" ] || { echo "$out"; exit 0; }

missing=
for tool in gcc make bison flex python3 xz patch; do command -v $tool >/dev/null || missing="$missing $tool"; done
if [ -n "$missing" ]; then
	say "installing$missing"
	as_root apt-get update -qq
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev make bison flex python3 \
		xz-utils patch binutils >/dev/null
fi

# ---- the tree: unpacked anew if the source or a patch is another one ----

tree=$cache/tree-$variant
if [ "$(cat "$tree/base" 2>/dev/null)" != "$base" ]; then
	say "unpacking $(basename "$source")"
	rm -rf "$tree"
	mkdir -p "$tree"
	tar -C "$tree" --strip-components 1 -xf "$source"
	for p in $patches; do
		say "applying $p"
		patch -d "$tree" -p 1 -s < "$p"
	done
	echo "$base" > "$tree/base"
fi
# Only what differs, so that make builds only that.
there=$tree/xen/common/sched/takt
place() { mkdir -p "$(dirname "$2")"; cmp -s "$1" "$2" || cp "$1" "$2"; }
for f in $glue; do
	case $f in
	xen/sched/*) place "$f" "$there/${f#xen/sched/}" ;;
	*) place "$f" "$there/$f" ;;
	esac
done
# A file for each policy (xen/sched/one.h).
policies=$(sed -n 's/^TAKT_POLICY([0-9]*, \([a-z0-9_]*\), .*/\1/p' policy/policies.def)
for f in "$there"/one-*.c; do
	name=${f##*/one-}
	echo "$policies" | grep -qx "${name%.c}" || rm -f "$f"
done
for name in $policies; do
	printf '#define TAKT_ONLY %s\n#include "one.h"\n' "$name" > "$cache/one.c"
	place "$cache/one.c" "$there/one-$name.c"
done
case $variant in
release | cost) sed 's/^CONFIG_DEBUG=y$/# CONFIG_DEBUG is not set/' xen/config > "$tree/wanted" ;;
*) place xen/config "$tree/wanted" ;;
esac

# ---- the hypervisor ----

# What runs in the background, if anything: it ends with this script.
making=
stop() {
	[ -z "$making" ] || ! kill "$making" 2>/dev/null || wait "$making" || :
	making=
}
trap stop EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Nothing of the time and place of the build is in it. Prints a line each 10 s.
build() {
	make -C "$tree/xen" XEN_BUILD_DATE=- XEN_BUILD_TIME=- XEN_BUILD_HOST=- XEN_WHOAMI=takt XEN_DOMAIN=- XEN_TARGET_ARCH=x86_64 "$@" \
		>> "$tree/log" 2>&1 &
	making=$!
	seconds=0
	while sleep 1 && kill -0 "$making" 2>/dev/null; do
		seconds=$((seconds + 1))
		[ $((seconds % 10)) != 0 ] ||
			say "building, $(grep -c '^  CC ' "$tree/log") files, $seconds s"
	done
	failed=0
	wait "$making" || failed=$?
	making=
	[ "$failed" = 0 ] || { tail -n 40 "$tree/log" >&2; say "the build failed: $tree/log"; exit 1; }
}
: > "$tree/log"
if ! cmp -s "$tree/wanted" "$tree/configured"; then
	cp "$tree/wanted" "$tree/xen/.config"
	build olddefconfig
	while read -r line; do
		grep -qxF "$line" "$tree/xen/.config" || { say "Xen does not take '$line'"; exit 1; }
	done < "$tree/wanted"
	cp "$tree/wanted" "$tree/configured"
fi
say "building ($tree/log; the first time takes minutes)"
build -j"$(nproc)" build
rm -rf "$out"
mkdir -p "$out/include"
cp "$tree/xen/xen" "$tree/xen/xen-syms" "$out/"
cp "$tree/xen/.config" "$out/config"
cp -r "$tree/xen/include/public" "$out/include/xen"
touch "$out/done"
say "built $out"
echo "$out"
