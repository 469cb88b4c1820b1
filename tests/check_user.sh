#!/bin/bash
# SPDX-License-Identifier: ISC
# tests/check_user.sh [MAKE-ARGUMENT…] - `make check` as an ordinary user, also when started by root: in
# a copy of the tree that is the user's, with a login's limit on descriptors. The tests drop root for
# weir, but what they look at and the programs beside it stay root's: that hides what a user meets.
set -eu
cd "$(dirname "$0")/.."
user=47123

[ "$(id -u)" = 0 ] || exec make check "$@"
command -v setpriv >/dev/null || {
	echo "tests/check_user.sh: setpriv is missing: apt-get install util-linux" >&2
	exit 1
}
place=$(mktemp -d /tmp/weir-user.XXXXXX)
trap 'rm -rf "$place"' EXIT
mkdir "$place/home" "$place/weir"
# what is checked in and what is not yet, but nothing that root has built
tar -c --exclude=./build --exclude=./.git --exclude=__pycache__ --exclude=.pytest_cache . |
	tar -x -C "$place/weir"
chown -R "$user:$user" "$place"
cd "$place/weir"
ulimit -Sn 1024
setpriv --reuid="$user" --regid="$user" --clear-groups --inh-caps=-all --bounding-set=-all \
	env -i HOME="$place/home" PATH="$PATH" LANG=C.UTF-8 make check "$@"
