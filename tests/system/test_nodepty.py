# SPDX-License-Identifier: ISC
"""weir shell in terminals that node-pty itself opens, as VS Code and other editors on Electron do.

Of the npm registry (tests/npm.sh), so that only the nightly tests have it; test_shell.py and test_ide.py do
with a pseudo-terminal what it does."""
import base64
import json
import os
import re
import shutil
import signal
import subprocess
import threading

import pytest

from test_ide import block, profile
from test_shell import INTEGRATION
from world import BIN, BUILD, HERE, need

pytestmark = [pytest.mark.clients, pytest.mark.nightly]
NPM = BUILD / "npm"
SIGNALS = {"SIGHUP": 1, "SIGTERM": 15}


class Ide:
    """A node with node-pty, and its terminals"""

    def __init__(self, w):
        need("node", "nodejs")
        module = NPM / "node_modules" / "node-pty"
        assert (module / "build/Release/pty.node").exists(), \
            f"node-pty is missing: sh tests/npm.sh {NPM}"
        at = w.path("/srv/node-pty")
        shutil.copytree(module / "lib", at / "lib")
        (at / "build/Release").mkdir(parents=True)
        shutil.copy(module / "build/Release/pty.node", at / "build/Release/pty.node")
        shutil.copy(module / "package.json", at / "package.json")
        shutil.copy(HERE / "nodepty.js", w.path("/srv/nodepty.js"))
        self.w, self.n, self.terminals, self.cond = w, 0, {}, threading.Condition()
        self.p = subprocess.Popen(w.enter() + ["node", "/srv/nodepty.js", "/srv/node-pty"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  env=w.env(f"{w.home}/.local/state"))
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.p.stdout:
            o = json.loads(line)
            t = self.terminals[o["id"]]
            with self.cond:
                if "data" in o:
                    t.got += base64.b64decode(o["data"])
                    t.all += len(base64.b64decode(o["data"]))
                else:
                    t.told.update(o)
                self.cond.notify_all()

    def tell(self, **o):
        self.p.stdin.write(json.dumps(o).encode() + b"\n")
        self.p.stdin.flush()

    def open(self, argv, cwd=None, cols=80, rows=24, flow=False, **env):
        t = Term(self)
        more = {"SHELL": "/bin/bash", "TERM_PROGRAM": "vscode", "COLORTERM": "truecolor", **env}
        self.tell(verb="spawn", id=t.id, file=argv[0], args=argv[1:], cols=cols, rows=rows, flow=flow,
                  cwd=cwd or self.w.project(),
                  env=self.w.env(f"{self.w.home}/.local/state-{t.id}", **more))
        return t

    def close(self):
        self.p.kill()
        self.p.wait()


class Term:
    def __init__(self, ide):
        ide.n += 1
        self.ide, self.id, self.got, self.all, self.told = ide, ide.n, b"", 0, {}
        ide.terminals[self.id] = self

    def wait(self, what, text, seconds=30):
        with self.ide.cond:
            assert self.ide.cond.wait_for(what, seconds), (text, self.got[-2000:], self.told)

    def until(self, pattern, seconds=30):
        self.wait(lambda: re.search(pattern, self.got, re.S), pattern, seconds)
        with self.ide.cond:
            m = re.search(pattern, self.got, re.S)
            self.got = self.got[m.end():]
        return m

    def type(self, data):
        self.ide.tell(verb="write", id=self.id, data=base64.b64encode(data).decode())

    def do(self, verb, **more):
        self.ide.tell(verb=verb, id=self.id, **more)

    def end(self):
        """(exit status, signal) as node-pty tells them"""
        self.wait(lambda: "exit" in self.told, "the end")
        return self.told["exit"], self.told["signal"]


@pytest.fixture
def ide(fresh):
    os.symlink(BIN, fresh.path("/srv/bin/weir"))
    fresh.extra_env = {"PATH": "/srv/bin:/usr/local/bin:/usr/bin:/bin"}
    i = Ide(fresh)
    yield i
    i.close()
    fresh.assert_clean()


def weir(name="weir"):
    return profile(block("settings"), name)


def test_several_terminals_have_their_sizes_their_marks_and_their_ends(ide):
    a, b, c = (ide.open(weir(), cols=80 + n, rows=24 + n) for n in range(3))
    for n, t in enumerate((a, b, c)):
        t.until(rb"\(weir\) ")
        t.type(b"stty size; echo $TERM $COLORTERM $TERM_PROGRAM\r")
        t.until(rb"%d %d\r\nxterm-256color truecolor vscode\r\n" % (24 + n, 80 + n))
    for cols, rows in ((132, 50), (20, 5), (500, 200)):
        a.do("resize", cols=cols, rows=rows)
        a.type(b"stty size\r")
        a.until(rb"[\r\n]%d %d\r\n" % (rows, cols))
    b.type(b"stty size\r")
    b.until(rb"[\r\n]25 81\r\n")
    a.type(b"exit 3\r")
    assert a.end() == (3, 0)
    b.type(b"kill -TERM $$; kill -KILL $$\r")
    assert b.end() == (137, 0)
    c.type(b"echo still here\r")
    c.until(rb"\rstill here\r\n")
    c.do("kill")    # as the editor closes a terminal
    status, sig = c.end()
    assert sig == SIGNALS["SIGHUP"] or status == 128 + SIGNALS["SIGHUP"], (status, sig)


def test_marks_of_shell_integration_are_whole_and_keys_are_the_programs(ide):
    cwd = ide.w.project()
    ide.w.write(f"{cwd}/integration.sh", INTEGRATION)
    t = ide.open(weir(), cwd)
    t.until(rb"\(weir\) ")
    t.type(b". ./integration.sh\r")
    t.until(rb"\(weir\) .{0,8}\x1b\]633;A\x07\$ \x1b\]633;B\x07")
    for n in range(50):
        t.type(f"echo h\u00e4llo {n}\r".encode())
        t.until(f"\x1b]633;E;echo h\u00e4llo {n}\x07\x1b]633;C\x07h\u00e4llo {n}\r\n".encode().replace(b"]", rb"\]"))
        t.until(rb"\x1b\]633;A\x07\$ \x1b\]633;B\x07")
    t.type(b"cat -v\r")
    t.until(rb"633;C\x07")
    t.type(b"\x1b[A\x1bOP\x1b[200~pasted\x1b[201~\r")
    t.until(rb"\^\[\[A\^\[OP\^\[\[200~pasted\^\[\[201~\r\n\^\[\[A\^\[OP\^\[\[200~pasted")
    t.type(b"\x03")
    t.until(rb"\^C")
    t.until(rb"633;A\x07")
    t.type(b"exit 0\r")
    assert t.end() == (0, 0)


def test_flow_control_and_a_paused_reader_lose_nothing(ide):
    """handleFlowControl: XOFF and XON are the editor's, and the program does not see them"""
    t = ide.open(weir(), flow=True)
    t.until(rb"\(weir\) ")
    t.type(b"stty -echo; PS1=; PROMPT_COMMAND=\r")
    t.type(b"echo ready$((1 + 1))\r")
    t.until(rb"ready2\r\n")
    before = t.all
    t.type(b"seq 1 400000; echo done$((2 + 2))\r")
    t.wait(lambda: t.all > before + 100000, "the beginning")
    t.type(b"\x13")    # node-pty stops reading
    t.type(b"\x11")
    t.do("pause")
    t.do("resume")
    t.wait(lambda: b"done4" in t.got, "the end", 90)
    data, _, _ = t.got.partition(b"done4")
    data = re.sub(rb"\x1b\[\?2004[hl]\r?", b"", data)    # readline's own
    assert data.replace(b"\r\n", b"\n").lstrip() == "".join(f"{n}\n" for n in range(1, 400001)).encode()
    t.type(b"exit 5\r")
    assert t.end() == (5, 0)


def test_an_editor_that_is_killed_leaves_no_terminal(ide):
    for line in (b"sleep 1000\r", b"sleep 1000 & echo on$((1 + 1))\r", b"yes\r", b"trap '' HUP; echo on2; sleep 1000\r"):
        t = ide.open(weir())
        t.until(rb"\(weir\) ")
        t.type(line)
        t.until(rb"y\r\ny\r\n" if line[:1] == b"y" else rb"on2" if b"on" in line else rb"sleep 1000")
    os.kill(ide.p.pid, signal.SIGKILL)
    ide.p.wait()
    ide.w.assert_clean(30)
