# SPDX-License-Identifier: ISC
"""tests/system/test_terminal_programs.py - programs that people use on a terminal, and what a terminal must
not let in: D3, TIOCSTI, --tty, signals."""
import os
import select
import signal
import subprocess

import pytest

from terminals import PROMPT, Shell, Terminal, wait_weir, weir
from world import BIN, PYTHON, Procs, alive, need, stat_of, wait_until


@pytest.fixture(scope="module")
def w(world):
    return world


def test_d3_vim_edits_is_stopped_and_goes_on(w):
    need("vim", "vim")
    with Shell(w) as t:
        before = t.modes()
        t.line("w vim -u NONE -n file.txt")
        t.see(b"\x1b\\[\\?1049h")
        t.see(b"file.txt")
        t.send("ihello from vim\x1b")
        t.see(b"hello from vim")
        t.send("\x1a")
        t.see(b"\x1b\\[\\?1049l")  # the shell gets its own screen back
        t.see("Stopped")
        t.see(PROMPT)
        assert t.modes() == before
        t.setwinsize(20, 60)
        t.line("fg")
        t.see(b"\x1b\\[\\?1049h")
        t.see(b"hello from vim")
        t.send(":echo &lines &columns\n")
        t.see("20 60")
        t.send(":wq\n")
        t.see(b"\x1b\\[\\?1049l")
        t.see(PROMPT)
        assert t.modes() == before
        assert w.read(f"{t.cwd_inside}/file.txt").startswith(b"hello from vim\n")


def test_d3_less_scrolls_searches_and_follows_the_size(w):
    need("less", "less")
    t = weir(w, "--", "sh", "-c", "seq 1000 >/tmp/n; exec less /tmp/n")
    with t:
        t.see(b"\r\n32\r\n")
        t.send(" ")
        t.see(b"\r\n64\r\n")
        t.send("/777\n")
        t.see("777")
        t.send("G")
        t.see(b"1000\r\n")
        t.setwinsize(10, 80)
        t.see(b"977\r\n:")
        t.send("g")
        t.see(b"M9\r\n.*M1\r\n")
        t.send("q")
        assert t.end() == 0


def test_d3_top_shows_the_sandbox_alone(w):
    need("top", "procps")
    with weir(w, "--", "top", "-d", "0.3") as t:
        t.see("Tasks:")
        t.see("COMMAND")
        t.see(b" top ")
        t.send("q")
        assert t.end() == 0


def test_d3_the_python_repl(w):
    with weir(w, "--", PYTHON, "-q", env={"TERM": "xterm"}) as t:
        t.see(">>> ")
        t.line("import os; os.get_terminal_size()")
        t.see("columns=101, lines=33")
        t.see(">>> ")
        t.send("6*7\x1b[D\x1b[D\x1b[D10+\n")  # arrows: readline has the keys raw
        t.see(b"\r\n52\r\n")
        t.line("import time; print('sleep' + 'ing'); time.sleep(100)")
        t.see("sleeping")
        t.send("\x03")
        t.see("KeyboardInterrupt")
        t.see(">>> ")
        t.line("raise SystemExit(7)")  # ^D after an interrupt gives 130, without weir too
        assert t.end() == 7


@pytest.mark.clients
def test_d3_tmux_runs_inside_and_is_left_without_a_trace(w):
    need("tmux", "tmux")
    with weir(w, "--", "tmux", "-f", "/dev/null", "new-session", "sh") as t:
        t.see(b"\x1b\\[\\?1049h")
        t.see(b"\\[0\\] 0:sh")
        t.line("tty; echo size=$(stty size)")
        t.see("/dev/pts/1")
        t.see("size=32 101")
        t.setwinsize(20, 70)
        t.see(b"\\[0\\] 0:sh")
        t.line("echo size=$(stty size)")
        t.see("size=19 70")
        t.send("\x02d")
        t.see(b"detached")
        assert t.end() == 0
    w.assert_clean()


# ---- what must stay out ----

def test_a4_no_key_can_be_pushed_into_the_terminal_inside_nor_the_users_found(w):
    with Shell(w) as t:
        t.script("x.py", """
import ctypes, errno, fcntl, os, termios
libc = ctypes.CDLL(None, use_errno=True)
got = []
for fd in (0, os.open('/dev/tty', os.O_RDWR), os.open('/dev/pts/0', os.O_RDWR)):
    for n in (termios.TIOCSTI, termios.TIOCSTI | 1 << 40):
        r = libc.ioctl(fd, ctypes.c_ulong(n), b'x')
        got.append(errno.errorcode[ctypes.get_errno()] if r < 0 else 'PUSHED')
print(sorted(set(got)), sorted(os.listdir('/dev/pts')))
""")
        t.line(f"w {PYTHON} x.py")
        t.see(b"\\['EPERM'\\] \\['0', 'ptmx'\\]\r\n")
        t.see(PROMPT)


def test_the_modes_inside_are_not_the_modes_outside(w):
    with Shell(w) as t:
        before = t.modes()
        t.do("w sh -c 'stty -echo -icanon intr undef erase ^H; stty rows 5 cols 5'")
        assert t.modes() == before
        assert t.do("stty size").strip() == b"33 101"


# ---- --tty ----

def test_tty_always_makes_one_where_there_is_none(w):
    r = w.run("-q", "--tty", "always", "--", "sh", "-c", "read x; tty; stty size; cat; "
              "echo $x; tty <&2", stdin=b"typed\n")
    assert r.status == 0 and r.err == b"", r
    assert r.out.replace(b"\r", b"") == b"typed\n/dev/pts/0\n24 80\ntyped\n/dev/pts/0\n", r
    r = w.run("-q", "--tty", "always", "--", "sh", "-c", "cat | wc -c", stdin=b"no end of line")
    assert r.out == b"no end of line14\r\n", r


def test_without_a_terminal_everything_passes_and_nothing_is_relayed(w):
    code = ("import os; print([os.isatty(n) for n in (0, 1, 2)], [os.readlink(f'/proc/self/fd/{n}') "
            "for n in (0, 1, 2)], os.path.exists('/dev/pts/0'))")
    with w.spawn("run", "-q", "--preset", "none", "--", PYTHON, "-c", code) as r:
        mine = [os.readlink(f"/proc/self/fd/{f.fileno()}") for f in (r.p.stdin, r.p.stdout, r.p.stderr)]
        done = r.finish()
    assert done.text == f"[False, False, False] {mine} False\n", (done, mine)


def test_d1_sigpipe_is_natural(w):
    argv = w.enter(w.project()) + ["/bin/sh", "-c", f"{BIN} run -q --preset none cat </dev/zero | "
                                   "head -c 1000000000 | wc -c; echo ${PIPESTATUS:-}"]
    p = subprocess.run(argv, capture_output=True, timeout=60, check=False,
                       env=w.env(f"{w.home}/.local/state-pipe"))
    assert p.stdout.split()[0] == b"1000000000" and p.stderr == b"", p
    r = w.sh(f"exec 3>&1; {{ {BIN} run -q --preset none -- cat /dev/zero; echo $? >&3; }} | "
             "head -c 100000 >/dev/null")
    assert r.stdout.strip() == b"141", r


# ---- signals ----

@pytest.mark.parametrize("tty", [False, True])
@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "WINCH"])
def test_signals_reach_the_commands_group(w, name, tty):
    t = ["--", "/bin/bash", "-c", f"trap 'echo got; exit 9' {name}; sleep 100 & echo up; wait"]
    signo = getattr(signal, "SIG" + name)
    if tty:
        with weir(w, *t) as p:
            p.see("up")
            os.kill(wait_weir(w), signo)
            p.see("got")
            assert p.end() == 9
        return
    with w.spawn("run", "-q", "--preset", "none", *t) as r:
        assert r.readline() == b"up\n"
        os.kill(r.pid, signo)
        assert r.readline() == b"got\n"
        assert r.finish().status == 9


def test_sigtstp_stops_command_and_weir_and_sigcont_lets_both_go_on(w):
    with w.spawn("run", "-q", "--preset", "none", "--", PYTHON, "-c",
                 "import sys, time\nfor i in range(10000): print(i, flush=True); time.sleep(.01)",
                 preexec_fn=os.setpgrp) as r:	# no SIGTSTP stops an orphaned group, as the tests' may be
        assert r.readline() == b"0\n"
        procs = r.procs(network=False)
        os.kill(r.pid, signal.SIGTSTP)
        for p in (procs.cmd, r.pid):
            wait_until(lambda p=p: stat_of(p)["state"] == "T", 10, f"{p} stopped")
        assert alive(procs.shim)
        os.kill(r.pid, signal.SIGCONT)
        for p in (procs.cmd, r.pid):
            wait_until(lambda p=p: stat_of(p)["state"] != "T", 10, f"{p} going on")
        os.kill(r.pid, signal.SIGINT)
        assert r.finish().status == 130


def test_a_command_that_stops_itself_stops_weir_only_where_it_has_the_terminal(w):
    with w.spawn("run", "-q", "--preset", "none", "--", "sh", "-c",
                 "echo up; kill -STOP $$; echo on; exit 3") as r:
        assert r.readline() == b"up\n"
        procs = r.procs(network=False)
        wait_until(lambda: stat_of(procs.cmd)["state"] == "T", 10, "the command stopped")
        assert stat_of(r.pid)["state"] != "T"
        os.kill(r.pid, signal.SIGCONT)
        assert r.readline() == b"on\n"
        assert r.finish().status == 3


def test_a_stopped_command_ends_with_weir(w):
    with weir(w, "--", "sh", "-c", "echo up; kill -STOP $$") as t:
        t.see("up")
        pid = wait_weir(w)
        procs = Procs(pid, network=False)
        wait_until(lambda: stat_of(procs.cmd)["state"] == "T", 10, "the command stopped")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(alive(p) for p in procs.all()), 10, "the end of the sandbox")
    w.assert_clean()
