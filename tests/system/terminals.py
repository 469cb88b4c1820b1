# SPDX-License-Identifier: ISC
"""tests/system/terminals.py - weir on a terminal: a pseudo-terminal of the test, or a shell with job
control on one, as a person would have it."""
import fcntl
import os
import re
import select
import termios

import pexpect

from world import BIN, SLOW, alive, cmdline, descendants, stat_of, wait_until

PROMPT = "outer> "
INNER = "inner> "
TIOCGPTPEER = 0x5441


class Terminal(pexpect.spawn):
    """A program of the world's user on a terminal of its own, 33 lines of 101 columns"""

    def __init__(self, world, *argv, env=None, cwd=None, prefix=(), **kw):
        self.world = world
        self.cwd_inside = cwd or world.project()
        more = {"TERM": "xterm", "PS1": PROMPT, **(env or {})}
        world._state += 1
        full = world.enter(self.cwd_inside) + list(prefix) + list(argv)
        super().__init__(full[0], [str(a) for a in full[1:]],
                         env=world.env(f"{world.home}/.local/state-{world._state}", **more),
                         timeout=15 * SLOW, dimensions=(33, 101), **kw)
        self.delaybeforesend = None

    def see(self, text):
        """Wait for bytes; a regular expression as bytes"""
        self.expect(text if isinstance(text, bytes) else re.escape(text).encode())
        return self.match

    def line(self, text):
        self.send(text + "\n")

    def script(self, name, text):
        """A file in the working directory: what it prints is not in the echo of the line that runs it"""
        self.world.write(f"{self.cwd_inside}/{name}", text)

    def end(self):
        """Wait for the end: the exit status, 128+N"""
        self.expect(pexpect.EOF)
        self.close()
        return self.exitstatus if self.exitstatus is not None else 128 + self.signalstatus

    def raw(self):
        """Wait until weir has set the modes, not the shell: what is typed before that is echoed by this
        terminal as well, and in whose modes is chance"""
        wait_until(lambda: not termios.tcgetattr(self.child_fd)[3] & termios.ISIG, 10, "raw mode")

    def taken(self):
        """Wait until everything that was typed has been read, by weir or who reads this terminal"""
        inner = fcntl.ioctl(self.child_fd, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            wait_until(lambda: not select.select([inner], [], [], 0)[0], 10, "the keys read")
        finally:
            os.close(inner)

    def __exit__(self, *a):
        mine = descendants(self.pid)
        self.close(force=True)
        # else the next test could take one of them for its own
        wait_until(lambda: not any(alive(p) for p in mine), 10, "the end of what ran on the terminal")


def weir(world, *args, **kw):
    """`weir run ARGS` on a terminal"""
    return Terminal(world, BIN, "run", "-q", "--preset", "none", *args, **kw)


class Shell(Terminal):
    """An interactive bash with job control, outside any sandbox"""

    def __init__(self, world, **kw):
        super().__init__(world, "/bin/bash", "--norc", "--noprofile", "-i", **kw)
        self.see(PROMPT)
        self.do("bind 'set enable-bracketed-paste off'")
        self.do(f"alias w='{BIN} run -q --preset none --'")

    def do(self, text):
        """Run a line; what it printed"""
        self.line(text)
        self.see(b"\r\n")
        self.see(PROMPT)
        return self.before

    def fg(self, shown, raw=True):
        """Bring the job back. Its keys may be typed when the job has the terminal, which the shell gives
        it after it said so, and when weir has set the modes"""
        shell = os.tcgetpgrp(self.child_fd)
        self.line("fg")
        self.see(shown)
        wait_until(lambda: os.tcgetpgrp(self.child_fd) != shell, 10, "the job in the foreground")
        if raw:
            self.raw()

    def modes(self):
        return self.do("stty -g").strip()


def weirs(world):
    """Monitors of the world's user below this process: an ordinary user's worlds share his number"""
    def mine(p):
        try:
            return os.stat(f"/proc/{p}").st_uid == world.uid
        except OSError:
            return False
    return [p for p in descendants(os.getpid()) if cmdline(p).startswith(BIN) and mine(p) and alive(p)]


def wait_weir(world):
    """The pid of the one weir that runs"""
    return wait_until(lambda: [p for p in weirs(world)
                               if cmdline(p).startswith(BIN) and not _is_child(p)], 10, "weir")[0]


def _is_child(pid):
    s = stat_of(pid)
    return s is None or cmdline(s["ppid"]).startswith(BIN)
