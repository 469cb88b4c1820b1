#!/usr/bin/python3
# SPDX-License-Identifier: ISC
"""Answer the questions of running sandboxes by a list of hosts: an example of weir-control(7).

usage: answer.py HOST...

Allows the hosts that it is given for as long as each sandbox runs, declines every other once, and
prints a line for each question. An IDE would show a dialog where this looks at a list."""
import json
import os
import pathlib
import selectors
import socket
import sys


def runtime():
    """Where the sandboxes of this user have their sockets"""
    for base in (os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{os.getuid()}"):
        if base and os.path.isdir(base):
            return pathlib.Path(base) / "weir"
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return pathlib.Path(state) / "weir" / "run"


class Sandbox:
    def __init__(self, path):
        self.id, self.buf = path.name, b""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(path))
        self.send(verb="subscribe")

    def send(self, **request):
        self.sock.sendall(json.dumps({"v": 1, **request}).encode() + b"\n")

    def lines(self):
        """What has arrived; None when the sandbox has ended"""
        data = self.sock.recv(65536)
        if not data:
            return None
        *whole, self.buf = (self.buf + data).split(b"\n")
        return [json.loads(line) for line in whole]


def decide(sandbox, question, hosts):
    answer = "sandbox" if question["host"] in hosts else "deny"
    sandbox.send(verb="answer", question=question["id"], answer=answer)
    print(f"{sandbox.id} {question['host']}:{question['port']} {answer}", flush=True)


def main(hosts):
    waiting = selectors.DefaultSelector()
    for path in runtime().iterdir():
        sandbox = Sandbox(path)
        waiting.register(sandbox.sock, selectors.EVENT_READ, sandbox)
    while waiting.get_map():
        for key, _ in waiting.select():
            said = key.data.lines()
            if said is None:
                waiting.unregister(key.fileobj)
                continue
            for o in said:
                questions = o.get("questions", [])	# the reply to "subscribe"
                if o.get("event") == "question":
                    questions = [o["question"]]
                for q in questions:
                    decide(key.data, q, hosts)


if __name__ == "__main__":
    main(sys.argv[1:])
