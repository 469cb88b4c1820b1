# SPDX-License-Identifier: ISC
"""tests/system/origins/dns.py - a name server whose zone a test sets and whose queries it reads."""
import ipaddress
import socket
import struct
import threading
import time

A, AAAA = 1, 28
NXDOMAIN, SERVFAIL, REFUSED, DROP = "NXDOMAIN", "SERVFAIL", "REFUSED", "DROP"


def _name_at(msg, at):
    labels = []
    while msg[at]:
        n = msg[at]
        labels.append(msg[at + 1:at + 1 + n].decode("latin-1"))
        at += 1 + n
    return ".".join(labels).lower(), at + 1


class Dns:
    """zone[name] is a list of addresses; or a list of such lists, one for each query of a type
    (the last one stays); or NXDOMAIN, SERVFAIL, REFUSED, DROP; or {A: …, AAAA: …} of these.
    Unknown names are NXDOMAIN. Names in .truncated are answered whole over TCP alone.
    hostile[name] is a function (query, answer, proto) -> the messages that are sent instead, each bytes or
    (bytes, the UDP socket that sends them)."""

    def __init__(self, udp, tcp, ttl=60):
        self.zone, self.queries, self.ttl = {}, [], ttl
        self.truncated, self.hostile = set(), {}
        self.udp, self.tcp = udp, tcp
        self.cond = threading.Condition()
        self._used = {}
        for f in (self._serve_udp, self._serve_tcp):
            threading.Thread(target=f, daemon=True).start()

    def set(self, name, value):
        with self.cond:
            self.zone[name.lower()] = value
            for t in (A, AAAA):
                self._used.pop((name.lower(), t), None)

    def names(self, since=0):
        with self.cond:
            return [q["name"] for q in self.queries[since:]]

    def mark(self):
        with self.cond:
            return len(self.queries)

    def ids(self, since=0):
        with self.cond:
            return [q["id"] for q in self.queries[since:]]

    def wait(self, name, timeout=40):
        end = time.monotonic() + timeout
        with self.cond:
            while not any(q["name"] == name for q in self.queries):
                left = end - time.monotonic()
                assert left > 0, f"nobody asked for {name}: {self.queries}"
                self.cond.wait(left)

    def _answer(self, msg, proto):
        qid, flags, nq = struct.unpack_from("!HHH", msg)
        if nq != 1:
            return None
        name, at = _name_at(msg, 12)
        qtype, _ = struct.unpack_from("!HH", msg, at)
        with self.cond:
            self.queries.append({"name": name, "type": qtype, "id": qid, "proto": proto})
            value = self.zone.get(name, NXDOMAIN)
            if isinstance(value, dict):
                value = value.get(qtype, [])
            if isinstance(value, list) and value and isinstance(value[0], list):
                n = self._used.get((name, qtype), 0)
                self._used[(name, qtype)] = n + 1
                value = value[min(n, len(value) - 1)]
            self.cond.notify_all()
        if value == DROP:
            return None
        if name in self.truncated and proto == "udp":
            return struct.pack("!HHHHHH", qid, 0x8380, 1, 0, 0, 0) + msg[12:at + 4]
        rcode = {NXDOMAIN: 3, SERVFAIL: 2, REFUSED: 5}.get(value, 0) if isinstance(value, str) else 0
        records = []
        if not rcode:
            for a in value:
                ip = ipaddress.ip_address(a)
                if (ip.version == 4 and qtype == A) or (ip.version == 6 and qtype == AAAA):
                    records.append(ip.packed)
        out = struct.pack("!HHHHHH", qid, 0x8180 | (flags & 0x0100) | rcode, 1, len(records), 0, 0)
        out += msg[12:at + 4]
        for packed in records:
            out += struct.pack("!HHHIH", 0xC00C, qtype, 1, self.ttl, len(packed)) + packed
        return out

    def _answers(self, msg, proto):
        out = self._answer(msg, proto)
        lie = self.hostile.get(_name_at(msg, 12)[0])
        if lie:
            return lie(msg, out, proto)
        return [] if out is None else [out]

    def _serve_udp(self):
        while True:
            try:
                msg, peer = self.udp.recvfrom(4096)
            except OSError:
                return
            try:
                for out in self._answers(msg, "udp"):
                    out, sock = out if isinstance(out, tuple) else (out, self.udp)
                    sock.sendto(out, peer)
            except (IndexError, struct.error, OSError):
                pass

    def _serve_tcp(self):
        while True:
            try:
                c, _ = self.tcp.accept()
            except OSError:
                return
            threading.Thread(target=self._one_tcp, args=(c,), daemon=True).start()

    def _one_tcp(self, c):
        with c, c.makefile("rb") as f:
            try:
                while True:
                    head = f.read(2)
                    if len(head) < 2:
                        return
                    for out in self._answers(f.read(struct.unpack("!H", head)[0]), "tcp"):
                        c.sendall(struct.pack("!H", len(out)) + out)
            except OSError:
                return	# a reset: what was sent was no answer

    def close(self):
        for s in (self.udp, self.tcp):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
