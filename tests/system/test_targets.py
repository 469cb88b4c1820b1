# SPDX-License-Identifier: ISC
"""Every spelling of an authority that is not a host name and a port (A5, A6; H1, H11, H16, H18)."""
import pytest

from world import read_audit, wait_until

LONG = ".".join(["a" * 60] * 5)		# 304 bytes
BAD = {
    "nul before an allowed suffix": b"127.0.0.1\x00.allowed.example.org:443",
    "nul after the name": b"allowed.example.org\x00:443",
    "nul in the port": b"allowed.example.org:443\x00",
    "bare cr": b"allowed\r.example.org:443",
    "bare lf": b"allowed\n.example.org:443",
    "space": b"allowed .example.org:443",
    "space at the end": b"allowed.example.org :443",
    "tab": b"allowed\t.example.org:443",
    "percent 00": b"allowed.example.org%00.x:443",
    "percent 2e": b"allowed%2eexample.org:443",
    "userinfo": b"user@allowed.example.org:443",
    "userinfo with password": b"denied.example.net:443@allowed.example.org:443",
    "0x80": b"allowed\x80.example.org:443",
    "0xff": b"\xff.allowed.example.org:443",
    "utf-8": "bücher.example.org:443".encode(),
    "full-width dot": "allowed。example.org:443".encode(),
    "escape": b"\x1b[31mallowed.example.org:443",
    "del": b"allowed\x7f.example.org:443",
    "300-byte host": LONG.encode() + b":443",
    "254-byte host": ("a." * 126 + "aa").encode() + b":443",
    "70-byte label": b"a" * 70 + b".allowed.example.org:443",
    "64-byte label": b"a" * 64 + b".allowed.example.org:443",
    "empty": b"",
    "empty host": b":443",
    "only a dot": b".:443",
    "empty label": b"allowed..example.org:443",
    "leading dot": b".allowed.example.org:443",
    "two trailing dots": b"allowed.example.org..:443",
    "slash": b"allowed.example.org/x:443",
    "comma": b"allowed.example.org,denied.example.net:443",
    "star": b"*.example.org:443",
    "hyphen at the start": b"-allowed.example.org:443",
    "port 0": b"allowed.example.org:0",
    "port 65536": b"allowed.example.org:65536",
    "port abc": b"allowed.example.org:abc",
    "port -1": b"allowed.example.org:-1",
    "port +443": b"allowed.example.org:+443",
    "port 443.0": b"allowed.example.org:443.0",
    "port 0x1bb": b"allowed.example.org:0x1bb",
    "port 00443": b"allowed.example.org:00443",
    "port huge": b"allowed.example.org:" + b"9" * 40,
    "port with space": b"allowed.example.org: 443",
    "port missing": b"allowed.example.org",
    "port empty": b"allowed.example.org:",
    "two ports": b"allowed.example.org:443:443",
    "unclosed bracket": b"[::1:443",
    "bracketed name": b"[allowed.example.org]:443",
    "bracketed ipv4": b"[127.0.0.1]:443",
    "zone": b"[fe80::1%lo]:443",
    "zone, escaped": b"[fe80::1%25lo]:443",
    "bracket then junk": b"[::1]x:443",
    "bare ipv6": b"::1:443",
    "short ipv4": b"127.1:443",
    "hex ipv4": b"0x7f000001:443",
    "hex parts": b"0x7f.1:443",
    "decimal ipv4": b"2130706433:443",
    "octal ipv4": b"0177.0.0.1:443",
    "five parts": b"1.2.3.4.5:443",
    "256": b"256.1.1.1:443",
    "leading zeros": b"127.000.000.001:443",
    "ipv4 and dot": b"127.1.:443",
    "numeric last label": b"allowed.example.1:443",
    "hex last label": b"allowed.0x1:443",
}


@pytest.fixture(scope="module")
def sb(world):
    world.origin = world.http("93.184.216.34", 443, "must stay alone")
    with world.inside("--route", "proxy", allow=["*:*", ".example.org:*"]) as s:
        s.py("result = 1")
        s.wait_audit(lambda r: r["event"] == "start")
        yield s


# in absolute form a port may be missing and a slash begins the path
CASES = [(w, f) for f in ("connect", "absolute") for w in BAD
         if f == "connect" or w not in ("port missing", "port empty", "slash")]


@pytest.mark.parametrize("what,form", CASES)
def test_a5_bad_authority_is_400_and_nothing_happens(sb, world, what, form):
    """H1 NUL in the authority; H11 bad port or empty host; H16 odd literals; H18 log injection"""
    authority = BAD[what]
    at, n = world.dns.mark(), len(read_audit(sb.audit_path))
    raw0 = len(sb.audit_path.read_bytes()) if sb.audit_path.exists() else 0
    with world.capture() as cap:
        request = b"CONNECT " + authority + b" HTTP/1.1\r\nHost: x\r\n\r\n" if form == "connect" \
            else b"GET http://" + authority + b"/ HTTP/1.1\r\nHost: x\r\n\r\n"
        st, h, body = sb.py("result = talk(request)", request=request)
        assert st == 400, (st, h, body)
        assert body.count(b"\n") == 3 and h["content-length"] == str(len(body)), (h, body)
        assert "proxy-status" in h
        assert not any(c < 32 and c != 10 or c > 126 for c in body), body
        wait_until(lambda: len(read_audit(sb.audit_path)) > n, 10, "an audit line")
        assert not cap.seen(), cap.tries
    assert world.dns.names(at) == []
    new = sb.audit_path.read_bytes()[raw0:]
    assert new.count(b"\n") == 1 and new.endswith(b"\n"), new
    assert not any(c < 32 or c > 126 for c in new[:-1]), new
    rec = read_audit(sb.audit_path)[-1]
    assert rec["verdict"] == "deny" and rec["reason"] in ("bad_name", "bad_request"), rec
    assert world.origin.count == 0


GOOD = {	# spelling: what it is judged as
    "127.0.0.1:443": "127.0.0.1",
    "[::1]:443": "::1",
    "[::ffff:127.0.0.1]:443": "127.0.0.1",
    "[::FFFF:7F00:1]:443": "127.0.0.1",
    "[0:0:0:0:0:0:0:1]:443": "::1",
    "[fe80::1]:443": "fe80::1",
}


@pytest.mark.parametrize("authority", GOOD)
def test_a6_canonical_addresses_are_judged_as_addresses_and_never_resolved(sb, world, authority):
    at = world.dns.mark()
    n = len(read_audit(sb.audit_path))
    st, h, body = sb.py("result = refused(authority)", authority=authority)
    assert st == 403 and "private_address" in h["proxy-status"], (st, h, body)
    rec = wait_until(lambda: read_audit(sb.audit_path)[n:], 10, "an audit line")[0]
    assert rec["host"] == GOOD[authority] and rec["reason"] == "private_address", rec
    assert world.dns.names(at) == []


@pytest.mark.parametrize("spelling", ["Allowed.Example.ORG", "allowed.example.org."])
def test_h16_one_name_has_one_spelling(world, spelling):
    """H16: trailing dot and case are the same name, also in the log and in the query"""
    o = world.http("93.184.216.34", 80, "one")
    try:
        at = world.dns.mark()
        with world.inside(allow=["allowed.example.org"]) as s:
            assert s.py("s, st, h, r = connect(a + ':80'); result = st", a=spelling) == 200
            s.py("s.close()")
            rec = s.wait_audit(lambda r: r.get("verdict") == "allow")[0]
        assert rec["host"] == "allowed.example.org"
        assert set(world.dns.names(at)) == {"allowed.example.org"}
    finally:
        o.close()


def test_h16_an_ipv6_literal_works_where_it_is_allowed(world):
    o = world.http("2606:2800:220:1::35", 80, "six")
    with world.inside(allow=["[2606:2800:220:1::35]:80"]) as s:
        st, _, body = s.py("""
            s, st, h, r = connect("[2606:2800:220:1:0:0:0:35]:80")
            s.sendall(b"GET /6 HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
            result = st, h, r + read_all(s)
        """)
    assert st == 200 and body.endswith(b"six /6\n")
    o.close()


def test_a5_underscore_and_longest_names_are_names(sb, world):
    """253 bytes and 63-byte labels are the limit, not beyond it"""
    name = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 49, "example", "org"])
    assert len(name) == 253
    for n in (name, "_srv.under_score.example.org"):
        st, _, body = sb.py("result = refused(n + ':443')", n=n)
        assert st == 502, body
        world.dns.wait(n)
