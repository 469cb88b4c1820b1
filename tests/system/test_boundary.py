# SPDX-License-Identifier: ISC
"""What must be dead inside: direct connections, names, host loopback, LAN, metadata, other
families, kernel doors, inherited descriptors (A1, A2, A4, A12). Every test names its route."""
import fcntl
import os
import pty
import select
import signal
import socket

import pytest

from world import PYTHON, alive, need, verdicts

PROXY_VARS = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy",
              "all_proxy", "no_proxy")
UNSET = [x for v in PROXY_VARS for x in ("-u", v)]
ROUTE = ("--route", "proxy")


@pytest.fixture(scope="module")
def web(world):
    """An allowed and a denied origin, and listeners where nothing may ever arrive"""
    world.web = {
        "allowed": world.http("93.184.216.34", 80, "allowed"),
        "denied": world.http("93.184.216.36", 80, "denied"),
    }
    world.silent = {
        "127.0.0.1": world.listen("127.0.0.1", 8080), "::1": world.listen("::1", 8080),
        "10.77.0.1": world.listen("10.77.0.1", 8080), "fd77::1": world.listen("fd77::1", 8080),
        "192.168.7.7": world.listen("192.168.7.7", 8080),
        "169.254.169.254": world.listen("169.254.169.254", 80),
    }
    return world


@pytest.fixture(scope="module", params=["deny", "allowlist"])
def dead(request, web):
    """A sandbox of each closed state that allows one public name"""
    state = request.param
    with web.inside("--network", state, *(ROUTE if state == "allowlist" else ()),
                    allow=["allowed.example.org"]) as sb:
        sb.state = state
        yield sb


def test_a1_allowed_host_answers_200(web):
    need("curl", "curl")
    r = web.run(*ROUTE, "--", "curl", "-sS", "-w", "%{http_code}", "http://allowed.example.org/a",
                allow=["allowed.example.org"])
    assert r.status == 0 and r.text == "allowed /a\n200", r
    assert verdicts(r.audit, "allowed.example.org")[0]["verdict"] == "allow", r.audit


def test_a1_denied_host_gets_403_that_says_why(web):
    need("curl", "curl")
    before = web.web["denied"].count
    r = web.run(*ROUTE, "--", "curl", "-sS", "-i", "http://denied.example.net/",
                allow=["allowed.example.org"])
    assert r.status == 0 and r.text.startswith("HTTP/1.1 403 "), r
    body = r.text.split("\r\n\r\n", 1)[1]
    assert body.count("\n") == 3 and "denied.example.net" in body, body
    assert "weir allow denied.example.net:80" in body, body
    assert "http_request_denied" in r.text and "no_rule" in r.text, r
    assert web.web["denied"].count == before
    v = verdicts(r.audit, "denied.example.net")
    assert len(v) == 1 and v[0]["verdict"] == "deny" and v[0]["reason"] == "no_rule", r.audit


def test_a1_denied_host_is_told_once_on_stderr_and_not_with_q(web):
    curl = "curl -s http://denied.example.net/"
    cmd = ["--", "sh", "-c", f"{curl}; {curl}"]
    r = web.run(*ROUTE, *cmd)
    assert sum("denied.example.net" in ln for ln in r.errtext.splitlines()) == 1, r
    r = web.run("-q", *ROUTE, *cmd)
    assert "denied.example.net" not in r.errtext, r


def test_an_allowed_host_that_is_not_reached_is_told_once_on_stderr_too(web):
    """502 and 504: the client's own words are often fewer"""
    curl = "curl -s http://allowed.example.org:9/; curl -s http://nowhere.example.org/"
    cmd = ["--allow", "allowed.example.org:9", "--allow", "nowhere.example.org", "--", "sh", "-c",
           f"{curl}; {curl}"]
    r = web.run(*ROUTE, *cmd)
    said = [ln for ln in r.errtext.splitlines() if "not reached" in ln]
    assert len(said) == 2 and "allowed.example.org:9 is allowed but was not reached: it refuses the " \
        "connection (connect_refused)" in said[0] and "nowhere.example.org:80" in said[1] and \
        "does not resolve (dns_error)" in said[1], r
    r = web.run("-q", *ROUTE, *cmd)
    assert "not reached" not in r.errtext, r


def test_a1_route_proxy_direct_connections_die_with_all_eight_variables_unset(web):
    with web.capture() as cap:
        r = web.run(*ROUTE, "--", "env", *UNSET, "curl", "-sS", "-m", "60", "-o", "/dev/null",
                    "http://93.184.216.34/", allow=["allowed.example.org", "93.184.216.34:80"])
        assert r.status == 7, r		# could not connect
        r = web.run(*ROUTE, "--", "env", *UNSET, "curl", "-sS", "-m", "60",
                    "http://allowed.example.org/", allow=["allowed.example.org"])
        assert r.status == 6, r		# could not resolve
        assert not cap.seen(), cap.tries


@pytest.mark.parametrize("var", PROXY_VARS)
def test_a1_route_proxy_direct_dies_whichever_variable_is_unset(dead, var):
    got = dead.py("""
        os.environ.pop(var, None)
        result = dial("93.184.216.34", 80), dial("allowed.example.org", 80)
    """, var=var)
    assert got == ("ENETUNREACH", "gaierror")


@pytest.mark.parametrize("name", ["allowed.example.org", "denied.example.net", "loop.example.org"])
def test_a1_route_proxy_no_name_resolves_inside(dead, web, name):
    at = web.dns.mark()
    got = dead.py("""
        import subprocess
        p = subprocess.run(["getent", "hosts", name], capture_output=True)
        result = p.returncode, p.stdout
    """, name=name)
    assert got == (2, b"")
    assert web.dns.names(at) == []


def test_a1_deny_has_no_worker_no_listener_no_proxy_variable(web):
    with web.inside("--network", "deny", allow=["allowed.example.org"]) as sb:
        assert sb.py("result = 1") == 1
        procs = sb.procs(network=False)
        assert procs.worker is None
        got = sb.py("""
            result = [v for v in os.environ if "proxy" in v.lower()], dial("127.0.0.1", 3128)
        """)
        assert got == ([], "ECONNREFUSED")


PLACES = ["127.0.0.1", "::1", "10.77.0.1", "fd77::1", "192.168.7.7", "169.254.169.254",
          "::ffff:127.0.0.1", "::ffff:169.254.169.254"]


@pytest.mark.parametrize("place", PLACES)
def test_a2_direct_connection_to_the_host_the_lan_and_metadata_is_dead(dead, web, place):
    """H44: host loopback, LAN and metadata are shared by nobody"""
    port = 80 if "169.254" in place else 8080
    got = dead.py("result = dial(place, port)", place=place, port=port)
    want = ("ECONNREFUSED",) if place in ("127.0.0.1", "::1", "::ffff:127.0.0.1") else \
        ("ENETUNREACH", "EHOSTUNREACH")
    assert got in want
    web.nothing_reached(*web.silent.values())


PROXIED = ["127.0.0.1:8080", "[::1]:8080", "[::ffff:127.0.0.1]:8080", "10.77.0.1:8080",
           "[fd77::1]:8080", "192.168.7.7:8080", "169.254.169.254:80",
           "[::ffff:169.254.169.254]:80", "localhost:8080", "sub.localhost:8080",
           "loop.example.org:8080", "lan.example.org:8080", "meta.example.org:80",
           "self.example.org:8080"]


@pytest.fixture(scope="module")
def star(web):
    """Everything public is allowed, on every port: only addresses can refuse"""
    with web.inside(*ROUTE, allow=["*:*"]) as sb:
        yield sb


@pytest.mark.parametrize("authority", PROXIED)
def test_a2_through_the_proxy_nothing_private_is_reached(star, web, authority):
    """H8: no private, loopback, link-local or metadata address without its own rule"""
    with web.capture() as cap:
        st, h, body = star.py("result = refused(authority)", authority=authority)
        assert st == 403, (st, h, body)
        assert b"\n" in body and body.count(b"\n") == 3, body
        assert not [t for t in cap.seen() if t[0] == "tcp"], cap.tries
    web.nothing_reached(*web.silent.values())


@pytest.mark.parametrize("authority", PROXIED)
def test_a2_absolute_form_reaches_nothing_private_either(star, web, authority):
    st, _, body = star.py("""
        result = talk(b"GET http://" + authority + b"/ HTTP/1.1\\r\\nHost: " + authority +
                      b"\\r\\n\\r\\n")
    """, authority=authority.encode())
    assert st == 403, body
    web.nothing_reached(*web.silent.values())


def test_a2_localhost_works_with_its_own_private_rule(web):
    hits = web.http("127.0.0.1", 8123, "mine")
    r = web.run(*ROUTE, "--", "curl", "-sS", "-x", "http://127.0.0.1:3128", "--noproxy", "",
                "http://localhost:8123/x", allow=["localhost:8123 private"])
    assert r.status == 0 and r.text == "mine /x\n", r
    hits.close()


FAMILIES = {
    "vsock": "socket.socket(40, socket.SOCK_STREAM)",
    "packet": "socket.socket(17, socket.SOCK_RAW)",
    "packet dgram": "socket.socket(17, socket.SOCK_DGRAM)",
    "alg": "socket.socket(38, socket.SOCK_SEQPACKET)",
    "bluetooth": "socket.socket(31, socket.SOCK_RAW)",
    "can": "socket.socket(29, socket.SOCK_RAW)",
    "key": "socket.socket(15, socket.SOCK_RAW)",
    "xdp": "socket.socket(44, socket.SOCK_RAW)",
    "rds": "socket.socket(21, socket.SOCK_SEQPACKET)",
    "tipc": "socket.socket(30, socket.SOCK_SEQPACKET)",
    "smc": "socket.socket(43, socket.SOCK_STREAM)",
    "netlink audit": "socket.socket(16, socket.SOCK_RAW, 9)",
    "netlink kobject": "socket.socket(16, socket.SOCK_RAW, 15)",
    "netlink netfilter": "socket.socket(16, socket.SOCK_RAW, 12)",
    "socketpair vsock": "socket.socketpair(40, socket.SOCK_STREAM)",
}


@pytest.mark.parametrize("what", FAMILIES)
def test_a4_other_socket_families_do_not_exist(dead, what):
    """H45: a filter on what leaves the network namespace"""
    got = dead.py(f"""
        try:
            {FAMILIES[what]}
            result = "made"
        except OSError as e:
            result = errno.errorcode[e.errno]
    """)
    assert got == "EAFNOSUPPORT"


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6"])
def test_a4_raw_sockets_are_refused(dead, family):
    got = dead.py("""
        try:
            socket.socket(getattr(socket, family), socket.SOCK_RAW, 1)
            result = "made"
        except OSError as e:
            result = errno.errorcode[e.errno]
    """, family=family)
    assert got == "EPERM"


def test_a4_the_families_programs_need_are_there(dead):
    got = dead.py("""
        result = []
        for f, t, p in ((socket.AF_INET, socket.SOCK_STREAM, 0),
                        (socket.AF_INET6, socket.SOCK_DGRAM, 0),
                        (socket.AF_UNIX, socket.SOCK_SEQPACKET, 0), (16, socket.SOCK_RAW, 0)):
            socket.socket(f, t, p).close()
            result.append(int(f))
        a, b = socket.socketpair()
        result.append("pair")
    """)
    assert got[-1] == "pair"


# x86-64 and the generic table (arm64)
CALLS = {	# name: (x86-64, arm64, arguments, errno)
    "io_uring_setup": (425, 425, "1, 0", "ENOSYS"),
    "io_uring_enter": (426, 426, "0, 0, 0, 0, 0, 0", "ENOSYS"),
    "io_uring_register": (427, 427, "0, 0, 0, 0", "ENOSYS"),
    "userfaultfd": (323, 282, "0", "ENOSYS"),
    "bpf": (321, 280, "0, 0, 0", "ENOSYS"),
    "perf_event_open": (298, 241, "0, 0, -1, -1, 0", "ENOSYS"),
    "keyctl": (250, 219, "0, 0, 0, 0, 0", "ENOSYS"),
    "add_key": (248, 217, "0, 0, 0, 0, 0", "ENOSYS"),
    "request_key": (249, 218, "0, 0, 0, 0", "ENOSYS"),
    "clone3": (435, 435, "0, 0", "ENOSYS"),
    "a call of the future": (900, 900, "0", "ENOSYS"),
    "unshare user": (272, 97, "0x10000000", "EPERM"),
    "unshare net": (272, 97, "0x40000000", "EPERM"),
    "unshare mount": (272, 97, "0x00020000", "EPERM"),
    "clone new user": (56, 220, "0x10000011, 0, 0, 0, 0", "EPERM"),
    "setns": (308, 268, "-1, 0", "EPERM"),
    "mount": (165, 40, "0, 0, 0, 0, 0", "EPERM"),
    "umount2": (166, 39, "0, 0", "EPERM"),
    "pivot_root": (155, 41, "0, 0", "EPERM"),
    "open_tree": (428, 428, "-100, 0, 0", "EPERM"),
    "move_mount": (429, 429, "-1, 0, -1, 0, 0", "EPERM"),
    "fsopen": (430, 430, "0, 0", "EPERM"),
    "fsconfig": (431, 431, "-1, 0, 0, 0, 0", "EPERM"),
    "fsmount": (432, 432, "-1, 0, 0", "EPERM"),
    "fspick": (433, 433, "-100, 0, 0", "EPERM"),
    "mount_setattr": (442, 442, "-100, 0, 0, 0, 0", "EPERM"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a4_kernel_doors_are_closed_with_a_sensible_errno(dead, name):
    """H45: io_uring, nested user namespaces, keyrings, the mount family"""
    import platform
    x86, arm, args, want = CALLS[name]
    nr = x86 if platform.machine() == "x86_64" else arm
    got = dead.py(f"""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        libc.syscall.restype = ctypes.c_long
        pid = os.fork()
        if pid == 0:
            r = libc.syscall(ctypes.c_long({nr}), *[ctypes.c_long(x) for x in ({args},)])
            os._exit(ctypes.get_errno() if r < 0 else 255)
        st = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        result = errno.errorcode.get(st, st)
    """)
    assert got == want


@pytest.mark.parametrize("call", ["TIOCSTI", "TIOCLINUX", "TIOCSTI with high bits"])
def test_a4_h35_terminal_injection_is_refused(dead, call):
    """H35: no key can be pushed into a terminal, also not by a number with high bits set"""
    nr = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C, "TIOCSTI with high bits": 0x1_0000_5412}[call]
    got = dead.py("""
        import ctypes, pty
        libc = ctypes.CDLL(None, use_errno=True)
        m, s = pty.openpty()
        b = ctypes.create_string_buffer(b"x")
        r = libc.syscall(ctypes.c_long(16 if os.uname().machine == "x86_64" else 29),
                         ctypes.c_long(s), ctypes.c_ulong(nr), b)
        result = errno.errorcode[ctypes.get_errno()] if r < 0 else "injected"
        os.close(m); os.close(s)
    """, nr=nr)
    assert got == "EPERM"


def test_a4_32_bit_calls_are_killed(dead):
    """SPEC 6: other-arch calls killed: int 0x80 dies of SIGSYS"""
    import platform
    if platform.machine() != "x86_64":
        pytest.skip("no second call table on this machine")
    got = dead.py("""
        import ctypes, mmap
        pid = os.fork()
        if pid == 0:
            m = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
            m.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")    # getpid of the 32-bit table
            f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))
            os._exit(7 if f() > 0 else 8)
        st = os.waitpid(pid, 0)[1]
        result = os.WTERMSIG(st) if os.WIFSIGNALED(st) else -os.WEXITSTATUS(st)
    """)
    assert got == signal.SIGSYS


def test_a4_h36_sysv_ipc_hostname_and_cgroups_are_private(dead):
    """H36: ipc, uts, cgroup and the rest are namespaces of the sandbox's own"""
    got = dead.py("""
        result = {n: os.readlink("/proc/self/ns/" + n)
                  for n in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")}
    """)
    for n, link in got.items():
        assert link != os.readlink(f"/proc/self/ns/{n}"), n


def test_a4_threads_and_processes_still_work(dead):
    """clone3 is ENOSYS so that libc falls back: pthread_create must not fail"""
    assert dead.py("""
        import subprocess
        t = threading.Thread(target=lambda: None); t.start(); t.join()
        result = subprocess.run(["true"]).returncode
    """) == 0


def high(sock):
    """A descriptor number that nobody else in this process has"""
    return fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD, 700)


def test_a12_an_inherited_connected_socket_is_closed(web):
    a, b = socket.socketpair()
    n = high(b)
    try:
        r = web.run("--", PYTHON, "-c", "import os; print(sorted(os.listdir('/proc/self/fd')))",
                    pass_fds=[n])
        # 3 is the directory being listed
        assert r.ok().text.strip() == "['0', '1', '2', '3']", r
    finally:
        os.close(n)
        a.close()
        b.close()


def test_a12_keep_fd_keeps_exactly_that_one(web):
    a, b = socket.socketpair()
    n, other = high(b), high(b)
    try:
        r = web.run("--keep-fd", n, "--", PYTHON, "-c",
                    f"import os; os.write({n}, b'through'); os.fstat({n})\n"
                    f"try: os.fstat({other}); print('open')\nexcept OSError: print('closed')",
                    pass_fds=[n, other])
        assert r.ok().text == "closed\n", r
        a.settimeout(60)
        assert a.recv(100) == b"through"
    finally:
        os.close(n)
        os.close(other)
        a.close()
        b.close()


@pytest.mark.parametrize("fd", ["2", "99", "-1", "x", "07", ""])
def test_a12_a_bad_keep_fd_is_an_error_before_anything_runs(web, fd):
    r = web.run(f"--keep-fd={fd}", "--", "true")
    assert r.status == 125 and "weir:" in r.errtext, r


def test_a12_only_stderr_a_terminal_the_command_cannot_read_what_is_typed(web):
    """A descriptor of the user's terminal never enters: no key typed at the shell can be stolen"""
    m, s = pty.openpty()
    try:
        os.write(m, b"secret typed at the shell\n")
        r = web.run("--", PYTHON, "-c", """
import os, sys
print([os.isatty(n) for n in (0, 1, 2)])
for n in (0, 1, 2):
    try: print(n, os.ttyname(n))
    except OSError: pass
try:
    import select
    print(select.select([2], [], [], 0.3)[0] and os.read(2, 100))
except OSError as e: print('refused')
try: open('/dev/tty'); print('tty')
except OSError: print('no tty')
print('to stderr', file=sys.stderr)
""", stderr=s)
        assert "[False, False, True]" in r.text, r
        assert "secret" not in r.text and "no tty" in r.text, r
        # what it says still arrives, relayed
        out = b""
        while b"to stderr" not in out:
            assert select.select([m], [], [], 60)[0], out
            out += os.read(m, 4096)
        # and what was typed is still there for the shell
        assert select.select([s], [], [], 60)[0]
        assert os.read(s, 100) == b"secret typed at the shell\n"
    finally:
        os.close(m)
        os.close(s)


def test_a12_tty_never_makes_terminals_pipes_and_dev_null(web):
    m, s = pty.openpty()
    try:
        r = web.spawn("run", "-v", "--tty", "never", "--", PYTHON, "-c",
                      "import os; print([os.isatty(n) for n in (0,1,2)], os.read(0, 10))",
                      stdin=s, stdout=s, stderr=s)
        assert r.p.wait(60) == 0
        out = b""
        while b"[False, False, False] b''" not in out:
            assert select.select([m], [], [], 60)[0], out
            out += os.read(m, 4096)
    finally:
        os.close(m)
        os.close(s)


def test_h41_the_command_can_neither_kill_nor_starve_nor_trace_pid_1(web):
    """H41: the shim is out of the command's reach"""
    with web.inside(*ROUTE, allow=["allowed.example.org"]) as sb:
        got = sb.py("""
            import ctypes, signal
            out = []
            for sig in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM):
                try:
                    os.kill(1, sig); out.append("sent")
                except PermissionError:
                    out.append("EPERM")
            libc = ctypes.CDLL(None, use_errno=True)
            r = libc.ptrace(16, 1, 0, 0)
            out.append(errno.errorcode[ctypes.get_errno()] if r < 0 else "traced")
            for f in ("environ", "mem", "maps", "fd"):
                try:
                    os.listdir("/proc/1/fd") if f == "fd" else open("/proc/1/" + f, "rb").read(1)
                    out.append(f + " read")
                except OSError as e:
                    out.append(errno.errorcode[e.errno])
            s, st, h, rest = connect("allowed.example.org:80"); s.close()
            result = out, st
        """)
        assert got[1] == 200, got	# it still serves
        assert set(got[0]) <= {"sent", "EPERM", "EACCES"}, got
        assert alive(sb.procs().shim)


@pytest.mark.as_root
@pytest.mark.parametrize("authority", ["127.0.0.1:8080", "169.254.169.254:80", "localhost:8080"])
def test_a2_as_root_too_nothing_private_is_reached(web, authority):
    with web.inside(*ROUTE, allow=["*:*"], root=True) as sb:
        assert sb.py("result = refused(authority)[0]", authority=authority) == 403
        assert sb.py("result = dial('93.184.216.34', 80)") == "ENETUNREACH"
    web.nothing_reached(*web.silent.values())


@pytest.mark.as_root
@pytest.mark.parametrize("name", ["unshare user", "mount", "keyctl", "io_uring_setup"])
def test_a4_as_root_too_the_doors_are_closed(web, name):
    x86, arm, args, want = CALLS[name]
    nr = x86 if os.uname().machine == "x86_64" else arm
    r = web.run("--network", "deny", "--", PYTHON, "-c", f"""
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
r = libc.syscall(ctypes.c_long({nr}), *[ctypes.c_long(x) for x in ({args},)])
print(errno.errorcode[ctypes.get_errno()] if r < 0 else 'worked')
""", root=True)
    assert r.ok().text.strip() == want, r


def test_network_allow_warns_loudly_and_uses_the_hosts_network(web):
    r = web.run("--network", "allow", "--", "curl", "-sS", "http://93.184.216.34/direct")
    assert r.status == 0 and r.text == "allowed /direct\n", r
    assert any("network" in ln for ln in r.errtext.splitlines()), r
    assert r.audit, "network allow leaves a record"


def test_network_allow_shows_no_sys(web):
    r = web.run("--network", "allow", "--", "sh", "-c", "ls /sys | wc -l")
    assert r.text.strip() in ("0", ""), r
