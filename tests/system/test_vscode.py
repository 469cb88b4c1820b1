# SPDX-License-Identifier: ISC
"""VS Code with the settings of docs/ide.md: its own server and terminals (tests/npm.sh), its page in headless
Chromium."""
import json
import os
import shutil
import subprocess

import pytest

from test_ide import BLOCKS, SERVER, block
from test_notebook_page import Page
from world import BIN, BUILD, wait_until

pytestmark = [pytest.mark.clients, pytest.mark.nightly]
CODE = BUILD / "npm" / "code"
SCRIPT = "lib/vscode/out/vs/workbench/contrib/terminal/common/scripts/shellIntegration-bash.sh"
# of the terminal that is shown
ROWS = ("[...document.querySelectorAll('.xterm-rows')].filter(x => x.offsetParent).map(x => x.innerText)"
        ".join('\\n')")
MARKS = "document.querySelectorAll('.terminal-command-decoration.codicon-terminal-decoration-{}').length"


def sandboxes(w):
    return len(json.loads(w.weir("ps", "--json").ok().text))


class Editor(Page):
    """A page of VS Code: keys, and what its terminals show"""

    def __init__(self, w, url):
        super().__init__(w, url)
        self.w = w

    def key(self, key, code, number, modifiers=0, text=None):
        o = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown", **o, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **o)

    def terminal(self):
        """The keys of "Create New Terminal": Control, Shift and the one of the grave accent. A page that has
        just come up does not listen to them yet, and says nothing of it"""
        before = sandboxes(self.w)
        for _ in range(20):
            self.key("~", "Backquote", 192, 2 | 8)
            try:
                return wait_until(lambda: sandboxes(self.w) > before, 10)
            except AssertionError:
                pass
        raise AssertionError(self.value("document.body.innerText"))

    def type(self, line):
        self.call("Input.insertText", text=line)
        self.key("Enter", "Enter", 13, text="\r")

    def see(self, text):
        # the rows are cut at the width, and full of spaces that do not break
        return self.until(f"({ROWS}).replace(/[\\s\\u00a0]/g, '').includes({json.dumps(text)})")


@pytest.fixture
def w(fresh):
    os.symlink(BIN, fresh.path("/srv/bin/weir"))
    fresh.extra_env = {"PATH": "/srv/bin:/usr/local/bin:/usr/bin:/bin"}
    assert (CODE / "ready").exists(), f"VS Code's server is missing: sh tests/npm.sh {CODE.parent}"
    shutil.copytree(CODE, fresh.path("/srv/code"), symlinks=True)
    return fresh


def test_terminals_of_vs_code_are_sandboxes_with_its_marks(w):
    cwd = w.project()
    settings = block("settings")
    for p in settings["terminal.integrated.profiles.linux"].values():
        assert p["path"] == "weir"
        p["path"] = BIN    # VS Code asks a login shell for PATH, and this machine may have a weir
    settings |= {"terminal.integrated.gpuAcceleration": "off", "workbench.startupEditor": "none",
                 "terminal.integrated.tabs.enabled": False}
    w.write(f"{w.home}/.local/share/code-server/User/settings.json", json.dumps(settings))
    # the script of this very VS Code, where the page looks for it, and the page's line of the policy
    w.write(f"{w.home}/{SERVER}/shellIntegration-bash.sh",
            (CODE / "node_modules/code-server" / SCRIPT).read_bytes())
    w.write(f"{w.home}/.bashrc", "PS1='$ '\n" + BLOCKS["sh bashrc"])
    w.write(f"{w.home}/.bash_profile", ". ~/.bashrc\n")
    w.write(f"{w.home}/.config/weir/policy", BLOCKS["text policy"])
    log = w.write(f"{w.home}/code.log", "")
    p = subprocess.Popen(
        w.enter(cwd) + ["/bin/sh", "-c", "exec /srv/code/node /srv/code/node_modules/code-server/out/node/entry.js "
                        "--auth none --bind-addr 127.0.0.1:8123 --disable-telemetry --disable-update-check "
                        f"--disable-workspace-trust . >{log} 2>&1"],
        env=w.env(f"{w.home}/.local/state"), stdin=subprocess.DEVNULL)
    page = None
    try:
        wait_until(lambda: p.poll() is not None or b"HTTP server listening" in w.read(log), 90, "VS Code's server")
        assert p.poll() is None, w.read(log).decode()
        page = Editor(w, f"http://127.0.0.1:8123/?folder={cwd}")
        page.call("Emulation.setDeviceMetricsOverride", width=1200, height=900, deviceScaleFactor=1, mobile=False)
        page.until("!!document.querySelector('.monaco-workbench .explorer-folders-view')", 120)
        page.terminal()
        page.see("$")
        page.type("echo in=$WEIR,$TERM_PROGRAM,${HTTPS_PROXY##*/}; touch /tmp/first")
        page.see("in=1,vscode,127.0.0.1:3128")
        # VS Code itself draws these, from the marks: one for what worked, one for what did not
        page.until(MARKS.format("success") + " > 0")
        page.type("false")
        page.until(MARKS.format("error") + " > 0")
        page.type("stty size | tr ' ' x | sed s/^/is/")
        before = page.until(f"(({ROWS}).match(/is\\d+x(\\d+)/) || [])[1]")
        page.call("Emulation.setDeviceMetricsOverride", width=900, height=700, deviceScaleFactor=1, mobile=False)
        page.type(f"until [ $(stty size | cut -d' ' -f2) -lt {before} ]; do read -t 0.1; done; echo less=$((1 + 1))")
        page.see("less=2")
        page.terminal()
        page.until(f"({ROWS}).includes('$') && !({ROWS}).includes('less=2')")
        page.type("ls /tmp/first; echo there=$?")
        page.see("there=2")
        page.type("exit 3")
        page.until("document.body.innerText.includes('terminated with exit code: 3')")
    finally:
        if page:
            page.close()
        p.terminate()
        p.wait(30)
    # the terminals outlive a page, for it to come back, and end with the server that has them
    w.assert_clean(60)
