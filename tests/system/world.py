# SPDX-License-Identifier: ISC
"""tests/system/world.py - a world to run weir in, and the ways to run it and look at it.

A world is a holder process (origins/holder.py) with a mount namespace and two network namespaces.
weir runs in its "host" network as an ordinary user; the servers are threads of the test process on
sockets born in the world. Nothing of it outlives the holder, and nothing touches the machine.
"""
import ast
import ctypes
import datetime
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

from origins import dns as dns_mod
from origins import http as http_mod
from origins import tcp as tcp_mod

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build"))
WEIR = BUILD / "weir"
WEIR_TEST = BUILD / "test" / "weir"
BIN, BIN_TEST = "/srv/weir", "/srv/weir-test"
IS_ROOT = os.geteuid() == 0
BASE_UID = int(os.environ.get("WEIR_TEST_UID", 64123))  # two runs at once need two
PYTHON = "/usr/bin/python3"
PATH = "/usr/local/bin:/usr/bin:/bin"
# Times that tests wait for a state are those of an idle machine; so many times as long is waited. They
# are there so that what hangs fails, not to say how quick something is: that is quick() and followed().
SLOW = 8 if os.environ.get("WEIR_SAN") else 4
TIMEOUT = 40

NAMES = {	# what the world's name server knows from the start
    "allowed.example.org": ["93.184.216.34"],
    "other.example.org": ["93.184.216.35"],
    "denied.example.net": ["93.184.216.36"],
    "dual.example.org": ["93.184.216.34", "2606:2800:220:1::34"],
    "six.example.org": ["2606:2800:220:1::34"],
    "files.example.com": ["93.184.216.37"],
    "blackhole.example.org": ["93.184.216.99"],
    "lan.example.org": ["192.168.7.7"],
    "loop.example.org": ["127.0.0.1"],
    "meta.example.org": ["169.254.169.254"],
    "self.example.org": ["10.77.0.1"],
}

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_CHILD_SUBREAPER = 36


def need(program, package):
    """A missing program is a failure that says what installs it"""
    path = shutil.which(program, path=PATH + ":/usr/sbin:/sbin")
    assert path, f"{program} is missing: apt-get install -y {package}"
    return path


class Done:
    """How a run of weir ended"""

    def __init__(self, argv, status, out, err, audit_path):
        self.argv, self.status, self.out, self.err = argv, status, out, err
        self.audit_path = audit_path

    @property
    def text(self):
        return self.out.decode("utf-8", "replace")

    @property
    def errtext(self):
        return self.err.decode("utf-8", "replace")

    @property
    def audit(self):
        return read_audit(self.audit_path)

    def __repr__(self):
        words = " ".join(str(a)[:80] for a in self.argv[:40])
        return (f"<weir {words!r}: status {self.status}\n"
                f"--stdout--\n{self.text[-3000:]}\n--stderr--\n{self.errtext[-3000:]}>")

    def ok(self):
        assert self.status == 0, self
        return self


def read_audit(path):
    """The records. One that is being written while it is read is waited for"""
    end = time.monotonic() + 2
    while True:
        try:
            data = pathlib.Path(path).read_bytes()
        except FileNotFoundError:
            return []
        if data.endswith(b"\n") or not data or time.monotonic() > end:
            return [json.loads(line) for line in data.split(b"\n") if line]
        time.sleep(0.005)


def verdicts(records, host=None):
    """The records that hold a decision about a connection"""
    return [r for r in records if r.get("verdict") and r.get("event") not in ("end",) and
            (host is None or r.get("host") == host)]


def stat_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
            text = f.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    rest = text[text.rindex(")") + 2:].split()
    return {"state": rest[0], "ppid": int(rest[1]), "comm": text[text.index("(") + 1:
                                                                 text.rindex(")")]}


def alive(pid):
    s = stat_of(pid)
    return s is not None and s["state"] not in "ZX"


def cmdline(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(
            "utf-8", "replace").strip()
    except OSError:
        return ""


def all_pids():
    return [int(p) for p in os.listdir("/proc") if p.isdigit()]


def real_uid(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="latin-1")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int([ln for ln in text.splitlines() if ln.startswith("Uid:")][0].split()[1])


def children_map():
    kids = {}
    for p in all_pids():
        s = stat_of(p)
        if s:
            kids.setdefault(s["ppid"], []).append(p)
    return kids


def children(pid):
    return sorted(children_map().get(pid, []))


def descendants(pid):
    kids, out, todo = children_map(), [], [pid]
    while todo:
        for k in kids.get(todo.pop(), []):
            out.append(k)
            todo.append(k)
    return out


def wait_until(what, timeout=10, text="it"):
    """For states nobody announces (a process table): looked at every 5 ms"""
    timeout *= SLOW
    end = time.monotonic() + timeout
    while True:
        r = what()
        if r:
            return r
        assert time.monotonic() < end, f"{text} did not happen in {timeout} s"
        time.sleep(0.005)


def quick(most, what, tries=5):
    """What what() returns within `most` seconds, which are the requirement: load makes some of the tries
    late, a fault all of them"""
    took = []
    for _ in range(tries):
        begun = time.monotonic()
        r = what()
        took.append(time.monotonic() - begun)
        if took[-1] < most:
            return r
    raise AssertionError(f"it took {took} s, each time longer than {most} s")


def run_delay(pid):
    """Seconds that a process was ready to run and had no processor"""
    try:
        return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except OSError:
        return 0.0


def followed(sb, since, most=1.0, delay=0.0):
    """The last edit of the policy, at time.time() @since, was in force within `most` seconds: by the
    record's own time, for a test that asks the sandbox is late when the machine is busy. @delay is what
    run_delay(sb.pid) was then: the seconds are those in which the monitor could run"""
    last = [r for r in sb.audit if r["event"] == "policy_reloaded"][-1]["ts"]
    at = datetime.datetime.strptime(last, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc)
    took, starved = at.timestamp() - since, run_delay(sb.pid) - delay
    assert took < most + starved, f"in force after {took:.3f} s, of which it had no processor {starved:.3f} s"


class Procs:
    """Who is who among the processes of one running weir"""

    def __init__(self, monitor, network=True, timeout=10):
        self.monitor = monitor

        def look():
            self.nursery = self.shim = self.worker = self.keeper = self.cmd = None
            for k in children(monitor):
                if cmdline(k).startswith("weir: nursery"):
                    self.nursery = k
                else:
                    self.shim = k
            if self.nursery:
                ks = [k for k in children(self.nursery) if alive(k)]
                self.worker = ks[-1] if ks else None
            if self.shim:
                ks = children(self.shim)
                self.keeper = ks[0] if ks else None
            if self.keeper:
                ks = children(self.keeper)
                self.cmd = ks[0] if ks else None
            # until it has executed itself anew the nursery looks like the shim
            return self.nursery and self.shim and self.keeper and self.cmd and \
                (not network or self.worker)
        wait_until(look, timeout, "monitor, nursery, worker, shim, keeper and CMD running")

    def all(self):
        return [p for p in (self.monitor, self.nursery, self.worker, self.shim, self.keeper,
                            self.cmd) if p]

    def namespaces(self):
        out = set()
        for p in self.all():
            for n in ("user", "mnt", "net", "pid", "ipc", "uts", "cgroup"):
                try:
                    out.add(os.readlink(f"/proc/{p}/ns/{n}"))
                except OSError:
                    pass
        return out


def open_files(*pids):
    """How many descriptors each has; of a locked process only root may know: then nothing is counted"""
    return [len(os.listdir(f"/proc/{p}/fd")) for p in pids] if IS_ROOT else []


def watching(monitor):
    """Wait until the monitor watches the policy files, a moment after the start: it has all then. Its
    descriptors are root's to see: anybody else waits for its lock, after which no edit is missed"""
    def look():
        with open(f"/proc/{monitor}/status", encoding="latin-1") as f:
            if not IS_ROOT:
                return "Seccomp:\t2\n" in f.read()
        for fd in os.listdir(f"/proc/{monitor}/fd"):
            try:
                if "inotify" in os.readlink(f"/proc/{monitor}/fd/{fd}"):
                    return True
            except OSError:
                pass
        return False
    wait_until(look, 10, "the monitor's watches")


def namespaces_alive(wanted, uid):
    """Which of these namespaces some process of this user still is in. Of others' not: the kernel
    gives the number of one that is gone to the next, whoever makes it"""
    seen = set()
    for p in all_pids():
        if not alive(p) or real_uid(p) != uid:
            continue
        for n in ("user", "mnt", "net", "pid", "ipc", "uts", "cgroup"):
            try:
                seen.add(os.readlink(f"/proc/{p}/ns/{n}"))
            except OSError:
                pass
    return wanted & seen


class Running:
    """A weir that was started and not waited for"""

    def __init__(self, world, argv, popen, audit_path):
        self.world, self.argv, self.p, self.audit_path = world, argv, popen, audit_path
        self.pid = popen.pid

    @property
    def audit(self):
        """A record is written at the end of the turn of the monitor's loop that answered the client: it
        is there when the monitor sleeps"""
        end = time.monotonic() + 5
        asleep = 0
        while asleep < 3 and time.monotonic() < end and self.p.poll() is None:
            try:
                asleep = 0 if stat_of(self.pid)["state"] in "RD" else asleep + 1
            except (OSError, TypeError):
                break
            time.sleep(0.002)
        return read_audit(self.audit_path)

    def wait_audit(self, what, timeout=10):
        """Wait until a record satisfies what(record); return all that do"""
        return wait_until(lambda: [r for r in self.audit if what(r)], timeout, "the audit record")

    def procs(self, network=True):
        return Procs(self.pid, network)

    def finish(self, stdin=None, timeout=TIMEOUT):
        timeout *= SLOW
        try:
            out, err = self.p.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            err = dump(self.pid)
            self.kill()
            raise AssertionError(f"weir {self.argv} still runs after {timeout} s\n{err}") from None
        return Done(self.argv, self.p.returncode, out or b"", err or b"", self.audit_path)

    def readline(self):
        return self.p.stdout.readline()

    def kill(self):
        if self.p.poll() is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.p.wait()
        for f in (self.p.stdin, self.p.stdout, self.p.stderr):
            if f:
                try:
                    f.close()
                except OSError:
                    pass

    def __enter__(self):
        return self

    def __exit__(self, *a):
        self.kill()


def dump(pid):
    out = []
    for p in [pid] + descendants(pid):
        s = stat_of(p)
        try:
            w = pathlib.Path(f"/proc/{p}/wchan").read_text(encoding="latin-1")
        except OSError:
            w = "?"
        out.append(f"{p} {s} {cmdline(p)!r} wchan {w}")
    return "\n".join(out)


class Inside(Running):
    """A sandbox with inside.py as its command: .py(text, **names) runs text in it"""

    def py(self, code, timeout=TIMEOUT, **names):
        line = repr((textwrap.dedent(code), names)) + "\n"
        timer = threading.Timer(timeout * SLOW, self._stuck)
        timer.start()
        try:
            self.p.stdin.write(line.encode())
            self.p.stdin.flush()
            answer = self.p.stdout.readline()
        except BrokenPipeError:
            answer = b""
        finally:
            timer.cancel()
        if not answer:
            self.p.wait()
            err = self.p.stderr.read().decode("utf-8", "replace") if self.p.stderr else ""
            raise AssertionError(f"the sandbox ended (status {self.p.returncode}) or hung over:\n"
                                 f"{code}\n--stderr--\n{err}")
        word, value = ast.literal_eval(answer.decode())
        assert word == "ok", f"inside the sandbox:\n{value}"
        return value

    def start(self, code, **names):
        """Send text without waiting; .answer() gets the result"""
        self.p.stdin.write((repr((textwrap.dedent(code), names)) + "\n").encode())
        self.p.stdin.flush()

    def answer(self):
        word, value = ast.literal_eval(self.p.stdout.readline().decode())
        assert word == "ok", f"inside the sandbox:\n{value}"
        return value

    def _stuck(self):
        sys.stderr.write("stuck:\n" + dump(self.pid) + "\n")
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def close(self):
        """End of input: the agent leaves, weir reports. Return how it ended"""
        return self.finish()


class Capture:
    """Every packet of the world's host network: who tried to reach what"""

    def __init__(self, world):
        self.world = world
        self.sock = world.make("host", socket.AF_PACKET, socket.SOCK_DGRAM, proto=0x0300)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        self.tries, self._end = set(), None
        self.cond = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while True:
            try:
                d, a = self.sock.recvfrom(2048)
            except OSError:
                return
            hit = self._parse(d, a[1])
            if hit:
                with self.cond:
                    self.tries.add(hit)
                    self.cond.notify_all()

    @staticmethod
    def _parse(d, ethertype):
        if ethertype == 0x0800 and len(d) >= 20:
            proto, dst, at = d[9], socket.inet_ntop(socket.AF_INET, d[16:20]), (d[0] & 15) * 4
        elif ethertype == 0x86dd and len(d) >= 40:
            proto, dst, at = d[6], socket.inet_ntop(socket.AF_INET6, d[24:40]), 40
        else:
            return None
        if proto == 6 and len(d) >= at + 14:
            flags = d[at + 13]
            if flags & 0x12 == 0x02:
                return ("tcp", dst, struct.unpack_from("!H", d, at + 2)[0])
        elif proto == 17 and len(d) >= at + 4:
            return ("udp", dst, struct.unpack_from("!H", d, at + 2)[0])
        return None

    def seen(self):
        """All tries up to now: a datagram of our own, sent last, marks the end"""
        mark = 40000 + int.from_bytes(os.urandom(2), "big") % 20000
        s = self.world.make("host", socket.AF_INET, socket.SOCK_DGRAM)
        s.sendto(b"mark", ("127.0.0.1", mark))
        s.close()
        hit = ("udp", "127.0.0.1", mark)
        with self.cond:
            assert self.cond.wait_for(lambda: hit in self.tries, 10 * SLOW), "the capture stopped"
            self.tries.discard(hit)
            return set(self.tries)

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *a):
        self.close()


class World:
    def __init__(self, name="w", etc="copy", net=True):
        for program, package in (("nsenter", "util-linux"), ("setpriv", "util-linux"),
                                 ("unshare", "util-linux"), ("ip", "iproute2")):
            need(program, package)
        assert WEIR.exists(), f"{WEIR} is not there: run make"
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
        n = int("".join(ch for ch in worker if ch.isdigit()) or 0)
        World._count = getattr(World, "_count", 0) + 1
        # a uid of its own for every world of the run, so that what is left of it can be told
        workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
        self.uid = BASE_UID + workers * World._count + n if IS_ROOT else os.getuid()
        self.gid = self.uid if IS_ROOT else os.getgid()
        self.net, self.lock = net, threading.Lock()
        self._open, self._state = [], 0
        self.extra_env = {}
        self._holder(etc, net)
        self.user = "tester"
        self.home = "/home/tester"
        self.runtime = f"/run/user/{self.uid}"
        self._furnish()
        self.dns = None
        if net:
            self.dns = dns_mod.Dns(self.make("net", socket.AF_INET, socket.SOCK_DGRAM,
                                             bind=("10.77.0.2", 53)),
                                   self.make("net", socket.AF_INET, socket.SOCK_STREAM,
                                             bind=("10.77.0.2", 53), listen=64))
            for k, v in NAMES.items():
                self.dns.set(k, v)

    # ---- the holder ----

    def _holder(self, etc, net):
        self.ctl, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = ["/usr/bin/unshare", "-m"]
        if not IS_ROOT:
            argv += ["-U", "--map-current-user", "--keep-caps"]
        argv += [PYTHON, str(HERE / "origins" / "holder.py"), str(theirs.fileno()),
                 json.dumps({"etc": etc, "net": net})]
        self.log = tempfile.TemporaryFile()
        self.holder = subprocess.Popen(argv, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                                       stderr=self.log, env={"PATH": PATH + ":/usr/sbin:/sbin"})
        theirs.close()
        first = self.ctl.recv(65536)
        if not first:
            self.log.seek(0)
            raise AssertionError("no test world: " + self.log.read().decode())
        self.pid = json.loads(first)["pid"]
        self.ns = json.loads(first)["ns"]
        self.root = pathlib.Path(f"/proc/{self.pid}/root")

    def _ask(self, req, fds=0):
        with self.lock:
            self.ctl.send(json.dumps(req).encode())
            data, got, _, _ = socket.recv_fds(self.ctl, 65536, max(fds, 1))
        answer = json.loads(data)
        assert answer["ok"], f"{req}: {answer.get('error')}"
        return got if fds else answer.get("out")

    def make(self, ns, family, kind, proto=0, bind=None, listen=0):
        fd = self._ask({"op": "socket", "ns": ns, "family": int(family), "type": int(kind),
                        "proto": proto, "bind": list(bind) if isinstance(bind, tuple) else bind,
                        "listen": listen}, 1)[0]
        s = socket.socket(fileno=fd)
        self._open.append(s)
        return s

    def ip(self, ns, *args):
        return self._ask({"op": "ip", "ns": ns, "args": list(args)})

    # ---- files of the world ----

    def path(self, p):
        """A path of the world as the test process can open it"""
        return self.root / str(p).lstrip("/")

    def own(self, p):
        if IS_ROOT:
            os.chown(self.path(p), self.uid, self.gid, follow_symlinks=False)

    def mkdir(self, p, mode=0o755, root=False):
        q = self.path(p)
        missing = []
        while not q.exists():
            missing.append(q)
            q = q.parent
        for d in reversed(missing):
            d.mkdir(exist_ok=True)	# threads make sandboxes at once
            os.chmod(d, mode)
            if IS_ROOT and not root:
                os.chown(d, self.uid, self.gid)
        return str(p)

    def write(self, p, data, mode=0o644, root=False):
        if isinstance(data, str):
            data = data.encode()
        self.mkdir(os.path.dirname(str(p)), root=root)
        q = self.path(p)
        q.write_bytes(data)
        os.chmod(q, mode)
        if IS_ROOT and not root:
            os.chown(q, self.uid, self.gid)
        return str(p)

    def edit(self, p, data, mode=0o644, root=False):
        """Another text for a file that somebody follows: at once, never seen empty or half"""
        self.write(f"{p}.edited", data, mode, root)
        os.replace(self.path(f"{p}.edited"), self.path(p))
        return str(p)

    def read(self, p):
        return self.path(p).read_bytes()

    def project(self):
        """A fresh directory of the user below $HOME"""
        return self.mkdir(f"{self.home}/work/{tcp_mod.unique()}")

    def _furnish(self):
        for d in ("/srv/bin", "/run/user"):
            self.mkdir(d, root=True)
        self.mkdir(self.home, 0o755)
        self.mkdir(self.runtime, 0o700)
        self.mkdir("/home/stranger", 0o755, root=True)
        for src, dst in ((WEIR, BIN), (WEIR_TEST, BIN_TEST)):
            if src.exists():
                shutil.copy(src, self.path(dst))
                os.chmod(self.path(dst), 0o755)
        passwd = self.path("/etc/passwd")
        lines = [ln for ln in passwd.read_text(encoding="utf-8").splitlines()
                 if f":x:{self.uid}:" not in ln]
        lines.append(f"tester:x:{self.uid}:{self.gid}::{self.home}:/bin/bash")
        passwd.write_text("\n".join(lines) + "\n", encoding="utf-8")
        if self.net:
            self.path("/etc/resolv.conf").write_text(
                "nameserver 10.77.0.2\noptions timeout:2 attempts:2\n", encoding="utf-8")
            self.hosts("")

    def hosts(self, text):
        self.path("/etc/hosts").write_text(
            "127.0.0.1 localhost\n::1 localhost ip6-localhost\n" + text, encoding="utf-8")

    # ---- certificates ----

    @staticmethod
    def issue(*names):
        """Paths of a certificate for these names and of its key"""
        return _ca().issue(names)

    def trust(self, *names):
        """A server context for these names, signed by a CA that the world trusts"""
        ca = _ca()
        cert, key = ca.issue(names)
        for bundle in ("/etc/ssl/certs/ca-certificates.crt",):
            q = self.path(bundle)
            text = q.read_text(encoding="utf-8") if q.exists() else ""
            if ca.pem not in text:
                q.parent.mkdir(parents=True, exist_ok=True)
                q.write_text(text + "\n" + ca.pem, encoding="utf-8")
        return http_mod.server_context(cert, key)

    # ---- servers ----

    def listen(self, addr, port=0, handler=None, ns=None):
        family = socket.AF_INET6 if ":" in addr else socket.AF_INET
        ns = ns or ("host" if addr in ("127.0.0.1", "::1", "10.77.0.1", "fd77::1") else "net")
        return tcp_mod.Tcp(self.make(ns, family, socket.SOCK_STREAM, bind=(addr, port),
                                     listen=1024), handler)

    def http(self, addr, port=80, name="origin", tls=None, ns=None):
        family = socket.AF_INET6 if ":" in addr else socket.AF_INET
        ns = ns or ("host" if addr in ("127.0.0.1", "::1", "10.77.0.1", "fd77::1") else "net")
        return http_mod.Http(self.make(ns, family, socket.SOCK_STREAM, bind=(addr, port),
                                       listen=1024), name, tls)

    def nothing_reached(self, *origins):
        """Nobody connected: our own connection, made last, is the first to be accepted"""
        for o in origins:
            before = o.count
            ns = "host" if o.addr[0] in ("127.0.0.1", "::1", "10.77.0.1", "fd77::1") else "net"
            s = self.make(ns, o.sock.family, socket.SOCK_STREAM)
            s.settimeout(10 * SLOW)
            s.connect(o.addr[:2])
            o.wait_conns(before + 1)
            s.close()
            assert o.count == 1 + getattr(o, "known", 0), \
                f"{o.addr}: {o.count - 1} connections arrived"
            o.known = getattr(o, "known", 0) + 1

    def capture(self):
        return Capture(self)

    # ---- weir ----

    def enter(self, cwd=None, root=False, hostnet=False):
        argv = ["/usr/bin/nsenter", f"--target={self.pid}", "--mount"]
        if not IS_ROOT:
            argv += ["--user", "--preserve-credentials"]
        if self.net and not hostnet:
            # not the holder's own: that one changes while it makes a socket
            argv += [f"--net=/proc/{self.pid}/fd/{self.ns['host']}"]
        argv += [f"--wdns={cwd or self.home}"]
        if IS_ROOT and not root:
            argv += ["/usr/bin/setpriv", f"--reuid={self.uid}", f"--regid={self.gid}",
                     "--clear-groups"]
        return argv

    def env(self, state, root=False, **more):
        e = {"PATH": PATH, "HOME": "/home/admin" if root else self.home, "LANG": "C.UTF-8",
             "USER": "root" if root else self.user, "SHELL": "/bin/bash", "TERM": "dumb",
             "XDG_STATE_HOME": state}
        if not root:
            e["XDG_RUNTIME_DIR"] = self.runtime
        e.update(self.extra_env)
        e.update(more)
        return {k: v for k, v in e.items() if v is not None}

    def spawn(self, *args, cwd=None, env=None, root=False, test=False, stdin=subprocess.PIPE,
              stdout=subprocess.PIPE, stderr=subprocess.PIPE, kind=Running, state=None, prefix=(),
              **popen):
        """Start `weir ARGS…` in the world; each run has a state directory of its own"""
        self._state += 1
        home = "/home/admin" if root else self.home
        state = state or f"{home}/.local/state-{self._state}"
        if root:
            self.mkdir(home, 0o700, root=True)
        cwd = cwd or self.mkdir(f"{home}/work/{tcp_mod.unique()}", root=root)
        exe = BIN_TEST if test else BIN
        assert not test or WEIR_TEST.exists(), "build/test/weir is not there: run make check"
        words = [a if isinstance(a, bytes) else str(a) for a in args]
        p = subprocess.Popen(self.enter(cwd, root) + list(prefix) + [exe] + words,
                             stdin=stdin, stdout=stdout, stderr=stderr,
                             env=self.env(state, root, **(env or {})), **popen)
        r = kind(self, args, p, self.path(f"{state}/weir/audit.jsonl"))
        r.cwd, r.state = cwd, state
        return r

    def weir(self, *args, stdin=b"", timeout=TIMEOUT, **kw):
        return self.spawn(*args, **kw).finish(stdin, timeout)

    def run(self, *args, allow=(), **kw):
        """weir run with --allow for each of allow, route proxy, and no default names"""
        return self.weir("run", *flags(allow), *args, **kw)

    def inside(self, *args, allow=(), **kw):
        """A sandbox that runs Python text: `with world.inside(allow=[…]) as sb: sb.py(…)`"""
        text = (HERE / "origins" / "tcp.py").read_text(encoding="utf-8") + \
            (HERE / "inside.py").read_text(encoding="utf-8")
        return self.spawn("run", *flags(allow), *args, "--", PYTHON, "-u", "-c", text, kind=Inside,
                          **kw)

    def sh(self, text, timeout=TIMEOUT, **kw):
        """A command in the world but outside any sandbox, as the user"""
        return subprocess.run(self.enter(kw.pop("cwd", None), kw.pop("root", False)) +
                              ["/bin/sh", "-c", text], capture_output=True, check=False,
                              env=self.env(self.home + "/.local/state", **kw.pop("env", {})),
                              timeout=timeout * SLOW, **kw)

    def leftovers(self):
        """Processes that belong to the world's user or descend from us, but for the holder"""
        out = []
        mine = set(descendants(os.getpid()))
        for p in all_pids():
            if p in (self.pid, self.holder.pid):
                continue
            try:
                uid = os.stat(f"/proc/{p}").st_uid
                real = [ln for ln in pathlib.Path(f"/proc/{p}/status").read_text(
                    encoding="latin-1").splitlines() if ln.startswith("Uid:")][0].split()[1]
            except (OSError, IndexError):
                continue
            if p in mine or (IS_ROOT and str(self.uid) in (str(uid), real)):
                s = stat_of(p)
                if s and s["state"] != "Z" and not _ours(p):
                    out.append((p, s["comm"], cmdline(p)))
        return out

    def assert_clean(self, timeout=10):
        try:
            wait_until(lambda: not self.leftovers(), timeout)
        except AssertionError:
            raise AssertionError(f"processes left: {self.leftovers()}\n" + "\n".join(
                dump(p) for p, _, _ in self.leftovers())) from None
        rt = self.path(self.runtime) / "weir"
        assert not rt.exists() or not os.listdir(rt), f"runtime entries left: {os.listdir(rt)}"

    def mounts(self):
        return pathlib.Path(f"/proc/{self.pid}/mountinfo").read_text(encoding="utf-8")

    def unix_sockets(self):
        """Bound unix sockets of the world's host network, by name"""
        out = set()
        for line in pathlib.Path(f"/proc/{self.pid}/net/unix").read_text(
                encoding="latin-1").splitlines()[1:]:
            f = line.split()
            if len(f) > 7:
                out.add(f[7])
        return out

    def close(self):
        for s in self._open:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
        self.ctl.close()
        try:
            self.holder.wait(10)
        except subprocess.TimeoutExpired:
            self.holder.kill()
            self.holder.wait()
        self.log.close()


def _ours(pid):
    """xdist's and other helpers of the test run itself"""
    line = cmdline(pid)
    return "pytest" in line or "holder.py" in line or "execnet" in line or "import sys;exec" in line


def without(kind):
    """A prefix for a machine that has no namespaces of this kind left to give: user, net, …"""
    return ["/usr/bin/unshare", "-U", "-r", "/bin/sh", "-c",
            f'echo 0 > /proc/sys/user/max_{kind}_namespaces && exec "$@"', "sh"]


def flags(allow):
    # the default presets are out of the way: a test's policy is what it says
    out = ["--preset", "none"]
    for a in allow:
        out += ["--allow", a]
    return out


class Ca:
    """A certificate authority of this test run, by openssl(1)"""

    def __init__(self, where):
        need("openssl", "openssl")
        self.dir, self.n = pathlib.Path(where), 0
        self._run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                  "-days", "3650", "-subj", "/CN=weir test CA", "-keyout", "ca.key", "-out",
                  "ca.pem", "-addext", "basicConstraints=critical,CA:TRUE", "-addext",
                  "keyUsage=critical,keyCertSign,cRLSign")
        self.pem = (self.dir / "ca.pem").read_text(encoding="utf-8")

    def _run(self, *args):
        p = subprocess.run(["openssl", *args], cwd=self.dir, capture_output=True, text=True,
                           check=False)
        assert p.returncode == 0, p.stderr

    def issue(self, names):
        self.n += 1
        k, c = f"s{self.n}.key", f"s{self.n}.pem"
        (self.dir / "ext").write_text("subjectAltName=" + ",".join(
            ("IP:" if n.replace(".", "").isdigit() or ":" in n else "DNS:") + n for n in names) +
            "\nextendedKeyUsage=serverAuth\n", encoding="utf-8")
        self._run("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                  "-subj", f"/CN={names[0]}", "-keyout", k, "-out", "csr")
        self._run("x509", "-req", "-in", "csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                  "-CAcreateserial", "-days", "3650", "-extfile", "ext", "-out", c)
        return self.dir / c, self.dir / k


_the_ca = None


def _ca():
    global _the_ca
    if _the_ca is None:
        _the_ca = Ca(tempfile.mkdtemp(prefix="weir-ca-"))
        import atexit
        atexit.register(shutil.rmtree, _the_ca.dir, True)
    return _the_ca
