# SPDX-License-Identifier: ISC
"""weir ps and weir kill: running sandboxes of this user, and the end of one."""
import json
import os
import signal

import pytest

from origins.tcp import echo
from test_policy_commands import check, schema
from world import alive, wait_until

HOST = "allowed.example.org"


@pytest.fixture(scope="module")
def net(world):
    world.echo = world.listen("93.184.216.34", 7000, echo)
    return world


def listed(net, **kw):
    o = json.loads(net.weir("ps", "--json", **kw).ok().text)
    check(o, schema("ps"))
    return o


def served(sb):
    """The entry appears when the command runs already"""
    name = sb.wait_audit(lambda r: r["event"] == "start")[0]["sandbox"]
    d = sb.world.path(sb.world.runtime) / "weir"
    wait_until(lambda: d.exists() and os.listdir(d) == [name], 10, "the entry")


def test_ps_shows_what_runs_and_what_it_has_moved(net):
    with net.inside("--name", "one", allow=[HOST + ":*"]) as sb:
        served(sb)
        sb.py("""
            s, st, h, rest = connect("allowed.example.org:7000")
            s.sendall(b"x" * 5000); n = 0
            while n < 5000: n += len(s.recv(65536))
            result = 1
        """)
        (o,) = listed(net)
        assert o["name"] == "one" and o["pid"] == sb.pid and o["answers"] is True
        assert o["connections"] == 1 and o["project"] == sb.cwd and o["network"] == "allowlist"
        assert o["command"][0].endswith("python3") and 0 <= o["age"] < 600
        sb.py("s.close()\nresult = 1")
        o = wait_until(lambda: [x for x in listed(net) if x["connections"] == 0], 10)[0]
        assert (o["up"], o["down"]) == (5000, 5000)
        table = net.weir("ps").ok().text.splitlines()
        assert table[0].split()[:4] == ["ID", "NAME", "PID", "AGE"]
        assert table[1].split()[:3] == [o["id"], "one", str(sb.pid)]
        assert "4.9K" in table[1] and "python3" in table[1]
        assert sb.close().status == 0
    assert listed(net) == []
    assert net.weir("ps").ok().text.count("\n") == 1


@pytest.mark.parametrize("env", [{}, {"XDG_RUNTIME_DIR": None},
                                 {"XDG_RUNTIME_DIR": "/nonexistent"}])
def test_ps_and_kill_work_without_a_runtime_directory(fresh, env):
    world = fresh
    state = f"{world.home}/.local/state-same"
    if env:
        os.rmdir(world.path(world.runtime))
    with world.spawn("run", "-n", "deny", "--", "sleep", "1000", env=env, state=state) as r:
        o = wait_until(lambda: listed(world, env=env, state=state), 10, "the sandbox")
        assert o[0]["network"] == "deny" and o[0]["command"] == ["sleep", "1000"]
        assert world.weir("kill", o[0]["id"], env=env, state=state).ok().err == b""
        assert r.p.wait(60) == 128 + signal.SIGTERM
        assert listed(world, env=env, state=state) == []
    world.assert_clean()


def test_dead_ones_vanish(net):
    with net.inside() as sb:
        served(sb)
        procs = sb.procs()
        os.kill(procs.nursery, signal.SIGSTOP)	# else it may remove the entry first
        for p in (procs.monitor, procs.nursery):
            os.kill(p, signal.SIGKILL)
        sb.p.wait(60)
        wait_until(lambda: not any(alive(p) for p in procs.all()), 10, "the end of all")
    d = net.path(net.runtime) / "weir"
    assert len(os.listdir(d)) == 1
    assert listed(net) == []
    assert os.listdir(d) == []


def test_kill_takes_an_id_its_beginning_or_a_name(net):
    for word in (lambda o: o["id"], lambda o: o["id"][:5], lambda o: o["name"]):
        with net.inside("--name", "victim") as sb, net.inside("--name", "other") as other:
            o = wait_until(lambda: [x for x in listed(net) if x["name"] == "victim"], 10)[0]
            wait_until(lambda: len(listed(net)) == 2, 10)
            net.weir("kill", word(o)).ok()
            assert sb.p.poll() is not None or sb.p.wait(60) is not None, "kill waits for the end"
            assert [x["name"] for x in listed(net)] == ["other"]
            assert [r for r in sb.audit if r["event"] == "kill"]
            assert other.py("result = 3") == 3
            assert other.close().status == 0
    net.assert_clean()


def test_kill_says_what_it_does_not_find(net):
    with net.inside("--name", "twin") as a, net.inside("--name", "twin") as b:
        wait_until(lambda: len(listed(net)) == 2, 10)
        r = net.weir("kill", "twin")
        assert r.status == 1 and "'twin' stands for 2 running sandboxes" in r.errtext, r
        r = net.weir("kill", "nobody")
        assert r.status == 1 and "no running sandbox is called 'nobody'" in r.errtext, r
        assert net.weir("kill").status == 125
        assert net.weir("kill", "--nw", "twin").status == 125
        assert net.weir("ps", "x").status == 125
        assert a.close().status == 0 and b.close().status == 0


STUBBORN = """
import signal, os
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    signal.pause()
print("ready", flush=True)
signal.pause()
"""


def test_kill_now_ends_what_ignores_sigterm(net):
    with net.spawn("run", "--", "python3", "-c", STUBBORN) as r:
        assert r.readline() == b"ready\n"
        o = wait_until(lambda: listed(net), 10)[0]
        net.weir("kill", "--now", o["id"]).ok()
        assert r.p.wait(60) == 128 + signal.SIGKILL
        assert r.p.stderr.read() == b""
    net.assert_clean()


def test_a_second_kill_ends_what_ignores_sigterm(net):
    with net.spawn("run", "--", "python3", "-c", STUBBORN) as r:
        assert r.readline() == b"ready\n"
        o = wait_until(lambda: listed(net), 10)[0]
        first = net.spawn("kill", o["id"])
        r.wait_audit(lambda x: x["event"] == "kill")
        net.weir("kill", o["id"]).ok()
        assert r.p.wait(60) == 128 + signal.SIGKILL and first.finish().status == 0
    net.assert_clean()


def test_a_stopped_command_is_killed(net):
    """It does not even get SIGTERM"""
    with net.spawn("run", "--", "sh", "-c", "echo ready; kill -STOP $$; sleep 1000") as r:
        assert r.readline() == b"ready\n"
        o = wait_until(lambda: listed(net), 10)[0]
        cmd = r.procs().cmd
        wait_until(lambda: "T" in open(f"/proc/{cmd}/stat").read().rsplit(")")[1][:3], 10)
        net.weir("kill", "--now", o["id"]).ok()
        assert r.p.wait(60) == 128 + signal.SIGKILL
    net.assert_clean()


def test_a_stopped_monitor_is_shown_and_not_waited_for_long(net):
    with net.inside() as sb:
        served(sb)
        (o,) = listed(net)
        os.kill(sb.pid, signal.SIGSTOP)
        try:
            (dumb,) = listed(net)
            assert dumb == {"id": o["id"], "answers": False}
            assert "does not answer" in net.weir("ps").ok().text
        finally:
            os.kill(sb.pid, signal.SIGCONT)
        assert sb.py("result = 1") == 1
        assert sb.close().status == 0


def test_a_command_line_of_any_bytes_does_the_terminal_no_harm(net):
    with net.spawn("run", "-n", "deny", "--", "sh", "-c", "cat", b"\x1b[2J\xff", "y" * 5000) as r:
        wait_until(lambda: listed(net), 10)
        text = net.weir("ps").ok().out
        assert b"\x1b" not in text and max(map(len, text.splitlines())) < 300
        r.p.stdin.close()
        assert r.p.wait(60) == 0
