# SPDX-License-Identifier: ISC
"""`ask`: a person decides, by the control socket, weir approve or an example client (SPEC 8; E7)."""
import contextlib
import json
import os
import signal
import stat
import subprocess
import time

import pexpect
import pytest

from origins.tcp import echo, unique
from test_live import control
from test_policy_commands import check, schema
from world import BIN, IS_ROOT, PYTHON, ROOT, need, open_files, verdicts, wait_until, watching

ONE, TWO, THREE = "allowed.example.org", "other.example.org", "denied.example.net"


@pytest.fixture(scope="module")
def net(world):
    world.echo = {a: world.listen(a, 7000, echo)
                  for a in ("93.184.216.34", "93.184.216.35", "93.184.216.36")}
    world.web = world.http("93.184.216.34", 80, "allowed")
    return world


def checked(o, name="control"):
    """What was said, as its schema describes it"""
    check(o, schema(name))
    return o


class User:
    """A user's files of their own, and a project"""

    def __init__(self, world):
        self.world = world
        self.home = f"{world.home}/u-{unique()}"
        self.file = f"{self.home}/config/weir/policy"
        self.state = f"{self.home}/state"
        world.mkdir(self.home, 0o700)
        self.project = world.mkdir(f"{self.home}/project")
        self.env = {"XDG_CONFIG_HOME": f"{self.home}/config"}

    def weir(self, *args, **kw):
        return self.world.weir(*args, env=self.env, state=self.state, cwd=self.project, **kw)

    @contextlib.contextmanager
    def sandbox(self, *args, **kw):
        args = args or ("--ask", "*:*")
        with self.world.inside(*args, env=self.env, state=self.state, cwd=self.project, **kw) as sb:
            sb.py_pid = sb.py("result = os.getpid()")
            sb.entry = [r for r in sb.audit if r["event"] == "start"][-1]["sandbox"]
            yield sb

    def say(self, sb, **request):
        return checked(control(self.world, sb.entry, {"v": 1, **request})[0])

    def questions(self, sb):
        return self.say(sb, verb="questions")["questions"]

    def question(self, sb, what=lambda q: True):
        """Wait until one is open that satisfies what()"""
        return wait_until(lambda: [q for q in self.questions(sb) if what(q)], 10, "a question")[0]

    def answer(self, sb, q, answer):
        return self.say(sb, verb="answer", question=q["id"], answer=answer)

    def answers_file(self):
        d = self.world.path(f"{self.state}/weir/projects")
        names = os.listdir(d) if d.exists() else []
        assert len(names) <= 1
        return d / names[0] if names else None


@pytest.fixture
def user(net):
    return User(net)


CONNECT = "s, st, h, rest = connect(a); s.close(); result = st, rest"


def begin(sb, host, port=7000):
    sb.start(CONNECT, a=f"{host}:{port}")


def ask_and(user, sb, host, answer):
    """A connection is asked about and answered: (status, body)"""
    begin(sb, host)
    q = user.question(sb, lambda q: q["host"] == host)
    assert user.answer(sb, q, answer)["ok"] is True
    return sb.answer()


def still_asks(user, sb, host):
    st, _ = ask_and(user, sb, host, "deny")
    assert st == 403
    return True


# ---- who asks ----

def test_the_process_that_asks_is_named_whatever_it_calls_itself(user):
    code = """
        import subprocess
        p = subprocess.run([name, "-s", "-o", "/dev/null", url], executable="/usr/bin/curl")
        result = p.returncode
    """
    with user.sandbox() as sb:
        sb.start(code, url=f"http://{ONE}/", name="x\x1b]0;evil\x07\n" + "y" * 300)
        q = user.question(sb)
        c = q["client"]
        assert c["exe"] == "/usr/bin/curl" and c["argv0"].startswith("x\\x1b]0;evil\\x07\\x0ayyy"), c
        assert len(c["argv0"]) <= 100 and c["pid"] > 1
        t = terminal(user, "approve")
        t.expect(r"asked by  x\\x1b")
        t.send("\r")
        user.answer(sb, q, "deny")
        sb.answer()
        asked = [r for r in sb.audit if r["event"] == "question"]
        assert asked[0]["client"] == c


# ---- answers ----

def test_e7_once_lets_out_who_waits_and_nobody_else(user):
    with user.sandbox() as sb:
        assert ask_and(user, sb, ONE, "once")[0] == 200
        assert still_asks(user, sb, ONE)
        v = verdicts(sb.audit, ONE)
        assert [(r["verdict"], r["reason"], r["approval"]) for r in v] == [
            ("allow", "approved", "once"), ("deny", "declined", "deny")]
        assert v[0]["rule"] == {"file": "--ask", "text": "ask *:*"}
        asked = [r for r in sb.audit if r["event"] == "answer"]
        assert [(r["answer"], r["by"]) for r in asked] == [("once", "control"), ("deny", "control")]
    assert not user.world.path(user.file).exists() and user.answers_file() is None


def test_e7_sandbox_holds_for_this_host_and_port_while_it_runs(user):
    with user.sandbox() as sb:
        assert ask_and(user, sb, ONE, "sandbox")[0] == 200
        assert sb.py(CONNECT, a=f"{ONE}:7000")[0] == 200
        begin(sb, ONE, 80)
        assert user.question(sb)["port"] == 80
        assert user.answer(sb, user.questions(sb)[0], "deny")["ok"]
        assert sb.answer()[0] == 403
        assert still_asks(user, sb, TWO)
    with user.sandbox() as sb:
        assert still_asks(user, sb, ONE)
    assert not user.world.path(user.file).exists() and user.answers_file() is None


def test_e7_project_is_kept_for_the_project_alone(user):
    with user.sandbox() as sb:
        assert ask_and(user, sb, ONE, "project")[0] == 200
        assert sb.py(CONNECT, a=f"{ONE}:7000")[0] == 200, "this sandbox reads it at once"
        assert verdicts(sb.audit, ONE)[0]["approval"] == "project"
    f = user.answers_file()
    line = f.read_text()
    assert line.startswith(f"allow {ONE}:7000 # weir: 2") and "for: /usr/bin/python3" in line, line
    assert stat.S_IMODE(f.stat().st_mode) == 0o600 and stat.S_IMODE(f.parent.stat().st_mode) == 0o700
    assert not user.world.path(user.file).exists()
    with user.sandbox() as sb:
        assert sb.py(CONNECT, a=f"{ONE}:7000")[0] == 200
    user.project = user.world.mkdir(f"{user.home}/another")
    with user.sandbox() as sb:
        assert still_asks(user, sb, ONE)


def test_e7_always_is_a_line_of_the_users_policy(user):
    user.world.write(user.file, f"# mine\nask {ONE}:7000 # hm\nask {TWO}\n", mode=0o640)
    with user.sandbox() as sb:
        assert ask_and(user, sb, ONE, "always")[0] == 200
        assert verdicts(sb.audit, ONE)[0]["rule"]["file"] == user.file
    text = user.world.read(user.file).decode()
    assert text.startswith(f"# mine\n# hm\nask {TWO}\nallow {ONE}:7000 # weir: "), text
    assert stat.S_IMODE(os.stat(user.world.path(user.file)).st_mode) == 0o640
    assert os.listdir(user.world.path(user.file).parent) == ["policy"], "a file was left behind"
    with user.sandbox() as sb:
        assert sb.py(CONNECT, a=f"{ONE}:7000")[0] == 200
    user.weir("forget", f"{ONE}:7000").ok()
    assert user.world.read(user.file).decode() == f"# mine\n# hm\nask {TWO}\n"


def test_an_answer_that_is_a_line_goes_with_the_line(user):
    """forget takes it back in the sandbox that runs, too"""
    user.world.write(user.file, "network allowlist\n", mode=0o600)
    with user.sandbox() as sb:
        for answer in ("always", "project"):
            assert ask_and(user, sb, ONE, answer)[0] == 200
            assert sb.py(CONNECT, a=f"{ONE}:7000")[0] == 200
            n = len([r for r in sb.audit if r["event"] == "policy_reloaded"])
            if answer == "always":
                user.weir("forget", f"{ONE}:7000").ok()
            else:
                user.answers_file().write_text("")
            sb.wait_audit(lambda r: r["event"] == "policy_reloaded" and
                          len([p for p in sb.audit if p["event"] == "policy_reloaded"]) > n)
            assert still_asks(user, sb, ONE)


def test_e7_deny_always_is_one_too(user):
    with user.sandbox() as sb:
        st, body = ask_and(user, sb, ONE, "deny_always")
        assert st == 403 and f"{user.file}:1: deny {ONE}:7000" in body.decode(), body
        assert sb.py(CONNECT, a=f"{ONE}:7000")[0] == 403
        assert user.questions(sb) == []
        assert verdicts(sb.audit, ONE)[0]["approval"] == "deny_always"
    assert user.world.read(user.file).decode().startswith(f"deny {ONE}:7000 # weir: ")


def test_words_of_the_ask_line_go_with_the_answer(user):
    """private and no-sni, of the line that asked"""
    user.world.hosts("10.77.0.1 inner.example.org\n")
    at = user.world.listen("10.77.0.1", 7001, echo)
    with user.sandbox("--ask", "inner.example.org:7001 private no-sni") as sb:
        begin(sb, "inner.example.org", 7001)
        user.answer(sb, user.question(sb), "always")
        assert sb.answer()[0] == 200
    at.wait_conns(1)
    assert user.world.read(user.file).decode().startswith(
        "allow inner.example.org:7001 private no-sni # weir: ")
    with user.sandbox("--ask", "inner.example.org:7002") as sb:
        begin(sb, "inner.example.org", 7002)
        user.answer(sb, user.question(sb), "once")
        st, body = sb.answer()
        assert st == 403 and b"not public" in body, body
    assert at.count == 1
    user.world.hosts("")


def test_what_cannot_be_kept_leaves_the_question_open(user):
    user.world.write(user.file, "network allowlist\n", mode=0o600)
    with user.sandbox() as sb:
        begin(sb, ONE)
        q = user.question(sb)
        user.world.edit(user.file, "alow x\n", mode=0o600)
        o = user.answer(sb, q, "always")
        assert o["ok"] is False and f"{user.file}:1:1: 'alow'" in o["error"], o
        assert [i["id"] for i in user.questions(sb)] == [q["id"]]
        d = user.world.path(user.file).parent
        user.world.edit(user.file, "network allowlist\n", mode=0o600)
        os.chmod(d, 0o500)
        o = user.answer(sb, q, "always")
        os.chmod(d, 0o700)
        assert o["ok"] is False and o["error"].endswith(f"{user.file}': Permission denied"), o
        user.world.edit(user.file, "alow x\n", mode=0o600)
        assert user.answer(sb, q, "project")["ok"] is True
        assert sb.answer()[0] == 200, "the file that is broken is another one"
    with user.sandbox("--no-user-policy", "--ask", "*:*") as sb:
        begin(sb, ONE)
        q = user.question(sb)
        assert q["answers"] == ["once", "sandbox", "deny"]
        o = user.answer(sb, q, "project")
        assert o["ok"] is False and "cannot be kept" in o["error"], o
        assert user.answer(sb, q, "once")["ok"] and sb.answer()[0] == 200
        o = user.answer(sb, q, "once")
        assert o["ok"] is False and "no open question" in o["error"], "twice"


@contextlib.contextmanager
def administrator(world, text):
    path = world.write("/etc/weir/policy", text, root=True)
    try:
        yield
    finally:
        world.path(path).unlink()
        world.path("/etc/weir").rmdir()


@pytest.mark.skipif(not IS_ROOT, reason="the administrator's file of the test's own world needs root")
def test_an_answer_that_is_kept_and_does_not_count_says_so(user):
    """A lock strikes the line: the answer holds for less than was said, and whose doing that is"""
    with administrator(user.world, "lock allow\nlock deny\n"), user.sandbox() as sb:
        for host, answer in ((ONE, "always"), (TWO, "project")):
            begin(sb, host)
            o = user.answer(sb, user.question(sb), answer)
            assert o["ok"] and o["note"] == ("the line is kept but does not count: /etc/weir/policy:1 locks "
                                             "'allow'; it is allowed while this sandbox runs"), o
            assert o["fix"] == "the administrator can change that"
            assert sb.answer()[0] == 200
            assert sb.py(CONNECT, a=f"{host}:7000")[0] == 200, "it holds here"
        begin(sb, THREE)
        q = user.question(sb)
        r = user.weir("approve", f"{sb.entry}:{q['id']}", "deny_always")
        assert r.status == 0 and "/etc/weir/policy:2 locks 'deny'; it was denied once" in r.errtext, r
        assert "the administrator can change that" in r.errtext, r
        assert sb.answer()[0] == 403
        assert still_asks(user, sb, THREE)
    with administrator(user.world, "lock allow\n"), user.sandbox() as sb:
        assert still_asks(user, sb, ONE)
        assert sb.py(CONNECT, a=f"{THREE}:7000")[0] == 403, "that line counts by now"
    with user.sandbox() as sb:	# without the lock all of them count
        assert sb.py(CONNECT, a=f"{ONE}:7000")[0] == 200
        assert sb.py(CONNECT, a=f"{THREE}:7000")[0] == 403


# ---- waiting ----

def test_e7_nothing_is_looked_up_or_dialled_before_the_answer(user):
    at = user.world.dns.mark()
    with user.world.capture() as cap, user.sandbox() as sb:
        def outside():	# but for the capture's own marks
            return {t for t in cap.seen() if t[1] != "127.0.0.1"}
        begin(sb, ONE)
        q = user.question(sb)
        assert (q["host"], q["port"], q["waiting"], q["rule"]) == (ONE, 7000, 1, "--ask: ask *:*")
        assert q["client"] == {"pid": sb.py_pid, "exe": os.path.realpath(PYTHON), "argv0": PYTHON}, q
        assert user.say(sb, verb="list")["connections"][0]["state"] == "asked"
        time.sleep(0.3)
        assert outside() == set() and user.world.dns.names(at) == []
        user.answer(sb, q, "deny")
        assert sb.answer()[0] == 403
        assert outside() == set() and user.world.dns.names(at) == []
        assert ask_and(user, sb, ONE, "once")[0] == 200
        assert ("tcp", "93.184.216.34", 7000) in outside()


def test_e7_forty_connections_are_one_question(user):
    before = user.world.echo["93.184.216.34"].count
    with user.sandbox() as sb:
        sb.start("""
            got = []
            def one():
                s, st, h, rest = connect(a); got.append((s, st))
            ts = [threading.Thread(target=one) for _ in range(40)]
            [t.start() for t in ts]; [t.join() for t in ts]
            for s, st in got: s.close()
            result = [st for s, st in got]
        """, a=f"{ONE}:7000")
        q = user.question(sb, lambda q: q["waiting"] == 40)
        assert len(user.questions(sb)) == 1
        user.answer(sb, q, "once")
        assert sb.answer() == [200] * 40
        wait_until(lambda: user.world.echo["93.184.216.34"].count == before + 40, 5, "40 connections")
        assert len([r for r in sb.audit if r["event"] == "question"]) == 1
        assert still_asks(user, sb, ONE)


@pytest.mark.parametrize("how", ["http", "socks"])
def test_every_way_to_ask_waits(user, how):
    argv = {"http": ["-x", "http://127.0.0.1:3128"], "socks": ["-x", "socks5h://127.0.0.1:3128"]}[how]
    with user.sandbox() as sb:
        sb.start("""
            import subprocess
            result = subprocess.run(["curl", "-s", *argv, url], capture_output=True).stdout
        """, argv=argv, url=f"http://{ONE}/x")
        q = user.question(sb)
        assert q["port"] == 80
        user.answer(sb, q, "once")
        assert sb.answer() == b"allowed /x\n"


def test_e7_nobody_answers_denied_once_and_not_remembered(user):
    user.world.write(user.file, "ask-timeout 1\n", mode=0o600)
    with user.sandbox() as sb:
        t0 = time.monotonic()
        st, body = sb.py(CONNECT, a=f"{ONE}:7000")
        assert st == 403 and 0.8 < time.monotonic() - t0 < 20
        assert b"nobody answered" in body and f"weir allow {ONE}:7000".encode() in body, body
        assert user.questions(sb) == []
        v = verdicts(sb.audit, ONE)[0]
        assert (v["verdict"], v["reason"], v["approval"]) == ("deny", "unanswered", "unanswered")
        assert ask_and(user, sb, ONE, "once")[0] == 200, "asked again"
    assert user.world.read(user.file) == b"ask-timeout 1\n" and user.answers_file() is None


def test_e7_where_nobody_can_answer_it_is_denied_at_once(user):
    """No terminal, and no socket by which another command would find the sandbox"""
    place = user.world.mkdir(f"/run/user/{unique()}", 0o700)
    user.world.write(f"{place}/weir", "no directory\n")
    t0 = time.monotonic()
    r = user.world.run("--ask", "*", "--", "curl", "-s", f"http://{ONE}/", env={"XDG_RUNTIME_DIR": place})
    assert "nobody answered" in r.text and time.monotonic() - t0 < 25, r
    assert verdicts(r.audit, ONE)[0]["reason"] == "unanswered"


def test_e7_a_client_that_is_gone_is_not_waited_for_and_its_answer_is_for_who_comes_back(user):
    with user.sandbox() as sb:
        sb.py("""
            s = proxy(); s.sendall(f"CONNECT {a} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
        """, a=f"{ONE}:7000")
        q = user.question(sb, lambda q: q["waiting"] == 1)
        sb.py("s.close()")
        q = user.question(sb, lambda q: q["waiting"] == 0)
        assert 15 < q["left"] <= 30, "it outlives its last client"
        assert [r["reason"] for r in verdicts(sb.audit, ONE)] == ["client_gone"]
        assert user.answer(sb, q, "once")["ok"] is True
        assert sb.py(CONNECT, a=f"{ONE}:7000")[0] == 200, "whoever comes back"
        assert still_asks(user, sb, ONE)
        begin(sb, ONE)
        first = user.question(sb)
        assert first["waiting"] == 1
        user.answer(sb, first, "deny")
        sb.answer()


def test_e7_a_client_that_only_finished_sending_is_still_there(user):
    with user.sandbox() as sb:
        sb.py("""
            s = proxy(); s.sendall(f"CONNECT {a} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
            s.shutdown(socket.SHUT_WR)
        """, a=f"{ONE}:7000")
        q = user.question(sb)
        time.sleep(1.5)	# the worker asks about it once a second
        assert [i["waiting"] for i in user.questions(sb)] == [1]
        user.answer(sb, q, "once")
        assert sb.py("result = s.recv(12)") == b"HTTP/1.1 200"


def test_an_edit_answers_too(user):
    with user.sandbox() as sb:
        begin(sb, ONE)
        user.question(sb)
        user.weir("allow", f"{ONE}:7000").ok()
        assert sb.answer()[0] == 200
        wait_until(lambda: user.questions(sb) == [], 5, "the end of the question")
        begin(sb, TWO)
        user.question(sb)
        user.weir("deny", TWO).ok()
        st, body = sb.answer()
        assert st == 403 and b"deny other.example.org" in body
        assert [r["answer"] for r in sb.audit if r["event"] == "answer"] == ["policy", "policy"]


def test_an_open_tunnel_outlives_an_edit_that_asks_about_it(user):
    user.world.write(user.file, f"allow {ONE}:*\nask *:*\n", mode=0o600)
    with user.sandbox("-v") as sb:
        sb.py("keep, st, h, rest = connect(a); result = st", a=f"{ONE}:7000")
        assert ask_and(user, sb, TWO, "once")[0] == 200
        user.weir("ask", f"{ONE}:*").ok()
        sb.wait_audit(lambda r: r["event"] == "policy_reloaded")
        assert sb.py("keep.sendall(b'one'); result = keep.recv(3)") == b"one"
        assert still_asks(user, sb, ONE)


@pytest.mark.lifecycle
def test_a_worker_that_dies_takes_its_clients_and_not_the_question(user):
    with user.sandbox() as sb:
        sb.start("""
            s = proxy(); s.sendall(f"CONNECT {a} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
            try:
                result = s.recv(1) or "closed"
            except OSError as e:
                result = errno.errorcode[e.errno]
        """, a=f"{ONE}:7000")
        q = user.question(sb, lambda q: q["waiting"] == 1)
        os.kill(sb.procs().worker, signal.SIGKILL)
        assert sb.answer() in ("ECONNRESET", "closed")
        assert user.question(sb)["id"] == q["id"]
        begin(sb, ONE)
        q = user.question(sb, lambda q: q["waiting"] == 1)
        user.answer(sb, q, "once")
        assert sb.answer()[0] == 200


def test_questions_are_bounded(user):
    with user.sandbox() as sb:
        sb.start("""
            got = []
            def one(i):
                s, st, h, rest = connect(f"h{i}.example.org:443"); s.close(); got.append(st)
            ts = [threading.Thread(target=one, args=(i,)) for i in range(40)]
            [t.start() for t in ts]; [t.join() for t in ts]
            result = got
        """)
        wait_until(lambda: len(user.questions(sb)) == 32 and len(verdicts(sb.audit)) == 8, 10, "32 open")
        assert {r["reason"] for r in verdicts(sb.audit)} == {"unanswered"}
        for q in user.questions(sb):
            user.answer(sb, q, "deny")
        assert sb.answer() == [403] * 40


def test_the_end_of_the_command_ends_its_questions(user):
    with user.sandbox() as sb:
        sb.py("""
            s = proxy(); s.sendall(f"CONNECT {a} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
        """, a=f"{ONE}:7000")
        user.question(sb)
        assert sb.close().status == 0
    assert verdicts(sb.audit, ONE)[0]["reason"] in ("client_gone", "shutdown")


# ---- addresses ----

def test_an_address_rule_asks_about_what_a_name_leads_to(user):
    """The name is allowed: it is looked up, and a person decides about where it leads"""
    args = ("-a", f"{ONE}:*", "--ask", "93.184.216.0/24:7000")
    with user.sandbox(*args) as sb:
        begin(sb, ONE)
        q = user.question(sb)
        assert (q["host"], q["port"], q["is_address"]) == ("93.184.216.34", 7000, True)
        user.answer(sb, q, "deny")
        assert sb.answer()[0] == 403
        begin(sb, ONE)
        user.answer(sb, user.question(sb), "project")
        assert sb.answer()[0] == 200
        assert sb.py(CONNECT, a=f"{ONE}:7000")[0] == 200
    assert user.answers_file().read_text().startswith("allow 93.184.216.34:7000 # weir: ")


def test_it_asks_about_what_the_hosts_file_says_too(user):
    user.world.hosts(f"93.184.216.35 {ONE}\n")
    try:
        with user.sandbox("-a", f"{ONE}:*", "--ask", "93.184.216.35:7000") as sb:
            begin(sb, ONE)
            user.answer(sb, user.question(sb, lambda q: q["is_address"]), "once")
            assert sb.answer()[0] == 200
    finally:
        user.world.hosts("")


def test_a_typed_address_is_asked_about_when_it_can_be_allowed(user):
    with user.sandbox("--ask", "*:*") as sb:
        begin(sb, "93.184.216.34")
        user.answer(sb, user.question(sb), "always")
        assert sb.answer()[0] == 200
        st, _ = sb.py(CONNECT, a="10.77.0.1:7000")
        assert st == 403 and user.questions(sb) == [], "what * does not allow is no question"
    assert user.world.read(user.file).decode().startswith("allow 93.184.216.34:7000 # weir: ")


# ---- weir approve ----

PROMPT = r"leave it open \(\d+ s\) > "	# before it has come what is typed is no answer


def terminal(user, *args, prefix=()):
    argv = user.world.enter(user.project) + [*prefix, BIN, *args]
    return pexpect.spawn(argv[0], argv[1:], env=user.world.env(user.state, **user.env), timeout=60)


def test_approve_lists_what_is_open(user):
    assert "no question is open" in user.weir("approve").errtext
    assert user.weir("approve", "--json").text == "[]\n"
    with user.sandbox() as sb:
        begin(sb, ONE)
        q = user.question(sb)
        ref = f"{sb.entry}:{q['id']}"
        r = user.weir("approve").ok()
        assert r.text.split()[:2] == [ref, f"{ONE}:7000"] and "--ask: ask *:*" in r.text, r
        o = checked(json.loads(user.weir("approve", "--json").text), "approve")
        assert o[0]["sandbox"] == sb.entry and o[0]["host"] == ONE
        assert "answer" in user.weir("approve", ref, "yes").errtext
        assert "no open question" in user.weir("approve", f"{sb.entry}:99", "once").errtext
        user.weir("approve", ref[:5] + ref[12:], "once").ok()
        assert sb.answer()[0] == 200


def test_approve_asks_on_a_terminal_and_neither_enter_nor_nonsense_is_a_yes(user):
    with user.sandbox() as sb:
        begin(sb, ONE)
        user.question(sb)
        t = terminal(user, "approve")
        t.expect(f"{ONE}:7000")
        t.expect("asked by")
        t.expect(PROMPT)
        t.send("\r")
        t.expect(pexpect.EOF)
        assert len(user.questions(sb)) == 1
        t = terminal(user, "approve")
        t.expect(PROMPT)
        t.send("yes\r")
        t.expect("none of the answers")
        t.expect(PROMPT)
        t.send("o\r")
        t.expect(pexpect.EOF)
        assert sb.answer()[0] == 200


def test_approve_takes_what_is_typed_once_its_prompt_is_there(user):
    """What was typed before is thrown away first"""
    need("strace", "strace")
    trace = f"{user.home}/trace"
    with user.sandbox() as sb:
        begin(sb, ONE)
        q = user.question(sb)
        t = terminal(user, "approve", prefix=("strace", "-o", trace, "-e", "trace=write,ioctl"))
        t.expect(PROMPT)
        t.send("\r")
        t.expect(pexpect.EOF)
        user.answer(sb, q, "deny")
        sb.answer()
    lines = user.world.read(trace).decode().splitlines()
    thrown = [i for i, ln in enumerate(lines) if "TCFLSH" in ln]
    prompt = [i for i, ln in enumerate(lines) if ln.startswith("write(1,") and "> \"" in ln]
    assert len(thrown) == len(prompt) == 1 and thrown < prompt, lines


def test_approve_watch_asks_as_questions_come_and_type_ahead_is_no_answer(user):
    with user.sandbox() as sb:
        t = terminal(user, "approve", "--watch")
        wait_until(lambda: user.say(sb, verb="stats")["listening"] == 1, 10, "the subscription")
        t.send("o\r" * 3 + "o")	# before anything is asked
        begin(sb, ONE)
        t.expect(PROMPT)
        time.sleep(0.3)
        assert len(user.questions(sb)) == 1, "what was typed before does not answer"
        t.send("s\r")
        assert sb.answer()[0] == 200
        begin(sb, TWO)
        t.expect(f"{TWO}:7000")
        t.expect(PROMPT)
        user.answer(sb, user.questions(sb)[0], "deny")
        t.expect("it has ended: deny")
        assert sb.answer()[0] == 403
        with user.sandbox() as late:	# a sandbox that begins meanwhile
            begin(late, THREE)
            t.expect(f"{THREE}:7000")
            t.expect(PROMPT)
            t.send("d\r")
            assert late.answer()[0] == 403
        t.sendintr()
        t.expect(pexpect.EOF)


def test_approve_watch_prints_events_and_notifies(user):
    user.world.write("/srv/bin/notify-send", '#!/bin/sh\nprintf "%s|" "$@" >>"$HOME/told"\n', mode=0o755, root=True)
    env = {**user.env, "PATH": "/srv/bin:/usr/bin:/bin"}
    with user.sandbox() as sb:
        w = user.world.spawn("approve", "--watch", "--notify", "--json", env=env, state=user.state)
        try:
            first = json.loads(w.readline())
            assert first["sandbox"] == sb.entry and first["questions"] == []
            begin(sb, ONE)
            o = json.loads(w.readline())
            assert o["event"] == "question" and o["question"]["host"] == ONE
            user.answer(sb, o["question"], "once")
            o = json.loads(w.readline())
            assert (o["event"], o["answer"]) == ("answered", "once")
            assert sb.answer()[0] == 200
            told = user.world.path(f"{user.world.home}/told")
            wait_until(told.exists, 5, "the notification")
            assert f"weir: allow {ONE}:7000?|" in wait_until(told.read_text, 5, "its words")
            told.unlink()
        finally:
            w.kill()


# ---- the control socket ----

def test_who_subscribes_hears_of_everything(user):
    code = """
import json, socket, sys
s = socket.socket(socket.AF_UNIX); s.settimeout(120); s.connect(sys.argv[1])
s.sendall(b'{"v":1,"verb":"subscribe"}\\n')
for line in s.makefile("rb"):
    sys.stdout.write(line.decode()); sys.stdout.flush()
"""
    with user.sandbox() as sb:
        p = subprocess.Popen(user.world.enter() + [PYTHON, "-c", code, f"{user.world.runtime}/weir/{sb.entry}"],
                             stdout=subprocess.PIPE, env=user.world.env("/nonexistent"))
        heard = lambda: checked(json.loads(p.stdout.readline()))	# noqa: E731
        try:
            assert heard()["ok"] is True
            begin(sb, ONE)
            q = heard()
            assert q["event"] == "question" and q["question"]["waiting"] == 1
            assert user.answer(sb, q["question"], "project")["ok"]
            assert heard()["answer"] == "project"
            assert heard() == {"v": 1, "event": "policy", "sandbox": sb.entry, "generation": 2}
            assert sb.answer()[0] == 200
            sb.close()
            assert p.wait(60) == 0, "the connection ends with the sandbox"
        finally:
            p.kill()
            p.wait()


def test_a_hundred_idle_clients_and_deaf_listeners_are_harmless(user):
    code = """
import socket, sys, time
all = []
for i in range(100):
    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
    if i % 2: s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1); s.sendall(b'{"v":1,"verb":"subscribe"}\\n')
    all.append(s)
print("ready", flush=True)
sys.stdin.read()
"""
    with user.sandbox() as sb:
        watching(sb.pid)
        fds = lambda: open_files(sb.pid)	# noqa: E731
        before = fds()
        p = subprocess.Popen(user.world.enter() + [PYTHON, "-c", code, f"{user.world.runtime}/weir/{sb.entry}"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=user.world.env("/nonexistent"))
        try:
            assert p.stdout.readline() == b"ready\n"
            for i in range(60):
                assert ask_and(user, sb, ONE, "deny" if i % 2 else "once")[0] in (200, 403)
            assert user.say(sb, verb="info")["ok"]
        finally:
            p.communicate(b"")
        wait_until(lambda: all(n <= o + 1 for n, o in zip(fds(), before)), 10, "the end of every client")


BAD = [{"verb": "answer"}, {"verb": "answer", "question": 1}, {"verb": "answer", "question": "1", "answer": "once"},
       {"verb": "answer", "question": -1, "answer": "once"}, {"verb": "answer", "question": 1.5, "answer": "once"},
       {"verb": "answer", "question": 1, "answer": "yes"}, {"verb": "answer", "question": 1, "answer": "unanswered"},
       {"verb": "answer", "question": 1, "answer": ["once"]}, {"verb": "answer", "question": 2 ** 62, "answer": "once"},
       {"verb": "answer", "question": 1, "answer": None}]


def test_bad_answers_answer_nothing(user):
    with user.sandbox() as sb:
        begin(sb, ONE)
        q = user.question(sb)
        got = control(user.world, sb.entry, *[{"v": 1, **b} for b in BAD])
        assert [g["ok"] for g in got] == [False] * len(BAD), got
        assert [i["id"] for i in user.questions(sb)] == [q["id"]]
        user.answer(sb, q, "deny")
        assert sb.answer()[0] == 403


RACE = """
import json, socket, sys
path, *answers = sys.argv[1:]
socks = [socket.socket(socket.AF_UNIX) for _ in answers]
for s in socks: s.connect(path)
for line in sys.stdin:
    for s, a in zip(socks, answers):
        s.sendall(json.dumps({"v": 1, "verb": "answer", "question": int(line), "answer": a}).encode() + b"\\n")
    print(json.dumps([json.loads(s.makefile().readline()) for s in socks]), flush=True)
"""


def test_of_two_who_answer_at_once_one_is_heard_and_a_number_is_never_used_again(user):
    with user.sandbox() as sb:
        p = subprocess.Popen(user.world.enter() + [PYTHON, "-c", RACE, f"{user.world.runtime}/weir/{sb.entry}",
                                                   "once", "deny", "once", "deny"], text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=user.world.env("/nonexistent"))
        try:
            ids = []
            for _ in range(10):
                begin(sb, ONE)
                ids.append(user.question(sb)["id"])
                p.stdin.write(f"{ids[-1]}\n")
                p.stdin.flush()
                said = json.loads(p.stdout.readline())
                heard = [a for a, o in zip(("once", "deny") * 2, said) if o["ok"]]
                assert len(heard) == 1 and all("no open question" in o["error"] for o in said if not o["ok"]), said
                assert sb.answer()[0] == (200 if heard == ["once"] else 403)
            assert ids == sorted(set(ids)), ids
            begin(sb, ONE)	# an answer to what is over does not answer what is open
            q = user.question(sb)
            for old in ids:
                assert user.say(sb, verb="answer", question=old, answer="always")["ok"] is False
            assert user.questions(sb)[0]["id"] == q["id"] > ids[-1]
            user.answer(sb, q, "deny")
            assert sb.answer()[0] == 403
        finally:
            p.communicate()
    answered = [r for r in sb.audit if r["event"] == "answer"]
    assert len(answered) == 11 and not user.world.path(user.file).exists()


def test_an_answer_that_comes_when_the_question_was_withdrawn_is_an_error(user):
    with user.sandbox() as sb:
        sb.py(f"s = proxy(); s.sendall(b'CONNECT {ONE}:7000 HTTP/1.1\\r\\n\\r\\n'); result = None")
        q = user.question(sb)
        user.world.write(user.file, f"deny {ONE}:7000\n", mode=0o600)	# an edit ends it
        assert sb.py("result = read_head(s)[0]") == 403
        o = user.answer(sb, q, "once")
        assert o["ok"] is False and "no open question" in o["error"], o
        assert sb.py(CONNECT, a=f"{ONE}:7000")[0] == 403


def test_a_sandbox_of_many_long_words_is_found(user):
    """What it says of itself has an end, however long and however strange its words are"""
    words = ["\u00fc" * 512] * 40 + ["\x01" * 1024] * 40
    with user.world.spawn("run", "--name", "long", "--", "/bin/sh", "-c", "echo up; read x", *words,
                          env=user.env, state=user.state, cwd=user.project) as p:
        assert p.readline() == b"up\n"
        entry = wait_until(lambda: [r["sandbox"] for r in p.audit if r["event"] == "start"], 10, "the record")[0]
        o = wait_until(lambda: user.world.path(f"{user.world.runtime}/weir/{entry}").exists() and
                       checked(control(user.world, entry, {"v": 1, "verb": "info"})[0]), 10, "the entry")
        assert o["ok"] and o["command"][:3] == ["/bin/sh", "-c", "echo up; read x"] and len(o["command"]) > 4, o
        r = user.weir("ps").ok()
        assert "long" in r.text, r


def test_the_example_client_answers_by_its_list(user):
    with user.sandbox() as sb:
        text = (ROOT / "docs/examples/answer.py").read_text(encoding="utf-8")
        p = subprocess.Popen(user.world.enter() + [PYTHON, "-c", text, ONE], stdout=subprocess.PIPE,
                             env=user.world.env(user.state, **user.env))
        try:
            wait_until(lambda: user.say(sb, verb="stats")["listening"] == 1, 10, "the subscription")
            assert sb.py(CONNECT, a=f"{ONE}:7000")[0] == 200
            assert sb.py(CONNECT, a=f"{TWO}:7000")[0] == 403
            assert p.stdout.readline().decode() == f"{sb.entry} {ONE}:7000 sandbox\n"
            assert p.stdout.readline().decode() == f"{sb.entry} {TWO}:7000 deny\n"
            sb.close()
            assert p.wait(60) == 0
        finally:
            p.kill()
            p.wait()


# ---- from inside ----

def test_the_command_inside_cannot_answer(user):
    with user.sandbox() as sb:
        begin(sb, ONE)
        q = user.question(sb)
        user.answer(sb, q, "deny")
        sb.answer()
        sb.py("""
            s = proxy(); s.sendall(f"CONNECT {a} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
        """, a=f"{ONE}:7000")
        q = user.question(sb)
        got = sb.py("""
            import subprocess
            def weir(*argv):
                p = subprocess.run(["/run/weir/weir", *argv], capture_output=True, text=True)
                return p.returncode, p.stdout + p.stderr
            def reach(p):
                c = socket.socket(socket.AF_UNIX)
                try: c.connect(p); return "connected"
                except OSError as e: return errno.errorcode[e.errno]
            def spoil(p):
                try: open(p, "a").write("allow *:*\\n"); return "written"
                except OSError as e: return errno.errorcode[e.errno]
            result = (weir("approve"), weir("approve", ref, "always"), [reach(p) for p in paths],
                      [spoil(p) for p in files], weir("allow", "*"))
        """, ref=f"{sb.entry}:{q['id']}", files=[user.file, f"{user.state}/weir/projects/x.policy"],
                    paths=[f"{user.world.runtime}/weir/{sb.entry}", f"/proc/1/root{user.world.runtime}/weir/{sb.entry}"])
        for status, text in got[0], got[1], got[4]:
            assert status == 125 and "works outside the sandbox only" in text, got
        assert set(got[2]) <= {"ENOENT", "EACCES"}, got
        assert set(got[3]) <= {"ENOENT", "EROFS", "EACCES"} or not user.world.path(user.file).exists(), got
        assert [i["id"] for i in user.questions(sb)] == [q["id"]]
        user.answer(sb, q, "deny")
        assert sb.py("result = s.recv(12)") == b"HTTP/1.1 403"
    assert not user.world.path(user.file).exists() and user.answers_file() is None
