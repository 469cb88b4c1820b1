# SPDX-License-Identifier: ISC
"""Nobody said which route: both, and where the transparent one cannot be made, the proxy alone. Then
programs that know of no proxy reach nothing at all; whoever typed the route gets an error or what was
asked for."""
import errno
import json

import pytest

from origins.tcp import answer_after_eof
from test_doctor import doctor
from test_transparent import DNS
from world import PYTHON, flags

A, DENIED = "allowed.example.org", "denied.example.net"

# Denies NETLINK_NETFILTER to what it executes, as a container's filter or a hardened kernel does.
NO_NETFILTER = """
import ctypes, os, struct, sys
jump = lambda k, t, f: (0x15, t, f, k)
load = lambda at: (0x20, 0, 0, at)
import platform
nr = {"x86_64": 41, "aarch64": 198}[platform.machine()]
code = [load(0), jump(nr, 0, 5), load(16), jump(16, 0, 3), load(32), jump(12, 0, 1), (6, 0, 0, 0x50000 | %d),
        (6, 0, 0, 0x7FFF0000)]
libc = ctypes.CDLL(None, use_errno=True)
class Prog(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
p = Prog(len(code), b"".join(struct.pack("<HBBI", *c) for c in code))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(p)) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""
WAYS = {
    "no nf_tables": {"test": True, "env": {"WEIR_TEST_WITHOUT": "nf_tables"}},
    "EPERM": {"prefix": [PYTHON, "-c", NO_NETFILTER % errno.EPERM]},
    "EPROTONOSUPPORT": {"prefix": [PYTHON, "-c", NO_NETFILTER % errno.EPROTONOSUPPORT]},
}
MORE = [f"10.{i}.0.0/16:5432" for i in range(65)]	# one more than have a route


@pytest.fixture(scope="module")
def net(world):
    world.web = world.http("93.184.216.34", 80, "allowed")
    world.eof = world.listen("93.184.216.34", 7000, answer_after_eof)
    world.dead = world.http("93.184.216.36", 80, "denied")
    world.silent = {at: world.listen(at, 8080) for at in ("127.0.0.1", "::1", "10.77.0.1", "192.168.7.7")}
    return world


def listeners(text):
    return sorted(int(w[1].rsplit(":", 1)[1], 16) for w in map(str.split, text.splitlines()[1:]) if w[3] == "0A")


def test_nobody_said_which_route_and_both_work(net):
    assert "route both" in net.weir("policy", "show").ok().text
    assert json.loads(net.weir("policy", "show", "--json").ok().text)["settings"]["route"] == "both"
    with net.inside("-v", allow=[A, A + ":7000"]) as s:
        s.py(DNS)
        got = s.py("""
            c, st, h, rest = connect(a + ":7000"); c.close()
            result = (st, reaches(a, 7000, b"x"), reaches(d, 80), refused(d + ":80")[0], dial("93.184.216.36", 80))
        """, a=A, d=DENIED)
        assert got == (200, b"the whole answer to x", "gaierror", 403, "ENETUNREACH"), got
        done = s.close()
    assert "route both: redirected by nf_tables" in done.errtext, done


def test_shell_has_it_too(net):
    r = net.weir("shell", *flags([A]), "--", "-c", f"exec 3<>/dev/tcp/{A}/80; printf 'GET /s HTTP/1.0\\r\\n\\r\\n' >&3; tail -n1 <&3",
                 env={"SHELL": "/bin/bash"})
    assert r.ok().text == "allowed /s\n", r


@pytest.mark.parametrize("way", WAYS)
def test_what_nobody_asked_for_may_be_absent_and_then_only_the_proxy_leads_out(net, way):
    with net.capture() as cap:
        with net.inside("-v", allow=[A + ":80,7000", "*:*"], **WAYS[way]) as s:
            s.py(DNS)
            got = s.py("""
                def sent(to):
                    try: socket.socket(2, 2).sendto(b"x", (to, 53)); return "sent"
                    except OSError as e: return errno.errorcode[e.errno]
                result = ([reaches(n, p) for n, p in ((a, 80), (a, 7000), (d, 80), ("localhost", 8080))],
                          [dial(x, p) for x, p in places],
                          [sent(x) for x in ("198.18.0.2", "8.8.8.8", "10.77.0.2")],
                          open("/proc/net/tcp").read(), open("/proc/net/fib_trie").read())
            """, a=A, d=DENIED, places=[("198.18.0.1", 80), ("198.18.0.2", 80), ("fd77:6569:7200::c612:2", 80),
                                        ("93.184.216.34", 80), ("93.184.216.34", 7000), ("10.77.0.1", 8080),
                                        ("192.168.7.7", 8080), ("127.0.0.1", 8080), ("127.0.0.1", 80)])
            assert got[0] == ["gaierror"] * 3 + ["ECONNREFUSED"], got
            assert got[1] == ["ENETUNREACH"] * 7 + ["ECONNREFUSED"] * 2, got
            assert got[2] == ["ENETUNREACH"] * 3 and listeners(got[3]) == [3128] and "198.18" not in got[4], got
            assert not cap.seen()
            got = s.py("""
                c, st, h, rest = connect(a + ":7000"); c.sendall(b"q"); c.shutdown(1)
                result = st, rest + read_all(c)
            """, a=A)
            assert got == (200, b"the whole answer to q"), got
            done = s.close()
    assert done.errtext.count("route proxy: without the transparent route") == 1, done
    net.nothing_reached(*net.silent.values(), net.dead)


def test_it_is_said_by_v_alone(net):
    r = net.run("--", "true", allow=[A], **WAYS["EPERM"])
    assert r.status == 0 and not r.err, r


@pytest.mark.parametrize("route", ["transparent", "both"])
def test_a_route_that_was_typed_is_had_or_is_an_error(net, route):
    typed = [*flags([A + ":7000"]), "--route", route]
    with net.inside("--route", route, allow=[A + ":7000"], **WAYS["EPERM"]) as s:
        s.py(DNS)
        assert s.py("result = reaches(a, 7000, b'p')", a=A) == b"the whole answer to p"
    r = net.weir("run", *typed, "--allow", "*:*", "--", "true", **WAYS["EPERM"])
    assert r.status == 125 and "allow *:*: route transparent cannot serve so many ports" in r.errtext, r
    assert "--route proxy" in r.errtext, r
    # an administrator's or a user's line is typed too
    policy = net.write(f"{net.project()}/policy", f"route {route}\n")
    r = net.weir("run", "-p", policy, *flags(["*:*"]), "--", "true", **WAYS["EPERM"])
    assert r.status == 125, r


@pytest.mark.parametrize("port", [1, 53])
def test_a_reach_line_with_a_port_of_the_routes_own_leaves_the_proxy_alone(net, port):
    policy = net.write(f"{net.project()}/policy", f"reach {port}:8080\n")
    r = net.weir("run", "-v", "-p", policy, *flags([A]), "--", PYTHON, "-c",
                 f"import socket; socket.create_connection(('127.0.0.1', {port}), 60); print('there')")
    assert r.ok().text == "there\n" and "route proxy: without the transparent route" in r.errtext, r
    r = net.weir("run", "-p", policy, *flags([A]), "--route", "both", "--", "true")
    assert r.status == 125 and f"listen on 127.0.0.1:{port} inside, which a reach line names" in r.errtext, r


def test_doctor_says_what_is_missing(net):
    by = doctor(net, **WAYS["EPERM"])
    c = by["nf_tables"]
    assert c["state"] == "less" and "the proxy alone" in c["without"] and "modprobe" in c["fix"], c


def test_more_address_rules_than_have_a_route(net):
    r = net.run("-v", "--", "sh", "-c", "cat /proc/net/fib_trie", allow=MORE)
    assert "198.18" not in r.ok().text and "64 address rules at most" in r.errtext, r
    r = net.run("--route", "both", "--", "true", allow=MORE)
    assert r.status == 125 and "64 address rules at most" in r.errtext, r
    r = net.run("--", "sh", "-c", "cat /proc/net/fib_trie", allow=MORE[:64])
    assert "10.63.0.0" in r.ok().text and not r.err, r


def test_a_reach_line_has_the_port_at_which_names_are_asked_for(net):
    """What is typed comes before what nobody asked for"""
    o = net.listen("127.0.0.1", 5353, answer_after_eof)
    with net.inside("-v", "--reach", "53:5353", allow=["localhost:5353 private"]) as s:
        s.py(DNS)
        assert s.py("result = reaches('127.0.0.1', 53, b'r')") == b"the whole answer to r"
        assert "route proxy: without" in s.close().errtext
    r = net.run("--route", "both", "--reach", "53:5353", "--", "true", allow=["localhost:5353 private"])
    assert r.status == 125 and "127.0.0.1:53" in r.errtext and "reach" in r.errtext, r
    o.close()
