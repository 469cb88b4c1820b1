# SPDX-License-Identifier: ISC
"""publish and reach: a port of the sandbox on the host, and a port of the host in the sandbox."""
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import threading

import pytest

from origins.tcp import echo, pattern
from test_policy_commands import check, schema
from world import PYTHON, Procs, alive, flags, need, open_files, verdicts, wait_until

HOST = "allowed.example.org"


@pytest.fixture(scope="module")
def net(world):
    world.echo = world.listen("127.0.0.1", 7100, echo)
    world.allowed = world.http("93.184.216.34", 80)
    return world


class Started:
    """A sandbox whose --status-fd has said `started`"""

    def __init__(self, net, *args, kind="inside", cmd=(), **kw):
        a, b = os.pipe()
        if kind == "inside":
            self.sb = net.inside("--status-fd", str(b), *args, pass_fds=[b], **kw)
        else:
            self.sb = net.spawn("run", *flags(()), "--status-fd", str(b), *args, "--", *cmd,
                                pass_fds=[b], **kw)
        os.close(b)
        self.f = os.fdopen(a)

    def __enter__(self):
        line = self.f.readline()
        if not line:
            raise AssertionError(self.sb.p.stderr.read())
        self.started = json.loads(line)
        check(self.started, schema("status"))
        assert self.started["event"] == "started"
        self.ports = {p["inside"]: p["port"] for p in self.started["ports"]}
        return self

    def ended(self):
        o = json.loads(self.f.readline())
        check(o, schema("status"))
        assert o["event"] == "exited" and self.f.readline() == ""
        return o["status"]

    def __exit__(self, *a):
        self.sb.kill()
        self.f.close()


def dial(net, port, addr="127.0.0.1"):
    """A client on the host, outside the sandbox"""
    s = net.make("host", socket.AF_INET6 if ":" in addr else socket.AF_INET, socket.SOCK_STREAM)
    s.settimeout(100)
    s.connect((addr, port))
    return s


def assert_reset(net, port):
    """The reset may come so soon that connect() sees it"""
    with pytest.raises(ConnectionResetError):
        s = dial(net, port)
        try:
            s.sendall(b"x")
            s.recv(1)
        finally:
            s.close()


RESET = """
def reset_of(port):
    try:
        s = socket.create_connection(("127.0.0.1", port), timeout=60)
        return s.recv(1)
    except OSError as e:
        return errno.errorcode[e.errno]
"""


def free_port(net, addr="127.0.0.1"):
    s = net.make("host", socket.AF_INET, socket.SOCK_STREAM, bind=(addr, 0))
    port = s.getsockname()[1]
    s.close()
    return port


SERVER = """
import threading
L = []
def serve(port, addr="127.0.0.1", what="echo"):
    fam = socket.AF_INET6 if ":" in addr else socket.AF_INET
    l = socket.socket(fam); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    l.bind((addr, port)); l.listen(512); L.append(l)
    def one(c):
        try:
            if what == "echo":
                while True:
                    d = c.recv(262144)
                    if not d: break
                    c.sendall(d)
                c.shutdown(socket.SHUT_WR)
            elif what == "count":
                n = 0
                while True:
                    d = c.recv(262144)
                    if not d: break
                    n += len(d)
                c.sendall(str(n).encode())
            elif what == "reset":
                c.recv(1); reset(c); return
            c.close()
        except OSError: pass
    def loop():
        while True:
            try: c, _ = l.accept()
            except OSError: return
            threading.Thread(target=one, args=(c,), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()
"""


# ---- publish ----

def test_a_published_port_is_the_sandboxs_and_both_verdict_and_end_are_recorded(net):
    port = free_port(net)
    with Started(net, "--publish", f"{port}:8000") as x:
        assert x.started["ports"] == [{"kind": "publish", "address": "127.0.0.1", "port": port,
                                       "inside": 8000}]
        assert x.started["holes"] == [{"what": "publish", "line": f"publish {port}:8000",
                                       "where": "--publish"}]
        x.sb.py(SERVER + "\nserve(8000)\nresult = 1")
        s = dial(net, port)
        s.sendall(b"x" * 70000)
        got = b""
        while len(got) < 70000:
            got += s.recv(65536)
        s.shutdown(socket.SHUT_WR)
        assert s.recv(1) == b""
        s.close()
        (end,) = x.sb.wait_audit(lambda r: r["event"] == "end")
        (v,) = verdicts(x.sb.audit)
        assert (v["proto"], v["host"], v["port"], v["verdict"]) == ("publish", "127.0.0.1", 8000,
                                                                    "allow")
        assert v["rule"] == {"file": "--publish", "text": f"publish {port}:8000"}
        assert v["peer"] == "127.0.0.1"
        assert (end["id"], end["up"], end["down"], end["reason"]) == (v["id"], 70000, 70000,
                                                                      "closed")
        assert x.sb.close().status == 0 and x.ended() == 0
    net.assert_clean()


def test_port_0_and_several_sandboxes_and_lines_of_a_file(net):
    path = net.write(f"{net.home}/pub.policy", "publish 0:8000\npublish [::1]:0:8000\nreach 7100\n")
    with Started(net, "-p", path) as a, Started(net, "-p", path) as b:
        assert len({p["port"] for y in (a, b) for p in y.started["ports"]}) == 5	# reach is one
        assert [p["address"] for p in a.started["ports"]] == ["127.0.0.1", "::1", "127.0.0.1"]
        assert a.started["holes"][1] == {"what": "publish", "line": "publish [::1]:0:8000",
                                         "where": f"{path}:2"}
        for y, word in ((a, b"aaaa"), (b, b"bbbb")):
            y.sb.py(SERVER + "\nserve(8000)\nresult = 1")
            for p in y.started["ports"][:2]:
                s = dial(net, p["port"], p["address"])
                s.sendall(word)
                assert s.recv(4) == word
                s.close()
        listed = json.loads(net.weir("ps", "--json").ok().text)
        check(listed, schema("ps"))
        assert {o["id"]: o["ports"] for o in listed} == {y.started["id"]: y.started["ports"]
                                                         for y in (a, b)}
        assert a.sb.close().status == 0 and b.sb.close().status == 0


def test_a_server_that_listens_on_ipv6_alone_is_published_too(net):
    """What vite and other dev servers do for `localhost`"""
    with Started(net, "--publish", "0:8000") as x:
        x.sb.py(SERVER + "\nserve(8000, '::1')\nresult = 1")
        s = dial(net, x.ports[8000])
        s.sendall(b"ping")
        assert s.recv(4) == b"ping"
        s.close()
        (end,) = x.sb.wait_audit(lambda r: r["event"] == "end")
        assert end["addr"] == "::1"


def test_nothing_listens_inside_is_a_reset_and_never_the_hosts_own_port(net):
    """The same address and port of the host is another place, and stays unreached"""
    with Started(net, "--publish", "0:7100") as x:
        before = net.echo.count
        assert_reset(net, x.ports[7100])
        (end,) = x.sb.wait_audit(lambda r: r["event"] == "end")
        assert end["reason"] == "connect_refused" and end["up"] == end["down"] == 0
        assert net.echo.count == before
        assert not [r for r in x.sb.audit if r["event"] == "worker_connect_refused"]


def test_a_client_that_tries_until_the_server_is_there_fills_no_log(net):
    """a debugger's, or a notebook's, five ports at a time"""
    with Started(net, "--publish", "0:8000") as x:
        for _ in range(200):
            assert_reset(net, x.ports[8000])
        x.sb.py(SERVER + "\nserve(8000)\nresult = 1")
        for _ in range(2):
            s = dial(net, x.ports[8000])
            s.sendall(b"ping")
            assert s.recv(4) == b"ping"
            s.close()
        x.sb.wait_audit(lambda r: r["event"] == "end" and r["reason"] != "connect_refused")
        done = x.sb.finish()
    told = [r for r in done.audit if r["event"] == "publish_unanswered"]
    assert [(r["port"], r["count"]) for r in told] == [(8000, 199)], told
    ends = [r["reason"] for r in done.audit if r["event"] == "end"]
    assert len(ends) == 3 and ends.count("connect_refused") == 1, ends
    got = verdicts(done.audit)
    assert [r["proto"] for r in got] == ["publish"] * 3
    assert {r["id"] for r in got} == {r["id"] for r in done.audit if r["event"] == "end"}
    seqs = [r["seq"] for r in done.audit]
    assert seqs == list(range(1, len(seqs) + 1)), "none is missing"


def test_loopback_only_unless_an_address_is_given(net):
    port = free_port(net)
    with Started(net, "--publish", f"{port}:8000") as x:
        x.sb.py(SERVER + "\nserve(8000)\nresult = 1")
        for addr in ("10.77.0.1", "fd77::1"):
            with pytest.raises(ConnectionRefusedError):
                dial(net, port, addr)
        dial(net, port).close()
    with Started(net, "--publish", f"10.77.0.1:{port}:8000") as x:
        x.sb.py(SERVER + "\nserve(8000)\nresult = 1")
        s = dial(net, port, "10.77.0.1")
        s.sendall(b"ping")
        assert s.recv(4) == b"ping"
        s.close()
        x.sb.wait_audit(lambda r: r["event"] == "end")
        assert verdicts(x.sb.audit)[0]["peer"] == "10.77.0.1"
        with pytest.raises(ConnectionRefusedError):
            dial(net, port)


def test_a_busy_port_is_an_error_that_names_the_owner_before_the_command_starts(net):
    marker = f"{net.home}/ran"
    cmd = ("--", "touch", marker)
    r = net.run("--publish", "7100:80", *cmd)	# held by the test's own process, root's
    assert r.status == 125 and "--publish: 127.0.0.1:7100 is in use" in r.errtext, r
    assert "7101:80" in r.errtext and "0:80" in r.errtext
    port = free_port(net)
    with net.spawn("run", *flags(()), "--name", "first", "--publish", f"{port}:80", "--", "sleep",
                   "1000") as one:
        o = wait_until(lambda: json.loads(net.weir("ps", "--json").ok().text), 10)
        r = net.run("--publish", f"{port}:80", *cmd)
        assert r.status == 125 and f"in use by sandbox {o[0]['id']} first" in r.errtext, r
        os.kill(one.pid, signal.SIGTERM)
        assert one.p.wait(60) == 143
    own = subprocess.Popen(net.enter() + [PYTHON, "-c", f"""
import socket
s = socket.socket(); s.bind(("127.0.0.1", {port})); s.listen(1); print("up", flush=True)
s.accept()"""], stdout=subprocess.PIPE)
    try:
        assert own.stdout.readline() == b"up\n"
        r = net.run("--publish", f"{port}:80", *cmd)
        assert r.status == 125 and re.search(r"in use by python3 \(pid \d+\)", r.errtext), r
    finally:
        own.kill()
        own.wait()
    net.run("--publish", f"{port}:80", "--", "true").ok()	# and free again at once
    assert not net.path(marker).exists()


@pytest.mark.parametrize("args,text", [
    (["--publish", "80"], "listen on 127.0.0.1:80: Permission denied"),
    (["--publish", "192.0.2.9:8000"], "listen on 192.0.2.9:8000: Cannot assign requested address"),
    (["--publish", "8000", "--publish", "8000:81"], "port 8000 is taken by --publish"),
    (["--reach", "8000", "--reach", "8000:81"], "port 8000 is taken by --reach"),
    (["-n", "deny", "--publish", "8000"], "--publish: not with network deny"),
    (["-n", "allow", "--reach", "8000"], "--reach: not with network allow"),
    (["--publish", "3128"], "port 3128 inside is the sandbox's own proxy"),
    (sum([["--reach", str(p)] for p in range(9000, 9017)], []), "more than 16"),
])
def test_what_cannot_be_published_is_an_error(net, args, text):
    r = net.run(*args, "--", "true")
    assert r.status == 125 and text in r.errtext, r


def test_lines_of_files_are_inactive_in_other_states_and_may_repeat(net):
    path = net.write(f"{net.home}/twice.policy", "publish 0:80\nreach 7100\nreach 7100\n")
    for state in ("deny", "allow"):
        r = net.weir("run", "-n", state, "-v", "-p", path, "--", "true").ok()
        assert r.errtext.count(f"inactive with network {state}") == 3, r
    with Started(net, "-p", path, "-p", path) as x:
        assert [p["kind"] for p in x.started["ports"]].count("reach") == 1


def test_half_close_and_reset_pass_both_ways(net):
    with Started(net, "--publish", "0:8000", "--publish", "0:8001") as x:
        x.sb.py(SERVER + "\nserve(8000, what='count')\nserve(8001, what='reset')\nresult = 1")
        s = dial(net, x.ports[8000])
        s.sendall(b"z" * 3_000_000)
        s.shutdown(socket.SHUT_WR)
        assert s.recv(100) == b"3000000"
        s.close()
        s = dial(net, x.ports[8001])
        s.sendall(b"1")
        with pytest.raises(ConnectionResetError):
            s.recv(1)
        s.close()
        x.sb.wait_audit(lambda r: r.get("reason") == "origin_reset")


def test_curl_fetches_100_mb_from_a_published_http_server(net):
    need("curl", "curl")
    cwd = net.project()
    data = pattern(0, 100_000_000)
    net.path(f"{cwd}/big").write_bytes(data)
    with Started(net, "--publish", "0:8000", kind="run", cwd=cwd,
                 cmd=[PYTHON, "-m", "http.server", "8000", "--bind", "127.0.0.1"]) as x:
        url = f"http://127.0.0.1:{x.ports[8000]}/"
        wait_until(lambda: net.sh(f"curl -sS -f {url}").returncode == 0, 10, "the server")
        p = net.sh(f"for i in 1 2; do curl -sS -f {url}big | sha256sum & done; wait")
        want = hashlib.sha256(data).hexdigest()
        assert p.stdout.decode().split() == [want, "-"] * 2, p
        wait_until(lambda: len([r for r in x.sb.audit if r["event"] == "end" and
                                r["down"] > 100_000_000]) == 2, 10, "both ends")
        os.kill(x.sb.pid, signal.SIGTERM)
        x.sb.p.wait(60)
    net.assert_clean()


def test_200_at_once_and_no_descriptor_left(net):
    with Started(net, "--publish", "0:8000") as x:
        x.sb.py(SERVER + "\nserve(8000)\nresult = 1")
        procs = x.sb.procs()
        fds = lambda: open_files(procs.monitor, procs.worker, procs.shim)	# noqa: E731
        dial(net, x.ports[8000]).close()
        x.sb.wait_audit(lambda r: r["event"] == "end")
        before, errors = fds(), []

        def one(i):
            try:
                word = b"%06d" % i * 1000
                s = dial(net, x.ports[8000])
                s.sendall(word)
                got = b""
                while len(got) < len(word):
                    got += s.recv(65536)
                assert got == word
                s.close()
            except (OSError, AssertionError) as e:
                errors.append(e)
        ts = [threading.Thread(target=one, args=(i,)) for i in range(200)]
        for t in ts:
            t.start()
        for t in ts:
            t.join()
        assert not errors
        assert len(x.sb.wait_audit(lambda r: r["event"] == "end")) > 0
        wait_until(lambda: len([r for r in x.sb.audit if r["event"] == "end"]) == 201, 10,
                   "every end")
        wait_until(lambda: all(n <= o + 8 for n, o in zip(fds(), before)), 5,
                   f"descriptors as before: {before}")	# pooled pipes stay


def test_clients_that_leave_at_once_leave_nothing(net):
    with Started(net, "--publish", "0:8000") as x:
        x.sb.py(SERVER + "\nserve(8000)\nresult = 1")
        procs = x.sb.procs()
        count = lambda: open_files(procs.monitor, procs.worker, procs.shim)	# noqa: E731
        dial(net, x.ports[8000]).close()
        x.sb.wait_audit(lambda r: r["event"] == "end")
        before = count()
        for i in range(300):
            s = dial(net, x.ports[8000])
            if i % 2:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            s.close()
        s = dial(net, x.ports[8000])
        s.sendall(b"last")
        assert s.recv(4) == b"last"
        s.close()
        wait_until(lambda: all(n <= o + 8 for n, o in zip(count(), before)), 10,
                   f"descriptors as before: {before}")


def test_the_connection_limit_counts_published_ones(net):
    path = net.write(f"{net.home}/limit.policy", "limit connections 5\n")
    with Started(net, "-p", path, "--publish", "0:8000") as x:
        x.sb.py(SERVER + "\nserve(8000)\nresult = 1")
        held = []
        for _ in range(5):
            s = dial(net, x.ports[8000])
            s.sendall(b"x")
            assert s.recv(1) == b"x"
            held.append(s)
        assert_reset(net, x.ports[8000])
        held.pop().close()
        x.sb.wait_audit(lambda r: r["event"] == "end")

        def works():
            s = dial(net, x.ports[8000])
            try:
                s.sendall(b"x")
                return s.recv(1) == b"x"
            except OSError:
                return False
        wait_until(works, 5, "room again")


# ---- reach ----

def test_reach_is_one_port_of_the_hosts_loopback_and_no_other(net):
    other = net.listen("127.0.0.1", 7101)
    with Started(net, "--reach", "5000:7100") as x:
        assert x.started["ports"] == [{"kind": "reach", "address": "127.0.0.1", "port": 7100,
                                       "inside": 5000}]
        got = x.sb.py("""
            out = []
            for addr in ("127.0.0.1", "::1", "localhost"):
                s = socket.create_connection((addr, 5000), timeout=60)
                s.sendall(b"ping"); out.append(s.recv(4)); s.close()
            result = out, [dial("127.0.0.1", p) for p in (7100, 7101)]
        """)
        assert got == ([b"ping"] * 3, ["ECONNREFUSED"] * 2)
        # not through the proxy either
        assert x.sb.py("result = refused('127.0.0.1:7100')[0]") == 403
        ends = wait_until(lambda: (lambda e: e if len(e) == 3 else None)(
            [r for r in x.sb.audit if r["event"] == "end"]), 10)
        assert {(r["proto"], r["host"], r["port"], r["up"], r["down"]) for r in ends} == \
            {("reach", "127.0.0.1", 7100, 4, 4)}
        assert all(v["rule"]["text"] == "reach 5000:7100" for v in verdicts(x.sb.audit)[:3])
    net.nothing_reached(other)


def test_reach_where_nothing_listens_is_a_reset(net):
    with Started(net, "--reach", "5000:7199") as x:
        assert x.sb.py(RESET + "\nresult = reset_of(5000)") == "ECONNRESET"
        x.sb.wait_audit(lambda r: r["event"] == "end" and r["reason"] == "connect_refused")


def test_a_deny_rule_beats_reach_and_a_live_edit_cuts_it(net):
    r = net.run("--reach", "5000:7100", "--deny", "127.0.0.0/8", "--", PYTHON, "-c", """
import socket
try: print(socket.create_connection(("127.0.0.1", 5000), timeout=60).recv(1))
except ConnectionResetError: print("reset")
""")
    assert r.ok().text == "reset\n" and "127.0.0.1:7100" in r.errtext, r
    path = net.write(f"{net.home}/live.policy", "reach 5000:7100\n")
    with Started(net, "-p", path) as x:
        x.sb.py("""
            s = socket.create_connection(("127.0.0.1", 5000), timeout=60)
            s.sendall(b"ping"); assert s.recv(4) == b"ping"; result = 1
        """)
        net.edit(path, "reach 5000:7100\nallow a.example.org\n")
        x.sb.wait_audit(lambda r: r["event"] == "policy_reloaded")
        assert x.sb.py("s.sendall(b'more'); result = s.recv(4)") == b"more", "not cut by an edit"
        net.edit(path, "deny 127.0.0.1\nreach 5000:7100\nreach 5001:7100\n")
        got = x.sb.py("""
            try: result = s.recv(1)
            except OSError as e: result = errno.errorcode[e.errno]
        """)
        assert got == "ECONNRESET"
        (rec,) = [r for r in x.sb.audit if r["event"] == "policy_reloaded" and r["cut"] == 1]
        assert rec["next_start"] == ["publish and reach"]


def test_redis_of_the_host_is_reached(net):
    need("redis-server", "redis-server")
    port = free_port(net)
    srv = subprocess.Popen(net.enter() + ["redis-server", "--port", str(port), "--bind", "127.0.0.1",
                                          "--save", "", "--daemonize", "no"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        for line in srv.stdout:
            if b"eady to accept" in line:
                break
        r = net.run("--reach", f"6379:{port}", "--", "sh", "-c", """
            redis-cli set k "$(head -c 100000 /dev/zero | tr '\\0' x)" &&
            redis-cli strlen k && redis-cli -n 0 incr n && redis-benchmark -q -n 2000 -c 20 -t set,get
        """)
        assert r.ok().text.splitlines()[:3] == ["OK", "100000", "1"], r
        assert "SET:" in r.text and "GET:" in r.text
        ends = [x for x in r.audit if x["event"] == "end"]
        assert len(ends) >= 23 and all(e["proto"] == "reach" for e in ends)
    finally:
        srv.kill()
        srv.wait()
    net.assert_clean()


# ---- the worker ----

def test_a_replaced_worker_serves_both(net):
    with Started(net, "--publish", "0:8000", "--reach", "5000:7100") as x:
        x.sb.py(SERVER + "\nserve(8000)\nresult = 1")

        def both():
            s = dial(net, x.ports[8000])
            s.sendall(b"ping")
            assert s.recv(4) == b"ping"
            got = x.sb.py("""
                r = socket.create_connection(("127.0.0.1", 5000), timeout=60)
                r.sendall(b"pong"); result = r.recv(4)
            """)
            assert got == b"pong"
            return s
        s = both()
        worker = x.sb.procs().worker
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(ConnectionResetError):
            s.recv(1)
        both()
        assert wait_until(lambda: Procs(x.sb.pid).worker, 10) != worker
        wait_until(lambda: {r["proto"] for r in x.sb.audit if r.get("reason") == "worker_died"} ==
                   {"publish", "reach"}, 10, "both ends")


def test_a_taken_over_worker_does_not_reach_the_hosts_port_by_a_verdict_about_the_sandboxs(net):
    """The same address and port: the socket says which of the two places it is"""
    with Started(net, "--publish", "0:7100", test=True,
                 env={"WEIR_TEST_MISBEHAVE": "outside"}) as x:
        x.sb.py(SERVER + "\nserve(7100)\nresult = 1")
        before = net.echo.count
        assert_reset(net, x.ports[7100])
        bad = x.sb.wait_audit(lambda r: r["event"] == "worker_connect_refused")
        assert {(b["addr"], b["port"]) for b in bad} <= {("127.0.0.1", 7100), ("::1", 7100)}
        assert net.echo.count == before


@pytest.mark.lifecycle
@pytest.mark.parametrize("role", ["monitor", "nursery", "shim", "keeper", "cmd"])
def test_the_port_is_closed_and_free_after_kill_9(net, role):
    port = free_port(net)
    with Started(net, "--publish", f"{port}:8000") as x:
        x.sb.py(SERVER + "\nserve(8000)\nresult = 1")
        s = dial(net, port)
        s.sendall(b"ping")
        assert s.recv(4) == b"ping"
        procs = x.sb.procs()
        os.kill(getattr(procs, role), signal.SIGKILL)
        x.sb.p.wait(60)
        wait_until(lambda: not any(alive(p) for p in procs.all()), 10, "the end of all")
        with pytest.raises(ConnectionRefusedError):
            dial(net, port)
    net.assert_clean()
    net.run("--publish", f"{port}:8000", "--", "true").ok()


def test_the_fifth_dead_worker_closes_the_ports_too(net):
    with Started(net, "--publish", "0:8000", "--reach", "5000:7100") as x:
        last = None
        for _ in range(5):
            def other(last=last):
                try:
                    w = Procs(x.sb.pid, timeout=0.05).worker
                except AssertionError:
                    return None
                return w if w and w != last and alive(w) else None
            last = wait_until(other, 10, "a worker")
            os.kill(last, signal.SIGKILL)
            wait_until(lambda p=last: not alive(p), 10)
        x.sb.wait_audit(lambda r: r["event"] == "network_closed")
        with pytest.raises(ConnectionRefusedError):
            dial(net, x.ports[8000])
        assert x.sb.py("result = dial('127.0.0.1', 5000)") == "ECONNREFUSED"


def test_the_command_cannot_reach_the_published_listener_of_the_host(net):
    """It is the host's: inside there is nothing on its number"""
    port = free_port(net)
    with Started(net, "--publish", f"{port}:8000") as x:
        assert x.sb.py(f"result = dial('127.0.0.1', {port})") == "ECONNREFUSED"
        assert x.sb.py(f"result = refused('127.0.0.1:{port}')[0]") == 403
