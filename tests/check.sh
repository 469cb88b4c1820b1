#!/bin/bash
# SPDX-License-Identifier: ISC
# tests/check.sh BUILD MAKE SAN [clients|nightly] - build, then every test; all pieces run even when
# one fails. The last line sums them: "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1

B=$1 make=$2 san=$3 part=${4:-}
begin=$(date +%s)
passed=0 failed=0 skipped=0
log=$(mktemp)
room=$(mktemp -d /tmp/weir-check.XXXXXX)
trap 'rm -rf "$log" "$room"' EXIT

say() { printf '== %s (%s s)\n' "$1" "$(($(date +%s) - begin))"; }
piece() { # NAME COMMAND…: one thing that works or does not
	local name=$1
	shift
	if "$@"; then passed=$((passed + 1)); else
		echo "FAILED: $name"
		failed=$((failed + 1))
	fi
}
finish() {
	say "done${skipped:+, $skipped skipped}"
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
	exit
}

# As root the C tests run as an ordinary user, from copies it can reach.
drop=()
if [ "$(id -u)" = 0 ]; then
	drop=(setpriv --reuid=47000 --regid=47000 --clear-groups --inh-caps=-all --bounding-set=-all)
fi

run_c() { # DIRECTORY: cmocka programs
	local t rc ok bad
	[ -d "$1" ] || return 0
	for t in "$1"/*_test; do
		[ -x "$t" ] || continue
		cp "$t" "$room/bin/"
		(cd "$room/home" && HOME=$room/home TMPDIR=$room/home CMOCKA_MESSAGE_OUTPUT=TAP \
			timeout 600 "${drop[@]}" "$room/bin/${t##*/}" >"$log" 2>&1)
		rc=$?
		ok=$(grep -cE '^ok [0-9]+' "$log")
		# cmocka calls a skipped test "not ok N # SKIP"
		bad=$(grep -E '^not ok [0-9]+' "$log" | grep -cv '# SKIP')
		skips=$(grep -cE '^(not )?ok [0-9]+.*# SKIP' "$log")
		ok=$((ok - $(grep -cE '^ok [0-9]+.*# SKIP' "$log"))) skipped=$((skipped + skips))
		if [ "$rc" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
		if [ "$ok" = 0 ] && [ "$bad" = 0 ] && [ "$skips" = 0 ]; then bad=1; fi
		passed=$((passed + ok)) failed=$((failed + bad))
		if [ "$bad" != 0 ]; then
			echo "FAILED: ${t##*/} (status $rc)"
			grep -vE '^ok |^1\.\.' "$log"
		fi
	done
}

run_pytest() { # EXPRESSION
	ls tests/system/test_*.py >/dev/null 2>&1 || return 0
	WEIR_BUILD="$PWD/$B" WEIR_SAN="$san" PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m pytest \
		-p no:cacheprovider -n 2 -q -ra --color=no -m "$1" tests/system | tee "$log"
	local rc=${PIPESTATUS[0]} last bad
	last=$(grep -E '(passed|failed|error|skipped|deselected|no tests ran)' "$log" | tail -1)
	word() { grep -oE "[0-9]+ $1" <<<"$last" | grep -oE '^[0-9]+' || echo 0; }
	passed=$((passed + $(word passed)))
	bad=$(($(word failed) + $(word error)))
	skipped=$((skipped + $(word skipped)))
	# status 5: nothing was selected, which is no success either
	if [ "$rc" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
	failed=$((failed + bad))
}

mkdir -p "$room/bin" "$room/home"
chmod 755 "$room" "$room/bin"
chmod 777 "$room/home"

say "build ${san:+with $san}"
piece build "$make" --no-print-directory -j"$(nproc)" ${san:+SAN="$san"} tests
[ "$failed" = 0 ] || finish

case $part in
clients) run_pytest "clients and not nightly"; finish ;;
nightly) run_pytest nightly; finish ;;
esac

piece headers "$make" --no-print-directory ${san:+SAN="$san"} headers
reasons_are_in_the_manual() {
	local r
	for r in $(sed -nE 's/^\t\[REASON_[A-Z_0-9]+\] = \{ "([a-z_]+)",.*/\1/p' common/reason.c); do
		grep -q "^\.It $r Ta " docs/weir.1 || { echo "weir(1) does not list '$r'"; return 1; }
	done
}
piece manual reasons_are_in_the_manual
piece layers "$make" --no-print-directory ${san:+SAN="$san"} layers
say "unit and platform tests"
run_c "$B/test/unit"
run_c "$B/test/platform"

say "corpus replay"
for f in tests/fuzz/fuzz_*.c; do
	[ -e "$f" ] || continue
	t=${f##*/fuzz_} t=${t%.c}
	seeds=()
	for d in "tests/fuzz/corpus/$t" "$B/test/corpus/$t"; do
		[ -d "$d" ] && seeds+=("$d")
	done
	piece "replay of $t" timeout 300 "$B/test/replay/$t" "${seeds[@]}"
done

say "system tests"
run_pytest "not clients and not nightly"
finish
