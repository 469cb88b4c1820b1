#!/bin/sh
# SPDX-License-Identifier: ISC
# tests/bench/run.sh BUILD - measure BUILD/weir beside its peers; prints a table, asserts nothing
set -eu
cd "$(dirname "$0")/../.."
B=${1:-build}
"${CC:-cc}" -std=gnu17 -D_GNU_SOURCE -O2 -I. -o "$B/policy_bench" tests/bench/policy_bench.c \
	-Wl,--start-group "$B/obj/libpolicy.a" "$B/obj/libcommon.a" -Wl,--end-group \
	-ljansson -lpsl -lidn2 -lunistring -lsodium -lcap-ng
"$B/policy_bench"
WEIR_BUILD=$PWD/$B PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 tests/bench/bench.py
