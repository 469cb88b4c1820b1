# SPDX-License-Identifier: ISC
"""2,000 generated requests, each sent twice: straight to a recording origin, and through weir. What the
origin saw differs only where SPEC section 5 says so; the model below is that section."""
import random
import socket

import pytest

from origins.tcp import Tcp

SEED, REQUESTS, PER_CONN = 20240601, 2000, 20
HOST, ADDR, PORT = "allowed.example.org", "93.184.216.34", 8080
METHODS = ["GET", "GET", "HEAD", "POST", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND"]
TOKEN = "abcdefghijklmnopqrstuvwxyzABCXYZ0123456789-_.!#$&'*+^`|~"
PATH = "abcXYZ0123456789-._~!$&'()*+,;=:@%/"
HOP = {"connection", "keep-alive", "te", "upgrade"}


class Recorder(Tcp):
    """Keeps head and body of every request as they came, by the id in X-Id"""

    def __init__(self, sock):
        self.seen = {}
        super().__init__(sock, self._serve)

    def _serve(self, _o, c, _n):
        with c.makefile("rb") as f:
            while self._one_request(c, f):
                pass

    def _one_request(self, c, f):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = f.readline(131072)
            if not line:
                return False
            head += line
        fields = [ln.split(b":", 1) for ln in head.split(b"\r\n")[1:-2]]
        get = {k.lower(): v.strip() for k, v in fields}
        body = b""
        if b"transfer-encoding" in get:
            while True:
                line = f.readline(65536)
                body += line
                n = int(line.split(b";")[0], 16)
                if n == 0:
                    break
                body += f.read(n + 2)
            while not body.endswith(b"\r\n\r\n"):
                body += f.readline(65536)
        elif b"content-length" in get:
            body = f.read(int(get[b"content-length"]))
        with self.cond:
            self.seen[int(get[b"x-id"])] = (head, body)
        is_10 = b" HTTP/1.0\r\n" in head
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" +
                  (b"" if head.startswith(b"HEAD ") else b"done"))
        return not is_10


def word(rnd, alphabet, low, high):
    return "".join(rnd.choice(alphabet) for _ in range(rnd.randint(low, high)))


def field(rnd):
    name = "X-" + word(rnd, TOKEN, 1, 20)
    value = word(rnd, TOKEN + " \t\"(),/:;<=>?@[]{}\\", 0, 60)
    ows = rnd.choice([" ", "", "  ", "\t"])
    return f"{name}:{ows}{value}{rnd.choice(['', '', ' '])}"


def hop_field(rnd, names):
    return rnd.choice([
        "Connection: keep-alive", "Connection: " + rnd.choice(names or ["x-none"]),
        "connection: keep-alive, " + ", ".join(rnd.sample(names, min(2, len(names)))),
        "Keep-Alive: timeout=5", "TE: trailers", "Upgrade: h2c", "Proxy-Authorization: Basic Zm9vOmJhcg==",
        "Proxy-Connection: keep-alive", "PROXY-Anything: here", "proxy-authenticate: x"])


def chunked(rnd, data):
    out, at = b"", 0
    while at < len(data):
        n = rnd.randint(1, len(data) - at)
        size = f"{n:x}" if rnd.random() < .5 else f"{n:X}".zfill(rnd.randint(1, 4))
        ext = rnd.choice(["", "", ";a=b", ";name=\"v\""])
        out += f"{size}{ext}\r\n".encode() + data[at:at + n] + b"\r\n"
        at += n
    trailer = rnd.choice(["", "", "X-Sum: abc\r\n"])
    return out + b"0\r\n" + trailer.encode() + b"\r\n"


class Req:
    def __init__(self, rnd, n):
        self.n, self.minor = n, 0 if rnd.random() < .05 else 1
        self.method = rnd.choice(METHODS)
        self.path = rnd.choice(["", "/", "/", "/" + word(rnd, PATH, 0, 80), "?" + word(rnd, PATH, 0, 20),
                                "/" + word(rnd, PATH, 0, 20) + "?" + word(rnd, PATH + "?/", 0, 200)])
        self.fields = [field(rnd) for _ in range(rnd.randint(0, 12))]
        names = [f.split(":")[0].lower() for f in self.fields]
        for _ in range(rnd.choice([0, 0, 1, 1, 2, 4])):
            self.fields.append(hop_field(rnd, names))
        self.fields.append(f"X-Id: {n}")
        self.body = b""
        if self.method not in ("GET", "HEAD", "OPTIONS") or rnd.random() < .05:
            data = rnd.randbytes(rnd.choice([0, 1, 10, 1000, 5000, 70000 if rnd.random() < .2 else 300]))
            if self.minor and rnd.random() < .5:
                self.fields.append("Transfer-Encoding: chunked")
                self.body = chunked(rnd, data)
            else:
                self.fields.append(f"Content-Length: {len(data)}")
                self.body = data
        rnd.shuffle(self.fields)
        self.host_field = rnd.choice([f"{HOST}:{PORT}", "wrong.example", HOST.upper(), ""])
        if self.minor or rnd.random() < .5:
            self.fields.insert(rnd.randint(0, len(self.fields)), f"Host: {self.host_field}")
        self.cuts = sorted(rnd.randint(1, 400) for _ in range(rnd.choice([0, 0, 0, 1, 3])))

    def bytes(self, target):
        return (f"{self.method} {target} HTTP/1.{self.minor}\r\n" +
                "".join(f + "\r\n" for f in self.fields) + "\r\n").encode("latin-1") + self.body

    def origin_target(self):
        if self.path == "" and self.method == "OPTIONS":
            return "*"
        return self.path if self.path.startswith("/") else "/" + self.path

    def pieces(self, data):
        at = [0] + [c for c in self.cuts if c < len(data)] + [len(data)]
        return [data[a:b] for a, b in zip(at, at[1:]) if b > a]


def model(head):
    """SPEC section 5: Host is the target's; hop-by-hop and every Proxy-* field removed by parsed name"""
    lines = head.decode("latin-1").split("\r\n")[:-2]
    named = set()
    for ln in lines[1:]:
        name, _, value = ln.partition(":")
        if name.lower() in ("connection", "proxy-connection"):
            named |= {t.strip().lower() for t in value.split(",")}
    named -= {"content-length", "transfer-encoding"}
    out = [lines[0], f"Host: {HOST}:{PORT}"]
    for ln in lines[1:]:
        name = ln.partition(":")[0].lower()
        if name != "host" and name not in HOP and name not in named and not name.startswith("proxy-"):
            out.append(ln)
    return ("\r\n".join(out) + "\r\n\r\n").encode("latin-1")


RUN = """
out = []
for conn in conns:
    s = proxy(); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for pieces in conn:
        for p in pieces: s.sendall(p)
        st, h, rest = read_head(s)
        want = 0 if b"".join(pieces).startswith(b"HEAD ") else int(h.get("content-length", "0"))
        while len(rest) < want:
            x = s.recv(65536)
            if not x: break
            rest += x
        out.append((st, rest))
        if st != 200: break
    s.close()
result = out
"""


def straight(world, conns):
    for conn in conns:
        s = world.make("host", socket.AF_INET, socket.SOCK_STREAM)
        s.settimeout(20)
        s.connect((ADDR, PORT))
        for data, is_head in conn:
            s.sendall(data)
            got = b""
            while b"\r\n\r\n" not in got or (not is_head and not got.endswith(b"done")):
                x = s.recv(65536)
                assert x, data[:200]
                got += x
        s.close()


@pytest.fixture(scope="module")
def seen(world):
    rnd = random.Random(SEED)
    reqs = [Req(rnd, n) for n in range(REQUESTS)]
    conns, cur = [], []
    for r in reqs:	# HTTP/1.0 ends its connection
        cur.append(r)
        if not r.minor or len(cur) == PER_CONN:
            conns.append(cur)
            cur = []
    conns += [cur] if cur else []
    rec = Recorder(world.make("net", socket.AF_INET, socket.SOCK_STREAM, bind=(ADDR, PORT), listen=64))
    straight(world, [[(r.bytes(r.origin_target()), r.method == "HEAD") for r in c] for c in conns])
    direct, rec.seen = rec.seen, {}
    with world.inside(allow=[f"{HOST}:{PORT}"]) as sb:
        url = f"http://{HOST}:{PORT}"
        for i in range(0, len(conns), 10):
            part = conns[i:i + 10]
            got = sb.py(RUN, conns=[[r.pieces(r.bytes(url + r.path)) for r in c] for c in part])
            flat = [r for c in part for r in c]
            bad = [(r.bytes(url + r.path)[:600], g) for r, g in zip(flat, got) if g[0] != 200]
            assert not bad and len(got) == len(flat), bad[:2]
    return reqs, direct, rec.seen


def test_every_request_arrived_once(seen):
    reqs, direct, through = seen
    assert len(reqs) == REQUESTS and set(direct) == set(through) == {r.n for r in reqs}


def test_bodies_are_the_same_bytes_chunks_and_trailers_included(seen):
    reqs, direct, through = seen
    for r in reqs:
        assert direct[r.n][1] == through[r.n][1] == r.body, r.bytes("x")[:400]


def test_heads_differ_only_where_the_contract_says(seen):
    reqs, direct, through = seen
    for r in reqs:
        assert through[r.n][0] == model(direct[r.n][0]), (direct[r.n][0], through[r.n][0])


def test_the_generator_reaches_what_it_is_for(seen):
    """A generator that stopped making interesting requests would make all of the above pass"""
    reqs, direct, through = seen
    heads = b"".join(direct[r.n][0] for r in reqs).lower()
    for text in (b"\r\nproxy-authorization:", b"\r\nconnection:", b"\r\nte:", b"\r\nupgrade:",
                 b"\r\ntransfer-encoding: chunked", b" http/1.0\r\n", b"\r\nhost: wrong.example",
                 b"options * http", b"\r\nkeep-alive:"):
        assert heads.count(text) >= 5, text
    assert sum(direct[r.n][0] != through[r.n][0] for r in reqs) > 1000
