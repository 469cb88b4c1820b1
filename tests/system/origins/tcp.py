# SPDX-License-Identifier: ISC
"""tests/system/origins/tcp.py - origins that speak bytes: recorder, echo, source, sink, silent."""
import hashlib
import os
import socket
import struct
import threading
import time

# Position-dependent data: a block whose length is prime to every buffer size, repeated.
BLOCK_LEN = 1048573
_block = None


def block():
    global _block
    if _block is None:
        out = bytearray()
        n = 0
        while len(out) < BLOCK_LEN:
            out += hashlib.sha256(struct.pack("!Q", n)).digest()
            n += 1
        _block = bytes(out[:BLOCK_LEN])
    return _block


def pattern(start, length):
    """length bytes of the pattern from position start"""
    b = block()
    out = bytearray()
    while length > 0:
        at = start % BLOCK_LEN
        piece = b[at:at + length]
        out += piece
        start += len(piece)
        length -= len(piece)
    return bytes(out)


def send_pattern(s, total, step=262144):
    b = block()
    view = memoryview(b)
    pos = 0
    while pos < total:
        at = pos % BLOCK_LEN
        n = min(step, total - pos, BLOCK_LEN - at)
        s.sendall(view[at:at + n])
        pos += n


def check_pattern(recv, total=None):
    """Read to the end of file; return the number of bytes, raise at the first wrong one"""
    b = block()
    view = memoryview(b)
    pos = 0
    while total is None or pos < total:
        data = recv(262144)
        if not data:
            break
        got = memoryview(data)
        while len(got):
            at = pos % BLOCK_LEN
            n = min(len(got), BLOCK_LEN - at)
            if got[:n] != view[at:at + n]:
                raise AssertionError(f"wrong byte between {pos} and {pos + n}")
            got = got[n:]
            pos += n
    return pos


def reset(s):
    """Close with RST"""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


class Tcp:
    """A listener with a thread for each connection: handler(origin, conn, index).
    Without a handler every byte is recorded until end of file."""

    def __init__(self, sock, handler=None):
        self.sock, self.handler = sock, handler
        self.addr = sock.getsockname()
        self.port = self.addr[1] if isinstance(self.addr, tuple) else None
        self.cond = threading.Condition()
        self.conns, self.data, self.ended, self.errors = [], {}, set(), []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def count(self):
        with self.cond:
            return len(self.conns)

    def _accept(self):
        while True:
            try:
                c, peer = self.sock.accept()
            except OSError:
                return
            with self.cond:
                n = len(self.conns)
                self.conns.append(peer)
                self.data[n] = b""
                self.cond.notify_all()
            threading.Thread(target=self._one, args=(c, n), daemon=True).start()

    def _one(self, c, n):
        try:
            if self.handler:
                self.handler(self, c, n)
            else:
                while True:
                    d = c.recv(65536)
                    if not d:
                        break
                    self.record(n, d)
        except (OSError, AssertionError) as e:
            with self.cond:
                self.errors.append((n, e))
        finally:
            c.close()
            with self.cond:
                self.ended.add(n)
                self.cond.notify_all()

    def record(self, n, data):
        with self.cond:
            self.data[n] += data
            self.cond.notify_all()

    def wait_for(self, what, timeout=60, text="an event"):
        end = time.monotonic() + timeout
        with self.cond:
            while not what():
                left = end - time.monotonic()
                assert left > 0, f"{text} did not come: {len(self.conns)} connections, " \
                                 f"{len(self.ended)} ended, {self.errors}"
                self.cond.wait(left)

    def wait_conns(self, n, timeout=60):
        self.wait_for(lambda: len(self.conns) >= n, timeout, f"connection {n}")

    def wait_ended(self, n, timeout=60):
        self.wait_for(lambda: len(self.ended) >= n, timeout, f"end of {n} connections")

    def close(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()


def echo(_origin, c, _n):
    while True:
        d = c.recv(262144)
        if not d:
            c.shutdown(socket.SHUT_WR)
            return
        c.sendall(d)


def both_ways(total):
    """Send the pattern and check the client's pattern at the same time"""
    def handler(origin, c, n):
        t = threading.Thread(target=lambda: (send_pattern(c, total), c.shutdown(socket.SHUT_WR)),
                             daemon=True)
        t.start()
        got = check_pattern(c.recv)
        t.join()
        origin.record(n, str(got).encode())
    return handler


def source(total, then=None):
    def handler(_origin, c, _n):
        send_pattern(c, total)
        if then:
            then(c)
        else:
            c.shutdown(socket.SHUT_WR)
            while c.recv(65536):
                pass
    return handler


def sink(origin, c, n):
    got = check_pattern(c.recv)
    origin.record(n, str(got).encode())
    c.sendall(f"got {got}\n".encode())


def answer_after_eof(origin, c, n):
    data = b""
    while True:
        d = c.recv(65536)
        if not d:
            break
        data += d
    origin.record(n, data)
    c.sendall(b"the whole answer to " + data)


def unique():
    return os.urandom(6).hex()
