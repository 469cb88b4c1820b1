# SPDX-License-Identifier: ISC
"""SOCKS5 on the proxy's own port: the same judge, the same bytes (A1, A5-A8, B1, B2, B5, B7)."""
import os
import socket
import subprocess

import pytest

from origins.tcp import answer_after_eof, both_ways, check_pattern, echo, reset, send_pattern, \
    sink, source
from world import PYTHON, need, wait_until

HOST = "allowed.example.org"
HELP = '''
def socks(host, port, cmd=1, kind=3, methods=b"\\x05\\x01\\x00", addr=None, tail=b"", timeout=30):
    """(socket, method byte, reply code): code None when the greeting was not accepted"""
    s = proxy(timeout)
    s.sendall(methods)
    m = s.recv(2)
    if m != b"\\x05\\x00":
        return s, m, None
    if addr is None:
        name = host if isinstance(host, bytes) else host.encode()
        addr = bytes([len(name)]) + name
    s.sendall(b"\\x05" + bytes([cmd, 0, kind]) + addr + port.to_bytes(2, "big") + tail)
    r = b""
    while len(r) < 10:
        x = s.recv(10 - len(r))
        if not x:
            break
        r += x
    assert len(r) == 10 and r[:1] == b"\\x05" and r[2:] == b"\\0\\1\\0\\0\\0\\0\\0\\0", r
    return s, m, r[1]


def v4(a):
    return socket.inet_aton(a)


def v6(a):
    return socket.inet_pton(socket.AF_INET6, a)
'''


def agent(sb):
    sb.py("exec(help, globals()); result = None", help=HELP)
    return sb


@pytest.fixture(scope="module")
def sb(world):
    world.web = world.http("93.184.216.34", 80, "allowed")
    world.web6 = world.http("2606:2800:220:1::34", 80, "six")
    world.local = world.http("127.0.0.1", 9999, "host loopback")
    with world.inside("--route", "proxy", allow=[HOST + ":*", "dual.example.org", "six.example.org",
                                                 "lan.example.org", "nowhere.example.org",
                                                 "93.184.216.34", "[2606:2800:220:1::34]"]) as s:
        yield agent(s)


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


GET = b"GET /s HTTP/1.0\r\nHost: allowed.example.org\r\n\r\n"


@pytest.mark.parametrize("kind,addr", [(3, None), (1, "v4('93.184.216.34')"),
                                       (4, "v6('2606:2800:220:1::34')")])
def test_connect_by_name_and_by_both_kinds_of_address(sb, kind, addr):
    got = sb.py(f"""
        s, m, code = socks("allowed.example.org", 80, kind=kind, addr={addr})
        s.sendall(get); result = code, read_all(s)[-12:]
    """, kind=kind, get=GET)
    assert got[0] == 0 and got[1].endswith(b" /s\n"), got


REFUSED = [
    # what, host, port, more arguments, reply code of RFC 1928, reason in the audit
    ("no rule", "denied.example.net", 80, "", 2, "no_rule"),
    ("another port of an address rule", "x", 81, "kind=1, addr=v4('93.184.216.34')", 2, "port"),
    ("a private address behind a name", "lan.example.org", 80, "", 2, "private_address"),
    ("the host's loopback", "x", 9999, "kind=1, addr=v4('127.0.0.1')", 2, "no_rule"),
    ("the same, mapped", "x", 9999, "kind=4, addr=v6('::ffff:127.0.0.1')", 2, "no_rule"),
    ("::1", "x", 9999, "kind=4, addr=v6('::1')", 2, "no_rule"),
    ("metadata", "x", 80, "kind=1, addr=v4('169.254.169.254')", 2, "no_rule"),
    ("localhost", "localhost", 9999, "", 2, None),
    ("a name that does not exist", "nowhere.example.org", 80, "", 4, "dns_error"),
    ("a closed port", HOST, 9, "", 5, "connect_refused"),
    ("BIND", HOST, 80, "cmd=2", 7, "bad_request"),
    ("UDP ASSOCIATE", HOST, 80, "cmd=3", 7, "bad_request"),
    ("an address type that is none", HOST, 80, "kind=2", 8, "bad_request"),
    ("port 0", HOST, 0, "", 1, "bad_request"),
    ("a decimal address", "2130706433", 9999, "", 1, "bad_name"),
    ("a short address", "127.1", 9999, "", 1, "bad_name"),
    ("an octal address", "0177.0.0.1", 9999, "", 1, "bad_name"),
    ("a zone", "fe80::1%lo", 9999, "", 1, "bad_name"),
    ("a NUL", b"allowed.example.org\0.evil", 80, "", 1, "bad_request"),
    ("a line end", b"allowed.example.org\r\n", 80, "", 1, "bad_request"),
    ("a space", b"allowed.example.org ", 80, "", 1, "bad_request"),
    ("userinfo", b"u@allowed.example.org", 80, "", 1, "bad_request"),
    ("a high byte", b"allowed\xe9.example.org", 80, "", 1, "bad_request"),
    ("an empty name", b"", 80, "", 1, "bad_request"),
    ("254 bytes", b"a" * 254, 80, "", 1, "bad_request"),
    ("a label of 70 bytes", b"a" * 70 + b".org", 80, "", 1, "bad_name"),
]


@pytest.mark.parametrize("what,host,port,more,code,reason", REFUSED, ids=[r[0] for r in REFUSED])
def test_a5_a6_a7_each_refusal_has_its_code_and_one_record(world, sb, what, host, port, more, code,
                                                           reason):
    before = len(sb.audit)
    with world.capture() as cap:
        got = sb.py(f"""
            s, m, code = socks(host, port, {more})
            result = code, s.recv(1); s.close()
        """, host=host, port=port)
        tries = {t for t in cap.seen() if t[0] == "tcp"}
    assert got == (code, b""), got
    judged = code != 5 and reason != "dns_error"
    last = wait_until(lambda: [r for r in sb.audit[before:] if (r.get("verdict") if judged else
                                                                r.get("reason") == reason)], 10, "its record")
    assert last[-1]["proto"] == "socks5", last
    if reason:
        assert last[-1]["reason"] == reason, last
    assert all(" " <= ch <= "~" for ch in last[-1].get("host") or ""), last
    if code != 5:
        assert not tries, tries
    assert world.local.count == 0


@pytest.mark.parametrize("first,answer", [(b"\x05\x01\x02", b"\x05\xff"), (b"\x05\x00", b"\x05\xff"),
                                          (b"\x05\x02\x01\x02", b"\x05\xff")])
def test_a_client_that_insists_on_authentication_is_refused(sb, first, answer):
    got = sb.py("s = proxy(); s.sendall(d); result = read_all(s)", d=first)
    assert got == answer


def test_socks4_is_no_way_in(sb):
    got = sb.py("s = proxy(); s.sendall(b'\\4\\1\\0\\x50\\x5d\\xb8\\xd8\\x22u\\0'); result = read_all(s)")
    assert b"400" in got.split(b"\r\n")[0], got


def test_every_byte_may_come_alone(sb):
    got = sb.py("""
        s = proxy(); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = b"allowed.example.org"; out = b""
        for part, n in ((b"\\5\\2\\2\\0", 2), (b"\\5\\1\\0\\3" + bytes([len(name)]) + name + b"\\0\\x50", 10)):
            for i in range(len(part)):
                s.sendall(part[i:i+1]); time.sleep(0.002)
            while n:
                x = s.recv(n); out += x; n -= len(x)
        s.sendall(get); result = out, read_all(s)[-12:]
    """, get=GET)
    assert got[0] == b"\5\0\5\0\0\1\0\0\0\0\0\0" and got[1].endswith(b"allowed /s\n"), got


def test_all_in_one_segment_with_early_data(sb):
    got = sb.py("""
        name = b"allowed.example.org"
        s = proxy()
        s.sendall(b"\\5\\1\\0\\5\\1\\0\\3" + bytes([len(name)]) + name + b"\\0\\x50" + get)
        result = read_all(s)
    """, get=GET)
    assert got.startswith(b"\5\0\5\0\0\1\0\0\0\0\0\0HTTP/1.") and got.endswith(b"allowed /s\n"), got


def test_not_after_an_http_request(sb):
    """A kept-alive connection stays what it was"""
    got = sb.py("""
        s = proxy()
        s.sendall(b"GET http://allowed.example.org/a HTTP/1.1\\r\\nHost: allowed.example.org\\r\\n\\r\\n")
        st, h, rest = read_head(s)
        while not rest.endswith(b"/a\\n"): rest += s.recv(100)
        s.sendall(b"\\5\\1\\0"); st2, h, rest = read_head(s)
        result = st, st2
    """)
    assert got == (200, 400), got


# ---- bytes ----

def test_b1_8_mib_both_directions_at_once(sb, origin):
    n = 8 << 20
    o = origin(both_ways(n))
    got = sb.py("""
        s, m, code = socks("allowed.example.org", port)
        t = threading.Thread(target=lambda: (send_pattern(s, n), s.shutdown(socket.SHUT_WR)))
        t.start()
        result = code, check_pattern(s.recv)
        t.join(); s.close()
    """, port=o.port, n=n)
    assert got == (0, n)
    o.wait_ended(1)
    assert o.data[0] == str(n).encode() and not o.errors


@pytest.mark.parametrize("n", [0, 1, 65537, 44_841_256])
def test_b1_down_and_up_are_exact(sb, origin, n):
    o = origin(source(n))
    assert sb.py("""
        s, m, code = socks("allowed.example.org", port)
        result = check_pattern(s.recv); s.close()
    """, port=o.port) == n
    o = origin(sink)
    assert sb.py("""
        s, m, code = socks("allowed.example.org", port)
        send_pattern(s, n); s.shutdown(socket.SHUT_WR); result = read_all(s); s.close()
    """, port=o.port, n=n) == f"got {n}\n".encode()


def test_b2_half_close_both_ways(sb, origin):
    o = origin(answer_after_eof)
    assert sb.py("""
        s, m, code = socks("allowed.example.org", port)
        s.sendall(b"question"); s.shutdown(socket.SHUT_WR); result = read_all(s); s.close()
    """, port=o.port) == b"the whole answer to question"

    def mirror(o, c, n):
        c.sendall(b"first and last")
        c.shutdown(socket.SHUT_WR)
        o.record(n, str(check_pattern(c.recv)).encode())
    o = origin(mirror)
    assert sb.py("""
        s, m, code = socks("allowed.example.org", port)
        result = read_all(s); send_pattern(s, 3000000); s.close()
    """, port=o.port) == b"first and last"
    o.wait_ended(1)
    assert o.data[0] == b"3000000"


def test_b2_a_reset_stays_a_reset(sb, origin):
    def cut(_o, c, _n):
        c.recv(1)
        reset(c)
    o = origin(cut)
    assert sb.py("""
        s, m, code = socks("allowed.example.org", port); s.sendall(b"x")
        try:
            while s.recv(10): pass
            result = "end of file"
        except ConnectionResetError:
            result = "reset"
    """, port=o.port) == "reset"

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
        s, m, code = socks("allowed.example.org", port)
        assert s.recv(2) == b"go"; reset(s)
    """, port=o.port)
    o.wait_ended(1)
    assert o.data[0] == b"reset"


def test_b7_a_server_that_speaks_first(sb, origin):
    def greeting(_o, c, _n):
        c.sendall(b"220 mail.example\r\n")
        c.recv(100)
    o = origin(greeting)
    assert sb.py("""
        s, m, code = socks("allowed.example.org", port)
        result = s.recv(18, socket.MSG_WAITALL); s.close()
    """, port=o.port) == b"220 mail.example\r\n"


def test_b5_descriptors_before_are_descriptors_after(world, origin):
    o = origin(echo)
    with world.inside(allow=[HOST + ":*"]) as s:
        agent(s)
        if os.geteuid() != 0:
            pytest.skip("reading a locked process's descriptors needs root")
        s.py("socks('allowed.example.org', 1); result = 0")
        w = s.procs().worker
        before = len(os.listdir(f"/proc/{w}/fd"))
        s.py("""
            for i in range(200):
                s = proxy(); s.sendall(b"\\5\\1\\0\\5\\1\\0\\3"[:i % 7 + 1])
                (reset(s) if i % 2 else s.close())
            for i in range(100):
                s, m, code = socks("allowed.example.org", port); s.close()
            result = 0
        """, port=o.port)
        wait_until(lambda: len(os.listdir(f"/proc/{w}/fd")) <= before, 15, "the closing")
        assert s.procs().worker == w


# ---- real clients ----

def test_c_curl_by_name_and_by_address(world, sb):
    need("curl", "curl")
    for flag, url in (("--socks5-hostname", f"http://{HOST}/c"), ("--socks5", "http://93.184.216.34/c"),
                      ("--socks5-hostname", "http://[2606:2800:220:1::34]/c")):
        r = world.run("--", "curl", "-sS", "--noproxy", "", flag, "127.0.0.1:3128", url,
                      allow=[HOST, "93.184.216.34", "[2606:2800:220:1::34]"])
        assert r.ok().text.endswith(" /c\n"), r
    r = world.run("--", "curl", "-sS", "--socks5-hostname", "127.0.0.1:3128",
                  "http://denied.example.net/", allow=[HOST])
    assert r.status == 97 and "(2)" in r.errtext and "weir allow denied.example.net" in r.errtext, r


@pytest.mark.clients
def test_c_python_socks(world, sb):
    assert not subprocess.run([PYTHON, "-c", "import socks"], capture_output=True, check=False).returncode, \
        "PySocks is missing: apt-get install -y python3-socks"
    r = world.run("--", PYTHON, "-c", f"""
import socks, socket
s = socks.socksocket(); s.set_proxy(socks.SOCKS5, "127.0.0.1", 3128, rdns=True)
s.connect(("{HOST}", 80)); s.sendall({GET!r}); d = b""
while True:
    x = s.recv(1000)
    if not x: break
    d += x
print(d[-11:])
try: s = socks.socksocket(); s.set_proxy(socks.SOCKS5, "127.0.0.1", 3128); s.connect(("denied.example.net", 80))
except socks.ProxyError as e: print(e)""", allow=[HOST])
    assert "allowed /s" in r.ok().text and "not allowed by ruleset" in r.text, r
