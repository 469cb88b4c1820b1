#!/bin/sh
# SPDX-License-Identifier: ISC
# policy/presets/embed.sh - print a C file that holds every preset of this directory.
# Usage: embed.sh > build/gen/presets.c
# A preset's summary is the first comment line of its file. A file that does not begin with one is
# an error, so that `weir policy presets` never has an empty line.
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")"
cat <<'HEAD'
/* Made by policy/presets/embed.sh: change the .policy files instead. */
#include "policy/policy.h"

static const struct policy_preset presets[] = {
HEAD
for f in *.policy; do
	awk -v name="${f%.policy}" '
	NR == 1 {
		if ($0 !~ /^# ./) {
			print FILENAME ": the first line is not a comment" > "/dev/stderr"
			exit 1
		}
		summary = substr($0, 3)
		gsub(/\\/, "\\\\", summary)
		gsub(/"/, "\\\"", summary)
		printf "\t{ \"%s\", \"%s\",\n", name, summary
	}
	{
		gsub(/\\/, "\\\\")
		gsub(/"/, "\\\"")
		gsub(/\t/, "\\t")
		printf "\t  \"%s\\n\"\n", $0
	}
	END { if (NR) print "\t}," }' "$f"
done
cat <<'TAIL'
	{ 0 },
};

const struct policy_preset *policy_presets(void)
{
	return presets;
}
TAIL
