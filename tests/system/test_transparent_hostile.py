# SPDX-License-Identifier: ISC
"""The transparent route attacked by the command itself: its rules, its range, its names, its listeners.
Every test names its route."""
import os
import signal
import time

import pytest

from origins.tcp import answer_after_eof, echo
from test_transparent import A, ALLOW, DNS, OTHER, T, inside
from world import HERE, PYTHON, followed, run_delay, verdicts, watching


@pytest.fixture(scope="module")
def net(world):
    world.trust(A, OTHER)
    world.eof = world.listen("93.184.216.34", 7000, answer_after_eof)
    world.echo = world.listen("93.184.216.34", 7001, echo)
    world.silent = [world.listen(a, 8080) for a in ("127.0.0.1", "::1", "10.77.0.1", "192.168.7.7")]
    return world


@pytest.fixture(scope="module")
def sb(net):
    with inside(net, "-q") as s:
        yield s


# ---- the rules ----

# rtnetlink and nfnetlink by hand: what ip(8) and nft(8) would send, and what the kernel says to it
NETLINK = """
import struct
def nl(proto, kind, body, flags=0x5):
    try: s = socket.socket(16, 3, proto)
    except OSError as e: return "socket " + errno.errorcode[e.errno]
    s.settimeout(60)
    s.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body)
    d = s.recv(65536)
    kind, err = struct.unpack("=H", d[4:6])[0], struct.unpack("=i", d[16:20])[0]
    return errno.errorcode.get(-err, str(err)) if kind == 2 else "answer %d" % kind
def attr(t, d): return struct.pack("=HH", 4 + len(d), t) + d + b"\\0" * (-len(d) % 4)
lo = socket.if_nametoindex("lo")
CREATE = 0x405
def routes():
    v4 = attr(1, socket.inet_aton("198.18.0.0"))
    return dict(
        route=nl(0, 24, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 3, 0, 1, 0) + attr(4, struct.pack("=I", lo)), CREATE),
        unroute=nl(0, 25, struct.pack("=BBBBBBBBI", 2, 15, 0, 0, 255, 3, 254, 2, 0) + v4),
        address=nl(0, 20, struct.pack("=BBBBI", 2, 8, 0, 0, lo) + attr(2, socket.inet_aton("8.8.8.8")), CREATE),
        unaddress=nl(0, 21, struct.pack("=BBBBI", 2, 15, 0, 0, lo) + attr(2, socket.inet_aton("198.18.0.1"))),
        link=nl(0, 16, struct.pack("=BBHiII", 0, 0, 0, 0, 0, 0) + attr(18, attr(1, b"dummy")), CREATE),
        down=nl(0, 16, struct.pack("=BBHiII", 0, 0, 1, lo, 0, 1)),
        rule=nl(0, 32, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 0, 0, 1, 0), CREATE))
def tables():
    nfgen = struct.pack("=BBH", 1, 0, 0)
    return dict(
        list=nl(12, 10 << 8 | 1, nfgen, 0x305), delete=nl(12, 10 << 8 | 2, nfgen), conntrack=nl(12, 1 << 8 | 2, nfgen),
        queue=nl(12, 3 << 8 | 2, nfgen))
def legacy():
    out = []
    for fam, level in ((2, 0), (10, 41)):
        s = socket.socket(fam, 1)
        for opt in (64, 65):	# IPT_SO_SET_REPLACE, IPT_SO_SET_ADD_COUNTERS
            try: s.setsockopt(level, opt, b"filter".ljust(100, b"\\0")); out.append("set")
            except OSError as e: out.append(errno.errorcode[e.errno])
    return out
"""


POWERS = """
def powers():
    out = []
    for level, opt, v in ((1, 36, 7), (0, 19, 1), (41, 75, 1), (6, 19, 1)):	# SO_MARK, IP(V6)_TRANSPARENT, TCP_REPAIR
        try: socket.socket(10 if level == 41 else 2, 1).setsockopt(level, opt, v); out.append("set")
        except OSError as e: out.append(errno.errorcode[e.errno])
    return out
def written():
    out = []
    for f in ("net/ipv4/ip_forward", "net/netfilter/nf_conntrack_count", "net/ipv4/conf/all/route_localnet"):
        try: open("/proc/sys/" + f, "w").write("1"); out.append("written")
        except OSError as e: out.append("refused")
    return out
"""


def test_transparent_the_command_cannot_change_its_routes_addresses_or_rules(sb, net):
    sb.py(NETLINK + POWERS)
    assert set(sb.py("result = list(routes().values())")) == {"EPERM"}
    assert set(sb.py("result = list(tables().values())")) == {"socket EAFNOSUPPORT"}
    assert set(sb.py("result = legacy() + powers()")) == {"EPERM"}
    assert set(sb.py("result = written()")) == {"refused"}
    assert sb.py("result = reaches(n, 7000, b'x')", n=A) == b"the whole answer to x"
    net.nothing_reached(*net.silent)


def test_transparent_nor_can_it_as_root_of_a_user_namespace_of_its_own(net):
    """nested yes: every capability there is, over another namespace than the one the rules are in"""
    policy = net.write(f"{net.home}/nested.policy", "nested yes\n")
    code = (HERE / "inside.py").read_text(encoding="utf-8").split("def serve()")[0] + DNS + NETLINK + POWERS + """
import os, ctypes
libc = ctypes.CDLL(None, use_errno=True)
def enter(ns):
    try: f = os.open("/proc/1/ns/" + ns, os.O_RDONLY)
    except OSError as e: return "no"
    return "entered" if libc.setns(f, 0) == 0 else "no"
caps = [l for l in open("/proc/self/status") if l.startswith("CapEff")][0].split()[1]
one = [int(caps, 16) > 0xffff, set(routes().values()), set(tables().values()), set(legacy() + powers()), set(written()),
       enter("net"), enter("user"), reaches("%s", 7000, b"x"), dial("10.77.0.1", 8080)]
assert libc.unshare(0x40000000) == 0	# CLONE_NEWNET: this one is its own, with a route and rules of its own
assert os.system("set -e; PATH=/usr/sbin:/sbin; ip link set lo up; ip addr add 198.18.0.1/15 dev lo; ip route add default dev lo") == 0
own = [reaches(a, p, b"x", 2) for a, p in (("198.18.0.2", 7000), ("10.77.0.1", 8080))]
print((one, routes()["rule"], own))
""" % A
    r = net.run("-p", policy, *T, "--", "unshare", "--user", "--map-root-user", "--", PYTHON, "-c", code, allow=ALLOW)
    one, rule, own = eval(r.ok().text)  # pylint: disable=eval-used
    assert one == [True, {"EPERM"}, {"socket EAFNOSUPPORT"}, {"EPERM"}, {"refused"}, "no", "no",
                   b"the whole answer to x", "ENETUNREACH"], one
    assert rule == "0", "it has power over its own network"
    assert own[0] == "ECONNREFUSED" and own[1] in ("timed out", "EHOSTUNREACH"), own
    net.nothing_reached(*net.silent)


# ---- the range ----

def test_transparent_a_scan_of_the_range_is_reset_recorded_and_told_but_does_not_fill_the_terminal(net):
    n = 1500
    with net.capture() as cap:
        with inside(net, allow=["*:*"]) as s:
            got = s.py("""
                import random
                random.seed(1); out, all = {}, []
                for i in range(n):
                    c = socket.socket(); c.setblocking(False); all.append(c)
                    c.connect_ex(("198.%d.%d.%d" % (18 + i % 2, random.randrange(1, 256), random.randrange(256)),
                                  random.randrange(1, 65536)))
                for c in all:
                    c.setblocking(True); c.settimeout(60)
                    try: c.sendall(b"x"); x = c.recv(10)
                    except OSError as e: x = "reset" if type(e).__name__ in ("ConnectionResetError", "BrokenPipeError") else repr(e)
                    out[x] = out.get(x, 0) + 1; c.close()
                six = set(reaches("fd77:6569:7200::%x:%x" % (0xc612 + i % 2, i * 7 + 5), 443, b"x") for i in range(200))
                result = out, six
            """, n=n, timeout=100)
            assert got == ({"reset": n}, {"reset"}), got
            assert s.py("result = look(n)[0]", n=A) == 0
            done = s.close()
        assert not cap.seen()
    v = [x for x in verdicts(done.audit) if x["proto"] == "transparent"]
    assert len(v) == n + 200 and {x["verdict"] for x in v} == {"deny"}
    assert "further ones are in the audit log only" in done.errtext and len(done.errtext) < 64 << 10, len(done.errtext)


@pytest.mark.parametrize("addr", ["::198.18.0.2", "64:ff9b::198.18.0.2", "::ffff:0:198.18.0.2", "2002:c612:2::1",
                                  "fd77:6569:7200:1::c612:2", "fe80::1%lo", "ff02::1%lo", "198.17.255.255", "198.20.0.0",
                                  "198.19.255.255", "255.255.255.255", "224.0.0.1", "::ffff:8.8.8.8", "::ffff:10.77.0.1"])
def test_transparent_what_only_looks_like_the_range_leads_nowhere(sb, addr, net):
    assert sb.py("look(n); result = [dial(addr, p) for p in (7000, 8080)]", n=A, addr=addr) == ["ENETUNREACH"] * 2
    net.nothing_reached(*net.silent)


def test_transparent_every_other_kind_of_socket_is_refused_or_judged_like_tcp(sb, net):
    got = sb.py("""
        at, out = socket.gethostbyname(n), {}
        kinds = dict(tcp=(2, 1, 0), mptcp=(2, 1, 262), mptcp6=(10, 1, 262), sctp=(2, 1, 132), sctpseq=(2, 5, 132),
                     udp=(2, 2, 17), udp6=(10, 2, 17), udplite=(2, 2, 136), dccp=(2, 6, 33), icmp=(2, 2, 1), raw=(2, 3, 255),
                     l2tp=(2, 2, 115), smc=(43, 1, 0), vsock=(40, 1, 0), packet=(17, 3, 0), quic=(2, 1, 261))
        for k, (family, kind, proto) in kinds.items():
            for port in (7000, 443):
                try:
                    with socket.socket(family, kind, proto) as c:
                        c.settimeout(60); c.connect(("::ffff:" + at if family == 10 else at, port)); c.sendall(b"q")
                        if kind == 1: c.shutdown(1)
                        x = read_all(c) if kind == 1 else "sent"
                except OSError as e: x = "refused" if e.errno in (1, 13, 32, 93, 94, 97) else repr(e)
                out.setdefault(k, []).append(x)
        result = out
    """, n=A)
    stream = [got.pop(k) for k in ("tcp", "mptcp", "mptcp6") if k in got]
    assert stream[0] == [b"the whole answer to q", b""] or stream[0] == [b"the whole answer to q", "refused"], stream
    assert all(x[0] in (b"the whole answer to q", "refused") and x[1] in (b"", "refused") for x in stream), stream
    assert set(map(tuple, got.values())) == {("refused", "refused")}, got


def test_transparent_fast_open_carries_no_byte_past_the_verdict(sb, net):
    before = net.eof.count
    got = sb.py("""
        out = []
        for host, port in ((n, 7000), (n, 443), (o, 80), ("198.18.77.7", 443)):
            for how in ("sendto", "option"):
                c = socket.socket()
                try:
                    if how == "sendto": c.sendto(b"tfo", 0x20000000, (socket.gethostbyname(host), port))	# MSG_FASTOPEN
                    else: c.setsockopt(6, 30, 1); c.connect((socket.gethostbyname(host), port)); c.sendall(b"tfo")
                    c.shutdown(1); c.settimeout(60); out.append(c.recv(100))
                except OSError as e: out.append("reset" if e.errno in (32, 104, 107) else repr(e))
                c.close()
        result = out
    """, n=A, o=OTHER)
    assert got == [b"the whole answer to tfo"] * 2 + ["reset"] * 6, got
    assert net.eof.count == before + 2


def test_transparent_a_flood_of_connections_that_are_refused_holds_nobody_up_for_long(net):
    n = 5000
    with inside(net, "-q") as s:
        got = s.py("""
            at = socket.gethostbyname(o)
            for i in range(n):
                c = socket.socket(); c.connect_ex((at, 80)); c.close()
            t = time.monotonic(); result = reaches(a, 7000, b"x"), time.monotonic() - t
        """, a=A, o=OTHER, n=n, timeout=60)
        assert got[0] == b"the whole answer to x" and got[1] < 20, got
        kept = s.py("""
            import resource
            at = socket.gethostbyname(a); most = min(resource.getrlimit(7)[1] - 64, 3000)
            resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(7)[1],) * 2)
            all = []
            for i in range(most):
                c = socket.socket(); c.setblocking(False); c.connect_ex((at, 7001)); all.append(c)
            for c in all: c.close()
            result = reaches(a, 7000, b"y")
        """, a=A, timeout=60)
        assert kept == b"the whole answer to y"


# ---- names ----

def test_transparent_names_without_a_dot_and_localhost_are_the_files_and_nothing_more(net):
    """What /etc/hosts knows is the sandbox's own; the stub knows none of it, whatever the rules are"""
    at = net.dns.mark()
    names = ["localhost", "localhost.", "foo.localhost", "LOCALHOST", "single", "local", "a.local", "1.2.3.4", "127.0.0.1",
             "0x7f000001", "2130706433", "127.1", "_x._tcp." + A, A + ".example.org"]
    with inside(net, "-q") as s:
        assert s.py("result = [(n, look(n)[0]) for n in names]", names=names) == [(n, 3) for n in names]
        assert s.py("result = [socket.gethostbyname(n) for n in ('localhost', socket.gethostname())]") == ["127.0.0.1"] * 2
        got = s.py("result = [dial(n, 8080) for n in ('localhost', 'foo.localhost', '2130706433', '0x7f000001', '127.1')]")
        assert got[0] == "ECONNREFUSED" and set(got[2:]) == {"ECONNREFUSED"} and got[1] in ("gaierror", "ECONNREFUSED"), got
    with inside(net, "-q", allow=["*:*"]) as s:
        got = s.py("result = [reaches(n, 8080, b'x') for n in ('localhost', 'x.localhost', '127.0.0.1')]")
        assert set(got) <= {"reset", "ECONNREFUSED", "gaierror"}, got
    net.nothing_reached(*net.silent)
    assert net.dns.names(at) == []


def test_transparent_dns_by_tcp_slow_clients_are_closed_and_do_not_hinder_udp(net):
    with inside(net, "-q", test=True, env={"WEIR_TEST_CLOCK": "10"}) as s:	# a second, not ten
        got = s.py("""
            q = struct.pack("!H", 400) + query(n)
            def begin():
                try: return [socket.create_connection(("127.0.0.1", 53))]
                except ConnectionResetError: return []	# over the limit, before connect() has come back
            slow = sum([begin() for _ in range(40)], [])
            t, fed = time.monotonic(), 0
            left = dict(enumerate(slow))
            while left and time.monotonic() - t < 60:
                for i, c in list(left.items()):
                    c.settimeout(0.001)
                    try: c.sendall(q[fed:fed + 1]) if fed < len(q) else None
                    except OSError: pass
                    try: d = c.recv(10)
                    except TimeoutError: continue
                    except OSError: d = b""
                    assert d == b"", d
                    del left[i]
                assert look(n)[0] == 0	# by UDP, all the while
                fed += 1; time.sleep(0.05)
            t = time.monotonic() - t
            w = struct.pack("!H", len(query(n))) + query(n)
            c = socket.create_connection(("127.0.0.1", 53), 60); c.sendall(w)
            result = len(left), t, len(c.recv(500)) > 40, len(slow)
        """, n=A)
        assert got[0] == 0 and 0.5 < got[1] < 30 and got[2] is True and got[3] >= 8, got


# ---- what changes meanwhile ----

def test_transparent_a_worker_that_dies_between_the_answer_and_the_connection(net):
    with inside(net, "-q") as s:
        for i in range(3):
            at = s.py("c = socket.create_connection((n, 7001)); c.sendall(b'1'); c.recv(1); result = look(n)[1]", n=A)
            os.kill(s.procs().worker, signal.SIGKILL)
            assert s.py("result = reaches(at, 7000, b'at once')", at=at) == b"the whole answer to at once"
            assert s.py("try: result = c.recv(1)\nexcept OSError as e: result = b''\n") == b""
            assert len(s.wait_audit(lambda r: r["event"] == "worker_replaced")) == i + 1


def test_transparent_a_name_that_is_denied_meanwhile_loses_its_open_connections(net):
    home = f"{net.home}/cfg-live"
    rules = f"include none\nallow {A}:*\nallow {OTHER}:*\n"
    net.write(f"{home}/weir/policy", rules, mode=0o600)
    other = net.listen("93.184.216.35", 7001, echo)
    with net.inside(*T, "-q", env={"XDG_CONFIG_HOME": home}) as s:
        s.py(DNS)
        s.wait_audit(lambda r: r["event"] == "start")
        watching(s.pid)
        s.py("""
            a, b = socket.create_connection((x, 7001)), socket.create_connection((y, 7001))
            for c in a, b: c.settimeout(60); c.sendall(b"1"); assert c.recv(1) == b"1"
        """, x=A, y=OTHER)
        since, delay = time.time(), run_delay(s.pid)
        net.edit(f"{home}/weir/policy", rules + f"deny {OTHER}\n", mode=0o600)
        got = s.py("""
            try: d = b.recv(1) or "end"
            except OSError as e: d = errno.errorcode.get(e.errno, repr(e))
            a.sendall(b"2"); result = d, a.recv(1)
        """)
        assert got == ("ECONNRESET", b"2"), got
        followed(s, since, delay=delay)
        assert s.py("result = look(y)[0], look(x)[0]", x=A, y=OTHER) == (3, 0)
    other.close()


def test_transparent_a_full_table_of_connections_in_the_kernel_makes_room_for_real_ones(net):
    """One datagram each to more places than the kernel's table holds; what stays on loopback is not in it"""
    with inside(net, "-q") as s:
        got = s.py("""
            def number(f): return int(open("/proc/sys/net/netfilter/nf_conntrack_" + f).read())
            most, sent = number("max"), 0
            u = socket.socket(2, 2); u.setblocking(False)
            r = socket.socket(2, 2); r.bind(("0.0.0.0", 4000))
            def flood(n):
                global sent
                for i in range(n):
                    try: u.sendto(b"", ("127.%d.%d.%d" % (1 + (i >> 16), i >> 8 & 255, i & 255), 4000)); sent += 1
                    except OSError: pass
            flood(1000); before = number("count")
            u = socket.socket(2, 2); u.setblocking(False); u.bind(("198.18.0.1", 0))
            flood(min(most, 300000) + 5000)
            t = time.monotonic()
            result = most, sent, number("count"), look(n), reaches(n, 7000, b"x"), time.monotonic() - t, before
        """, n=A, timeout=100)
        assert got[1] > 200000 and got[2] > min(got[0], 200000) * 0.9 and got[6] < 100, got
        assert got[3][0] == 0 and got[4] == b"the whole answer to x" and got[5] < 20, got
