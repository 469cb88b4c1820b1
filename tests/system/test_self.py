# SPDX-License-Identifier: ISC
"""weir test: passes here, and each probe fails where build/test/weir leaves its protection out."""
import json

import pytest

from test_policy_commands import check, schema

STATES = ("deny", "allowlist", "allow")
ROUTE = "routes, addresses and packet rules closed"


def attack(world, *args, status=0, **kw):
    r = world.weir("test", "--json", *args, timeout=120, **kw)
    assert r.status == status, r
    got = json.loads(r.text)
    check(got, schema("test"))
    names = {(p["state"], p["name"]): p for p in got["probes"]}
    assert len(names) == len(got["probes"]) == got["passed"] + got["failed"], r
    return got, names


def test_h29_every_promise_is_tried_in_every_state_and_holds(world):
    """H29: the self-test exercises allowlist and deny, bypass attempts included"""
    got, names = attack(world)
    assert got["failed"] == 0 and got["holes"] == [], got
    for state in ("deny", "allowlist", "transparent"):
        for word in ("direct connection", "name lookup", "host loopback", "LAN", "metadata",
                     "abstract socket"):
            assert any(s == state and word in n for s, n in names), (state, word)
    for state in STATES:
        for word in ("unix socket", "vsock", "raw", "write outside", "credentials", "no capability", "TIOCSTI",
                     "no host process", "hook"):
            assert any(s == state and word in n for s, n in names), (state, word)
    for name in ("allowed host reached, tunnel, bytes intact", "denied host refused with 403",
                 "sandbox gone after its monitor was killed", "worker cannot exec",
                 "shim cannot open a file"):
        assert ("allowlist", name) in names
    for word in ("allowed name has", "stands for no name", "datagram", ROUTE):
        assert any(s == "transparent" and word in n for s, n in names), word
    world.assert_clean()
    left = [p for p in world.path("/tmp").iterdir() if p.name.startswith("weir-test-")]
    assert left == []


KERNEL = ["vsock refused", "other socket families refused", "no new user namespace",
          "bpf, io_uring, keyrings and their like absent", "no set-user-ID program left behind"]


@pytest.mark.parametrize("without,names", [
    ("filter", [*KERNEL, "every process below the monitor is locked", "worker cannot open a file",
                "worker cannot exec", "shim cannot open a file", "keeper cannot exec",
                ROUTE]),
    ("caps", ["no capability, no new privilege", "every process below the monitor is locked"]),
    ("close", ["inherited descriptors closed"]),
    ("environ", ["no secret of the environment"]),
    ("guard", ["no hook or setting left for git outside"]),
])
def test_a_probe_fails_without_its_protection(world, without, names):
    got, all_of_them = attack(world, status=1, test=True, env={"WEIR_TEST_WITHOUT": without})
    failed = {n for (_, n), p in all_of_them.items() if not p["ok"]}
    assert set(names) <= failed, (without, set(names) - failed)
    assert failed <= {*names, "TIOCSTI dead", "keeper cannot open a file", "shim cannot exec",
                      "raw and packet sockets refused"}, failed
    assert got["failed"] and all(p["detail"] or "cannot" in n for (_, n), p in all_of_them.items()
                                 if not p["ok"]), got


def test_the_probes_of_the_transparent_route_hold_without_nf_tables(world):
    got, names = attack(world, test=True, env={"WEIR_TEST_WITHOUT": "nf_tables"})
    assert got["failed"] == 0 and ("transparent", ROUTE) in names, got


def test_the_probes_of_the_network_fail_in_the_hosts(world):
    """In the host's network the first sandbox already shows it; the next one cannot be made"""
    r = world.weir("test", timeout=120, test=True, env={"WEIR_TEST_WITHOUT": "netns"})
    assert r.status == 125, r
    failed = [ln.split(None, 2)[2] for ln in r.text.splitlines() if ln.startswith("FAIL  deny")]
    assert any(f.startswith("host loopback dead: 127.0.0.1") for f in failed), r


def test_what_the_policy_opens_is_listed_with_its_line(world):
    d = world.mkdir(f"{world.home}/data")
    path = world.write(f"{world.home}/holes.policy", f"""\
read {d}
write {d}
read /nonexistent
allow db.example.org:5432 private
allow plain.example.org
publish 8888
reach 5432
nested yes
on-unavailable warn
network allow
home private
""")
    got, _ = attack(world, "-p", path)
    assert [(h["file"], h["line"]) for h in got["holes"]] == [
        (path, n) for n in (1, 2, 4, 6, 7, 8, 9, 10)], got["holes"]
    got, _ = attack(world, "-p", path, "-n", "deny", "-r", "/opt")
    assert (path, 10) not in [(h["file"], h["line"]) for h in got["holes"]]
    assert got["holes"][-1] == {"file": "--read", "line": 0, "text": "read /opt"}
    r = world.weir("test", "-p", path, timeout=120).ok()
    assert f"hole  {path}:8  nested yes\n" in r.text, r


def test_what_it_takes(world):
    assert world.weir("test", "--help").ok().text.startswith("usage: weir test")
    r = world.weir("test", "x")
    assert r.status == 125 and "takes no 'x'" in r.errtext, r
