#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# debian.sh CACHE: prints the path of an ext4 image in CACHE with a small Debian 13: systemd, udev, dbus, apt, and what
# Takt's package depends on, configured as Debian leaves it. It has no kernel: the lab has one. Makes the image from
# packages of Debian's mirror if it is not there, or was made by another version of this script.
set -eu

suite=trixie
# apt has no network in the emulated machine, so the dependencies of Takt's package must be there.
packages="systemd-sysv udev dbus procps iproute2 bpftool libelf1t64 zlib1g"
size=1G
mkdir -p "$1"
cache=$(cd "$1" && pwd)
dir=$cache/debian-13
# As this script makes it.
wanted=$(cksum < "$0")
there() { [ -s "$dir/image" ] && [ "$(cat "$dir/wanted" 2>/dev/null)" = "$wanted" ]; }
there && { echo "$dir/image"; exit 0; }

fail() {
	echo "error: $*" >&2
	exit 1
}
for tool in mmdebstrap mke2fs flock; do
	command -v $tool >/dev/null || fail "needs $tool (apt install mmdebstrap e2fsprogs util-linux)"
done
exec 9> "$dir.lock"
flock 9
there && { echo "$dir/image"; exit 0; }

# shellcheck source=scripts/apt.sh
. "$(dirname "$0")/../../scripts/apt.sh"
debian_mirror
part=$dir.part
rm -rf "$part"
mkdir "$part"
trap 'rm -rf "$part"' EXIT
echo "debian.sh: making a Debian 13 from $mirror, about 100 MB" >&2
# The tree alone: mmdebstrap has mounted file systems in it.
# shellcheck disable=SC2016
image='unshare --mount sh -ec '\''mount --bind "$1" /mnt; mke2fs -q -t ext4 -d /mnt "$2" "$3"'\'' sh'
# No service is kept from starting: that would hold for the image, too.
# shellcheck disable=SC2016
mmdebstrap --quiet --skip=chroot/policy-rc.d,chroot/start-stop-daemon --variant=minbase --include="$(echo "$packages" | tr ' ' ',')" \
	--keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
	--customize-hook='chroot "$1" apt-get clean && rm -rf "$1"/var/lib/apt/lists/* "$1"/etc/dpkg/dpkg.cfg.d/99mmdebstrap' \
	--customize-hook='echo host > "$1/etc/hostname"; echo 74616b74000000000000000000000001 > "$1/etc/machine-id"' \
	--customize-hook="$image \"\$1\" '$part/image' $size" \
	$suite /dev/null "deb $mirror $suite main" > "$part/log" 2>&1 ||
	fail "$mirror: $(sed -nE 's/^E: //p' "$part/log" | head -n 1)"
rm "$part/log"
echo "$wanted" > "$part/wanted"
rm -rf "$dir"
mv "$part" "$dir"
echo "$dir/image"
