#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# kernel.sh CACHE SERIES: prints the directory in CACHE, which must exist, with Debian's newest
# kernel of the series (7.3, 6.18): vmlinux (uncompressed), modules/*.ko, modules/order (in which to
# load them), modules/guest (in which to load those of a guest with virtio), modules/disk (those of a
# machine with a disk), wanted, release.
# Fetches the kernel with apt if it is not there, or was fetched with other modules.
#
# The system's own apt sources name the mirror. apt works in a directory of its own below CACHE: nothing of the system's changes.
set -eu

cache=$(cd "$1" && pwd)
series=$2
modules="irqbypass kvm ccp kvm-amd vhost_iotlb tap vhost tun vhost_net veth cls_bpf sch_ingress macvlan macvtap"
guest="failover net_failover virtio_net"
disk="virtio_blk mbcache jbd2 crc16 ext4"
dir=$cache/linux-$series
there() { [ -s "$dir/release" ] && [ "$(cat "$dir/wanted" 2>/dev/null)" = "$modules / $guest / $disk" ]; }
there && { echo "$dir"; exit 0; }

say() { echo "kernel.sh: $*" >&2; }
# The reason, for the one line in which `takt` says that there is no kernel.
fail() {
	echo "error: $*" >&2
	exit 1
}
for tool in apt-get dpkg-deb flock zstd xz od; do
	command -v $tool >/dev/null || fail "needs $tool"
done
# Tests ask for kernels at the same time.
exec 9> "$cache/lock"
flock 9
there && { echo "$dir"; exit 0; }

work=$dir.part
rm -rf "$work"
mkdir -p "$work/modules" "$cache/apt/lists/partial" "$cache/apt/archives/partial"
trap 'rm -rf "$work"' EXIT
# quietly COMMAND...: runs it; if it fails, the reason is the first error or warning that it printed, or its last line.
quietly() {
	"$@" > "$work/log" 2>&1 && return
	reason=$(sed -nE 's/^[EW]: //p; s/^ +//p' "$work/log" | head -n 1)
	fail "$mirror: ${reason:-$(tail -n 1 "$work/log")}"
}
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null |
	sed -nE 's/^(URIs:|deb )[[:space:]]*(\[[^]]*\][[:space:]]*)?(https?:[^[:space:]]*\/debian)\/?([[:space:]].*)?$/\3/p' | head -n 1)
mirror=${mirror:-http://deb.debian.org/debian}
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie-backports main" > "$cache/apt/kernels.list"
set -- -o Dir::Etc::SourceList="$cache/apt/kernels.list" -o Dir::Etc::SourceParts=/dev/null \
	-o Dir::State::Lists="$cache/apt/lists" -o Dir::Cache="$cache/apt" -o APT::Sandbox::User=root
say "looking for Linux $series at $mirror"
quietly apt-get "$@" -q -o APT::Update::Error-Mode=any update

# Newer kernels come unsigned in packages of their own (the signed ones follow); older ones signed only.
release=
for package in linux-binary-unsigned linux-image; do
	release=$(apt-cache "$@" pkgnames "$package-$series." | sed -nE "s/^$package-([0-9.]+\+deb13-amd64)\$/\1/p" | sort -V | tail -n 1)
	[ -z "$release" ] || break
done
[ -n "$release" ] || fail "no kernel $series in trixie-backports at $mirror"
packages=$package-$release
apt-cache "$@" show "linux-modules-$release" >/dev/null 2>&1 && packages="$packages linux-modules-$release"
say "fetching Linux $release, about 120 MB"
cd "$work"
# shellcheck disable=SC2086
quietly apt-get "$@" -q download $packages
for deb in "$work"/*.deb; do dpkg-deb -x "$deb" "$work/root"; done

# A bzImage is setup code (its length in sectors at 0x1f1) and protected-mode code, which holds the compressed kernel at the
# offset in 0x248, of the length in 0x24c.
image=$(find "$work/root" -name 'vmlinuz*' -type f | head -n 1)
number() { od -An -tu"$2" -j "$1" -N "$2" "$image" | tr -d ' '; }
start=$((($(number 497 1) + 1) * 512 + $(number 584 4)))
tail -c +$((start + 1)) "$image" | head -c "$(number 588 4)" > "$work/payload"
case $(od -An -tx1 -N 4 "$work/payload" | tr -d ' ') in
28b52ffd) zstd -qdcf "$work/payload" > "$work/vmlinux" 2>/dev/null || : ;; # the kernel's length follows the stream
fd377a58) xz -dcf --single-stream "$work/payload" > "$work/vmlinux" ;;
*) fail "$image: neither xz nor zstd inside" ;;
esac
[ "$(head -c 4 "$work/vmlinux" | tail -c 3)" = ELF ] || fail "$image: no ELF file inside"

# unpack ORDER MODULE...
unpack() {
	order=$1
	shift
	for m; do
		file=$(find "$work/root" -name "$(echo "$m" | sed 's/[-_]/[-_]/g').ko*" | head -n 1)
		[ -n "$file" ] || continue # built in, or not a module of this version
		name=$(basename "$file" | sed 's/\.ko.*/.ko/')
		case $file in
		*.xz) xz -dc "$file" > "$work/modules/$name" ;;
		*.zst) zstd -qdc "$file" > "$work/modules/$name" ;;
		*) cp "$file" "$work/modules/$name" ;;
		esac
		echo "$name" >> "$work/modules/$order"
	done
}
# shellcheck disable=SC2086
unpack order $modules
# shellcheck disable=SC2086
unpack guest $guest
# shellcheck disable=SC2086
unpack disk $disk
rm -rf "$work/root" "$work/payload" "$work/log" "$work"/*.deb
echo "$modules / $guest / $disk" > "$work/wanted"
echo "$release" > "$work/release"
rm -rf "$dir"
mv "$work" "$dir"
echo "$dir"
