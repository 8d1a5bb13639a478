#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# initrd.sh PACKAGES XEN OUT [PLAN]: packs dom0's file system: xl and its helpers with their libraries, modules, the tools and cases
# of this directory, and the plan that case `scenario` follows. PACKAGES is what packages.sh prints, XEN what scripts/xen.sh prints.
# TAKT, from the environment, is a program to be packed with this system's libraries.
set -eu

packages=$1 xen=$2 out=$3 plan=${4:-}
here=$(cd "$(dirname "$0")" && pwd)
root=$packages/dom0 kernel=$packages/kernel
lib=usr/lib/x86_64-linux-gnu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$work"
mkdir -p bin sbin proc sys dev tmp run root etc/xen var/log/xen/console var/lib/xenstored var/lib/xen usr/bin usr/sbin $lib usr/lib64 mods
ln -s usr/lib lib
ln -s usr/lib64 lib64
ln -s ../run var/run

# modules, in the order of their dependencies
for m in llc stp bridge xen-evtchn xen-gntdev xen-gntalloc xen-privcmd xenfs xen-netback; do
	file=$(find "$kernel/usr/lib/modules" -name "$m.ko.xz" | head -n 1)
	[ -n "$file" ] || { echo "xen lab: no module $m" >&2; exit 1; }
	xz -dc "$file" > "mods/$m.ko"
	echo "$m.ko" >> mods/order
done

bin=usr/lib/xen-4.20/bin
mkdir -p $bin
for b in xl xenstored xenconsoled xen-init-dom0 libxl-save-helper xentrace; do
	cp -L "$root/$bin/$b" $bin/
done
for b in "$root"/usr/bin/xenstore-* "$root"/usr/bin/xenalyze; do cp -L "$b" usr/bin/; done
cp "$root/usr/bin/busybox" bin/busybox
cp -r "$root/etc/xen/scripts" etc/xen/
: > etc/xen/xl.conf

loader=$root/usr/lib64/ld-linux-x86-64.so.2
[ -e "$loader" ] || loader=$root/$lib/ld-linux-x86-64.so.2
cp -L "$loader" usr/lib64/ld-linux-x86-64.so.2
# libgcc_s is loaded by a thread that ends.
for b in $bin/* usr/bin/*; do
	"$loader" --library-path "$root/$lib" --list "$b" 2>/dev/null | sed -nE 's/.*=> ([^ ]+) .*/\1/p'
done | { cat; echo "$root/$lib/libgcc_s.so.1"; } | sort -u | while read -r l; do cp -L "$l" $lib/; done

# a guest with Linux
cp "$here/vif" root/vif
cp "$(find "$kernel/boot" -name 'vmlinuz-*' | head -n 1)" root/vmlinuz
mkdir -p guest/bin guest/proc guest/sys guest/dev guest/mods
cp "$root/usr/bin/busybox" guest/bin/
cp "$here/guest-init" guest/init
xz -dc "$(find "$kernel/usr/lib/modules" -name xen-netfront.ko.xz)" > guest/mods/xen-netfront.ko
archive() { find . -exec touch -h -d @0 {} +; find . | LC_ALL=C sort | cpio -o -H newc --reproducible --owner 0:0 --quiet | gzip -1n; }
(cd guest && archive) > root/guest
rm -r guest

# our own
flags="-std=gnu11 -O2 -Wall -Wextra -Werror"
mkdir include
ln -s "$xen/include/xen" include/xen
guest() {
	name=$1
	shift
	# shellcheck disable=SC2086
	gcc $flags -ffreestanding -fno-pic -no-pie -mno-red-zone -mgeneral-regs-only -fno-stack-protector -fcf-protection=none \
		-fno-asynchronous-unwind-tables -nostdlib -static -I include -T "$here/pv.lds" -Wl,--build-id=none,--no-warn-rwx-segments \
		-o "root/$name" "$@" "$here/pv.c"
}
guest tiny "$here/tiny.c"
guest worker "$here/worker.c" "$here/parallel.c" "$here/fanout.c" "$here/clients.c"
# shellcheck disable=SC2086
gcc $flags -static -I include -o bin/takt-ctl "$here/ctl.c"
gcc $flags -static -o bin/emit "$here/emit.c"
rm -r include
cp -r "$here/cases" root/cases
cp "$here/init" init
[ -z "$plan" ] || cp "$plan" root/plan
if [ -n "${TAKT:-}" ]; then
	mkdir takt
	cp "$TAKT" takt/takt
	strip takt/takt
	ldd "$TAKT" | sed -nE 's/.*=> ([^ ]+) .*/\1/p; s/^[[:space:]]*(\/[^ ]+) .*/\1/p' | sort -u | while read -r l; do cp -L "$l" takt/; done
	printf '#!/bin/sh\nexec /takt/ld-linux-x86-64.so.2 --library-path /takt /takt/takt "$@"\n' > bin/takt
	chmod +x bin/takt
fi

archive > "$out"
