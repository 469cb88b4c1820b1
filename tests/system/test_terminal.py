# SPDX-License-Identifier: ISC
"""tests/system/test_terminal.py - a true terminal inside: D3, A12, SPEC section 6 "Terminal"."""
import os
import signal
import time

import pytest

from terminals import INNER, PROMPT, Shell, Terminal, wait_weir, weir
from world import BIN, PYTHON, Procs, alive, all_pids, cmdline, need, stat_of, wait_until

# the prompt is not in the echo of the line that asks for it
INNER_BASH = f"{BIN} run -q --preset none --env PS1=inn'er> ' -- bash --norc --noprofile -i"
BASH = ["/bin/bash", "--norc", "--noprofile", "-i"]


@pytest.fixture(scope="module")
def w(world):
    return world


def inner(world, **kw):
    """An interactive bash inside"""
    t = weir(world, "--env", f"PS1={INNER}", "--", *BASH, **kw)
    t.see(INNER)
    t.line("bind 'set enable-bracketed-paste off'")
    t.see(INNER)
    return t


# ---- what it is ----

def test_d3_name_size_and_modes_are_there_from_the_start(w):
    with weir(w, "--", "sh", "-c", "tty; stty size; stty -a | grep -o ' icrnl'; tty <&2; "
              "echo x >/dev/tty") as t:
        t.see(b"/dev/pts/0\r\n33 101\r\n icrnl\r\n/dev/pts/0\r\nx\r\n")
        assert t.end() == 0


def test_d3_the_command_is_a_job_in_the_foreground_of_its_own_session(w):
    code = ("import os; t = os.tcgetpgrp(0); print(t == os.getpgrp() == os.getpid(), "
            "os.getsid(0) != os.getpid(), os.ttyname(0), os.isatty(1), os.isatty(2))")
    with weir(w, "--", PYTHON, "-c", code) as t:
        t.see("True True /dev/pts/0 True True")
        assert t.end() == 0


@pytest.mark.parametrize("how, status", [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143),
                                         ("kill -9 $$", 137)])
def test_d1_exit_status(w, how, status):
    with weir(w, "--", "sh", "-c", how) as t:
        assert t.end() == status


def test_d1_a_command_that_is_not_there_is_told_in_whole_lines(w):
    with weir(w, "--", "/no/such/thing") as t:
        t.see(b"weir: '/no/such/thing' not found\r\n")
        assert t.end() == 127


def test_no_byte_is_lost_at_the_end(w):
    with weir(w, "--", PYTHON, "-c",
              "import os\nfor i in range(20000): os.write(1, b'%06d\\n' % i)") as t:
        got = t.read()
        assert got == b"".join(b"%06d\r\n" % i for i in range(20000))
        assert t.end() == 0


def test_every_byte_passes_both_ways(w):
    code = """if True:
        import os, sys, tty
        tty.setraw(0)
        os.write(1, b'go')
        got = b''
        while len(got) < 256 * 64: got += os.read(0, 65536)
        os.write(1, got)
        os.read(0, 1)
        """
    data = bytes(range(256)) * 64
    with weir(w, "--", PYTHON, "-c", code) as t:
        t.see("go")
        for i in range(0, len(data), 1024):
            t.send(data[i:i + 1024])
        got = b""
        while len(got) < len(data):
            got += t.read_nonblocking(65536, 60)
        assert got == data
        t.send("x")
        assert t.end() == 0


def test_what_a_terminal_is_told_passes_unchanged(w):
    """Window title, colours, shell integration marks, an image: no byte is judged"""
    what = (b"\x1b]0;title\x07\x1b]2;t\xc3\xaftle\x1b\\\x1b]633;A\x07\x1b]133;C\x07\x1b[31mred\x1b[m"
            b"\x1bP0;1;0q\"1;1;1;1#0~\x1b\\\xff\xfe")
    with weir(w, "--", PYTHON, "-c", f"import os; os.write(1, {what!r})") as t:
        assert t.read() == what
        assert t.end() == 0


# ---- job control ----

def test_d3_job_control_inside(w):
    with inner(w) as t:
        t.line("sleep 100")
        wait_until(lambda: b"sleep" in fg_inside(w), 10, "sleep in the foreground")
        t.send("\x1a")
        t.see(b"Stopped +sleep 100")
        t.see(INNER)
        t.line("bg; fg")
        t.see(b"sleep 100 &.*sleep 100")
        wait_until(lambda: fg_inside(w) == b"sleep 100", 10, "sleep in the foreground again")
        t.send("\x03")
        t.see(b"\\^C")
        t.see(INNER)
        t.line("stty tostop; (echo from the back) & until jobs >/tmp/j; grep -q Stop''ped /tmp/j; do sleep 0.1; "
               "done; cat /tmp/j; stty -tostop; wait")
        t.see(b"Stopped.*echo from the back")
        t.line("fg")
        t.see(b"from the back\r\n")
        t.see(INNER)
        t.line("exit 5")
        assert t.end() == 5


def fg_inside(world):
    """The command lines of the foreground group inside"""
    p = Procs(wait_weir(world), network=False)
    with open(f"/proc/{p.cmd}/stat", encoding="latin-1") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    group = int(fields[5])
    return b" ".join(cmdline(q).encode() for q in all_pids() if _group(q) == group)


def _group(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
            return int(f.read().rsplit(")", 1)[1].split()[2])
    except OSError:
        return None


def test_d3_interrupt_reaches_the_foreground_job_alone(w):
    with inner(w) as t:
        t.line("trap 'echo shell hit' INT; sleep 100; echo after=$?")
        wait_until(lambda: b"sleep" in fg_inside(w), 10, "sleep in the foreground")
        t.send("\x03")
        t.see("after=130")
        t.line("exit 0")
        assert t.end() == 0


def test_d3_resize_is_told_and_seen(w):
    with inner(w) as t:
        t.line("trap 'echo winch; stty size' WINCH")
        t.see(INNER)
        t.setwinsize(40, 120)

        def told():	# bash runs the trap when it has read a line, which may come before the signal
            t.line("")
            return t.expect([b"winch\r\n40 120", INNER.encode()]) == 0
        wait_until(told, 10, "the signal")
        t.line("exit 0")
        assert t.end() == 0


# ---- weir as a job ----

def test_d3_a_key_stops_weir_and_fg_goes_on_with_modes_and_size(w):
    with Shell(w) as t:
        before = t.modes()
        t.line("w cat -u")
        t.raw()
        t.line("one")
        t.see(b"one\r\none\r\n")
        t.send("\x1a")
        t.see(b"Stopped")
        t.see(PROMPT)
        assert t.modes() == before
        t.setwinsize(44, 99)
        t.fg(b"cat -u\r\n")
        t.line("two")
        t.see(b"two\r\ntwo\r\n")
        t.send("\x04")
        t.see(PROMPT)
        assert t.do("echo $?").strip() == b"0"
        assert t.modes() == before


def test_d3_sigtstp_to_weir_stops_it_although_the_command_ignores_it(w):
    with Shell(w) as t:
        before = t.modes()
        t.line(INNER_BASH)
        t.see(INNER)
        pid = wait_weir(w)
        os.kill(pid, signal.SIGTSTP)
        t.see(b"Stopped")
        t.see(PROMPT)
        assert t.modes() == before
        t.setwinsize(50, 90)
        t.fg(b"norc")
        t.line("stty size")
        t.see("50 90")
        t.line("exit 3")
        t.see(PROMPT)
        assert t.do("echo $?").strip() == b"3"
        assert t.modes() == before


def test_d3_sigstop_to_weir_and_fg_sets_raw_mode_again(w):
    with Shell(w) as t:
        t.line(INNER_BASH)
        t.see(INNER)
        os.kill(wait_weir(w), signal.SIGSTOP)
        t.see(b"Stopped")
        t.see(PROMPT)
        t.fg(b"norc")
        t.line("sleep 100")
        wait_until(lambda: b"sleep" in fg_inside(w), 10, "sleep in the foreground")
        t.send("\x03")
        t.see(INNER)
        t.line("exit 0")
        t.see(PROMPT)


def test_d3_suspend_inside_stops_weir(w):
    with Shell(w) as t:
        t.line(INNER_BASH)
        t.see(INNER)
        t.line("suspend -f")
        t.see(b"Stopped")
        t.see(PROMPT)
        t.fg(b"norc")
        t.line("echo $((40 + 2))")
        t.see("42")
        t.line("exit 0")
        t.see(PROMPT)


def test_a12_in_the_background_nothing_typed_is_read(w):
    with Shell(w) as t:
        before = t.modes()
        t.line("w cat &")
        t.see(PROMPT)
        t.line("echo typed $((1 + 1))")
        t.see("typed 2")
        t.see(PROMPT)
        wait_until(lambda: b"Stopped" in t.do("jobs"), 10, "the job stopped for want of input")
        assert t.modes() == before
        t.line("bg")
        wait_until(lambda: b"Stopped" in t.do("jobs"), 10, "the job stopped again")
        t.fg(b"cat\r\n")
        t.line("now")
        t.see(b"now\r\nnow\r\n")
        t.send("\x04")
        t.see(PROMPT)
        assert t.modes() == before


def test_a_job_sent_to_the_background_goes_on_and_comes_back(w):
    with Shell(w) as t:
        t.line("w sh -c 'while [ ! -e go ]; do sleep 0.1; done; echo first; read x; echo got $x'")
        wait_weir(w)
        t.send("\x1a")
        t.see("Stopped")
        t.see(PROMPT)
        t.line("bg")
        t.see(PROMPT)
        t.script("go", "")
        t.see(b"first\r\n")
        wait_until(lambda: b"Stopped" in t.do("jobs"), 10, "the job stopped for want of input")
        t.fg(b"sh -c")
        t.line("this")
        t.see(b"got this\r\n")
        t.see(PROMPT)
        # and without being stopped in between: an interrupt still reaches it
        t.line("w sleep 100 &")
        t.see(PROMPT)
        wait_weir(w)
        t.fg(b"sleep 100\r\n", raw=False)
        wait_until(lambda: Procs(wait_weir(w), network=False), 10)
        t.send("\x03")
        t.see(PROMPT)
        assert t.do("echo $?").strip() == b"130"


# ---- mixed ----

@pytest.mark.parametrize("started", ["by &", "by bg"])
def test_a_job_that_waits_without_reading_gets_the_keys_after_fg(w, started):
    """It was never stopped in the background, so the shell sends no SIGCONT"""
    with Shell(w) as t:
        t.script("s", "import select, sys\nprint('is up', flush=True)\nwhile True:\n"
                 "    select.select([0], [], [])\n    line = sys.stdin.readline().strip()\n"
                 "    print('got', line.upper(), flush=True)\n    if line == 'q': break\n")
        modes = t.modes()
        run = f"w {PYTHON} -u s"
        if started == "by &":
            t.line(run + " &")
            t.see("is up")
        else:
            t.line(run)
            t.see("is up")
            t.send("\x1a")
            t.see(PROMPT)
            t.do("bg")
        assert b"hello" in t.do("echo hello")	# typed at the shell, and its own
        assert b"Running" in t.do("jobs")
        assert t.modes() == modes
        t.fg(b"\r\n")
        for word in ("first", "second"):
            t.line(word)
            t.see(f"got {word.upper()}")
        t.send("\x1a")
        t.see(PROMPT)
        t.do("bg")
        t.send("fg\nq\n")	# typed ahead of the shell
        t.see("got Q")
        t.see(PROMPT)
        t.line("echo ov''er")
        t.see("over\r\n")
        t.see(PROMPT)
        assert t.modes() == modes


def test_a12_only_stderr_a_terminal_in_the_background(w):
    with Shell(w) as t:
        t.script("x.py", "import os, sys; print([os.isatty(n) for n in (0, 1, 2)], flush=True)\n"
                 "print('up', file=sys.stderr); os.read(2, 100)\n")
        t.line(f"w {PYTHON} x.py </dev/null >out &")
        t.see(b"up\r\n")
        t.line("echo typed $((1 + 1))")
        t.see("typed 2")
        t.see(PROMPT)
        assert w.read(f"{t.cwd_inside}/out") == b"[False, False, True]\n"
        t.do("kill %1; wait")


def test_a_command_in_a_pipe_leaves_the_keys_to_others_until_it_reads(w):
    with Shell(w) as t:
        before = t.modes()
        assert t.do("w echo hello | tr a-z A-Z").strip() == b"HELLO"
        t.line("w sh -c 'echo err >&2; cat' | tr a-z A-Z")
        t.see(b"\r\nerr\r\n")
        t.raw()
        t.line("typed")
        t.send("\x04")
        t.see(b"TYPED\r\n")
        t.see(PROMPT)
        assert t.modes() == before
        # who reads the terminal itself has it alone
        t.line("w seq 1000 | less")
        t.see(b"33?2?1?")
        t.send("G")
        t.see("1000")
        t.send("q")
        t.see(PROMPT)
        assert t.modes() == before


def test_output_to_a_file_input_from_the_terminal(w):
    with Shell(w) as t:
        t.line("w sh -c 'cat; tty >&2' >log")
        t.raw()
        t.line("kept")
        t.send("\x04")
        t.see(b"/dev/pts/0\r\n")
        t.see(PROMPT)
        assert w.read(f"{t.cwd_inside}/log") == b"kept\n"


# ---- programs ----

def test_a_password_is_not_shown(w):
    with Shell(w) as t:
        before = t.modes()
        t.script("x.py", "import getpass; print(len(getpass.getpass('pw? ')))\n")
        t.line(f"w {PYTHON} x.py")
        t.see("pw? ")
        t.line("sesame")
        t.see(b"6\r\n")
        assert b"sesame" not in t.before
        t.see(PROMPT)
        assert t.modes() == before


def test_d3_modes_are_restored_after_kill_9_of_the_command(w):
    with Shell(w) as t:
        before = t.modes()
        t.script("x.py", "import tty, time; tty.setraw(0); print('raw', flush=True); time.sleep(100)\n")
        t.line(f"w {PYTHON} x.py")
        t.see("raw")
        os.kill(Procs(wait_weir(w), network=False).cmd, signal.SIGKILL)
        t.see(PROMPT)
        assert t.do("echo $?").strip() == b"137"
        assert t.modes() == before


def test_d3_the_end_of_the_terminal_is_the_end_of_the_sandbox(w):
    t = inner(w)
    procs = Procs(wait_weir(w), network=False).all()
    t.close()
    wait_until(lambda: not any(alive(p) for p in procs), 10, "the end of the sandbox")
    w.assert_clean()


def test_flow_control_stops_the_command_not_weir(w):
    with weir(w, "--", "sh", "-c", "echo up; read x; i=0; while :; do echo $i; i=$((i+1)); "
              "sleep 0.01; done") as t:
        t.see(b"up\r\n")
        t.line("")
        t.see(b"5\r\n")
        t.send("\x13")
        last = [b""]

        def quiet():
            try:
                last[0] = t.read_nonblocking(65536, 0.3)
            except Exception:  # pylint: disable=broad-except
                return True
            return False
        wait_until(quiet, 10, "silence after ^S")
        t.send("\x11")
        t.see(b"\\d+\r\n")
        t.send("\x03")
        assert t.end() == 130


def test_output_without_end_does_not_keep_the_network_from_being_served(w):
    """the worker is started when nothing else is to be done, but output is nothing to wait for"""
    need("curl", "curl")
    w.http("93.184.216.34", 80, "allowed")
    with weir(w, "--allow", "allowed.example.org:80", "--", "sh", "-c",
              "yes & curl -sS -m 60 http://allowed.example.org/busy >got; kill $!; wait; cat got; echo '<'") as t:
        t.see("y\r\ny\r\ny")
        t.see("allowed /busy")
        assert t.end() == 0
