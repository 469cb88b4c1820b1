# SPDX-License-Identifier: ISC
"""A notebook page in headless Chromium, driven by the DevTools protocol over a pair of pipes: a cell
runs, is refused with the line to type, and then succeeds in the same kernel."""
import json
import os
import subprocess
import time

import pytest

from world import need, wait_until

pytestmark = [pytest.mark.clients, pytest.mark.nightly]
F = "files.example.com"
CELL = f"""
import os, urllib.request as u
try:
    print(u.urlopen('http://{F}/x').read().decode(), os.getpid())
except Exception as e:
    print(e, os.getpid())
"""


class Page:
    """One page of a Chromium of the world's user"""

    def __init__(self, w, url):
        need("chromium", "chromium")
        r, self.out = os.pipe()
        self.inp, t = os.pipe()
        line = ("exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage "
                f"--user-data-dir={w.home}/chromium --remote-debugging-pipe 3<&{r} 4>&{t}")
        self.p = subprocess.Popen(w.enter(w.project()) + ["/bin/bash", "-c", line], pass_fds=[r, t],
                                  env=w.env(f"{w.home}/.local/state"), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(r)
        os.close(t)
        self.n, self.buf, self.session = 0, b"", {}
        target = self.call("Target.createTarget", url=url)["targetId"]
        self.session = {"sessionId": self.call("Target.attachToTarget", targetId=target,
                                               flatten=True)["sessionId"]}

    def call(self, method, **params):
        self.n += 1
        os.write(self.out, json.dumps({"id": self.n, "method": method, "params": params,
                                       **self.session}).encode() + b"\0")
        while True:
            while b"\0" not in self.buf:
                d = os.read(self.inp, 65536)
                assert d, "Chromium has ended"
                self.buf += d
            one, _, self.buf = self.buf.partition(b"\0")
            o = json.loads(one)
            if o.get("id") == self.n:
                assert "error" not in o, o
                return o["result"]

    def value(self, text):
        return self.call("Runtime.evaluate", expression=text, returnByValue=True)["result"].get("value")

    def until(self, text, seconds=60):
        """Wait for a value that counts as true; pages announce nothing that fits"""
        end = time.monotonic() + seconds
        while True:
            v = self.value(text)
            if v:
                return v
            assert time.monotonic() < end, (text, self.value("document.body.innerText"))
            time.sleep(0.1)

    def close(self):
        self.p.terminate()
        self.p.wait(60)
        os.close(self.out)
        os.close(self.inp)


def test_a_page_shows_the_refusal_and_then_the_success(fresh):
    need("jupyter-notebook", "jupyter-notebook")
    w = fresh
    w.weir("kernelspec", "add", "w", "--from", "python3", "--preset", "none").ok()
    w.files = w.http("93.184.216.37", 80, "files")
    cwd, log = w.project(), w.write(f"{w.home}/server.log", "")
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [],
            "source": CELL.strip()}
    w.write(f"{cwd}/n.ipynb", json.dumps({
        "nbformat": 4, "nbformat_minor": 4, "cells": [cell],
        "metadata": {"kernelspec": {"name": "w", "display_name": "w", "language": "python"}}}))
    p = subprocess.Popen(
        w.enter(cwd) + ["/bin/sh", "-c", "exec jupyter-notebook --no-browser --port 8898 "
                        f"--ip 127.0.0.1 --NotebookApp.token=t >{log} 2>&1"],
        env=w.env(f"{w.home}/.local/state"), stdin=subprocess.DEVNULL)
    page = None
    try:
        wait_until(lambda: b"is running at" in w.read(log), 60, "the notebook server")
        page = Page(w, "http://127.0.0.1:8898/notebooks/n.ipynb?token=t")
        page.until("window.Jupyter && Jupyter.notebook && Jupyter.notebook.kernel && "
                   "Jupyter.notebook.kernel.is_connected()")

        def run():
            page.value("Jupyter.notebook.get_cell(0).clear_output(); Jupyter.notebook.get_cell(0).execute()")
            return page.until("(document.querySelector('.output_text, .output_stream') || {}).innerText")
        refused = run()
        assert f"weir allow {F}" in refused, refused
        pid = refused.split()[-1]
        w.weir("allow", F, state=f"{w.home}/.local/state").ok()
        wait_until(lambda: run().split() == ["files", "/x", pid], 20, "the cell's success")
    finally:
        if page:
            page.close()
        p.terminate()
        p.wait(60)
    w.assert_clean()
