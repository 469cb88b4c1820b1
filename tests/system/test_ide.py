# SPDX-License-Identifier: ISC
"""docs/ide.md: each block of it, as an IDE would use it."""
import json
import os
import re
import socket
import subprocess

import pytest

from terminals import Terminal
from test_shell import INTEGRATION, NodePty
from world import BIN, PYTHON, ROOT, need, wait_until

PAGE = (ROOT / "docs" / "ide.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```(.+?)\n(.*?)^```$", PAGE, re.M | re.S))
MARKS = {"json settings", "sh bashrc", "text policy", "json tasks", "json debug", "text debuggee",
         "json launch", "json devcontainer", "text terminal", "vim run"}
SERVER = ".vscode-server/bin/0123abcd/out/vs/workbench/contrib/terminal/common/scripts"


@pytest.fixture
def w(fresh):
    os.symlink(BIN, fresh.path("/srv/bin/weir"))
    fresh.extra_env = {"PATH": "/srv/bin:/usr/bin:/bin"}
    return fresh


def block(kind):
    return json.loads(BLOCKS[f"json {kind}"])


def profile(text, name):
    p = text["terminal.integrated.profiles.linux"][name]
    return [p["path"], *p["args"]]


class Ide:
    """A terminal that an IDE opened"""

    def __init__(self, w, argv, cwd=None):
        w._state += 1
        env = w.env(f"{w.home}/.local/state-{w._state}", SHELL="/bin/bash", TERM="xterm-256color",
                    COLORTERM="truecolor", TERM_PROGRAM="vscode")
        self.t = NodePty(w.enter(cwd or w.project()) + argv, env, 90, 30)

    def __enter__(self):
        return self.t

    def __exit__(self, *a):
        os.close(self.t.fd)
        if self.t.pid:
            os.waitpid(self.t.pid, 0)


def ended(t):
    _, status = os.waitpid(t.pid, 0)
    t.pid = 0
    return os.waitstatus_to_exitcode(status)


def test_every_block_of_the_page_is_known_here():
    assert set(BLOCKS) == MARKS
    assert len(re.findall(r"^```", PAGE, re.M)) == 2 * len(MARKS), "no two of one kind"


def test_profiles_open_several_terminals_with_size_and_exit_status(w):
    s = block("settings")
    assert s["terminal.integrated.defaultProfile.linux"] in s["terminal.integrated.profiles.linux"]
    with Ide(w, profile(s, "weir")) as a, Ide(w, profile(s, "weir, no network")) as b:
        for t, route in ((a, rb"http://127.0.0.1:3128"), (b, rb"none")):
            t.until(rb"\(weir\) ")
            t.write(b"stty size; echo proxy ${HTTPS_PROXY-none}\r")
            t.until(rb"30 90\r\nproxy " + route + rb"\r\n")
        a.resized(120, 40)
        a.write(b"touch /tmp/of-a && echo ma''de\r")
        a.until(rb"\rmade\r\n")
        b.write(b"stty size; ls /tmp/of-a\r")
        b.until(rb"30 90\r\n.*No such file")
        a.write(b"exit 3\r")
        assert ended(a) == 3
        b.write(b"echo still here\r")
        b.until(rb"\rstill here\r\n")
        b.write(b"exit 0\r")
        assert ended(b) == 0
    w.assert_clean()


def test_shell_integration_of_a_server_needs_the_line_of_the_page(w):
    w.write(f"{w.home}/.bashrc", "PS1='$ '\n" + BLOCKS["sh bashrc"])
    w.write(f"{w.home}/.bash_profile", ". ~/.bashrc\n")
    w.write(f"{w.home}/{SERVER}/shellIntegration-bash.sh", INTEGRATION)
    w.write(f"{w.home}/.vscode-server/data/token", "secret")
    argv = profile(block("settings"), "weir")
    with Ide(w, argv) as t:
        t.until(rb"\(weir\) ")
        t.write(b"echo none\r")
        t.until(rb"\rnone\r\n")
        assert b"\x1b]633" not in t.got
        t.write(b"exit 0\r")
        assert ended(t) == 0
    with Ide(w, [*argv[:1], "run", "--", "bash", "--init-file",
                 f"{w.home}/{SERVER}/shellIntegration-bash.sh"]) as t:
        t.until(rb"\$ ")
        t.write(b"echo none\r")
        t.until(rb"\rnone\r\n")
        assert b"\x1b]633" not in t.got
        t.write(b"exit 0\r")
        assert ended(t) == 0
    path = w.write(f"{w.home}/.config/weir/policy", BLOCKS["text policy"])
    w.weir("policy", "check", path).ok()
    with Ide(w, argv) as t:
        t.until(rb"\x1b\]633;A\x07\$ \x1b\]633;B\x07")
        t.write(b"echo marked; ls -A ~/.vscode-server\r")
        t.until(rb"\x1b\]633;E;echo marked\x07\x1b\]633;C\x07marked\r\n")
        t.until(rb"\x1b\]633;C\x07bin\r\n")
        t.write(b"exit 0\r")
        assert ended(t) == 0
    w.assert_clean()


def test_task_of_the_page_runs_make_without_network(w):
    task = block("tasks")["tasks"][0]
    assert task["type"] == "process"
    cwd = w.project()
    w.write(f"{cwd}/Makefile", "test:\n\t@echo $${HTTPS_PROXY-no proxy}; exit 4\n")
    need("make", "make")
    r = subprocess.run(w.enter(cwd) + [task["command"], *task["args"]], capture_output=True,
                       env=w.env(f"{w.home}/.local/state"), check=False, timeout=100)
    assert b"no proxy" in r.stdout and r.returncode == 2, r
    assert b"Error 4" in r.stderr, r


def attach(w, port):
    """The first request of a debugger's client (Debug Adapter Protocol)"""
    body = json.dumps({"seq": 1, "type": "request", "command": "initialize",
                       "arguments": {"adapterID": "test"}}).encode()
    s = w.make("host", socket.AF_INET, socket.SOCK_STREAM)
    s.settimeout(60)
    got = b""
    try:
        s.connect(("127.0.0.1", port))
        s.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        while b"supportsConfigurationDoneRequest" not in got:
            d = s.recv(65536)
            if not d:
                return b""
            got += d
    except OSError:
        return b""
    finally:
        s.close()
    return got


@pytest.mark.clients
def test_debugger_is_reached_on_the_port_that_is_published(w):
    assert subprocess.run([PYTHON, "-c", "import debugpy"], capture_output=True,
                          check=False).returncode == 0, \
        "debugpy is missing: apt-get install -y python3-debugpy"
    port = block("launch")["configurations"][0]["connect"]["port"]
    argv = profile(block("debug"), "weir, debug")
    assert str(port) in argv and f" {port} " in BLOCKS["text debuggee"]
    cwd = w.project()
    w.write(f"{cwd}/app.py", "print(6 * 7)\n")
    with Ide(w, argv, cwd) as t:
        t.until(rb"\(weir\) ")
        t.write(BLOCKS["text debuggee"].strip().encode() + b"\r")
        wait_until(lambda: attach(w, port), 30, "the debugger's answer")
        t.write(b"\x03")
        t.until(rb"\(weir\) ")
        t.write(b"exit 0\r")
        ended(t)
    w.assert_clean()


def test_devcontainer_names_what_doctor_names():
    source = (ROOT / "sandbox" / "machine.c").read_text(encoding="utf-8")
    words = block("devcontainer")["runArgs"]
    assert set(words[::2]) == {"--security-opt"}
    for option in words[1::2]:
        assert f"--security-opt {option}" in source, option


def test_terminal_line_of_jetbrains(w):
    with Ide(w, BLOCKS["text terminal"].split()) as t:
        t.until(rb"\(weir\) ")
        t.write(b"exit 5\r")
        assert ended(t) == 5


def test_command_of_vim_opens_a_sandbox(w):
    need("vim", "vim")
    w.write(f"{w.home}/weir.vim", BLOCKS["vim run"])
    with Terminal(w, "/usr/bin/vim", "-N", "-u", "NONE", "-S", f"{w.home}/weir.vim", "-c",
                  "Weir --network deny", env={"SHELL": "/bin/bash", "PS1": None}) as t:
        t.see("(weir) ")
        t.send("echo in $WEIR ${HTTPS_PROXY-none}\r")
        t.see("in 1 none")
        t.send("exit\r")
        t.see("finished")
        t.send(":qa!\r")
        t.end()
    w.assert_clean()
