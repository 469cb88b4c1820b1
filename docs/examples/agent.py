#!/usr/bin/python3
# SPDX-License-Identifier: ISC
"""Run many commands, each in a sandbox of its own: an example for whoever starts commands for others.

usage: agent.py NAME [--answer HOST]... [OPTION OF weir run]... < COMMANDS

Each line of standard input is a command for sh. A question (ask lines, --ask) is answered through the
control socket: allowed for this sandbox when the host is one of --answer, else declined. A JSON line is
printed for each command, and at the end one of what the audit log says of all sandboxes named NAME."""
import collections
import json
import os
import selectors
import socket
import subprocess
import sys

from answer import runtime

WEIR = os.environ.get("WEIR_PROGRAM", "weir")


class Lines:
    """A descriptor that JSON lines come from"""

    def __init__(self, file, read):
        self.file, self.read, self.buf = file, read, b""

    def __call__(self):
        """The objects that have arrived; None at the end"""
        data = self.read(65536)
        if not data:
            return None
        *whole, self.buf = (self.buf + data).split(b"\n")
        return [json.loads(line) for line in whole]


class Sandbox:
    """One command in one sandbox"""

    def __init__(self, command, name, options, answer):
        self.answer, self.asked, self.id, self.control = answer, [], None, None
        self.text = {"out": b"", "err": b""}
        status, theirs = os.pipe()
        self.process = subprocess.Popen(
            [WEIR, "run", "-q", "--name", name, "--status-fd", str(theirs), *options, "--",
             "/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            pass_fds=[theirs])
        os.close(theirs)
        self.waiting = selectors.DefaultSelector()
        self.wait_for(self.process.stdout, lambda: self.keep("out", self.process.stdout))
        self.wait_for(self.process.stderr, lambda: self.keep("err", self.process.stderr))
        lines = Lines(status, lambda n: os.read(status, n))
        self.wait_for(status, lambda: self.said(lines(), self.status))

    def wait_for(self, file, take):
        self.waiting.register(file, selectors.EVENT_READ, take)

    def keep(self, which, pipe):
        data = os.read(pipe.fileno(), 65536)
        self.text[which] += data
        return bool(data)

    @staticmethod
    def said(objects, what):
        for o in objects or ():
            what(o)
        return objects is not None

    def status(self, o):
        """"started" comes when the command runs and the control socket is there, with its id"""
        if o["event"] != "started":
            return
        self.id = o["id"]
        self.control = socket.socket(socket.AF_UNIX)
        try:
            self.control.connect(str(runtime() / self.id))
        except OSError:	# it has ended already
            self.control.close()
            return
        self.tell(verb="subscribe")
        lines = Lines(self.control, self.control.recv)
        self.wait_for(self.control, lambda: self.said(lines(), self.event))

    def tell(self, **request):
        self.control.sendall(json.dumps({"v": 1, **request}).encode() + b"\n")

    def event(self, o):
        questions = o.get("questions", [])	# the reply to "subscribe"
        if o.get("event") == "question":
            questions = [o["question"]]
        for q in questions:
            if any(q["id"] == known["id"] for known in self.asked):
                continue	# one that has been answered is told once more when its clients leave
            self.asked.append(q)
            self.tell(verb="answer", question=q["id"], answer=self.answer(q))

    def finish(self):
        """Serve until everything has ended; what became of the command"""
        while self.waiting.get_map():
            for key, _ in self.waiting.select():
                try:
                    goes_on = key.data()
                except ConnectionError:	# the sandbox ended between two lines
                    goes_on = False
                if not goes_on:
                    self.waiting.unregister(key.fileobj)
                    os.close(key.fd) if key.fileobj == key.fd else key.fileobj.close()
        return {"id": self.id, "status": self.process.wait(),
                "out": self.text["out"].decode("utf-8", "replace"),
                "err": self.text["err"].decode("utf-8", "replace"),
                "asked": [f"{q['host']}:{q['port']}" for q in self.asked]}


def audit(name):
    """How often each host was allowed and denied, by all sandboxes of that name, in rotated files too"""
    count = {"allow": collections.Counter(), "deny": collections.Counter()}
    log = subprocess.run([WEIR, "audit", "--json", "--sandbox", name], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, check=True).stdout
    for record in map(json.loads, log.splitlines()):
        # --sandbox takes the beginning of an id as well; what is no host has no port
        if record.get("name") == name and record["event"] == "verdict":
            count[record["verdict"]][f"{record.get('host')}:{record.get('port')}"] += 1
    return count


def main(name, *words):
    hosts, words = [], list(words)
    while words[:1] == ["--answer"]:
        hosts.append(words[1])
        del words[:2]

    def answer(question):
        return "sandbox" if question["host"] in hosts else "deny"
    for command in sys.stdin:
        print(json.dumps(Sandbox(command, name, words, answer).finish()), flush=True)
    print(json.dumps(audit(name)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
