# SPDX-License-Identifier: ISC
"""tests/system/test_shell.py - weir shell: what an IDE opens as its terminal."""
import fcntl
import os
import re
import select
import struct
import termios

import pytest

from terminals import Terminal
from world import BIN, cmdline, descendants, need, wait_until


@pytest.fixture(scope="module")
def w(world):
    return world


def shell(w, *args, env=None, **kw):
    return Terminal(w, BIN, "shell", "-q", "--preset", "none", *args,
                    env={"PS1": None, **(env or {})}, **kw)


@pytest.mark.parametrize("which", ["/bin/bash", "/bin/sh"])
def test_it_is_the_persons_login_shell_with_a_mark_in_its_prompt(w, which):
    with shell(w, env={"SHELL": which}) as t:
        t.see("(weir) ")
        t.line("echo is=$SHELL, $((1 + 1))")
        t.see(f"is={which}, 2")
        t.see("(weir) ")
        if which.endswith("bash"):
            t.line("shopt login_shell")
            t.see(b"login_shell +.*\ton")
        t.line("exit 4")
        assert t.end() == 4


@pytest.mark.clients
@pytest.mark.parametrize("which, package", [("zsh", "zsh"), ("fish", "fish"), ("ksh", "ksh")])
def test_other_shells_are_marked_too(w, which, package):
    path = need(which, package)
    with shell(w, env={"SHELL": path}) as t:
        t.see("(weir) ")
        t.line("echo $((40 + 2))" if which != "fish" else "math 40 + 2")
        t.see("42")
        t.see("(weir) ")
        t.line("exit 4")
        assert t.end() == 4


@pytest.mark.parametrize("how", ["option", "policy", "other"])
def test_the_mark_can_be_left_out_or_be_another_one(w, how):
    words = {"option": ["--env", "WEIR_PROMPT="], "other": ["--env", "WEIR_PROMPT=[in] "],
             "policy": ["-p", w.write(f"{w.home}/p.policy", "env set WEIR_PROMPT=\n")]}[how]
    with shell(w, *words, env={"SHELL": "/bin/bash"}) as t:
        t.see(b"\\[in\\] .*\\$ " if how == "other" else b"\\$ ")
        assert b"(weir)" not in t.before
        t.line("exit 0")
        assert t.end() == 0


def test_arguments_are_the_shells(w):
    r = w.weir("shell", "-q", "--preset", "none", "--", "-c", "echo $0 $1; shopt -q login_shell", "a",
               "b", env={"SHELL": "/bin/bash"})
    assert (r.status, r.text) == (0, "a b\n"), r


@pytest.mark.parametrize("case", ["invisible", "missing"])
def test_a_shell_that_is_not_inside_is_replaced_and_that_is_said(w, case):
    there = "/srv/odd/myshell"
    if case == "invisible":
        w.write(there, "#!/bin/sh\nexit 9\n", 0o755, root=True)
    else:
        there = "/srv/odd/none"
    r = w.weir("shell", "--preset", "none", "--", "-c", "echo in $SHELL $WEIR",
               env={"SHELL": there})
    assert r.status == 0 and r.text == "in /bin/bash 1\n", r
    assert there in r.errtext and "'/bin/bash' is started instead" in r.errtext, r
    assert ("not visible inside" in r.errtext and f"-r {there}" in r.errtext) == \
        (case == "invisible"), r


def test_start_up_files_come_along_unless_they_hold_a_secret(w):
    w.write(f"{w.home}/.bashrc", "alias greet='echo hello from rc'\n")
    w.write(f"{w.home}/.bash_profile", ". ~/.bashrc\n")
    try:
        r = w.weir("shell", "-q", "--preset", "none", "--", "-ic", "greet",
                   env={"SHELL": "/bin/bash"})
        assert "hello from rc" in r.text, r
        r = w.run("-q", "--", "ls", "-a", w.home)
        assert ".bashrc" not in r.text, r
        w.write(f"{w.home}/.bashrc", "alias greet='echo hello from rc'\nexport MY_TOKEN=abc\n")
        r = w.weir("shell", "-v", "--preset", "none", "--", "-ic", "greet",
                   env={"SHELL": "/bin/bash"})
        assert "hello from rc" not in r.text and ".bashrc" in r.errtext, r
    finally:
        for f in (".bashrc", ".bash_profile"):
            w.path(f"{w.home}/{f}").unlink()


# ---- as VS Code starts it ----

class NodePty:
    """What node-pty's UnixTerminal does (no Debian package of it exists): openpty with cols and rows,
    termios of its own with IUTF8, then a child that leads a session on it, with signals at their defaults
    and no descriptor above 2, and execvp; the master is non-blocking. Resize by TIOCSWINSZ."""

    def __init__(self, argv, env, cols, rows):
        self.fd, slave = os.openpty()
        m = termios.tcgetattr(slave)
        m[0] = termios.ICRNL | termios.IXON | termios.IXANY | termios.IMAXBEL | termios.BRKINT | \
            0x4000  # IUTF8
        m[1] = termios.OPOST | termios.ONLCR
        m[2] = termios.CREAD | termios.CS8 | termios.HUPCL
        m[3] = termios.ICANON | termios.ISIG | termios.IEXTEN | termios.ECHO | termios.ECHOE | \
            termios.ECHOK | termios.ECHOKE | termios.ECHOCTL
        termios.tcsetattr(slave, termios.TCSANOW, m)
        self.resize(cols, rows)
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for i in range(3):
                os.dup2(slave, i)
            os.closerange(3, 256)
            os.execvpe(argv[0], argv, env)
        os.close(slave)
        os.set_blocking(self.fd, False)
        self.got = b""

    def resize(self, cols, rows):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def resized(self, cols, rows):
        """Wait until the terminal inside has the new size too: a signal tells weir of it"""
        self.resize(cols, rows)

        def told():
            self.write(b"stty size\r")
            return self.until(rb"(\d+ \d+)\r\n")[1] == b"%d %d" % (rows, cols)
        wait_until(told, 10, f"{rows} rows of {cols} columns")

    def write(self, data):
        os.write(self.fd, data)

    def until(self, what):
        def look():
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.got += os.read(self.fd, 65536)
                except OSError:  # EIO: it has ended
                    pass
            return re.search(what, self.got)
        m = wait_until(look, 15, f"{what!r} in the terminal's output")
        self.got = self.got[m.end():]
        return m


INTEGRATION = """
__a() { printf '\\033]633;A\\007'; }
__b() { printf '\\033]633;B\\007'; }
PS1='\\[$(__a)\\]$ \\[$(__b)\\]'
trap 'printf "\\033]633;E;%s\\007\\033]633;C\\007" "$BASH_COMMAND"' DEBUG
"""


def test_spawned_as_node_pty_does_it_with_shell_integration(w):
    w._state += 1
    env = w.env(f"{w.home}/.local/state-{w._state}", SHELL="/bin/bash", TERM="xterm-256color",
                COLORTERM="truecolor", TERM_PROGRAM="vscode", TERM_PROGRAM_VERSION="1.90.0")
    cwd = w.project()
    w.write(f"{cwd}/integration.sh", INTEGRATION)
    argv = w.enter(cwd) + [BIN, "shell", "-q", "--preset", "none"]
    t = NodePty(argv, env, 80, 24)
    try:
        t.until(rb"\(weir\) ")
        t.write(b"stty size; echo $TERM_PROGRAM $COLORTERM\r")
        t.until(rb"24 80\r\nvscode truecolor\r\n")
        t.write(b". ./integration.sh\r")
        # VS Code reads these marks: none may be missing, changed or split from its text
        t.until(rb"\(weir\) .{0,8}\x1b\]633;A\x07\$ \x1b\]633;B\x07")
        t.write(b"echo h\xc3\xa4llo\r")
        t.until(rb"\x1b\]633;E;echo h\xc3\xa4llo\x07\x1b\]633;C\x07h\xc3\xa4llo\r\n")
        t.resized(132, 50)
        t.write(b"sleep 100\r")
        t.until(rb"633;E;sleep 100\x07\x1b\]633;C\x07")
        wait_until(lambda: any(cmdline(p) == "sleep 100" for p in descendants(t.pid)), 10, "sleep")
        t.write(b"\x03")
        t.until(rb"\^C")
        t.write(b"exit 6\r")
        _, status = os.waitpid(t.pid, 0)
        t.pid = 0
        assert os.waitstatus_to_exitcode(status) == 6
    finally:
        os.close(t.fd)
        if t.pid:
            os.waitpid(t.pid, 0)
    w.assert_clean()
