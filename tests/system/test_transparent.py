# SPDX-License-Identifier: ISC
"""The transparent route: programs that know of no proxy reach what the policy names, and nothing else
(design R: redirected connections, synthetic addresses, a stub for DNS). Every test names its route."""
import errno
import os
import signal
import time

import pytest

from origins.tcp import answer_after_eof, both_ways, echo, sink, source
from test_live import control
from world import HERE, PYTHON, Inside, alive, followed, namespaces_alive, need, run_delay, verdicts, \
    wait_until, watching

A, OTHER, DENIED = "allowed.example.org", "other.example.org", "denied.example.net"
T = ("--route", "transparent")
ALLOW = [A, OTHER + ":7000-7010", A + ":7000-7010"]

# a query by hand: (name or labels, type) to bytes, and an answer to (rcode, answers, the rest)
DNS = """
import struct
def name(n):
    labels = n if isinstance(n, list) else [l.encode() for l in n.split(".") if l]
    return b"".join(bytes([len(l)]) + l for l in labels) + b"\\0"
def query(n, t=1, qd=1, extra=b"", ar=0, flags=0x0100, cls=1, id=0x1234):
    return struct.pack("!6H", id, flags, qd, 0, 0, ar) + (name(n) + struct.pack("!HH", t, cls)) * qd + extra
OPT = b"\\0" + struct.pack("!HHIH", 41, 1232, 0, 0)
def read(d):
    id, flags, qd, an, ns, ar = struct.unpack("!6H", d[:12])
    return flags & 15, an, d
def ask(data, timeout=30):
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.settimeout(timeout)
    u.sendto(data, ("127.0.0.1", 53))
    return read(u.recvfrom(4096)[0])
def patient(n):
    while True:
        try: return look(n)
        except TimeoutError: pass
def look(n, t=1):
    r, an, d = ask(query(n, t))
    return (r, socket.inet_ntoa(d[-4:]) if an and t == 1 else an)
def reaches(host, port, data=b"", timeout=100):
    d = b""
    try:
        s = socket.create_connection((host, port), timeout=timeout)
        s.sendall(data); s.shutdown(1)
        while True:
            x = s.recv(65536)
            if not x: return d
            d += x
    except socket.gaierror:
        return "gaierror"
    except OSError as e:	# whichever call comes first after the reset
        name = errno.errorcode.get(e.errno, str(e))
        return "reset" if name in ("ECONNRESET", "EPIPE", "ENOTCONN") else name
    finally:
        if "s" in locals(): s.close()
"""


@pytest.fixture(scope="module")
def net(world):
    world.web = world.http("93.184.216.34", 80, "allowed")
    ctx = world.trust(A, OTHER)
    world.tls = world.http("93.184.216.34", 443, "secure", tls=ctx)
    world.eof = world.listen("93.184.216.34", 7000, answer_after_eof)
    world.dead = world.http("93.184.216.36", 80, "denied")
    world.silent = {
        "127.0.0.1": world.listen("127.0.0.1", 8080), "::1": world.listen("::1", 8080),
        "10.77.0.1": world.listen("10.77.0.1", 8080),
        "192.168.7.7": world.listen("192.168.7.7", 8080),
        "169.254.169.254": world.listen("169.254.169.254", 80),
    }
    return world


def inside(world, *args, route="transparent", allow=ALLOW, test=False, env=None, **kw):
    sb = world.inside("--route", route, *args, allow=allow, test=test, env=env, **kw)
    sb.py(DNS)
    return sb


@pytest.fixture(scope="module")
def sb(net):
    with inside(net) as s:
        yield s


# ---- what works ----

def test_transparent_a_program_without_proxy_variables_reaches_an_allowed_host(net):
    need("curl", "curl")
    r = net.run(*T, "--", "sh", "-c", f"env | grep -i _proxy; curl -sS http://{A}/x; curl -sS https://{A}/y",
                allow=[A])
    assert r.ok().text == "allowed /x\nsecure /y\n", r
    v = verdicts(r.audit, A)
    assert [(x["proto"], x["port"], x["verdict"], x["reason"]) for x in v] == \
        [("transparent", 80, "allow", "rule"), ("transparent", 443, "allow", "rule")]
    ends = [x for x in r.audit if x["event"] == "end"]
    assert ends[1]["sni"] == A and ends[1]["up"] > 300 and ends[1]["down"] > 300, ends


def test_both_routes_at_once(net):
    r = net.run("--route", "both", "--", "sh", "-c", f"curl -sS http://{A}/p; env -u http_proxy -u ALL_PROXY -u "
                f"all_proxy curl -sS http://{A}/t; /run/weir/weir connect {A} 7000 </dev/null", allow=ALLOW)
    assert r.ok().text == "allowed /p\nallowed /t\nthe whole answer to ", r
    assert [x["proto"] for x in verdicts(r.audit, A)] == ["http", "transparent", "connect"]


@pytest.mark.parametrize("text,out", [
    (f"exec 3<>/dev/tcp/{A}/7001; echo hello >&3; head -n1 <&3", "hello\n"),
    (f"/usr/bin/python3 -c \"import urllib.request as u; print(u.urlopen('http://{A}/u').read().decode(), end='')\"",
     "allowed /u\n"),
    (f"/usr/bin/python3 -c \"import asyncio\nasync def m():\n r, w = await asyncio.open_connection('{A}', 7001)\n "
     "w.write(b'hi'); w.write_eof(); print(await r.read())\nasyncio.run(m())\"", "b'hi'\n"),
    (f"perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(\"{A}:7001\") or die $@; print $s \"x\\n\"; "
     "print scalar <$s>'", "x\n"),
    (f"getent hosts {A}", f"198.18.0.2      {A}\n"),
], ids=["bash", "urllib", "asyncio", "perl", "getent"])
def test_transparent_small_clients(net, text, out):
    o = net.listen("93.184.216.34", 7001, echo)
    try:
        r = net.run(*T, "--", "bash", "-c", text, allow=ALLOW)
        assert r.ok().text == out, r
    finally:
        o.close()


def test_transparent_bytes_are_exact_both_ways_at_once_and_half_close_passes(net):
    n = 20_000_003
    o = net.listen("93.184.216.34", 7002, both_ways(n))
    with inside(net) as s:
        got = s.py("""
            c = socket.create_connection((host, 7002))
            t = threading.Thread(target=lambda: (send_pattern(c, n), c.shutdown(1))); t.start()
            down = check_pattern(c.recv); t.join(); c.close()
            result = down, reaches(host, 7000, b"question")
        """, host=A, n=n)
        assert got == (n, b"the whole answer to question")
        o.wait_ended(1)
        end = s.wait_audit(lambda r: r["event"] == "end" and r["port"] == 7002)
        assert (end[0]["up"], end[0]["down"]) == (n, n)
    assert o.data[0] == str(n).encode()
    o.close()


def test_transparent_a_thousand_connections_at_once(net):
    o = net.listen("93.184.216.34", 7003, echo)
    with inside(net) as s:
        got = s.py("""
            import select
            at = socket.gethostbyname(host)
            all = [socket.socket() for _ in range(1000)]
            for i, c in enumerate(all):
                c.setblocking(False); c.connect_ex((at, 7003))
            p = select.poll(); by = {c.fileno(): c for c in all}; state = {}
            for f in by: p.register(f, select.POLLOUT)
            done = 0
            while done < len(all):
                for f, ev in p.poll(20000) or [(None, 0)]:
                    assert f is not None, done
                    if f not in state:
                        by[f].send(b"%08d" % f); state[f] = 1; p.modify(f, select.POLLIN)
                    else:
                        assert by[f].recv(100) == b"%08d" % f; p.unregister(f); done += 1
            for c in all: c.close()
            result = done
        """, host=A, timeout=60)
        assert got == 1000
    assert o.count == 1000
    o.close()


def test_transparent_the_socket_shows_the_synthetic_address_and_v6_sockets_work(sb):
    got = sb.py("""
        c = socket.create_connection((host, 7000)); a = c.getpeername(); c.shutdown(1); read_all(c)
        m = socket.socket(socket.AF_INET6); m.connect(("::ffff:" + a[0], 7000)); b = m.getpeername()[0]
        m.shutdown(1); x = read_all(m)
        h = a[0].split(".")
        six = "fd77:6569:7200::%x:%x" % (int(h[0]) << 8 | int(h[1]), int(h[2]) << 8 | int(h[3]))
        result = a, b, x, reaches(six, 7000, b"q")
    """, host=A)
    assert got[0][0].startswith("198.18.") and got[1] == "::ffff:" + got[0][0]
    assert got[2:] == (b"the whole answer to ", b"the whole answer to q")


@pytest.mark.parametrize("route", ["transparent", "both"])
@pytest.mark.parametrize("at", ["0.0.0.0", "::"])
def test_transparent_a_server_inside_on_all_addresses_does_not_collide(net, at, route):
    """On a port of the policy, before and after a connection to it goes out; ports that the user may not
    have are refused as on the host, and not as taken"""
    with inside(net, route=route, allow=[A + ":53,80,443,5432,7000"]) as s:
        got = s.py("""
            def serve(l):
                for _ in range(2):
                    c, _ = l.accept(); c.sendall(b"inside"); c.close()
            def server(port):
                l = socket.socket(socket.AF_INET6 if ":" in at else socket.AF_INET)
                l.setsockopt(1, 2, 1); l.bind((at, port)); l.listen(5)
                return l
            def try_port(port):
                try: server(port).close(); return "bound"
                except OSError as e: return errno.errorcode[e.errno]
            out = [reaches(host, 7000, b"w")]
            held = socket.create_connection((host, 7000))
            l = server(7000); t = threading.Thread(target=serve, args=(l,)); t.start()
            out += [reaches("127.0.0.1", 7000), reaches("198.18.0.1", 7000)]; t.join()
            out.append(reaches(host, 7000, b"x")); l.close()
            held.sendall(b"y"); held.shutdown(1); out.append(read_all(held))
            result = out, [try_port(p) for p in (53, 80, 443, 1, 5432, 7000)]
        """, host=A, at=at)
    assert got[0] == [b"the whole answer to w", b"inside", b"inside", b"the whole answer to x",
                      b"the whole answer to y"], got
    assert got[1] == ["EACCES"] * 4 + ["bound"] * 2, got


def test_transparent_the_sandbox_own_address_is_its_own(sb, net):
    """Spark and its like look for an address that is not loopback, and listen there"""
    with net.capture() as cap:
        got = sb.py("""
            u = socket.socket(2, 2); u.bind(("198.18.0.1", 0)); v = socket.socket(2, 2)
            v.sendto(b"datagram", u.getsockname())
            result = dial("198.18.0.1", 7000), dial("198.18.0.1", 3128), u.recv(99)
        """)
        assert got == ("ECONNREFUSED", "ECONNREFUSED", b"datagram")
        assert not cap.seen()


def test_transparent_a_client_that_comes_from_loopback_is_answered(sb):
    got = sb.py("""
        out = []
        for f, src, to in ((2, "127.0.0.1", socket.gethostbyname(host)), (2, "127.9.9.9", socket.gethostbyname(host)),
                           (10, "::1", "fd77:6569:7200::c612:2")):
            c = socket.socket(f); c.settimeout(10); c.bind((src, 0)); c.connect((to, 7000)); c.sendall(b"z")
            c.shutdown(1); out.append(read_all(c))
        result = out
    """, host=A)
    assert got == [b"the whole answer to z"] * 3


def test_transparent_two_sandboxes_do_not_share_addresses(net):
    with inside(net, allow=[A, OTHER]) as one, inside(net, allow=[OTHER]) as two:
        assert one.py("result = look(n)", n=A) == (0, "198.18.0.2")
        assert two.py("result = look(n)", n=OTHER) == (0, "198.18.0.2")
        assert one.py("result = reaches('198.18.0.2', 80, b'GET /1 HTTP/1.0\\r\\n\\r\\n')[-11:]") == b"allowed /1\n"


@pytest.mark.parametrize("addr,port", [("10.1.2.3", 5432), ("fd00::5", 5433)])
def test_transparent_an_address_rule_has_a_route_of_its_own(net, addr, port):
    net.ip("net", "addr", "add", addr + ("/32" if "." in addr else "/128"), "dev", "lo",
           *(() if "." in addr else ("nodad",)))
    net.ip("host", "route", "replace", addr, "via", "10.77.0.2" if "." in addr else "fd77::2")
    o = net.listen(addr, port, answer_after_eof, ns="net")
    rule = f"{addr}:{port}" if "." in addr else f"[{addr}]:{port}"
    with inside(net, allow=[rule]) as s:
        got = s.py("""
            result = reaches(addr, port, b"db"), reaches(addr, port + 1), dial(other, port), dial("8.8.8.8", 53)
        """, addr=addr, port=port, other="10.1.2.4" if "." in addr else "fd00::6")
        assert got == (b"the whole answer to db", "reset", "ENETUNREACH", "ENETUNREACH"), got
    o.close()


# ---- what does not ----

@pytest.mark.parametrize("place", ["127.0.0.1", "10.77.0.1", "192.168.7.7", "169.254.169.254", "::1",
                                   "93.184.216.34", "93.184.216.36", "2606:2800:220:1::34"])
def test_transparent_a2_direct_connections_are_dead_at_once(sb, net, place):
    got = sb.py("t = time.monotonic(); result = dial(place, port), time.monotonic() - t", place=place,
                port=80 if "169" in place or "93" in place else 8080)
    assert got[0] == ("ECONNREFUSED" if place in ("127.0.0.1", "::1") else "ENETUNREACH") and got[1] < 10, got
    net.nothing_reached(*net.silent.values())


@pytest.mark.parametrize("name", [DENIED, "nowhere.example.com", "org", "x." + A, "93.184.216.34.example",
                                  "localhost.example", "a" * 63 + ".org"])
def test_transparent_a_name_that_is_not_allowed_resolves_nowhere(net, name):
    at = net.dns.mark()
    with inside(net) as s:
        assert s.py("result = [look(n, t)[0] for t in (1, 28, 65, 16, 255)]", n=name) == [3] * 5
        assert s.py("result = dial(n, 80)", n=name) == "gaierror"
        done = s.close()
    v = verdicts(done.audit, name)
    assert v and {(x["proto"], x["verdict"], x["reason"]) for x in v} == {("dns", "deny", "no_rule")}, v
    assert f"{name} is not allowed" in done.errtext and f"weir allow {name}" in done.errtext, done
    assert net.dns.names(at) == []


# a machine with a full name, as the user sees it
FULL_NAME = """
import ctypes, os, socket, sys
uid, gid, libc = os.getuid(), os.getgid(), ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x14000000) == 0, ctypes.get_errno()
for f, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
    with open(f"/proc/self/{f}", "w", encoding="ascii") as to: to.write(text)
socket.sethostname("box.example.org")
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("route", ["transparent", "both"])
def test_transparent_the_machines_domain_is_not_put_behind_a_name(net, route):
    """A name that does not exist is asked for once, and is no other one that a rule happens to allow"""
    with inside(net, route=route, allow=[".example.org"], prefix=[PYTHON, "-c", FULL_NAME]) as s:
        assert s.py("result = socket.gethostname(), reaches('denied.example.net', 80), reaches(a, 80, b'GET /d HTTP/1.0\\r\\n\\r\\n')[-11:]",
                    a=A) == ("box.example.org", "gaierror", b"allowed /d\n")
        done = s.close()
    assert "denied.example.net is not allowed" in done.errtext and "example.net.example.org" not in done.errtext, done
    assert {r["host"] for r in done.audit if r.get("verdict")} == {"denied.example.net", A}, done.audit


def test_transparent_an_allowed_name_costs_no_query_until_it_is_connected_to(net):
    at = net.dns.mark()
    with inside(net) as s:
        assert s.py("result = look(n)", n=A)[0] == 0
        assert net.dns.names(at) == []
        assert s.py("result = reaches(n, 7000, b'1')", n=A) == b"the whole answer to 1"
        assert set(net.dns.names(at)) == {A}


def test_transparent_a_port_that_is_not_allowed_is_reset_and_not_dialled(net):
    o = net.listen("93.184.216.35", 80)
    with inside(net) as s:
        assert s.py("result = reaches(n, 80, b'GET / HTTP/1.0\\r\\n\\r\\n')", n=OTHER) == "reset"
        v = s.wait_audit(lambda r: r.get("host") == OTHER and r.get("verdict"))
        assert (v[0]["verdict"], v[0]["reason"], v[0]["port"]) == ("deny", "port", 80)
    net.nothing_reached(o)
    o.close()


def test_transparent_udp_and_quic_die_at_once(sb):
    got = sb.py("""
        out, at = [], socket.gethostbyname(host)
        for to in (at, "198.18.77.77"):
            u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            t = time.monotonic()
            for how in (lambda: u.sendto(b"x" * 1200, (to, 443)), lambda: (u.connect((to, 443)), u.send(b"x"))):
                try: how(); out.append("sent")
                except OSError as e: out.append(errno.errorcode[e.errno])
            assert time.monotonic() - t < 10
        for to in ("8.8.8.8", "1.1.1.1"):
            try: u = socket.socket(2, 2); u.sendto(b"x", (to, 53)); out.append("sent")
            except OSError as e: out.append(errno.errorcode[e.errno])
        result = out, look(host, 65), look(host, 64)
    """, host=A)
    assert got == (["EPERM"] * 4 + ["ENETUNREACH"] * 2, (0, 0), (0, 0))


@pytest.mark.parametrize("addr", ["198.18.0.0", "198.18.200.1", "198.19.255.254",
                                  "fd77:6569:7200::c612:c801", "fd77:6569:7200::1"])
def test_transparent_an_address_that_was_never_given_out_is_reset(net, addr):
    with net.capture() as cap:
        with inside(net, allow=["*:*", "198.18.0.0/15:*"]) as s:
            assert s.py("look(n); result = reaches(addr, 443, b'x')", n=A, addr=addr) == "reset"
            v = s.wait_audit(lambda r: r.get("port") == 443 and r.get("verdict"))
            assert (v[0]["verdict"], v[0]["host"]) == ("deny", addr), v
        assert not cap.seen()


def test_transparent_the_listener_itself_takes_nobody_who_was_not_redirected(net):
    """The port is there for everybody to see; only what the kernel redirected goes anywhere"""
    with net.capture() as cap:
        with inside(net, allow=["*:*", "127.0.0.1:*", "[::1]:*"]) as s:
            got = s.py("""
                ports = []
                for f in ("/proc/net/tcp", "/proc/net/tcp6"):
                    for l in open(f).read().splitlines()[1:]:
                        w = l.split()
                        if w[3] == "0A" and not w[1].endswith(":0035"): ports.append((f[-1], int(w[1].split(":")[1], 16)))
                result = [reaches("::1" if f == "6" else "127.0.0.1", p, b"CONNECT a:1 HTTP/1.1\\r\\n\\r\\n") for f, p in ports]
            """)
            assert got == ["reset"] * 2, got
        assert not cap.seen()


def test_transparent_dns_rebinding_finds_no_address_that_the_policy_does_not_admit(net):
    """The real look-up comes after the verdict, and what it finds is classed as ever"""
    names = ["lan.example.org", "loop.example.org", "meta.example.org", "self.example.org"]
    with net.capture() as cap:
        with inside(net, allow=[n + ":*" for n in names]) as s:
            assert s.py("result = [reaches(n, 8080, b'x') for n in names]", names=names) == ["reset"] * 4
            wait_until(lambda: [r["host"] for r in s.audit if r.get("reason") == "private_address" and
                                r.get("verdict") == "deny"] == names, 10, "four refusals")
        assert {t for t in cap.seen() if t[0] == "tcp"} == set()
    net.nothing_reached(*net.silent.values())


def test_transparent_tls_must_name_the_host_that_was_looked_up(net):
    need("openssl", "openssl")
    r = net.run(*T, "--", "sh", "-c", f"openssl s_client -connect {A}:443 -servername {OTHER} </dev/null 2>&1 | grep -i alert;"
                f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | timeout 100 openssl s_client -quiet -connect {A}:443 -servername {A} "
                f"2>/dev/null | tail -1", allow=[A])
    assert "unrecognized name" in r.text and r.text.endswith("secure /\n"), r
    assert [x["reason"] for x in r.audit if x["event"] == "end"][0] == "sni_mismatch", r.audit


def test_transparent_a_dial_that_fails_is_reset_and_named_in_the_record(net):
    with inside(net, allow=[A + ":*", "nowhere.example.org"]) as s:
        assert s.py("result = reaches(n, 9, b'x'), reaches('nowhere.example.org', 80, b'x')", n=A) == ("reset",) * 2
        assert s.wait_audit(lambda r: r["event"] == "end" and r["reason"] == "connect_refused")
        assert s.wait_audit(lambda r: r["event"] == "end" and r["reason"] == "dns_error")


def test_transparent_who_left_while_the_host_was_dialled_is_noticed_and_who_waits_is_not_cut(net):
    """Both have sent FIN: only the kernel inside knows which socket still has an owner"""
    with inside(net, allow=["blackhole.example.org"]) as s:
        s.py("""
            stays = socket.create_connection(("blackhole.example.org", 80)); stays.sendall(b"x"); stays.shutdown(1)
            leaves = socket.create_connection(("blackhole.example.org", 443)); leaves.sendall(b"x"); leaves.close()
        """)
        end = s.wait_audit(lambda r: r["event"] == "end")
        assert [(r["port"], r["reason"]) for r in end] == [(443, "client_gone")], end
        assert s.py("stays.settimeout(2)\ntry: stays.recv(1)\nexcept TimeoutError: result = 'waits'") == "waits"
        assert len([r for r in s.audit if r["event"] == "end"]) == 1


def test_transparent_who_waits_at_a_port_that_leads_to_two_places_is_not_cut(net):
    """The kernel gives the second one another port on the way to the listener"""
    with inside(net, allow=["blackhole.example.org:*", A + ":7000"]) as s:
        s.py("""
            def at(port, host, to):
                c = socket.socket(); c.setsockopt(1, 2, 1); c.bind(("198.18.0.1", port)); c.settimeout(60)
                c.connect((host, to)); return c
            leaves = at(0, "blackhole.example.org", 443); leaves.sendall(b"x"); leaves.close()
        """)
        s.wait_audit(lambda r: r["event"] == "end" and r["reason"] == "client_gone")	# the kernel tells
        assert s.py("""
            first = at(0, a, 7000)
            stays = at(first.getsockname()[1], "blackhole.example.org", 80); stays.sendall(b"x"); stays.shutdown(1)
            stays.settimeout(2)
            try: result = stays.recv(1)
            except OSError as e: result = repr(e)
        """, a=A) == "TimeoutError('timed out')"
        assert s.py("first.sendall(b'q'); first.shutdown(1); result = read_all(first)") == b"the whole answer to q"
        assert not [r for r in s.audit if r["event"] == "end" and r["port"] == 80]


# ---- DNS by hand ----

def test_transparent_dns_answers(sb):
    got = sb.py("""
        a = look(n)
        r, an, d = ask(query("aLLoWeD.eXaMPLe.oRG"))
        rev = ".".join(reversed(a[1].split("."))) + ".in-addr.arpa"
        p = ask(query(rev, 12))
        six = "c6120002"
        six = ".".join(reversed("fd776569720000000000000000000000"[:24] + "c612" + "%04x" % int(a[1].split(".")[3]))) + ".ip6.arpa"
        result = dict(a=a, mixed=(r, an, b"aLLoWeD" in d, socket.inet_ntoa(d[-4:])), ttl=d[-10:-6],
            none=[look(n, t) for t in (28, 65, 64, 16, 15, 2, 6, 33)], any=look(n, 255),
            ptr=(p[0], p[1], p[2].endswith(name(n))), ptr6=ask(query(six, 12))[2].endswith(name(n)),
            ptr_no=[ask(query(x, 12))[0] for x in ("1.0.0.127.in-addr.arpa", "9.9.19.198.in-addr.arpa", "x.in-addr.arpa")],
            dot=ask(query(n + "."))[:2], root=ask(query("", 2))[:2], edns=ask(query(n, 1, ar=1, extra=OPT)),
            chaos=ask(query(n, 1, cls=3))[0])
    """, n=A)
    assert got["a"][0] == 0 and got["a"][1].startswith("198.18.")
    assert got["mixed"] == (0, 1, True, got["a"][1]) and got["ttl"] == b"\0\0\0\x3c"
    assert got["none"] == [(0, 0)] * 8 and got["any"] == (0, 1)
    assert got["ptr"] == (0, 1, True) and got["ptr6"] is True and got["ptr_no"] == [3, 3, 3]
    assert got["dot"] == (0, 1) and got["root"] == (0, 0) and got["chaos"] == 5
    assert got["edns"][:2] == (0, 1) and got["edns"][2][-11:-8] == b"\0\0\x29"


def test_transparent_dns_malformed_queries_are_refused_and_kill_nothing(sb, net):
    got = sb.py("""
        loop = struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + b"\\xc0\\x0c" + struct.pack("!HH", 1, 1)
        fwd = struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + b"\\x01a\\xc0\\x10" + struct.pack("!HH", 1, 1)
        long = struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + (b"\\x3f" + b"a" * 63) * 4 + b"\\0" + struct.pack("!HH", 1, 1)
        result = dict(two=ask(query(n, qd=2))[0], none=ask(query(n, qd=0))[0], loop=ask(loop)[0], fwd=ask(fwd)[0],
            long=ask(long)[0], tail=ask(query(n) + b"x")[0], opcode=ask(query(n, flags=0x2800))[0],
            nul=ask(query([b"allowed\\0", b"example", b"org"]))[0], dot=ask(query([b"allowed.example", b"org"]))[0],
            space=ask(query([b"a b", b"org"]))[0], high=ask(query([b"\\xff\\xfe", b"org"]))[0],
            vers=ask(query(n, ar=1, extra=b"\\0" + struct.pack("!HHIH", 41, 512, 1 << 16, 0)))[0],
            twoopt=ask(query(n, ar=2, extra=OPT * 2))[0])
        u = socket.socket(2, 2)
        for d in (b"", b"x", b"\\0" * 11, query(n, flags=0x8100), os.urandom(300), b"\\xff" * 4096, b"\\0" * 60000):
            u.sendto(d, ("127.0.0.1", 53))
        result["after"] = look(n)[0]
    """, n=A)
    assert got == {"two": 1, "none": 1, "loop": 1, "fwd": 1, "long": 1, "tail": 1, "opcode": 4, "nul": 3, "dot": 3,
                   "space": 3, "high": 3, "vers": 0, "twoopt": 1, "after": 0}, got
    bad = sb.wait_audit(lambda r: r.get("reason") == "bad_name" and r.get("proto") == "dns")
    assert "allowed\\x00.example.org" in [r["host"] for r in bad], bad


def test_transparent_dns_by_tcp_several_on_one_connection_and_in_pieces(sb):
    got = sb.py("""
        q = query(n); w = struct.pack("!H", len(q)) + q
        t = socket.create_connection(("127.0.0.1", 53), 60)
        def one():
            d = b""
            while len(d) < 2 or len(d) < 2 + struct.unpack("!H", d[:2])[0]: d += t.recv(1 if len(d) < 2 else 2 + struct.unpack("!H", d[:2])[0] - len(d))
            return read(d[2:])[:2]
        t.sendall(w + w + w); out = [one(), one(), one()]
        for b in w: t.sendall(bytes([b]))
        out.append(one()); t.close()
        junk = socket.create_connection(("127.0.0.1", 53), 60); junk.sendall(b"\\xff\\xff" + b"x" * 100)
        ends = read_all(junk)
        kept = [socket.create_connection(("127.0.0.1", 53), 60) for _ in range(10)]
        def over():
            try: return socket.create_connection(("127.0.0.1", 53), 60)
            except ConnectionResetError: return None	# before connect() has come back
        more = [over() for _ in range(30)]
        kept[9].sendall(w); x = kept[9].recv(500)
        for c in kept + [m for m in more if m]: c.close()
        result = out, ends, len(x) > 40, look(n)[0]
    """, n=A)
    assert got == ([(0, 1)] * 4, b"", True, 0)


def test_transparent_dns_a_flood_of_queries_is_bounded_and_the_next_one_answered(net):
    with inside(net, "-q", allow=["*"]) as s:
        got = s.py("""
            u = socket.socket(2, 2); u.setblocking(False); first = look("first.example.org")
            sent = 0
            for i in range(5000):
                try: u.sendto(query("n%d.example.org" % i), ("127.0.0.1", 53)); sent += 1
                except BlockingIOError: pass
            got = 0
            while True:
                try: u.recv(600); got += 1
                except BlockingIOError:
                    if patient("first.example.org") == first: break
            full, u = 0, socket.socket(2, 2); u.settimeout(60)
            for i in range(300):
                for k in range(64): u.sendto(query("m%d.example.org" % (i * 64 + k)), ("127.0.0.1", 53))
                full = max(read(u.recv(600))[0] for k in range(64))
                if full == 2: break
            result = sent, got > 0, full, look("first.example.org") == first, look(n)[0]
        """, n="late.example.org", timeout=60)
        assert got == (5000, True, 2, True, 2), got
        assert s.wait_audit(lambda r: r["event"] == "names_full")
        assert s.py("result = reaches('first.example.org', 80)") == "reset"
        with open(f"/proc/{s.procs().monitor}/status", encoding="ascii") as f:
            rss = [int(ln.split()[1]) for ln in f if ln.startswith("VmRSS")][0]
        assert rss < 40000, rss


def test_transparent_an_address_stands_for_its_name_as_long_as_the_sandbox_lives(net):
    with inside(net, allow=[A + ":*", OTHER + ":*"]) as s:
        first = s.py("result = [look(a), look(b), look(a)]", a=A, b=OTHER)
        assert first[0] == first[2] != first[1]
        os.kill(s.procs().worker, signal.SIGKILL)
        assert s.wait_audit(lambda r: r["event"] == "worker_replaced")
        assert s.py("result = reaches(at, 7000, b'again')", at=first[0][1]) == b"the whole answer to again"
        assert s.py("result = [look(b), look(a)]", a=A, b=OTHER) == [first[1], first[0]]


def test_transparent_an_edit_of_the_policy_is_followed_within_a_second(net):
    conf = f"{net.home}/.config/weir/policy"
    net.write(conf, "# nothing\n")
    try:
        text = (HERE / "origins" / "tcp.py").read_text(encoding="utf-8") + \
            (HERE / "inside.py").read_text(encoding="utf-8")
        with net.spawn("run", "--preset", "none", *T, "--", PYTHON, "-u", "-c", text, kind=Inside) as s:
            s.py(DNS)
            watching(s.pid)
            assert s.py("result = look(n)", n=A)[0] == 3
            delay = run_delay(s.pid)
            net.edit(conf, f"allow {A}:7000\n")
            t = time.time()
            wait_until(lambda: s.py("result = look(n)", n=A)[0] == 0, 5, "the name resolving")
            followed(s, t, delay=delay)
            assert s.py("result = reaches(n, 7000, b'1')", n=A) == b"the whole answer to 1"
            at = s.py("result = look(n)", n=A)[1]
            net.edit(conf, "# nothing again\n")
            wait_until(lambda: s.py("result = look(n)", n=A)[0] == 3, 5, "the name gone")
            assert s.py("result = reaches(at, 7000, b'1')", at=at) == "reset"
    finally:
        net.path(conf).unlink()


# ---- without nf_tables ----

def test_transparent_without_nf_tables_a_listener_a_port_serves_every_name(net):
    off = {"WEIR_TEST_WITHOUT": "nf_tables"}
    with inside(net, "-v", allow=[".example.org:80,7000", "10.1.9.9:7000"], test=True, env=off) as s:
        got = s.py("""
            result = (reaches(a, 7000, b"x"), reaches(a, 80, b"GET /f HTTP/1.0\\r\\n\\r\\n")[-11:], dial(a, 7001),
                      reaches("198.18.9.9", 7000), reaches("127.0.0.1", 7000), dial("8.8.8.8", 53))
        """, a=A)
        assert got == (b"the whole answer to x", b"allowed /f\n", "ECONNREFUSED", "reset", "reset",
                       "ENETUNREACH"), got
        done = s.close()
    assert "without nf_tables" in done.errtext, done


def test_transparent_without_notrack_it_works_all_the_same(net):
    """A kernel that has nf_tables and NAT, but no nft_ct"""
    with inside(net, "-v", test=True, env={"WEIR_TEST_WITHOUT": "notrack"}) as s:
        assert s.py("result = reaches(n, 7000, b'x'), dial('8.8.8.8', 53)", n=A) == \
            (b"the whole answer to x", "ENETUNREACH")
        assert "redirected by nf_tables" in s.close().errtext


def test_transparent_without_nf_tables_a_rule_for_every_port_is_an_error_that_names_it(net):
    r = net.run(*T, "--", "true", allow=[A + ":443", OTHER + ":*"], test=True, env={"WEIR_TEST_WITHOUT": "nf_tables"})
    assert r.status == 125, r
    assert f"--allow: allow {OTHER}:*" in r.errtext and "--route proxy" in r.errtext, r


def test_transparent_without_ipv6(net):
    with inside(net, test=True, env={"WEIR_TEST_WITHOUT": "ipv6"}) as s:
        assert s.py("result = reaches(n, 7000, b'x')", n=A) == b"the whole answer to x"


# ---- the rest ----

def test_transparent_a_worker_may_not_speak_of_it_in_route_proxy(net):
    """NAME, and ASK of a redirected connection, are protocol errors where nothing is redirected"""
    net.dns.set("misbehave.example.org", ["93.184.216.34"])
    for lie in ("name", "transparent"):
        with net.inside("--route", "proxy", allow=["misbehave.example.org"], test=True,
                        env={"WEIR_TEST_MISBEHAVE": lie}) as s:
            s.py("""
                try: refused("misbehave.example.org:80")
                except OSError: pass
            """)
            assert s.wait_audit(lambda r: r["event"] == "protocol_error" and r["from"] == "worker")


def test_both_a_taken_over_worker_cannot_send_a_datagram_from_the_host(net):
    """The socket at which names are asked for may answer anybody: no other can take its number"""
    net.dns.set("misbehave.example.org", ["93.184.216.34"])
    with net.capture() as cap:
        with net.inside("--route", "both", allow=["misbehave.example.org"], test=True,
                        env={"WEIR_TEST_MISBEHAVE": "names-socket"}) as s:
            s.start("refused('misbehave.example.org:80')")
            told = s.wait_audit(lambda r: str(r.get("host", "")).startswith("closed-"))
            assert told[0]["host"] == f"closed-0-taken-0-errno-{errno.ENETUNREACH}", told
        assert not [t for t in cap.seen() if t[2] == 9999]


def test_transparent_v_says_what_is_in_force_and_that_a_connection_is_not_held(net):
    r = net.run(*T, "-v", "--", "true", allow=[A])
    assert "route transparent: redirected by nf_tables" in r.ok().errtext, r
    assert "reset" in r.errtext, r


def test_transparent_nothing_is_left_behind(fresh):
    o = fresh.listen("93.184.216.34", 7000, answer_after_eof)
    with inside(fresh) as s:
        assert s.py("result = reaches(n, 7000, b'x')", n=A) == b"the whole answer to x"
        procs = s.procs()
        gone = {os.readlink(f"/proc/{procs.cmd}/ns/{n}") for n in ("user", "mnt", "net", "pid", "ipc", "uts")}
        s.close()
    wait_until(lambda: not [p for p in procs.all() if alive(p)], 10, "the processes gone")
    wait_until(lambda: not namespaces_alive(gone, fresh.uid), 10, "the namespaces gone")
    o.close()


def test_transparent_a_sink_and_a_source_of_much(net):
    n = 60_000_000
    up = net.listen("93.184.216.34", 7005, sink)
    down = net.listen("93.184.216.34", 7006, source(n))
    with inside(net) as s:
        got = s.py("""
            c = socket.create_connection((host, 7005)); send_pattern(c, n); c.shutdown(1); a = read_all(c)
            c = socket.create_connection((host, 7006)); b = check_pattern(c.recv)
            result = a, b
        """, host=A, n=n)
        assert got == (f"got {n}\n".encode(), n)
    up.close()
    down.close()


def test_transparent_a_name_that_a_person_may_be_asked_about_resolves(net):
    """The connection is what is asked about, and it waits for the answer"""
    def say(**request):
        return control(net, entry, {"v": 1, **request})[0]
    with inside(net, "--ask", A + ":7000", allow=[]) as s:
        entry = s.audit[0]["sandbox"]
        assert s.py("result = look(n)[0], look(d)[0]", n=A, d=DENIED) == (0, 3)
        for answer, want in (("once", b"the whole answer to x"), ("deny", "reset")):
            before = net.eof.count
            s.start("result = reaches(n, 7000, b'x')", n=A)
            q = wait_until(lambda: say(verb="questions")["questions"], 10, "a question")[0]
            assert (q["host"], q["port"]) == (A, 7000) and net.eof.count == before
            assert say(verb="answer", question=q["id"], answer=answer)["ok"]
            assert s.answer() == want
