# SPDX-License-Identifier: ISC
"""make demo, the first thing a newcomer sees, keeps every promise it prints."""
import subprocess

from world import ROOT, SLOW, TIMEOUT, WEIR


def test_the_demo_ends_well():
    r = subprocess.run(["bash", str(ROOT / "tests/demo/demo.sh"), str(WEIR)], timeout=SLOW * TIMEOUT,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True)
    assert r.returncode == 0, r.stdout
    assert r.stdout.count("  => ") >= 10 and ": NO" not in r.stdout, r.stdout
    assert r.stdout.endswith("demo: everything as promised\n"), r.stdout
