#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The tests that `make test` leaves out because each needs minutes: one after the other, to the end whatever fails, then one table.
# ONLY=REGEX (grep -E) selects by TARGET::NAME, e.g. ONLY=hosts. Logs: target/test-long/.
set -u

CARGO=${CARGO:-cargo}
TAKT_CACHE=${TAKT_CACHE:-$PWD/target/cache}
export TAKT_CACHE
ONLY=${ONLY:-.}
DIR=target/test-long
TABLE=$DIR/table
# Package/target of each.
TARGETS="takt-conformance/mutants takt/documents takt/metrics takt/packaging takt-linux/net takt-lab/linux takt-lab/xen takt-lab/hosts takt-lab/gangs takt-lab/calls takt-lab/media"

rm -rf "$DIR"
mkdir -p "$DIR"
: > "$TABLE"

show() {
	printf '\n%-100s %-8s %8s\n' test result minutes
	awk -F '\t' '{ printf "%-100s %-8s %8.1f%s\n", $1, $2, $3 / 60, $4 ? "  " $4 : "" }' "$TABLE"
}
trap 'echo "interrupted: what follows is what ran until now"; show; exit 130' INT TERM
row() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >> "$TABLE"; }
build() { $CARGO build --release --locked -p takt --features takt/linux,takt/xen -p takt-vmm -p takt-lab; }
# Cargo's test of a target. The program is always the same one: the labs put it into their machines.
cargo_test() {
	features=
	[ "${1%/*}" != takt ] || features="--features takt/linux,takt/xen"
	[ "$1" != takt-conformance/mutants ] || features="--features mutants"
	of=$1
	shift
	# shellcheck disable=SC2086
	$CARGO test --release --locked --quiet -p "${of%/*}" $features --test "${of#*/}" -- "$@"
}
# Names of a target's tests that wait.
names() { cargo_test "$1" --list --ignored --format terse; }

run() {
	target=${1#*/} name=$2 log=$DIR/${1#*/}-$(echo "$2" | tr -c 'A-Za-z0-9_\n' '-').log
	echo "== $target::$name ($(date +%H:%M)), $log"
	start=$(date +%s)
	cargo_test "$1" --exact "$name" --ignored --nocapture > "$log" 2>&1 < /dev/null
	status=$?
	took=$(($(date +%s) - start))
	reason=$(sed -n 's/^SKIPPED //p' "$log" | head -n 1)
	if [ $status -ne 0 ]; then
		row "$target::$name" FAILED $took "see $log"
		tail -n 20 "$log"
	elif ! grep -q '^test result: ok\. 1 passed' "$log"; then
		row "$target::$name" FAILED $took "did not run; see $log"
	elif [ -n "$reason" ]; then
		row "$target::$name" SKIPPED $took "$reason"
	else
		row "$target::$name" ok $took ""
	fi
}

echo "== build"
build || exit 1
known=
for each in $TARGETS; do
	if ! list=$(names "$each" 2> "$DIR/build"); then
		cat "$DIR/build"
		row "${each#*/}" FAILED 0 "does not build"
		continue
	fi
	for name in $(printf '%s\n' "$list" | sed -n 's/: test$//p'); do
		known="$known ${each#*/}::$name"
		if printf '%s\n' "${each#*/}::$name" | grep -qE -e "$ONLY"; then
			run "$each" "$name"
		fi
	done
done
if [ ! -s "$TABLE" ]; then
	echo "ONLY=$ONLY: no test; allowed: an expression that matches one of" >&2
	# shellcheck disable=SC2086
	printf '  %s\n' $known >&2
	exit 2
fi
show
! grep -q "$(printf '\t')FAILED$(printf '\t')" "$TABLE"
