#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds takt_VERSION_amd64.deb in OUT from target/release/takt; LEVEL is that of the compression. Equal input gives
# equal bytes: times are those of the last commit, or of CHANGELOG.md where there is no repository.
set -eu

OUT=${OUT:-out}
command -v dpkg-deb >/dev/null || { echo "deb: dpkg-deb is missing; it is part of Debian" >&2; exit 2; }
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH
root=$(mktemp -d)
chmod 755 "$root"
trap 'rm -rf "$root"' EXIT
trap 'exit 130' INT TERM
umask 022

DESTDIR=$root PREFIX=/usr SYSCONFDIR=/etc UNITDIR=/usr/lib/systemd/system scripts/install.sh
doc=$root/usr/share/doc/takt
rm "$doc/LICENSE"
# Debian's tools read a form of their own.
printf 'takt (%s) unstable; urgency=medium\n\n  * Changes are in /usr/share/doc/takt/CHANGELOG.md.\n\n -- %s  %s\n' "$version" \
	"$(sed -n 's/^Maintainer: //p' packaging/deb/control)" "$(date -uR -d "@$SOURCE_DATE_EPOCH")" | gzip -9n > "$doc/changelog.gz"
cp packaging/copyright "$doc/copyright"
install -D -m 644 packaging/deb/lintian-overrides "$root/usr/share/lintian/overrides/takt"
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$root/usr/bin/takt"

# Each library with the version of this system, as dpkg-shlibdeps would find it.
depends=
for library in $(objdump -p "$root/usr/bin/takt" | sed -n 's/^ *NEEDED *//p'); do
	file=$(ldconfig -p | sed -n "s|^[[:space:]]*$library (.*x86-64.*) => ||p" | head -n 1)
	[ -n "$file" ] || continue
	# Packages know their files by /lib or by /usr/lib, whichever it was.
	package=$(dpkg-query -S "*/${file##*/}" | grep -F x86_64-linux-gnu/ | sed 's/:.*//' | head -n 1)
	[ -n "$package" ] || { echo "deb: no package has $file" >&2; exit 2; }
	case ",$depends" in *", $package ("*) continue ;; esac
	least=$(dpkg-query -W -f '${Version}' "$package" | sed 's/-[^-]*$//')
	depends="$depends, $package (>= $least)"
done

install -d "$root/DEBIAN"
# In KiB by the lengths of the files, as dpkg-gencontrol counts: what a file takes on the disk is known only later.
size=$(find "$root" -path "$root/DEBIAN" -prune -o -type f -printf '%s\n' -o -printf '1\n' |
	awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }')
sed -e "s|@VERSION@|$version|" -e "s|@SIZE@|$size|" -e "s|@DEPENDS@|${depends#, }|" packaging/deb/control > "$root/DEBIAN/control"
echo /etc/takt/takt.toml > "$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do install -m 755 "packaging/deb/$script" "$root/DEBIAN/$script"; done
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) > "$root/DEBIAN/md5sums"
# dpkg-deb changes only times that are later than this one; on a machine with a slow clock they are earlier.
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$OUT"
dpkg-deb --root-owner-group -z"${LEVEL:-6}" --build "$root" "$OUT/takt_${version}_amd64.deb" >/dev/null
echo "$OUT/takt_${version}_amd64.deb"
