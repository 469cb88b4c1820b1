# SPDX-License-Identifier: ISC
"""tests/system/test_nodes.py - unix sockets and devices of the host: dead, but for those that are named"""
import json
import os
import socket
import stat
import threading

import pytest

from world import IS_ROOT, World, need

STATES = ["deny", "allowlist", "allow"]
TRY = """
import errno, os, socket, sys
for p in sys.argv[1:]:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        s = socket.socket(socket.AF_UNIX, kind)
        try:
            s.connect(p.replace("@", "\\0", 1) if p.startswith("@") else p)
            print(p, "reached")
        except OSError as e:
            print(p, errno.errorcode[e.errno])
"""


def listen(world, path, reply=b"host\n"):
    """A server of the host that answers with its name"""
    world.mkdir(os.path.dirname(path)) if path[0] == "/" else None
    s = world.make("host", socket.AF_UNIX, socket.SOCK_STREAM,
                   bind=path if path[0] == "/" else "\0" + path[1:], listen=16)
    if path[0] == "/":
        os.chmod(world.path(path), 0o777)
        world.own(path)

    def serve():
        while True:
            try:
                c, _ = s.accept()
            except OSError:
                return
            try:
                if b"HTTP" in reply:
                    c.recv(4096)
                c.sendall(reply)
            except OSError:
                pass
            c.close()
    threading.Thread(target=serve, daemon=True).start()
    return path


def reached(r):
    return sorted({ln.split()[0] for ln in r.ok().text.splitlines() if ln.endswith("reached")})


@pytest.fixture
def places(world):
    """One in each place that SPEC names"""
    d = world.project()
    n = os.path.basename(d)
    world.mkdir(f"{d}/p/.weir")
    paths = [f"/run/{n}/a.sock", f"/tmp/{n}.sock", f"{world.home}/.{n}/s",
             f"{d}/parent.sock", f"{world.runtime}/{n}.sock", f"@weir-{n}"]
    for p in paths:
        listen(world, p)
    return f"{d}/p", paths


@pytest.mark.parametrize("state", STATES)
def test_a3_host_sockets_are_unreachable(world, places, state):
    p, paths = places
    control = world.sh(f"/usr/bin/python3 -c '{TRY}' {' '.join(paths)}")
    assert control.stdout.count(b"reached") >= len(paths), "the test's sockets do not answer"
    r = world.run("-n", state, "--", "/usr/bin/python3", "-c", TRY, *paths, cwd=p)
    assert reached(r) == [], r


def test_a3_one_made_later_and_one_moved_into_place(world, places):
    p, _ = places
    later = [f"/run/later-{os.getpid()}.sock", f"/tmp/later-{os.getpid()}.sock",
             f"{world.home}/later-{os.getpid()}.sock", f"{world.home}/moved-{os.getpid()}.sock"]
    world.mkdir(f"{world.home}/seen")
    with world.inside("-r", f"{world.home}/seen", cwd=p) as sb:
        later.append(f"{world.home}/seen/late.sock")
        for path in later[:3] + later[4:]:
            listen(world, path)
        os.rename(world.path(listen(world, f"{world.home}/m.sock")), world.path(later[3]))
        got = sb.py("""
            result = []
            for p in paths:
                s = socket.socket(socket.AF_UNIX)
                try: s.connect(p); result.append("reached")
                except OSError as e: result.append(errno.errorcode[e.errno])
        """, paths=later)
        assert "reached" not in got, got
    for path in later:
        os.unlink(world.path(path))


def test_a3_with_a_socket_line_exactly_that_one_works(world, places):
    p, paths = places
    for one in paths[:-1]:
        r = world.run("--socket", one, "--", "/usr/bin/python3", "-c", TRY, *paths, cwd=p)
        assert reached(r) == [one], r
    world.write(f"{p}/pol", f"socket {paths[1]}\nsocket {paths[2]}\n")
    r = world.run("-p", "pol", "--", "/usr/bin/python3", "-c", TRY, *paths, cwd=p)
    assert reached(r) == sorted([paths[1], paths[2]]), r
    r = world.run("--socket", paths[0], "--", "sh", "-c", f"chmod 600 {paths[0]}; rm -f {paths[0]};"
                  f"mv {paths[0]} {paths[0]}2", cwd=p)
    assert r.status != 0 and stat.S_IMODE(os.stat(world.path(paths[0])).st_mode) == 0o777


def test_the_variable_that_names_it_is_kept(world, places):
    p, paths = places
    env = {"SSH_AUTH_SOCK": paths[1], "DOCKER_HOST": f"unix://{paths[0]}",
           "DBUS_SESSION_BUS_ADDRESS": f"unix:path={paths[4]},guid=1", "OTHER_SOCK": paths[3]}
    show = ["sh", "-c", "for v in SSH_AUTH_SOCK DOCKER_HOST DBUS_SESSION_BUS_ADDRESS OTHER_SOCK; do "
            "eval echo \\$$v; done"]
    assert world.run("--", *show, cwd=p, env=env).ok().text == "\n\n\n\n"
    world.write(f"{p}/pol", "socket $SSH_AUTH_SOCK\nsocket ${UNSET_HERE}\nsocket /run/not/there\n")
    r = world.run("-p", "pol", "--socket", paths[0], "--socket", paths[4], "--", *show, cwd=p, env=env)
    assert r.ok().text.splitlines() == [env["SSH_AUTH_SOCK"], env["DOCKER_HOST"],
                                        env["DBUS_SESSION_BUS_ADDRESS"], ""], r


def test_through_a_symlink_it_is_found_as_it_is_spelled(world, places):
    p, paths = places
    link = f"{world.home}/link-{os.getpid()}"
    os.symlink(os.path.dirname(paths[2]), world.path(link))
    r = world.run("--socket", f"{link}/s", "--", "/usr/bin/python3", "-c", TRY, f"{link}/s", cwd=p)
    assert reached(r) == [f"{link}/s"], r
    os.unlink(world.path(link))


REFUSED = {"/etc/passwd": "not a socket", "/tmp": "not a socket", "/dev/null": "not a socket",
           "/run/no/such": "does not exist"}


@pytest.mark.parametrize("path", REFUSED)
def test_what_is_no_socket_is_refused_with_the_reason(world, path):
    r = world.run("--socket", path, "--", "true")
    assert r.status == 125 and REFUSED[path] in r.errtext and "--socket" in r.errtext, r


def test_weirs_own_sockets_are_refused(world):
    with world.inside() as sb:
        sb.py("result = 1")
        d = f"{world.runtime}/weir"
        own = [n for n in os.listdir(world.path(d)) if stat.S_ISSOCK(os.stat(
            world.path(f"{d}/{n}")).st_mode)]
        assert own, os.listdir(world.path(d))
        r = world.run("--socket", f"{d}/{own[0]}", "--", "true")
        assert r.status == 125 and "weir's own" in r.errtext, r


def test_the_way_to_a_socket_is_as_private_as_where_it_begins(world):
    path = listen(world, f"{world.runtime}/a/b/s", b"hello")
    r = world.run("--socket", path, "--", "stat", "-c", "%a", world.runtime, f"{world.runtime}/a",
                  f"{world.runtime}/a/b")
    assert r.ok().text.split() == ["700"] * 3, r


def test_a_container_daemons_socket_is_warned_of_in_plain_words(world):
    path = listen(world, f"/run/d{os.getpid()}/docker.sock", b"HTTP/1.0 200 OK\r\n\r\n{}")
    r = world.run("--socket", path, "--", "curl", "-s", "--noproxy", "*", "--unix-socket", path, "http://x/info")
    assert r.ok().text == "{}" and "warning" in r.errtext and "as root" in r.errtext, r


def test_sockets_in_what_may_be_written_are_told(world, places):
    p, _ = places
    w = world.mkdir(f"{world.home}/w{os.getpid()}")
    inside = [listen(world, f"{p}/sub/db.sock"), listen(world, f"{w}/x.sock")]
    rd, wr = os.pipe()
    r = world.run("-v", "-w", w, "--status-fd", str(wr), "--", "/usr/bin/python3", "-c", TRY, *inside,
                  cwd=p, pass_fds=[wr])
    os.close(wr)
    with os.fdopen(rd) as f:
        started = json.loads(f.readline())
    if not reached(r):	# Landlock closes them
        assert "sockets_open" not in [x["event"] for x in r.audit]
        return
    assert started["sockets_open"] == ["sub/db.sock", inside[1]], started
    assert [x["paths"] for x in r.audit if x["event"] == "sockets_open"] == [["sub/db.sock", inside[1]]]
    assert "'sub/db.sock'" in r.errtext and f"'{inside[1]}'" in r.errtext, r


# ---- unix sockets inside ----

INSIDE = """
import asyncio, multiprocessing as mp, os
async def main(path):
    async def echo(r, w):
        w.write(await r.readline())
        await w.drain()
        w.close()
    s = await asyncio.start_unix_server(echo, path)
    r, w = await asyncio.open_unix_connection(path)
    w.write(b"hello\\n")
    print(path, await r.readline())
    w.close()
    s.close()
def double(x):
    return 2 * x
if __name__ == "__main__":
    for p in ("s.sock", "/tmp/s.sock", os.environ["XDG_RUNTIME_DIR"] + "/s.sock", "\\0name"):
        asyncio.run(main(p))
    for how in ("fork", "spawn", "forkserver"):
        with mp.get_context(how).Pool(2) as pool:
            print(how, pool.map(double, range(3)))
    with mp.Manager() as m:
        print(dict(m.dict(a=1)))
"""


def test_unix_sockets_inside_work(world):
    """asyncio, multiprocessing with its servers, abstract names, in P and the private directories"""
    d = world.project()
    world.write(f"{d}/t.py", INSIDE)
    r = world.run("--", "/usr/bin/python3", "t.py", cwd=d).ok()
    assert r.text.count("hello") == 4 and "{'a': 1}" in r.text, r
    assert [h for h in ("fork", "spawn", "forkserver") if f"{h} [0, 2, 4]" in r.text] == [
        "fork", "spawn", "forkserver"], r


@pytest.mark.clients
def test_ssh_agent_with_a_real_key(world):
    need("ssh-agent", "openssh-client")
    d = world.mkdir(f"{world.home}/agent", 0o700)
    world.sh(f"rm -f k k.pub s; ssh-keygen -qt ed25519 -N '' -C the-key -f k; ssh-agent -a {d}/s > out;"
             f"SSH_AUTH_SOCK={d}/s ssh-add -q k", cwd=d)
    pid = world.read(f"{d}/out").split(b"SSH_AGENT_PID=")[1].split(b";")[0].decode()
    try:
        env = {"SSH_AUTH_SOCK": f"{d}/s"}
        r = world.run("--", "ssh-add", "-l", env=env)
        assert r.status == 2, r
        r = world.run("--socket", f"{d}/s", "--", "ssh-add", "-l", env=env)
        assert "the-key" in r.ok().text, r
        r = world.run("--socket", f"{d}/s", "--", "cat", f"{d}/k", env=env)
        assert r.status != 0 and "PRIVATE" not in r.text, r
    finally:
        world.sh(f"kill {pid}")


@pytest.mark.clients
def test_gpg_agent(world):
    need("gpg-agent", "gpg-agent")
    need("gpg-connect-agent", "gpgconf")
    d = world.mkdir(f"{world.home}/.gnupg", 0o700)
    world.sh("gpg-agent --daemon --homedir ~/.gnupg >/dev/null 2>&1")
    path = world.sh("gpgconf --homedir ~/.gnupg --list-dirs agent-socket").stdout.decode().strip()
    try:
        ask = ["gpg-connect-agent", "--no-autostart", "-S", path, "getinfo pid", "/bye"]
        assert world.run("--", *ask).text.count("D ") == 0
        r = world.run("--socket", path, "--", *ask)
        assert r.ok().text.startswith("D "), r
        # gpg looks for it by itself, and at who may read what lies on the way; the key stays outside
        p = world.sh("gpg --batch -q --passphrase '' --quick-gen-key t ed25519 sign never && gpg --export")
        assert p.returncode == 0, p.stderr
        d = world.project()
        world.write(f"{d}/public", p.stdout)
        r = world.run("--socket", path, "--", "sh", "-ec", "gpg -q --import public; echo signed | gpg -q "
                      "--batch --sign | gpg -q --decrypt; ls -A ~/.gnupg", cwd=d)
        assert r.ok().text.startswith("signed\n") and "private-keys" not in r.text, r
        assert "Good signature" in r.errtext, r
    finally:
        world.sh("gpgconf --homedir ~/.gnupg --kill gpg-agent")
    assert d


@pytest.mark.clients
def test_tmux_inside(world):
    need("tmux", "tmux")
    r = world.run("--", "sh", "-ec", "tmux -L t new-session -d 'sleep 60'; tmux -L t ls; tmux -L t "
                  "kill-server", env={"TERM": "screen"})
    assert "1 windows" in r.ok().text, r


# ---- devices ----

@pytest.fixture(scope="module")
def machine():
    """A world whose /dev has a GPU: nodes of a driver that is on every machine, and that does nothing"""
    if not IS_ROOT:
        pytest.skip("making devices needs root")
    w = World(net=False)
    r = w.sh("set -e; mkdir /run/dev; mount -t tmpfs -o mode=755 tmpfs /run/dev; cd /run/dev;"
             "for n in null zero full random urandom tty; do touch $n; mount --bind /dev/$n $n; done;"
             "mkdir dri nvidia-caps pts shm;"
             "for n in dri/renderD128 dri/card0 kfd nvidia0 nvidiactl nvidia-uvm nvidia-caps/nvidia-cap1"
             " other; do mknod -m 666 $n c 10 229; done; mknod -m 666 sda b 7 0;"
             "mknod -m 666 ttyS9 c 4 73; mknod -m 666 mem c 1 1; mknod -m 666 pts/9 c 136 9;"
             "mount --move /run/dev /dev", root=True)
    assert r.returncode == 0, r.stderr
    yield w
    w.close()


OPEN = "import os, sys\nfor p in sys.argv[1:]:\n try: os.open(p, os.O_RDWR); print(p, 'open')\n" \
       " except OSError as e: print(p, e.errno)"
NODES = ["/dev/dri/renderD128", "/dev/kfd", "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm",
         "/dev/nvidia-caps/nvidia-cap1"]
OTHERS = ["/dev/dri/card0", "/dev/other", "/dev/sda", "/dev/mem"]


def opened(r):
    return [ln.split()[0] for ln in r.ok().text.splitlines() if ln.endswith("open")]


def test_no_device_is_there_unless_it_is_named(machine):
    assert opened(machine.run("--", "/usr/bin/python3", "-c", OPEN, *NODES, *OTHERS)) == []


@pytest.mark.parametrize("state", STATES)
def test_device_gpu_is_every_node_of_the_table_and_no_other(machine, state):
    r = machine.run("-n", state, "--device", "gpu", "--", "/usr/bin/python3", "-c", OPEN, *NODES, *OTHERS)
    assert opened(r) == NODES, r
    r = machine.run("-n", state, "--device", "gpu", "--", "sh", "-c", "ls /sys/dev/char /sys/class/drm;"
                    "touch /sys/devices/x; mv /dev/kfd /dev/x; chmod 600 /dev/kfd")
    assert r.status != 0 and ":" in r.text, r
    assert stat.S_IMODE(os.stat(machine.path("/dev/kfd")).st_mode) == 0o666


def test_one_device_as_it_is_spelled(machine):
    rd, wr = os.pipe()
    r = machine.run("--device", "/dev/other", "--status-fd", str(wr), "--", "/usr/bin/python3", "-c", OPEN,
                    *NODES, *OTHERS, pass_fds=[wr])
    os.close(wr)
    assert opened(r) == ["/dev/other"], r
    with os.fdopen(rd) as f:
        assert json.loads(f.readline())["devices"] == ["/dev/other"]


@pytest.mark.parametrize("path,why", [
    ("/dev/sda", "disk"), ("/dev/mem", "memory"), ("/dev/ttyS9", "terminal"),
    ("/dev/pts/9", "terminal"), ("/dev/null", "its own"), ("/etc/passwd", "not a device"),
    ("/dev/nothing", "does not exist"), ("/dev/dri", "not a device")])
def test_other_devices_are_refused_with_the_reason(machine, path, why):
    r = machine.run("--device", path, "--", "true")
    assert r.status == 125 and why in r.errtext and "--device" in r.errtext, r


def test_what_is_not_there_is_inactive_in_a_file_and_an_error_as_an_option(world):
    d = world.project()
    world.write(f"{d}/pol", "device gpu\ndevice /dev/nothing\nsocket /run/nothing\n")
    r = world.run("-v", "-p", "pol", "--", "true", cwd=d).ok()
    assert r.errtext.count("inactive") == 3, r
    r = world.weir("policy", "show", "-p", f"{d}/pol", cwd=d).ok()
    assert r.text.count("inactive") == 3, r
    r = world.run("--device", "gpu", "--", "true", cwd=d)
    assert r.status == 125 and "no GPU" in r.errtext and "/dev/nvidia" in r.errtext, r


# ---- what the host hands over ----

def test_a_device_that_is_kept_is_the_sandboxs_own(world):
    """Through a descriptor of the host's node its owner could change it"""
    fd = os.open("/dev/null", os.O_RDWR)
    try:
        r = world.run("--keep-fd", str(fd), "--", "/usr/bin/python3", "-c",
                      "import os, sys\nfd = int(sys.argv[1])\nos.write(fd, b'x')\n"
                      "own = os.open('/dev/null', os.O_RDWR)\n"
                      "mount = [[ln for ln in open(f'/proc/self/fdinfo/{n}') if 'mnt_id' in ln]\n"
                      "         for n in (fd, own)]\n"
                      "print(os.fstat(fd).st_rdev == os.fstat(own).st_rdev, mount[0] == mount[1])",
                      str(fd), pass_fds=[fd])
        assert r.ok().text == "True True\n", r
    finally:
        os.close(fd)


@pytest.fixture
def elsewhere(world):
    """HOME is not where /etc/passwd has it"""
    d = world.mkdir(f"/srv/elsewhere/{os.path.basename(world.project())}")
    return d, {"HOME": d}


@pytest.mark.parametrize("name", [".bashrc", ".config/systemd", ".local/bin", ".config", ".profile"])
def test_start_up_files_of_the_passwd_home_are_refused_where_HOME_is_another(world, elsewhere, name):
    home, env = elsewhere
    path = f"{world.home}/{name}"
    made = not world.path(path).exists()
    if made and name in (".bashrc", ".profile"):
        world.write(path, "")
    elif made:
        world.mkdir(path)
    r = world.run("-w", path, "--", "true", env=env, cwd=home)
    assert r.status == 125 and "cannot be shared" in r.errtext, r


def test_a_bind_mount_is_no_way_to_the_policy(world):
    """weir's own directory is shown a second time, in the project: neither is shared for writing"""
    if not IS_ROOT:
        pytest.skip("a bind mount on the host needs root")
    w = World(net=False)
    try:
        d = w.project()
        w.mkdir(f"{d}/.weir")
        w.mkdir(f"{d}/conf")
        w.write(f"{d}/conf/policy", "include none\n")
        w.mkdir(f"{w.home}/.config/weir")
        r = w.sh(f"mount --bind {d}/conf {w.home}/.config/weir", root=True)
        assert r.returncode == 0, r.stderr
        attack = "echo 'allow *' >> conf/policy"
        r = w.run("--", "sh", "-c", attack, cwd=d)
        assert w.read(f"{d}/conf/policy") == b"include none\n", r
        for path in (d, f"{d}/conf"):
            r = w.run("-w", path, "--", "sh", "-c", f"cd {d} && {attack}")
            assert r.status == 125 and "weir's own" in r.errtext, r
        assert w.read(f"{d}/conf/policy") == b"include none\n"
        other = w.project()
        assert w.run("--", "touch", "x", cwd=other).status == 0
    finally:
        w.close()
