# SPDX-License-Identifier: ISC
"""weir proxy: the broker alone, for launchers that make their own sandbox"""
import base64
import contextlib
import os
import pathlib
import signal
import socket
import stat
import subprocess
import urllib.parse

import pytest

from origins import tcp as tcp_mod
from test_worker_lies import PAIR
from world import IS_ROOT, PATH, PYTHON, Running, flags, need, wait_until

HOST, OTHER, DENIED = "allowed.example.org", "other.example.org", "denied.example.net"


@pytest.fixture(scope="module")
def net(world):
    world.web = world.http("93.184.216.34", 80, "allowed")
    world.tls = world.http("93.184.216.34", 443, "tls", tls=world.trust(HOST))
    world.second = world.http("93.184.216.35", 80, "other")
    return world


class Proxy(Running):
    """A weir proxy that serves: .url is what it printed"""

    def started(self):
        self.url = self.p.stdout.readline().decode().rstrip("\n")
        assert self.url, self.finish()
        return self

    def stop(self, sig=signal.SIGTERM):
        if self.p.poll() is None:
            os.kill(self.pid, sig)
        return self.finish()


def proxy(world, listen, *args, allow=(f"{HOST}:80,443",), **kw):
    return world.spawn("proxy", "--listen", listen, *flags(allow), *args, kind=Proxy, **kw).started()


def runtime(world):
    return world.mkdir(f"{world.runtime}/{tcp_mod.unique()}", 0o700)


def curl(world, *args, **kw):
    need("curl", "curl")
    words = " ".join(f"'{a}'" for a in args)
    return world.sh(f"curl -sS -m 100 {words}", **kw)


def talk(world, addr, data):
    """Bytes to a listener in the world's host network, read to the end"""
    family = socket.AF_UNIX if isinstance(addr, str) else \
        socket.AF_INET6 if ":" in addr[0] else socket.AF_INET
    s = world.make("host", family, socket.SOCK_STREAM)
    s.settimeout(100)
    s.connect(addr)
    out = b""
    try:
        with contextlib.suppress(BrokenPipeError):	# it may have answered already
            s.sendall(data)
        while True:
            d = s.recv(65536)
            if not d:
                break
            out += d
    except ConnectionResetError:
        pass
    s.close()
    return out


def where(url):
    u = urllib.parse.urlsplit(url)
    return (u.hostname, u.port), u.password


def basic(text):
    return b"Proxy-Authorization: Basic " + base64.b64encode(text.encode()) + b"\r\n"


# ---- TCP: the secret ----

def test_the_printed_url_is_all_that_curl_needs(net):
    with proxy(net, "127.0.0.1:0") as p:
        assert p.url.startswith("http://weir:") and "@127.0.0.1:" in p.url, p.url
        for url in (f"http://{HOST}/plain", f"https://{HOST}/tunnel"):
            r = curl(net, "-x", p.url, url)
            assert r.returncode == 0 and url.rsplit("/", 1)[1].encode() in r.stdout, r
        r = curl(net, "-x", p.url, "-o", "/dev/null", "-w", "%{http_code}", f"http://{DENIED}/")
        assert r.stdout == b"403", r
        d = p.stop()
        assert d.status == 0, d
    assert all(not q.header("proxy-authorization") for q in net.web.requests)
    ends = [r for r in d.audit if r["event"] == "end"]
    assert [e["host"] for e in ends] == [HOST, HOST], ends


CLIENT = """
import base64, socket, sys, urllib.parse
u = urllib.parse.urlsplit(sys.argv[1])
s = socket.create_connection((u.hostname, u.port))
auth = base64.b64encode(f"weir:{u.password}".encode()).decode()
s.sendall(f"CONNECT {sys.argv[2]}:80 HTTP/1.1\\r\\nProxy-Authorization: Basic {auth}\\r\\n\\r\\n".encode())
print(s.recv(12).decode(), flush=True)
sys.stdin.read()
"""


def held(world, url, host):
    """A client outside that keeps its connection until it is ended"""
    return subprocess.Popen(world.enter() + [PYTHON, "-c", CLIENT, url, host], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, env=world.env("/nonexistent"))


def test_a_client_on_this_machine_is_named_and_nobody_else_is(net):
    """Only who is connected to the listener: not whom a worker names that was taken over"""
    with proxy(net, "127.0.0.1:0", "--audit", "client") as p:
        for host, status in ((DENIED, b"403"), (HOST, b"200")):
            c = held(net, p.url, host)
            assert c.stdout.readline().split()[1] == status
            r = p.wait_audit(lambda r, h=host: r["event"] == "verdict" and r["host"] == h)[0]
            c.communicate()
            assert r["client"]["pid"] == c.pid and r["client"]["argv0"] == PYTHON, r
        p.stop()
    pair = subprocess.Popen(net.enter() + [PYTHON, "-c", PAIR + "print(flush=True)\ninput()"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert pair.stdout.readline() == b"\n", "the connection is not there"
        with proxy(net, "127.0.0.1:0", test=True, env={"WEIR_TEST_MISBEHAVE": "false-ends"}) as p:
            c = held(net, p.url, "misbehave.example.net")
            assert c.stdout.readline().split()[1] == b"403"
            r = p.wait_audit(lambda r: r["event"] == "verdict")[0]
            c.communicate()
            assert "client" not in r and r["host"] == "misbehave.example.net", r
            p.stop()
    finally:
        pair.communicate(b"\n")


def test_pythons_urllib_works_with_the_printed_url(net):
    with proxy(net, "127.0.0.1:0") as p:
        code = (f"import urllib.request as u; o = u.build_opener(u.ProxyHandler({{'http': {p.url!r}, "
                f"'https': {p.url!r}}})); print(o.open('http://{HOST}/py').read(), "
                f"o.open('https://{HOST}/tls').read())")
        r = net.sh(f"exec {PYTHON} -c \"{code}\"")
        assert b"allowed /py" in r.stdout and b"tls /tls" in r.stdout, r


@pytest.mark.parametrize("auth", ["missing", "wrong", "shorter", "longer", "user", "bearer", "twice",
                                  "junk", "empty"])
@pytest.mark.parametrize("line", [f"GET http://{HOST}/ HTTP/1.1", f"CONNECT {HOST}:443 HTTP/1.1",
                                  f"GET http://{DENIED}/ HTTP/1.1", "GET / HTTP/1.1",
                                  "GET http://a b/ HTTP/9.9", "CONNECT [::1:0 HTTP/1.1"])
def test_without_the_secret_everything_is_407(shared, auth, line):
    """before anything else is judged: what it would have been cannot be told"""
    net, p = shared
    addr, secret = where(p.url)
    field = {"missing": b"", "wrong": basic("weir:" + "x" * 32), "shorter": basic("weir:" + secret[:-1]),
             "longer": basic("weir:" + secret + "x"), "user": basic(secret + ":"),
             "bearer": b"Proxy-Authorization: Bearer " + secret.encode() + b"\r\n",
             "twice": basic("weir:" + secret) + basic("weir:wrong"),
             "junk": b"Proxy-Authorization: Basic !!!!\r\n",
             "empty": b"Proxy-Authorization: Basic \r\n"}[auth]
    asked, web = net.dns.mark(), net.web.count
    out = talk(net, addr, line.encode() + b"\r\nHost: x\r\n" + field + b"\r\n")
    assert out.startswith(b"HTTP/1.1 407 Proxy Authentication Required\r\n"), out
    assert b'\r\nProxy-Authenticate: Basic realm="weir"\r\n' in out, out
    assert net.dns.mark() == asked and net.web.count == web
    assert secret.encode() not in out
    last = p.wait_audit(lambda r: r["event"] == "verdict")[-1]
    assert last["reason"] == "proxy_auth" and "host" not in last, last


@pytest.fixture
def shared(net):
    with proxy(net, "127.0.0.1:0") as p:
        yield net, p
        d = p.stop()
        assert where(p.url)[1] not in d.errtext
        log = net.read(f"{p.state}/weir/audit.jsonl").decode()
        assert where(p.url)[1] not in log


def test_the_secret_is_asked_for_by_every_request_of_a_connection(shared):
    net, p = shared
    addr, secret = where(p.url)
    req = f"GET http://{HOST}/k HTTP/1.1\r\nHost: x\r\n".encode()
    out = talk(net, addr, req + basic("anyone:" + secret) + b"\r\n" + req + b"\r\n")
    assert out.count(b"HTTP/1.1 200") == 1 and out.count(b"HTTP/1.1 407") == 1, out


def test_socks_is_no_way_around_the_secret(shared):
    net, p = shared
    addr, _ = where(p.url)
    before = net.web.count
    out = talk(net, addr, b"\x05\x01\x00" + b"\x05\x01\x00\x03" + bytes([len(HOST)]) + HOST.encode() +
               b"\x00\x50" + b"GET / HTTP/1.0\r\n\r\n")
    assert out in (b"", b"\x05\xff"), out
    assert net.web.count == before


def test_the_secret_is_on_no_command_line_and_in_no_environment(shared):
    _, p = shared
    secret = where(p.url)[1].encode()
    assert secret not in pathlib.Path(f"/proc/{p.pid}/cmdline").read_bytes()
    environ = pathlib.Path(f"/proc/{p.pid}/environ")
    try:
        assert secret not in environ.read_bytes()
    except PermissionError:
        assert not IS_ROOT  # not even the user reads a locked process's


def test_each_start_has_a_secret_of_its_own(net):
    with proxy(net, "127.0.0.1:0") as a, proxy(net, "[::1]:0") as b:
        assert where(a.url)[1] != where(b.url)[1]
        assert b.url.split("@")[1].startswith("[::1]:")
        addr, _ = where(a.url)
        out = talk(net, addr, f"GET http://{HOST}/ HTTP/1.1\r\nHost: x\r\n".encode() +
                   basic("weir:" + where(b.url)[1]) + b"\r\n")
        assert out.startswith(b"HTTP/1.1 407"), out
        assert curl(net, "-x", b.url, f"http://{HOST}/six").stdout == b"allowed /six\n"


def test_the_url_goes_to_the_descriptor_that_was_named(net):
    r, w = os.pipe()
    p = net.spawn("proxy", "--listen", "127.0.0.1:0", "--url-fd", str(w), *flags([HOST]), kind=Proxy,
                  pass_fds=[w])
    os.close(w)
    with p, os.fdopen(r) as f:
        text = f.read()
        assert text.startswith("http://weir:") and text.count("\n") == 1, text
        assert curl(net, "-x", text.strip(), f"http://{HOST}/fd").stdout == b"allowed /fd\n"
        d = p.stop()
        assert d.out == b"", d


# ---- two launchers ----

def test_two_launchers_proxies_have_policies_and_records_of_their_own(net):
    with proxy(net, "127.0.0.1:0", "--name", "one", allow=[f"{HOST}:80"]) as a, \
            proxy(net, "127.0.0.1:0", "--name", "two", allow=[f"{OTHER}:80"], state=a.state) as b:
        for p, good, bad in ((a, HOST, OTHER), (b, OTHER, HOST)):
            assert curl(net, "-x", p.url, f"http://{good}/x").stdout.endswith(b"/x\n")
            assert curl(net, "-x", p.url, "-o", "/dev/null", "-w", "%{http_code}",
                        f"http://{bad}/x").stdout == b"403"
        a.stop()
        b.stop()
    got = {(r["name"], r["host"], r["verdict"]) for r in a.audit if r["event"] == "verdict"}
    assert got == {("one", HOST, "allow"), ("one", OTHER, "deny"), ("two", OTHER, "allow"),
                   ("two", HOST, "deny")}, got
    assert len({r["sandbox"] for r in a.audit}) == 2


# ---- unix ----

def test_a_unix_socket_needs_no_secret_and_is_the_users_alone(net):
    path = f"{runtime(net)}/proxy"
    with proxy(net, f"unix:{path}") as p:
        assert p.url == f"unix:{path}"
        st = os.stat(net.path(path))
        assert stat.S_ISSOCK(st.st_mode) and stat.S_IMODE(st.st_mode) == 0o600 and \
            st.st_uid == net.uid, oct(st.st_mode)
        script = f"""
import socket
def go(d):
    s = socket.socket(socket.AF_UNIX); s.settimeout(100); s.connect({path!r}); s.sendall(d)
    out = b''
    while True:
        x = s.recv(65536)
        if not x: return out
        out += x
big = b'x' * 300000
print(go(b'GET http://{HOST}/u HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n'))
print(go(b'CONNECT {HOST}:80 HTTP/1.1\\r\\n\\r\\nGET /t HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n'))
print(go(b'POST http://{HOST}/b HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\nContent-Length: 300000\\r\\n\\r\\n' + big))
print(go(b'GET http://{DENIED}/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' + big[:200000]))
print(go(b'HEAD split'[:4] + b' http://{HOST}/h HTTP/1.0\\r\\n\\r\\n'))
"""
        net.write("/srv/client.py", script, root=True)
        r = net.sh(f"{PYTHON} /srv/client.py")
        lines = r.stdout.split(b"\n")
        assert b"allowed /u" in lines[0] and b"200 Connection established" in lines[1] and \
            b"allowed /t" in lines[1] and b"allowed /b" in lines[2] and b" 403 " in lines[3] and \
            b" 200 " in lines[4], r
        assert len([q for q in net.web.requests if q.target == "/b"][0].body) == 300000
        d = p.stop()
        assert d.status == 0, d
    assert not os.path.exists(net.path(path))


def test_a_unix_socket_refuses_another_uid(net):
    if not IS_ROOT:
        pytest.skip("becoming another user needs root")
    path = f"{runtime(net)}/proxy"
    with proxy(net, f"unix:{path}") as p:
        os.chmod(net.path(path), 0o666)
        os.chmod(net.path(os.path.dirname(path)), 0o755)
        os.chmod(net.path(net.runtime), 0o755)
        code = (f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{path}'); "
                f"s.sendall(b'GET http://{HOST}/ HTTP/1.0\\r\\n\\r\\n'); print(s.recv(100))")
        argv = ["/usr/bin/nsenter", f"--target={net.pid}", "--mount", "--net", "/usr/bin/setpriv",
                "--reuid=64999", "--regid=64999", "--clear-groups", PYTHON, "-c", code]
        r = subprocess.run(argv, capture_output=True, check=False, timeout=100, env={"PATH": PATH})
        assert r.stdout.strip() in (b"b''", b"") and b" 200 " not in r.stdout, r
        assert b"BrokenPipe" in r.stderr or b"Reset" in r.stderr or r.stdout.strip() == b"b''", r
        p.stop()


def test_a_directory_that_others_can_enter_is_refused(net):
    d = net.mkdir(f"{net.home}/open-{tcp_mod.unique()}", 0o755)
    r = net.weir("proxy", "--listen", f"unix:{d}/proxy")
    assert r.status == 125 and "can be entered by others" in r.errtext and r.out == b"", r


def test_a_missing_directory_is_made_for_the_user_alone(net):
    d = f"{runtime(net)}/new"
    with proxy(net, f"unix:{d}/proxy") as p:
        assert stat.S_IMODE(os.stat(net.path(d)).st_mode) == 0o700
        p.stop()


def test_a_socket_in_use_is_refused_and_a_stale_one_replaced(net):
    path = f"{runtime(net)}/proxy"
    with proxy(net, f"unix:{path}") as p:
        r = net.weir("proxy", "--listen", f"unix:{path}")
        assert r.status == 125 and "in use" in r.errtext, r
        os.kill(p.pid, signal.SIGKILL)
        p.finish()
    assert os.path.exists(net.path(path))
    with proxy(net, f"unix:{path}") as p:
        p.stop()
    assert not os.path.exists(net.path(path))
    net.write(path, "a file")
    r = net.weir("proxy", "--listen", f"unix:{path}")
    assert r.status == 125 and "no socket" in r.errtext and net.read(path) == b"a file", r


def test_a_killed_one_is_followed_at_once(net):
    """its worker holds the listener for a moment: nobody has to wait and try again"""
    for listen in (f"unix:{runtime(net)}/proxy", "127.0.0.1:0"):
        with proxy(net, listen) as p:
            again = listen if listen.startswith("unix:") else "127.0.0.1:%d" % where(p.url)[0][1]
            held = hold(net, p.url)
            os.kill(p.pid, signal.SIGKILL)
            with proxy(net, again) as q:
                d = q.stop()
                assert d.status == 0, d
            held.close()
            p.finish()


def hold(world, url):
    """a client that is connected when the proxy dies"""
    unix = url.startswith("unix:")
    s = world.make("host", socket.AF_UNIX if unix else socket.AF_INET, socket.SOCK_STREAM)
    s.connect(str(world.path(url[5:])) if unix else where(url)[0])
    return s


def test_the_socket_of_a_successor_stays(net):
    path = f"{runtime(net)}/proxy"
    with proxy(net, f"unix:{path}") as p:
        os.rename(net.path(path), net.path(path + ".old"))
        with proxy(net, f"unix:{path}") as q:
            assert p.stop().status == 0
            assert stat.S_ISSOCK(os.stat(net.path(path)).st_mode)
            q.stop()
    assert not os.path.exists(net.path(path))


def test_the_url_of_a_socket_is_one_line(net):
    d = runtime(net)
    r = net.weir("proxy", "--listen", f"unix:{d}/a\nb")
    assert r.status == 125 and "control character" in r.errtext and r.out == b"", r
    assert not os.listdir(net.path(d))


def test_a_relative_socket_below_run_user(net):
    """weir run starts nothing there; weir proxy runs no command"""
    d = runtime(net)
    with proxy(net, "unix:rel", cwd=d) as p:
        assert p.url == f"unix:{d}/rel"
        assert p.stop().status == 0


# ---- life and options ----

@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_it_runs_until_it_is_told_to_stop_and_leaves_nothing(fresh, sig):
    fresh.http("93.184.216.34", 80, "allowed")
    with proxy(fresh, "127.0.0.1:0") as p:
        assert curl(fresh, "-x", p.url, f"http://{HOST}/x").returncode == 0
        addr, secret = where(p.url)
        s = fresh.make("host", socket.AF_INET, socket.SOCK_STREAM)
        s.settimeout(100)
        s.connect(addr)
        s.sendall(f"CONNECT {HOST}:80 HTTP/1.1\r\n".encode() + basic("w:" + secret) + b"\r\n")
        assert b" 200 " in s.recv(100)
        d = p.stop(sig)
        assert d.status == 0, d
        s.close()
    assert d.audit[-1]["event"] == "exit" and d.audit[0]["event"] == "start", d.audit
    assert [r["reason"] for r in d.audit if r["event"] == "end"][-1] == "shutdown"
    fresh.assert_clean()


def test_a_killed_worker_is_replaced(fresh):
    fresh.http("93.184.216.34", 80, "allowed")
    from world import children
    with proxy(fresh, "127.0.0.1:0") as p:
        assert curl(fresh, "-x", p.url, f"http://{HOST}/x").returncode == 0
        nursery = children(p.pid)[0]
        worker = children(nursery)[0]
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: [k for k in children(nursery) if k != worker], 10, "a new worker")
        assert curl(fresh, "-x", p.url, f"http://{HOST}/x").returncode == 0
        os.kill(p.pid, signal.SIGKILL)
        p.finish()
    fresh.assert_clean()


@pytest.mark.parametrize("args,text", [
    ([], "where to listen"),
    (["--listen", "10.77.0.1:0"], "not loopback"),
    (["--listen", "0.0.0.0:0"], "not loopback"),
    (["--listen", "127.0.0.1:99999"], "neither unix:PATH nor"),
    (["--listen", "localhost:80"], "neither unix:PATH nor"),
    (["--listen", "::1:80"], "neither unix:PATH nor"),
    (["--listen", "127.0.0.1:0", "-n", "deny"], "network allowlist"),
    (["--listen", "127.0.0.1:0", "-n", "allow"], "network allowlist"),
    (["--listen", "127.0.0.1:0", "--", "cat"], "one word too many"),
    (["--listen", "127.0.0.1:0", "--url-fd", "77"], "--url-fd 77"),
    (["--listem", "127.0.0.1:0"], "did you mean '--listen'"),
])
def test_what_it_cannot_do_is_an_error_before_anything_listens(net, args, text):
    r = net.weir("proxy", *args)
    assert r.status == 125 and text in r.errtext and r.out == b"", r


def test_other_addresses_need_a_word_and_get_a_warning(net):
    with proxy(net, "10.77.0.1:0", "--expose") as p:
        assert "@10.77.0.1:" in p.url
        assert curl(net, "-x", p.url, f"http://{HOST}/x").stdout == b"allowed /x\n"
        d = p.stop()
        assert "warning: other machines" in d.errtext, d
