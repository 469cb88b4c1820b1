# SPDX-License-Identifier: ISC
"""Names and the addresses behind them (A7, SPEC 4; H8): what was checked is what is dialled."""
import pytest

from world import verdicts


@pytest.fixture(scope="module")
def net(world):
    world.public = world.http("93.184.216.34", 80, "public")
    world.public2 = world.http("93.184.216.35", 80, "public2")
    world.six = world.http("2606:2800:220:1::34", 80, "six")
    world.lan = world.http("192.168.7.7", 80, "lan")
    world.loop = world.http("127.0.0.1", 80, "loop")
    world.meta = world.http("169.254.169.254", 80, "meta")
    world.doc = world.http("198.51.100.7", 80, "doc")
    world.cgnat = world.http("100.64.1.1", 80, "cgnat")
    return world


GET = """
    s, st, h, r = connect(a)
    if st == 200:
        s.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
        r += read_all(s)
    s.close()
    result = st, h, r
"""


def ask(w, authority, *args, allow=(), code=GET):
    with w.inside(*args, allow=allow) as sb:
        st, h, body = sb.py(code, a=authority)
        sb.close()
        sb.records = sb.audit
    return st, h, body, sb


@pytest.mark.parametrize("addr", ["192.168.7.7", "127.0.0.1", "10.77.0.1", "100.64.1.1",
                                  "fd77::2", "::1"])
def test_a7_a_name_on_a_private_address_needs_private(net, addr):
    """H8: DNS answers with private addresses"""
    net.dns.set("p.example.org", [addr])
    with net.capture() as cap:
        st, h, body, sb = ask(net, "p.example.org:80", allow=["p.example.org"])
        assert st == 403 and "private_address" in h["proxy-status"] and \
            "destination_ip_prohibited" in h["proxy-status"], (st, h, body)
        assert not [t for t in cap.seen() if t[0] == "tcp"], cap.tries
    rec = verdicts(sb.records, "p.example.org")
    assert any(r["reason"] == "private_address" for r in rec), sb.records


@pytest.mark.parametrize("addr,name", [("192.168.7.7", "lan"), ("127.0.0.1", "loop"),
                                       ("100.64.1.1", "cgnat")])
def test_a7_with_private_it_works(net, addr, name):
    net.dns.set("p.example.org", [addr])
    st, h, body, _ = ask(net, "p.example.org:80", allow=["p.example.org private"])
    assert st == 200 and body.endswith(f"{name} /\n".encode()), (st, h, body)


@pytest.mark.parametrize("addr", ["169.254.169.254", "0.0.0.0", "224.0.0.1", "198.51.100.7",
                                  "198.18.0.7", "240.0.0.1", "255.255.255.255", "192.0.2.1",
                                  "fe80::1", "ff02::1", "2001:db8::1", "::", "100::1",
                                  "fd00:ec2::254"])
def test_a7_private_does_not_admit_link_local_metadata_and_reserved(net, addr):
    net.dns.set("p.example.org", [addr])
    with net.capture() as cap:
        st, h, _, _ = ask(net, "p.example.org:80", allow=["p.example.org private"])
        assert st == 403 and "private_address" in h["proxy-status"], (st, h)
        assert not [t for t in cap.seen() if t[0] == "tcp"], cap.tries


@pytest.mark.parametrize("addr", ["::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::",
                                  "64:ff9b::a9fe:a9fe", "::ffff:169.254.169.254",
                                  "64:ff9b:1::1"])
def test_a7_ipv4_inside_ipv6_is_classed_itself(net, addr):
    net.dns.set("p.example.org", [addr])
    st, h, _, _ = ask(net, "p.example.org:80", allow=["p.example.org"])
    assert st == 403 and "private_address" in h["proxy-status"], (st, h)


@pytest.mark.parametrize("addr,rule,name", [
    ("169.254.169.254", "169.254.169.254:80", "meta"),
    ("198.51.100.7", "198.51.100.0/24:80", "doc")])
def test_a7_special_addresses_need_their_name_rule_and_an_address_rule(net, addr, rule, name):
    net.dns.set("p.example.org", [addr])
    st, h, body, _ = ask(net, "p.example.org:80", allow=["p.example.org", rule])
    assert st == 200 and body.endswith(f"{name} /\n".encode()), (st, h, body)
    st, h, body, _ = ask(net, "p.example.org:80", allow=[rule])
    assert st == 403 and "no_rule" in h["proxy-status"], (st, h, body)
    other = rule.replace(":80", ":81")
    st, h, body, _ = ask(net, "p.example.org:80", allow=["p.example.org", other])
    assert st == 403 and "private_address" in h["proxy-status"], (st, h, body)


def test_a7_an_address_rule_does_not_replace_the_word_private(net):
    net.dns.set("p.example.org", ["192.168.7.7"])
    st, h, body, _ = ask(net, "p.example.org:80", allow=["p.example.org", "192.168.7.7:80"])
    assert st == 403 and "private_address" in h["proxy-status"], (st, h, body)


def test_a7_h8_rebinding_only_the_checked_address_is_dialled(net):
    """H8: first answer public, the next one private: no second look is ever taken"""
    net.dns.ttl = 0
    net.dns.set("rebind.example.org", [["93.184.216.34"], ["127.0.0.1"], ["169.254.169.254"]])
    before = net.loop.count + net.meta.count
    try:
        with net.inside(allow=["rebind.example.org"]) as sb:
            got = [sb.py(GET, a="rebind.example.org:80")[0] for _ in range(4)]
            assert got[0] == 200 and 403 in got, got
            assert set(got) <= {200, 403}, got
    finally:
        net.dns.ttl = 60
    assert net.loop.count + net.meta.count == before


@pytest.mark.parametrize("answer", [
    ["127.0.0.1", "93.184.216.34"], ["93.184.216.34", "127.0.0.1"],
    ["169.254.169.254", "93.184.216.34", "192.168.7.7"]])
def test_a7_two_records_one_private_only_the_public_one_is_dialled(net, answer):
    net.dns.set("mixed.example.org", answer)
    with net.capture() as cap:
        st, _, body, sb = ask(net, "mixed.example.org:80", allow=["mixed.example.org"])
        assert st == 200 and body.endswith(b"public /\n")
        assert {t[1] for t in cap.seen() if t[0] == "tcp"} == {"93.184.216.34"}, cap.tries
    assert any(r.get("addr") == "93.184.216.34" for r in sb.records), sb.records


@pytest.mark.parametrize("n", [16, 62, 200])
@pytest.mark.parametrize("rules", [["many.example.org"], ["many.example.org", "10.9.9.9:81"],
                                   ["many.example.org", "-10.0.0.0/8"]],
                         ids=["plain", "address rule", "deny"])
def test_a7_private_answers_in_front_do_not_hide_a_public_one(net, n, rules):
    """all answers are classed (64 of them, public ones kept before others), as policy why says"""
    net.dns.set("many.example.org", [f"10.9.{i}.1" for i in range(n)] + ["93.184.216.34"])
    net.dns.truncated.add("many.example.org")
    deny = [w for r in rules if r.startswith("-") for w in ("--deny", r[1:])]
    with net.capture() as cap:
        st, _, body, _ = ask(net, "many.example.org:80", *deny,
                             allow=[r for r in rules if not r.startswith("-")])
        assert st == 200 and body.endswith(b"public /\n"), (st, body)
        assert {t[1] for t in cap.seen() if t[0] == "tcp" and t[2] != 53} == {"93.184.216.34"}, cap.tries


def test_a7_no_query_leaves_for_a_denied_name(net):
    at = net.dns.mark()
    with net.capture() as cap:
        with net.inside("--deny", "bad.example.org", allow=["*", "only.example.org:8443"]) as sb:
            for a in ("bad.example.org:80", "only.example.org:22", "denied.example.net:9999"):
                assert sb.py("result = refused(a)[0]", a=a) == 403
        assert not cap.seen(), cap.tries
    assert net.dns.names(at) == []


def test_a8_h7_a_port_not_in_the_rule_is_403(net):
    """H7: an allowed host is allowed on its ports, not on any"""
    with net.inside(allow=["allowed.example.org", "other.example.org:8000-8010,9000"]) as sb:
        for a, want in (("allowed.example.org:22", 403), ("allowed.example.org:25", 403),
                        ("allowed.example.org:8080", 403), ("other.example.org:80", 403),
                        ("other.example.org:8011", 403), ("allowed.example.org:80", 200),
                        ("other.example.org:8005", 502), ("other.example.org:9000", 502)):
            st, h, _ = sb.py("result = connect(a)[1:]", a=a)
            assert st == want, (a, st, h)
            if want == 403:
                assert "port" in h["proxy-status"], h


def test_deny_beats_allow(net):
    st, h, body, sb = ask(net, "allowed.example.org:80", "--deny", ".example.org",
                          allow=["allowed.example.org"])
    assert st == 403 and "denied" in h["proxy-status"], (st, h, body)
    assert verdicts(sb.records)[0]["rule"]["text"].startswith("deny"), sb.records


def test_a_deny_address_rule_judges_what_a_name_resolved_to(net):
    """H8: the rule is about the address, however it was spelled"""
    net.dns.set("p.example.org", ["93.184.216.34"])
    with net.capture() as cap:
        st, _, _, _ = ask(net, "p.example.org:80", "--deny", "93.184.216.0/24",
                          allow=["p.example.org"])
        assert st == 403
        assert not [t for t in cap.seen() if t[0] == "tcp"], cap.tries
    net.dns.set("p.example.org", ["93.184.216.34", "93.184.216.35"])
    st, _, body, _ = ask(net, "p.example.org:80", "--deny", "93.184.216.34",
                         allow=["p.example.org"])
    assert st == 200 and body.endswith(b"public2 /\n")


def test_a_target_typed_as_an_address_needs_an_address_rule_or_star(net):
    st, h, _, _ = ask(net, "93.184.216.34:80", allow=["allowed.example.org", ".example.org"])
    assert st == 403 and "no_rule" in h["proxy-status"]
    st, _, body, _ = ask(net, "93.184.216.34:80", allow=["93.184.216.34"])
    assert st == 200 and body.endswith(b"public /\n")
    st, _, body, _ = ask(net, "93.184.216.34:80", allow=["*"])
    assert st == 200 and body.endswith(b"public /\n")


@pytest.mark.parametrize("pattern,name,want", [
    (".example.org", "example.org", 502), (".example.org", "a.b.example.org", 502),
    ("*.example.org", "example.org", 403), ("*.example.org", "a.example.org", 502),
    ("example.org", "www.example.org", 403), (".example.org", "notexample.org", 403),
    (".example.org", "example.org.evil.net", 403)])
def test_patterns_match_what_they_say(net, pattern, name, want):
    assert ask(net, f"{name}:80", allow=[pattern], code="result = refused(a)")[0] == want


def test_the_hosts_file_comes_before_dns(net):
    net.hosts("93.184.216.34 pinned.example.org\n127.0.0.1 pinned-loop.example.org\n")
    try:
        at = net.dns.mark()
        st, _, body, _ = ask(net, "pinned.example.org:80", allow=["pinned.example.org"])
        assert st == 200 and body.endswith(b"public /\n")
        st, h, _, _ = ask(net, "pinned-loop.example.org:80", allow=["pinned-loop.example.org"])
        assert st == 403 and "private_address" in h["proxy-status"]
        st, _, body, _ = ask(net, "pinned-loop.example.org:80",
                             allow=["pinned-loop.example.org private"])
        assert st == 200 and body.endswith(b"loop /\n")
        assert net.dns.names(at) == []
    finally:
        net.hosts("")


def test_this_machines_own_address_counts_as_loopback(net):
    """10.77.0.1 is private anyway; a public address of our own must not be reachable either"""
    net.ip("host", "addr", "add", "93.184.216.200/32", "dev", "lo")
    try:
        mine = net.listen("93.184.216.200", 80, ns="host")
        net.dns.set("mine.example.org", ["93.184.216.200"])
        st, h, body, _ = ask(net, "mine.example.org:80", allow=["mine.example.org"])
        assert st == 403 and "private_address" in h["proxy-status"], (st, h, body)
        assert mine.count == 0
        mine.close()
    finally:
        net.ip("host", "addr", "del", "93.184.216.200/32", "dev", "lo")


def test_localhost_is_never_looked_up(net):
    at = net.dns.mark()
    for name in ("localhost", "a.localhost", "LOCALHOST."):
        st, h, _, _ = ask(net, name + ":80", allow=["*"])
        assert st == 403 and "private_address" in h["proxy-status"], (name, h)
    assert net.dns.names(at) == []


@pytest.mark.parametrize("family,addr", [("six", "six.example.org"),
                                         ("four", "allowed.example.org")])
def test_both_families_are_dialled(net, family, addr):
    st, _, body, _ = ask(net, addr + ":80", allow=[addr])
    assert st == 200 and body.endswith(b" /\n") and (b"six" in body) == (family == "six"), body


def test_several_addresses_are_tried_in_turn(net):
    """Nobody listens at the first: the second is tried, and it is one connection"""
    net.dns.set("two.example.org", ["93.184.216.39", "93.184.216.34"])
    n = net.public.count
    st, _, body, _ = ask(net, "two.example.org:80", allow=["two.example.org"])
    assert st == 200 and body.endswith(b"public /\n")
    assert net.public.count == n + 1


@pytest.mark.parametrize("answer,status,word", [
    ("NXDOMAIN", 502, "dns_error"), ("SERVFAIL", 502, "dns_error"), ([], 502, "dns_error")])
def test_a_name_that_does_not_resolve_is_502(net, answer, status, word):
    net.dns.set("gone.example.org", answer)
    st, h, body, sb = ask(net, "gone.example.org:80", allow=["gone.example.org"])
    assert st == status and word in h["proxy-status"], (st, h, body)
    assert body.count(b"\n") == 3
    assert any(r.get("reason") == word for r in sb.records), sb.records


def test_connection_refused_is_502(net):
    st, h, _, sb = ask(net, "allowed.example.org:81", allow=["allowed.example.org:81"])
    assert st == 502 and "connection_refused" in h["proxy-status"], h
    assert any(r.get("reason") == "connect_refused" for r in sb.records), sb.records


@pytest.mark.parametrize("name", ["blackhole.example.org", "slow-dns.example.org"])
def test_h13_dial_and_dns_have_a_budget_of_30_s(net, name):
    """H13: a black hole is answered 504 after 30 s, not never"""
    net.dns.set("slow-dns.example.org", "DROP")
    st, h, body = None, None, None
    with net.inside(allow=[name]) as sb:
        took, (st, h, body) = sb.py("""
            t = time.monotonic()
            r = refused(a, timeout=60)
            result = time.monotonic() - t, r
        """, a=name + ":80", timeout=70)
    if name.startswith("slow"):	# the resolver's own patience may be shorter
        assert st in (502, 504) and took < 50, (took, st, h)
    else:
        assert st == 504 and 28 < took < 50, (took, st, h)
