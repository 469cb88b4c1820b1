#!/usr/bin/python3
# SPDX-License-Identifier: ISC
"""tests/bench/bench.py - weir's numbers beside what they are compared with, in one run.

Everything is measured side by side: variants are interleaved, medians are printed, ratios count
more than absolute numbers. It asserts nothing. As root it measures as an ordinary user.
usage: bench.py [--quick] [--rounds N]
"""
import argparse
import hashlib
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "system"))
from world import Procs  # noqa: E402  pylint: disable=wrong-import-position

WEIR = pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build")) / "weir"
UID = 64199
IS_ROOT = os.geteuid() == 0
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
rows = []


def row(what, value, required="", stretch="", note=""):
    rows.append((what, value, required, stretch, note))
    print(f"  {what}: {value}  {note}", file=sys.stderr, flush=True)


class Bench:
    def __init__(self, opts):
        self.o = opts
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="weir-bench-"))
        self.home = self.dir / "home"
        self.work = self.home / "work"
        self.data = self.home / "data"
        for d in (self.home, self.work, self.data):
            d.mkdir()
        self.weir = self.dir / "weir"
        self.load = self.work / "load"
        shutil.copy(WEIR, self.weir)
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-D_GNU_SOURCE", "-o", str(self.load),
                        str(HERE / "load.c")], check=True)
        if IS_ROOT:
            for p in (self.home, self.work, self.data, self.load):
                os.chown(p, UID, UID)
        os.chmod(self.dir, 0o755)
        self.env = {"PATH": PATH, "HOME": str(self.home), "LANG": "C.UTF-8"}
        self.open = []

    def user(self, *argv):
        if not IS_ROOT:
            return [str(a) for a in argv]
        return ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"] + \
            [str(a) for a in argv]

    def popen(self, *argv, as_user=True):
        p = subprocess.Popen(self.user(*argv) if as_user else [str(a) for a in argv],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.env,
                             cwd=self.work, bufsize=1)
        self.open.append(p)
        return p

    def close(self):
        for p in self.open:
            p.stdin.close()
            try:
                p.wait(0.5)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    # ---- launch ----

    def launch(self):
        rounds = max(41, self.o.rounds) if not self.o.quick else 11
        true = shutil.which("true", path=PATH)
        cmds = [[true], [self.weir, "run", "--", true],
                [self.weir, "run", "-r", self.data, "--", true],
                [self.weir, "run", "-n", "deny", "--", true],
                [self.weir, "run", "--audit", "off", "--", true],
                [self.weir, "run", "--route", "proxy", "--", true],
                [self.weir, "run", "--route", "transparent", "--", true],
                [self.weir, "run", "--route", "both", "--", true],
                [self.weir, "policy", "show"], [self.weir, "--version"]]
        names = ["fork+exec true", "weir run, allowlist", "weir run, allowlist, one grant",
                 "weir run, deny", "weir run, audit off", "weir run, route proxy",
                 "weir run, route transparent", "weir run, route both", "weir policy show (layers read, merged)",
                 "weir --version (exec alone)"]
        bwrap = shutil.which("bwrap", path=PATH)
        if bwrap:
            cmds.append([bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
                         "--unshare-all", true])
            names.append("bwrap")
        argv = []
        for c in cmds:
            argv += ([",,"] if argv else []) + [str(x) for x in c]
        p = subprocess.run(self.user(self.load, "spawn", rounds, *argv), env=self.env,
                           cwd=self.work, capture_output=True, text=True, check=False)
        if p.returncode:
            row("launch", "failed", note=p.stderr.strip()[-200:])
            return
        us = dict(zip(names, map(float, p.stdout.split())))
        for n in names:
            row(f"launch, {n}", f"{us[n] / 1000:.2f} ms", note=f"{us[n] / us[names[0]]:.2f} x true")
        row("launch, route both, more than proxy",
            f"{(us['weir run, route both'] - us['weir run, route proxy']) / 1000:.2f} ms", "<= 1 ms")
        if bwrap:
            row("launch with one grant vs bwrap", f"{us[names[2]] / us['bwrap']:.2f}", "<= 0.85",
                "<= 0.65", f"median of {rounds}, interleaved")
            row("launch without grant vs bwrap", f"{us[names[1]] / us['bwrap']:.2f}", "", "")
        else:
            row("launch vs bwrap", "bwrap is not installed")

    # ---- terminal ----

    def spawned(self, rounds, *cmds):
        """Median seconds of each, interleaved; [] when one failed"""
        argv = []
        for c in cmds:
            argv += ([",,"] if argv else []) + [str(x) for x in c]
        p = subprocess.run(self.user(self.load, "spawn", rounds, *argv), env=self.env,
                           cwd=self.work, capture_output=True, text=True, check=False)
        return [float(x) / 1e6 for x in p.stdout.split()] if p.returncode == 0 else []

    def terminal(self):
        true, cat = shutil.which("true", path=PATH), shutil.which("cat", path=PATH)
        run = [self.weir, "run", "-q", "--"]
        us = self.spawned(11 if self.o.quick else 41, ["@pty", true], [*run, true],
                          ["@pty", *run, true])
        if us:
            row("launch with a pty over launch without", f"{(us[2] - us[1]) * 1000:.2f} ms",
                "<= 1 ms", "", f"{us[2] * 1000:.2f} vs {us[1] * 1000:.2f} ms; true on a pty "
                f"{us[0] * 1000:.2f}")
        size = 200 * 1000 * 1000
        line = b"the quick brown fox jumps over the lazy dog, again and again and again\n"
        (self.work / "big").write_bytes(line * (size // len(line)))
        us = self.spawned(3 if self.o.quick else 5, ["@pty", cat, "big"],
                          ["@pty", *run, cat, "big"])
        (self.work / "big").unlink()
        if us:
            row("cat of 200 MB, relayed vs a plain pty", f"{us[0] / us[1]:.2f}", ">= 0.8", "",
                f"{size / us[1] / 1e6:.0f} MB/s, plain {size / us[0] / 1e6:.0f}")
        else:
            row("cat of 200 MB, relayed vs a plain pty", "failed")

    def kernel(self):
        """How much later a notebook's kernel is there"""
        shutil.copy(HERE / "kernel.py", self.dir)
        p = subprocess.run(self.user("/usr/bin/python3", self.dir / "kernel.py", self.weir,
                                     3 if self.o.quick else 21), env=self.env, cwd=self.work,
                           capture_output=True, text=True, check=False)
        what = "start of a Jupyter kernel, by weir run over plain"
        if p.returncode or len(p.stdout.split()) != 2:
            row(what, "failed", note="apt-get install -y python3-ipykernel: " + p.stderr[-100:].strip())
            return
        plain, weir = map(float, p.stdout.split())
        row(what, f"{weir - plain:.1f} ms", "<= 20 ms", "", f"{weir:.0f} ms, plain {plain:.0f} ms")

    # ---- data path ----

    def start(self):
        self.origin = self.popen(self.load, "serve")
        self.port = int(self.origin.stdout.readline())
        self.direct = self.popen(self.load, "client", "localhost")
        self.inside = self.popen(self.weir, "run", "-q", "--preset", "none", "--allow",
                                 f"localhost:{self.port} private", "--", self.load, "client",
                                 "localhost")
        self.plain = self.popen(self.weir, "run", "-q", "--preset", "none",
                                "--route", "transparent", "--env", "BENCH_NAME=bench.localhost", "--allow",
                                f"bench.localhost:{self.port} private", "--", self.load, "client",
                                "bench.localhost")
        self.silent = self.popen(self.weir, "run", "-q", "--preset", "none", "--audit", "off", "--allow",
                                 f"localhost:{self.port} private", "--", self.load, "client",
                                 "localhost")
        self.procs = None
        assert self.ask(self.silent, "rate 1 3 %d 3128" % self.port), "the sandboxed client is dead"
        assert self.ask(self.inside, "rate 1 3 %d 3128" % self.port), "the sandboxed client is dead"
        self.procs = Procs(self.inside.pid)
        self.peers = {}
        self.pids = {}
        self.peer_tinyproxy()
        self.peer_squid()
        self.peer_socat()

    @staticmethod
    def ask(p, line):
        p.stdin.write(line + "\n")
        p.stdin.flush()
        return p.stdout.readline().split()

    def peer_tinyproxy(self):
        exe = shutil.which("tinyproxy", path=PATH)
        if not exe:
            self.peers["tinyproxy"] = None
            return
        conf = self.dir / "tinyproxy.conf"
        port = free_port()
        conf.write_text(f"Port {port}\nListen 127.0.0.1\nTimeout 600\nMaxClients 2000\n"
                        f"Allow 127.0.0.1\nLogLevel Critical\n"
                        f"LogFile \"{self.home}/tinyproxy.log\"\n", encoding="ascii")
        self.pids["tinyproxy"] = self.popen(exe, "-d", "-c", conf).pid
        self.peers["tinyproxy"] = (port, True) if wait_port(port) else None

    def peer_squid(self):
        exe = shutil.which("squid", path=PATH)
        if not exe:
            self.peers["squid"] = None
            return
        conf = self.dir / "squid.conf"
        port = free_port()
        conf.write_text(f"http_port 127.0.0.1:{port}\nhttp_access allow all\ncache deny all\n"
                        f"pid_filename none\naccess_log none\ncache_log {self.home}/squid.log\n"
                        f"cache_store_log none\nmax_filedescriptors 16384\ncoredump_dir {self.home}\n"
                        f"memory_pools off\nshutdown_lifetime 0 seconds\npinger_enable off\n"
                        f"visible_hostname bench\nnetdb_filename none\n", encoding="ascii")
        self.pids["squid"] = self.popen(exe, "-N", "-f", conf).pid
        self.peers["squid"] = (port, True) if wait_port(port) else None

    def peer_socat(self):
        exe = shutil.which("socat", path=PATH)
        if not exe:
            self.peers["socat"] = None
            return
        port = free_port()
        p = self.popen(exe, f"TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr,backlog=1024",
                   f"TCP:127.0.0.1:{self.port}")
        self.pids["socat"] = p.pid
        self.peers["socat"] = (port, False) if wait_port(port) else None

    def variants(self):
        """name, client process, (port, proxy)"""
        out = [("direct", self.direct, (self.port, 0)), ("weir", self.inside, (self.port, 3128))]
        for n, v in self.peers.items():
            if v:
                out.append((n, self.direct, (self.port, v[0]) if v[1] else (v[0], 0)))
        return out

    def measure(self, rounds, command, pick=0):
        """Interleaved: {name: [numbers]}"""
        got = {}
        for _ in range(rounds):
            for name, p, (port, proxy) in self.variants():
                a = self.ask(p, f"{command} {port} {proxy}")
                if a and a[0] not in ("failed", "what"):
                    got.setdefault(name, []).append([float(x) for x in a])
        return {n: statistics.median(x[pick] for x in v) for n, v in got.items()}, got

    def cpu(self):
        try:
            with open(f"/proc/{self.procs.worker}/schedstat", encoding="ascii") as f:
                return int(f.read().split()[0]) / 1e9
        except OSError:
            return None

    def streams(self):
        gb = 0.25 if self.o.quick else 1.0
        n = int(gb * (1 << 30))
        for way, req, stretch, creq, cstretch in (("up", ">= 0.65", "0.80", "<= 0.20", "0.12"),
                                                  ("down", ">= 0.45", "0.60", "<= 0.25", "0.12")):
            cpu = []
            t = {}
            for _ in range(3 if self.o.quick else 7):
                for name, p, (port, proxy) in self.variants():
                    c0 = self.cpu() if name == "weir" else None
                    a = self.ask(p, f"stream {way} {n} {port} {proxy}")
                    if a and a[0] != "failed":
                        t.setdefault(name, []).append(float(a[0]))
                    c1 = self.cpu() if name == "weir" else None
                    if c0 is not None and c1 is not None:
                        cpu.append((c1 - c0) / (n / 1e9))
            med = {k: statistics.median(v) for k, v in t.items()}
            if "weir" not in med or "direct" not in med:
                row(f"one CONNECT stream {way}", "failed")
                continue
            for k, v in med.items():
                if k == "weir":
                    row(f"one CONNECT stream {way} vs direct", f"{med['direct'] / v:.2f}", req,
                        stretch, f"{n / v / 1e9:.2f} GB/s, direct {n / med['direct'] / 1e9:.2f}")
                elif k != "direct":
                    row(f"  {k}, stream {way} vs direct", f"{med['direct'] / v:.2f}")
            if cpu:
                row(f"worker CPU {way}", f"{statistics.median(cpu):.2f} s/GB", creq, cstretch)

    def rates(self):
        count = 1000 if self.o.quick else 4000
        rounds = 3 if self.o.quick else 9
        med, raw = self.measure(rounds, f"rate 8 {count}")
        self.ratio("new CONNECT + request, rate vs direct", med, ">= 0.30", "0.36", "/s")
        bad = sum(int(x[2]) for x in raw.get("weir", []))
        if bad:
            row("  failed requests", bad)
        self.audit(rounds, count)
        med, _ = self.measure(rounds, f"rate 1 {count // 4}", 1)
        if "weir" in med and "direct" in med:
            row("added latency of a new connection", f"{med['weir'] - med['direct']:.0f} us",
                "<= 120 us", "90 us", f"{med['weir']:.0f} vs {med['direct']:.0f} us, one at a time")
            for k in med:
                if k not in ("weir", "direct"):
                    row(f"  {k}, added latency", f"{med[k] - med['direct']:.0f} us")
        keep, failed = {}, set()
        for _ in range(rounds):
            for name, p, (port, proxy) in self.variants():
                if name == "socat" or name in failed:	# socat would carry a direct connection
                    continue
                a = self.ask(p, f"keep {count} {port} {proxy}")
                if a and a[0] != "failed":
                    keep.setdefault(name, []).append(float(a[0]))
                else:
                    failed.add(name)	# after 20 s without an answer: once is enough
        self.ratio("keep-alive plain HTTP, rate vs direct",
                   {k: statistics.median(v) for k, v in keep.items()}, ">= 0.35", "0.45", "/s")

    def audit(self, rounds, count):
        """What two records a connection cost"""
        got = ([], [])
        for i in range(2 * rounds):
            p = (self.inside, self.silent)[i % 2]
            got[i % 2].append(float(self.ask(p, f"rate 8 {count} {self.port} 3128")[0]))
        on, off = map(statistics.median, got)
        row("new CONNECT + request, rate with audit vs without", f"{on / off:.2f}", ">= 0.75", "",
            f"{on:.0f}/s, without {off:.0f}/s")

    @staticmethod
    def ratio(what, med, req, stretch, unit):
        if "weir" not in med or "direct" not in med:
            row(what, "failed")
            return
        row(what, f"{med['weir'] / med['direct']:.2f}", req, stretch,
            f"{med['weir']:.0f}{unit}, direct {med['direct']:.0f}{unit}")
        for k in med:
            if k not in ("weir", "direct"):
                row(f"  {k}, {what.split(',')[0]}", f"{med[k] / med['direct']:.2f}")

    def transparent(self):
        """The route without a proxy: what a connection, a byte and a name cost"""
        rounds = 3 if self.o.quick else 9
        got = {}

        def note(name, p, line):
            a = self.ask(p, line)
            if a and a[0] not in ("failed", "what"):
                got.setdefault(name, []).append(float(a[0]))
        for _ in range(rounds):
            for name, p in (("direct", self.direct), ("plain", self.plain)):
                note(name + " connect", p, f"connect 500 {self.port} 0")
                note(name + " ping", p, f"ping 2000 {self.port} 0")
                for way in ("up", "down"):
                    note(f"{name} {way}", p, f"stream {way} {1 << 29} {self.port} 0")
            note("lookup", self.plain, "lookup 500 bench.localhost")
        med = {k: statistics.median(v) for k, v in got.items()}
        if len(med) < 9:
            row("transparent route", "failed", note=str(sorted(med)))
            return
        row("transparent: connect() vs direct", f"{med['plain connect'] / med['direct connect']:.2f}", "<= 1.3", "",
            f"{med['plain connect']:.1f} us, direct {med['direct connect']:.1f} us")
        row("transparent: added round trip of a byte", f"{med['plain ping'] - med['direct ping']:.1f} us", "<= 25 us", "",
            f"direct {med['direct ping']:.1f} us")
        for way in ("up", "down"):
            row(f"transparent: one stream {way} vs direct", f"{med['direct ' + way] / med['plain ' + way]:.2f}", ">= 0.5",
                "", f"{(1 << 29) / med['plain ' + way] / 1e9:.2f} GB/s")
        row("transparent: a DNS answer", f"{med['lookup']:.0f} us", "< 200 us")

    def bursts(self):
        for n in (100, 1000, 3000):
            for name, p, (port, proxy) in self.variants():
                if not proxy:	# a connection is no answer: only who speaks CONNECT gives one
                    continue
                a = self.ask(p, f"burst {n} {port} {proxy}")
                value = f"{a[0]} succeed, p99 {a[2]} ms" if a and a[0] != "failed" else "failed"
                note = f"p50 {a[1]} ms" if a and a[0] != "failed" else ""
                if name == "weir":
                    row(f"{n} simultaneous CONNECTs", value, "all, p99 < 1 s", "p99 < 0.4 s", note)
                else:
                    row(f"  {name}, {n} simultaneous CONNECTs", value, note=note)
                time.sleep(0.5)

    # ---- idle tunnels ----

    def idle(self):
        """What one more idle tunnel costs: PSS of the processes that hold it"""
        n = 5000
        limit = self.home / "limit.policy"
        limit.write_text("limit connections 6000\n", encoding="ascii")
        p = self.popen(self.weir, "run", "-q", "--preset", "none", "-p", limit, "--allow",
                       f"localhost:{self.port} private", "--", self.load, "client", "localhost")
        assert self.ask(p, f"rate 1 3 {self.port} 3128"), "the sandboxed client is dead"
        procs = Procs(p.pid)
        self.tunnels("5,000 idle tunnels", p, n, (self.port, 3128),
                     [procs.monitor, procs.nursery, procs.worker, procs.shim], "<= 2 KB", "1 KB")
        for name, client, (port, proxy) in self.variants():
            if name in self.pids:
                self.tunnels(f"  {name}, idle tunnels", client, 1000, (port, proxy),
                             [self.pids[name]])

    def tunnels(self, what, client, n, at, pids, required="", stretch=""):
        before = pss(pids)
        a = self.ask(client, f"hold {n} {at[0]} {at[1]}")
        time.sleep(0.5)
        after = pss(pids)
        got = int(a[0]) if a else 0
        self.ask(client, "drop")
        if before is None or after is None:
            row(what, "needs root: the processes are locked")
        elif got < n:
            row(what, f"only {got} of {n}", required, stretch)
        else:
            row(what, f"{(after - before) / n:.2f} KB each", required, stretch,
                f"{n} tunnels, {before} -> {after} KB")

    # ---- files ----

    def files(self):
        """Reading and making many small files, in the project: outside, then twice inside"""
        script = ("import os, time\n"
                  "for r in range(2):\n"
                  " t = time.monotonic()\n"
                  " for i in range(4000):\n"
                  "  d = f'files/{i % 40}'; os.makedirs(d, exist_ok=True); f = f'{d}/{i}'\n"
                  "  open(f, 'w').write('x' * 500); open(f).read(); os.stat(f)\n"
                  " for d, _, n in os.walk('/usr/lib/python3'):\n"
                  "  for f in n[:20]: os.stat(f'{d}/{f}')\n"
                  " print(time.monotonic() - t, flush=True)\n")
        argv = {"outside": ["/usr/bin/python3", "-c", script],
                "inside": [self.weir, "run", "-q", "-n", "deny", "--", "/usr/bin/python3", "-c", script]}
        got = {}
        for _ in range(3 if self.o.quick else 9):
            for name, a in argv.items():
                shutil.rmtree(self.work / "files", ignore_errors=True)
                p = subprocess.run(self.user(*a), env=self.env, cwd=self.work, capture_output=True,
                                   text=True, check=False)
                if p.returncode == 0:
                    got.setdefault(name, []).append([float(x) for x in p.stdout.split()])
        if len(got) < 2:
            row("file-heavy work", "failed")
            return
        med = {k: [statistics.median(x[i] for x in v) for i in (0, 1)] for k, v in got.items()}
        row("file-heavy work inside vs outside, first / second run",
            f"{med['inside'][0] / med['outside'][0]:.2f} / {med['inside'][1] / med['outside'][1]:.2f}",
            "<= 1.3 / 1.05", "", f"outside {med['outside'][0]:.3f} / {med['outside'][1]:.3f} s")

    # ---- the audit log ----

    def log(self):
        """Reading and judging a log of a million records, to a pipe"""
        n = 200000 if self.o.quick else 1000000
        path, prev = self.work / "long.jsonl", b"0" * 64
        with open(path, "wb", buffering=1 << 20) as f:
            for i in range(n):
                body = (b'{"v":1,"ts":"2026-11-30T%02d:%02d:%02d.%06dZ","id":"0123456789ab.%d","sandbox":'
                        b'"0123456789ab","event":"verdict","proto":"connect","host":"files%d.example.org",'
                        b'"port":443,"verdict":"%s","reason":"rule","rule":{"file":"/home/u/.config/weir/policy",'
                        b'"line":12,"text":"allow .example.org"},"generation":1,"seq":%d,"prev":"%s"' %
                        (i // 60000 % 24, i // 1000 % 60, i // 17 % 60, i, i, i % 500,
                         b"deny" if i % 4 == 0 else b"allow", i + 1, prev))
                prev = hashlib.blake2b(body, digest_size=32).hexdigest().encode()
                f.write(body + b',"hash":"' + prev + b'"}\n')
        size = path.stat().st_size
        for what, args, req in (("audit --json", ["--json", "--file", path], ">= 50 MB/s"),
                                ("audit --json --denied --host .example.org",
                                 ["--json", "--denied", "--host", ".example.org", "--file", path], ""),
                                ("audit verify", ["verify", path], "")):
            took = []
            for _ in range(3 if self.o.quick else 5):
                t = time.monotonic()
                p = subprocess.Popen(self.user(self.weir, "audit", *args), env=self.env,
                                     stdout=subprocess.PIPE)
                while os.read(p.stdout.fileno(), 1 << 20):
                    pass
                p.stdout.close()
                took.append(time.monotonic() - t)
                if p.wait():
                    row(what, "failed")
                    break
            else:
                s = statistics.median(took)
                row(f"{what} over {n:,} records", f"{size / s / 1e6:.0f} MB/s", req, "",
                    f"{n / s / 1e6:.2f} million records/s, {size / 1e6:.0f} MB")
        path.unlink()

    def memory(self):
        p = self.popen(self.weir, "run", "-q", "--", "/bin/sleep", "60")
        procs = Procs(p.pid)
        time.sleep(0.2)
        total, parts = 0, []
        for name in ("monitor", "nursery", "worker", "shim", "keeper"):
            try:
                with open(f"/proc/{getattr(procs, name)}/smaps_rollup", encoding="ascii") as f:
                    kb = [int(ln.split()[1]) for ln in f if ln.startswith("Pss:")][0]
            except OSError:
                row("PSS of all weir processes at rest", "needs root: the processes are locked")
                break
            total += kb
            parts.append(f"{name} {kb}")
        else:
            row("PSS of all weir processes at rest", f"{total / 1024:.2f} MB", "<= 4 MB", "2 MB",
                "KB: " + ", ".join(parts))
        os.kill(p.pid, 15)
        p.wait()


def pss(pids):
    """KB of these processes and all they started; None where they are locked"""
    total, todo = 0, list(pids)
    while todo:
        pid = todo.pop()
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
                total += [int(ln.split()[1]) for ln in f if ln.startswith("Pss:")][0]
            if len(pids) == 1:
                for t in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{t}/children", encoding="ascii") as f:
                        todo += map(int, f.read().split())
        except PermissionError:
            return None
        except OSError:
            continue
    return total


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_port(port):
    import socket
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            time.sleep(0.02)
    return False


def machine():
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
        model = next((ln.split(":")[1].strip() for ln in f if ln.startswith("model name")), "?")
    return f"Linux {os.uname().release}, {os.cpu_count()} x {model}, load {os.getloadavg()[0]:.1f}"


def stopped(_signal, _frame):
    raise SystemExit("stopped")


def main():
    signal.signal(signal.SIGTERM, stopped)
    ap = argparse.ArgumentParser()
    ap.add_argument("--quick", action="store_true")
    ap.add_argument("--rounds", type=int, default=41)
    opts = ap.parse_args()
    if not WEIR.exists():
        sys.exit("build/weir is not there: run make")
    b = Bench(opts)
    t = time.monotonic()
    try:
        b.launch()
        b.terminal()
        b.kernel()
        b.start()
        b.streams()
        b.rates()
        b.transparent()
        b.bursts()
        b.idle()
        b.files()
        b.log()
        b.memory()
        for peer in ("tinyproxy", "squid", "socat"):
            if b.peers.get(peer) is None:
                row(peer, "not installed", note=f"apt-get install -y {peer}")
        for peer in ("srt",):
            row(peer, "installed, not in the harness" if shutil.which(peer, path=PATH) else
                "not installed")
    finally:
        b.close()
    print(f"\n{machine()}; as {'an ordinary user' if not IS_ROOT else f'uid {UID}'}; "
          f"{time.monotonic() - t:.0f} s")
    w = [max(len(str(r[i])) for r in rows + [("measure", "weir", "required", "stretch", "")])
         for i in range(4)]
    for r in [("measure", "weir", "required", "stretch", "note"), *rows]:
        print("  ".join(str(c).ljust(w[i]) if i < 4 else str(c) for i, c in enumerate(r)).rstrip())


if __name__ == "__main__":
    main()
