# SPDX-License-Identifier: ISC
"""What is absent in both views, for the user and for root, whenever it is made (SPEC 6, A11); view host.

The list is the one that `weir policy show --json` prints: every entry of it is tried."""
import json
import os
import socket
import subprocess

import pytest

from world import IS_ROOT, wait_until, watching

SECRET = "do-not-show-this-secret"
LOOK = """
    out = []
    for p in paths:
        try:
            if os.path.isdir(p): found = os.listdir(p)
            elif os.path.lexists(p): found = open(p).read()
            else: continue
            out.append((p, found))
        except OSError as e:
            out.append((p, errno.errorcode[e.errno]))
    result = out
"""


def listed(w, home, root):
    """(path, may be written in this world) of each entry"""
    fixed = json.loads(w.weir("policy", "show", "--json", root=root).ok().text)["fixed"]
    names = [f["path"].replace("~/", home + "/") for f in fixed
             if f["list"] == "absent" or (root and f["list"] == "absent-root")]
    assert len(names) > 150, len(names)
    # a directory of which a file is listed too stays a directory
    return [n for n in names if not any(o.startswith(n + "/") for o in names)]


def plant(w, path, root):
    """As a file, by rename. /var is the machine's own: what is there is looked at, nothing is made"""
    if path.startswith("/var/"):
        return
    q = w.path(path)
    if q.is_dir():
        return
    w.write(path + ".new", SECRET, 0o600, root=root)
    os.replace(w.path(path + ".new"), q)


def walk(w, view, root):
    home = "/home/admin" if root else w.home
    names = listed(w, home, root)
    args = ["--view", view]
    if view == "project":	# trees that hold credentials, shared all the same
        for d in (".local/share", ".cargo", ".m2", ".gradle"):
            w.mkdir(f"{home}/{d}/x", root=root)
            args += ["-r", f"{home}/{d}"]
    for n in names[::2]:
        plant(w, n, root)
    with w.inside(*args, root=root) as sb:
        own = {"/run/user"}	# private: the sandbox's own is there
        seen = [x for x in sb.py(LOOK, paths=names) if x[0] not in own]
        assert seen == [], seen
        for n in names:
            plant(w, n, root)
        seen = [x for x in sb.py(LOOK, paths=names) if x[0] not in own]
        assert seen == [], seen
        text = sb.py("""
            import subprocess
            result = subprocess.run(["grep", "-rlsF", "--include=*", secret, home, "/etc", "/srv"],
                                    capture_output=True, text=True).stdout
        """, secret=SECRET, home=home)
        assert text == "", text
        sb.close()


@pytest.mark.parametrize("view", ["project", "host"])
def test_a11_every_listed_credential_is_absent_before_and_after(fresh, view):
    walk(fresh, view, False)


@pytest.mark.as_root
@pytest.mark.parametrize("view", ["project", "host"])
def test_a11_the_same_as_root(fresh, view):
    walk(fresh, view, True)


# ---- view host ----

@pytest.fixture(scope="module")
def host(world):
    w = world
    w.write(f"{w.home}/notes", "mine\n")
    w.write(f"{w.home}/.bashrc", "alias x=y\n")
    w.write("/home/stranger/file", SECRET, 0o644, root=True)
    w.write("/home/unlisted/file", SECRET, 0o644, root=True)
    w.write("/srv/data/file", "data\n")
    cwd = w.project()
    with w.inside("--view", "host", cwd=cwd) as sb:
        yield sb


def test_the_host_is_there_read_only(host, world):
    got = host.py("""
        out = [open(p).read() for p in paths]
        for p in paths + ["/srv/data/new", "/opt/new", home + "/new", "/new", "/var/new"]:
            try: open(p, "w"); out.append(p)
            except OSError as e: assert e.errno in (errno.EROFS, errno.EACCES, errno.EPERM), (p, e)
        open("made", "w").write("here")
        result = out, os.path.isdir("/var/lib/dpkg"), os.path.isdir("/usr/share")
    """, paths=[f"{world.home}/notes", f"{world.home}/.bashrc", "/srv/data/file"], home=world.home)
    assert got == (["mine\n", "alias x=y\n", "data\n"], True, True)
    assert world.read(f"{host.cwd}/made") == b"here"


def test_other_users_homes_are_not_there_nor_made_later(host, world):
    world.write("/home/later/file", SECRET, root=True)
    assert host.py("result = os.listdir('/home')") == ["tester"]


def test_private_places_are_private_in_view_host_too(host, world):
    world.write("/tmp/of-the-host", "x")
    got = host.py("""
        for p in ("/tmp/x", "/var/tmp/x", home + "/.cache/x", "/dev/shm/x"): open(p, "w").write("x")
        result = [sorted(os.listdir(p)) for p in ("/tmp", "/var/tmp", home + "/.cache")], \
            os.listdir("/sys/class/net"), os.path.lexists("/boot"), \
            [p for p in os.listdir("/proc") if p.isdigit()]
    """, home=world.home)
    assert got[0] == [["x"], ["x"], ["project", "x"]] and got[1] == ["lo"] and not got[2], got
    assert len(got[3]) <= 4


def test_k1_sockets_of_the_host_are_dead_in_view_host(host, world):
    paths = ["/run/h.sock", "/tmp/h.sock", f"{world.home}/h.sock", "/srv/h.sock", "/srv/data/h.sock"]
    socks = [world.make("host", socket.AF_UNIX, socket.SOCK_STREAM, bind=p, listen=5) for p in paths]
    for p in paths:
        os.chmod(world.path(p), 0o777)
    got = host.py("""
        out = []
        for p in paths:
            s = socket.socket(socket.AF_UNIX)
            try: s.connect(p); out.append(p)
            except OSError: pass
        result = out
    """, paths=paths)
    assert got == []
    for s, p in zip(socks, paths):
        s.close()
        os.unlink(world.path(p))


def test_nothing_of_the_host_is_writable_by_mount(host):
    for line in host.py("result = open('/proc/self/mountinfo').read()").splitlines():
        f = line.split()
        where, opts, fs = f[4], f[5].split(","), f[f.index("-") + 1]
        assert "shared:" not in line and "master:" not in line, line
        if "rw" in opts and fs not in ("tmpfs", "proc", "devpts", "mqueue"):
            assert where == host.cwd or where.endswith("/.cache"), line


def test_home_as_working_directory_is_read_only_and_told(fresh):
    fresh.write(f"{fresh.home}/notes", "mine\n")
    r = fresh.run("--view", "host", "--", "sh", "-c", "cat notes; pwd; touch x", cwd=fresh.home)
    assert r.text == f"mine\n{fresh.home}\n" and r.status != 0, r
    assert "your home directory is read-only; use -C DIR or -w DIR" in r.errtext, r
    fresh.mkdir(f"{fresh.home}/sub")
    r = fresh.run("--view", "host", "-w", f"{fresh.home}/sub", "--", "touch", f"{fresh.home}/sub/x",
                  cwd=fresh.home).ok()


def test_what_contradicts_or_may_not_is_refused(fresh):
    r = fresh.run("--view", "host", "--home", "keep", "--", "true")
    assert r.status == 125 and "contradict" in r.errtext, r
    d = fresh.project()
    fresh.write(f"{d}/.weir/policy", "view host\n")
    r = fresh.weir("trust", "--yes", cwd=d)
    assert r.status == 125 and "a project's file may not show more of the machine" in r.errtext, r


@pytest.mark.skipif(not IS_ROOT, reason="mounting in the world needs root")
def test_a_directory_with_mounts_below_it_is_taken_apart(fresh):
    w = fresh
    w.mkdir(f"{w.home}/disk")
    enter = ["nsenter", f"--target={w.pid}", "--mount"]
    subprocess.run([*enter, "mount", "-t", "tmpfs", "tmpfs", f"{w.home}/disk"], check=True)
    w.write(f"{w.home}/disk/file", "on the disk\n")
    w.write(f"{w.home}/plain", "plain\n")
    w.write(f"{w.home}/.netrc", SECRET)
    w.write(f"{w.home}/.config/gh/hosts.yml", SECRET)
    w.write(f"{w.home}/.config/tool", "tool\n")
    os.symlink("plain", w.path(f"{w.home}/link"))
    r = w.run("--view", "host", "--", "sh", "-c",
              "cd ~; cat disk/file plain link .config/tool; echo x > .cache/x; ls -A . .config").ok()
    assert r.text.startswith("on the disk\nplain\nplain\ntool\n"), r
    assert ".netrc" not in r.text and "gh" not in r.text.split(), r
    w.write(f"{w.home}/.netrc", SECRET)
    subprocess.run([*enter, "umount", f"{w.home}/disk"], check=True)


@pytest.mark.parametrize("view", ["project", "host"])
def test_what_the_host_replaces_or_makes_is_seen_after_a_moment(fresh, view):
    """an overlay remembers names: the monitor makes it look again"""
    w, data = fresh, f"{fresh.home}/data"
    w.write(f"{data}/replaced", "old\n")
    w.write(f"{data}/.netrc", SECRET)
    with w.inside("--view", view, "-r", data, "--hide", f"{data}/.netrc") as sb:
        procs = sb.procs()
        watching(procs.monitor)
        fds = len(os.listdir(f"/proc/{procs.monitor}/fd")) if IS_ROOT else 0
        assert sb.py("result = open(p + '/replaced').read(), os.path.exists(p + '/later')",
                     p=data) == ("old\n", False)
        w.write(f"{data}/new", "new\n")
        os.replace(w.path(f"{data}/new"), w.path(f"{data}/replaced"))
        w.write(f"{data}/later", "later\n")
        w.write(f"{data}/.netrc.new", SECRET)
        os.replace(w.path(f"{data}/.netrc.new"), w.path(f"{data}/.netrc"))
        got = sb.py("""
            end = time.monotonic() + 100
            while time.monotonic() < end:
                try:
                    result = open(p + "/replaced").read(), open(p + "/later").read()
                    if result[0] == "new\\n": break
                except OSError as e:
                    result = str(e)
                time.sleep(0.1)
            result = result, os.path.lexists(p + "/.netrc")
        """, p=data)
        assert got == (("new\n", "later\n"), False)
        wait_until(lambda: not IS_ROOT or len(os.listdir(f"/proc/{procs.monitor}/fd")) <= fds + 2, 10,
                   "as few descriptors as before")
        assert sb.close().status == 0
