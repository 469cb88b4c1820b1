# SPDX-License-Identifier: ISC
"""Who asked, in the audit log: a claim of what runs inside, left out where it is not known (SPEC 7)"""

import pytest

from world import PYTHON, verdicts

HOST = "allowed.example.org"
NO = "denied.example.net"
# who has closed its socket when the answer came may be gone before it is looked for
HELD = """
kept = []
def held(text):
    s = proxy(); kept.append(s); s.sendall(text); read_head(s)
def denied(host):
    held(b"CONNECT %s:80 HTTP/1.1\\r\\n\\r\\n" % host.encode())
result = None
"""


@pytest.fixture(scope="module")
def net(world):
    world.web = world.http("93.184.216.34", 80, "allowed")
    return world


def clients(recs, host=None):
    return [x.get("client") for x in verdicts(recs, host)]


def test_a_denial_names_the_process_and_what_is_allowed_does_only_when_asked_to(net):
    for args, known in (((), False), (("--audit", "client"), True),
                        (("--audit", "client", "--audit", "required"), True)):
        with net.inside(*args, allow=[HOST]) as sb:
            sb.py(HELD)
            pid = sb.py(f"""
                kept.append(connect("{HOST}:80"))
                denied("{NO}")
                result = os.getpid()
            """)
            # it is looked for when it has its answer: until then it stays
            sb.wait_audit(lambda r: r.get("host") == NO)
            done = sb.close()
        allowed, denied = clients(done.audit, HOST), clients(done.audit, NO)
        want = {"pid": pid, "exe": PYTHON, "argv0": PYTHON}
        assert len(denied) == 1 and denied[0]["pid"] == pid and denied[0]["argv0"] == PYTHON, denied
        assert denied[0]["exe"].startswith("/usr/bin/python3"), denied
        want["exe"] = denied[0]["exe"]
        assert allowed == [want if known else None], (args, allowed)
        assert done.status == 0


def test_threads_forks_and_a_socket_that_is_handed_on(net):
    with net.inside(allow=[HOST]) as sb:
        sb.py(HELD)
        me, grandchild, exec_pid = sb.py("""
            t = threading.Thread(target=denied, args=("thread.example.net",))
            t.start(); t.join()
            r, w = os.pipe()
            if os.fork() == 0:
                if os.fork() == 0:
                    denied("grandchild.example.net")
                    os.write(w, b"%d" % os.getpid())
                    time.sleep(1000)  # it is looked for when the record is written
                os._exit(0)
            os.wait()
            grandchild = int(os.read(r, 20))
            s = proxy()
            r, w = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.read(r, 1)  # the parent holds it no longer
                os.set_inheritable(s.fileno(), True)
                os.dup2(s.fileno(), 0); os.dup2(s.fileno(), 1)
                os.execv("/bin/sh", ["handed-on", "-c", "printf 'CONNECT handed.example.net:80 HTTP/1.1"
                         "\\\\r\\\\n\\\\r\\\\n'; exec sleep 1000"])
            s.close()
            os.write(w, b"x")
            result = os.getpid(), grandchild, pid
        """)
        sb.wait_audit(lambda r: r.get("host") == "grandchild.example.net")
        recs = sb.wait_audit(lambda r: r.get("host") == "handed.example.net")
        done = sb.close()
    assert clients(done.audit, "thread.example.net")[0]["pid"] == me
    assert clients(done.audit, "grandchild.example.net")[0]["pid"] == grandchild
    handed = recs[0]["client"]
    assert handed["pid"] == exec_pid and handed["argv0"] in ("handed-on", "sleep"), handed


def test_a_client_that_is_gone_is_never_somebody_else(net):
    """Clients that leave at once, hundreds of them, and numbers that are used again"""
    with net.inside(allow=[HOST]) as sb:
        told = sb.py("""
            told = {}
            for i in range(300):
                pid = os.fork()
                if pid == 0:
                    s = proxy()
                    s.sendall(b"CONNECT h%d.example.net:80 HTTP/1.1\\r\\n\\r\\n" % i)
                    if i % 3 == 0:
                        s.recv(1)
                    os._exit(0)
                told["h%d.example.net" % i] = pid
                os.waitpid(pid, 0)
            refused("last.example.net:80")
            result = told
        """, timeout=60)
        sb.wait_audit(lambda r: r.get("host") == "last.example.net")
        done = sb.close()
    seen = [x for x in verdicts(done.audit) if x["host"] in told]
    assert len(seen) > 200, len(seen)
    for x in seen:
        assert "client" not in x or x["client"]["pid"] == told[x["host"]], x


def test_hostile_names_of_programs_are_escaped_and_cut(net):
    with net.inside(allow=[HOST]) as sb:
        sb.py("""
            import shutil
            exe = os.getcwd() + "/" + "\\x1b[2J\\n\\u202e\\"" + "e" * 200
            shutil.copy("/usr/bin/bash", exe)
            argv0 = b"\\x1b]0;x\\x07\\r\\n\\xff\\",\\"pid\\":1" + b"A" * 4096
            if os.fork() == 0:  # what it ends with is not its last command: it stays bash
                os.execv(exe, [argv0, "-c", "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT "
                         "hostile.example.net:80 HTTP/1.1\\\\r\\\\n\\\\r\\\\n' >&3; read x <&3; sleep 1000; :"])
            result = None
        """)
        sb.wait_audit(lambda r: r.get("host") == "hostile.example.net")
        done = sb.close()
    data = done.audit_path.read_bytes()
    assert all(32 <= c < 127 or c == 10 for c in data), "raw bytes in the log"
    got = clients(done.audit, "hostile.example.net")[0]
    assert got["argv0"].startswith("\\x1b]0;x\\x07\\x0d\\x0a\\xff\",\"pid\":1AAA"), got
    assert len(got["argv0"]) <= 100 and len(got["exe"]) <= 200 and "\\x1b[2J\\x0a" in got["exe"], got
    assert got["pid"] > 1, got
    r = net.weir("audit", "--denied", state=str(done.audit_path.parent.parent))
    assert all(32 <= c < 127 or c == 10 for c in r.out), "raw bytes in what is shown"


def test_every_way_in_has_its_client_and_who_is_outside_has_none(net):
    with net.inside("--audit", "client", "--reach", "7000:80", allow=[HOST]) as sb:
        sb.py(HELD)
        pid = sb.py("""
            s = proxy()
            s.sendall(b"\\x05\\x01\\x00"); s.recv(2)
            s.sendall(b"\\x05\\x01\\x00\\x03\\x11socks.example.net\\x00\\x50"); s.recv(10)
            held(b"GET http://plain.example.net/ HTTP/1.1\\r\\nHost: plain.example.net\\r\\n\\r\\n")
            held(b"CONNECT bad_\\x01name:80 HTTP/1.1\\r\\n\\r\\n")
            t = socket.create_connection(("127.0.0.1", 7000))
            try:
                t.recv(1)
            except OSError:
                pass
            result = os.getpid()
        """)
        sb.wait_audit(lambda r: r.get("proto") == "reach")
        done = sb.close()
    seen = verdicts(done.audit)
    assert {x["proto"] for x in seen} >= {"socks5", "http", "connect", "reach"}, seen
    assert [x["client"]["pid"] for x in seen] == [pid] * len(seen), seen


def test_the_transparent_route_has_its_client(net):
    with net.inside("--audit", "client", "--route", "transparent", allow=[HOST]) as sb:
        pid = sb.py(f"""
            s = socket.create_connection(("{HOST}", 80)); s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            read_all(s)
            t = socket.create_connection(("{HOST}", 81))
            try:
                t.recv(1)
            except OSError:
                pass
            result = os.getpid()
        """)
        sb.wait_audit(lambda r: r.get("verdict") == "deny")
        done = sb.close()
    seen = [x for x in verdicts(done.audit) if x["proto"] == "transparent"]
    assert [x["verdict"] for x in seen] == ["allow", "deny"], seen
    assert seen[0]["client"]["pid"] == pid, seen
    assert seen[1]["client"]["pid"] == pid, "a refusal resets the connection, and it was known before"


def test_a_look_up_that_is_refused_has_its_client(net):
    """Whatever the resolver's socket is bound or connected to; a process that is gone is nobody"""
    with net.inside("--route", "transparent", allow=[HOST]) as sb:
        pid = sb.py("""
            ns = [l.split()[1] for l in open("/etc/resolv.conf") if l.startswith("nameserver")][0]
            def query(name, connected):
                q = b"\\x12\\x34\\x01\\0\\0\\1\\0\\0\\0\\0\\0\\0"
                q += b"".join(bytes([len(x)]) + x.encode() for x in name.split(".")) + b"\\0\\0\\1\\0\\1"
                s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                s.settimeout(10)
                if connected:
                    s.connect((ns, 53)); s.send(q)
                else:
                    s.sendto(q, (ns, 53))
                assert s.recv(512)[3] & 15 == 3
                return s
            kept = [query("connected.example.net", True), query("bound.example.net", False)]
            try:
                socket.getaddrinfo("libc.example.net", 80)
            except OSError:
                pass
            result = os.getpid()
        """)
        sb.wait_audit(lambda r: r.get("host") == "libc.example.net")
        done = sb.close()
    for host in ("connected.example.net", "bound.example.net"):
        got = verdicts(done.audit, host)
        assert got[0]["proto"] == "dns" and got[0]["client"]["pid"] == pid, got
    assert all(c is None or c["pid"] == pid for c in clients(done.audit, "libc.example.net"))


def test_a_flood_of_refusals_keeps_its_records_and_costs_the_others_little(net):
    """Beyond its time of a second a record has no client; none is lost for it"""
    with net.inside(allow=[HOST]) as sb:
        took = sb.py(f"""
            stop = False
            n = []
            def flood():
                while not stop:
                    refused("flood.example.net:80"); n.append(1)
            ts = [threading.Thread(target=flood) for _ in range(8)]
            [t.start() for t in ts]
            took, end = [], time.monotonic() + 2
            while len(took) < 10 or len(n) < 300 or time.monotonic() < end:
                t = time.monotonic(); assert connect("{HOST}:80")[1] == 200
                took.append(time.monotonic() - t)
            stop = True
            [t.join() for t in ts]
            took.sort()
            result = len(n), took[len(took) // 2], os.getpid()
        """, timeout=60)
        done = sb.close()
    n, usual, pid = took
    got = clients(done.audit, "flood.example.net")
    assert len(got) == n > 100, (len(got), n)
    assert {x["pid"] for x in got if x} == {pid}
    assert usual < 2, usual


def test_what_is_recorded_follows_an_edit(net):
    """Who asked, and nothing at all: both begin and end while the sandbox runs"""
    path = net.write(f"{net.home}/live.policy", f"allow {HOST}:80\n")

    def edit(sb, text, marks):
        net.edit(path, f"{text}allow {HOST}:80\n")
        if marks:
            sb.wait_audit(lambda r: len([x for x in sb.audit if x["event"] == "policy_reloaded"])
                          >= marks)

    with net.inside("-p", path) as sb:
        sb.py(HELD)
        ask = f"kept.append(connect('{HOST}:80')); result = os.getpid()"
        pid = sb.py(ask)
        edit(sb, "audit client\n", 1)
        sb.py(ask)
        edit(sb, "audit off\n", 2)
        sb.py("refused('unseen.example.net:80')")
        edit(sb, "", 3)
        sb.py(ask)
        done = sb.close()
    assert [c and c["pid"] for c in clients(done.audit, HOST)] == [None, pid, None], done.audit
    assert not verdicts(done.audit, "unseen.example.net") and done.audit[-1]["event"] == "exit"
