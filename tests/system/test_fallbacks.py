# SPDX-License-Identifier: ISC
"""Every optional kernel feature switched off in turn (build/test/weir, WEIR_TEST_WITHOUT): the
promise holds by other means. What weir cannot do without: test_policy_cli.py, on-unavailable."""
import pytest

from world import World

FEATURES = ["landlock", "ipv6", "overlay", "landlock,ipv6,overlay"]
HOST = "allowed.example.org"


@pytest.fixture(scope="module")
def net(world):
    world.web = world.http("93.184.216.34", 80, "allowed")
    world.silent = world.listen("127.0.0.1", 8080)
    world.write(f"{world.home}/.ssh/id_ed25519", "secret", 0o600)
    world.write(f"{world.home}/data/file", "x")
    return world


@pytest.mark.parametrize("without", FEATURES)
def test_the_promise_holds_without(net, without):
    data = f"{net.home}/data/file" if "overlay" in without else f"{net.home}/data"
    with net.inside("-r", data, allow=[HOST], test=True,
                    env={"WEIR_TEST_WITHOUT": without}) as sb:
        got = sb.py("""
            s, st, h, rest = connect("allowed.example.org:80")
            s.sendall(b"GET /f HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
            body = rest + read_all(s)
            def write(p):
                try: open(p, "w"); return "written"
                except OSError as e: return errno.errorcode[e.errno]
            result = (st, body[-11:],
                      refused("denied.example.net:80")[0], refused("localhost:8080")[0],
                      dial("93.184.216.34", 80), dial("127.0.0.1", 8080),
                      os.path.lexists(home + "/.ssh"), open(home + "/data/file").read(),
                      write(home + "/data/file"), write("/etc/x"), write("/usr/x"),
                      os.path.exists("/etc/shadow") and os.access("/etc/shadow", os.R_OK))
        """, home=net.home)
        assert got[:8] == (200, b"allowed /f\n", 403, 403, "ENETUNREACH", "ECONNREFUSED", False,
                           "x")
        assert set(got[8:11]) <= {"EROFS", "EACCES", "EPERM", "ENOENT"} and got[11] is False, got
        if "ipv6" in without:
            assert sb.py("result = dial('::1', 3128)") in ("ECONNREFUSED", "EADDRNOTAVAIL",
                                                           "ENETUNREACH", "EAFNOSUPPORT")
    net.nothing_reached(net.silent)


def test_a_tree_that_no_overlay_can_guard_is_not_shared(net):
    r = net.run("-n", "deny", "-r", f"{net.home}/data", "--", "true", test=True,
                env={"WEIR_TEST_WITHOUT": "overlay"})
    assert r.status == 125 and f"'{net.home}/data' cannot be shared read-only" in r.errtext, r


def test_etc_with_mounts_beneath_it_works_as_in_a_container():
    """/etc/hosts, resolv.conf and passwd are mounts of their own, as Docker makes them"""
    w = World(etc="bind")
    try:
        o = w.http("93.184.216.34", 80, "allowed")
        with w.inside(allow=[HOST]) as sb:
            got = sb.py("""
                import pwd
                s, st, h, rest = connect("allowed.example.org:80"); s.close()
                result = (st, pwd.getpwuid(os.getuid()).pw_name, open("/etc/resolv.conf").read(),
                          os.path.exists("/etc/ssl"), os.access("/etc/shadow", os.R_OK))
            """)
        assert got[0] == 200 and got[1] == "tester" and "10.77" not in got[2]
        assert got[3:] == (True, False)
        o.close()
    finally:
        w.close()
