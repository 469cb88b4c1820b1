# SPDX-License-Identifier: ISC
"""What happens when things end, or are ended (A10, D1, D2, D4; H40, H42, H43)."""
import contextlib
import fcntl
import itertools
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from origins.tcp import echo, source
from world import BIN, IS_ROOT, PYTHON, Procs, alive, all_pids, children, cmdline, descendants, \
    namespaces_alive, stat_of, verdicts, wait_until

HOST = "allowed.example.org"


@pytest.fixture(scope="module")
def net(world):
    world.echo = world.listen("93.184.216.34", 7000, echo)
    world.flood = world.listen("93.184.216.34", 7001, source(1 << 40))
    return world


# ---- A10 ----

ROLES = ["monitor", "nursery", "worker", "shim", "keeper", "cmd"]
TRANSFER = """
s, st, h, rest = connect("allowed.example.org:7001")
def suck():
    try:
        while s.recv(65536): pass
    except OSError: pass
threading.Thread(target=suck, daemon=True).start()
result = st
"""


def gone(world, sb, procs, ns, mounts, sockets):
    wait_until(lambda: not any(alive(p) for p in procs.all()), 10,
               "the end of monitor, nursery, worker, shim, keeper and CMD")
    world.assert_clean()
    wait_until(lambda: not namespaces_alive(ns, world.uid), 10, "the end of every namespace")
    assert world.mounts() == mounts
    wait_until(lambda: world.unix_sockets() == sockets, 10, "the end of every socket")
    assert sb.p.poll() is not None


@pytest.mark.lifecycle
@pytest.mark.parametrize("when", ["at rest", "mid-transfer"])
@pytest.mark.parametrize("role", [r for r in ROLES if r != "worker"])
def test_a10_kill_9_of_any_process_leaves_nothing(net, role, when):
    mounts, sockets, own = net.mounts(), net.unix_sockets(), namespaces()
    with net.inside("--route", "proxy", allow=[HOST + ":*"]) as sb:
        assert sb.py("result = 1") == 1
        if when == "mid-transfer":
            assert sb.py(TRANSFER) == 200
        procs = sb.procs()
        ns = procs.namespaces() - own
        os.kill(getattr(procs, role), signal.SIGKILL)
        status = sb.p.wait(60)
        gone(net, sb, procs, ns, mounts, sockets)
        if role == "monitor":
            assert status == -signal.SIGKILL
        elif role in ("cmd", "keeper"):
            assert status == 128 + signal.SIGKILL, sb.p.stderr.read()
        else:
            assert status != 0 and sb.p.stderr.read(), "no word about a dead " + role


def namespaces():
    return {os.readlink(f"/proc/self/ns/{n}")
            for n in ("user", "mnt", "net", "pid", "ipc", "uts", "cgroup")} | \
        {os.readlink(f"/proc/{p}/ns/{n}") for p in (os.getpid(),) for n in ("net", "mnt")}


@pytest.fixture(autouse=True)
def _world_namespaces(net, monkeypatch):
    """The world's own namespaces are not weir's"""
    base = namespaces()
    mine = {os.readlink(f"/proc/{net.pid}/ns/{n}")
            for n in ("user", "mnt", "net", "pid", "ipc", "uts", "cgroup")}
    monkeypatch.setattr(f"{__name__}.namespaces", lambda: base | mine)


@pytest.mark.lifecycle
@pytest.mark.parametrize("delay_us", [0, 300, 600, 1000, 1500, 2000, 3000, 4000, 6000, 9000])
def test_a10_kill_9_of_the_monitor_at_any_moment_of_the_start_leaves_nothing(net, delay_us):
    """At start: the moments from fork to the command's first instruction"""
    mounts = net.mounts()
    for _ in range(3):
        r = net.spawn("run", "--", "sleep", "1000", stdin=subprocess.DEVNULL)
        time.sleep(delay_us / 1e6)	# the moment itself is what is tried
        os.kill(r.pid, signal.SIGKILL)
        r.p.wait()
        r.kill()
    net.assert_clean()
    assert net.mounts() == mounts


@pytest.mark.lifecycle
@pytest.mark.parametrize("role", ROLES[1:])
def test_a10_kill_9_at_start_leaves_nothing(net, role):
    """As soon as the process exists"""
    mounts = net.mounts()
    r = net.spawn("run", "--", "sleep", "1000", stdin=subprocess.DEVNULL)
    with r:
        def find():
            try:
                return getattr(Procs(r.pid, timeout=0.02), role)
            except AssertionError:
                return None
        pid = wait_until(find, 10, role)
        os.kill(pid, signal.SIGKILL)
        if role == "worker":	# replaced: the sandbox goes on
            wait_until(lambda: Procs(r.pid).worker not in (None, pid), 10, "a new worker")
            os.kill(r.pid, signal.SIGTERM)
        r.p.wait(60)
    net.assert_clean()
    assert net.mounts() == mounts


@pytest.mark.lifecycle
def test_a10_kill_9_of_monitor_and_nursery_leaves_at_most_one_stale_entry(net):
    with net.inside(allow=[HOST + ":*"]) as sb:
        sb.py("result = 1")
        procs = sb.procs()
        for p in (procs.monitor, procs.nursery):
            os.kill(p, signal.SIGKILL)
        sb.p.wait(60)
        wait_until(lambda: not any(alive(p) for p in procs.all()), 10, "the end of all")
    rt = net.path(net.runtime) / "weir"
    assert not rt.exists() or len(os.listdir(rt)) <= 1
    net.run("--", "true").ok()
    assert not rt.exists() or not os.listdir(rt), "the next command removes it"


@pytest.mark.lifecycle
@pytest.mark.parametrize("when", ["at rest", "mid-transfer"])
@pytest.mark.parametrize("pair", itertools.combinations(ROLES, 2), ids="-".join)
def test_a10_kill_9_of_any_two_at_once_leaves_nothing(net, pair, when):
    mounts, sockets, own = net.mounts(), net.unix_sockets(), namespaces()
    with net.inside("--route", "proxy", allow=[HOST + ":*"]) as sb:
        assert sb.py("result = 1") == 1
        if when == "mid-transfer":
            assert sb.py(TRANSFER) == 200
        procs = sb.procs()
        ns = procs.namespaces() - own
        victims = [getattr(procs, role) for role in pair]
        if pair == ("monitor", "nursery"):
            os.kill(procs.nursery, signal.SIGSTOP)	# else it is the quicker one at times
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):	# the first took it along
                os.kill(pid, signal.SIGKILL)
        status = sb.p.wait(60)
        wait_until(lambda: not any(alive(p) for p in procs.all()), 10, "the end of all")
        assert status != 0
    if pair == ("monitor", "nursery"):	# the one stale entry that the next command removes
        net.weir("ps").ok()
    gone(net, sb, procs, ns, mounts, sockets)


@pytest.mark.lifecycle
@pytest.mark.parametrize("role", ROLES[1:])
def test_a10_kill_9_of_the_monitor_ends_stopped_processes_too(net, role):
    """A process that does not run cannot be asked: only the kernel ends it"""
    mounts, sockets, own = net.mounts(), net.unix_sockets(), namespaces()
    with net.inside("--route", "proxy", allow=[HOST + ":*"]) as sb:
        assert sb.py(TRANSFER) == 200
        procs = sb.procs()
        ns = procs.namespaces() - own
        os.kill(getattr(procs, role), signal.SIGSTOP)
        os.kill(procs.monitor, signal.SIGKILL)
        sb.p.wait(60)
        wait_until(lambda: not any(alive(p) for p in procs.all() if p != procs.nursery), 10)
        if role == "nursery":	# it holds nothing but the entry's name, and goes when it may run
            os.kill(procs.nursery, signal.SIGCONT)
        gone(net, sb, procs, ns, mounts, sockets)


def test_d1_a_stopped_command_is_killed_by_a_second_term(net):
    with net.spawn("run", "--", "sh", "-c", "sleep 1000 & echo ready; kill -STOP $$") as r:
        assert r.readline() == b"ready\n"
        cmd = r.procs().cmd
        wait_until(lambda: stat_of(cmd)["state"] == "T", 10, "the stop")
        begun = time.monotonic()

        def again():	# two that are pending at once are one
            os.kill(r.pid, signal.SIGTERM)
            return r.p.poll()
        assert wait_until(again, 8, "the end") in (128 + signal.SIGTERM, 128 + signal.SIGKILL)
        assert time.monotonic() - begun < 8, "not by the 10 s that one TERM gives"
    net.assert_clean()


@pytest.mark.nightly
def test_d1_a_stopped_command_is_killed_10_s_after_term(net):
    with net.spawn("run", "--", "sh", "-c", "echo ready; kill -STOP $$; sleep 1000") as r:
        assert r.readline() == b"ready\n"
        cmd = r.procs().cmd
        wait_until(lambda: stat_of(cmd)["state"] == "T", 10, "the stop")
        os.kill(r.pid, signal.SIGTERM)
        assert r.p.wait(60) in (128 + signal.SIGTERM, 128 + signal.SIGKILL)
    net.assert_clean()


@pytest.mark.lifecycle
@pytest.mark.parametrize("role", ["nursery", "shim", "keeper"])
@pytest.mark.parametrize("delay_us", [0, 200, 500, 1000, 2000])
def test_a10_kill_9_a_moment_after_it_began_leaves_nothing(net, role, delay_us):
    """Between fork and the lock, where a parent may die before its child is tied to it"""
    mounts = net.mounts()
    r = net.spawn("run", "--", "sleep", "1000", stdin=subprocess.DEVNULL)
    with r:
        def find():
            kids = children(r.pid)
            if role == "nursery":
                return kids[1] if len(kids) > 1 else None
            return kids and (kids[0] if role == "shim" else (children(kids[0]) or [None])[0])
        while True:
            pid = wait_until(find, 10, role)
            time.sleep(delay_us / 1e6)
            with contextlib.suppress(ProcessLookupError):	# it was there for a moment only: the next one
                os.kill(pid, signal.SIGKILL)
                break
        assert r.p.wait(60) != 0
    net.assert_clean()
    assert net.mounts() == mounts


DAEMON = """
import os, signal, sys, time
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/"); os.umask(0)
        for s in range(1, 65):
            try: signal.signal(s, signal.SIG_IGN)
            except (OSError, ValueError): pass
        os.write(w, b"x")
        for fd in range(0, 64):
            try: os.close(fd)
            except OSError: pass
        while True: time.sleep(1000)
    os._exit(0)
os.wait(); os.read(r, 1)
print("daemon", flush=True)
if sys.argv[1] == "exit": sys.exit(6)
time.sleep(1000)
"""


@pytest.mark.lifecycle
@pytest.mark.parametrize("end", ["exit", "term", "kill"])
def test_d2_a_daemon_ends_with_the_sandbox(net, end):
    with net.spawn("run", "--", PYTHON, "-c", DAEMON, end) as r:
        assert r.readline() == b"daemon\n"
        if end != "exit":
            os.kill(r.pid, signal.SIGTERM if end == "term" else signal.SIGKILL)
        assert r.p.wait(60) == {"exit": 6, "term": 143, "kill": -9}[end]
    net.assert_clean()


@pytest.mark.lifecycle
@pytest.mark.parametrize("when", ["at rest", "mid-transfer"])
def test_a10_a_killed_worker_is_replaced_and_the_next_connection_works(net, when):
    with net.inside(allow=[HOST + ":*"]) as sb:
        sb.py("result = 1")
        procs = sb.procs()
        if when == "mid-transfer":
            sb.py("""
                s, st, h, rest = connect("allowed.example.org:7000")
                s.sendall(b"ping"); assert s.recv(4) == b"ping"
            """)
        os.kill(procs.worker, signal.SIGKILL)
        got = sb.py("""
            old = None
            if when == "mid-transfer":
                try:
                    old = s.recv(1) or "end of file"
                except OSError as e:
                    old = errno.errorcode[e.errno]
            n, st, h, rest = connect("allowed.example.org:7000")
            n.sendall(b"pong"); result = old, st, n.recv(4); n.close()
        """, when=when)
        assert got[1:] == (200, b"pong"), got
        assert got[0] in ((None,) if when == "at rest" else ("ECONNRESET",)), got
        now = wait_until(lambda: Procs(sb.pid).worker, 10)
        assert now != procs.worker
        assert sb.wait_audit(lambda r: "worker" in r["event"] or r.get("reason") == "worker_died")
        assert sb.close().status == 0


@pytest.mark.lifecycle
def test_a10_the_fifth_dead_worker_in_a_minute_ends_the_replacing(net):
    """DESIGN 2: connection refused afterwards, said on stderr and in the audit"""
    with net.inside(allow=[HOST + ":*"]) as sb:
        sb.py("result = 1")
        last = None
        for _ in range(5):
            def other(last=last):
                w = None
                try:
                    w = Procs(sb.pid, timeout=0.05).worker
                except AssertionError:
                    pass
                return w if w and w != last and alive(w) else None
            last = wait_until(other, 10, "a worker")
            os.kill(last, signal.SIGKILL)
            wait_until(lambda p=last: not alive(p), 10)
        got = sb.py("""
            end = time.monotonic() + 60; result = None
            while time.monotonic() < end and result != "ECONNREFUSED":
                result = dial("127.0.0.1", 3128)
        """)
        assert got == "ECONNREFUSED"
        done = sb.close()
        assert done.status == 0 and "worker" in done.errtext, done


@pytest.mark.lifecycle
def test_a10_the_sandbox_never_outlives_its_monitor(net):
    """Also a command that ignores every signal and left its session"""
    with net.spawn("run", "--", PYTHON, "-c", """
import os, signal, time
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(1000)
    time.sleep(1000)
print('ready', flush=True)
time.sleep(1000)
""") as r:
        assert r.readline() == b"ready\n"
        os.kill(r.pid, signal.SIGKILL)
        r.p.wait()
        wait_until(lambda: not net.leftovers(), 10, "the end of everything")


@pytest.mark.lifecycle
def test_a10_kill_9_of_the_process_that_started_weir_and_its_terminal_leaves_nothing(net):
    pid, master = os.forkpty()
    if pid == 0:
        try:
            os.execv("/usr/bin/nsenter", net.enter(net.home) + [
                "/bin/sh", "-c", f"HOME={net.home} {BIN} run -- sleep 1000; :"])
        finally:
            os._exit(1)
    wait_until(lambda: any("sleep 1000" in x[2] for x in net.leftovers()), 10, "the command")
    os.close(master)	# hang-up
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    wait_until(lambda: not net.leftovers(), 10, "the end of everything")


# ---- D1 ----

@pytest.mark.parametrize("cmd,status", [
    (["true"], 0), (["false"], 1), (["sh", "-c", "exit 7"], 7), (["sh", "-c", "exit 255"], 255),
    (["sh", "-c", "kill -9 $$"], 137), (["sh", "-c", "kill -TERM $$"], 143),
    (["sh", "-c", "kill -INT $$"], 130), (["sh", "-c", "kill -SEGV $$"], 139),
    (["sh", "-c", "kill -PIPE $$"], 141)])
def test_d1_exit_status_is_the_commands_own(net, cmd, status):
    assert net.run("--", *cmd).status == status


def test_d1_127_for_a_command_that_is_not_there(net):
    r = net.run("--", "no-such-command-at-all")
    assert r.status == 127 and "no-such-command-at-all" in r.errtext, r
    r = net.run("--", "/no/such/path")
    assert r.status == 127 and "/no/such/path" in r.errtext, r


def test_d1_127_for_a_command_that_is_not_visible_inside_names_the_r_to_type(net):
    tool = net.write(f"{net.home}/tools/x/tool", "#!/bin/sh\necho hello\n", 0o755)
    r = net.run("--", tool)
    assert r.status == 127 and "not visible" in r.errtext and "-r" in r.errtext, r
    r = net.run("-r", os.path.dirname(tool), "--", tool)
    assert r.ok().text == "hello\n"


def test_d1_126_for_a_command_that_cannot_be_executed(net):
    cwd = net.project()
    net.write(f"{cwd}/plain", "text", 0o644)
    assert net.run("--", "./plain", cwd=cwd).status == 126
    net.write(f"{cwd}/garbage", b"\x7fELFgarbage", 0o755)
    r = net.run("--", "./garbage", cwd=cwd)
    assert r.status == 126 and "garbage" in r.errtext, r
    assert net.run("--", "/usr", cwd=cwd).status == 126


@pytest.mark.parametrize("args", [
    ["run"], ["run", "--"], ["run", "--no-such-option", "--", "true"],
    ["run", "--network", "maybe", "--", "true"], ["run", "--allow", "*.com", "--", "true"],
    ["run", "-C", "/nonexistent", "--", "true"], ["run", "-p", "/nonexistent", "--", "true"],
    ["run", "-r", "/nonexistent", "--", "true"], ["no-such-command"], []])
def test_d1_125_when_weir_fails_before_the_command_ran(net, args):
    r = net.weir(*args)
    assert r.status == 125 and r.err, r
    assert r.out == b""


def test_d1_h42_a_1_mib_argument_list(net):
    """H42: no shell word limits or expands the command"""
    args = ["x" * 100 + str(i) for i in range(9000)]
    r = net.run("--", PYTHON, "-c", "import sys; print(len(sys.argv), sum(map(len, sys.argv[1:])))",
                *args)
    assert r.ok().text.split() == ["9001", str(sum(map(len, args)))]
    one = "'\"`$(x) \\" * 11000	# what a shell would expand, below the kernel's 128 KiB a word
    r = net.run("--", PYTHON, "-c", "import sys; print(hash(1), len(sys.argv[1]))", one)
    assert r.ok().text.split()[1] == str(len(one))


def test_d1_arguments_arrive_byte_for_byte(net):
    args = ["a\nb", "", " ", "'", '"', "$HOME", "`id`", "*", "-x", "--", "é", "\\", "\t"]
    r = net.run("--", PYTHON, "-c", "import sys; print(repr(sys.argv[1:]))", *args)
    assert r.ok().text.strip() == repr(args)
    r = net.run("--", PYTHON, "-c", "import os,sys; print([os.fsencode(a) for a in sys.argv[1:]])",
                b"\xff\xfe")
    assert r.ok().text.strip() == repr([b"\xff\xfe"])


def test_d1_pipes_are_binary_clean(net):
    data = bytes(range(256)) * 40000
    r = net.run("--", "cat", stdin=data)
    assert r.ok().out == data
    r = net.run("--", "sh", "-c", "cat >&2", stdin=data)
    assert r.status == 0 and r.err == data


def test_d1_sigpipe_is_natural(net):
    """weir run cat </dev/zero | head -c 100M: the pipe's end ends the command"""
    with open("/dev/zero", "rb") as zero:
        r = net.spawn("run", "--", "cat", stdin=zero)
    with r:
        left = 100 << 20
        while left:
            left -= len(r.p.stdout.read(min(left, 1 << 20)))
        r.p.stdout.close()
        assert r.p.wait(60) == 128 + signal.SIGPIPE


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_d1_closed_standard_descriptors_do_no_harm(net, closed):
    p = net.sh(f"exec {BIN} run -- sh -c 'exit 5' {closed}>&-")
    assert p.returncode == 5, p


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_d1_a_signal_to_weir_reaches_the_command(net, sig):
    with net.spawn("run", "--", "sh", "-c",
                   f"trap 'echo got; exit 9' {sig.name[3:]}; echo ready; "
                   "while :; do sleep 0.01; done") as r:
        assert r.readline() == b"ready\n"
        os.kill(r.pid, sig)
        d = r.finish()
        assert d.out == b"got\n" and d.status == 9, d


def test_d1_a_signal_while_the_command_starts_is_the_commands_too(net):
    """The command has printed before weir was told that it runs: its status is still its own"""
    for _ in range(40):
        with net.spawn("run", "--", "sh", "-c", "echo here; exec sleep 60") as r:
            assert r.readline() == b"here\n"
            os.kill(r.pid, signal.SIGTERM)
            done = r.finish()
        assert (done.status, done.err) == (143, b""), done


def test_d1_status_fd_tells_started_and_exited(net):
    a, b = os.pipe()
    with net.spawn("run", "--status-fd", str(b), "--", "sh", "-c", "exit 3", pass_fds=[b]) as r:
        os.close(b)
        assert r.finish().status == 3
    with os.fdopen(a) as f:
        lines = [json.loads(x) for x in f]
    assert [x["event"] for x in lines] == ["started", "exited"], lines
    assert lines[1]["status"] == 3 and lines[0]["pid"] > 0 and lines[0]["id"]


@pytest.mark.parametrize("blocking", [True, False])
def test_d1_a_reader_of_status_fd_that_does_not_read_holds_nothing_up(net, blocking):
    """The pipe is full before the command starts: it runs, is served, ends, and so does weir"""
    a, b = os.pipe()
    os.set_blocking(b, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(b, b"x" * 4096)
    os.set_blocking(b, blocking)
    with net.spawn("run", "--status-fd", str(b), "--", "sh", "-c", "echo here; exit 3",
                   pass_fds=[b]) as r:
        done = r.finish()
    assert (done.status, done.out, done.err) == (3, b"here\n", b""), done
    assert os.get_blocking(b) == blocking, "the reader's own descriptor was changed"
    os.close(b)
    with os.fdopen(a, "rb") as f:
        assert set(f.read()) == {ord("x")}, "part of a line"


def test_d1_a_slow_reader_of_status_fd_gets_every_line(net):
    """A line that is longer than the room: the rest comes when there is some"""
    a, b = os.pipe()
    fcntl.fcntl(b, fcntl.F_SETPIPE_SZ, 4096)
    data = os.path.dirname(net.write(f"{net.home}/status/{'x' * 200}/file", "x"))
    with net.spawn("run", "--status-fd", str(b), *["-r", data] * 30, "--", "true",
                   pass_fds=[b]) as r:
        os.close(b)
        with os.fdopen(a) as f:
            lines = [json.loads(x) for x in f]
        assert r.finish().status == 0
    assert [x["event"] for x in lines] == ["started", "exited"], lines
    assert len(json.dumps(lines[0])) > 4096 and len(lines[0]["holes"]) == 30


# ---- D2 ----

def test_d2_a_stopped_keeper_goes_on(net):
    """It alone hears that the command ended, and the command may stop it"""
    r = net.run("--", PYTHON, "-c", "import os, signal\nfor i in range(50):\n"
                "    os.kill(os.getppid(), signal.SIGSTOP)\nos._exit(5)")
    assert r.status == 5, r


def test_d1_signals_that_come_as_the_command_ends_do_not_change_its_status(net):
    """pid 1 leaves them unread"""
    for _ in range(15):
        with net.spawn("run", "--", "sh", "-c", "trap '' USR1; echo here; exit 6") as r:
            assert r.readline() == b"here\n"
            while r.p.poll() is None:
                os.kill(r.pid, signal.SIGUSR1)
            assert (r.p.returncode, r.p.stderr.read()) == (6, b"")


@pytest.mark.parametrize("floods", [0, 600])
def test_d2_the_exit_status_is_not_lost_behind_other_words_of_the_sandbox(net, floods):
    """The monitor stands still while the command is stopped and goes on again and again"""
    with net.spawn("run", "--", PYTHON, "-c", f"""
import os, signal, sys, time
me = os.getpid()
def state():
    with open(f"/proc/{{me}}/stat") as f: return f.read().rsplit(") ")[1][0]
r, w = os.pipe()
if os.fork() == 0:
    print("ready", flush=True); sys.stdin.readline()
    for i in range({floods}):
        os.kill(me, signal.SIGSTOP)
        while state() != "T": pass
        os.kill(me, signal.SIGCONT)
    print("flooded", flush=True)
    os.write(w, b"x"); os._exit(0)
while not os.read(r, 1): pass
os._exit(6)
""", stdin=subprocess.PIPE) as r:
        assert r.readline() == b"ready\n"
        os.kill(r.pid, signal.SIGSTOP)
        r.p.stdin.write(b"go\n")
        r.p.stdin.flush()
        assert r.readline() == b"flooded\n"
        cmd = [p for p in descendants(r.pid) if cmdline(p).startswith(PYTHON)]
        wait_until(lambda: not any(alive(p) for p in cmd), 10, "the end of the command")
        os.kill(r.pid, signal.SIGCONT)
        done = r.finish()
    assert (done.status, done.err) == (6, b""), done


def test_d2_h40_a_command_that_waits_for_all_children_ends(net):
    """H40: nothing of weir's is the command's child"""
    r = net.run("--", PYTHON, "-c", """
import os
n = 0
for i in range(3):
    if os.fork() == 0: os._exit(0)
try:
    while True: os.wait(); n += 1
except ChildProcessError: print(n)
""")
    assert r.ok().text == "3\n"


def test_d2_the_commands_parent_is_never_pid_1(net):
    r = net.run("--", PYTHON, "-c", "import os; print(os.getppid(), os.getpid())")
    assert r.ok().text.split()[0] not in ("0", "1"), r


def test_d2_zombies_are_reaped(net):
    r = net.run("--", PYTHON, "-c", """
import os, time
for i in range(50):
    if os.fork() == 0:
        if os.fork() == 0: os._exit(0)      # orphan: goes to pid 1
        os._exit(0)
    os.wait()
end = time.monotonic() + 60
def zombie(p):
    try: return ') Z ' in open(f'/proc/{p}/stat').read()
    except OSError: return False
while time.monotonic() < end:
    z = [p for p in os.listdir('/proc') if p.isdigit() and zombie(p)]
    if not z: break
print(len(z))
""")
    assert r.ok().text == "0\n"


def test_d2_a_command_that_kills_everything_cannot_kill_the_shim(net):
    with net.inside(allow=[HOST + ":*"]) as sb:
        shim = sb.procs().shim
        got = sb.py("""
            import signal
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            for sig in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
                for p in os.listdir("/proc"):
                    if p.isdigit() and int(p) != os.getpid() and \\
                            (int(p) == 1 or sig == signal.SIGTERM):
                        try: os.kill(int(p), sig)
                        except OSError: pass
            s, st, h, rest = connect("allowed.example.org:7000"); s.close(); result = st
        """)
        assert got == 200 and alive(shim)


def test_d2_a_killed_keeper_ends_the_sandbox_with_137(net):
    """kill -9 -1 from inside hits the keeper too: 128+9, never a hang"""
    r = net.run("--", PYTHON, "-c",
                "import os, time; os.kill(os.getppid(), 9); time.sleep(1000)")
    assert r.status in (137, 1), r
    r = net.run("--", "sh", "-c", "kill -9 -1; sleep 1000")
    assert r.status == 137, r


def test_d2_children_left_behind_end_with_the_command(net):
    r = net.run("--", "sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 4")
    assert r.status == 4
    net.assert_clean()


# ---- D4 ----


def test_d4_100_launches_in_a_row_leave_nothing(net):
    launches(net, 100)


@pytest.mark.nightly
@pytest.mark.parametrize("turn", range(5))
def test_d4_1000_launches_in_a_row_leave_nothing(net, turn):
    launches(net, 1000)


def launches(net, n):
    mounts, unix = net.mounts(), net.unix_sockets()
    fds = len(os.listdir(f"/proc/{net.pid}/fd"))
    p = net.sh(f"i=0; while [ $i -lt {n} ]; do {BIN} run -- true || exit 9; i=$((i+1)); done",
               timeout=100) \
        if n <= 100 else many(net, n)
    assert p.returncode == 0, p.stderr[-2000:]
    net.assert_clean()
    assert net.mounts() == mounts and net.unix_sockets() == unix
    assert len(os.listdir(f"/proc/{net.pid}/fd")) == fds
    assert not os.listdir(net.path("/tmp"))


def many(net, n):
    for _ in range(n // 100):
        p = net.sh(f"i=0; while [ $i -lt 100 ]; do {BIN} run -- true || exit 9; i=$((i+1)); done",
                   timeout=100)
        if p.returncode:
            break
    return p


def test_d4_50_at_once_work(net):
    out, lock = [], threading.Lock()

    def one(i):
        r = net.run("--", "sh", "-c", f"echo {i}; exit {i}", allow=[HOST])
        with lock:
            out.append((i, r.status, r.text))
    ts = [threading.Thread(target=one, args=(i,)) for i in range(50)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    assert sorted(out) == [(i, i, f"{i}\n") for i in range(50)]
    net.assert_clean()


def test_d4_50_at_once_share_one_audit_file(net):
    """Two sandboxes writing one file never interleave"""
    ts = []
    state = f"{net.home}/.local/shared-state"
    for i in range(50):
        ts.append(threading.Thread(target=lambda i=i: net.run(
            "--", "curl", "-s", "-o", "/dev/null", f"http://n{i}.example.net/", state=state)))
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    data = net.read(f"{state}/weir/audit.jsonl")
    recs = [json.loads(x) for x in data.splitlines()]
    hosts = {r["host"] for r in verdicts(recs)}
    assert hosts == {f"n{i}.example.net" for i in range(50)}
    assert len({r["sandbox"] for r in recs}) == 50


def test_h43_a_sandbox_that_cannot_be_made_fails_at_once_and_says_so(net):
    """H43: never seconds of waiting, never a silent run without network"""
    p = net.sh(f"ulimit -n 5; {BIN} run -- true; echo $?")
    assert p.stdout.strip() == b"125" and b"weir:" in p.stderr, p


def test_h26_no_path_leads_to_the_broker(net):
    """H22, H23, H26, H39: no socket file, no launcher file; nothing a second sandbox could open"""
    before = net.unix_sockets()
    with net.inside(allow=[HOST + ":*"]) as sb:
        got = sb.py("""
            import subprocess
            out = subprocess.run(["find", "/", "-xdev", "-type", "s"], capture_output=True).stdout
            out += subprocess.run(["find", "/run", "/tmp", "/dev", "/home", "-type", "s"],
                                  capture_output=True).stdout
            result = out, open("/proc/net/unix").read().splitlines()[1:]
        """)
        assert got[0] == b"", got
        assert not [x for x in got[1] if len(x.split()) > 7], got
        assert {x for x in net.unix_sockets() - before if not x.startswith(net.runtime)} == set()


def test_d1_quiet_start_and_end(net):
    """A plain run says nothing of its own"""
    r = net.run("--", "echo", "x")
    assert r.ok().err == b"" and r.out == b"x\n"


def test_d2_no_process_of_the_command_is_there_when_weir_has_returned(net):
    """At once: who runs weir may count on it, whatever the kernel still takes down by itself"""
    mark = f"{os.getpid()}98765"
    r = net.run("--", "sh", "-c", f"for i in 1 2 3 4 5; do sleep {mark} & setsid sleep {mark} & done; "
                f"until [ $(grep -lsa '^sleep' $(grep -lsa {mark} /proc/[0-9]*/cmdline) | wc -l) = 10 ];"
                "do :; done; exit 4", timeout=30)
    left = [p for p in all_pids() if mark in cmdline(p)]
    assert r.status == 4 and not left, (r, left)


WATCH = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(0)
assert fd >= 0 and libc.inotify_add_watch(fd, sys.argv[1].encode(), 0x100) >= 0	# IN_CREATE
print("watching", flush=True)
seen = 0
while not seen & 0x2000:	# IN_UNMOUNT: of the file system, not of one mount
    data = os.read(fd, 4096)
    while data:
        _, mask, _, n = struct.unpack_from("iIII", data)
        seen, data = seen | mask, data[16 + n:]
print("gone", flush=True)
"""


@pytest.mark.skipif(not IS_ROOT, reason="mounting in the world needs root")
@pytest.mark.parametrize("mode", ["-r", "-w"])
def test_a_file_system_that_was_granted_is_free_again_after_the_run(net, mode):
    """Its mounts inside go behind weir's back, but they go: then nothing holds the file system"""
    disk = net.mkdir(f"{net.home}/disk{mode}")
    enter = ["nsenter", f"--target={net.pid}", "--mount"]
    subprocess.run([*enter, "mount", "-t", "tmpfs", "-o", f"uid={net.uid},mode=700", "tmpfs", disk],
                   check=True)
    with subprocess.Popen([*enter, "timeout", "60", PYTHON, "-c", WATCH, disk],
                          stdout=subprocess.PIPE, text=True) as p:
        try:
            assert p.stdout.readline() == "watching\n"
            r = net.run(mode, disk, "--", "sh", "-c", f"sleep 1000 & ls -la {disk}")
            subprocess.run([*enter, "umount", disk], check=True)
            r.ok()
            assert p.stdout.readline() == "gone\n"
        finally:
            p.kill()


def test_the_command_has_the_scheduling_of_who_ran_weir(net):
    """weir's own processes take short turns: neither the command nor what it starts does"""
    code = """
import ctypes, os
b, getattr = ctypes.create_string_buffer(48), {"x86_64": 315, "aarch64": 275}[os.uname().machine]
assert ctypes.CDLL(None, use_errno=True).syscall(getattr, 0, b, 48, 0) == 0	# sched_getattr(2)
print(b.raw.hex(), os.sched_getscheduler(0), os.nice(0))
"""
    outside = net.sh(f"exec {PYTHON} -c '{code}'").stdout.decode()
    assert len(outside) > 96, outside
    assert net.run("--", PYTHON, "-c", code).ok().text == outside
    r = net.run("--", "sh", "-c", f"{PYTHON} -c \"$0\"; exit 0", code)
    assert r.ok().text == outside
