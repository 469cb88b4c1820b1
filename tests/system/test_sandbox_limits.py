# SPDX-License-Identifier: ISC
"""tests/system/test_sandbox_limits.py - limit pids, memory and cpu: by rlimits everywhere, by a cgroup
where one is delegated, and said where not (ACCEPTANCE D5)."""
import contextlib
import os
import pathlib
import re
import socket
import struct
import subprocess

import pytest

from world import BIN, BUILD, IS_ROOT, flags, wait_until, watching

BOMB = "import os\nr, w = os.pipe()\nn = 0\ntry:\n while n < 500:\n  if os.fork() == 0:\n" \
       "   os.close(w); os.read(r, 1); os._exit(0)\n  n += 1\nexcept OSError as e:\n" \
       " print(n, e.errno, flush=True)"
EAT = "b = []\nfor i in range(int(__import__('sys').argv[1])): b.append(bytearray(1 << 20))\nprint(len(b))"


def policy(world, *lines):
    d = world.project()
    world.write(f"{d}/.limits", "".join(f"{ln}\n" for ln in lines))
    return d, ["-p", f"{d}/.limits"]


def test_d5_a_fork_bomb_is_limited(world):
    d, p = policy(world, "limit pids 20")
    r = world.run(*p, "--", "/usr/bin/python3", "-c", BOMB, cwd=d, timeout=30)
    assert r.ok().text == "19 11\n", r	# EAGAIN; the twentieth is the parent
    r = world.run("--", "/usr/bin/python3", "-c", BOMB, cwd=d, timeout=30)
    assert r.ok().text == "", "not limited unless it is said"
    world.assert_clean()


def test_the_limit_counts_the_sandbox_and_not_the_user(world):
    d, p = policy(world, "limit pids 10")
    with world.inside(cwd=d) as other:
        other.py("import subprocess\nresult = [subprocess.Popen(['sleep', '60']) for i in range(30)] and 1")
        assert world.run(*p, "--", "sh", "-c", "sleep 0 & sleep 0 & wait; echo ok",
                         cwd=d).ok().text == "ok\n"


def no_cgroup(r, *words):
    lines = [ln for ln in r.errtext.splitlines() if "no cgroup is delegated" in ln]
    assert len(lines) == 1 and all(w in lines[0] for w in words), r


def test_d5_memory_is_limited_for_each_process_and_that_is_said(world):
    d, p = policy(world, "limit memory 100M", "limit cpu 0.5")
    r = world.run(*p, "--", "/usr/bin/python3", "-c", EAT, "200", cwd=d)
    assert r.status == 1 and "MemoryError" in r.errtext, r
    no_cgroup(r, "'limit memory' holds for each process by itself", "'limit cpu' does not hold")
    r = world.run(*p, "--", "/usr/bin/python3", "-c", EAT, "40", cwd=d)
    assert r.ok().text == "40\n", r
    r = world.run("-q", *p, "--", "true", cwd=d).ok()
    assert "cgroup" not in r.errtext, r
    r = world.run("--", "true", cwd=d).ok()
    assert "cgroup" not in r.errtext, "nobody asked"


@pytest.mark.as_root
def test_as_root_it_is_said_that_processes_are_not_limited(world):
    if not IS_ROOT:
        pytest.skip("weir as root needs root")
    d = world.mkdir("/home/admin/limits", root=True)
    world.write(f"{d}/p", "limit pids 20\n", root=True)
    r = world.run("-p", f"{d}/p", "--", "true", cwd=d, root=True)
    if "no cgroup" in r.ok().errtext:
        no_cgroup(r, "'limit pids' does not hold")


def test_bad_values_are_refused(world):
    for line, word in (("limit memory 5", "512M"), ("limit memory 1X", "512M"), ("limit cpu -1", "0.5"),
                       ("limit cpu 1.234", "0.5"), ("limit pids 0x5", "processes"),
                       ("limit pids", "processes"), ("limit disk 5", "pids")):
        d, p = policy(world, line)
        r = world.run(*p, "--", "true", cwd=d)
        assert r.status == 125 and word in r.errtext and ":1:" in r.errtext, r


def test_an_edit_takes_effect_at_the_next_start_where_no_cgroup_is(world):
    d = world.mkdir(f"{world.home}/lim")
    world.write(f"{world.home}/lim.policy", "limit memory 100M\n")
    with world.inside("-v", "-p", f"{world.home}/lim.policy", cwd=d) as sb:
        sb.py("result = 1")
        watching(sb.pid)
        world.edit(f"{world.home}/lim.policy", "limit memory 300M\n")
        sb.wait_audit(lambda x: x["event"] == "policy_reloaded")
        r = sb.close()
    assert "limit memory changed: that takes effect at the next start" in r.errtext, r


# ---- with a cgroup ----

CGROUP = pathlib.Path("/sys/fs/cgroup")


@pytest.fixture
def delegated(world):
    """A directory of cgroup v2 that is the user's, and a prefix that starts a program below it"""
    if not IS_ROOT:
        pytest.skip("delegating a cgroup needs root")
    try:
        have = (CGROUP / "cgroup.controllers").read_text(encoding="ascii").split()
    except OSError:
        have = []
    if not {"pids", "memory", "cpu"} <= set(have):
        pytest.skip("kernel feature: the controllers pids, memory and cpu in cgroup v2")
    top = CGROUP / f"weir-test-{os.getpid()}"
    (top / "leaf").mkdir(parents=True)
    for t in (CGROUP, top):
        (t / "cgroup.subtree_control").write_text("+pids +memory +cpu", encoding="ascii")
    for f in (top, top / "cgroup.procs", top / "leaf", top / "leaf" / "cgroup.procs"):
        os.chown(f, world.uid, world.gid)
    yield top, ["/bin/sh", "-c", f'echo 0 > {top}/leaf/cgroup.procs && exec "$@"', "sh"]
    subprocess.run(["rmdir", str(top / "leaf"), str(top)], check=True)


def test_d5_in_a_delegated_cgroup_the_sandbox_is_limited_as_a_whole(world, delegated):
    top, prefix = delegated
    d, p = policy(world, "limit pids 20", "limit memory 64M", "limit cpu 1")
    argv = prefix + world.enter(d) + [BIN, "run", *flags(()), *p, "--"]

    def run(*cmd):
        return subprocess.run(argv + list(cmd), capture_output=True, text=True, timeout=200, check=False,
                              env=world.env(f"{world.home}/.local/state-cg"))
    r = run("/usr/bin/python3", "-c", BOMB)
    assert r.returncode == 0 and r.stdout == "19 11\n" and "no cgroup" not in r.stderr, r
    r = run("sh", "-c", f"for i in 1 2 3 4; do /usr/bin/python3 -c '{EAT}' 30 & done; wait; cat "
            "/proc/self/cgroup")
    assert r.stdout.count("30\n") < 4 and "0::/\n" in r.stdout, r
    wait_until(lambda: sorted(x.name for x in top.iterdir() if x.is_dir()) == ["leaf"], 5,
               "the cgroup to be removed")


@pytest.fixture
def own(world, delegated):
    """A directory that is the user's and has no controller in force, and a prefix that starts a program
    as the only one in it: what systemd-run -p Delegate=yes gives"""
    top = delegated[0] / "own"
    top.mkdir()
    for f in (top, top / "cgroup.procs", top / "cgroup.subtree_control"):
        os.chown(f, world.uid, world.gid)
    # the one above is not the user's: there is no other place to be found
    for f in (delegated[0], delegated[0] / "cgroup.procs"):
        os.chown(f, 0, 0)
    yield top, ["/bin/sh", "-c", f'echo 0 > {top}/cgroup.procs && exec "$@"', "sh"]
    for d in top.iterdir():
        if d.is_dir():
            d.rmdir()
    top.rmdir()


def test_d5_weir_moves_down_in_a_cgroup_that_was_delegated_to_it_alone(world, own):
    top, prefix = own
    d, p = policy(world, "limit pids 20", "limit memory 64M")
    r = subprocess.run(prefix + world.enter(d) + [BIN, "run", *flags(()), *p, "--", "/usr/bin/python3", "-c", BOMB],
                       capture_output=True, text=True, timeout=60, check=False,
                       env=world.env(f"{world.home}/.local/state-cg"))
    assert r.returncode == 0 and r.stdout == "19 11\n" and "no cgroup" not in r.stderr, r
    # what it moved into goes with the unit; the sandbox's own is gone
    assert all(x.name.startswith("weir-own-") for x in top.iterdir() if x.is_dir())


def test_what_doctor_says_of_a_cgroup_is_what_run_finds(world, own):
    """Alone in it, and beside another process, which nobody but weir's own may move"""
    _, prefix = own
    d, p = policy(world, "limit cpu 1")
    env = world.env(f"{world.home}/.local/state-cg")
    for beside, works in (("sleep 60 & ", False), ("", True)):
        # doctor last: once a controller is in force nobody enters that directory any more
        text = f'{beside}$W run --preset none {" ".join(p)} -- true; $W doctor; kill %1 2>/dev/null'
        if works:
            text = "exec $W doctor"
        r = subprocess.run(prefix + world.enter(d) + ["/bin/bash", "-c", text], capture_output=True, text=True,
                           timeout=60, check=False, env={**env, "W": str(BIN)})
        assert ("delegated: processes, memory, cpu" in r.stdout) is works, r
        assert ("'limit cpu' does not hold" in r.stderr) is not works, r


@pytest.mark.parametrize("network", ["allowlist", "deny"])
def test_a10_a_killed_monitor_leaves_no_cgroup_behind(world, delegated, network):
    top, prefix = delegated
    d, p = policy(world, "limit pids 20")
    argv = prefix + world.enter(d) + [BIN, "run", *flags(()), "-n", network, *p, "--", "sh", "-c",
                                      "sleep 300 & echo up; wait"]

    def own():
        return [x for x in top.iterdir() if x.is_dir() and x.name.startswith("weir-")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=world.env(
            f"{world.home}/.local/state-cg")) as m:
        assert m.stdout.readline() == b"up\n"
        assert len(own()) == 1 and (own()[0] / "cgroup.procs").read_text(encoding="ascii").split()
        m.kill()
    wait_until(lambda: not own(), 10, "the cgroup to be removed")


def cgroup2():
    """A cgroup v2 that can be mounted here, with whatever controllers, or a skip"""
    if not IS_ROOT:
        pytest.skip("delegating a cgroup needs root")
    for line in pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        if line.split()[2] == "cgroup2":
            return pathlib.Path(line.split()[1])
    pytest.skip("kernel feature: cgroup v2")


def test_a10_the_nursery_removes_the_cgroup_when_the_last_process_has_left_it(world):
    """By itself, so that a kernel whose cgroup v2 has no controllers will do"""
    top = cgroup2() / f"weir-test-{os.getpid()}"
    group = top / "weir-0123456789ab"
    group.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as inside:
        try:
            os.chown(top, world.uid, world.gid)
            (group / "cgroup.procs").write_text(str(inside.pid), encoding="ascii")
            header = (pathlib.Path(__file__).parents[2] / "common/msg.h").read_text(encoding="utf-8")
            body = re.search(r"enum msg_type {(.*?)};", header, re.S)[1]
            types = re.findall(r"MSG_\w+(?=,)", re.sub(r"/\*.*?\*/", "", body, flags=re.S))
            name = b"0123456789ab"
            msg = struct.pack("=BBHIH", types.index("MSG_CGROUP"), 1, 10 + len(name), 0, len(name)) + name
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            fds = [os.open(top, os.O_PATH), os.open(group / "cgroup.events", os.O_RDONLY)]
            socket.send_fds(ours, [msg], fds)

            def become():
                os.dup2(theirs.fileno(), 3)
                os.setgid(world.gid)
                os.setuid(world.uid)
            with subprocess.Popen(["weir: nursery"], executable=f"{BUILD}/weir", preexec_fn=become,
                                  close_fds=False, env={}) as n:
                for fd in fds:
                    os.close(fd)
                theirs.close()
                ours.close()

                def has_read():
                    for fd in pathlib.Path(f"/proc/{n.pid}/fd").iterdir():
                        with contextlib.suppress(FileNotFoundError):	# closed since it was listed
                            if os.readlink(fd).endswith("cgroup.events"):
                                info = pathlib.Path(f"/proc/{n.pid}/fdinfo/{fd.name}").read_text(encoding="ascii")
                                return "pos:\t0\n" not in info
                    return False
                wait_until(has_read, 5, "the nursery to ask whether somebody is in the cgroup")
                assert group.exists() and n.poll() is None
                inside.kill()
                assert n.wait(60) == 0
            assert not group.exists()
        finally:
            inside.kill()
            inside.wait()
            for d in (group, top):
                if d.exists():
                    d.rmdir()
