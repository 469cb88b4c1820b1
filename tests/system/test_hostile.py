# SPDX-License-Identifier: ISC
"""What a hostile command, or a hostile moment, once got out of weir: each stays fixed."""
import os
import signal

import pytest

HOST = "allowed.example.org"


@pytest.fixture(scope="module")
def net(world):
    world.web = world.http("93.184.216.34", 80, "allowed")
    return world


def test_a_full_process_table_is_no_reason_to_run_without_a_sandbox(net):
    """A command inside can bring it about; --on-unavailable must not answer it"""
    secret = net.write(f"{net.home}/secret.txt", "for my eyes only\n")
    for how in ("allow", "warn"):
        r = net.run("--on-unavailable", how, "--", "cat", secret,
                    prefix=["/usr/bin/prlimit", "--nproc=1"])
        assert r.status == 125 and "eyes only" not in r.text, r
        assert "Resource temporarily unavailable" in r.errtext, r


def test_a_signal_to_the_process_group_of_weir_spares_the_network(net):
    """^C at the terminal is for the command: the worker is in a session of its own"""
    with net.inside(allow=[HOST], start_new_session=True) as sb:
        assert sb.py(f's, st, h, b = connect("{HOST}:80"); result = st') == 200
        procs = sb.procs()
        monitor = os.getpgid(sb.pid)
        assert os.getpgid(procs.nursery) != monitor and os.getpgid(procs.worker) != monitor
        os.killpg(monitor, signal.SIGUSR1)	# the command ends of it, nothing else does
        done = sb.finish()
    assert done.status == 128 + signal.SIGUSR1, done
    assert not [r for r in done.audit if r["event"] == "worker_replaced"], done.audit


def test_an_audit_file_in_a_directory_still_to_be_made_is_judged_by_its_parent(net):
    top = net.mkdir(f"{net.home}/proj-audit", 0o700)
    r = net.run("--audit", f"{top}/new/deeper/a.jsonl", "--", "true", cwd=top)
    assert r.status == 125 and "lies where the command may write" in r.errtext, r
    assert not os.path.exists(net.path(f"{top}/new"))


def test_a_file_size_limit_is_a_lost_record_and_not_a_dead_monitor(net):
    """SIGXFSZ ended the monitor without a word"""
    state = net.mkdir(f"{net.home}/.local/state-fsize", 0o700)
    net.mkdir(f"{state}/weir", 0o700)
    net.write(f"{state}/weir/audit.jsonl", "x" * 4095 + "\n", 0o600)
    limit = ["/usr/bin/prlimit", "--fsize=4096"]
    r = net.run("--", "echo", "ran", state=state, prefix=limit)
    assert (r.status, r.text) == (0, "ran\n") and "File too large" in r.errtext, r
    r = net.run("--audit", "required", "--", "echo", "ran", state=state, prefix=limit)
    assert (r.status, r.text) == (125, "") and "audit record" in r.errtext, r


@pytest.mark.parametrize("grant", [False, True])
def test_a_policy_that_is_a_link_into_the_project_cannot_be_written(net, grant):
    """~/.config/weir/policy -> ~/dotfiles/policy: who writes there writes the next run's policy"""
    dots = net.mkdir(f"{net.home}/dotfiles-{grant}", 0o700)
    real = net.write(f"{dots}/policy", "# mine\n", 0o600)
    config = net.mkdir(f"{net.home}/config-{grant}", 0o700)
    net.mkdir(f"{config}/weir", 0o700)
    os.symlink(real, net.path(f"{config}/weir/policy"))
    opts = ["-w", dots] if grant else ["-C", dots]
    r = net.run(*opts, "--", "sh", "-c", f"echo 'network allow' >>{real}",
                env={"XDG_CONFIG_HOME": config})
    assert r.status != 0, r
    assert net.read(real) == b"# mine\n"
    if grant:
        assert r.status == 125 and "weir's own" in r.errtext, r


def test_too_few_descriptors_are_told_before_anything_starts(net):
    r = net.run("--", "true", prefix=["/usr/bin/prlimit", "--nofile=100:100"])
    assert r.status == 125 and "100 descriptors are too few" in r.errtext, r
    assert "ulimit -n" in r.errtext, r
    r = net.run("-n", "deny", "--", "true", prefix=["/usr/bin/prlimit", "--nofile=100:100"])
    assert r.status == 0, r


def test_a_reader_of_stderr_that_stops_does_not_stop_the_network(net):
    """Refusals are told on stderr; when its pipe is full the line is dropped, not waited for"""
    a, b = os.pipe()
    try:
        import fcntl
        fcntl.fcntl(b, 1031, 4096)	# F_SETPIPE_SZ
        with net.inside(allow=[HOST], stderr=b) as sb:
            got = sb.py(f"""
                out = set()
                for i in range(400):
                    s, st, h, rest = connect("denied-%d.example.net:443" % i)
                    out.add(st); s.close()
                s, st, h, rest = connect("{HOST}:80")
                result = sorted(out), st
            """)
            assert got == ([403], 200), got
            assert sb.finish().status == 0
        assert b"is not allowed" in os.read(a, 65536)
    finally:
        os.close(a)
        os.close(b)


def test_nothing_is_left_to_be_reaped_by_others(net):
    """A container's pid 1 may reap nobody: weir leaves no zombie to it"""
    code = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)	# PR_SET_CHILD_SUBREAPER
p = subprocess.run(sys.argv[1:])
try:
    left = os.waitpid(-1, 0)
except ChildProcessError:
    left = None
print(p.returncode, left)
"""
    from world import BIN
    import subprocess
    r = subprocess.run(net.enter(net.mkdir(f"{net.home}/work/zombie")) +
                       ["/usr/bin/python3", "-c", code, BIN, "run", "--", "true"],
                       env=net.env(net.home + "/.local/state-zombie"), capture_output=True,
                       timeout=60, check=False)
    assert r.stdout == b"0 None\n", r
