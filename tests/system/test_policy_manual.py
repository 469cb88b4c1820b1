# SPDX-License-Identifier: ISC
"""Every example of weir-policy(5) is a policy, and every keyword has one."""
import re

import pytest

from world import ROOT

PAGE = (ROOT / "docs" / "weir-policy.5").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^\.Bd -literal -offset indent\n(.*?)^\.Ed$", PAGE, re.M | re.S)
KEYWORDS = ("allow", "deny", "ask", "ask-timeout", "include", "network", "route", "view", "home", "read", "write",
            "write!",
            "env", "limit", "audit", "on-unavailable", "nested", "lock", "cache", "dotfile", "hide", "publish",
            "reach")


@pytest.mark.parametrize("text", BLOCKS, ids=[b.split("\n", maxsplit=1)[0][:40] for b in BLOCKS])
def test_example_of_the_manual_is_a_policy(world, text):
    if "lock " in text:
        path = world.write("/etc/weir/policy", text, root=True)
        try:
            world.weir("policy", "check", path).ok()
            world.weir("policy", "show").ok()
        finally:
            world.path(path).unlink()
            world.path("/etc/weir").rmdir()
        return
    path = world.write(f"{world.home}/example.policy", text)
    r = world.weir("policy", "check", path).ok()
    assert r.err == b"", r
    world.weir("policy", "show", "-p", path).ok()


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_keyword_has_an_entry_and_an_example(keyword):
    entries = re.findall(r"^\.It Cm (.*)$", PAGE, re.M)
    assert any(keyword in e.split() for e in entries), entries
    assert any(re.search(rf"^{re.escape(keyword)}\s", b, re.M) for b in BLOCKS)
    assert f'"{keyword}"' in PAGE, "the grammar does not have it"
