# SPDX-License-Identifier: ISC
"""Whoever takes much of what is scarce (dials, head buffers, connections) leaves the others theirs,
and a client that is gone is not dialled for."""
import contextlib
import os
import socket
import subprocess
import time

import pytest

from origins import tcp as tcp_mod
from test_proxy import basic, proxy, runtime, talk, where
from world import IS_ROOT, PYTHON, wait_until

HOST, HOLE = "allowed.example.org", "blackhole.example.org"


@pytest.fixture(scope="module")
def net(world):
    world.web = world.http("93.184.216.34", 80, "allowed")
    world.echo = world.listen("93.184.216.34", 7, tcp_mod.echo)
    world.late = world.listen("93.184.216.34", 81, late)
    world.ip("net", "route", "add", "blackhole", "93.184.216.99/32")
    return world


def late(_origin, c, _n):
    """an answer that takes its time"""
    while b"\r\n\r\n" not in c.recv(65536):
        pass
    time.sleep(2)
    try:
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
    except OSError:
        pass


def sandbox(net, *args, **kw):
    return net.inside(*args, allow=[f"{HOST}:80,81,7", HOLE], **kw)


def ends(records, reason="client_gone"):
    return [r for r in records if r["event"] == "end" and r["reason"] == reason]


# ---- clients that are gone ----

def test_dials_for_clients_that_closed_are_given_up_at_once(net):
    """close(2), not a reset: FIN is all that the broker sees"""
    with sandbox(net) as sb:
        took = sb.py("""
            import resource
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            socks = []
            for i in range(1100):
                s = proxy(60); s.sendall(b"CONNECT blackhole.example.org:443 HTTP/1.1\\r\\n\\r\\n"); socks.append(s)
            time.sleep(0.3)
            for s in socks: s.close()
            t = time.monotonic()
            s, st, h, r = connect("allowed.example.org:7"); s.close()
            result = st, time.monotonic() - t
        """, timeout=60)
        assert took[0] == 200 and took[1] < 8, took
        # who waited for a dial is at its end; who only waited in a queue left no record
        wait_until(lambda: len(ends(sb.audit)) >= 500, 5, "the end of the dials")
        worker = sb.procs().worker
        if IS_ROOT:
            wait_until(lambda: len(os.listdir(f"/proc/{worker}/fd")) < 100, 20, "their sockets' end")
        sb.close()


@pytest.mark.parametrize("what", ["answer", "refusal"])
def test_a_client_that_only_half_closed_still_gets_its_answer(net, what):
    """nc -N, printf | socat: all is said, the answer is awaited"""
    data = {"answer": f"GET http://{HOST}:81/ HTTP/1.1\r\nHost: x\r\n\r\n",
            "refusal": f"CONNECT {HOLE}:443 HTTP/1.1\r\n\r\n"}[what].encode()
    with sandbox(net, test=True, env={"WEIR_TEST_CLOCK": "10"}) as sb:
        st, h, body = sb.py("result = talk(data, eof=True)", data=data)
        sb.close()
    assert (st, body) == (200, b"late") if what == "answer" else st == 504, (st, h, body)


def test_a_client_that_closes_later_is_noticed_then(net):
    with sandbox(net) as sb:
        sb.py("""
            socks = [proxy(60) for _ in range(3)]
            for s in socks:
                s.sendall(b"CONNECT blackhole.example.org:443 HTTP/1.1\\r\\n\\r\\n"); s.shutdown(socket.SHUT_WR)
            time.sleep(1.5)
        """)
        assert not ends(sb.audit), sb.audit
        sb.py("for s in socks: s.close()")
        wait_until(lambda: len(ends(sb.audit)) == 3, 5, "the end of three dials")
        sb.close()


def test_a_client_killed_while_it_waits_for_a_silent_origin_leaves_nothing(net):
    """plain HTTP: nothing is written to it that could fail"""
    def listens(o, c, n):
        o.record(n, c.recv(65536))
        c.recv(1)
    silent = net.listen("93.184.216.34", 0, listens)
    with net.inside(allow=[f"{HOST}:{silent.port}"]) as sb:
        sb.py("s = proxy(); s.sendall(data)",
              data=f"GET http://{HOST}:{silent.port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        silent.wait_for(lambda: silent.data.get(0), text="the request")
        sb.py("s.close()")
        wait_until(lambda: len(ends(sb.audit)) == 1, 5, "the end of the exchange")
        sb.close()


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_weir_proxy_notices_them_too(net, kind):
    at = f"unix:{runtime(net)}/s" if kind == "unix" else "127.0.0.1:0"
    with proxy(net, at, allow=(HOLE,)) as p:
        addr, secret = (at[5:], "") if kind == "unix" else where(p.url)
        data = f"CONNECT {HOLE}:443 HTTP/1.1\r\n".encode() + \
            (basic("x:" + secret) if secret else b"") + b"\r\n"
        client = subprocess.Popen(net.enter() + [PYTHON, "-c", f"""
import socket, sys
s = socket.socket(socket.AF_{"UNIX" if kind == "unix" else "INET"}); s.connect({addr!r})
s.sendall({data!r}); sys.stdin.read(); s.close()"""], stdin=subprocess.PIPE)
        p.wait_audit(lambda r: r.get("verdict") == "allow")
        client.communicate()
        assert client.returncode == 0
        wait_until(lambda: len(ends(p.audit)) == 1, 5, "the end of the dial")
        p.stop()


# ---- dials ----

def test_one_host_that_never_answers_leaves_the_others_their_dials(net):
    with sandbox(net) as sb:
        got = sb.py("""
            import resource
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            socks = []
            for i in range(1100):
                s = proxy(60); s.sendall(b"CONNECT BlackHole.example.org:443 HTTP/1.1\\r\\n\\r\\n"); socks.append(s)
            time.sleep(0.5); result = []
            for i in range(20):
                t = time.monotonic()
                s, st, h, r = connect("allowed.example.org:7"); s.close()
                result.append((st, time.monotonic() - t))
        """, timeout=60)
        sb.py("for s in socks: s.close()")
        sb.close()
    assert all(st == 200 and took < 8 for st, took in got), got


# ---- heads ----

@pytest.mark.parametrize("n,size", [(1200, 1), (80, 5000)])
def test_half_heads_do_not_keep_others_waiting(net, n, size):
    """the buffers of those that wait longest go to those that come; they are told 408"""
    with sandbox(net) as sb:
        got = sb.py("""
            import resource
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            socks, result = [], []
            for i in range(n):
                s = proxy(60); s.sendall(b"GET http://a/ HTTP/1.1\\r\\nX: " + b"y" * size); socks.append(s)
            for i in range(10):
                t = time.monotonic()
                s = proxy(); s.sendall(b"GET http://allowed.example.org/ HTTP/1.1\\r\\n"); time.sleep(0.05)
                s.sendall(b"Host: x\\r\\nX: " + b"z" * size + b"\\r\\nConnection: close\\r\\n\\r\\n")
                result.append((read_head(s)[0], time.monotonic() - t)); s.close()
            st, h, body = read_head(socks[0])
            first = st, body + read_all(socks[0])
            socks[-1].sendall(b"\\r\\n\\r\\n"); last = read_head(socks[-1])[0]
            for s in socks: s.close()
        """, n=n, size=size, timeout=60)
        first, last = sb.py("result = first, last")
        sb.close()
    assert all(st == 200 and took < 8 for st, took in got), got
    assert first[0] == 408 and b"others need the room" in first[1], first
    assert last == 403, last


# ---- strangers ----

def test_strangers_cannot_use_up_the_connections_of_weir_proxy(net):
    few = net.write(f"{net.home}/few.policy", "limit connections 50\n")
    with proxy(net, "127.0.0.1:0", "-p", few) as p:
        addr, secret = where(p.url)
        held = []
        for i in range(120):
            s = net.make("host", socket.AF_INET, socket.SOCK_STREAM)
            with contextlib.suppress(ConnectionError):	# over the limit, before connect() has come back
                s.connect(addr)
                if i % 3 == 0:
                    s.sendall(b"GET http://a/ HTTP/1.1\r\n")
            held.append(s)
        out = talk(net, addr, f"GET http://{HOST}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n".encode() +
                   basic("x:" + secret) + b"\r\n")
        for s in held:
            s.close()
        p.stop()
    assert out.startswith(b"HTTP/1.1 200"), out


def test_strangers_fill_no_log(net):
    with proxy(net, "127.0.0.1:0") as p:
        addr, secret = where(p.url)
        for _ in range(100):
            assert talk(net, addr, b"GET / HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 407")
        ok = talk(net, addr, f"GET http://{HOST}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n".encode() +
                  basic("x:" + secret) + b"\r\n")
        done = p.stop()
    assert ok.startswith(b"HTTP/1.1 200"), ok
    refused = [r for r in done.audit if r.get("reason") == "proxy_auth"]
    told = [r["count"] for r in done.audit if r["event"] == "strangers_refused"]
    assert 32 <= len(refused) <= 64 and len(refused) + sum(told) == 100, (len(refused), told)
    assert [r["host"] for r in done.audit if r.get("verdict") == "allow"] == [HOST]


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00" + b"x" * 600, b"\r\nGET / HTTP/1.1\r\n\r\n",
                                  b"GET /" + b"x" * 70000, b"GET / HTTP/1.1\r\nX: " + b"y" * 70000 + b"\r\n\r\n"],
                         ids=["tls", "blank line", "long target", "long field"])
def test_what_is_no_request_is_407_as_well(net, data):
    """nothing that a stranger sends is judged, so that nothing is told"""
    with proxy(net, "127.0.0.1:0") as p:
        out = talk(net, where(p.url)[0], data)
        p.stop()
    assert out.startswith(b"HTTP/1.1 407"), out[:100]
