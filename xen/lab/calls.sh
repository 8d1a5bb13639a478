#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# calls.sh PACKAGES OUT: packs what case `calls` needs beside what initrd.sh packs: a Linux guest with SIPp. PACKAGES is what packages.sh
# prints.
set -eu

packages=$1 out=$2
here=$(cd "$(dirname "$0")" && pwd)
root=$packages/sipp kernel=$packages/kernel
lib=usr/lib/x86_64-linux-gnu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$work"
archive() { find . -exec touch -h -d @0 {} +; find . | LC_ALL=C sort | cpio -o -H newc --reproducible --owner 0:0 --quiet | gzip -1n; }

mkdir -p guest/bin guest/proc guest/sys guest/dev guest/tmp guest/mods guest/$lib guest/usr/lib64 root
cd guest
ln -s usr/lib lib
ln -s usr/lib64 lib64
cp "$packages/dom0/usr/bin/busybox" bin/
cp -L "$root/usr/bin/sipp" bin/
loader=$root/$lib/ld-linux-x86-64.so.2
cp -L "$loader" usr/lib64/
# libgcc_s is loaded by a thread that ends.
"$loader" --library-path "$root/$lib" --list bin/sipp | sed -nE 's/.*=> ([^ ]+) .*/\1/p' | { cat; echo "$root/$lib/libgcc_s.so.1"; } |
	sort -u | while read -r l; do cp -L "$l" $lib/; done
xz -dc "$(find "$kernel/usr/lib/modules" -name xen-netfront.ko.xz)" > mods/xen-netfront.ko
gcc -std=gnu11 -O2 -Wall -Wextra -Werror -static -o bin/meter "$here/meter.c"
gcc -std=gnu11 -O2 -Wall -Wextra -Werror -static -pthread -o bin/media "$here/media.c"
cp "$here/calls-init" init
cp "$here/calls" "$here/calls.xml" "$here/control.xml" "$here/signal.xml" .
# The recording: a voice, G.711, a packet each 30 ms.
cp "$root/usr/share/sip-tester/g711a.pcap" voice.pcap
archive > ../root/calls
cd ..
rm -r guest

archive > "$out"
