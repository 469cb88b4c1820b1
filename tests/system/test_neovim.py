# SPDX-License-Identifier: ISC
"""Neovim with the lines of docs/ide.md, driven over its own RPC: terminals, and a language server."""
import json
import os
import signal
import subprocess

import pytest

from test_ide import BLOCKS
from world import BIN, PYTHON, need, wait_until

pytestmark = pytest.mark.clients

SERVER = r'''
import json, os, sys
def message():
    n = 0
    for line in sys.stdin.buffer:
        if not line.strip():
            return json.loads(sys.stdin.buffer.read(n))
        if line.lower().startswith(b"content-length:"):
            n = int(line.split(b":")[1])
while True:
    m = message()
    if m is None:
        break
    if m.get("method") == "exit":
        break
    if "id" in m:
        told = {"capabilities": {}, "serverInfo": {"name": "toy", "version": os.environ.get("WEIR", "0")}}
        data = json.dumps({"jsonrpc": "2.0", "id": m["id"],
                           "result": told if m["method"] == "initialize" else None}).encode()
        sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        sys.stdout.buffer.flush()
'''


class Nvim:
    """A headless Neovim of the world's user"""

    def __init__(self, w):
        need("nvim", "neovim")
        w.write(f"{w.home}/weir.vim", BLOCKS["vim run"])
        self.w, self.cwd = w, w.project()
        self.at = f"{w.home}/nvim.sock"
        self.env = w.env(f"{w.home}/.local/state", SHELL="/bin/bash", TERM="xterm-256color")
        self.p = subprocess.Popen(
            w.enter(self.cwd) + ["nvim", "--headless", "--clean", "--listen", self.at, "-S",
                                 f"{w.home}/weir.vim"],
            env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: os.path.exists(w.path(self.at)), 20, "Neovim's socket")

    def __enter__(self):
        return self

    def __exit__(self, *a):
        self.p.kill()
        self.p.wait()

    def expr(self, text):
        """The value of an expression of Vim's"""
        r = subprocess.run(self.w.enter(self.cwd) + ["nvim", "--server", self.at, "--remote-expr",
                                                     f"json_encode({text})"],
                           env=self.env, capture_output=True, check=False, timeout=30,
                           stdin=subprocess.DEVNULL)
        out = r.stdout + r.stderr
        assert r.returncode == 0, (text, out)
        return json.loads(out)

    def do(self, line):
        return self.expr(f"execute('{line}')")

    def text(self, buffer):
        return "\n".join(self.expr(f"getbufline({buffer}, 1, '$')"))

    def see(self, buffer, what):
        wait_until(lambda: what in self.text(buffer), 30, f"'{what}'")

    def open(self, words=""):
        """A terminal in a window of its own; its buffer"""
        self.do("new")
        self.do(f"Weir {words}")
        n = self.expr("bufnr()")
        self.see(n, "(weir) ")
        return n

    def type(self, buffer, line):
        self.expr(f'chansend(getbufvar({buffer}, "terminal_job_id"), "{line}\\r")')


@pytest.fixture
def w(fresh):
    os.symlink(BIN, fresh.path("/srv/bin/weir"))
    fresh.extra_env = {"PATH": "/srv/bin:/usr/bin:/bin"}
    return fresh


def test_terminals_of_neovim_are_sandboxes_of_their_own(w):
    with Nvim(w) as v:
        a, b = v.open(), v.open("--network deny")
        for n, proxy in ((a, "http://127.0.0.1:3128"), (b, "none")):
            v.type(n, "echo in=$WEIR, proxy=${HTTPS_PROXY-none}")
            v.see(n, f"in=1, proxy={proxy}")
        v.type(a, "touch /tmp/of-a; echo made=$?")
        v.see(a, "made=0")
        v.type(b, "test -e /tmp/of-a; echo there=$?")
        v.see(b, "there=1")
        # a window that is resized is a terminal that is
        for rows in (7, 11):
            v.do(f"call win_execute(bufwinid({b}), \"resize {rows}\")")
            v.type(b, f"until [ $(stty size | cut -d' ' -f1) = {rows} ]; do read -t 0.1; done; echo now=$(({rows} + 100))")
            v.see(b, f"now={rows + 100}")
        v.type(a, "exit 3")
        v.see(a, "[Process exited 3]")
        v.type(b, "kill -9 $$")
        v.see(b, "[Process exited 137]")
    w.assert_clean()


def test_a_terminal_that_is_closed_and_a_neovim_that_is_killed_leave_nothing(w):
    with Nvim(w) as v:
        a, b = v.open(), v.open()
        v.type(a, "sleep 600 & echo bg=$((1 + 1))")
        v.see(a, "bg=2")
        v.do(f"bwipeout! {a}")
        v.type(b, "echo still=$((2 + 2))")
        v.see(b, "still=4")
        v.type(b, "sleep 600")
        wait_until(lambda: any("sleep 600" in line for _, _, line in w.leftovers()), 20, "sleep")
        v.p.send_signal(signal.SIGKILL)
    w.assert_clean()


def test_a_language_server_of_neovim_speaks_through_weir_run(w):
    with Nvim(w) as v:
        w.write(f"{v.cwd}/toy.py", SERVER)
        cmd = ["weir", "run", "-q", "--", PYTHON, "toy.py"]
        lua = (f"(function() told = nil; vim.lsp.start_client({{cmd = {{{', '.join(repr(c) for c in cmd)}}}, "
               "on_init = function(_, r) told = r.serverInfo end}); return 1 end)()")
        v.expr('luaeval("' + lua.replace('"', '\\"') + '")')
        wait_until(lambda: v.expr('luaeval("told or vim.NIL")'), 30, "the server's answer")
        assert v.expr('luaeval("told")') == {"name": "toy", "version": "1"}
        v.p.send_signal(signal.SIGTERM)
        v.p.wait(20)
    w.assert_clean()
