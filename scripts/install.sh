#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Installs the built target/release/takt with its manual page, completions, service, configuration and docs. `make install` and
# `make deb` call it. PREFIX and SYSCONFDIR are where it will run, DESTDIR is put before them. UNINSTALL=1 removes the same files,
# but a configuration that was changed.
set -eu

PREFIX=${PREFIX:-/usr/local}
SYSCONFDIR=${SYSCONFDIR:-/etc}
DESTDIR=${DESTDIR:-}
UNITDIR=${UNITDIR:-$PREFIX/lib/systemd/system}
TAKT=${TAKT:-target/release/takt}
for dir in "$PREFIX" "$SYSCONFDIR" "$UNITDIR"; do
	case $dir in
	/*) ;;
	*) echo "install: \`$dir\` must be an absolute path" >&2; exit 2 ;;
	esac
done

bin=$DESTDIR$PREFIX/bin
conf=$DESTDIR$SYSCONFDIR/takt/takt.toml
man=$DESTDIR$PREFIX/share/man/man1
bash=$DESTDIR$PREFIX/share/bash-completion/completions
zsh=$DESTDIR$PREFIX/share/zsh/vendor-completions
fish=$DESTDIR$PREFIX/share/fish/vendor_completions.d
doc=$DESTDIR$PREFIX/share/doc/takt
unit=$DESTDIR$UNITDIR/takt.service
hooks=$DESTDIR$PREFIX/share/takt/hooks
prometheus=$DESTDIR$PREFIX/share/takt/prometheus

if [ -n "${UNINSTALL:-}" ]; then
	rm -f "$bin/takt" "$man/takt.1.gz" "$bash/takt" "$zsh/_takt" "$fish/takt.fish" "$unit"
	rm -rf "$doc" "${hooks%/*}"
	if cmp -s packaging/takt.toml "$conf"; then
		rm "$conf"
		rmdir "${conf%/*}"
	elif [ -e "$conf" ]; then
		echo "install: $conf was changed and stays"
	fi
	exit 0
fi

case $("$TAKT" -V 2>&1) in
*linux*) ;;
*) echo "install: $TAKT is missing or has no Linux host; build it by \`make takt-linux\`" >&2; exit 2 ;;
esac

install -d "$bin" "${conf%/*}" "$man" "$bash" "$zsh" "$fish" "$doc" "${unit%/*}" "$hooks" "$prometheus"
install -m 755 "$TAKT" "$bin/takt"
"$TAKT" man | gzip -9n > "$man/takt.1.gz"
"$TAKT" completions bash > "$bash/takt"
"$TAKT" completions zsh > "$zsh/_takt"
"$TAKT" completions fish > "$fish/takt.fish"
sed "s|@BIN@|$PREFIX/bin|; s|@CONF@|$SYSCONFDIR|" packaging/takt.service > "$unit"
chmod 644 "$man/takt.1.gz" "$bash/takt" "$zsh/_takt" "$fish/takt.fish" "$unit"
if [ -e "$conf" ] && ! cmp -s packaging/takt.toml "$conf"; then
	echo "install: $conf was changed and stays; the new default is packaging/takt.toml"
else
	install -m 644 packaging/takt.toml "$conf"
fi
for hook in libvirt proxmox; do
	sed "s|@BIN@|$PREFIX/bin|" "packaging/$hook-hook" > "$hooks/$hook"
	chmod 755 "$hooks/$hook"
done
install -m 644 packaging/prometheus/takt.rules.yml packaging/prometheus/takt.dashboard.json "$prometheus"
install -m 644 README.md CHANGELOG.md LICENSE "$doc"
cp -R docs "$doc"
find "$doc" -type d -exec chmod 755 {} + -o -type f -exec chmod 644 {} +
