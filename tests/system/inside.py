# SPDX-License-Identifier: ISC
"""tests/system/inside.py - runs inside the sandbox: takes Python text on stdin, a repr() line
each, executes it with the helpers below in scope and answers with repr() of the variable `result`.
origins/tcp.py is put in front of it, so that pattern() and its kin are there too."""
# pylint: disable=all
import os, sys, socket, threading, traceback, time, errno  # noqa

PROXY = ("127.0.0.1", 3128)


def proxy(timeout=100, addr=None):
    return socket.create_connection(addr or PROXY, timeout=timeout)


def read_head(s):
    """-> (status, {lower name: value}, bytes after the head); status 0: closed without one"""
    d = b""
    while b"\r\n\r\n" not in d:
        x = s.recv(65536)
        if not x:
            break
        d += x
    head, _, rest = d.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    if not lines[0].startswith("HTTP/"):
        return 0, {}, d
    h = {}
    for l in lines[1:]:
        k, _, v = l.partition(":")
        h[k.strip().lower()] = v.strip()
    return int(lines[0].split(" ")[1]), h, rest


def read_all(s):
    d = b""
    try:
        while True:
            x = s.recv(262144)
            if not x:
                return d
            d += x
    except ConnectionResetError:
        return d


def talk(data, timeout=100, addr=None, eof=False):
    """Send bytes to the proxy, read to the end: (status, headers, body)"""
    s = proxy(timeout, addr)
    try:
        s.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        pass
    if eof:
        s.shutdown(socket.SHUT_WR)
    st, h, rest = read_head(s)
    rest += read_all(s)
    s.close()
    return st, h, rest


def connect(authority, timeout=100, early=b"", addr=None):
    """CONNECT: (socket, status, headers, first bytes or body)"""
    if isinstance(authority, str):
        authority = authority.encode()
    s = proxy(timeout, addr)
    s.sendall(b"CONNECT " + authority + b" HTTP/1.1\r\nHost: " + authority + b"\r\n\r\n" + early)
    st, h, rest = read_head(s)
    if st != 200:
        rest += read_all(s)
    return s, st, h, rest


def tail(s, rest):
    """recv() that gives first what came together with the head"""
    pend = [rest] if rest else []
    return lambda n: pend.pop() if pend else s.recv(n)


def refused(authority, timeout=100):
    s, st, h, rest = connect(authority, timeout)
    s.close()
    return st, h, rest


def dial(host, port, timeout=20):
    """A direct connection: 'connected' or the name of the errno"""
    try:
        s = socket.create_connection((host, port), timeout=timeout)
    except socket.gaierror as e:
        return "gaierror"
    except socket.timeout:
        return "timeout"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))
    s.close()
    return "connected"


def serve():
    scope = globals()
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        code, args = eval(line)
        scope.pop("result", None)
        scope.update(args)
        try:
            exec(code, scope)
            out.write(repr(("ok", scope.get("result"))) + "\n")
        except BaseException:
            out.write(repr(("failed", traceback.format_exc())) + "\n")


if __name__ == "__main__":
    serve()
