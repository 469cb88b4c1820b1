# SPDX-License-Identifier: ISC
"""weir kernelspec, and run --connection-file: what Jupyter starts, without Jupyter.

The kernels here are a few lines of Python on the five ports; test_jupyter.py has the real ones."""
import json
import os
import signal
import socket
import textwrap

import pytest

from test_policy_commands import check, schema
from world import BIN, wait_until

PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
KERNELS = ".local/share/jupyter/kernels"
# answers on every port with the port's name; tells what it saw of its file and its surroundings
KERNEL = textwrap.dedent("""
    import json, os, select, signal, socket, sys
    path = sys.argv[sys.argv.index('-f') + 1]
    info = json.load(open(path))
    os.remove(path)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), 'w') as f:
        json.dump(info | {'shell_port': 1, 'ip': '0.0.0.0'}, f)
    socks = {}
    for k, v in info.items():
        if k.endswith('_port'):
            s = socket.create_server((info['ip'], v)); socks[s] = k
    # a SIGINT between Python's look and select() would wait for a connection
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    print(json.dumps([os.getppid(), os.environ.get('JPY_PARENT_PID'),
                      os.environ.get('JPY_SESSION_NAME'), os.environ.get('KERNEL_SETTING')]),
          flush=True)
    while True:
        for s in select.select([woken, *socks], [], [])[0]:
            if s == woken: continue
            c, _ = s.accept(); c.sendall(socks[s].encode()); c.close()
""")


def spec(world, name, **more):
    d = world.mkdir(f"{world.home}/{KERNELS}/{name}")
    for up in (".local", ".local/share", ".local/share/jupyter", KERNELS):
        world.own(f"{world.home}/{up}")
    world.write(f"{world.home}/kernel.py", KERNEL)
    world.write(f"{d}/kernel.json", json.dumps(
        {"argv": ["/usr/bin/python3", "-c", KERNEL, "-f", "{connection_file}"],
         "display_name": "Toy", "language": "python", "interrupt_mode": "signal",
         "metadata": {"debugger": True}} | more))
    world.write(f"{d}/logo-64x64.png", b"\x89PNG" + bytes(range(256)) * 300)
    return d


def connection(world, path, **more):
    socks = [world.make("host", socket.AF_INET, socket.SOCK_STREAM, bind=("127.0.0.1", 0))
             for _ in PORTS]
    ports = [s.getsockname()[1] for s in socks]
    for s in socks:
        s.close()
    info = {"transport": "tcp", "ip": "127.0.0.1", "key": "a" * 32, "kernel_name": "",
            "signature_scheme": "hmac-sha256"} | dict(zip(PORTS, ports)) | more
    world.write(path, json.dumps(info), 0o600)
    return info


def installed(world, name):
    return json.loads(world.read(f"{world.home}/{KERNELS}/{name}/kernel.json"))


def start(world, name, path, **kw):
    argv = [a.replace("{connection_file}", path) for a in installed(world, name)["argv"]]
    assert argv[0] == BIN, argv
    return world.spawn(*argv[1:], **kw)


def said(world, port):
    s = world.make("host", socket.AF_INET, socket.SOCK_STREAM)
    s.settimeout(60)
    try:
        s.connect(("127.0.0.1", port))
        return s.recv(100).decode()
    except OSError:
        return ""
    finally:
        s.close()


def test_add_wraps_the_kernel_and_carries_everything_else_over(fresh):
    d = spec(fresh, "toy", env={"KERNEL_SETTING": "x"}, interrupt_mode="message")
    r = fresh.weir("kernelspec", "add", "toy-weir", "--from", "toy", "--preset", "none",
                   "--allow", "data.example.org:443").ok()
    made = f"{fresh.home}/{KERNELS}/toy-weir"
    assert r.text == made + "\n"
    new, old = installed(fresh, "toy-weir"), installed(fresh, "toy")
    assert new["argv"] == [BIN, "run", "--name", "toy-weir", "--connection-file",
                           "{connection_file}", "--env", "KERNEL_SETTING=x", "--preset", "none",
                           "--allow", "data.example.org:443", "--", *old["argv"]]
    assert new["display_name"] == "Toy (weir)"
    for k in ("language", "interrupt_mode", "metadata"):
        assert new[k] == old[k]
    assert "env" not in new	# it is an option: weir itself does not start with it
    with open(fresh.path(f"{d}/logo-64x64.png"), "rb") as a, \
            open(fresh.path(f"{made}/logo-64x64.png"), "rb") as b:
        assert a.read() == b.read()
    o = json.loads(fresh.weir("kernelspec", "list", "--json").ok().text)
    check(o, schema("kernelspec"))
    assert [x["name"] for x in o] == ["toy-weir"] and o[0]["directory"] == made
    assert "toy-weir" in fresh.weir("kernelspec", "list").ok().text

    r = fresh.weir("kernelspec", "add", "toy-weir", "--from", "toy")
    assert r.status == 125 and "--force" in r.errtext and made in r.errtext, r
    assert installed(fresh, "toy-weir") == new
    fresh.weir("kernelspec", "add", "toy-weir", "--from", "toy", "--force", "--display-name",
               "Mine", "-n", "deny").ok()
    assert installed(fresh, "toy-weir")["display_name"] == "Mine"
    assert "data.example.org:443" not in installed(fresh, "toy-weir")["argv"]

    fresh.weir("kernelspec", "remove", "toy-weir").ok()
    assert not os.path.exists(fresh.path(made)) and os.path.exists(fresh.path(d))
    assert os.listdir(fresh.path(f"{fresh.home}/{KERNELS}")) == ["toy"]


@pytest.mark.parametrize("words, told", [
    (["add"], "NAME"), (["add", "a/b"], "a/b"), (["add", "x", "--from", "absent"], "absent"),
    (["add", "x", "--from", "toy", "--alow", "h"], "--allow"),
    (["add", "x", "--from", "toy", "--allow", ".."], "empty label"),
    (["add", "x", "--from", "toy", "--", "ls"], "ls"),
    (["add", "x", "--from", "toy", "--connection-file", "/dev/null"], "connection"),
    (["add", "x", "--from", "toy", "--sys-prefix"], "environment"),
    (["add", "x", "--from"], "--from"), (["add", "x", "--preset", "none", "--force"], "NAME --force"), (["remove"], "NAME"), (["remove", "toy"], "did not make"),
    (["remove", "absent"], "absent"), (["list", "--jsn"], "--jsn"), (["grow"], "grow"), ([], "add")])
def test_what_is_wrong_is_told_and_nothing_is_made(world, words, told):
    if not os.path.exists(world.path(f"{world.home}/{KERNELS}/toy")):
        spec(world, "toy")
    before = os.listdir(world.path(f"{world.home}/{KERNELS}"))
    r = world.weir("kernelspec", *words)
    assert r.status == 125 and told in r.errtext and r.out == b"", r
    assert os.listdir(world.path(f"{world.home}/{KERNELS}")) == before == ["toy"]


def test_what_a_kernelspec_sets_is_not_weirs_environment(fresh):
    """a kernelspec of a project's environment is the project's word: it names no policy for weir"""
    d = spec(fresh, "toy", env={"XDG_CONFIG_HOME": f"{fresh.home}/evil", "A": "b c=d"},
             argv=["sh", "{resource_dir}/start.sh"])
    fresh.write(f"{fresh.home}/evil/weir/policy", "read /srv/more\n")
    fresh.write("/srv/more/s", "secret", root=True)
    fresh.weir("kernelspec", "add", "tw", "--from", "toy", "--preset", "none").ok()
    new = installed(fresh, "tw")
    assert "env" not in new
    argv = [a.replace("{resource_dir}", f"{fresh.home}/{KERNELS}/tw") for a in new["argv"]]
    i = argv.index("--")
    argv[i + 1:] = ["sh", "-c", "echo $XDG_CONFIG_HOME $A; ls /srv; head -c4 \"$1\"/logo-64x64.png",
                    "sh", f"{fresh.home}/{KERNELS}/tw"]
    r = fresh.weir(*argv[1:], env=new.get("env", {})).ok()
    assert f"{fresh.home}/evil b c=d\n" in r.text and "more" not in r.text, r
    assert b"\x89PNG" in r.out, "its resources are readable where its argv names their directory"

    fresh.write(f"{d}/kernel.json", json.dumps(
        {"argv": ["k"], "display_name": "T", "env": {"PATH": "/opt/k/bin:${PATH}"}}))
    r = fresh.weir("kernelspec", "add", "tp", "--from", "toy")
    assert r.status == 125 and "PATH" in r.errtext and "--env PATH=" in r.errtext, r
    assert not os.path.exists(fresh.path(f"{fresh.home}/{KERNELS}/tp"))
    fresh.weir("kernelspec", "add", "tp", "--from", "toy", "--env", "PATH=/opt/k/bin:/usr/bin").ok()
    assert "PATH=/opt/k/bin:/usr/bin" in installed(fresh, "tp")["argv"]


def test_a_path_that_no_kernel_will_get_is_refused_when_the_kernelspec_is_made(fresh):
    spec(fresh, "toy")
    fresh.write(f"{fresh.home}/.bashrc", "")
    fresh.mkdir(f"{fresh.home}/data")
    fresh.mkdir(f"{fresh.home}/.local/share/jupyter/runtime")
    for option, rel, told in (("--write", ".bashrc", "every shell"), ("--write", KERNELS, "run by Jupyter"),
                              ("--read", ".local/share/jupyter/runtime", "keys of kernels")):
        r = fresh.weir("kernelspec", "add", "tw", "--from", "toy", option, f"{fresh.home}/{rel}")
        assert r.status == 125 and told in r.errtext and f"{option}: " in r.errtext, r
    assert os.listdir(fresh.path(f"{fresh.home}/{KERNELS}")) == ["toy"]
    fresh.weir("kernelspec", "add", "tw", "--from", "toy", "--write", f"{fresh.home}/data").ok()


def test_from_is_of_the_directory_in_which_it_was_typed(fresh):
    work = fresh.project()
    fresh.mkdir(f"{work}/deep")
    for where, argv in ((work, "typed"), (f"{work}/deep", "other")):
        fresh.write(f"{where}/k/kernel.json", json.dumps({"argv": [argv], "display_name": "K"}))
    fresh.weir("kernelspec", "add", "kw", "--from", "./k", "--preset", "none", "-C", "deep", cwd=work).ok()
    assert installed(fresh, "kw")["argv"][-1] == "typed"


def test_a_kernelspec_that_a_kernel_can_change_is_told(fresh):
    """an environment in the project is the project's, and Jupyter outside runs what its kernelspecs say"""
    spec(fresh, "toy")
    work = fresh.project()
    add = ["kernelspec", "add", "tw", "--from", "toy"]
    assert "can change" not in fresh.weir(*add, cwd=work).ok().errtext
    r = fresh.weir(*add, "--sys-prefix", "--preset", "none", cwd=work, env={"VIRTUAL_ENV": f"{work}/.venv"}).ok()
    made = f"{work}/.venv/share/jupyter/kernels/tw"
    assert f"'{made}' can change" in r.errtext, r
    for where, status in ((f"{fresh.home}/{KERNELS}/tw", 2), (made, 0)):
        r = fresh.run("--", "sh", "-c", ": >>kernel.json", cwd=where)
        assert r.status == status, r


def test_links_in_a_kernelspec_lead_nowhere_else(fresh):
    d = spec(fresh, "toy")
    fresh.write(f"{fresh.home}/.ssh/id_ed25519", "secret", 0o600)
    fresh.write(f"{d}/start.sh", "#!/bin/sh\n", 0o755)
    os.symlink(f"{fresh.home}/.ssh/id_ed25519", fresh.path(f"{d}/logo-svg.svg"))
    os.symlink("../../../../../.ssh/id_ed25519", fresh.path(f"{d}/kernel.css"))
    os.symlink("logo-64x64.png", fresh.path(f"{d}/logo-32x32.png"))
    made = fresh.weir("kernelspec", "add", "tw", "--from", "toy").ok().text.strip()
    assert sorted(os.listdir(fresh.path(made))) == ["kernel.json", "logo-32x32.png", "logo-64x64.png",
                                                    "start.sh"]
    assert os.access(fresh.path(f"{made}/start.sh"), os.X_OK)
    assert not os.path.islink(fresh.path(f"{made}/logo-32x32.png"))


def test_a_linked_kernelspec_and_one_with_a_directory_lose_nothing(fresh):
    spec(fresh, "toy")
    made = fresh.weir("kernelspec", "add", "tw", "--from", "toy").ok().text.strip()
    kept = fresh.path(f"{fresh.home}/kept")
    os.rename(fresh.path(made), kept)
    os.symlink(f"{fresh.home}/kept", fresh.path(made))
    before = sorted(os.listdir(kept))
    fresh.weir("kernelspec", "remove", "tw").ok()
    assert sorted(os.listdir(kept)) == before and not os.path.lexists(fresh.path(made))
    os.symlink(f"{fresh.home}/kept", fresh.path(made))
    fresh.weir("kernelspec", "add", "tw", "--from", "toy", "--force").ok()
    assert sorted(os.listdir(kept)) == before and not os.path.islink(fresh.path(made))

    fresh.mkdir(f"{made}/extra")
    before = sorted(os.listdir(fresh.path(made)))
    for words in (["remove", "tw"], ["add", "tw", "--from", "toy", "--force"]):
        r = fresh.weir("kernelspec", *words)
        assert r.status == 125 and f"{made}/extra" in r.errtext, r
        assert sorted(os.listdir(fresh.path(made))) == before
    assert sorted(os.listdir(fresh.path(f"{fresh.home}/{KERNELS}"))) == ["toy", "tw"]


def test_sys_prefix_and_the_environments_own_python(fresh):
    """Jupyter starts the word "python" with its own interpreter; behind weir run it is spelled out"""
    venv = fresh.mkdir(f"{fresh.home}/venv")
    for d in ("bin", "share", "share/jupyter", "share/jupyter/kernels", "share/jupyter/kernels/p"):
        fresh.mkdir(f"{venv}/{d}")
    os.symlink("/usr/bin/python3", fresh.path(f"{venv}/bin/python"))
    fresh.write(f"{venv}/share/jupyter/kernels/p/kernel.json",
                json.dumps({"argv": ["python", "-m", "k"], "display_name": "P"}))
    env = {"VIRTUAL_ENV": venv}
    r = fresh.weir("kernelspec", "add", "pw", "--from", "p", "--sys-prefix", env=env).ok()
    made = f"{venv}/share/jupyter/kernels/pw"
    assert r.text == made + "\n"
    argv = json.loads(fresh.read(f"{made}/kernel.json"))["argv"]
    assert argv[-3:] == [f"{venv}/bin/python", "-m", "k"] and "--connection-file" not in argv
    assert "pw" in fresh.weir("kernelspec", "list", env=env).ok().text
    assert "pw" not in fresh.weir("kernelspec", "list").ok().text
    fresh.weir("kernelspec", "remove", "pw", "--sys-prefix", env=env).ok()
    assert not os.path.exists(fresh.path(made))


@pytest.mark.parametrize("where", ["home", "tmp", "project"])
def test_a_kernel_is_reached_on_its_five_ports_and_cannot_change_them(fresh, where):
    spec(fresh, "toy", env={"KERNEL_SETTING": "x"})
    fresh.weir("kernelspec", "add", "toy-weir", "--from", "toy", "--preset", "none").ok()
    work = fresh.project()
    runtime = fresh.mkdir(f"{fresh.home}/.local/share/jupyter/runtime", 0o700)
    path = {"home": f"{runtime}/kernel-1.json", "tmp": "/tmp/kernel-1.json",
            "project": f"{work}/kernel-1.json"}[where]
    info = connection(fresh, path)
    text = fresh.read(path)
    env = {"JPY_PARENT_PID": "4711", "JPY_SESSION_NAME": "/n.ipynb"}
    for _ in range(2):	# a restart finds the ports free and the same
        with start(fresh, "toy-weir", path, cwd=work, env=env) as k:
            parent, told, session, setting = json.loads(k.readline())
            assert parent > 1 and told == str(parent) and session == "/n.ipynb"
            assert setting == "x"
            for p in PORTS:
                assert said(fresh, info[p]) == p
            if where != "project":
                assert fresh.read(path) == text	# the kernel's own file was a copy
            os.kill(k.pid, signal.SIGTERM)
            d = k.finish()
            assert d.status == 143, d
            assert [r["proto"] for r in d.audit if r["event"] == "verdict"] == ["publish"] * 5
        if where == "project":
            fresh.write(path, text, 0o600)
    for p in PORTS:
        assert said(fresh, info[p]) == ""
    fresh.assert_clean()


@pytest.mark.parametrize("how", ["default", "ignore"])
def test_an_interrupt_reaches_the_kernel_of_a_server_in_the_background(fresh, how):
    """what a script starts with & ignores SIGINT, and Jupyter's kernels do not"""
    spec(fresh, "toy")
    fresh.weir("kernelspec", "add", "toy-weir", "--from", "toy", "--preset", "none").ok()
    connection(fresh, "/tmp/kernel-3.json")
    with start(fresh, "toy-weir", "/tmp/kernel-3.json",
               prefix=["/usr/bin/env", f"--{how}-signal=INT"]) as k:
        k.readline()
        os.kill(k.pid, signal.SIGINT)
        d = k.finish()
    assert d.status == 130 and "KeyboardInterrupt" in d.errtext, d


def test_a_second_sandbox_does_not_reach_the_kernel(fresh):
    spec(fresh, "toy")
    fresh.weir("kernelspec", "add", "toy-weir", "--from", "toy", "--preset", "none").ok()
    info = connection(fresh, "/tmp/kernel-2.json")
    with start(fresh, "toy-weir", "/tmp/kernel-2.json") as k, fresh.inside() as other:
        k.readline()
        assert said(fresh, info["shell_port"]) == "shell_port"
        assert other.py(f"""
            import socket
            try:
                socket.create_connection(('127.0.0.1', {info['shell_port']}), 5); result = 'reached'
            except OSError as e:
                result = e.errno
        """) == 111
        assert not other.py("result = __import__('os').path.exists('/tmp/kernel-2.json')")
        k.kill()


@pytest.mark.parametrize("more, told", [
    ({"ip": "0.0.0.0"}, "127.0.0.1"), ({"ip": ""}, "127.0.0.1"), ({"hb_port": 0}, "port"),
    ({"hb_port": 70000}, "port"), ({"hb_port": "5"}, "port"), ({"transport": "inproc"}, "transport"),
    ({"transport": "ipc", "ip": "kernel"}, "path")])
def test_a_file_that_asks_for_something_else_is_refused(world, more, told):
    connection(world, "/tmp/bad.json", **more)
    r = world.run("--connection-file", "/tmp/bad.json", "--", "true")
    assert r.status == 125 and told in r.errtext and "/tmp/bad.json" in r.errtext, r


@pytest.mark.parametrize("data", ["", "{", "[]", '{"ip": "127.0.0.1"}', "x" * 70000, "\0" * 10])
def test_a_file_that_is_none_is_refused(world, data):
    world.write("/tmp/none.json", data, 0o600)
    r = world.run("--connection-file", "/tmp/none.json", "--", "true")
    assert r.status == 125 and "/tmp/none.json" in r.errtext, r


def test_equal_ports_links_fifos_and_other_users_files_are_refused(world):
    info = connection(world, "/tmp/same.json", hb_port=5000, shell_port=5000)
    os.symlink("same.json", world.path("/tmp/link.json"))
    os.mkfifo(world.path("/tmp/fifo.json"))
    world.own("/tmp/fifo.json")
    names = ["same", "link", "fifo"]
    if os.geteuid() == 0:
        world.write("/tmp/root.json", json.dumps(info), 0o644, root=True)
        names.append("root")
    for n in names:
        r = world.run("--connection-file", f"/tmp/{n}.json", "--", "true")
        assert r.status == 125 and f"/tmp/{n}.json" in r.errtext, r


IPC = textwrap.dedent("""
    import json, os, socket, sys
    info = json.load(open(sys.argv[1]))
    s = socket.socket(socket.AF_UNIX); s.bind(f"{info['ip']}-{info['shell_port']}"); s.listen()
    print("up", flush=True)
    while True:
        c, _ = s.accept(); c.sendall(b"hello"); c.close()
""")


@pytest.mark.parametrize("where", ["home", "project"])
def test_ipc_needs_a_directory_for_that_kernel_alone(fresh, where):
    work = fresh.project()
    own = fresh.mkdir(f"{fresh.home if where == 'home' else work}/ipc", 0o700)
    path = f"{own}/kernel.json"
    connection(fresh, path, transport="ipc", ip=f"{own}/kernel-ipc", shell_port=1)
    fresh.write(f"{own}/kernel-ipc-1", "")	# of the kernel before: its own
    os.unlink(fresh.path(f"{own}/kernel-ipc-1"))
    argv = ["run", "--preset", "none", "--connection-file", path, "--", "/usr/bin/python3", "-c", IPC,
            path]
    with fresh.spawn(*argv, cwd=work) as k:
        assert k.readline() == b"up\n"
        s = socket.socket(socket.AF_UNIX)
        s.connect(os.fspath(fresh.path(f"{own}/kernel-ipc-1")))
        assert s.recv(10) == b"hello"
        s.close()
        k.kill()
    os.unlink(fresh.path(f"{own}/kernel-ipc-1"))
    fresh.write(f"{own}/notes.txt", "mine")
    r = fresh.weir(*argv, cwd=work)
    assert r.status == 125 and "notes.txt" in r.errtext and own in r.errtext, r
    os.unlink(fresh.path(f"{own}/notes.txt"))
    os.chmod(fresh.path(own), 0o750)
    r = fresh.weir(*argv, cwd=work)
    assert r.status == 125 and "chmod 700" in r.errtext, r


def test_two_kernels_on_one_port_are_told_who_has_it(fresh):
    connection(fresh, "/tmp/k.json")
    argv = ["run", "--preset", "none", "--connection-file", "/tmp/k.json", "--", "sh", "-c",
            "echo up; sleep 60"]
    with fresh.spawn(*argv) as k:
        assert k.readline() == b"up\n"
        r = fresh.weir(*argv)
        assert r.status == 125 and "127.0.0.1:" in r.errtext, r
        k.kill()
    wait_until(lambda: not fresh.leftovers(), 10, "nothing to be left")
