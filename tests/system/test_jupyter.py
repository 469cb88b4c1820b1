# SPDX-License-Identifier: ISC
"""Debian's own Jupyter with kernels that weir run starts: what a notebook does to a kernel, a crash of
every part, and what the person sees of a refusal."""
import json
import os
import re
import signal
import socket
import subprocess

import pytest

import kernels
from test_clients import wheel
from world import BIN, PYTHON, ROOT, alive, children, cmdline, descendants, need, wait_until

pytestmark = pytest.mark.clients
A, F = "allowed.example.org", "files.example.com"


@pytest.fixture(scope="module")
def net(world):
    """The kernelspec "w", as the page says, and an index whose files are at a second host"""
    world.weir("kernelspec", "add", "w", "--from", "python3", "--preset", "none", "--allow", A).ok()
    ctx = world.trust(A, F)
    world.web = world.http("93.184.216.34", 443, "index", tls=ctx)
    world.files = world.http("93.184.216.37", 443, "files", tls=ctx)
    file, data = wheel()
    page = f'<!DOCTYPE html><a href="https://{F}/{file}">{file}</a>'
    world.web.routes["/simple/weirtestpkg/"] = (
        f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\n\r\n"
        f"{page}").encode()
    world.files.routes[f"/{file}"] = data
    return world


@pytest.fixture
def j(net):
    """A front end; at its end nothing of it and of its kernels is left"""
    with kernels.client(net) as client:
        yield client
        client.p.stdin.close()
        client.p.wait(60)
    net.assert_clean()


def ok(j, code, wait=120):
    """Run a cell; what it printed"""
    status, text, last = j.py("result = k.run(cell, wait)", cell=code, wait=wait, timeout=wait + 20)
    assert status == "ok", f"{text}\n{last}"
    return text


def begin(j, name="w"):
    j.py(f"k = Kernel('{name}')", timeout=90)


def test_execute_interrupt_restart_and_shutdown(net, j):
    begin(j)
    assert ok(j, "x = 41\nprint(x + 1)") == "42\n"
    for mode in ("signal", "message"):
        status, _, last = j.py("""
            s = k.send("import time\\nprint('on')\\ntime.sleep(60)")
            k.busy(s); k.interrupt(mode); result = k.outcome(s)
        """, mode=mode)
        assert (status, last) == ("error", "KeyboardInterrupt: ")
        assert ok(j, "print(x)") == "41\n", "the variables are there after an interrupt"
    before = j.py("result = k.weir")
    for _ in range(2):
        j.py("k.restart()", timeout=90)
        assert ok(j, "print('x' in globals())") == "False\n"
    assert j.py("result = k.weir") != before
    j.py("k.end()")
    starts = [r for r in j.audit if r["event"] == "exit"]
    assert len(starts) == 3 and {r["name"] for r in starts} == {"w"}, starts


@pytest.mark.nightly
def test_twenty_restarts(net, j):
    begin(j)
    for i in range(20):
        j.py(f"k.m.restart_kernel(now={bool(i % 2)}); k.c.stop_channels(); k.connect()", timeout=90)
        assert ok(j, "print(1)") == "1\n"
    j.py("k.end()")
    assert len([r for r in j.audit if r["event"] == "start"]) == 21


def test_stdin_comms_and_much_output(net, j):
    begin(j)
    assert j.py("""
        s = k.send("print('hello ' + input('who? '))", allow_stdin=True)
        q = k.c.get_stdin_msg(timeout=120)
        k.c.input("weir")
        result = q["content"]["prompt"], k.outcome(s)
    """) == ("who? ", ("ok", "hello weir\n", ""))

    ok(j, "def back(comm, m):\n    comm.send({'got': m['content']['data']})\n"
          "def took(comm, m):\n    comm.on_msg(lambda m: comm.send({'got': m['content']['data']}))\n"
          "get_ipython().kernel.comm_manager.register_target('t', took)")
    assert j.py("""
        def comm(kind, **content):
            k.c.shell_channel.send(k.c.session.msg(kind, dict(comm_id='c1', **content)))
        comm('comm_open', target_name='t', data={})
        comm('comm_msg', data={'n': 7})
        while True:
            m = k.c.get_iopub_msg(timeout=120)
            if m['msg_type'] == 'comm_msg':
                break
        result = m['content']['data']
    """) == {"got": {"n": 7}}

    # 50 MB in one cell, in pieces of 1 MB: none is missing
    j.py("""
        s = k.send("import sys\\nfor i in range(50):\\n"
                   "    sys.stdout.write(chr(65 + i % 26) * 1000000); sys.stdout.flush()")
        status, text, last = k.outcome(s, 120)
        assert status == 'ok' and len(text) == 50000000, (status, len(text), last)
        for i in range(50):
            assert text[i * 1000000:(i + 1) * 1000000] == chr(65 + i % 26) * 1000000
    """, timeout=150)
    j.py("k.end()")


def test_a_kernel_that_crashes_is_one_that_ended(net, j):
    for code, status in (("import os; os._exit(7)", 7),
                         ("import ctypes; ctypes.string_at(0)", 128 + signal.SIGSEGV)):
        begin(j)
        assert j.py("""
            k.send(cell); k.dies(); result = k.m.provisioner.process.returncode
        """, cell=code) == status
        # as the server's restarter does it
        j.py("k.m.restart_kernel(now=True); k.c.stop_channels(); k.connect()", timeout=90)
        assert ok(j, "print(2)") == "2\n"
        j.py("k.end()")


@pytest.mark.parametrize("victim", ["weir", "kernel"])
def test_kill_9_of_either_leaves_nothing(net, j, victim):
    begin(j)
    monitor = j.py("result = k.weir")
    inner = [p for p in descendants(monitor) if "ipykernel" in cmdline(p) and
             cmdline(p).startswith("/usr/bin/python3")]
    assert inner, "the kernel is one of weir's"
    os.kill(monitor if victim == "weir" else inner[-1], signal.SIGKILL)
    j.py("k.dies()")
    wait_until(lambda: not any(alive(p) for p in inner), 10, "the kernel's end")
    j.py("k.m.restart_kernel(now=True); k.c.stop_channels(); k.connect()", timeout=90)
    assert ok(j, "print(3)") == "3\n"
    j.py("k.end(now=True)")


def test_two_kernels_at_once_do_not_meet(net, j):
    begin(j)
    j.py("k2 = Kernel('w')", timeout=90)
    ok(j, "open('/tmp/mine', 'w').write('1')\nx = 1")
    port = j.py("result = k.m.shell_port")
    code = ("import os, socket\nprint(os.path.exists('/tmp/mine'), 'x' in globals(), "
            f"socket.socket().connect_ex(('127.0.0.1', {port})))")
    assert j.py("result = k2.run(cell)", cell=code) == ("ok", "False False 111\n", "")
    assert ok(j, code) == "True True 0\n", "and its own port it does reach"
    j.py("k.end(); k2.end()")


PIP = ("%pip install --disable-pip-version-check --no-cache-dir --retries 0 --target out "
       f"--cert /etc/ssl/certs/ca-certificates.crt -i https://{A}/simple weirtestpkg")


def test_a_refusal_is_in_the_cell_and_allow_needs_no_restart(net, j):
    begin(j)
    pid = ok(j, "import os; x = 5; print(os.getpid())")
    text = ok(j, PIP)
    assert "Tunnel connection failed: 403" in text and f"weir allow {F}" in text, text
    line = re.search(rf"weir allow {re.escape(F)}\S*", text).group(0).rstrip("'\")")
    r = net.weir(*line.split()[1:], state=j.state)
    assert r.status == 0, r
    try:
        def installed():
            return "Successfully installed weirtestpkg" in ok(j, PIP)
        wait_until(installed, 20, "the policy to be read again")
        assert ok(j, "import sys; sys.path.insert(0, 'out'); import weirtestpkg\n"
                     "print(weirtestpkg.answer, os.getpid(), x)") == f"42 {pid.strip()} 5\n"
        j.py("k.end()")
    finally:
        net.weir("forget", F).ok()


def test_caches_and_the_working_directory(net, j):
    assert subprocess.run([PYTHON, "-c", "import matplotlib"], capture_output=True,
                          check=False).returncode == 0, \
        "matplotlib is missing: apt-get install -y python3-matplotlib"
    made = []
    for _ in range(2):
        begin(j)
        text = ok(j, "import os, glob, matplotlib; matplotlib.use('agg')\n"
                     "import matplotlib.pyplot as p\n"
                     "f = glob.glob(os.path.expanduser('~/.cache/matplotlib/fontlist*'))\n"
                     "p.plot([1, 2]); p.savefig('out.png')\n"
                     "print(os.getcwd(), os.stat(f[0]).st_mtime_ns)", 120)
        cwd, when = text.split()
        assert cwd == j.cwd, "the kernel's directory is the notebook's"
        made.append(when)
        j.py("k.end()")
    assert made[0] == made[1], "the second start finds the font cache of the first"
    assert net.read(f"{j.cwd}/out.png").startswith(b"\x89PNG")
    assert not os.path.exists(net.path(f"{net.home}/.cache/matplotlib"))


def test_nbclient_runs_a_notebook(net):
    need("jupyter-execute", "python3-nbclient")
    cwd = net.project()
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    net.write(f"{cwd}/n.ipynb", json.dumps(
        {"nbformat": 4, "nbformat_minor": 4, "cells": [
            cell | {"source": ["import os; open('result', 'w').write(os.environ['WEIR'])"]}],
         "metadata": {"kernelspec": {"name": "w", "display_name": "w", "language": "python"}}}))
    r = net.sh("jupyter-execute n.ipynb", cwd=cwd)
    assert r.returncode == 0, r.stderr.decode()
    assert net.read(f"{cwd}/result") == b"1"
    net.assert_clean()


def poller(j, seconds):
    begin(j)
    code = ("import os, threading\nprint(os.getppid(), os.environ['JPY_PARENT_PID'], "
            "any('Parent' in type(t).__name__ for t in threading.enumerate()))")
    assert ok(j, code) == "2 2 True\n", "ipykernel's poller of its parent is at work"
    # it looks every second, and ends the kernel when its parent is 1 (or, newer ones, another)
    assert ok(j, f"import time; time.sleep({seconds}); print('on')", seconds + 30) == "on\n"
    assert j.py("result = k.m.is_alive()")
    j.py("k.end()")


def test_the_kernel_outlives_the_poller_of_its_parent(net, j):
    poller(j, 3)


@pytest.mark.nightly
def test_the_kernel_outlives_its_first_minute(net, j):
    poller(j, 65)


def api(net, server, path, data=None):
    """One request to the notebook server, which is in the world's network"""
    s = net.make("host", socket.AF_INET, socket.SOCK_STREAM)
    s.settimeout(60)
    s.connect(("127.0.0.1", server))
    body = b"" if data is None else json.dumps(data).encode()
    s.sendall((f"{'GET' if data is None else 'POST'} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
               f"Authorization: token t\r\nContent-Type: application/json\r\n"
               f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n").encode() + body)
    got = b""
    while True:
        d = s.recv(65536)
        if not d:
            break
        got += d
    s.close()
    head, _, text = got.partition(b"\r\n\r\n")
    assert head.split(b" ")[1][:1] == b"2", got
    return json.loads(text)


def test_no_orphan_when_the_notebook_server_is_killed(net):
    need("jupyter-notebook", "jupyter-notebook")
    cwd, log = net.project(), net.write(f"{net.home}/server.log", "")
    p = subprocess.Popen(
        net.enter(cwd) + ["/bin/sh", "-c", f"exec jupyter-notebook --no-browser --port 8899 "
                          f"--ip 127.0.0.1 --NotebookApp.token=t >{log} 2>&1"],
        env=net.env(f"{net.home}/.local/state"), stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: b"is running at" in net.read(log), 60, "the notebook server")
        assert "w" in api(net, 8899, "/api/kernelspecs")["kernelspecs"]
        api(net, 8899, "/api/kernels", {"name": "w"})
        # nsenter and setpriv have become the server
        weir = wait_until(lambda: [k for k in children(p.pid) if "/srv/weir" in cmdline(k)], 30,
                          "the kernel's weir")
        wait_until(lambda: any("ipykernel" in cmdline(k) and "weir" not in cmdline(k)
                               for k in descendants(weir[0])), 30, "the kernel")
    finally:
        p.kill()
        p.wait()
    wait_until(lambda: not net.leftovers(), 30, "everything to end with the server")


def test_the_example_provisioner_starts_any_kernelspec_in_a_sandbox(net):
    """docs/examples/provisioner.py, by jupyter-client's own provisioning interface"""
    d = net.mkdir(f"{net.home}/plugin")
    net.write(f"{d}/provisioner.py", (ROOT / "docs/examples/provisioner.py").read_bytes())
    net.write(f"{d}/weir_example-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: weir-example\n"
              "Version: 1\n")
    net.write(f"{d}/weir_example-1.dist-info/entry_points.txt",
              "[jupyter_client.kernel_provisioners]\nweir = provisioner:Weir\n")
    net.write(f"{net.home}/.local/share/jupyter/kernels/prov/kernel.json", json.dumps(
        {"argv": [PYTHON, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
         "display_name": "Some Kernel", "language": "python",
         "env": {"FROM_SPEC": "it is ${HOME}", "XDG_CONFIG_HOME": "/nowhere"},
         "metadata": {"kernel_provisioner": {"provisioner_name": "weir", "config": {
             "program": BIN, "options": ["--preset", "none", "--allow", A]}}}}))
    with kernels.client(net, env={"PYTHONPATH": d, "XDG_CONFIG_HOME": f"{net.home}/.config"}) as j:
        begin(j, "prov")
        assert ok(j, "import os; print(os.environ['WEIR_SANDBOX'], os.environ['FROM_SPEC'])") == \
            j.py("result = k.m.provisioner.sandbox['id']") + f" it is {net.home}\n"
        told = j.py("result = k.m.provisioner.sandbox")
        assert told["name"] == "somekernel" and len(told["ports"]) == 5
        assert j.py("result = sorted(p['port'] for p in k.m.provisioner.sandbox['ports']) == "
                    "sorted(k.m.ports)")
        env = open(f"/proc/{j.py('result = k.weir')}/environ", "rb").read().split(b"\0")
        assert b"XDG_CONFIG_HOME=/nowhere" not in env, "weir's own policy is the user's"
        assert any(e.startswith(b"XDG_CONFIG_HOME=") for e in env)
        j.py("k.m.restart_kernel(now=True); k.c.stop_channels(); k.connect()", timeout=90)
        assert j.py("result = k.m.provisioner.sandbox['id']") != told["id"]
        j.py("k.end()")
        j.p.stdin.close()
        j.p.wait(60)
    net.assert_clean()


def test_the_kernel_of_r(net, j):
    need("R", "r-base-core")
    assert os.path.exists("/usr/share/jupyter/kernels/ir"), \
        "IRkernel is missing: apt-get install -y r-cran-irkernel"
    net.weir("kernelspec", "add", "irw", "--from", "ir", "--preset", "none").ok()
    begin(j, "irw")
    assert ok(j, "x <- 41; cat(x + 1)") == "42"
    status, _, _ = j.py("""
        s = k.send("cat('on'); flush.console(); Sys.sleep(60)"); k.busy(s)
        k.interrupt(); result = k.outcome(s)
    """)
    assert status in ("error", "aborted", "abort") and ok(j, "cat(x)") == "41"
    j.py("k.end()")
