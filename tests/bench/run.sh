#!/bin/sh
# SPDX-License-Identifier: ISC
# tests/bench/run.sh BUILD - measure BUILD/weir beside its peers, then where a launch spends its time;
# prints tables, asserts nothing
set -eu
cd "$(dirname "$0")/../.."
WEIR_BUILD=$PWD/${1:-build} PYTHONDONTWRITEBYTECODE=1
export WEIR_BUILD PYTHONDONTWRITEBYTECODE
B=${1:-build}
"${CC:-cc}" -std=gnu17 -D_GNU_SOURCE -O2 -I. -o "$B/policy_bench" tests/bench/policy_bench.c \
	-Wl,--start-group "$B/obj/libpolicy.a" "$B/obj/libcommon.a" -Wl,--end-group \
	-ljansson -lpsl -lidn2 -lunistring -lsodium -lcap-ng
"$B/policy_bench"
/usr/bin/python3 tests/bench/bench.py
echo
dir=$(mktemp -d /tmp/weir-stages.XXXXXX)
trap 'rm -rf "$dir"' EXIT
cp "$WEIR_BUILD/test/weir" tests/bench/stages.py "$dir"
drop=
if [ "$(id -u)" = 0 ]; then
	chown 47000:47000 "$dir"
	drop='setpriv --reuid=47000 --regid=47000 --clear-groups'
fi
cd "$dir"
HOME=$dir $drop /usr/bin/python3 ./stages.py ./weir 41
