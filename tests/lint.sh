#!/bin/bash
# SPDX-License-Identifier: ISC
# tests/lint.sh BUILD FLAGS SOURCE… -- HEADER… -- PAGE… - static checks; every warning is an error.
set -u
cd "$(dirname "$0")/.." || exit 1

B=$1 flags=$2
shift 2
begin=$(date +%s)
passed=0 failed=0
sources=() headers=() pages=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do sources+=("$1"); shift; done
shift
while [ $# -gt 0 ] && [ "$1" != -- ]; do headers+=("$1"); shift; done
shift
pages=("$@")

check() { # NAME COMMAND…
	local name=$1 t
	t=$(date +%s)
	shift
	if "$@"; then passed=$((passed + 1)); else
		echo "FAILED: $name"
		failed=$((failed + 1))
	fi
	echo "== $name ($(($(date +%s) - t)) s)"
}

tidy() {
	# shellcheck disable=SC2086
	printf '%s\n' "${sources[@]}" | xargs -P2 -I{} sh -c \
		'clang-tidy --quiet "$1" -- $2 2>/dev/null' tidy {} "$flags"
}

suppress=(--suppress=missingIncludeSystem --suppress=unusedFunction --suppress=unmatchedSuppression
	--suppress=checkersReport --suppress=missingInclude --suppress=normalCheckLevelMaxBranches)
check clang-format clang-format --dry-run -Werror "${sources[@]}" "${headers[@]}"
check cppcheck cppcheck --quiet --std=c11 --language=c --inline-suppr --error-exitcode=1 -j2 \
	--enable=warning,performance,portability -D_GNU_SOURCE -DWEIR_TEST -D__linux__ -D__x86_64__ \
	--include="/usr/include/$(gcc -print-multiarch)/sys/queue.h" "${suppress[@]}" -I. \
	"${sources[@]}"
check clang-tidy tidy
if [ ${#pages[@]} -gt 0 ]; then
	check mandoc mandoc -T lint -W warning "${pages[@]}"
fi
echo "lint: $(($(date +%s) - begin)) s"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
