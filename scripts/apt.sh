# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# For scripts that source it: packages of a Debian suite whatever system this is, by an apt that works in a directory of its own.
# apt_suite SUITE DIR prepares; `apt_get ...` and `apt_cache ...` work on it afterwards. debian_mirror sets `mirror`.

# The one that the system's own sources name.
debian_mirror() {
	mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null |
		sed -nE 's/^(URIs:|deb )[[:space:]]*(\[[^]]*\][[:space:]]*)?(https?:[^[:space:]]*\/debian)\/?([[:space:]].*)?$/\3/p' | head -n 1)
	mirror=${mirror:-http://deb.debian.org/debian}
}
apt_suite() {
	apt_dir=$2/apt-$1
	mkdir -p "$apt_dir/lists/partial" "$apt_dir/archives/partial"
	apt_dir=$(cd "$apt_dir" && pwd)
	debian_mirror
	for kind in deb deb-src; do
		echo "$kind [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main"
	done > "$apt_dir/sources.list"
	apt_get -q update >&2
}
apt_options() {
	tool=$1
	shift
	"$tool" -o Dir::Etc::SourceList="$apt_dir/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$apt_dir/lists" \
		-o Dir::State::Status="$apt_dir/status" -o Dir::Cache="$apt_dir" -o APT::Sandbox::User=root -o Debug::NoLocking=true "$@"
}
# Nothing counts as installed.
apt_get() { : > "$apt_dir/status"; apt_options apt-get "$@"; }
apt_cache() { : > "$apt_dir/status"; apt_options apt-cache "$@"; }
