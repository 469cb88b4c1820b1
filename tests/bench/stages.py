#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""tests/bench/stages.py - where the time of a launch goes: build/test/weir run true, many times.

usage: stages.py WEIR ROUNDS COMMAND-PREFIX...
Each row is a step as the processes noted it (common/stage.h), in the order of the medians: when it
was reached, and at best. Two processes work at once, so that a difference of two rows is a cost
only within one of them.
"""
import os
import re
import statistics
import subprocess
import sys

ROW = re.compile(r"^stage +(\d+) us  (.+)$", re.M)


def main():
    weir, rounds, prefix = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    env = {"HOME": os.environ["HOME"], "PATH": "/usr/bin:/bin", "WEIR_TEST_STAGES": "1"}
    seen = {}
    for _ in range(rounds):
        p = subprocess.run([*prefix, weir, "run", "--", "/bin/true"], env=env, text=True, check=True,
                           stdin=subprocess.DEVNULL, capture_output=True)
        for us, name in ROW.findall(p.stderr):
            seen.setdefault(name, []).append(int(us))
    if not seen:
        sys.exit("stages.py: no stage was noted")
    print(f"{'median':>8} {'best':>8}  us after main(), of {rounds} launches")
    for name, us in sorted(seen.items(), key=lambda kv: statistics.median(kv[1])):
        print(f"{statistics.median(us):8.0f} {min(us):8d}  {name}")


main()
