#!/bin/sh
# SPDX-License-Identifier: ISC
# tests/bench/run.sh BUILD - measure BUILD/weir beside its peers; prints a table, asserts nothing
set -eu
cd "$(dirname "$0")/../.."
WEIR_BUILD=$PWD/${1:-build} PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 tests/bench/bench.py
