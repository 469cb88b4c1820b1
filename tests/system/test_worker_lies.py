# SPDX-License-Identifier: ISC
"""A worker that is made to misbehave (A13), and what it could have taken with it.
build/test/weir alone reads WEIR_TEST_MISBEHAVE: its first worker breaks the protocol when it should
ask for a host whose name holds "misbehave"; the one that replaces it is honest."""
import contextlib
import os
import pathlib
import subprocess
import time

import pytest

from world import IS_ROOT, PYTHON, WEIR, Procs, verdicts, wait_until

HOST = "allowed.example.org"
OPEN = "s, st, h, r = connect('allowed.example.org:80'); s.close(); result = st"
SECRET = "PLANTED-9f3b1c77-in-the-environment"

LIAR = "misbehave.example.org"

LIES = ["forged-dialed", "truncated", "oversized", "unknown-type", "wrong-direction", "wrong-state",
        "reused-conn", "surprise-fd", "control-byte", "crash", "reordered", "unasked-candidates",
        "early-bytes", "flood", "datagram", "fast-open", "message"]
# told after a true verdict: the honest part of the connection was allowed, and may have been dialled
LATE = ["dialed-metadata", "dialed-denied", "wrong-conn", "reused-verdict"]


@pytest.fixture(scope="module")
def net(world):
    world.web = world.http("93.184.216.34", 80, "allowed")
    world.local = world.http("127.0.0.1", 8099, "local")
    world.dns.set(LIAR, ["93.184.216.34"])
    return world


@pytest.mark.parametrize("lie", LIES)
def test_a13_the_monitor_kills_a_worker_that_breaks_the_protocol(net, lie):
    """Its connections are reset, the next one works, nothing is dialled for what was refused"""
    with net.capture() as cap:
        with net.inside(allow=[HOST, LIAR], test=True, env={"WEIR_TEST_MISBEHAVE": lie}) as sb:
            got = sb.py("""
                out = []
                for i, name in enumerate(("misbehave", "allowed", "misbehave")):
                    try:
                        s, st, h, rest = connect(name + ".example.org:80", timeout=100)
                        if st == 200:
                            s.sendall(b"GET /%d HTTP/1.0\\r\\n\\r\\n" % i)
                            rest += read_all(s)
                        out.append((st, rest)); s.close()
                    except OSError as e:
                        out.append((errno.errorcode.get(e.errno, str(e)), b""))
                result = out
            """)
            # the first of two equal questions is an honest one: its answer may come before the end
            assert got[0][0] in ("ECONNRESET", 0) or \
                (lie == "reused-conn" and tuple(got[0]) == (200, b"")), got
            assert [g[0] for g in got[1:]] == [200, 200], got
            assert got[2][1].endswith(b"allowed /2\n"), got
            assert sb.wait_audit(lambda r: "worker" in r["event"] or
                                 r.get("reason") == "worker_died")
            done = sb.close()
            assert done.status == 0, done
        tried = {t for t in cap.seen() if t[0] == "tcp"}
    assert tried <= {("tcp", "93.184.216.34", 80)}, tried


def test_a13_a_taken_over_worker_connects_to_nothing_that_no_verdict_names(net):
    """Its connect() is judged by the monitor: this machine, the LAN, metadata, a denied host, another
    port, a name server's other port: EPERM, and no packet leaves"""
    with net.capture() as cap:
        with net.inside(allow=[HOST, LIAR], test=True, env={"WEIR_TEST_MISBEHAVE": "elsewhere"}) as sb:
            sb.start("result = refused('misbehave.example.org:80')")
            told = sb.wait_audit(lambda r: str(r.get("host", "")).startswith("refused-"))
            assert told[0]["host"] == "refused-10-of-10", told
            bad = sb.wait_audit(lambda r: r["event"] == "worker_connect_refused")
            assert {"addr": "169.254.169.254", "port": 80}.items() <= bad[3].items(), bad
        assert {t for t in cap.seen() if t[1] != "10.77.0.2" or t[2] != 53} == set()


@pytest.mark.parametrize("without, told", [("", "written-1-linked-0-asked-4-kept-5"),
                                           ("gates", "written-0-linked-0-asked-0-kept-0")])
def test_a13_a_gate_is_open_for_its_verdict_alone(net, without, told):
    """A worker may read the addresses that it may connect to unasked: it cannot write or replace them, and
    where no verdict stands none of them leads anywhere"""
    port = net.local.port
    if os.environ.get("WEIR_SAN"):
        told = "written-0-linked-0-asked-0-kept-0"	# the worker maps none: its run-time maps at fixed places
    with net.inside(allow=[f"localhost:{port} private", LIAR], test=True,
                    env={"WEIR_TEST_MISBEHAVE": "gates", "WEIR_TEST_WITHOUT": without}) as sb:
        for _ in range(2):
            got = sb.py("""
                s, st, h, rest = connect("localhost:%d" % port)
                s.sendall(b"GET /g HTTP/1.0\\r\\n\\r\\n")
                result = st, rest + read_all(s)
            """, port=port)
            assert got[0] == 200 and got[1].endswith(b"local /g\n"), got
            time.sleep(1.2)     # a gate that is new is not opened within its first second
        before = len(net.local.requests)
        sb.start("result = refused('misbehave.example.org:80')")
        assert sb.wait_audit(lambda r: str(r.get("host", "")).startswith("written-"))[0]["host"] == told
        assert len(net.local.requests) == before


@pytest.mark.parametrize("lie", LATE)
def test_a13_a_lie_after_a_true_verdict_is_one_too(net, lie):
    """An address that no verdict named, a connection never asked for, a verdict used twice"""
    with net.inside("--deny", "93.184.216.36", allow=[HOST, LIAR], test=True,
                    env={"WEIR_TEST_MISBEHAVE": lie}) as sb:
        got = sb.py("""
            def get(name):
                try:
                    s, st, h, rest = connect(name + ".example.org:80", timeout=100)
                    if st == 200:
                        s.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
                        rest += read_all(s)
                    s.close()
                    return rest
                except OSError as e:
                    return errno.errorcode.get(e.errno, str(e)).encode()
            first = get("misbehave")
            for i in range(50):
                second = get("allowed")
                if second.endswith(b"allowed /\\n"): break
                time.sleep(0.1)
            result = first, second
        """)
        assert got[1].endswith(b"allowed /\n"), got
        bad = sb.wait_audit(lambda r: r["event"] == "protocol_error")
        assert [b["message"] for b in bad] == ["DIALED"], bad
        assert sb.wait_audit(lambda r: r["event"] == "worker_replaced")
        assert sb.close().status == 0


PAIR = """
import socket
a = socket.socket(); a.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
a.bind(("127.0.0.1", 40002)); a.listen()
b = socket.socket(); b.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
b.bind(("127.0.0.1", 40001)); b.connect(("127.0.0.1", 40002))
c = a.accept()
"""


def test_a13_false_ends_name_nobody_outside_the_sandbox(net):
    """A worker says that somebody else's connection asks: one that only the host has is nobody's here; one
    that a process inside holds is the claim that the record calls it"""
    outside = subprocess.Popen(net.enter() + [PYTHON, "-c", PAIR + "print(flush=True)\ninput()"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert outside.stdout.readline() == b"\n", "the connection outside is not there"
        with net.inside(allow=[HOST], test=True, env={"WEIR_TEST_MISBEHAVE": "false-ends"}) as sb:
            ask = """
                s = proxy(); s.sendall(b"CONNECT misbehave%d.example.net:80 HTTP/1.1\\r\\n\\r\\n" % n)
                result = read_head(s)[0]
            """
            assert sb.py(ask, n=1) == 403
            other = sb.py("""
                r, w = os.pipe()
                pid = os.fork()
                if pid == 0:
                    held = {}
                    exec(pair, held)
                    os.write(w, b"x")
                    time.sleep(60)
                os.read(r, 1)
                result = pid
            """, pair=PAIR)
            assert sb.py(ask, n=2) == 403
            # the answer is there before anybody has looked who holds the connection
            sb.wait_audit(lambda r: r.get("host") == "misbehave2.example.net")
            sb.py(f"os.kill({other}, 9); os.waitpid({other}, 0)")
            done = sb.close()
        one, two = (verdicts(done.audit, f"misbehave{n}.example.net")[0] for n in (1, 2))
        assert "client" not in one and one["reason"] == "no_rule", one
        assert two["client"]["pid"] == other, two
        assert not [r for r in done.audit if r["event"] == "protocol_error"], done.audit
    finally:
        outside.communicate(b"\n")


def test_a13_the_shipped_program_does_not_read_the_test_switches(net):
    assert b"WEIR_TEST_" not in WEIR.read_bytes()
    with net.inside(allow=[HOST], env={"WEIR_TEST_MISBEHAVE": "crash",
                                       "WEIR_TEST_WITHOUT": "ipv6"}) as sb:
        assert sb.py(OPEN) == 200
        assert sb.py("result = dial('::1', 3128)") == "connected"


def memory(pid):
    """Every readable byte of a process"""
    out = []
    with open(f"/proc/{pid}/maps", encoding="latin-1") as maps, open(f"/proc/{pid}/mem", "rb",
                                                                    0) as mem:
        for line in maps:
            f = line.split()
            if f[1][0] != "r" or (len(f) > 5 and f[5] in ("[vvar]", "[vsyscall]", "[vvar_vclock]")):
                continue
            lo, hi = (int(x, 16) for x in f[0].split("-"))
            if hi - lo > 1 << 30:	# the shadow of a sanitizer: no process has that much
                continue
            try:
                mem.seek(lo)
                out.append(mem.read(hi - lo))
            except OSError:
                pass
    return b"".join(out)


@pytest.mark.parametrize("role", ["worker", "nursery", "shim", "keeper"])
def test_a13_h21_a_secret_of_weirs_environment_is_in_no_exposed_process(net, role):
    """H21: hostile bytes are parsed where no credential is. The monitor has it: the control"""
    if not IS_ROOT:
        pytest.skip("reading a locked process's memory needs root")
    if os.environ.get("WEIR_SAN") and role in ("shim", "keeper"):
        pytest.skip("a sanitizer build cannot leave its first stack and heap behind")
    with net.inside(allow=[HOST], env={"AWS_SECRET_ACCESS_KEY": SECRET}) as sb:
        sb.py(OPEN)
        procs = sb.procs()
        assert SECRET.encode() in memory(procs.monitor), "the control failed: nothing can be seen"
        assert SECRET.encode() not in memory(getattr(procs, role))


def test_a13_the_command_cannot_see_the_secret_either(net):
    r = net.run("--", "sh", "-c", "env; cat /proc/*/environ", env={"AWS_SECRET_ACCESS_KEY": SECRET})
    assert SECRET not in r.text, r


def test_a13_a_replaced_workers_query_ids_differ(net):
    """A worker that is crashed on purpose tells nothing about the next one's DNS ids"""
    ids = []
    with net.inside(allow=[".example.org:80"]) as sb:
        for round_ in range(2):
            at = net.dns.mark()
            for i in range(4):
                sb.py("result = refused(a)[0]", a=f"ids{i}.example.org:80")
            ids.append(net.dns.ids(at))
            if round_ == 0:
                w = sb.procs().worker
                os.kill(w, 9)
                wait_until(lambda w=w: Procs(sb.pid).worker != w, 10, "a new worker")
    assert len(ids[0]) >= 4 and len(ids[1]) >= 4
    assert ids[0] != ids[1] and len(set(ids[0]) & set(ids[1])) < 3, ids


LOCKED = ["worker", "nursery", "shim", "keeper"]


@pytest.mark.parametrize("role", LOCKED)
def test_a13_exposed_processes_are_locked_down(net, role):
    """DESIGN 5: no capability, no_new_privs, a filter, not dumpable, no core"""
    with net.inside(allow=[HOST]) as sb:
        sb.py(OPEN)
        pid = getattr(sb.procs(), role)
        st = dict(ln.split(":\t", 1) for ln in pathlib.Path(f"/proc/{pid}/status").read_text(
            encoding="latin-1").splitlines() if ":\t" in ln)
        for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(st[k], 16) == 0, (k, st[k])
        assert st["NoNewPrivs"] == "1" and st["Seccomp"] == "2", st
        if role in ("shim", "keeper"):	# the room's own root is the user: there nothing can be told
            assert os.stat(f"/proc/{pid}/environ").st_uid in (0, 65534), "still dumpable"
        if IS_ROOT:
            limits = pathlib.Path(f"/proc/{pid}/limits").read_text(encoding="ascii")
            core = [ln for ln in limits.splitlines() if ln.startswith("Max core")][0].split()
            assert core[4:6] == ["0", "0"], core
            assert len(memory(pid)) > 0
            env = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
            assert role in ("shim", "keeper") or env.strip(b"\0") == b"", env


def test_a13_the_worker_and_nursery_live_in_a_room_with_urandom_only(net):
    if not IS_ROOT:
        pytest.skip("looking into the room needs root")
    with net.inside(allow=[HOST]) as sb:
        sb.py(OPEN)
        procs = sb.procs()
        for pid in (procs.worker, procs.nursery):
            seen = [os.path.join(d, f) for d, _, fs in os.walk(f"/proc/{pid}/root") for f in fs]
            seen = [s.removeprefix(f"/proc/{pid}/root") for s in seen]
            assert seen in (["/dev/urandom"], ["/urandom"]), seen
            for n in ("user", "mnt", "pid", "ipc", "uts", "cgroup"):
                assert os.readlink(f"/proc/{pid}/ns/{n}") != \
                    os.readlink(f"/proc/{net.pid}/ns/{n}"), n
        assert os.readlink(f"/proc/{procs.worker}/ns/net") == \
            os.readlink(f"/proc/{sb.pid}/ns/net"), "the worker dials from the host's network"


def links_of(pid):
    out = []
    for f in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):	# closed since it was listed
            out.append(os.readlink(f"/proc/{pid}/fd/{f}"))
    return out


def test_a13_descriptors_of_the_shim_and_worker_are_few_and_no_files(net):
    if not IS_ROOT:
        pytest.skip("reading a locked process's descriptors needs root")
    with net.inside(allow=[HOST]) as sb:
        sb.py(OPEN)
        procs = sb.procs()
        for pid in (procs.worker, procs.shim, procs.keeper, procs.nursery):
            links = links_of(pid)
            files = [ln for ln in links if ln.startswith("/") and
                     not ln.startswith("/dev/") and ln != "/null"]
            # the nursery alone holds the place of the runtime entry, to remove it
            want = [f"{net.runtime}/weir"] if pid == procs.nursery else []
            assert len(links) < 24 and files == want, (pid, links)
