# SPDX-License-Identifier: ISC
"""TLS inside a tunnel to a name must name that host; everything else about it is nobody's business
(A8, SPEC section 5)."""
import socket
import struct
import time

import pytest

from origins.tcp import check_pattern, echo, send_pattern
from world import need, verdicts

HOST, OTHER = "allowed.example.org", "other.example.org"
ALERT = bytes([0x15, 3, 3, 0, 2, 2, 112])


def ext(kind, body):
    return struct.pack("!HH", kind, len(body)) + body


def sni(name):
    n = name.encode()
    return ext(0, struct.pack("!HBH", len(n) + 3, 0, len(n)) + n)


def hello(name=HOST, pad=0, record=16384, more=b""):
    """As a browser sends it: GREASE, a post-quantum key share of 1216 bytes, an ECH that is GREASE"""
    exts = ext(0x0a0a, b"") + ext(0x33, struct.pack("!HHH", 1220, 0x11ec, 1216) + b"k" * 1216)
    exts += (sni(name) if name is not None else b"") + more + ext(0xfe0d, b"e" * 186)
    exts += ext(0x15, b"\0" * pad) + ext(0xfafa, b"\0")
    body = b"\3\3" + b"r" * 32 + b"\x20" + b"s" * 32 + b"\0\4\x0a\x0a\x13\x01" + b"\1\0"
    body += struct.pack("!H", len(exts)) + exts
    msg = b"\1" + len(body).to_bytes(3, "big") + body
    return b"".join(b"\x16\3\1" + struct.pack("!H", len(msg[i:i + record])) + msg[i:i + record]
                    for i in range(0, len(msg), record))


@pytest.fixture(scope="module")
def tls(world):
    """Port 443 and 8443 of HOST record what arrives and answer "got N" after a mark"""
    def handler(o, c, n):
        while True:
            d = c.recv(65536)
            if not d:
                c.shutdown(socket.SHUT_WR)
                return
            o.record(n, d)
            if o.data[n].endswith(b"END"):
                c.sendall(b"got %d" % len(o.data[n]))
    world.o443 = world.listen("93.184.216.34", 443, handler)
    world.o8443 = world.listen("93.184.216.34", 8443, handler)
    return world


@pytest.fixture(scope="module")
def sb(tls):
    with tls.inside("--route", "proxy", allow=[HOST + ":*"]) as s:
        yield s


SEND = """
s, st, h, rest = connect("allowed.example.org:%d" % port); assert st == 200
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for p in pieces:
    s.sendall(p); time.sleep(pause)
if want:
    got = b""
    while len(got) < want:
        x = s.recv(want - len(got))
        if not x: break
        got += x
else:
    got = read_all(s)
s.close()
result = rest + got
"""


def send(sb, *pieces, port=443, pause=0.0, want=0, timeout=30):
    return sb.py(SEND, pieces=list(pieces), port=port, pause=pause, want=want, timeout=timeout)


def pieces_of(data, n):
    return [data[i:i + n] for i in range(0, len(data), n)]


GOOD = {
    "one segment": [hello() + b"END"],
    "upper case": [hello(HOST.upper()) + b"END"],
    "a trailing dot": [hello(HOST + ".") + b"END"],
    "a byte at a time": pieces_of(hello(), 1)[:300] + [hello()[300:] + b"END"],
    "segments of 100": pieces_of(hello() + b"END", 100),
    "many records": [hello(record=50) + b"END"],
    "many records in segments that do not fit them": pieces_of(hello(record=50) + b"END", 37),
    "records of one byte": pieces_of(hello(record=1) + b"END", 1000),
    "16 KB": [hello(pad=15000) + b"END"],
    "16 KB in segments": pieces_of(hello(pad=15000) + b"END", 1400),
    "60 KB in segments": pieces_of(hello(pad=60000) + b"END", 9000),
}


@pytest.mark.parametrize("port", [443, 8443])
@pytest.mark.parametrize("what", GOOD)
def test_a8_a_hello_that_names_the_host_passes_and_not_a_byte_is_touched(tls, sb, what, port):
    o = tls.o443 if port == 443 else tls.o8443
    n = o.count
    data = b"".join(GOOD[what])
    want = b"got %d" % len(data)
    got = send(sb, *GOOD[what], port=port, want=len(want),
               pause=0.001 if len(GOOD[what]) > 1 else 0)
    assert got == want, got
    o.wait_conns(n + 1)
    assert o.data[n] == data


TWO = struct.pack("!HBH", len(HOST) + 3, 0, len(HOST)) + HOST.encode()
BAD = {
    "another name": ([hello(OTHER)], OTHER),
    "another name in segments": (pieces_of(hello(OTHER), 100), OTHER),
    "another name in records of one byte": ([hello(OTHER, record=1)], OTHER),
    "a name below": ([hello("x." + HOST)], "x." + HOST),
    "no name": ([hello(None)], None),
    "control bytes": ([hello("evil\x1b[2J\n")], "evil\\x1b[2J\\x0a"),
    "the name twice": ([hello(more=ext(0, TWO))], None),
    "a record that is no handshake in the middle": ([hello()[:60] + b"\x15\3\1\0\2"], None),
    "a record over 16 KiB": ([b"\x16\3\1\x48\0"], None),
    "over 64 KiB": ([b"\x16\3\1\x40\0\1\1\0\0" + b"\0" * 100], None),
    "no ClientHello": ([b"\x16\3\1\0\4\2\0\0\0"], None),
    "an end in the middle": (None, None),
}


@pytest.mark.parametrize("port", [443, 8443])
@pytest.mark.parametrize("what", BAD)
def test_a8_any_other_hello_gets_the_alert_and_nothing_arrives(tls, sb, what, port):
    o = tls.o443 if port == 443 else tls.o8443
    n, before = o.count, len(sb.audit)
    pieces, name = BAD[what]
    if pieces is None:
        got = sb.py("""
            s, st, h, rest = connect("allowed.example.org:%d" % port)
            s.sendall(half); s.shutdown(socket.SHUT_WR); result = rest + read_all(s)
        """, port=port, half=hello()[:300])
    else:
        got = send(sb, *pieces, port=port, pause=0.001)
    assert got == ALERT, got
    o.wait_ended(n + 1)
    assert o.data[n] == b""
    end = [r for r in sb.wait_audit(lambda r: r.get("seq", 0) > before and r["event"] == "end" and
                                    r["reason"] == "sni_mismatch")][-1]
    assert end["host"] == HOST and end["up"] == 0 and end.get("sni") == name, end


def test_a8_the_record_of_a_good_tunnel_names_the_sni(tls, sb):
    send(sb, hello() + b"END", want=4)
    assert sb.wait_audit(lambda r: r["event"] == "end" and r.get("sni") == HOST)


def test_a8_no_tls_on_443_is_closed_without_a_byte(tls, sb):
    n = tls.o443.count
    assert send(sb, b"GET / HTTP/1.0\r\n\r\nEND") == b""
    tls.o443.wait_ended(n + 1)
    assert tls.o443.data[n] == b""
    assert sb.wait_audit(lambda r: r["event"] == "end" and r["reason"] == "not_tls")


def test_a8_no_tls_elsewhere_passes(tls, sb):
    n = tls.o8443.count
    assert send(sb, b"\x80 SSH or whatever END", port=8443, want=6) == b"got 21"
    assert tls.o8443.data[n] == b"\x80 SSH or whatever END"


def test_a8_an_early_hello_in_the_connect_segment(tls, sb):
    got = sb.py("""
        s, st, h, rest = connect("allowed.example.org:443", early=d)
        while len(rest) < 8: rest += s.recv(10)
        s.close(); result = rest
    """, d=hello() + b"END")
    assert got == b"got %d" % len(hello() + b"END")
    got = sb.py("""
        s, st, h, rest = connect("allowed.example.org:443", early=d)
        result = rest + read_all(s)
    """, d=hello(OTHER))
    assert got == ALERT


def test_a8_no_sni_lifts_it(tls):
    with tls.inside(allow=[HOST + ":443 no-sni"]) as s:
        d = hello(OTHER) + b"END"
        assert send(s, d, want=len(b"got %d" % len(d))) == b"got %d" % len(d)
        assert send(s, b"no TLS at all END", want=6) == b"got 17"
        end = s.wait_audit(lambda r: r["event"] == "end")[-1]
        assert "sni" not in end and end["reason"] == "closed", end


def test_a8_tunnels_to_addresses_are_not_looked_at(tls):
    with tls.inside(allow=["93.184.216.34:443"]) as s:
        d = hello(OTHER) + b"END"
        got = s.py(SEND.replace("allowed.example.org", "93.184.216.34"), pieces=[d], port=443, pause=0,
                   want=len(b"got %d" % len(d)))
        assert got == b"got %d" % len(d), got


def test_a8_the_same_through_socks(tls, sb):
    code = """
        s = proxy(); s.sendall(b"\\5\\1\\0"); s.recv(2)
        s.sendall(b"\\5\\1\\0\\3\\x13allowed.example.org\\1\\xbb"); assert s.recv(10)[1] == 0
        s.sendall(d); result = s.recv(8, socket.MSG_WAITALL); s.close()
    """
    assert sb.py(code, d=hello() + b"END") == b"got %d" % len(hello() + b"END")
    assert sb.py(code, d=hello(OTHER)) == ALERT


def test_a8_a_server_that_speaks_first_is_heard_before_any_hello(world):
    def first(o, c, n):
        send_pattern(c, 3_000_000)
        o.record(n, c.recv(10))
        echo(o, c, n)
    o = world.listen("93.184.216.34", 8444, first)
    with world.inside(allow=[HOST + ":*"]) as s:
        got = s.py("""
            s, st, h, rest = connect("allowed.example.org:8444")
            pend = [rest] if rest else []
            n = check_pattern(lambda k: pend.pop() if pend else s.recv(k), 3000000)
            s.sendall(b"STARTTLS\\r\\n"); s.sendall(d)
            result = n, s.recv(len(d), socket.MSG_WAITALL) == d; s.close()
        """, d=hello(OTHER))
    assert got == (3_000_000, True)	# only the first bytes are looked at: STARTTLS passes
    o.close()


def test_a8_an_end_before_the_first_byte_is_an_end(tls, sb):
    n = tls.o443.count
    got = sb.py("""
        s, st, h, rest = connect("allowed.example.org:443")
        s.shutdown(socket.SHUT_WR); result = rest + read_all(s)
    """)
    assert got == b""
    tls.o443.wait_ended(n + 1)


def test_a8_a_hello_that_does_not_come_to_an_end_is_given_10_s(tls, sb):
    t = time.monotonic()
    assert send(sb, hello()[:100]) == ALERT
    assert 9 < time.monotonic() - t < 40


# ---- real clients ----

def test_c_openssl_s_client(world):
    need("openssl", "openssl")
    web = world.http("93.184.216.35", 443, "secure", tls=world.trust(OTHER, HOST))
    cmd = "echo | openssl s_client -brief -proxy 127.0.0.1:3128 -connect other.example.org:443 {} 2>&1"
    for flags in ("", "-tls1_2"):
        r = world.run("--", "sh", "-c", cmd.format(flags), allow=[OTHER])
        assert "CONNECTION ESTABLISHED" in r.text, r
    for flags in (f"-servername {HOST}", f"-servername {HOST} -tls1_2", "-noservername"):
        r = world.run("--", "sh", "-c", cmd.format(flags), allow=[OTHER])
        assert "unrecognized name" in r.text and "ESTABLISHED" not in r.text, r
        assert "no-sni" in r.errtext, r
    web.close()


def test_c_curl_domain_fronting_is_closed(world):
    """The tunnel goes to the allowed name, TLS asks for another one of the same server"""
    need("curl", "curl")
    web = world.http("93.184.216.35", 443, "secure", tls=world.trust(OTHER, HOST))
    n = web.count
    r = world.run("--", "curl", "-sS", "--connect-to", f"{HOST}:443:{OTHER}:443", f"https://{HOST}/x",
                  allow=[OTHER])
    assert r.status == 35 and "unrecognized name" in r.errtext, r
    assert not web.requests and web.count == n + 1
    assert [e for e in r.audit if e["event"] == "end" and e.get("sni") == HOST], r.audit
    r = world.run("--", "curl", "-sS", f"https://{OTHER}/x", allow=[OTHER])
    assert r.ok().text == "secure /x\n"
    assert len(verdicts(r.audit, OTHER)) == 1
    web.close()
