# SPDX-License-Identifier: ISC
"""Bytes through CONNECT: exact, half-closed, reset, and no descriptor left (B1, B2, B5)."""
import os
import socket

import pytest

from origins.tcp import answer_after_eof, both_ways, check_pattern, echo, reset, send_pattern, \
    sink, source
from world import wait_until, watching

HOST = "allowed.example.org"


@pytest.fixture(scope="module")
def sb(world):
    with world.inside("--route", "proxy", allow=[HOST + ":*"]) as s:
        yield s


@pytest.fixture
def origin(world):
    made = []

    def make(handler=None, port=0):
        o = world.listen("93.184.216.34", port, handler)
        made.append(o)
        return o
    yield make
    for o in made:
        o.close()


def test_b1_8_mib_both_directions_at_once(sb, origin):
    """V1: position-dependent data; each side ends only when both halves are complete"""
    n = 8 << 20
    o = origin(both_ways(n))
    got = sb.py("""
        s, st, h, rest = connect("allowed.example.org:%d" % port)
        t = threading.Thread(target=lambda: (send_pattern(s, n), s.shutdown(socket.SHUT_WR)))
        pend = [rest] if rest else []
        t.start()
        result = st, check_pattern(tail(s, rest))
        t.join(); s.close()
    """, port=o.port, n=n)
    assert got == (200, n)
    o.wait_ended(1)
    assert o.data[0] == str(n).encode() and not o.errors


@pytest.mark.parametrize("n", [0, 1, 65535, 65536, 65537, 44_841_256, 64 << 20])
def test_b1_download_is_exact(sb, origin, n):
    o = origin(source(n))
    got = sb.py("""
        s, st, h, rest = connect("allowed.example.org:%d" % port)
        result = check_pattern(tail(s, rest)); s.close()
    """, port=o.port)
    assert got == n and not o.errors


@pytest.mark.parametrize("n", [0, 1, 65537, 44_841_256, 64 << 20])
def test_b1_upload_is_exact(sb, origin, n):
    o = origin(sink)
    got = sb.py("""
        s, st, h, rest = connect("allowed.example.org:%d" % port)
        send_pattern(s, n); s.shutdown(socket.SHUT_WR)
        result = rest + read_all(s); s.close()
    """, port=o.port, n=n)
    assert got == f"got {n}\n".encode() and not o.errors


@pytest.mark.nightly
def test_b1_512_mb_down_and_up(sb, origin):
    n = 512_000_000
    down = "check_pattern(tail(s, rest))"
    up = "(send_pattern(s, n), s.shutdown(1), read_all(s))[2]"
    for handler, code in ((source(n), down), (sink, up)):
        o = origin(handler)
        got = sb.py(f"""
            s, st, h, rest = connect("allowed.example.org:%d" % port)
            result = {code}; s.close()
        """, port=o.port, n=n, timeout=300)
        assert got in (n, f"got {n}\n".encode()) and not o.errors


def test_b1_the_audit_counts_every_byte(world, origin):
    o = origin(both_ways(1_000_003))
    with world.inside(allow=[HOST + ":*"]) as s:
        s.py("""
            s, st, h, rest = connect("allowed.example.org:%d" % port)
            t = threading.Thread(target=lambda: (send_pattern(s, 1000003), s.shutdown(1)))
            t.start(); check_pattern(tail(s, rest)); t.join(); s.close()
        """, port=o.port)
        end = s.wait_audit(lambda r: r["event"] == "end" and r.get("host") == HOST)[0]
    assert (end["up"], end["down"], end["port"]) == (1_000_003, 1_000_003, o.port), end
    assert end["addr"] == "93.184.216.34" and end["reason"] == "closed", end


def test_h24_memory_does_not_grow_with_the_bytes(world, origin):
    """H24: memory after 64 MB is what it was after 1 MB; a stalled reader costs nothing"""
    o = origin(source(64 << 20))
    with world.inside(allow=[HOST + ":*"]) as s:
        worker = s.procs().worker

        def rss():
            with open(f"/proc/{worker}/statm", encoding="ascii") as f:
                return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        one = """
            s, st, h, rest = connect("allowed.example.org:%d" % port)
            for _ in range(16): s.recv(65536)
            s.close(); result = None
        """
        s.py(one, port=o.port)
        small = rss()
        s.py("""
            stalled = [connect("allowed.example.org:%d" % port)[0] for i in range(8)]
            y, st, h, rest = connect("allowed.example.org:%d" % port)
            result = len(read_all(y)) + len(rest)
        """, port=o.port)
        assert rss() - small < 4 << 20, (small, rss())


def test_l2_a_flood_during_a_dial_is_not_read(world):
    """L2: while a black hole is dialled the client is not read"""
    with world.inside(allow=["blackhole.example.org:*"]) as s:
        sent, answer = s.py("""
            s = proxy()
            s.sendall(b"CONNECT blackhole.example.org:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
            s.settimeout(2); n = 0
            try:
                while n < 64 << 20: n += s.send(b"x" * 65536)
            except socket.timeout:
                pass
            s.setblocking(False)
            try: a = s.recv(10)
            except BlockingIOError: a = None
            s.close(); result = n, a
        """)
        assert 0 < sent < 16 << 20 and answer is None, (sent, answer)


def test_b2_h14_client_shuts_down_and_gets_the_whole_answer(sb, origin):
    """H14: half-close keeps the answer"""
    o = origin(answer_after_eof)
    got = sb.py("""
        s, st, h, rest = connect("allowed.example.org:%d" % port)
        s.sendall(b"question"); s.shutdown(socket.SHUT_WR)
        result = rest + read_all(s); s.close()
    """, port=o.port)
    assert got == b"the whole answer to question"


def test_b2_origin_shuts_down_and_still_gets_everything(sb, origin):
    def mirror(o, c, n):
        c.sendall(b"first and last")
        c.shutdown(socket.SHUT_WR)
        o.record(n, str(check_pattern(c.recv)).encode())
    o = origin(mirror)
    got = sb.py("""
        s, st, h, rest = connect("allowed.example.org:%d" % port)
        first = rest + read_all(s)
        send_pattern(s, 3000000); s.close()
        result = first
    """, port=o.port)
    assert got == b"first and last"
    o.wait_ended(1)
    assert o.data[0] == b"3000000"


def test_b2_one_byte_at_a_time_both_ways(sb, origin):
    """each byte arrives by itself, long before the next one"""
    def slow(_o, c, _n):
        for i in range(20):
            assert c.recv(100) == bytes([i])
            c.sendall(bytes([100 + i]))
        assert c.recv(1) == b""
    o = origin(slow)
    got = sb.py("""
        s, st, h, rest = connect("allowed.example.org:%d" % port)
        got = b""
        for i in range(20):
            s.sendall(bytes([i])); got += s.recv(100); time.sleep(0.05)
        s.shutdown(socket.SHUT_WR); result = got, read_all(s)
    """, port=o.port)
    o.wait_ended(1)
    assert got == (bytes(range(100, 120)), b"") and not o.errors


def test_b2_client_shuts_down_at_once_with_the_connect(sb, origin):
    o = origin(answer_after_eof)
    got = sb.py("""
        s = proxy()
        s.sendall(b"CONNECT allowed.example.org:%d HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"
                  b"question" % port)
        s.shutdown(socket.SHUT_WR)
        st, h, rest = read_head(s)
        result = st, rest + read_all(s); s.close()
    """, port=o.port)
    assert got == (200, b"the whole answer to question")


def test_b2_a_reset_by_the_origin_is_a_reset_for_the_client(sb, origin):
    def cut(_o, c, _n):
        c.sendall(b"some")
        c.recv(1)
        reset(c)
    o = origin(cut)
    got = sb.py("""
        s, st, h, rest = connect("allowed.example.org:%d" % port)
        while len(rest) < 4: rest += s.recv(10)
        s.sendall(b"x")
        try:
            while s.recv(10): pass
            result = "end of file"
        except ConnectionResetError:
            result = "reset"
    """, port=o.port)
    assert got == "reset"


def test_b2_a_reset_by_the_client_is_a_reset_for_the_origin(sb, origin):
    def watch(o, c, n):
        c.sendall(b"go")
        try:
            while c.recv(10):
                pass
            o.record(n, b"end of file")
        except ConnectionResetError:
            o.record(n, b"reset")
    o = origin(watch)
    sb.py("""
        s, st, h, rest = connect("allowed.example.org:%d" % port)
        while len(rest) < 2: rest += s.recv(10)
        reset(s)
    """, port=o.port)
    o.wait_ended(1)
    assert o.data[0] == b"reset"


@pytest.mark.parametrize("n", [1 << 20, 20_000_000])
def test_b2_upstream_closing_right_after_a_large_body(sb, origin, n):
    """The last byte arrives although the origin closed at once and the reader is slow"""
    def quick(_o, c, _n):
        send_pattern(c, n)
        c.close()
    o = origin(quick)
    got = sb.py("""
        s, st, h, rest = connect("allowed.example.org:%d" % port)
        time.sleep(0.3)
        result = check_pattern(tail(s, rest)); s.close()
    """, port=o.port)
    assert got == n


def test_b2_a_byte_at_a_time_both_ways(sb, origin):
    o = origin(echo)
    got = sb.py("""
        s, st, h, rest = connect("allowed.example.org:%d" % port); out = b""
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(500):
            s.sendall(bytes([i % 256])); out += s.recv(1)
        s.close(); result = out == bytes(i % 256 for i in range(500))
    """, port=o.port)
    assert got is True


def test_b7_a_server_that_speaks_first(sb, origin):
    """Exactly the 200 head, then exactly its bytes"""
    def greeting(_o, c, _n):
        c.sendall(b"SSH-2.0-test\r\n")
        c.recv(100)
    o = origin(greeting)
    got = sb.py("""
        s, st, h, rest = connect("allowed.example.org:%d" % port)
        while len(rest) < 14: rest += s.recv(100)
        s.close(); result = rest
    """, port=o.port)
    assert got == b"SSH-2.0-test\r\n"


def test_b7_events_arrive_one_by_one(sb, origin):
    def events(_o, c, _n):
        for i in range(3):
            c.sendall(b"event %d\n" % i)
            assert c.recv(10) == b"ok"
    o = origin(events)
    got = sb.py("""
        s, st, h, rest = connect("allowed.example.org:%d" % port); out = []
        for i in range(3):
            while not rest.endswith(b"\\n"): rest += s.recv(100)
            out.append(rest); rest = b""; s.sendall(b"ok")
        s.close(); result = out
    """, port=o.port)
    assert got == [b"event 0\n", b"event 1\n", b"event 2\n"]


def fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.fixture(scope="module")
def counted(world):
    with world.inside(allow=[HOST + ":*", "blackhole.example.org:*"]) as s:
        if os.geteuid() != 0:
            pytest.skip("reading a locked process's descriptors needs root")
        s.py("s, st, h, rest = connect('allowed.example.org:1'); result = st")	# warm: c-ares
        s.p_ = s.procs()
        yield s


def settle(pid, want, timeout):
    wait_until(lambda: fds(pid) <= want, timeout, f"{want} descriptors in {pid} (now {fds(pid)})")


CHURN = {
    "60 connect then FIN (V3)": """
        for i in range(60):
            s, st, h, rest = connect("allowed.example.org:%d" % port)
            s.shutdown(socket.SHUT_WR); s.close()
        result = None
    """,
    "40 full CONNECT then FIN at once (V4)": """
        for i in range(40):
            s = proxy()
            s.sendall(b"CONNECT allowed.example.org:%d HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n" % port)
            s.shutdown(socket.SHUT_WR); s.close()
        result = None
    """,
    "300 connect then close": """
        for i in range(300):
            s = proxy(); s.close()
        result = None
    """,
    "300 tunnels reset": """
        for i in range(300):
            s, st, h, rest = connect("allowed.example.org:%d" % port); reset(s)
        result = None
    """,
    "600 aborted mid-dial": """
        for k in range(6):
            ss = []
            for i in range(100):
                s = proxy()
                s.sendall(b"CONNECT blackhole.example.org:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
                ss.append(s)
            for s in ss: reset(s) if k % 2 else s.close()
        result = None
    """,
    "100 half heads": """
        for i in range(100):
            s = proxy(); s.sendall(b"GET http://"); s.close()
        result = None
    """,
    "100 refused": """
        for i in range(100): refused("denied.example.net:443")
        result = None
    """,
}


@pytest.mark.parametrize("what", CHURN)
def test_b5_descriptors_before_are_descriptors_after(counted, origin, what):
    o = origin(answer_after_eof)
    procs = counted.p_
    watching(procs.monitor)
    before = {p: fds(p) for p in (procs.worker, procs.shim, procs.monitor, procs.keeper)}
    counted.py(CHURN[what], port=o.port)
    # a client that is gone while its target is dialled may be held until the dial's 30 s are over
    for p, n in before.items():
        settle(p, n, 40 if "mid-dial" in what else 15)
    if o.count:
        o.wait_ended(o.count)
    assert counted.procs().worker == procs.worker, "the worker was replaced meanwhile"


@pytest.mark.parametrize("n", [100, 1000])
def test_b6_simultaneous_connects_all_succeed(world, origin, n):
    o = origin(echo)
    with world.inside(allow=[HOST + ":*"]) as s:
        good, worst = s.py("""
            import resource, select
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, resource.getrlimit(7)[1]),) * 2)
            req = b"CONNECT allowed.example.org:%d HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n" % port
            ep = select.epoll(); socks = {}; t0 = {}; took = []; good = 0
            for i in range(n):
                x = socket.socket(); x.setblocking(False)
                t0[x.fileno()] = time.monotonic()
                x.connect_ex(PROXY); socks[x.fileno()] = x
                ep.register(x.fileno(), select.EPOLLOUT)
            left = n
            while left and time.monotonic() - min(t0.values()) < 120:
                for fd, ev in ep.poll(1):
                    x = socks[fd]
                    if ev & select.EPOLLOUT:
                        try: x.send(req); ep.modify(fd, select.EPOLLIN)
                        except OSError: ep.unregister(fd); left -= 1
                    elif ev:
                        try: d = x.recv(200)
                        except OSError: d = b""
                        ep.unregister(fd); left -= 1
                        good += b" 200 " in d; took.append(time.monotonic() - t0[fd])
            took.sort()
            result = good, took[int(len(took) * 0.99) - 1] if took else None
            for x in socks.values(): x.close()
        """, n=n, port=o.port)
    assert good == n, (good, worst)
