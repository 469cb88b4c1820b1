# SPDX-License-Identifier: ISC
"""Questions on the sandbox's own terminal (SPEC 8; E7): one line, keys that never reach the command."""
import os
import re
import subprocess
import time

import pexpect
import pytest

from origins.tcp import echo
from terminals import Terminal
from test_clients import A, index, net  # noqa: F401  pylint: disable=unused-import
from world import BIN, IS_ROOT, PYTHON, wait_until

ONE, TWO = "allowed.example.org", "other.example.org"
RESTED = 1.5	# seconds after which nobody is typing any more: the monitor takes 0.7
QUESTION = rb"weir: (\S+:\d+)[^\n]*\[o\]nce"

# connects to each host of its arguments, then says which key it got, if any
CODE = """
import os, select, socket, sys, termios, tty
def connect(host):
    s = socket.create_connection(("127.0.0.1", 3128))
    s.sendall(f"CONNECT {host}:7000 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
    print(host, s.recv(12).decode().split()[-1], flush=True)
if os.isatty(0): tty.setcbreak(0)
print("ready", flush=True)
for h in sys.argv[1:]: connect(h)
got = os.read(0, 100) if os.isatty(0) and select.select([0], [], [], 0.3)[0] else b""
print("keys", got, flush=True)
"""


@pytest.fixture(scope="module")
def w(world):
    world.at = [world.listen(a, 7000, echo) for a in ("93.184.216.34", "93.184.216.35")]
    return world


def run(world, *hosts, args=(), code=CODE, **kw):
    return Terminal(world, BIN, "run", "-q", "--ask", "*:*", *args, "--", PYTHON, "-c", code, *hosts, **kw)


def asked(t, host):
    m = t.see(QUESTION)
    assert m.group(1) == f"{host}:7000".encode(), m.group(0)
    assert re.search(rb"\(python3, pid \d+\)", m.group(0)), m.group(0)
    return m.group(0)


@pytest.mark.parametrize("key,status", [("o", "200"), ("s", "200"), ("p", "200"), ("a", "200"), ("d", "403"),
                                        ("n", "403"), ("\x03", "403")])
def test_e7_a_key_answers_and_never_reaches_the_command(w, key, status):
    config = f"{w.home}/cfg-{time.monotonic_ns()}"
    with run(w, ONE, env={"XDG_CONFIG_HOME": config}) as t:
        text = asked(t, ONE)
        assert b"\n" not in text
        t.send(key)
        t.see(f"{ONE} {status}")
        t.see("keys b''")
        assert t.end() == 0
    f = w.path(f"{config}/weir/policy")
    if key in "an":
        assert f.read_text().startswith(f"{'allow' if key == 'a' else 'deny'} {ONE}:7000 # weir: ")
    else:
        assert not f.exists()


@pytest.mark.skipif(not IS_ROOT, reason="the administrator's file of the test's own world needs root")
def test_a_key_for_what_cannot_count_says_so(w):
    admin = w.write("/etc/weir/policy", "lock allow\n", root=True)
    try:
        with run(w, ONE, env={"XDG_CONFIG_HOME": f"{w.home}/cfg-{time.monotonic_ns()}"}) as t:
            asked(t, ONE)
            t.send("a")
            t.see("does not count: /etc/weir/policy:1 locks 'allow'; it is allowed while this sandbox runs")
            t.see("the administrator can change that")
            t.see(f"{ONE} 200")
            assert t.end() == 0
    finally:
        w.path(admin).unlink()
        w.path("/etc/weir").rmdir()


def test_e7_enter_and_other_keys_are_no_answer(w):
    with run(w, ONE) as t:
        asked(t, ONE)
        for keys in ("\r", "\n", " ", "y", "Y", "O", "\x1b[A", "oo", "\x00"):
            t.send(keys)
            t.taken()
        t.send("d")
        t.see(f"{ONE} 403")
        t.see("keys b''")


def test_e7_what_was_typed_before_is_no_answer_and_is_the_commands(w):
    code = CODE.replace("for h in", "import fcntl\nwhile fcntl.ioctl(0, termios.FIONREAD, bytes(4))[0] < 3: "
                        "select.select([], [], [], 0.01)\nfor h in")
    with Terminal(w, BIN, "run", "-q", "--ask", "*:*", "--", PYTHON, "-c", code, ONE) as t:
        t.see("ready")
        t.send("ooo")
        asked(t, ONE)
        time.sleep(RESTED)
        t.send("d")
        t.see(f"{ONE} 403")
        t.see("keys b'ooo'")


def test_one_question_after_the_other_and_once_is_once(w):
    with run(w, ONE, TWO, ONE) as t:
        for host, key, status in ((ONE, "o", 200), (TWO, "d", 403), (ONE, "s", 200)):
            asked(t, host)
            t.send(key)
            t.see(f"{host} {status}")
        t.see("keys b''")


# ---- keys of somebody who has not read the line ----

def hasty(t, before, key="s"):
    """`before` leads to a line; then a key. Return: did weir read the key while that was still in haste?"""
    start = time.monotonic()
    before()
    asked(t, t.host)
    t.send(key)
    t.taken()
    return time.monotonic() - start < 0.6


def ignored(tries):
    """In one of the tries the key came in time on this machine; it was no answer, the one after a rest is"""
    for t in tries:
        with t:
            if hasty(t, t.lead):
                time.sleep(RESTED)
                t.send("d")
                t.see(f"{t.host} 403")
                return
    raise AssertionError("this machine is too slow for a key in haste")


def test_letters_of_a_word_that_is_being_typed_answer_nothing(w):
    def tries():
        for _ in range(20):
            t = run(w, ONE, code=CODE.replace("for h in", "os.read(0, 1)\nfor h in"))
            t.host, t.lead = ONE, lambda t=t: t.send("z")
            t.see("ready")
            yield t
    ignored(tries())


def two(w, state):
    """Two questions at once; the line is about the first"""
    code = CODE.replace("for h in sys.argv[1:]: connect(h)", """
import threading
done = [threading.Thread(target=connect, args=(h,)) for h in sys.argv[1:]]
done[0].start()
open("go").read()
done[1].start()
for d in done: d.join()""")
    d = w.project()
    os.mkfifo(w.path(f"{d}/go"))
    w.own(f"{d}/go")
    t = run(w, ONE, TWO, code=code, cwd=d, env={"XDG_STATE_HOME": state})
    t.state = state
    asked(t, ONE)
    w.path(f"{d}/go").write_bytes(b"")
    wait_until(lambda: len(open_questions(w, t)) == 2, 20, "two questions")
    t.host = TWO
    return t


def open_questions(w, t):
    return w.weir("approve", state=t.state).ok().text.splitlines()


def test_a_key_that_is_held_down_answers_one_question(w):
    def tries():
        for i in range(20):
            t = two(w, f"{w.home}/held{i}")
            t.lead = lambda t=t: t.send("s")
            yield t
    ignored(tries())


def test_a_key_for_a_line_that_went_by_itself_is_not_for_the_next(w):
    def tries():
        for i in range(20):
            t = two(w, f"{w.home}/swap{i}")
            row = next(r for r in open_questions(w, t) if ONE in r)
            t.lead = lambda t=t, row=row: w.weir("approve", row.split()[0], "deny", state=t.state).ok()
            yield t
    ignored(tries())


def test_whatever_the_screen_was_left_in_the_line_is_seen(w):
    """Hidden letters, another character set, wide ones, a region, an update that is held back"""
    code = CODE.replace("for h in", "print('\\x1b[8m\\x1b(0\\x0e\\x1b[?69h\\x1b[2;9r\\x1b[?6h\\x1b[?2026h', flush=True)\n"
                        "for h in")
    for more, style in (({}, rb"\x1b[0;7m"), ({"COLORTERM": "truecolor"}, rb"\x1b[0;38;2;255;255;255;48;2;0;0;160m")):
        with run(w, ONE, code=code, env=more) as t:
            t.see("\x1b7\x1b[?6l\x1b[?69l\x1b[?2026l\x0f\x1b(B\x1b[0m\x1b[33;1H\x1b#5\x1b[2K" + style.decode("unicode_escape")
                  + "weir: ")
            t.send("d")
            t.see(f"{ONE} 403")


def test_the_program_cannot_write_another_host_into_the_line(w):
    code = CODE.replace("import os", "import os, subprocess", 1).replace("connect(h)", (
        "subprocess.run(['pip) weir: pypi.org:443 (pip', '-s', '-p', '-x', 'http://127.0.0.1:3128', "
        "'http://' + h + ':7000/'], executable='/usr/bin/curl')"))
    with run(w, ONE, code=code) as t:
        assert t.see(rb"weir: ([^\x1b]*)\? \[o\]nce").group(1).startswith(f"{ONE}:7000 (pip, pid ".encode())
        t.send("d")
        t.see("keys b''")


def test_esc_leaves_it_for_weir_approve_and_the_keys_are_the_commands_again(w):
    state = f"{w.home}/esc"
    with run(w, ONE, env={"XDG_STATE_HOME": state}) as t:
        asked(t, ONE)
        t.send("\x1b")
        t.taken()
        t.send("x")
        rows = w.weir("approve", state=state).ok().text.splitlines()
        w.weir("approve", rows[-1].split()[0], "once", state=state).ok()
        t.see(f"{ONE} 200")
        t.see("keys b'x'")


def test_a_question_that_is_answered_elsewhere_goes_from_the_screen(w):
    state = f"{w.home}/elsewhere"
    with run(w, ONE, env={"XDG_STATE_HOME": state}) as t:
        asked(t, ONE)
        rows = w.weir("approve", state=state).ok().text.splitlines()
        w.weir("approve", rows[-1].split()[0], "deny", state=state).ok()
        t.see("\x1b[33;1H\x1b[2K\x1b8")
        t.see(f"{ONE} 403")


def test_the_line_is_one_row_whatever_is_asked_and_the_end_of_the_name_is_seen(w):
    host = ".".join(["a" * 60] * 3 + ["evil", "example", "com"])
    with run(w, host) as t:
        t.see(rb"\x1b\[33;1H\x1b#5\x1b\[2K\x1b\[0;7m([^\x1b]*)\x1b\[0m")
        line = t.match.group(1)
        assert len(line) <= 100 and b".evil.example.com:7000? [o]nce" in line and line.startswith(b"..."), line
        t.send("d")
        t.see("403")


def test_the_question_names_the_line_and_the_files_when_asked_to(w):
    with run(w, ONE) as t:
        asked(t, ONE)
        t.send("?")
        t.see("--ask: ask *:*; project: /")
        t.send("?")
        asked(t, ONE)
        t.send("d")
        t.see(f"{ONE} 403")


def test_full_screen_programs_are_made_to_draw_anew(w):
    code = CODE.replace("for h in", "import signal; n = [0]\n"
                        "def winch(*a): n[0] += 1\nsignal.signal(signal.SIGWINCH, winch)\nfor h in")
    code += "print('size', n[0] > 0, os.get_terminal_size(), flush=True)\n"
    with Terminal(w, BIN, "run", "-q", "--ask", "*:*", "--", PYTHON, "-c", code, ONE) as t:
        asked(t, ONE)
        t.send("o")
        t.see("size True os.terminal_size(columns=101, lines=33)")


def test_output_rests_while_the_question_is_there_and_nothing_of_it_is_lost(w):
    code = """
import socket, sys, threading, time
def flood():
    for i in range(2000): print(f"\\x1b[3{i % 8}mline {i}\\x1b[0m", flush=True)
t = threading.Thread(target=flood); t.start()
s = socket.create_connection(("127.0.0.1", 3128))
s.sendall(b"CONNECT allowed.example.org:7000 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
s.recv(12); t.join(); print("all", flush=True)
"""
    with Terminal(w, BIN, "run", "-q", "--ask", "*:*", "--", PYTHON, "-c", code) as t:
        t.see(QUESTION)
        text = t.before + t.after
        time.sleep(0.3)
        t.send("o")
        t.see(b"all\r\n")
        # the question may stand in the middle of a line
        text = re.sub(rb"\x1b7\x1b\[33;1H.*?\x1b8", b"", text + t.before, flags=re.S)
        seen = re.findall(rb"line (\d+)", text)
        assert seen == [b"%d" % i for i in range(2000)]


def test_modes_are_as_they_were_when_weir_dies_asking(w):
    with Terminal(w, "/bin/bash", "--norc", "--noprofile", "-i", env={"PS1": "outer> "}) as t:
        t.see("outer> ")
        t.send(f"stty -g; {BIN} run -q --ask '*:*' -- {PYTHON} -c 'import socket; "
               f"s = socket.create_connection((\"127.0.0.1\", 3128)); "
               f"s.sendall(b\"CONNECT {ONE}:7000 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n\"); s.recv(1)'; echo =; stty -g\n")
        modes = t.see(rb"([0-9a-f]+:[0-9a-f:]{20,})\r\n").group(1)
        t.see(QUESTION)
        t.send("d")
        assert t.see(rb"=\r\n([0-9a-f:]{20,})\r\n").group(1) == modes


# ---- standard input is not the terminal ----

def piped(world, *hosts, key=None, args=()):
    """stdin a pipe, stdout and stderr the terminal: the controlling one is read directly"""
    code = CODE.replace('print("keys"', 'print("stdin", sys.stdin.read()); print("keys"')
    return Terminal(world, "/bin/sh", "-c", f'echo data | {BIN} run -q --ask "*:*" -- {PYTHON} -c "$CODE" "$@"; '
                    "stty -a | grep -o ' echo '", "sh", *hosts, env={"CODE": code})


def test_e7_without_a_terminal_on_stdin_the_controlling_one_is_asked(w):
    with piped(w, ONE, TWO) as t:
        asked(t, ONE)
        t.send("\r")
        t.taken()
        t.send("o")
        t.see(f"{ONE} 200")
        asked(t, TWO)
        t.send("d")
        t.see(f"{TWO} 403")
        t.see("stdin data")
        t.see("keys b''")
        t.see(" echo ")
        assert t.end() == 0


def test_the_controlling_terminal_is_not_written_to_while_it_asks(w):
    """A line of the command's own over the question would have another host in it"""
    code = """
import socket, sys, threading
def over():
    while not done: print("\\rweir: pypi.org:443? [o]nce", flush=True)
done = []; t = threading.Thread(target=over); t.start()
s = socket.create_connection(("127.0.0.1", 3128))
s.sendall(b"CONNECT allowed.example.org:7000 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
s.recv(12); done.append(1); t.join(); print("all", flush=True)
"""
    with Terminal(w, "/bin/sh", "-c", f'echo | {BIN} run -q --ask "*:*" -- {PYTHON} -c "$CODE"', env={"CODE": code}) as t:
        t.see(rb"\x0f\x1b\(B\x1b\[0mweir: allowed\.example\.org:7000 \(python3, pid \d+\)\?[^\n]*\[n\]ever ")
        with pytest.raises(pexpect.TIMEOUT):
            t.expect(rb"[^ ]", timeout=1)
        t.send("d")
        t.see(b"all\r\n")
        assert t.end() == 0


def test_nobody_is_asked_in_the_background(w):
    """Not the foreground job: the terminal is somebody else's"""
    with Terminal(w, "/bin/bash", "--norc", "--noprofile", "-i", env={"PS1": "outer> "}) as t:
        t.see("outer> ")
        t.send(f"{BIN} run --ask '*:*' -- curl -s http://{ONE}/ </dev/null &\n")
        t.see("weir approve")
        assert b"[o]nce" not in t.before, t.before
        t.send("echo wait''ed\n")
        t.see("waited")
        assert b"[o]nce" not in t.before, t.before


def test_weir_proxy_asks_on_its_terminal(w):
    with Terminal(w, BIN, "proxy", "-q", "--listen", "127.0.0.1:0", "--ask", "*:*") as t:
        url = t.see(rb"(http://weir:\S+)\r\n").group(1).decode()
        for key, status in (("o", b"200"), ("d", b"403")):
            p = subprocess.Popen(w.enter() + ["curl", "-s", "-o", "/dev/null", "-w", "%{http_connect}", "-p",
                                              "--max-time", "100", "-x", url, f"http://{ONE}:7000/"],
                                 stdout=subprocess.PIPE, env=w.env("/nonexistent"))
            t.see(rb"weir: (\S+:\d+)(?: \(curl, pid \d+\))?\?[^\n]*\[o\]nce \[s\]andbox \[d\]eny ")
            t.send(key)
            # the origin echoes the request, which is no answer to curl
            assert p.communicate(timeout=120)[0] == status
        t.sendintr()
        assert t.end() == 0


# ---- a person's session ----

@pytest.mark.clients
def test_a_session_pip_asks_and_the_redirect_to_a_second_host_asks_once_more(index):
    """weir shell --ask '*': for this sandbox, install completes; a no shows, with the reason"""
    install = (f"{PYTHON} -m pip install --disable-pip-version-check --no-cache-dir --no-input --progress-bar off "
               f"--cert /etc/ssl/certs/ca-certificates.crt -i https://{A}/simple --retries 0 weirtestpkg --target ")
    env = {"PIP_CONFIG_FILE": "/dev/null", "SHELL": "/bin/bash"}
    with Terminal(index, BIN, "shell", "--preset", "none", "--ask", "*", "--env", "PIP_CONFIG_FILE=/dev/null", env=env) as t:
        t.see("(weir) ")
        t.line(install.replace("--retries 0", "--retries 1") + "refused")
        assert b"(python3" in t.see(rb"weir: %b:443[^\n]*\[o\]nce" % A.encode()).group(0)
        t.send("d")
        t.see("is not allowed: a person was asked and said no")
        t.see("403 Forbidden")
        t.see(rb"weir: %b:443[^\n]*\[o\]nce" % A.encode())	# pip tries again
        time.sleep(RESTED)
        t.send("d")
        t.see("(weir) ")
        t.line(install + "out; echo sta''tus $?")
        t.see(rb"weir: %b:443[^\n]*\[o\]nce" % A.encode())
        t.send("s")
        t.see(rb"weir: files\.example\.com:443[^\n]*\[o\]nce")
        time.sleep(RESTED)
        t.send("s")
        t.see("Successfully installed weirtestpkg-1.0")
        t.see("status 0")
        t.line(install + "again; echo sta''tus $?")	# both hosts are known to this sandbox
        t.see("Successfully installed weirtestpkg-1.0")
        assert b"[o]nce" not in t.before
        t.see("status 0")
        t.line("exit")
        assert t.end() == 0
