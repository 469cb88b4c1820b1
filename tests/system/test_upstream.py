# SPDX-License-Identifier: ISC
"""The policy line `upstream` (E9): a proxy that allowed connections go through. The policy is judged
first, the name goes there unresolved, the credentials stay with the broker."""
import base64
import socket
import subprocess
import threading
import time

import pytest

from origins import tcp as tcp_mod
from world import PATH, need, wait_until

HOST, OTHER, DENIED = "allowed.example.org", "other.example.org", "denied.example.net"
HIDDEN = "inside.corp.example"	# a name that no name server knows
SECRET = "s3cr:t%40@PLANTED"
URL_SECRET = "s3cr%3At%2540%40PLANTED"
AUTH = base64.b64encode(b"u s\xc3\xa9r:" + SECRET.encode()).decode()
URL = f"http://u%20s%C3%A9r:{URL_SECRET}@10.77.0.2:8080"


class Proxy(tcp_mod.Tcp):
    """A forward proxy that keeps the heads it got. answers[authority] is what it says instead"""

    def __init__(self, sock, world, to=("93.184.216.34", 80)):
        self.heads, self.answers, self.world, self.to = [], {}, world, to
        super().__init__(sock, self._serve)

    def _serve(self, _origin, c, _n):
        d = b""
        while b"\r\n\r\n" not in d:
            x = c.recv(65536)
            if not x:
                return
            d += x
        head, _, rest = d.partition(b"\r\n\r\n")
        with self.cond:
            self.heads.append(head.decode("latin-1"))
            self.cond.notify_all()
        method, target = head.split(b" ")[:2]
        answer = self.answers.get(target.decode())
        if answer is not None:
            for piece in answer if isinstance(answer, list) else [answer]:
                c.sendall(piece)
                time.sleep(0.02)	# as segments of their own
            if b" 200" not in (b"".join(answer) if isinstance(answer, list) else answer):
                return
        if method != b"CONNECT":
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nthrough\n")
            return
        s = self.world.make("net", socket.AF_INET, socket.SOCK_STREAM)
        s.connect(self.to)
        if answer is None:
            c.sendall(b"HTTP/1.1 200 fine\r\nVia: x\r\n\r\n")
        s.sendall(rest)
        t = threading.Thread(target=_copy, args=(s, c))
        t.start()
        _copy(c, s)
        t.join()
        s.close()


def _copy(a, b):
    try:
        while True:
            d = a.recv(65536)
            if not d:
                break
            b.sendall(d)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@pytest.fixture(scope="module")
def net(world):
    world.web = world.http("93.184.216.34", 80, "allowed")
    world.second = world.http("93.184.216.35", 80, "other")
    world.up = Proxy(world.make("net", socket.AF_INET, socket.SOCK_STREAM,
                                bind=("10.77.0.2", 8080), listen=64), world)
    return world


def policy(world, text):
    return world.write(f"{world.home}/policies/{tcp_mod.unique()}", "include none\n" + text, 0o600)


def sandbox(world, line, *allow, env=None):
    rules = "".join(f"allow {a}\n" for a in allow)
    return world.inside("-p", policy(world, line + "\n" + rules), allow=(), env=env)


GET = """
s, st, h, rest = connect(a)
if st == 200:
    s.sendall(b"GET /%s HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n" % path.encode())
    rest += read_all(s)
s.close()
result = st, h, rest
"""
PLAIN = """
result = talk(b"GET http://%s/p?q=1 HTTP/1.1\\r\\nHost: x\\r\\nProxy-Authorization: Basic Zm9v\\r\\n"
              b"Connection: close\\r\\n\\r\\n" % a.encode())
"""


def test_e9_connect_goes_through_with_the_name_unresolved(net):
    at, asked = len(net.up.heads), net.dns.mark()
    with sandbox(net, f"upstream {URL}", f"{HIDDEN}:80,443") as sb:
        st, _, body = sb.py(GET, a=f"{HIDDEN}:80", path="one")
        assert st == 200 and body.endswith(b"allowed /one\n"), (st, body)
        done = sb.close()
    assert net.up.heads[at:] == [f"CONNECT {HIDDEN}:80 HTTP/1.1\r\nHost: {HIDDEN}:80\r\n"
                                 f"Proxy-Authorization: Basic {AUTH}"]
    assert net.dns.names(asked) == []
    end = [r for r in done.audit if r["event"] == "end"][0]
    assert (end["host"], end["addr"], end["reason"]) == (HIDDEN, "10.77.0.2", "closed"), end


def test_e9_plain_http_goes_through_in_absolute_form(net):
    at = len(net.up.heads)
    with sandbox(net, f"upstream {URL}", f"{HIDDEN}:80,8080") as sb:
        for port in ("", ":8080"):
            st, _, body = sb.py(PLAIN, a=HIDDEN + port)
            assert (st, body) == (200, b"through\n")
    lines = [h.split("\r\n") for h in net.up.heads[at:]]
    assert lines[0][0] == f"GET http://{HIDDEN}:80/p?q=1 HTTP/1.1", lines
    assert lines[1][0] == f"GET http://{HIDDEN}:8080/p?q=1 HTTP/1.1", lines
    for ls in lines:
        auth = [ln for ln in ls if ln.lower().startswith("proxy-authorization")]
        assert auth == [f"Proxy-Authorization: Basic {AUTH}"], ls


def upgraded(_o, c, _n):
    """A websocket's origin: 101 to a head in origin form, then whatever comes, in capitals"""
    d = b""
    while b"\r\n\r\n" not in d:
        d += c.recv(4096)
    c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              b"X-Got: " + d.split(b"\r\n")[0] + b"\r\n\r\n")
    while x := c.recv(4096):
        c.sendall(x.upper())


UPGRADE = """
d = b"GET http://%s/ws HTTP/1.1\\r\\nHost: x\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n" % a.encode()
s = proxy()
if before:
    s.sendall(b"GET http://%s/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n" % a.encode())
    first = b""
    while not first.endswith(b"through\\n"): first += s.recv(4096)
s.sendall(d[:cut]); time.sleep(0.1); s.sendall(d[cut:])
st, h, rest = read_head(s)
if st == 101:
    s.sendall(b"ping")
    while len(rest) < 4: rest += s.recv(4096)
s.close()
result = st, h, rest
"""


@pytest.mark.parametrize("before,cut", [(False, 0), (False, 30), (True, 0)])
def test_e9_an_upgrade_gets_a_tunnel_of_its_own(net, before, cut):
    """ws:// in absolute form: proxies pass no Upgrade on, so the upstream is asked for a tunnel"""
    ws = net.listen("93.184.216.34", 0, upgraded)
    at = len(net.up.heads)
    net.up.to, old = ("93.184.216.34", ws.port), net.up.to
    try:
        with sandbox(net, f"upstream {URL}", HIDDEN) as sb:
            st, h, rest = sb.py(UPGRADE, a=HIDDEN, before=before, cut=cut)
            assert st == 101 and rest == b"PING" and h["x-got"] == "GET /ws HTTP/1.1", (st, h, rest)
            net.up.answers[f"{HIDDEN}:80"] = b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"
            st, h, rest = sb.py(UPGRADE, a=HIDDEN, before=False, cut=0)
            assert st == 502 and b"answered 403" in rest, (st, h, rest)
    finally:
        net.up.answers.clear()
        net.up.to = old
        ws.close()
    lines = [x.split("\r\n")[0] for x in net.up.heads[at:]]
    assert lines == ([f"GET http://{HIDDEN}:80/ HTTP/1.1"] if before else []) + \
        [f"CONNECT {HIDDEN}:80 HTTP/1.1"] * 2, lines


def test_e9_the_policy_is_judged_first(net):
    at, before = len(net.up.heads), net.up.count
    with sandbox(net, f"upstream {URL}", f"{HOST}:80", "127.0.0.1:9") as sb:
        assert sb.py("result = refused(a)[0]", a=f"{DENIED}:80") == 403
        assert sb.py("result = refused(a)[0]", a=f"{HOST}:22") == 403
        assert sb.py("result = refused(a)[0]", a="10.1.2.3:80") == 403
        assert sb.py("result = refused(a)[0]", a="localhost:80") == 403
        assert sb.py("result = refused(a)[0]", a="127.0.0.1:9") == 502, "goes direct: it is this machine"
    assert net.up.heads[at:] == [] and net.up.count == before


def test_e9_exceptions_go_direct(net):
    line = f"upstream {URL} except .example.org:80 10.0.0.0/8"
    at = len(net.up.heads)
    with sandbox(net, line, f"{HOST}:80", f"{OTHER}:81", f"{HIDDEN}:80") as sb:
        assert sb.py(GET, a=f"{HOST}:80", path="direct")[2].endswith(b"allowed /direct\n")
        assert net.up.heads[at:] == []
        assert sb.py(GET, a=f"{OTHER}:81", path="x")[0] == 200
        assert sb.py(GET, a=f"{HIDDEN}:80", path="x")[0] == 200
    assert [h.split(" ")[1] for h in net.up.heads[at:]] == [f"{OTHER}:81", f"{HIDDEN}:80"]


@pytest.mark.parametrize("env,through", [
    ({"https_proxy": "http://10.77.0.2:8080"}, True),
    ({"HTTP_PROXY": "10.77.0.2:8080"}, True),
    ({"https_proxy": "http://10.77.0.2:8080", "no_proxy": "localhost,example.org"}, False),
    ({"https_proxy": "http://10.77.0.2:8080", "NO_PROXY": "93.184.216.0/24, *"}, False),
    ({}, False),
])
def test_e9_the_hosts_variables_count_only_with_upstream_env(net, env, through):
    at = len(net.up.heads)
    with sandbox(net, "upstream env", f"{HOST}:80", env=env) as sb:
        assert sb.py(GET, a=f"{HOST}:80", path="env")[0] == 200
    assert len(net.up.heads) - at == (1 if through else 0)
    with sandbox(net, "", f"{HOST}:80", env=env) as sb:
        assert sb.py(GET, a=f"{HOST}:80", path="env")[0] == 200
    assert len(net.up.heads) - at == (1 if through else 0)


def test_e9_a_later_layer_says_none(net):
    at = len(net.up.heads)
    more = policy(net, "upstream none\n")
    with net.inside("-p", policy(net, f"upstream {URL}\n"), "-p", more, allow=[f"{HOST}:80"]) as sb:
        assert sb.py(GET, a=f"{HOST}:80", path="x")[0] == 200
    assert len(net.up.heads) == at


REFUSALS = {
    "407": (b"HTTP/1.1 407 no\r\nContent-Length: 0\r\n\r\n", "does not accept the policy's credentials"),
    "403": (b"HTTP/1.1 403 no\r\nContent-Length: 2\r\n\r\nno", "it answered 403"),
    "junk": (b"220 smtp ready\r\n\r\n", "not in HTTP"),
    "closed": (b"", "closed the connection"),
}


@pytest.mark.parametrize("how", list(REFUSALS))
def test_e9_a_refusal_of_the_upstream_is_502_and_says_so(net, how):
    answer, text = REFUSALS[how]
    net.up.answers[f"{HIDDEN}:443"] = answer
    with sandbox(net, f"upstream {URL}", HIDDEN) as sb:
        st, h, body = sb.py("result = refused(a)", a=f"{HIDDEN}:443")
        assert st == 502 and text in body.decode() and "10.77.0.2" in body.decode(), (st, body)
        assert 'details="upstream"' in h["proxy-status"], h
        assert SECRET not in body.decode() and AUTH not in body.decode()
        done = sb.close()
    ends = [r for r in done.audit if r["event"] == "end"]
    assert [e["reason"] for e in ends] == ["upstream"], ends


def test_e9_a_407_to_plain_http_is_no_question_to_the_client(net):
    net.up.answers[f"http://{HIDDEN}:80/p?q=1"] = \
        b"HTTP/1.1 407 no\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n"
    with sandbox(net, f"upstream {URL}", HIDDEN) as sb:
        st, _, body = sb.py(PLAIN, a=HIDDEN)
    del net.up.answers[f"http://{HIDDEN}:80/p?q=1"]
    assert st == 502 and b"credentials" in body, (st, body)


def test_e9_an_answer_in_pieces_with_the_tunnels_first_bytes(net):
    net.up.answers[f"{HIDDEN}:80"] = [b"HTTP/1.1 1", b"00 wait\r\n\r\nHTTP/1.1 200 ok\r",
                                      b"\n\r\nfirst bytes "]
    with sandbox(net, f"upstream {URL}", HIDDEN) as sb:
        st, _, body = sb.py(GET, a=f"{HIDDEN}:80", path="x")
    del net.up.answers[f"{HIDDEN}:80"]
    assert st == 200 and body.startswith(b"first bytes HTTP/1.1 200 OK"), body


def test_e9_an_upstream_by_name_and_in_hosts(net):
    net.dns.set("proxy.corp.example", ["10.77.0.2"])
    at = len(net.up.heads)
    with sandbox(net, "upstream http://proxy.corp.example:8080", HIDDEN) as sb:
        assert sb.py(GET, a=f"{HIDDEN}:80", path="x")[0] == 200
    net.hosts("10.77.0.2 hosted.corp.example\n")
    with sandbox(net, "upstream http://hosted.corp.example:8080", HIDDEN) as sb:
        assert sb.py(GET, a=f"{HIDDEN}:80", path="x")[0] == 200
    net.hosts("")
    assert len(net.up.heads) == at + 2
    with sandbox(net, "upstream http://nowhere.corp.example:8080", HIDDEN) as sb:
        st, h, body = sb.py("result = refused(a)", a=f"{HIDDEN}:80")
    assert st == 502 and b"upstream proxy nowhere.corp.example: NXDOMAIN" in body, body


def test_e9_the_credentials_are_nowhere_but_on_the_way_to_the_upstream(net):
    with sandbox(net, f"upstream {URL}", HIDDEN) as sb:
        assert sb.py(GET, a=f"{HIDDEN}:80", path="x")[0] == 200
        env = sb.py("result = repr(dict(os.environ))")
        for p in sb.procs().all():
            with open(f"/proc/{p}/cmdline", "rb") as f:
                assert b"PLANTED" not in f.read()
        done = sb.close()
    log = net.read(f"{sb.state}/weir/audit.jsonl").decode()
    for text in (env, done.errtext, done.text, log):
        for word in (SECRET, URL_SECRET, AUTH, "PLANTED"):
            assert word not in text
    shown = net.weir("policy", "show", "-p", policy(net, f"upstream {URL}\n")).ok()
    assert "PLANTED" not in shown.text + shown.errtext and "***@10.77.0.2:8080" in shown.text, shown
    json_ = net.weir("policy", "show", "--json", "-p", policy(net, f"upstream {URL}\n")).ok()
    assert "PLANTED" not in json_.text and '"credentials": true' in json_.text, json_


@pytest.mark.parametrize("line", [
    "upstream", "upstream socks5://h:1", "upstream https://h:1", "upstream http://", "upstream http://h:0",
    "upstream http://h:65536", "upstream http://u:PLANTED@127.1:80", "upstream http://u:PLANTED%4@h:1",
    "upstream http://u:PLANTED@h:1/path", "upstream http://h:1 but .x.org", "upstream http://h:1 except",
    "upstream none except .x.org", "upstream http://u%3A:PLANTED@h:1",
])
def test_e1_a_malformed_upstream_line_is_an_error_that_quotes_no_credentials(net, line):
    f = policy(net, line + "\n")
    r = net.weir("policy", "check", f)
    assert r.status != 0 and f"{f}:2:" in r.errtext and "PLANTED" not in r.errtext, r


def test_e9_a_real_tinyproxy_with_credentials(net):
    exe = need("tinyproxy", "tinyproxy")
    conf = net.write("/srv/tinyproxy.conf",
                     "Port 3999\nListen 127.0.0.1\nTimeout 60\nMaxClients 20\n"
                     "BasicAuth alice wonder-PLANTED\nConnectPort 443\nConnectPort 80\n", root=True)
    p = subprocess.Popen(net.enter() + [exe, "-d", "-c", conf], env={"PATH": PATH},
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        s = net.make("host", socket.AF_INET, socket.SOCK_STREAM)
        wait_until(lambda: s.connect_ex(("127.0.0.1", 3999)) == 0, 10, "tinyproxy")
        s.close()
        tls = net.http("93.184.216.34", 443, "tls", tls=net.trust(HOST))
        line = "upstream http://alice:wonder-PLANTED@127.0.0.1:3999"
        f = policy(net, f"{line}\nallow {HOST}\n")
        for url in (f"http://{HOST}/plain", f"https://{HOST}/tunnel"):
            r = net.run("-p", f, "--", "curl", "-sS", url)
            assert r.status == 0 and url.rsplit("/", 1)[1] in r.text, r
        assert tls.seen() == [("GET", "/tunnel")]
        f = policy(net, f"upstream http://alice:wrong@127.0.0.1:3999\nallow {HOST}\n")
        r = net.run("-p", f, "--", "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}",
                    f"http://{HOST}/")
        assert r.text == "401", "tinyproxy's own word for wrong credentials"
        r = net.run("-p", f, "--", "curl", "-sS", f"https://{HOST}/")
        assert r.status != 0 and "502" in r.errtext, r
    finally:
        p.kill()
        p.wait()
