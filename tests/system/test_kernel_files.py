# SPDX-License-Identifier: ISC
"""Hostile kernelspecs and connection files: what a project, another user or a kernel left there."""
import json
import os
import signal
import socket

import pytest

from test_kernelspec import IPC, KERNELS, PORTS, connection, installed, said, spec, start
from world import PYTHON, children, need, wait_until

RUNTIME = ".local/share/jupyter/runtime"


def runtime(w):
    return w.mkdir(f"{w.home}/{RUNTIME}", 0o700)


def argv(path, *cmd):
    return ["run", "--preset", "none", "--connection-file", path, "--", *cmd]


# ---- connection files ----

@pytest.mark.parametrize("port", [0, -1, 65536, 1 << 70, 5000.0, "5000", None, True, [5000]])
def test_a_port_is_a_whole_number_that_tcp_has(world, port):
    connection(world, "/tmp/port.json", hb_port=port)
    r = world.weir(*argv("/tmp/port.json", "true"))
    assert r.status == 125 and "/tmp/port.json" in r.errtext, r


@pytest.mark.parametrize("text", [
    "[" * 5000, '{"ip": "127.0.0.1\\u0000"}', '{"ip": "127.0.0.1", "ip": "0.0.0.0"}', '{"ip": "\\ud800"}',
    '{"transport": "tcp\\u001b[31m"}'])
def test_json_that_means_two_things_is_refused(world, text):
    world.write("/tmp/odd.json", text, 0o600)
    r = world.weir(*argv("/tmp/odd.json", "true"))
    assert r.status == 125 and "/tmp/odd.json" in r.errtext and "\x1b" not in r.errtext, r


def test_a_port_of_the_system_is_told_as_such(world):
    connection(world, "/tmp/low.json", shell_port=80)
    r = world.weir(*argv("/tmp/low.json", "true"))
    assert r.status == 125 and "127.0.0.1:80: Permission denied" in r.errtext, r


def test_a_file_that_other_users_can_write_is_refused(world):
    connection(world, "/tmp/shared.json")
    for mode in (0o620, 0o602):
        os.chmod(world.path("/tmp/shared.json"), mode)
        r = world.weir(*argv("/tmp/shared.json", "true"))
        assert r.status == 125 and "chmod 600 '/tmp/shared.json'" in r.errtext, r


@pytest.mark.parametrize("addr", ["127.0.0.1", "0.0.0.0"])
def test_a_port_that_somebody_took_first_is_not_shared_with_them(world, addr):
    """what they would hear is what the notebook sends its kernel"""
    info = connection(world, "/tmp/taken.json")
    thief = world.make("host", socket.AF_INET, socket.SOCK_STREAM)
    thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    thief.bind((addr, info["stdin_port"]))
    thief.listen()
    r = world.weir(*argv("/tmp/taken.json", "true"))
    thief.close()
    assert r.status == 125 and f":{info['stdin_port']} is in use" in r.errtext, r


def test_a_file_that_is_replaced_after_the_start_changes_nothing(fresh):
    spec(fresh, "toy")
    fresh.weir("kernelspec", "add", "tw", "--from", "toy", "--preset", "none").ok()
    path = f"{runtime(fresh)}/kernel-1.json"
    info = connection(fresh, path)
    with start(fresh, "tw", path) as k:
        k.readline()
        os.unlink(fresh.path(path))
        other = connection(fresh, path)
        for p in PORTS:
            assert said(fresh, info[p]) == p and said(fresh, other[p]) == ""
        k.kill()


@pytest.mark.parametrize("view", [("--view", "host"), ("--read", f"~/{RUNTIME}/..")])
def test_no_other_sandbox_reads_the_key_of_a_kernel(fresh, view):
    path = f"{runtime(fresh)}/kernel-1.json"
    connection(fresh, path)
    fresh.write(f"{fresh.home}/{RUNTIME}/../notes", "seen")
    args = [a.replace("~", fresh.home) for a in view]
    r = fresh.run(*args, "--", "sh", "-c", f"cat {path}; cat {path}/../../notes || cat $HOME/{RUNTIME}/../notes")
    assert "aaaa" not in r.text and "No such file" in r.errtext, r
    assert fresh.run(*args, "--", "cat", f"{fresh.home}/.local/share/jupyter/notes").text == "seen"
    # of a kernel's own, where a grant would cover the copy
    if view[0] == "--read":
        r = fresh.weir("run", *args, "--connection-file", path, "--", "true")
        assert r.status == 125 and "JUPYTER_RUNTIME_DIR" in r.errtext, r


def test_the_directory_of_all_kernels_is_no_place_for_the_sockets_of_one(fresh):
    """the next kernel's key would lie where this one writes"""
    own = runtime(fresh)
    connection(fresh, f"{own}/k.json", transport="ipc", ip=f"{own}/k-ipc", shell_port=1)
    r = fresh.weir(*argv(f"{own}/k.json", "true"))
    assert r.status == 125 and own in r.errtext and "keys of kernels" in r.errtext, r


@pytest.mark.parametrize("name", ["rt", "with space", "#x"])
def test_a_path_is_the_same_inside_as_it_was_spelled(fresh, name):
    real = fresh.mkdir(f"{fresh.home}/real/{name}", 0o700)
    os.symlink("real", fresh.path(f"{fresh.home}/link"))
    path = f"{fresh.home}/link/{name}/k.json"
    connection(fresh, path)
    assert "hmac" in fresh.weir(*argv(path, "cat", path)).ok().text
    connection(fresh, path, transport="ipc", ip=f"{fresh.home}/link/{name}/k-ipc", shell_port=1)
    with fresh.spawn(*argv(path, PYTHON, "-c", IPC, path)) as k:
        assert k.readline() == b"up\n", k.finish()
        assert os.path.exists(fresh.path(f"{real}/k-ipc-1"))
        k.kill()


@pytest.mark.parametrize("how", ["directory", "link"])
def test_a_directory_that_is_swapped_after_the_look_at_it_is_not_shared(fresh, how):
    """weir is stopped when it has opened the directory to judge it"""
    need("strace", "strace")
    own = fresh.mkdir(f"{fresh.home}/ipc", 0o700)
    other = fresh.mkdir(f"{fresh.home}/other", 0o700)
    fresh.write(f"{other}/secret", "mine")
    connection(fresh, f"{own}/k.json", transport="ipc", ip=f"{own}/k-ipc", shell_port=1)
    log = fresh.write(f"{fresh.home}/trace", "")
    stop = ["strace", "-o", log, "-P", own, "-e", "trace=openat", "-e",
            "inject=openat:signal=STOP:when=1"]
    with fresh.spawn(*argv(f"{own}/k.json", "sh", "-c", f"cat {own}/secret; echo x >{own}/secret"),
                     prefix=stop) as p:
        wait_until(lambda: b"stopped by SIGSTOP" in fresh.read(log), 20, "weir's look at the directory")
        (weir,) = children(p.pid)
        os.rename(fresh.path(own), fresh.path(f"{fresh.home}/was"))
        if how == "link":
            os.symlink("other", fresh.path(own))
        else:
            os.rename(fresh.path(other), fresh.path(own))
        os.kill(weir, signal.SIGCONT)
        d = p.finish()
    assert d.status == 125 and "was replaced while it was looked at" in d.errtext, d
    assert fresh.read(f"{own}/secret") == b"mine"


# ---- kernelspecs ----

def add(w, *words):
    return w.weir("kernelspec", "add", "tw", "--from", "toy", "--preset", "none", *words)


@pytest.mark.parametrize("env, told", [
    ({"": "x"}, "no name"), ({"A=B": "x"}, "A=B"), ({"B C": "x"}, "B C"), ({"A\nB": "x"}, r"A\x0aB"),
    ({"1A": "x"}, "1A"), ({"\x1b[31m": "x"}, r"\x1b[31m"), ({"A": 7}, "A"), ({"A": None}, "A"),
    ({"A": "${HOME}"}, "A"), (["A"], "no object"), ("A=1", "no object")])
def test_an_environment_that_would_fail_or_mean_something_else_later_is_refused_now(world, env, told):
    spec(world, "toy", env=env)
    r = add(world)
    assert r.status == 125 and told in r.errtext and "\x1b" not in r.errtext, r
    assert os.listdir(world.path(f"{world.home}/{KERNELS}")) == ["toy"]


def test_what_a_kernelspec_sets_adds_no_line_to_the_policy(fresh):
    evil = {"A": "x\nallow evil.example.org", "B": "x # y", "C": 'q "y" \\', "D": "--allow=*",
            "E": "-- sh"}
    spec(fresh, "toy", env=evil, argv=["-a", "evil.example.org", "a\nwrite /", "--", "--help"])
    add(fresh).ok()
    words = installed(fresh, "tw")["argv"]
    at = words.index("--")
    assert words[at + 1:] == installed(fresh, "toy")["argv"]
    r = fresh.weir(*words[1:at], "--", "env", "-0").ok()
    got = dict(v.split("=", 1) for v in r.text.split("\0") if "=" in v)
    assert {k: got[k] for k in evil} == evil
    why = fresh.weir("policy", "why", *words[words.index("--env"):at], "evil.example.org")
    assert "deny (no_rule)" in why.text, why
    r = fresh.weir(*words[1:])
    assert r.status == 127 and "'-a'" in r.errtext, r


def test_names_lead_nowhere_else(fresh):
    d = spec(fresh, "toy")
    before = sorted(os.listdir(fresh.path(f"{fresh.home}/.local/share/jupyter")))
    for name in ("..", ".", "../x", "a/../b", "/tmp/x", ".hidden", "UPPER", "a b", "a\n", "\x1b[31m", "x" * 65,
                 "é", ""):
        for words in (["add", name, "--from", "toy"], ["remove", name]):
            r = fresh.weir("kernelspec", *words)
            assert r.status == 125 and "\x1b" not in r.errtext, r
    assert sorted(os.listdir(fresh.path(f"{fresh.home}/.local/share/jupyter"))) == before
    assert os.listdir(fresh.path(f"{fresh.home}/{KERNELS}")) == ["toy"]
    # as the directory that it is, and not as a name below Jupyter's directories
    fresh.write(f"{fresh.home}/{KERNELS}/../kernel.json", json.dumps({"argv": ["k"]}))
    assert fresh.weir("kernelspec", "add", "up", "--from", "..", cwd=f"{d}/..").ok()
    assert installed(fresh, "up")["argv"][-1] == "k"
    r = fresh.weir("kernelspec", "add", "up2", "--from", "..")
    assert r.status == 125, r


@pytest.mark.parametrize("what", ["large logo", "many files", "fifo", "device", "large kernel.json",
                                  "fifo kernel.json", "directory kernel.json"])
def test_what_is_too_much_or_no_file_leaves_nothing_behind(fresh, what):
    d = spec(fresh, "toy")
    at = fresh.path(d)
    ok = what in ("fifo", "device")
    if what == "large logo":
        with open(at / "logo-svg.svg", "wb") as f:
            f.truncate(1 << 40)
    elif what == "many files":
        for i in range(200):
            (at / f"f{i}").touch()
    elif what == "fifo":
        os.mkfifo(at / "logo-svg.svg")
    elif what == "device":
        os.symlink("/dev/zero", at / "logo-svg.svg")
    elif what == "large kernel.json":
        with open(at / "kernel.json", "ab") as f:
            f.truncate(1 << 40)
    else:
        os.unlink(at / "kernel.json")
        (os.mkfifo if what.startswith("fifo") else os.mkdir)(at / "kernel.json")
    r = add(fresh)
    assert (r.status == 0) == ok, r
    assert sorted(os.listdir(fresh.path(f"{fresh.home}/{KERNELS}"))) == ["toy", "tw"][:1 + ok]
    if ok:
        assert "logo-svg.svg" not in os.listdir(fresh.path(f"{fresh.home}/{KERNELS}/tw"))
