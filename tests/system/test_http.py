# SPDX-License-Identifier: ISC
"""The forward proxy's HTTP: judged request by request, framed by nobody's word but the parser's
(A9, SPEC 5; H2-H6, H12, H13, H15)."""
import json

import pytest

from origins.http import SENT, early
from origins.tcp import pattern
from world import need, verdicts, wait_until

ALLOW = ["allowed.example.org", "other.example.org"]


@pytest.fixture(scope="module")
def web(world):
    world.a = world.http("93.184.216.34", 80, "allowed")
    world.b = world.http("93.184.216.35", 80, "other")
    world.d = world.http("93.184.216.36", 80, "denied")
    return world


@pytest.fixture(scope="module")
def sb(web):
    with web.inside("--route", "proxy", allow=ALLOW) as s:
        yield s


@pytest.fixture(autouse=True)
def _forget(web):
    for o in (web.a, web.b, web.d):
        with o.cond:
            o.requests.clear()
            o.routes.clear()
    yield


def req(url, method="GET", *headers, body=b"", version="HTTP/1.1"):
    host = url.split("/")[2]
    lines = [f"{method} {url} {version}", f"Host: {host}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def get(sb, url, *headers, method="GET", body=b"", **kw):
    return sb.py("result = talk(d)", d=req(url, method, "Connection: close", *headers, body=body),
                 **kw)


def test_absolute_form_becomes_origin_form_and_host_is_the_targets(sb, web):
    st, _, body = get(sb, "http://allowed.example.org/path?q=1&r=%20")
    assert (st, body) == (200, b"allowed /path?q=1&r=%20\n")
    r = web.a.requests[0]
    assert r.target == "/path?q=1&r=%20" and r.header("host") == ["allowed.example.org"]


def test_host_header_of_the_client_is_replaced_by_the_target(sb, web):
    d = b"GET http://allowed.example.org/ HTTP/1.1\r\nHost: denied.example.net\r\n" \
        b"Connection: close\r\n\r\n"
    st, _, _ = sb.py("result = talk(d)", d=d)
    assert st == 200
    assert web.a.requests[0].header("host") == ["allowed.example.org"]


def test_an_absolute_target_without_a_path_asks_for_slash(sb, web):
    st, _, _ = get(sb, "http://allowed.example.org")
    assert st == 200 and web.a.requests[0].target == "/"


def test_port_and_userinfo(sb, web):
    with_port = web.http("93.184.216.34", 8000, "port")
    with web.inside(allow=["allowed.example.org:8000"]) as s:
        st, _, body = get(s, "http://allowed.example.org:8000/x")
        assert st == 200 and body == b"port /x\n"
        assert with_port.requests[0].header("host") == ["allowed.example.org:8000"]
    with_port.close()


def test_a9_h2_second_request_to_a_denied_host_is_403(web):
    """H2, real curl, two URLs, one connection: the second is judged on its own"""
    need("curl", "curl")
    r = web.run("--route", "proxy", "--", "curl", "-sS", "-w", "|%{http_code}|\n",
                "http://allowed.example.org/one", "http://denied.example.net/two", allow=ALLOW)
    assert "|200|" in r.text and "|403|" in r.text, r
    assert web.a.seen() == [("GET", "/one")] and web.d.seen() == []
    assert [v["verdict"] for v in verdicts(r.audit)] == ["allow", "deny"], r.audit


def test_a9_kept_alive_both_orders(sb, web):
    """H2: denied first and allowed after; a refusal closes, so the client comes again"""
    got = sb.py("""
        s = proxy()
        s.sendall(one)
        a = read_head(s)
        while len(a[2]) < int(a[1]["content-length"]):
            a = (a[0], a[1], a[2] + s.recv(4096))
        s.sendall(two)
        b = read_head(s)
        result = a, b[0], b[2] + read_all(s)
    """, one=req("http://allowed.example.org/1"), two=req("http://denied.example.net/2"))
    assert got[0][0] == 200 and got[1] == 403
    assert web.d.seen() == []


def test_a9_h4_two_requests_in_one_segment_to_two_hosts(sb, web):
    """H4: pipelined: each judged, each to its own host"""
    d = req("http://allowed.example.org/1") + req("http://other.example.org/2", "GET",
                                                  "Connection: close")
    got = sb.py("""
        s = proxy(); s.sendall(d)
        result = read_all(s)
    """, d=d)
    assert got.count(b"HTTP/1.1 200") == 2, got
    assert got.index(b"allowed /1\n") < got.index(b"other /2\n")
    assert web.a.seen() == [("GET", "/1")] and web.b.seen() == [("GET", "/2")]


def test_a9_h4_a_pipelined_request_for_a_denied_host_is_403(sb, web):
    """H4, H3: the second of one segment is refused, and its secret goes nowhere"""
    d = req("http://allowed.example.org/1") + req("http://denied.example.net/2", "GET",
                                                  "Proxy-Authorization: Basic c2VjcmV0")
    got = sb.py("s = proxy(); s.sendall(d); result = read_all(s)", d=d)
    assert b"HTTP/1.1 200" in got and b"HTTP/1.1 403" in got, got
    assert web.a.seen() == [("GET", "/1")] and web.d.seen() == []
    assert b"c2VjcmV0" not in b"".join(web.a.data.values())


def test_a9_100_pipelined_requests_keep_their_order(sb, web):
    d = b"".join(req(f"http://{'allowed' if i % 3 else 'other'}.example.org/{i}")
                 for i in range(99))
    d += req("http://allowed.example.org/99", "GET", "Connection: close")
    got = sb.py("s = proxy(); s.sendall(d); result = read_all(s)", d=d)
    assert got.count(b"HTTP/1.1 200") == 100
    at = [got.index(f" /{i}\n".encode()) for i in range(100)]
    assert at == sorted(at)
    assert len(web.a.seen()) + len(web.b.seen()) == 100


@pytest.mark.parametrize("header", ["Proxy-Authorization: Basic c2VjcmV0",
                                    "proxy-authorization: Bearer c2VjcmV0",
                                    "PROXY-Authorization:c2VjcmV0",
                                    "Proxy-Connection: keep-alive",
                                    "Proxy-Anything: c2VjcmV0",
                                    "Keep-Alive: timeout=5", "TE: trailers",
                                    "Upgrade-Nothing: 1"])
def test_a9_h3_proxy_headers_and_hop_by_hop_headers_never_reach_an_origin(sb, web, header):
    """H3: stripped by parsed name, on every request of a connection"""
    name = header.split(":")[0]
    d = req("http://allowed.example.org/1", "GET", header) + \
        req("http://allowed.example.org/2", "GET", header, "X-Kept: yes", "Connection: close")
    sb.py("s = proxy(); s.sendall(d); result = read_all(s)", d=d)
    assert len(web.a.requests) == 2
    for r in web.a.requests:
        assert bool(r.header(name)) == (name == "Upgrade-Nothing"), r.raw
    assert web.a.requests[1].header("x-kept") == ["yes"]


def test_a9_headers_named_by_connection_are_removed(sb, web):
    d = req("http://allowed.example.org/", "GET", "Connection: close, X-Hop , x-other", "X-Hop: 1",
            "X-Other: 2", "X-End: 3")
    sb.py("result = talk(d)", d=d)
    r = web.a.requests[0]
    assert not r.header("x-hop") and not r.header("x-other") and r.header("x-end") == ["3"]


G = b"GET http://allowed.example.org/ HTTP/1.1\r\nHost: allowed.example.org\r\n"
P = b"POST http://allowed.example.org/ HTTP/1.1\r\nHost: allowed.example.org\r\n"
MALFORMED = {
    "bare lf in a header": G + b"X: a\nHost: denied.example.net\r\n\r\n",
    "bare lf line ends": G.replace(b"\r\n", b"\n") + b"\n",
    "bare cr in a header": G + b"X: a\rb\r\n\r\n",
    "space before colon": G + b"X : a\r\n\r\n",
    "host, space, colon": b"GET http://allowed.example.org/ HTTP/1.1\r\nHost : x\r\n\r\n",
    "tab before colon": G + b"X\t: a\r\n\r\n",
    "folded header": G + b"X: a\r\n b\r\n\r\n",
    "folded with tab": G + b"X: a\r\n\tHost: denied.example.net\r\n\r\n",
    "line starts with space": b"GET http://allowed.example.org/ HTTP/1.1\r\n Host: x\r\n\r\n",
    "no colon": G + b"nonsense\r\n\r\n",
    "empty name": G + b": x\r\n\r\n",
    "nul in a value": G + b"X: a\x00b\r\n\r\n",
    "nul in a name": G + b"X\x00Y: a\r\n\r\n",
    "escape in a value": G + b"X: \x1b[2J\r\n\r\n",
    "del in a value": G + b"X: \x7f\r\n\r\n",
    "duplicate host": G + b"Host: allowed.example.org\r\n\r\n",
    "duplicate host, other case": G + b"hOST: denied.example.net\r\n\r\n",
    "cl and te": P + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "te and cl": P + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "two lengths that differ": P + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "list of lengths": P + b"Content-Length: 4, 5\r\n\r\nabcde",
    "negative length": P + b"Content-Length: -4\r\n\r\n",
    "plus length": P + b"Content-Length: +4\r\n\r\nabcd",
    "hex length": P + b"Content-Length: 0x4\r\n\r\nabcd",
    "huge length": P + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "length with spaces inside": P + b"Content-Length: 4 4\r\n\r\nabcd",
    "te not chunked": P + b"Transfer-Encoding: gzip\r\n\r\n",
    "te chunked twice": P + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n",
    "te disguised": P + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "https in absolute form": b"GET https://allowed.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "ftp": b"GET ftp://allowed.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "file": b"GET file:///etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
    "no scheme": b"GET //allowed.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "version 0.9": b"GET http://allowed.example.org/\r\n\r\n",
    "version 2.0": b"GET http://allowed.example.org/ HTTP/2.0\r\nHost: x\r\n\r\n",
    "version 1.2": b"GET http://allowed.example.org/ HTTP/1.2\r\nHost: x\r\n\r\n",
    "version 1.10": b"GET http://allowed.example.org/ HTTP/1.10\r\nHost: x\r\n\r\n",
    "version lower case": b"GET http://allowed.example.org/ http/1.1\r\nHost: x\r\n\r\n",
    "http2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "two spaces": b"GET  http://allowed.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "tab as separator": b"GET\thttp://allowed.example.org/\tHTTP/1.1\r\nHost: x\r\n\r\n",
    "space after version": b"GET http://allowed.example.org/ HTTP/1.1 \r\nHost: x\r\n\r\n",
    "space in the target": b"GET http://allowed.example.org/a b HTTP/1.1\r\nHost: x\r\n\r\n",
    "control byte in the target":
        b"GET http://allowed.example.org/\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
    "bad method": b"G@T http://allowed.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "empty method": b" http://allowed.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 40 + b"\r\n\r\n",
    "connect without port": b"CONNECT allowed.example.org HTTP/1.1\r\nHost: x\r\n\r\n",
    "connect with a url": b"CONNECT http://allowed.example.org:443/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "connect with a path": b"CONNECT allowed.example.org:443/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "userinfo": b"GET http://u:p@allowed.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("what", MALFORMED)
def test_h5_h6_malformed_heads_are_400_and_reach_nobody(sb, web, what):
    """H5 smuggling: bare CR or LF, space before colon, folds, CL+TE, two Hosts; H6 schemes"""
    st, h, body = sb.py("result = talk(d, eof=eof)", d=MALFORMED[what], eof=what == "version 0.9")
    assert st == 400, (st, h, body)
    assert h["content-length"] == str(len(body)) and body.count(b"\n") == 3, (h, body)
    assert "error=http_request_error" in h["proxy-status"], h
    assert web.a.seen() == [] and web.d.seen() == [] and web.b.seen() == []


def test_h5_two_equal_lengths_are_not_differing_ones(sb, web):
    """SPEC says differing; equal ones may be refused or passed as one, never as two"""
    st, _, _ = sb.py("result = talk(d)", d=P + b"Connection: close\r\nContent-Length: 4\r\n"
                     b"Content-Length: 4\r\n\r\nabcd")
    assert st in (200, 400)
    for r in web.a.requests:
        assert r.header("content-length") == ["4"]


@pytest.mark.parametrize("target", ["/", "/index.html", "*"])
def test_origin_form_is_400_that_says_how_to_use_a_proxy(sb, target):
    method = "OPTIONS" if target == "*" else "GET"
    d = f"{method} {target} HTTP/1.1\r\nHost: allowed.example.org\r\n\r\n".encode()
    st, h, body = sb.py("result = talk(d)", d=d)
    assert st == 400 and b"proxy" in body and "origin_form" in h["proxy-status"], (st, h, body)


@pytest.mark.parametrize("ended", [True, False])
def test_h12_a_head_over_64_kib_is_431_terminated_or_not(sb, web, ended):
    """H12: the cap holds for a terminated head too"""
    d = G + b"X: " + b"a" * 70000 + (b"\r\n\r\n" if ended else b"")
    st, h, body = sb.py("result = talk(d)", d=d)
    assert st == 431 and body.count(b"\n") == 3, (st, h, body)
    assert web.a.seen() == []


def test_h12_an_endless_head_is_431_and_not_read_for_ever(sb):
    """L1: the client cannot send 16 MiB of head"""
    st, sent = sb.py("""
        s = proxy(); s.sendall(d); n = 0
        try:
            while n < 16 << 20:
                n += s.send(b"X: " + b"a" * 16000 + b"\\r\\n")
        except OSError:
            pass
        try:
            result = read_head(s)[0], n
        except OSError:
            result = 0, n
    """, d=G)
    assert sent < 16 << 20 and st in (431, 0), (st, sent)


def test_a_20_kb_request_head_passes(sb, web):
    st, _, _ = get(sb, "http://allowed.example.org/", "X-Big: " + "b" * 20000)
    assert st == 200 and len(web.a.requests[0].header("x-big")[0]) == 20000


def test_a_20_kb_response_head_passes(sb, web):
    web.a.routes["/"] = b"HTTP/1.1 200 OK\r\nX-Big: " + b"b" * 20000 + \
        b"\r\nContent-Length: 2\r\n\r\nok"
    st, h, body = get(sb, "http://allowed.example.org/")
    assert st == 200 and len(h["x-big"]) == 20000 and body == b"ok"


def test_h13_a_head_that_does_not_come_is_408_after_10_s(sb):
    """H13: a partial head does not stay"""
    took, st, body = sb.py("""
        s = proxy(); t = time.monotonic()
        s.sendall(b"GET http://allowed.example.org/ HTTP/1.1\\r\\nX: ")
        st, h, b = read_head(s); b += read_all(s)
        result = time.monotonic() - t, st, b
    """)
    assert st == 408 and 9 < took < 30 and body.count(b"\n") == 3, (took, st, body)


def test_h13_slow_loris_is_408_too(sb):
    took, st = sb.py("""
        s = proxy(); t = time.monotonic(); s.settimeout(0.5); st = None
        s.sendall(b"GET http://allowed.example.org/ HTTP/1.1\\r\\n")
        while st is None and time.monotonic() - t < 40:
            try:
                s.sendall(b"X: a\\r\\n")
                st = read_head(s)[0]
            except socket.timeout:
                pass
            except OSError:
                st = 0
        result = time.monotonic() - t, st
    """)
    assert st in (408, 0) and 9 < took < 30, (took, st)


def test_h13_one_byte_at_a_time_is_still_one_request(sb, web):
    st, body = sb.py("""
        s = proxy()
        for i in range(len(d)):
            s.sendall(d[i:i + 1])
        st, h, b = read_head(s)
        result = st, b + read_all(s)
    """, d=req("http://allowed.example.org/slow", "GET", "Connection: close"))
    assert st == 200 and body == b"allowed /slow\n" and web.a.seen() == [("GET", "/slow")]


def test_h13_the_connection_limit_answers_503_with_retry_after(web):
    """H13: a cap with an answer"""
    with web.inside("--policy", web.write(f"{web.home}/limit.policy", "limit connections 4\n"),
                    allow=ALLOW) as s:
        got = s.py("""
            held = [connect("allowed.example.org:80")[0:2] for _ in range(4)]
            s5 = proxy()
            s5.sendall(b"CONNECT allowed.example.org:80 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
            st, h, b = read_head(s5)
            b += read_all(s5)
            for s, _ in held: s.close()
            ok = 0
            end = time.monotonic() + 60
            while ok != 200 and time.monotonic() < end:
                x, ok, _, _ = connect("allowed.example.org:80"); x.close()
            result = [c[1] for c in held], st, h, b, ok
        """)
        assert got[0] == [200] * 4 and got[1] == 503, got
        assert "retry-after" in got[2] and got[3].count(b"\n") == 3, got
        assert got[4] == 200


def test_h15_every_refusal_has_proxy_status_and_three_lines(sb):
    """H15: 400, 403, 502 are told apart, by machines too"""
    for d, status, word in ((req("http://denied.example.net/"), 403, "no_rule"),
                            (req("http://allowed.example.org:81/"), 403, "port"),
                            (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "origin_form")):
        st, h, body = sb.py("result = talk(d)", d=d)
        assert st == status and word in h["proxy-status"] and "error=" in h["proxy-status"], h
        assert h["content-length"] == str(len(body)) and body.count(b"\n") == 3
        assert h.get("content-type", "").startswith("text/plain")


def test_h15_a_refusal_of_an_upload_arrives_before_the_connection_is_closed(sb):
    """The text is not lost to a RST because the client was still sending"""
    for n in (10, 200_000):
        st, h, body = sb.py("""
            s = proxy(); s.sendall(d); s.sendall(b"x" * n)
            st, h, b = read_head(s); b += read_all(s)
            result = st, h, b
        """, d=req("http://denied.example.net/", "POST", f"Content-Length: {n}"), n=n)
        assert st == 403 and len(body) == int(h["content-length"]), (n, st, h, body)


@pytest.mark.parametrize("n", [0, 1, 4096, 65536, 1 << 20, 8 << 20])
def test_uploads_with_a_length_arrive_whole(sb, web, n):
    st, _, body = sb.py("""
        s = proxy(); s.sendall(d); send_pattern(s, n)
        st, h, b = read_head(s); result = st, h, b + read_all(s)
    """, d=req("http://allowed.example.org/up", "POST", f"Content-Length: {n}",
               "Connection: close"), n=n)
    assert st == 200 and body == b"allowed /up\n"
    assert web.a.requests[0].body == pattern(0, n)


@pytest.mark.parametrize("sizes", [[1], [1, 2, 3], [4096] * 20, [65537, 1, 65535, 300000], []])
def test_chunked_uploads_arrive_whole(sb, web, sizes):
    st, _, body = sb.py("""
        s = proxy(); s.sendall(d); pos = 0
        for n in sizes:
            s.sendall(b"%x\\r\\n" % n + pattern(pos, n) + b"\\r\\n"); pos += n
        s.sendall(b"0\\r\\n\\r\\n")
        st, h, b = read_head(s); result = st, h, b + read_all(s)
    """, d=req("http://allowed.example.org/up", "POST", "Transfer-Encoding: chunked",
               "Connection: close"), sizes=sizes)
    assert st == 200 and body == b"allowed /up\n"
    assert web.a.requests[0].body == pattern(0, sum(sizes))


def test_a_chunked_upload_is_followed_by_the_next_request(sb, web):
    d = req("http://allowed.example.org/1", "POST", "Transfer-Encoding: chunked") + \
        b"5;ext=1\r\nhello\r\n0\r\nX-Trailer: t\r\n\r\n" + \
        req("http://other.example.org/2", "GET", "Connection: close")
    got = sb.py("s = proxy(); s.sendall(d); result = read_all(s)", d=d)
    assert got.count(b"HTTP/1.1 200") == 2, got
    assert web.a.requests[0].body == b"hello" and web.b.seen() == [("GET", "/2")]


@pytest.mark.parametrize("chunk", [b"xyz\r\n", b"5\r\nhelloX\r\n", b"-1\r\n", b"5\nhello\n",
                                   b"FFFFFFFFFFFFFFFFF\r\n", b"0x5\r\nhello\r\n"])
def test_h5_a_broken_chunk_never_becomes_another_request(sb, web, chunk):
    """H5: what follows a broken chunk is not parsed as a request"""
    d = req("http://allowed.example.org/1", "POST", "Transfer-Encoding: chunked") + chunk + \
        req("http://other.example.org/evil")
    got = sb.py("""
        s = proxy(timeout=60); s.sendall(d)
        try:
            s.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        result = read_all(s)
    """, d=d)
    assert web.b.seen() == [] and b"other /evil" not in got


BAD_TRAILERS = b"Proxy-Authorization: Basic c2VjcmV0\r\nproxy-foo: secret\r\nHost: secret.example\r\n" \
    b"Content-Length: 3\r\nTransfer-Encoding: secret\r\nAuthorization: secret\r\nTE: secret\r\n" \
    b"Connection: secret\r\nCookie: secret\r\nSet-Cookie: secret\r\nX-Hop: secret\r\n"


def cut(data, how):
    at = {"whole": [], "bytes": list(range(1, len(data))), "end": [data.index(b"0\r\n") + 3]}[how]
    return [data[a:b] for a, b in zip([0] + at, at + [len(data)])]


@pytest.mark.parametrize("how", ["whole", "bytes", "end"])
def test_a9_trailers_of_a_request_are_judged_like_its_head(sb, web, how):
    body = b"5\r\nhello\r\n0\r\nX-Sum: kept\r\n" + BAD_TRAILERS + b"1-More: kept\r\n\r\n"
    d = req("http://allowed.example.org/1", "POST", "Transfer-Encoding: chunked", "Connection: X-Hop")
    got = sb.py("""
        s = proxy(); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1); s.sendall(d)
        for p in pieces: s.sendall(p)
        s.sendall(d2)
        result = read_all(s)
    """, d=d, pieces=cut(body, how), d2=req("http://allowed.example.org/2", "GET", "Connection: close"))
    assert got.count(b"HTTP/1.1 200") == 2, got
    r = web.a.requests[0]
    sent = web.a.data[r.conn]
    assert r.body == b"hello" and b"0\r\nX-Sum: kept\r\n1-More: kept\r\n\r\nGET /2 " in sent, sent
    assert b"ecret" not in sent and b"Proxy" not in sent and b"proxy" not in sent, sent


@pytest.mark.parametrize("how", ["whole", "bytes", "end"])
def test_a9_trailers_of_an_answer_are_judged_like_its_head(sb, web, how):
    body = b"5\r\nhello\r\n0\r\n" + BAD_TRAILERS + b"X-Sum: kept\r\n\r\n"

    def route(_req, c):
        c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: X-Hop\r\n\r\n")
        pieces = cut(body, how)
        for p in pieces:
            c.sendall(p)
        return SENT
    web.a.routes["/"] = route
    d = req("http://allowed.example.org/") + req("http://other.example.org/n", "GET", "Connection: close")
    got = sb.py("s = proxy(); s.sendall(d); result = read_all(s)", d=d)
    assert b"5\r\nhello\r\n0\r\nX-Sum: kept\r\n\r\nHTTP/1.1 200" in got, got
    assert got.endswith(b"other /n\n") and b"ecret" not in got, got


@pytest.mark.parametrize("bad", [b"A: b\nB: c\r\n\r\n", b"A: b\r\n B: c\r\n\r\n", b"A : b\r\n\r\n",
                                 b"A: \x00\r\n\r\n", b"A\r\n\r\n", b" A: b\r\n\r\n", b"\n",
                                 b"A: " + b"b" * 66000 + b"\r\n\r\n"])
def test_h5_malformed_trailers_are_400_and_nothing_of_them_arrives(sb, web, bad):
    d = req("http://allowed.example.org/1", "POST", "Transfer-Encoding: chunked")
    sb.py("kept = proxy(); kept.sendall(d); result = None", d=d + b"5\r\nhello\r\n")
    # read, before a reset takes it away
    web.a.wait_for(lambda: any(b"hello" in d for d in list(web.a.data.values())), text="the body")
    got = sb.py("""
        try:
            kept.sendall(d)
        except OSError:
            pass
        result = read_all(kept)
    """, d=b"0\r\n" + bad + req("http://other.example.org/evil"))
    assert got.startswith(b"HTTP/1.1 400 ") and got.count(b"HTTP/1.") == 1, got[:300]
    web.a.wait_for(lambda: len(web.a.ended) == len(web.a.conns), text="its end")
    assert web.b.seen() == [] and web.a.seen() == []
    assert not any(b"A" in d.split(b"hello")[-1] for d in list(web.a.data.values()) if b"hello" in d)


# ---- Max-Forwards ----

def test_max_forwards_counts_down(sb, web):
    for method in ("TRACE", "OPTIONS"):
        st, h, _ = get(sb, "http://allowed.example.org/m", "Max-Forwards: 2", method=method)
        assert st == 200 and "proxy-status" not in h
    assert [r.header("max-forwards") for r in web.a.requests] == [["1"], ["1"]]
    st, _, _ = get(sb, "http://allowed.example.org/m", "Max-Forwards: 0")
    assert st == 200 and web.a.requests[2].header("max-forwards") == ["0"]


def test_max_forwards_0_is_answered_here_and_goes_no_further(sb, web):
    st, h, body = get(sb, "http://allowed.example.org/m?q", "Max-Forwards: 0", "X-A: b", "Cookie: secret",
                      "Proxy-Authorization: secret", "Authorization: secret", method="TRACE")
    assert st == 200 and h["content-type"] == "message/http" and "max_forwards" in h["proxy-status"]
    assert body.startswith(b"TRACE http://allowed.example.org/m?q HTTP/1.1\r\n") and b"X-A: b" in body
    assert b"secret" not in body
    st, h, body = get(sb, "http://allowed.example.org", "Max-Forwards: 0", method="OPTIONS")
    assert (st, body) == (200, b"") and h["content-length"] == "0"
    assert web.a.seen() == []


def test_max_forwards_0_says_nothing_of_a_denied_host(sb, web):
    st, _, _ = get(sb, "http://denied.example.net/", "Max-Forwards: 0", method="OPTIONS")
    assert st == 403 and web.d.seen() == []


def test_max_forwards_0_behind_other_requests(sb, web):
    """on a verdict that is in force, and a head that came in pieces, 40 KB of it sent back"""
    d = req("http://allowed.example.org/1") + req("http://allowed.example.org/2", "TRACE", "Max-Forwards: 0",
                                                 "X-Long: " + "a" * 40000)
    got = sb.py("""
        s = proxy(); s.sendall(d[:300]); st = read_head(s)[0]; s.sendall(d[300:])
        result = st, read_all(s)
    """, d=d)
    assert got[0] == 200 and got[1].count(b"HTTP/1.1 200 OK") == 1, got[1][:400]
    assert b"TRACE http://allowed.example.org/2 " in got[1] and b"a" * 40000 + b"\r\n\r\n" in got[1]
    assert web.a.seen() == [("GET", "/1")]


@pytest.mark.parametrize("value", ["-1", "1x", "", "0x1", "1\r\nMax-Forwards: 1"])
def test_a_max_forwards_that_is_no_number_is_400(sb, web, value):
    st, _, _ = get(sb, "http://allowed.example.org/", f"Max-Forwards: {value}", method="OPTIONS")
    assert st == 400 and web.a.seen() == []


RESPONSES = {
    "content-length": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    "until close": (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", b"hello"),
    "chunked": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
                None),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "304": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", b""),
    "http 1.0": (b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nhello", b"hello"),
    "empty": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
    "500": (b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops", b"oops"),
}


@pytest.mark.parametrize("what", RESPONSES)
def test_responses_of_every_framing_end_where_they_should(sb, web, what):
    """Two requests on one connection: the second answer begins where the first one ended"""
    raw, body = RESPONSES[what]
    web.a.routes["/"] = raw
    d = req("http://allowed.example.org/") + req("http://other.example.org/next", "GET",
                                                 "Connection: close")
    got = sb.py("s = proxy(); s.sendall(d); result = read_all(s)", d=d)
    assert b"HTTP/1.1 " + raw[9:12] in got or b"HTTP/1.0 " + raw[9:12] in got, got
    if what not in ("until close", "http 1.0"):	# those may end the client's connection
        assert got.endswith(b"other /next\n"), got
    if body:
        assert body in got


@pytest.mark.parametrize("coding", [b"chunked", b"gzip, chunked", b"x,chunked"])
def test_chunks_of_an_http_1_0_answer_end_the_connection(sb, web, coding):
    """RFC 9112 section 6.1: who takes them for a body until the end must find no other answer in it"""
    raw = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: " + coding + b"\r\n\r\n" \
        b"5\r\nhello\r\n0\r\n\r\n"
    web.a.routes["/"] = raw
    d = req("http://allowed.example.org/") + req("http://other.example.org/next")
    got = sb.py("s = proxy(); s.sendall(d); result = read_all(s)", d=d)
    assert got.endswith(b"hello\r\n0\r\n\r\n") and b"Connection: close\r\n" in got, got
    assert web.b.seen() == []


def test_head_has_no_body(sb, web):
    web.a.routes["/"] = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    d = req("http://allowed.example.org/", "HEAD") + req("http://other.example.org/n", "GET",
                                                         "Connection: close")
    got = sb.py("s = proxy(); s.sendall(d); result = read_all(s)", d=d)
    assert b"Content-Length: 1000" in got and got.endswith(b"other /n\n"), got


def test_expect_100_continue(sb, web):
    got = sb.py("""
        s = proxy(); s.sendall(d)
        a = b""
        while b"100 Continue" not in a: a += s.recv(4096)
        s.sendall(b"hello")
        result = read_all(s)
    """, d=req("http://allowed.example.org/e", "POST", "Expect: 100-continue", "Content-Length: 5",
               "Connection: close"))
    assert b"200" in got and web.a.requests[0].body == b"hello"


def interims(n):
    """an origin that says 103 so often before it answers, and the whole flood of it"""
    def f(_req, c):
        for _ in range(n):
            c.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        return b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
    return f


@pytest.mark.parametrize("n,ends", [(0, True), (64, True), (65, False), (100000, False)])
def test_interim_answers_are_passed_on_but_not_without_end(sb, web, n, ends):
    web.a.routes["/103"] = interims(n)
    got = sb.py("s = proxy(); s.sendall(d); result = read_all(s)",
                d=req("http://allowed.example.org/103", "GET", "Connection: close"))
    assert got.endswith(b"\r\n\r\nok") == ends, got[-200:]
    assert got.count(b"HTTP/1.1 103 ") <= 64
    if ends:
        assert got.count(b"HTTP/1.1 103 ") == n, got[:200]


@pytest.mark.parametrize("end", [b"HTTP/1.1 204 No\r\n\r\n",
                                 b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"])
def test_interim_answers_in_one_segment_with_the_final_one(sb, web, end):
    """however many there are, nothing more needs to come for the last one to be passed on"""
    counts = range(1, 20)
    for n in counts:
        web.a.routes[f"/{n}"] = b"HTTP/1.1 103 Early\r\n\r\n" * n + end
    got = sb.py("""
        out = []
        for n in counts:
            s = proxy(timeout=10); s.sendall(d.replace(b"/N ", b"/%d " % n))
            got = b""
            while end not in got: got += s.recv(65536)
            s.sendall(d.replace(b"/N ", b"/next "))
            while b"allowed /next" not in got: got += s.recv(65536)
            s.close(); out.append(got.count(b" 103 "))
        result = out
    """, d=req("http://allowed.example.org/N"), counts=list(counts), end=end)
    assert got == list(counts)


def test_an_early_401_in_the_middle_of_an_upload_reaches_the_client(sb, web):
    web.a.routes["/up"] = early(b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n"
                                b"Connection: close\r\n\r\nno")
    st, body = sb.py("""
        s = proxy(); s.sendall(d); s.sendall(b"x" * 1000)
        st, h, b = read_head(s)
        result = st, b
        s.close()
    """, d=req("http://allowed.example.org/up", "POST", "Content-Length: 1000000"))
    assert st == 401


def test_http_1_0_client(sb, web):
    st, _, body = sb.py("result = talk(d)", d=b"GET http://allowed.example.org/z HTTP/1.0\r\n\r\n")
    assert st == 200 and body == b"allowed /z\n"
    assert web.a.requests[0].header("host") == ["allowed.example.org"]


def test_gzip_is_untouched(sb, web):
    web.a.routes["/gz"] = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n" \
        b"Content-Length: 6\r\n\r\n" b"\x1f\x8b\x00\x01\xff\xfe"
    st, h, body = get(sb, "http://allowed.example.org/gz", "Accept-Encoding: gzip")
    assert st == 200 and body == b"\x1f\x8b\x00\x01\xff\xfe" and h["content-encoding"] == "gzip"
    assert web.a.requests[0].header("accept-encoding") == ["gzip"]


@pytest.mark.parametrize("raw", [b"nonsense\r\n\r\n", b"HTTP/1.1\r\n\r\n", b"",
                                 b"HTTP/1.1 200 OK\r\n",
                                 b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
                                 b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
                                 b"Content-Length: 3\r\n\r\nokk"])
def test_an_answer_that_is_not_http_is_502(web, raw):
    def bad(_o, c, _n):
        c.recv(65536)
        c.sendall(raw)
    o = web.listen("93.184.216.38", 80, bad)
    web.dns.set("bad.example.org", ["93.184.216.38"])
    try:
        with web.inside(allow=["bad.example.org"]) as s:
            st, h, body = get(s, "http://bad.example.org/")
            assert st == 502 and body.count(b"\n") == 3, (st, h, body)
            assert o.count == 1	# a request's bytes go to one connection and are never sent again
    finally:
        o.close()


def test_v5_100_posts_in_three_pieces_make_exactly_100_requests(sb, web):
    """V5: body after 1, 5 and 10 ms; each upstream holds the request once"""
    before = web.a.count
    bad = sb.py("""
        bad = []
        def one(i):
            try:
                s = proxy()
                s.sendall(b"POST http://allowed.example.org/p%d HTTP/1.1\\r\\nHost: x\\r\\n"
                          b"Content-Length: 30\\r\\nConnection: close\\r\\n\\r\\n" % i)
                for ms in (1, 5, 10):
                    time.sleep(ms / 1000); s.sendall(b"0123456789")
                st, h, b = read_head(s); b += read_all(s); s.close()
                if st != 200: bad.append((i, st, b))
            except Exception as e:
                bad.append((i, repr(e)))
        ts = [threading.Thread(target=one, args=(i,)) for i in range(100)]
        for t in ts: t.start()
        for t in ts: t.join()
        result = bad
    """)
    assert bad == []
    assert web.a.count - before == 100 and len(web.a.requests) == 100
    assert all(r.body == b"0123456789" * 3 for r in web.a.requests)


def test_the_end_record_counts_requests_and_bytes(web):
    with web.inside(allow=ALLOW) as s:
        d = b"".join(req(f"http://allowed.example.org/{i}") for i in range(4)) + \
            req("http://allowed.example.org/4", "GET", "Connection: close")
        s.py("s = proxy(); s.sendall(d); result = read_all(s)", d=d)
        def ends():
            return [r for r in s.audit if r["event"] == "end" and r.get("host")]
        wait_until(lambda: sum(r["requests"] for r in ends()) >= 5, 10, "the end of five requests")
        end = ends()
        assert sum(r["requests"] for r in end) == 5, json.dumps(s.audit, indent=1)
        assert end[0]["up"] > 0 and end[0]["down"] > 0


def test_a_websocket_upgrade_becomes_a_tunnel(web):
    """ws://: after 101 bytes pass both ways untouched"""
    def ws(_o, c, _n):
        d = b""
        while b"\r\n\r\n" not in d:
            d += c.recv(4096)
        c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                  b"Connection: Upgrade\r\n\r\n")
        while True:
            x = c.recv(4096)
            if not x:
                return
            c.sendall(x.upper())
    o = web.listen("93.184.216.38", 80, ws)
    web.dns.set("ws.example.org", ["93.184.216.38"])
    try:
        with web.inside(allow=["ws.example.org"]) as s:
            got = s.py("""
                s = proxy(); s.sendall(d); st, h, r = read_head(s)
                out = []
                for i in range(3):
                    s.sendall(b"GET http://x/ ping"); b = b""
                    while len(b) < 18: b += s.recv(100)
                    out.append(b)
                s.close(); result = st, out
            """, d=req("http://ws.example.org/", "GET", "Connection: Upgrade", "Upgrade: websocket",
                       "Sec-WebSocket-Key: eA==", "Sec-WebSocket-Version: 13"))
        assert got == (101, [b"GET HTTP://X/ PING"] * 3)
    finally:
        o.close()


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_connect_answers_200_without_a_body(sb, version):
    raw = sb.py("""
        s = proxy()
        s.sendall(b"CONNECT allowed.example.org:80 HTTP/" + v + b"\\r\\nHost: x\\r\\n\\r\\n")
        d = b""
        while b"\\r\\n\\r\\n" not in d: d += s.recv(4096)
        s.close(); result = d
    """, v=version.encode())
    head = raw.split(b"\r\n")
    assert head[0].startswith(b"HTTP/1.") and b" 200 Connection established" in head[0], raw
    assert raw.endswith(b"\r\n\r\n")
    assert not any(x.lower().startswith((b"content-length", b"transfer-encoding")) for x in head)


def test_bytes_sent_early_are_kept_in_order(sb):
    got = sb.py("""
        s = proxy()
        s.sendall(b"CONNECT allowed.example.org:80 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"
                  b"GET /early HTTP/1.1\\r\\nHost: x\\r\\n")
        s.sendall(b"Connection: close\\r\\n\\r\\n")
        result = read_all(s)
    """)
    assert got.endswith(b"allowed /early\n"), got


def test_the_ipv6_listener_serves_too(sb):
    st, _, _ = sb.py("result = talk(d, addr=('::1', 3128))",
                     d=req("http://allowed.example.org/", "GET", "Connection: close"))
    assert st == 200
