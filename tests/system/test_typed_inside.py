# SPDX-License-Identifier: ISC
"""What the weir command says to a person: inside a sandbox, where it can decide nothing, and as help."""
import pytest

INSIDE = "/run/weir/weir"


@pytest.mark.parametrize("line", [
    "allow new.example.org", "deny new.example.org", "ask new.example.org",
    "forget allowed.example.org", "approve", "trust", "untrust", "ps", "kill abc"])
def test_what_decides_says_that_it_works_outside(world, line):
    r = world.run("-n", "deny", "--", "sh", "-c",
                  f"{INSIDE} {line}; s=$?; find ~ -name policy -o -name trust; exit $s")
    assert r.status == 125 and r.text == "", r
    assert f"weir {line.split()[0]} works outside the sandbox only" in r.errtext, r
    assert "this is inside sandbox " in r.errtext, r
    assert r.errtext.rstrip().endswith(f"in a terminal outside: weir {line}"), r


@pytest.mark.parametrize("line", ["run -- echo made", "shell", "doctor", "test"])
def test_what_makes_a_sandbox_says_that_there_is_one_around(world, line):
    r = world.run("-n", "deny", "--", INSIDE, *line.split())
    assert r.status == 125 and r.text == "", r
    assert f"weir {line.split()[0]} cannot make a sandbox inside a sandbox" in r.errtext, r
    assert "type the command alone" in r.errtext and "not implemented" not in r.errtext, r


def test_policy_why_says_that_it_is_not_the_sandboxs_policy(world):
    r = world.run("-n", "deny", "--", INSIDE, "policy", "why", "pypi.org")
    assert r.status == 0 and r.text.startswith("pypi.org:443:"), r
    assert "what follows is not its policy" in r.errtext, r


def test_help_is_answered_inside(world):
    r = world.run("-n", "deny", "--", INSIDE, "allow", "--help").ok()
    assert r.text.startswith("usage: weir allow"), r


def test_a_variable_alone_makes_no_inside(world):
    """WEIR_SANDBOX that found its way out of a sandbox stops nobody outside"""
    r = world.weir("ps", env={"WEIR_SANDBOX": "abc"})
    assert r.status == 0 and "outside" not in r.errtext, r


def test_a_long_line_is_cut_in_the_message(world):
    r = world.run("-n", "deny", "--", INSIDE, "allow", *[f"h{i}.example.org" for i in range(100)])
    assert r.status == 125 and "…" in r.errtext, r
    assert all(len(line) < 320 for line in r.errtext.splitlines()), r


@pytest.mark.parametrize("name", ["run", "shell", "policy", "allow", "kill", "proxy", "doctor"])
def test_help_name_is_name_help(world, name):
    r = world.weir("help", name).ok()
    assert r.text == world.weir(name, "--help").ok().text and r.text.startswith("usage: "), r


@pytest.mark.parametrize("command", ["doctor", "test"])
def test_what_tries_a_sandbox_keeps_no_cache(world, command):
    """A project of which there was never more than a try is no line of weir cache list"""
    cache = f"{world.home}/cache-of-{command}"
    r = world.weir(command, env={"XDG_CACHE_HOME": cache}, timeout=120)
    assert r.status == 0 and not world.path(cache).exists(), r
    world.run("-n", "deny", "--", "true", env={"XDG_CACHE_HOME": cache}).ok()
    assert len(list(world.path(f"{cache}/weir").iterdir())) == 1


@pytest.mark.parametrize("word, meant", [("rnu", "run"), ("polciy", "policy"), ("shel", "shell")])
def test_a_slip_of_the_fingers_is_understood(world, word, meant):
    r = world.weir(word, "--", "true")
    assert r.status == 125 and f"'{word}' is not a weir command; did you mean '{meant}'?" in r.errtext, r


def test_help_of_an_unknown_name_says_so(world):
    r = world.weir("help", "rum")
    assert r.status == 125 and "did you mean 'run'" in r.errtext, r
