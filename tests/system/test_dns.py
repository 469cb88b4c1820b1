# SPDX-License-Identifier: ISC
"""Names to addresses: what the servers say is what the client is told, and soon"""
import socket
import struct
import time

import pytest

from origins import dns as dns_mod
from origins import tcp as tcp_mod
from origins.dns import A, AAAA, DROP, NXDOMAIN, REFUSED, SERVFAIL
from world import quick

HOST = "allowed.example.org"
WEB, WEB2 = "93.184.216.34", "93.184.216.35"


@pytest.fixture(scope="module")
def net(world):
    world.web = world.http(WEB, 80, "allowed")
    world.second = world.http(WEB2, 80, "other")
    world.dns2 = dns_mod.Dns(world.make("net", socket.AF_INET, socket.SOCK_DGRAM,
                                        bind=("93.184.216.41", 53)),
                             world.make("net", socket.AF_INET, socket.SOCK_STREAM,
                                        bind=("93.184.216.41", 53), listen=64))
    return world


@pytest.fixture(autouse=True)
def _resolv(world):
    yield
    resolv(world, "nameserver 10.77.0.2\n")


def resolv(world, text):
    """As a program that writes resolv.conf does it: a new file moved into place"""
    q = world.path("/etc/resolv.conf")
    new = q.with_name("resolv.new")
    new.write_text(text, encoding="utf-8")
    new.rename(q)


def name(world, value, server=None):
    n = f"{tcp_mod.unique()}.example.org"
    (server or world.dns).set(n, value)
    return n


GET = """
t = time.monotonic()
s, st, h, rest = connect(a + ":80", timeout=60)
if st == 200:
    s.sendall(b"GET /x HTTP/1.0\\r\\n\\r\\n")
    rest += read_all(s)
s.close()
result = st, h.get("proxy-status", ""), rest.decode(), time.monotonic() - t
"""


@pytest.mark.parametrize("value,word", [(NXDOMAIN, "NXDOMAIN"), (SERVFAIL, "SERVFAIL"),
                                        (REFUSED, "REFUSED"),
                                        ({A: SERVFAIL, AAAA: []}, "SERVFAIL")])
def test_a_name_that_does_not_resolve_is_502_with_the_rcode_at_once(net, value, word):
    with net.inside(allow=[".example.org:80"]) as sb:
        st, status, body, _ = quick(2, lambda: sb.py(GET, a=name(net, value)))
    assert st == 502 and word in body.split("\n")[0], (st, body)
    assert f'error=dns_error; rcode="{word}"; details="dns_error"' in status, status


def test_a_name_without_an_address_is_502_without_an_rcode(net):
    with net.inside(allow=[".example.org:80"]) as sb:
        st, status, body, _ = sb.py(GET, a=name(net, []))
    assert st == 502 and "has no address" in body and "rcode" not in status, (status, body)


def test_no_answer_is_504(net):
    with net.inside(allow=[".example.org:80"], test=True, env={"WEIR_TEST_CLOCK": "5"}) as sb:
        st, status, body, took = sb.py(GET, a=name(net, DROP))
        assert st == 504 and "error=dns_timeout" in status, (st, status, body)
        assert 1.2 < took < 20, took
        done = sb.close()
    assert [r["reason"] for r in done.audit if r["event"] == "end"] == ["dns_timeout"]


@pytest.mark.parametrize("dead", ["192.0.2.1", "10.77.0.1"])
def test_a_second_server_answers_for_one_that_is_dead(net, dead):
    """one that drops every packet, one whose machine says that nothing listens"""
    resolv(net, f"nameserver {dead}\nnameserver 10.77.0.2\n")
    with net.inside(allow=[".example.org:80"]) as sb:
        st, _, body, _ = quick(1 if dead == "10.77.0.1" else 4, lambda: sb.py(GET, a=name(net, [WEB])))
    assert st == 200 and body.endswith("allowed /x\n"), (st, body)


def test_a_second_server_answers_for_one_that_fails(net):
    def one():
        n = name(net, [WEB])
        net.dns2.set(n, SERVFAIL)
        return sb.py(GET, a=n)
    resolv(net, "nameserver 93.184.216.41\nnameserver 10.77.0.2\n")
    with net.inside(allow=[".example.org:80"]) as sb:
        st, _, body, _ = quick(1, one)
    assert st == 200, (st, body)


def test_a_truncated_answer_is_asked_for_over_tcp(net):
    n, at = name(net, [WEB]), net.dns.mark()
    net.dns.truncated.add(n)
    with net.inside(allow=[".example.org:80"]) as sb:
        st, _, body, _ = sb.py(GET, a=n)
    assert st == 200, body
    assert {q["proto"] for q in net.dns.queries[at:] if q["name"] == n} == {"udp", "tcp"}


def test_an_answer_serves_until_its_ttl_is_over(net):
    n, short, at = name(net, [WEB]), name(net, [WEB]), net.dns.mark()
    try:
        with net.inside(allow=[".example.org:80"]) as sb:
            for _ in range(5):	# within a minute
                assert sb.py(GET, a=n)[0] == 200
            assert net.dns.names(at).count(n) == 2, "one query a family"
            net.dns.ttl = 2
            assert sb.py(GET, a=short)[2].endswith("allowed /x\n")
            net.dns.set(short, [WEB2])
            time.sleep(2.1)
            assert sb.py(GET, a=short)[2].endswith("other /x\n")
            assert net.dns.names(at).count(short) == 4
    finally:
        net.dns.ttl = 60


@pytest.mark.parametrize("value", [NXDOMAIN, SERVFAIL])
def test_a_failure_is_not_remembered(net, value):
    n = name(net, value)
    with net.inside(allow=[".example.org:80"]) as sb:
        assert sb.py(GET, a=n)[0] == 502
        net.dns.set(n, [WEB])
        assert sb.py(GET, a=n)[0] == 200


def test_a_server_that_never_answers_for_ipv6_delays_nothing(net):
    with net.inside(allow=[".example.org:80"]) as sb:
        assert sb.py(GET, a=HOST)[0] == 200
        for value in ({A: [WEB], AAAA: DROP}, {A: [WEB], AAAA: SERVFAIL}):
            st, _, body, _ = quick(0.3, lambda v=value: sb.py(GET, a=name(net, v)), 10)
            assert st == 200, (value, st, body)


def test_resolv_conf_is_followed(net):
    """the next question goes to the new server, and what the old one said is forgotten"""
    n = name(net, [WEB])
    net.dns2.set(n, [WEB2])
    with net.inside(allow=[".example.org:80"]) as sb:
        assert sb.py(GET, a=n)[2].endswith("allowed /x\n")
        resolv(net, "nameserver 93.184.216.41\n")
        assert sb.py(GET, a=n)[2].endswith("other /x\n")
        resolv(net, "nameserver 10.77.0.2\n")
        assert sb.py(GET, a=n)[2].endswith("allowed /x\n")


def test_new_servers_wait_for_queries_under_way_but_not_for_ever(net):
    stuck, n = name(net, DROP), name(net, NXDOMAIN)
    net.dns2.set(n, [WEB2])
    with net.inside(allow=[".example.org:80"]) as sb:
        sb.py("global t; t = threading.Thread(target=lambda: refused(a + ':80')); t.start()", a=stuck)
        net.dns.wait(stuck)
        resolv(net, "nameserver 93.184.216.41\n")
        st, _, body, took = sb.py(GET, a=n)
        assert st == 200 and body.endswith("other /x\n") and took < 20, (st, body, took)


def test_queries_under_way_end_with_the_server_they_were_sent_to(net):
    slow, n = name(net, DROP), name(net, NXDOMAIN)
    net.dns2.set(n, [WEB2])
    with net.inside(allow=[".example.org:80"]) as sb:
        sb.start(GET, a=slow)
        net.dns.wait(slow)
        net.dns.set(slow, [WEB])	# the next try of the same query
        resolv(net, "nameserver 93.184.216.41\n")
        st, _, body, _ = sb.answer()
        assert st == 200 and body.endswith("allowed /x\n"), (st, body)
        assert sb.py(GET, a=n)[2].endswith("other /x\n")


# ---- answers that are none ----

def other_address(out):
    return out.replace(socket.inet_aton(WEB), socket.inet_aton(WEB2))


NO_ANSWER = {
    "the query itself": lambda q, out: q,
    "the query, answered": lambda q, out: out[:2] + bytes([out[2] & 0x7F]) + other_address(out)[3:],
    "a notification": lambda q, out: out[:2] + bytes([out[2] | 4 << 3]) + other_address(out)[3:],
    "another id": lambda q, out: bytes([out[0] ^ 1]) + other_address(out)[1:],
    "another question": lambda q, out: other_address(out).replace(q[13:16], b"zzz"),
    "another type": lambda q, out: out[:len(q) - 3] + b"\x10" + other_address(out)[len(q) - 2:],
    "eleven bytes": lambda q, out: out[:11],
    "nothing": lambda q, out: b"",
}


@pytest.mark.parametrize("what", NO_ANSWER)
def test_what_is_no_answer_to_the_query_counts_as_none(net, what):
    """the one behind it counts, and the address in it is not dialled"""
    n, lies = name(net, [WEB]), []

    def lie(q, out, _proto):
        lies.append(NO_ANSWER[what](q, out))
        return [lies[-1], out]
    net.dns.hostile[n] = lie
    with net.inside(allow=[".example.org:80"]) as sb:
        st, _, body, took = sb.py(GET, a=n)
    assert len(lies) == 2 and st == 200 and body.endswith("allowed /x\n"), (st, body)
    assert took < 2, took


def test_an_answer_from_another_server_counts_as_none(net):
    n = name(net, [WEB])
    net.dns.hostile[n] = lambda q, out, _proto: [(other_address(out), net.dns2.udp), out]
    with net.inside(allow=[".example.org:80"]) as sb:
        st, _, body, _ = sb.py(GET, a=n)
    assert st == 200 and body.endswith("allowed /x\n"), (st, body)


def test_who_sends_queries_back_is_no_name_server(net):
    """a thousand times each: the next server is asked, and nothing is taken for its answer"""
    n = name(net, [WEB])
    net.dns2.hostile[n] = lambda q, _out, _proto: [q] * 1000
    resolv(net, "nameserver 93.184.216.41\nnameserver 10.77.0.2\n")
    with net.inside(allow=[".example.org:80"]) as sb:
        st, _, body, took = sb.py(GET, a=n)
    assert n in net.dns2.names() and st == 200 and body.endswith("allowed /x\n"), (st, body)
    assert took < 4, took


@pytest.mark.parametrize("what", ["the query itself", "a notification", "eleven bytes"])
def test_what_is_no_answer_ends_a_tcp_connection(net, what):
    n = name(net, [WEB])
    net.dns2.truncated.add(n)
    net.dns2.set(n, [WEB2])
    net.dns2.hostile[n] = lambda q, out, proto: [NO_ANSWER[what](q, out) if proto == "tcp" else out]
    resolv(net, "nameserver 93.184.216.41\nnameserver 10.77.0.2\n")
    with net.inside(allow=[".example.org:80"]) as sb:
        st, _, body, took = sb.py(GET, a=n)
    assert {q["proto"] for q in net.dns2.queries if q["name"] == n} == {"udp", "tcp"}
    assert st == 200 and body.endswith("allowed /x\n"), (st, body)
    assert took < 4, took


MALFORMED = {
    "a name that points to itself": lambda q, out: out[:len(q)] + struct.pack("!H", 0xC000 | len(q)) +
    out[len(q) + 2:],
    "a name that points behind the end": lambda q, out: out[:len(q)] + b"\xff\xff" + out[len(q) + 2:],
    "an address that is cut": lambda q, out: out[:-1] if out[7] else out,
    "more answers than there are": lambda q, out: out[:6] + b"\xff\xff" + out[8:],
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_answer_is_502_at_once(net, what):
    n = name(net, [WEB])
    net.dns.hostile[n] = lambda q, out, _proto: [MALFORMED[what](q, out)]
    with net.inside(allow=[".example.org:80"]) as sb:
        st, status, body, took = sb.py(GET, a=n)
        assert st == 502 and "error=dns_error" in status, (st, status, body)
        assert took < 2, took
        assert sb.py(GET, a=HOST)[0] == 200


# ---- single labels ----

def test_a_search_domain_counts_where_a_rule_names_the_result_in_full(net):
    net.dns.set("db.lab.example.org", [WEB])
    resolv(net, "search corp.example.org lab.example.org\nnameserver 10.77.0.2\n")
    at = net.dns.mark()
    with net.inside(allow=["db.lab.example.org:80"]) as sb:
        st, _, body, _ = sb.py(GET, a="db")
        assert st == 200 and body.endswith("allowed /x\n"), (st, body)
        assert sb.py(GET, a="DB.")[0] == 200
        assert sb.py(GET, a="other")[0] == 403
        done = sb.close()
    assert set(net.dns.names(at)) == {"db.lab.example.org"}
    assert {r.get("host") for r in done.audit if r["event"] == "end"} == {"db.lab.example.org"}


@pytest.mark.parametrize("rule", [".lab.example.org:80", "*:80", "*.example.org:80"])
def test_a_wider_rule_makes_no_search(net, rule):
    net.dns.set("db.lab.example.org", [WEB])
    resolv(net, "search lab.example.org\nnameserver 10.77.0.2\n")
    at = net.dns.mark()
    with net.inside(allow=[rule]) as sb:
        assert sb.py(GET, a="db")[0] == (502 if rule == "*:80" else 403)
    assert "db.lab.example.org" not in net.dns.names(at)


def test_what_the_hosts_file_knows_is_not_searched_for(net):
    net.hosts(f"{WEB2} db\n")
    resolv(net, "search lab.example.org\nnameserver 10.77.0.2\n")
    try:
        with net.inside(allow=["db.lab.example.org:80", "db:80"]) as sb:
            assert sb.py(GET, a="db")[2].endswith("other /x\n")
    finally:
        net.hosts("")
