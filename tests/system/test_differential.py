# SPDX-License-Identifier: ISC
"""2,000 generated requests, each sent twice: straight to a recording origin, and through weir. What the
origin saw, and what the client got back, differs only where SPEC section 5 says so; the model below is that
section. Trailers both ways, interim answers and Upgrade are among them."""
import random
import re
import socket

import pytest

from origins.tcp import Tcp

SEED, REQUESTS, PER_CONN = 20240601, 2000, 20
HOST, ADDR, PORT = "allowed.example.org", "93.184.216.34", 8080
METHODS = ["GET", "GET", "HEAD", "POST", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND"]
TOKEN = "abcdefghijklmnopqrstuvwxyzABCXYZ0123456789-_.!#$&'*+^`|~"
PATH = "abcXYZ0123456789-._~!$&'()*+,;=:@%/"
HOP = {"connection", "keep-alive", "te", "upgrade"}
# RFC 9110 section 6.5.1: not behind a body
HEAD_ONLY = {"content-length", "transfer-encoding", "trailer", "host", "authorization", "www-authenticate",
             "cookie", "set-cookie", "expect", "max-forwards", "range", "cache-control", "pragma", "age",
             "expires", "date", "location", "retry-after", "vary", "content-encoding", "content-type",
             "content-range", "content-location"}


class Recorder(Tcp):
    """Keeps head and body of every request as they came, by the id in X-Request-Number, and gives answers[id]"""

    def __init__(self, sock, answers):
        self.seen, self.answers = {}, answers
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
            self.seen[int(get[b"x-request-number"])] = (head, body)
        answer = self.answers[int(get[b"x-request-number"])]
        c.sendall(answer)
        if b"HTTP/1.1 101 " in answer:
            while True:
                d = c.recv(4096)
                if not d:
                    return False
                c.sendall(d.upper())
        return b" HTTP/1.0\r\n" not in head


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
    return out + b"0\r\n" + "".join(f + "\r\n" for f in trailers(rnd)).encode("latin-1") + b"\r\n"


def trailers(rnd):
    if rnd.random() < .5:
        return []
    out = [field(rnd) for _ in range(rnd.randint(0, 3))]
    for _ in range(rnd.choice([0, 1, 1, 3])):
        out.append(rnd.choice(["Proxy-Authorization: Basic Zm9vOmJhcg==", "PROXY-Anything: here",
                               "X-Named: n",
                               "x-NAMED:", "Host: wrong.example", "content-length: 3", "Authorization: x",
                               "Transfer-Encoding: gzip", "Connection: close", "Set-Cookie: a=b", "ETag: e",
                               "If-Match: x", "TE: trailers", "Trailer: X", "Server-Timing: a"]))
    rnd.shuffle(out)
    return out


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
        self.fields.append(f"X-Request-Number: {n}")
        self.body = b""
        if self.method not in ("GET", "HEAD", "OPTIONS") or rnd.random() < .05:
            data = rnd.randbytes(rnd.choice([0, 1, 10, 1000, 5000, 70000 if rnd.random() < .2 else 300]))
            if self.minor and rnd.random() < .5:
                self.fields.append("Transfer-Encoding: chunked")
                if rnd.random() < .3:
                    self.fields.append("Connection: x-named")
                self.body = chunked(rnd, data)
            else:
                self.fields.append(f"Content-Length: {len(data)}")
                self.body = data
        self.is_upgrade = self.minor == 1 and not self.body and rnd.random() < .03 and \
            not any(f.startswith("Content-Length") for f in self.fields)
        if self.is_upgrade:
            self.fields = [f for f in self.fields if not f.lower().startswith("upgrade")]
            self.fields += ["Upgrade: weird", "Connection: x-named, Upgrade"]
        rnd.shuffle(self.fields)
        self.answer = self.answered(rnd)
        self.host_field = rnd.choice([f"{HOST}:{PORT}", "wrong.example", HOST.upper(), ""])
        if self.minor or rnd.random() < .5:
            self.fields.insert(rnd.randint(0, len(self.fields)), f"Host: {self.host_field}")
        self.cuts = sorted(rnd.randint(1, 400) for _ in range(rnd.choice([0, 0, 0, 1, 3])))

    def answered(self, rnd):
        """bytes of all of it: interim heads, the final one, its body"""
        out = b""
        for _ in range(rnd.choice([0, 0, 0, 0, 1, 2, 7, 9]) if self.minor else 0):
            out += f"HTTP/1.1 103 Early\r\n{field(rnd)}\r\nConnection: keep-alive\r\n\r\n".encode("latin-1")
        fields = [field(rnd) for _ in range(rnd.randint(0, 6))]
        names = [f.split(":")[0].lower() for f in fields]
        for _ in range(rnd.choice([0, 0, 1, 2])):
            fields.append(hop_field(rnd, names))
        if self.is_upgrade:
            fields = [f for f in fields if not f.lower().startswith("upgrade")]
            status, body = "101 Weird", b""
            fields += ["Upgrade: weird", "Connection: upgrade"]
        elif rnd.random() < .2:
            status, body = rnd.choice(["204 None", "304 Same"]), b""
        else:
            status = "200 OK"
            body = rnd.randbytes(rnd.choice([0, 5, 900, 70000 if rnd.random() < .1 else 50]))
            if self.minor and rnd.random() < .5:
                fields += ["Transfer-Encoding: chunked"] + ["Connection: x-named"] * (rnd.random() < .3)
                body = chunked(rnd, body)
            else:
                fields.append(f"Content-Length: {len(body)}")
        rnd.shuffle(fields)
        return out + f"HTTP/1.1 {status}\r\n{''.join(f + chr(13) + chr(10) for f in fields)}\r\n" \
            .encode("latin-1") + (b"" if self.method == "HEAD" else body)

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


def named_by(head):
    named = set()
    for ln in head.decode("latin-1").split("\r\n")[1:-2]:
        name, _, value = ln.partition(":")
        if name.lower() in ("connection", "proxy-connection"):
            named |= {t.strip().lower() for t in value.split(",")}
    return named - {"content-length", "transfer-encoding"}


def model(head, first=(), last=(), but=()):
    """SPEC section 5: hop-by-hop and every Proxy-* field removed by parsed name, Host is the target's"""
    lines, named = head.decode("latin-1").split("\r\n")[:-2], named_by(head) - {"close", "keep-alive"}
    out = [lines[0], *first]
    for ln in lines[1:]:
        name = ln.partition(":")[0].lower()
        if name in but or (name not in HOP and name not in named and not name.startswith("proxy-") and
                           not (first and name == "host")):
            out.append(ln)
    return ("\r\n".join([*out, *last]) + "\r\n\r\n").encode("latin-1")


def model_body(head, body):
    """the same for what stands behind the last chunk; all else is as it was"""
    data, sep, tail = body.rpartition(b"\r\n0\r\n")
    if body.startswith(b"0\r\n"):
        data, sep, tail = b"", body[:3], body[3:]
    if not re.search(rb"(?mi)^transfer-encoding:", head) or not sep:
        return body
    named, keep = named_by(head) - {"close", "keep-alive"}, b""
    for ln in tail.split(b"\r\n")[:-2]:
        name = ln.decode("latin-1").partition(":")[0].lower()
        if name not in HOP | HEAD_ONLY | named and not name.startswith(("proxy-", "if-")):
            keep += ln + b"\r\n"
    return data + sep + keep + b"\r\n"


def model_answer(r, raw):
    out = b""
    while True:
        head, _, rest = raw.partition(b"\r\n\r\n")
        head += b"\r\n\r\n"
        if head.startswith(b"HTTP/1.1 103"):
            out, raw = out + model(head), rest
        elif r.is_upgrade:
            return out + model(head, last=["Connection: upgrade"], but=["upgrade"]) + rest
        else:
            closed = not r.minor or any("close" in f for f in r.fields if f.lower().startswith("connection:"))
            return out + model(head, last=["Connection: close"] if closed else []) + model_body(head, rest)


# What one answer is, however it is framed; runs inside the sandbox and outside
READ = """
def answer(s, is_head, is_upgrade):
    got, at = b"", 0
    def more():
        nonlocal got
        x = s.recv(65536)
        assert x, got[:600]
        got += x
    def line():
        nonlocal at
        while b"\\r\\n" not in got[at:]: more()
        end = got.index(b"\\r\\n", at) + 2
        at, ln = end, got[at:end]
        return ln
    def head():
        lines = [line()]
        while lines[-1] != b"\\r\\n": lines.append(line())
        return lines
    h = head()
    while h[0].startswith(b"HTTP/1.1 103"): h = head()
    status = int(h[0][9:12])
    f = {k.lower(): v.strip() for k, _, v in (x.partition(b":") for x in h[1:-1])}
    if is_upgrade:
        s.sendall(b"ping"); at += 4
    elif not is_head and status == 200 and b"transfer-encoding" in f:
        n = -1
        while n:
            n = int(line().split(b";")[0], 16)
            if n: at += n + 2
            while len(got) < at: more()
        while line() != b"\\r\\n": pass
    elif not is_head and status == 200:
        at += int(f[b"content-length"])
    while len(got) < at: more()
    assert len(got) == at, got[at:]
    return got
"""
RUN = READ + """
out = []
for conn in conns:
    s = proxy(); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for pieces, is_head, is_upgrade in conn:
        for p in pieces: s.sendall(p)
        out.append(answer(s, is_head, is_upgrade))
    s.close()
result = out
"""


def straight(world, conns):
    names, out = {}, []
    exec(READ, names)
    for conn in conns:
        s = world.make("host", socket.AF_INET, socket.SOCK_STREAM)
        s.settimeout(100)
        s.connect((ADDR, PORT))
        for data, is_head, is_upgrade in conn:
            s.sendall(data)
            out.append(names["answer"](s, is_head, is_upgrade))
        s.close()
    return out


def is_last(r):
    """its connection ends with it"""
    return not r.minor or r.is_upgrade


@pytest.fixture(scope="module")
def seen(world):
    rnd = random.Random(SEED)
    reqs = [Req(rnd, n) for n in range(REQUESTS)]
    conns, cur = [], []
    for r in reqs:
        cur.append(r)
        if is_last(r) or len(cur) == PER_CONN:
            conns.append(cur)
            cur = []
    conns += [cur] if cur else []
    rec = Recorder(world.make("net", socket.AF_INET, socket.SOCK_STREAM, bind=(ADDR, PORT), listen=64),
                   {r.n: r.answer for r in reqs})
    answers = straight(world, [[(r.bytes(r.origin_target()), r.method == "HEAD", r.is_upgrade) for r in c]
                               for c in conns])
    direct, rec.seen, got = rec.seen, {}, []
    with world.inside(allow=[f"{HOST}:{PORT}"]) as sb:
        url = f"http://{HOST}:{PORT}"
        for i in range(0, len(conns), 10):
            got += sb.py(RUN, conns=[[(r.pieces(r.bytes(url + r.path)), r.method == "HEAD", r.is_upgrade)
                                      for r in c] for c in conns[i:i + 10]])
    return reqs, direct, rec.seen, answers, got


def test_every_request_arrived_once(seen):
    reqs, direct, through, answers, got = seen
    assert len(reqs) == REQUESTS and set(direct) == set(through) == {r.n for r in reqs}
    assert len(answers) == len(got) == REQUESTS


def test_bodies_are_the_same_bytes_but_for_trailers_that_must_not_be_there(seen):
    reqs, direct, through, _, _ = seen
    for r in reqs:
        assert direct[r.n][1] == r.body, r.bytes("x")[:400]
        assert through[r.n][1] == model_body(*direct[r.n]), (r.bytes("x")[:400], r.body[-300:])


def test_heads_differ_only_where_the_contract_says(seen):
    reqs, direct, through, _, _ = seen
    for r in reqs:
        last, but = (["Connection: upgrade"], ["upgrade"]) if r.is_upgrade else ([], [])
        want = model(direct[r.n][0], [f"Host: {HOST}:{PORT}"], last, but)
        assert through[r.n][0] == want, (direct[r.n][0], through[r.n][0])


def test_answers_differ_only_where_the_contract_says(seen):
    reqs, _, _, answers, got = seen
    for r, a, g in zip(reqs, answers, got):
        assert a == r.answer + (b"PING" if r.is_upgrade else b"")
        assert g == model_answer(r, a), (a[:600], g[:600], g[-300:])


def test_the_generator_reaches_what_it_is_for(seen):
    """A generator that stopped making interesting requests would make all of the above pass"""
    reqs, direct, through, answers, got = seen
    heads = b"".join(direct[r.n][0] for r in reqs).lower()
    for text in (b"\r\nproxy-authorization:", b"\r\nconnection:", b"\r\nte:", b"\r\nupgrade:",
                 b"\r\ntransfer-encoding: chunked", b" http/1.0\r\n", b"\r\nhost: wrong.example",
                 b"options * http", b"\r\nkeep-alive:", b"\r\nupgrade: weird"):
        assert heads.count(text) >= 5, text
    assert sum(direct[r.n][0] != through[r.n][0] for r in reqs) > 1000
    for pairs in ([(direct[r.n][1], through[r.n][1]) for r in reqs], list(zip(answers, got))):
        for text in (b"\r\nPROXY-Anything: here\r\n", b"\r\nETag: e\r\n", b"\r\ncontent-length: 3\r\n"):
            assert sum(text in a for a, _ in pairs) >= 5, text
        assert sum(b"\r\nX-Named:" in a and b"\r\nX-Named:" not in b for a, b in pairs) >= 3
        assert sum(a != b for a, b in pairs) > 50
    assert sum(a.count(b"HTTP/1.1 103 ") >= 7 for a in answers) > 50
    assert sum(a.endswith(b"PING") for a in answers) >= 10
