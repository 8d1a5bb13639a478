#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds the monitor's C under ASAN and UBSAN and drives it with random packets: san.sh [packets]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
${CC:-gcc} -std=gnu11 -O1 -g -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all \
	-I"$here/../core" -I"$here/../../policy/core" "$here/san.c" "$here/../core/native.c" -o "$out/san"
"$out/san" "${1:-2000000}"
