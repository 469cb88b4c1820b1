# SPDX-License-Identifier: ISC
"""tests/system/kernels.py - Debian's jupyter-client in the test world, outside any sandbox.

The client is a Python of the world's user, told what to do line by line (inside.py): CLIENT is the
vocabulary."""
import subprocess

from world import HERE, PYTHON, Inside

CLIENT = '''
import asyncio, json, os, queue, signal, sys, time
from jupyter_client.manager import KernelManager
from jupyter_client.kernelspec import KernelSpecManager


class Kernel:
    """A kernel as a notebook has it: started, asked, interrupted, restarted, ended"""

    def __init__(self, name, wait=120, **kw):
        self.m = KernelManager(kernel_name=name)
        self.m.start_kernel(stderr=open(os.environ["KERNEL_ERR"], "ab"), **kw)
        self.connect(wait)

    def connect(self, wait=120):
        self.c = self.m.client()
        self.c.start_channels()
        self.c.wait_for_ready(timeout=wait)

    @property
    def weir(self):
        return self.m.provisioner.process.pid

    def send(self, code, **kw):
        return self.c.execute(code, **kw)

    def outcome(self, sent, wait=120):
        """(status, what was printed and shown, the traceback's last line)"""
        text, last, end = [], "", time.monotonic() + wait
        while True:
            m = self.c.get_iopub_msg(timeout=max(0.1, end - time.monotonic()))
            if m["parent_header"].get("msg_id") != sent:
                continue
            kind, o = m["msg_type"], m["content"]
            if kind == "stream":
                text.append(o["text"])
            elif kind in ("execute_result", "display_data"):
                text.append(o["data"].get("text/plain", ""))
            elif kind == "error":
                last = o["ename"] + ": " + o["evalue"]
            elif kind == "status" and o["execution_state"] == "idle":
                break
        while True:
            r = self.c.get_shell_msg(timeout=max(0.1, end - time.monotonic()))
            if r["parent_header"].get("msg_id") == sent:
                return r["content"]["status"], "".join(text), last

    def run(self, code, wait=120):
        return self.outcome(self.send(code), wait)

    def interrupt(self, spec="signal"):
        self.m.kernel_spec.interrupt_mode = spec
        self.m.interrupt_kernel()

    def busy(self, sent):
        """Wait until the cell has printed something"""
        while True:
            m = self.c.get_iopub_msg(timeout=120)
            if m["parent_header"].get("msg_id") == sent and m["msg_type"] == "stream":
                return

    def restart(self):
        self.c.stop_channels()
        self.m.restart_kernel(now=False)
        self.connect()

    def dies(self, wait=60):
        """Wait for the end that the manager's restarter looks for"""
        end = time.monotonic() + wait
        while self.m.is_alive():
            assert time.monotonic() < end, "the kernel is still there"
            time.sleep(0.01)

    def end(self, now=False):
        self.c.stop_channels()
        self.m.shutdown_kernel(now=now)
'''


def client(world, cwd=None, env=None):
    """A Jupyter front end of the world's user: with client(world) as j: j.py("k = Kernel('python3')")"""
    for package, module in (("python3-jupyter-client", "jupyter_client"),
                            ("python3-ipykernel", "ipykernel")):
        r = subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False)
        assert r.returncode == 0, f"{module} is missing: apt-get install -y {package}"
    world._state += 1
    state = f"{world.home}/.local/state-{world._state}"
    cwd = cwd or world.project()
    err = world.write(f"{cwd}/kernel.err", "")
    text = (HERE / "inside.py").read_text(encoding="utf-8")
    p = subprocess.Popen(world.enter(cwd) + [PYTHON, "-u", "-c", CLIENT + text],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         env=world.env(state, KERNEL_ERR=err, **(env or {})))
    j = Inside(world, ["jupyter"], p, world.path(f"{state}/weir/audit.jsonl"))
    j.cwd, j.state, j.err = cwd, state, err
    return j
