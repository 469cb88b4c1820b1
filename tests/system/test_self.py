# SPDX-License-Identifier: ISC
"""weir test: passes here, and each probe fails where build/test/weir leaves its protection out."""
import fcntl
import json
import os
import signal
import socket

import pytest

from test_policy_commands import check, schema
from world import wait_until

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
        for word in ("unix socket of", "unix socket made after", "unix socket moved", "vsock", "raw", "write outside", "credentials", "no capability", "TIOCSTI",
                     "no host process", "hook"):
            assert any(s == state and word in n for s, n in names), (state, word)
    for name in ("allowed host reached, tunnel, bytes intact", "denied host refused with 403",
                 "sandbox gone after its monitor was killed", "worker cannot exec",
                 "shim cannot open a file"):
        assert ("allowlist", name) in names
    for word in ("allowed name has", "stands for no name", "datagram", ROUTE):
        assert any(s == "transparent" and word in n for s, n in names), word
    world.assert_clean()
    assert leavings(world) == []


def leavings(world):
    places = [world.path("/tmp"), world.path(world.home), world.path(world.runtime)]
    return [p for d in places for p in d.iterdir() if "weir-test-" in p.name]


def test_what_it_does_is_in_no_log_of_the_user(world):
    state = f"{world.home}/.local/state-own"
    r = world.run("--", "true", state=state).ok()
    before = r.audit
    attack(world, state=state)
    assert r.audit == before and before


def test_what_is_wrong_with_the_policy_is_said_before_anything_is_tried(world):
    world.write(f"{world.home}/.config/weir/policy", "alow a.example.org\n")
    try:
        r = world.weir("test")
    finally:
        os.unlink(world.path(f"{world.home}/.config/weir/policy"))
    assert r.status == 125 and "policy:1" in r.errtext and r.out == b"", r
    assert leavings(world) == []


def test_an_interrupted_test_removes_what_it_made(world):
    """In each place that it makes something in, while the probes inside are at work"""
    r, w = os.pipe()
    fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, 4096)    # it cannot end before somebody reads
    with world.spawn("test", stdout=w) as p:
        os.close(w)
        wait_until(lambda: len({x.parent for x in leavings(world)}) == 2, 60,
                   "what it makes in two places")
        os.kill(p.pid, signal.SIGINT)
        with open(r, "rb") as f:
            f.read()
        done = p.finish(timeout=60)
    assert done.status == 128 + signal.SIGINT and done.err == b"", done
    assert leavings(world) == []
    world.assert_clean()


def test_a_socket_where_the_command_may_write_is_a_hole_where_the_kernel_closes_none(world):
    d, w = world.project(), world.mkdir(f"{world.home}/shared")
    socks = []
    for path in (f"{d}/s", f"{w}/s"):
        socks.append(socket.socket(socket.AF_UNIX))
        socks[-1].bind(str(world.path(path)))
        os.chown(world.path(path), world.uid, world.gid)
    got, names = attack(world, "-w", w, cwd=d)
    closed = ("deny", "unix sockets of the host in the project dead") in names
    holes = [h["text"] for h in got["holes"] if h["file"] == "kernel"]
    assert sorted(holes) == ([] if closed else [f"socket {w}/s can be reached", "socket s can be reached"])
    for s in socks:
        s.close()


KERNEL = ["vsock refused", "other socket families refused", "no new user namespace",
          "bpf, io_uring, keyrings and their like absent", "no set-user-ID program left behind"]


@pytest.mark.parametrize("without,names", [
    ("filter", [*KERNEL, "every process below the monitor is locked", "worker cannot open a file",
                "worker cannot exec", "shim cannot open a file", "keeper cannot exec",
                ROUTE]),
    ("caps", ["no capability, no new privilege", "every process below the monitor is locked"]),
    ("close", ["inherited descriptors closed"]),
    ("environ", ["no secret of the environment"]),
    ("whiteouts", ["credentials absent"]),
    ("private", ["unix socket of the host dead", "unix socket made after the launch dead",
                 "unix socket moved into place later dead", "write outside refused",
                 "credentials absent"]),
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


@pytest.mark.parametrize("feature", ["nf_tables", "overlay"])
def test_the_probes_hold_without_what_is_optional(world, feature):
    got, names = attack(world, test=True, env={"WEIR_TEST_WITHOUT": feature})
    failed = [p for p in got["probes"] if not p["ok"]]
    assert not failed and ("transparent", ROUTE) in names, failed


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
