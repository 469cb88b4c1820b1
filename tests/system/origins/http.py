# SPDX-License-Identifier: ISC
"""tests/system/origins/http.py - an HTTP origin that keeps every request it gets, byte for byte."""
import ssl

from .tcp import Tcp, pattern


class Request:
    def __init__(self, conn, raw, body):
        self.conn, self.raw, self.body = conn, raw, body
        lines = raw.decode("latin-1").split("\r\n")
        self.method, self.target, self.version = (lines[0].split(" ") + ["", ""])[:3]
        self.headers = [tuple(x.split(":", 1)) for x in lines[1:] if ":" in x]

    def header(self, name):
        return [v.strip() for k, v in self.headers if k.lower() == name.lower()]


SENT = object()


class Early(Exception):
    """an answer before the body was read"""


class Http(Tcp):
    """routes[path] is bytes (a 200), a whole answer beginning with HTTP/, or a function
    (request, conn) -> one of these, None, or SENT: it wrote its answer itself. Requests are in .requests in their order."""

    def __init__(self, sock, name, tls=None):
        self.name, self.requests, self.routes, self.tls = name, [], {}, tls
        super().__init__(sock, None)

    def seen(self):
        with self.cond:
            return [(r.method, r.target) for r in self.requests]

    def wait_requests(self, n, timeout=15):
        self.wait_for(lambda: len(self.requests) >= n, timeout, f"request {n}")

    def _one(self, c, n):
        try:
            if self.tls:
                c = self.tls.wrap_socket(c, server_side=True)
            with c, c.makefile("rb") as f:
                while self._serve(c, f, n):
                    pass
        except (OSError, ssl.SSLError, ValueError) as e:
            with self.cond:
                self.errors.append((n, e))
        finally:
            c.close()
            with self.cond:
                self.ended.add(n)
                self.cond.notify_all()

    def _serve(self, c, f, n):
        raw = b""
        while not raw.endswith(b"\r\n\r\n"):
            line = f.readline(131072)
            if not line:
                return False
            raw += line
            self.record(n, line)
        req = Request(n, raw, b"")
        route = self.routes.get(req.target.split("?")[0])
        early = getattr(route, "early", None)
        if early:
            c.sendall(early)
        if req.header("expect") and not early:
            c.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        req.body = self._body(req, f, n)
        with self.cond:
            self.requests.append(req)
            self.cond.notify_all()
        if early:
            return False
        out = route(req, c) if callable(route) else route
        if out is SENT:
            return True
        if out is None:
            out = f"{self.name} {req.target}\n".encode()
        if not out.startswith(b"HTTP/"):
            out = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(out) + \
                (b"" if req.method == "HEAD" else out)
        c.sendall(out)
        gone = "close" in ",".join(req.header("connection")).lower() or req.version == "HTTP/1.0"
        return not gone and b"connection: close" not in out[:4096].lower()

    def _body(self, req, f, n):
        def read(k):
            d = f.read(k)
            self.record(n, d)
            if len(d) < k:
                raise ValueError("body cut")
            return d
        if "chunked" in ",".join(req.header("transfer-encoding")).lower():
            body = b""
            while True:
                line = f.readline(65536)
                self.record(n, line)
                k = int(line.split(b";")[0], 16)
                if k == 0:
                    while True:
                        line = f.readline(65536)
                        self.record(n, line)
                        if not line:
                            raise ValueError("trailers cut")
                        if line == b"\r\n":
                            return body
                body += read(k)
                read(2)
        length = int((req.header("content-length") or ["0"])[0])
        return read(length) if length else b""


def early(answer):
    def route(_req, _conn):
        return None
    route.early = answer
    return route


def big(length):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + pattern(0, length)


def server_context(cert, key):
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ctx.load_cert_chain(cert, key)
    return ctx
