# SPDX-License-Identifier: ISC
"""A8 with a real browser: Chromium's ClientHello has a post-quantum key share and is too large for one
segment. Between it and weir's proxy stands a recorder, inside, which cuts what Chromium sends."""
import base64
import hashlib
import ssl
import struct
import subprocess

import pytest

from origins.http import server_context
from origins.tcp import Tcp
from world import need, verdicts

pytestmark = [pytest.mark.clients, pytest.mark.nightly]
HOST, OTHER, ADDR = "allowed.example.org", "other.example.org", "93.184.216.34"
X25519MLKEM768 = 0x11ec	# RFC 9794's hybrid; IANA's TLS Supported Groups
PAGE = b"<!doctype html><title>weir</title><p>the page of the origin"

# Passes Chromium's connections to weir's proxy, CONNECT lines as @rename says, in segments of @size
RECORDER = """
import subprocess
def recorder(rename, size):
    lst = socket.create_server(("127.0.0.1", 0))
    seen = []	# for each tunnel that was linked: its target, Chromium's bytes behind CONNECT
    def pump(a, b):
        try:
            while d := a.recv(65536): b.sendall(d)
            b.shutdown(socket.SHUT_WR)
        except OSError: pass
    def one(c):
        try:
            head = b""
            while b"\\r\\n\\r\\n" not in head:
                d = c.recv(4096)
                if not d: return
                head += d
            target = head.split()[1].decode()
            up = proxy(60); up.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            up.sendall(head.replace(target.encode(), rename.get(target, target).encode()))
            answer = b""
            while b"\\r\\n\\r\\n" not in answer:
                d = up.recv(1)
                if not d: return
                answer += d
            c.sendall(answer)
            mine = [target, b""]
            if answer.split()[1] == b"200": seen.append(mine)
            threading.Thread(target=pump, args=(up, c), daemon=True).start()
            while d := c.recv(65536):
                mine[1] += d
                for i in range(0, len(d), size): up.sendall(d[i:i + size])
            up.shutdown(socket.SHUT_WR)
        except OSError: pass
    def serve():
        while True: threading.Thread(target=one, args=(lst.accept()[0],), daemon=True).start()
    threading.Thread(target=serve, daemon=True).start()
    return lst.getsockname()[1], seen
port, seen = recorder(rename, size)
p = subprocess.run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                    "--no-first-run", "--disable-background-networking", "--disable-component-update",
                    "--disable-sync", "--user-data-dir=" + os.environ["HOME"] + "/chromium",
                    f"--proxy-server=http://127.0.0.1:{port}", "--proxy-bypass-list=<-loopback>",
                    "--ignore-certificate-errors-spki-list=" + pin, "--timeout=20000", "--dump-dom", url],
                   stdin=subprocess.DEVNULL, capture_output=True, timeout=150)
result = p.stdout, p.stderr[-3000:], [tuple(x) for x in seen]
"""


class TlsOrigin(Tcp):
    """Keeps what arrives, before it is decrypted: .data"""

    def __init__(self, sock, ctx):
        self.ctx, self.groups = ctx, []
        super().__init__(sock, self._serve)

    def _serve(self, _o, c, n):
        inp, out = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.ctx.wrap_bio(inp, out, server_side=True)
        c.settimeout(60)

        def step(what):
            while True:
                try:
                    r = what()
                    c.sendall(out.read())
                    return r
                except ssl.SSLWantReadError:
                    c.sendall(out.read())
                    d = c.recv(65536)
                    if not d:
                        raise OSError("the client is gone") from None
                    self.record(n, d)
                    inp.write(d)
        try:
            step(tls.do_handshake)
            head = b""
            while b"\r\n\r\n" not in head:
                head += step(lambda: tls.read(65536))
            step(lambda: tls.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
                                   b"Content-Length: %d\r\n\r\n%s" % (len(PAGE), PAGE)))
        except ssl.SSLError as e:
            raise OSError(str(e)) from e


def extensions(data):
    """of the ClientHello with which @data begins; and how long its records are in all"""
    msg, at = b"", 0
    while len(msg) < 4 or len(msg) < 4 + int.from_bytes(msg[1:4], "big"):
        kind, _, n = struct.unpack_from("!BHH", data, at)
        assert kind == 0x16, data[at:at + 8]
        msg += data[at + 5:at + 5 + n]
        at += 5 + n
    p = 4 + 2 + 32
    p += 1 + msg[p]
    p += 2 + struct.unpack_from("!H", msg, p)[0]
    p += 1 + msg[p]
    end, out = p + 2 + struct.unpack_from("!H", msg, p)[0], {}
    p += 2
    while p < end:
        kind, n = struct.unpack_from("!HH", msg, p)
        out[kind] = msg[p + 4:p + 4 + n]
        p += 4 + n
    return out, at


def shares(exts):
    """the groups of key_share, with the size of each key"""
    body, p, out = exts[0x33], 2, {}
    while p < len(body):
        group, n = struct.unpack_from("!HH", body, p)
        out[group] = n
        p += 4 + n
    return out


@pytest.fixture(scope="module")
def browser(world):
    need("chromium", "chromium")
    cert, key = world.issue(HOST, OTHER)
    pub = subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-outform", "DER"], check=True,
                         capture_output=True).stdout
    world.pin = base64.b64encode(hashlib.sha256(pub).digest()).decode()
    world.ctx = server_context(cert, key)
    return world


def visit(w, url, rename=None, size=500, port=443):
    origin = TlsOrigin(w.make("net", 2, 1, bind=(ADDR, port), listen=64), w.ctx)
    try:
        with w.inside("--route", "proxy", allow=[f"{HOST}:{port}"]) as sb:
            out, err, seen = sb.py(RECORDER, rename=rename or {}, size=size, pin=w.pin, url=url, timeout=200)
            done = sb.close()
    finally:
        origin.close()
    return out, err, seen, origin, done


@pytest.mark.parametrize("size", [100, 500, 65536])
def test_a8_chromiums_post_quantum_hello_passes_in_pieces_and_untouched(browser, size):
    out, err, seen, origin, done = visit(browser, f"https://{HOST}/", size=size)
    assert PAGE[-24:] in out, (out, err)
    mine = [data for target, data in seen if target == f"{HOST}:443"]
    assert mine and len(origin.data) == len(mine), (seen, origin.errors)
    for data in mine:
        exts, length = extensions(data)
        assert shares(exts)[X25519MLKEM768] == 1216 and length > 1500, (shares(exts), length)
        assert exts[0][5:] == HOST.encode()
    # up to the end of what the origin read, they are the same bytes
    for got in origin.data.values():
        assert any(data.startswith(got) and len(got) >= extensions(data)[1] for data in mine)
    assert {r["verdict"] for r in verdicts(done.audit, HOST)} == {"allow"}
    assert any(r.get("sni") == HOST for r in done.audit if r["event"] == "end"), done.audit


def test_a8_chromiums_hello_for_another_host_is_refused(browser):
    """who rewrites CONNECT inside does not get what Chromium then says past the policy"""
    out, err, seen, origin, done = visit(browser, f"https://{OTHER}/", rename={f"{OTHER}:443": f"{HOST}:443"})
    assert PAGE[-24:] not in out, err
    mine = [data for target, data in seen if target == f"{OTHER}:443"]
    assert mine and all(extensions(d)[0][0][5:] == OTHER.encode() for d in mine if d)
    assert X25519MLKEM768 in shares(extensions(mine[0])[0])
    assert not any(origin.data.values()), "something of it arrived"
    ended = [r for r in done.audit if r["event"] == "end" and r["host"] == HOST]
    assert ended and {(r["reason"], r["sni"]) for r in ended} == {("sni_mismatch", OTHER)}, ended
