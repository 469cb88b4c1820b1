# SPDX-License-Identifier: ISC
"""weir audit: read, follow, verify; and the log as many sandboxes leave it (SPEC 7; E8)."""
import fcntl
import hashlib
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import socket
import struct
import termios
import time

import pytest

from origins.tcp import unique
from world import IS_ROOT, verdicts, wait_until

HOST = "allowed.example.org"
SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "docs/schema/audit.json"


@pytest.fixture(scope="module")
def net(world):
    world.web = world.http("93.184.216.34", 80, "allowed")
    return world


def state_dir(net):
    state = f"{net.home}/.local/log-{unique()}"
    net.mkdir(f"{state}/weir", 0o700)
    return state


def log_of(net, state):
    return net.path(f"{state}/weir/audit.jsonl")


def audit(net, state, *args):
    return net.weir("audit", *args, state=state)


@pytest.fixture(scope="module")
def log(net):
    """Two runs: six verdicts, half of them denied"""
    state = state_dir(net)
    for name in ("one", "two"):
        urls = [f"http://{HOST}/", "http://denied.example.net/", f"http://{HOST}/b"]
        net.run("--name", name, "--", "curl", "-s", "-o", "/dev/null", *urls, allow=[HOST],
                state=state).ok()
    return state


def copy(net, log):
    state = state_dir(net)
    to = log_of(net, state)
    shutil.copy(log_of(net, log), to)
    net.own(f"{state}/weir/audit.jsonl")
    return state, pathlib.Path(to)


def test_a_record_is_what_the_schema_says(net, log):
    schema = json.loads(SCHEMA.read_text())
    allowed = {"allow", "deny"}
    prev = "0" * 64
    for line in pathlib.Path(log_of(net, log)).read_bytes().splitlines():
        o = json.loads(line)
        for k in schema["required"]:
            assert k in o, (k, o)
        for k, rule in schema["properties"].items():
            if k in o and "pattern" in rule:
                assert re.match(rule["pattern"], o[k]), (k, o)
            if k in o and "enum" in rule:
                assert o[k] in rule["enum"], (k, o)
        assert o.get("verdict", "allow") in allowed
        assert o["prev"] == prev
        # the canonical bytes, as weir-audit(5) has them
        body = line[:line.rindex(b',"hash":"')]
        assert hashlib.blake2b(body, digest_size=32).hexdigest() == o["hash"]
        prev = o["hash"]


def test_rows_filters_and_summary(net, log):
    r = audit(net, log).ok()
    rows = r.text.splitlines()
    assert len(rows) == len(pathlib.Path(log_of(net, log)).read_bytes().splitlines())
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  [0-9a-f]{12}  ", x) for x in rows), rows
    denied = audit(net, log, "--denied").ok().text.splitlines()
    assert len(denied) == 2 and all("denied.example.net:80" in x and "no_rule" in x for x in denied)
    assert len(audit(net, log, "--host", ".example.net").text.splitlines()) == 2
    assert audit(net, log, "--host", "*.allowed.example.org").text == ""
    one = [json.loads(x) for x in audit(net, log, "--sandbox", "one", "--json").text.splitlines()]
    assert {x["name"] for x in one} == {"one"} and len(one) == len(rows) // 2
    by_id = audit(net, log, "--sandbox", one[0]["sandbox"][:6], "--json").text.splitlines()
    assert [json.loads(x) for x in by_id] == one
    assert len(audit(net, log, "--since", "1h").text.splitlines()) == len(rows)
    assert audit(net, log, "--until", "1h").text == ""
    assert audit(net, log, "--since", "2999-01-01").text == ""
    s = json.loads(audit(net, log, "--summary", "--json").ok().text)
    top = {x["target"]: x for x in s}
    assert top[f"{HOST}:80"]["allowed"] >= 2 and top[f"{HOST}:80"]["down"] > 0
    assert top["denied.example.net:80"]["denied"] == 2
    text = audit(net, log, "--summary").ok().text
    assert text.startswith("TARGET") and HOST in text, text


@pytest.mark.parametrize("args", [[], ["--json"], ["--summary"]])
def test_what_cannot_be_written_is_said_as_that(net, log, args):
    """more than a buffer of it, so that it is noticed in the middle"""
    many = net.path(f"{net.project()}/many.jsonl")
    many.write_bytes(pathlib.Path(log_of(net, log)).read_bytes() * 200)
    assert many.stat().st_size > 1 << 16
    with open("/dev/full", "wb") as full:
        r = net.spawn("audit", "--file", "/" + str(many.relative_to(net.path("/"))), *args,
                      stdout=full).finish()
    assert r.status == 125 and "No space left on device" in r.errtext, r


@pytest.mark.parametrize("args, word", [
    (["--since", "soon"], "'soon'"), (["nonsense"], "neither verify nor head"),
    (["verify", "--head", "abc"], "'abc'"), (["head", "--denied"], "verify and head"),
    (["--summary", "--follow"], "--summary"), (["--nonsense"], "'--nonsense'"),
    (["--file", "/nonexistent/x"], "/nonexistent/x")])
def test_a_wrong_call_says_what_is_wrong(net, log, args, word):
    r = audit(net, log, *args)
    assert r.status == 125 and word in r.errtext and r.out == b"", r


def test_rows_fit_the_terminal(net, log):
    fd, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    p = net.spawn("audit", state=log, stdout=inner, stdin=inner)
    os.close(inner)
    out = b""
    while True:
        try:
            got = os.read(fd, 65536)
        except OSError:
            break
        if not got:
            break
        out += got
    os.close(fd)
    assert p.p.wait() == 0, out
    rows = out.split(b"\r\n")[:-1]
    assert len(rows) > 4 and max(map(len, rows)) == 60, rows


def test_broken_and_foreign_lines_never_crash_it(net, log):
    state, f = copy(net, log)
    whole = f.read_bytes()
    bad = (b"\x1b]0;pwned\x07\n", b"\xff\xfe\n", b"{}\n", b"[1]\n", b"x" * 200000 + b"\n",
           b'{"v":1,"event":"verdict","host":"a\\u001b[31m\\u202e"}\n', b"\n", b'{"v":1,"ev')
    f.write_bytes(b"".join(bad[:-1]) + whole + bad[-1])
    r = audit(net, state).ok()
    assert all(c == 10 or 32 <= c < 127 for c in r.out), r.out
    assert "\\x1b[31m" in r.text and "no record" in r.errtext, r
    for args in (["--json"], ["--summary"], ["--denied"], ["head"]):
        assert audit(net, state, *args).status == 0
    r = audit(net, state, "verify")
    assert r.status == 1 and "no record" in r.text, r


def lines_of(f):
    return f.read_bytes().splitlines(keepends=True)


def case_changed(x):
    x[3] = x[3].replace(b'"event"', b'"EVENT"')


def case_removed(x):
    del x[3]


def case_inserted(x):
    body = b'{"v":1,"event":"verdict","prev":"' + json.loads(x[3])["hash"].encode() + b'"'
    x.insert(4, body + b',"hash":"' + hashlib.blake2b(body, digest_size=32).hexdigest().encode() +
             b'"}\n')


def case_swapped(x):
    x[3], x[4] = x[4], x[3]


def case_copied(x):
    x.insert(6, x[2])


def case_rewritten(x):
    body = x[3][:x[3].rindex(b',"hash":"')].replace(b'"event"', b'"EVENT"')
    x[3] = body + b',"hash":"' + hashlib.blake2b(body, digest_size=32).hexdigest().encode() + b'"}\n'


def case_begun_later(x):
    del x[:2]


def case_foreign(x):
    x.insert(4, b"nothing to see\n")


def case_block_copied(x):
    x[6:6] = x[1:4]


def case_block_moved(x):
    x[2:8] = x[5:8] + x[2:5]


@pytest.mark.parametrize("case, where, what", [
    (case_changed, 4, "the record was changed"),
    (case_removed, 4, "records before this one were removed"),
    (case_inserted, 5, "the record was inserted"),
    (case_swapped, 4, "the record was moved"),
    (case_copied, 7, "inserted, or moved here"),
    (case_rewritten, 5, "the one before was rewritten"),
    (case_begun_later, 1, "records before this one were removed"),
    (case_foreign, 6, "is no record, and none tells of it"),
    (case_block_copied, 7, "the records from here to line 9 of "),
    (case_block_moved, 3, "the record was moved: it follows line 8 of ")])
def test_verify_says_which_record_and_how(net, log, case, where, what):
    state, f = copy(net, log)
    assert audit(net, state, "verify").ok().text.endswith("the chain holds\n")
    x = lines_of(f)
    case(x)
    f.write_bytes(b"".join(x))
    r = audit(net, state, "verify")
    said = [s for s in r.text.splitlines() if s.startswith("/")]
    assert r.status == 1 and f"audit.jsonl:{where}: " in said[0] and what in said[0], r
    # the same by naming the file
    assert audit(net, state, "verify", f"{state}/weir/audit.jsonl").status == 1


def chained(n, bad=None):
    """n records as a log has them; bad: the number of one that is changed later"""
    prev = b"0" * 64
    for i in range(n):
        body = b'{"v":1,"ts":"2026-11-30T00:00:00.000000Z","sandbox":"0123456789ab","event":"e%d",' \
               b'"seq":%d,"prev":"%s"' % (i % 7, i + 1, prev)
        prev = hashlib.blake2b(body, digest_size=32).hexdigest().encode()
        line = body + b',"hash":"' + prev + b'"}\n'
        yield line.replace(b'"event":"e', b'"event":"f', 1) if i == bad else line


@pytest.mark.parametrize("n", [200000, pytest.param(1000000, marks=pytest.mark.nightly)])
def test_a_long_log_needs_no_more_memory_than_a_short_one(net, n):
    """Verified, read and left as it is; the limit is of what a process may write to"""
    state = state_dir(net)
    f = log_of(net, state)
    with f.open("wb") as out:
        out.writelines(chained(n, n - 2))
        out.write(b"x" * 65536 + next(chained(1)))	# one line, whatever its end looks like
    net.own(f"{state}/weir/audit.jsonl")
    limit = () if os.environ.get("WEIR_SAN") else ("prlimit", f"--data={4 << 20}")

    def limited(*args):
        return net.weir("audit", *args, state=state, prefix=limit)

    r = limited("verify")
    assert r.status == 1 and r.text.splitlines()[0].endswith(f".jsonl:{n - 1}: the record was changed"), r
    assert f"{n} records in 1 file: the chain does not hold" in r.text, r
    r = limited("--json")
    assert r.status == 0 and r.out == b"".join(lines_of(f)[:-1]), r.errtext
    assert "1 line is no record" in r.errtext, r.errtext
    r = limited("--json", "--host", "nobody.example.org")
    assert r.status == 0 and r.out == b"", r.errtext
    assert limited("head").text.split()[3] == str(n)


def test_a_cut_tail_shows_against_a_head_kept_elsewhere(net, log):
    state, f = copy(net, log)
    head = audit(net, state, "head").ok().text.split()[0]
    assert re.fullmatch("[0-9a-f]{64}", head)
    assert "0 records since" in audit(net, state, "verify", "--head", head).ok().text
    x = lines_of(f)
    f.write_bytes(b"".join(x[:-2]))
    assert audit(net, state, "verify").status == 0	# the chain alone cannot tell
    r = audit(net, state, "verify", "--head", head)
    assert r.status == 1 and f"audit.jsonl:{len(x) - 2}: the tail was cut off" in r.text, r


def test_e8_ten_sandboxes_write_one_file_and_the_chain_holds(net):
    state = state_dir(net)
    boxes = [net.inside("--name", f"s{i}", allow=[HOST], state=state) for i in range(10)]
    n = 60
    try:
        open_ = [b.__enter__() for b in boxes]
        for sb in open_:
            got = sb.py(f"""
                for i in range({n}):
                    refused("d%d.example.net:443" % i)
                result = True
            """)
            assert got
        for sb in open_:
            assert sb.close().status == 0
    finally:
        for b in boxes:
            b.__exit__(None, None, None)
    recs = [json.loads(x) for x in lines_of(pathlib.Path(log_of(net, state)))]
    assert len(verdicts(recs)) == 10 * n
    for i in range(10):
        seq = [x["seq"] for x in recs if x["name"] == f"s{i}"]
        assert seq == list(range(1, len(seq) + 1)) and len(seq) >= n
    assert audit(net, state, "verify").ok().text.endswith("the chain holds\n")


def test_e8_a_stopped_lock_holder_queues_and_delays_nobody_long(net):
    state = state_dir(net)
    with net.inside(allow=[HOST], state=state) as sb:
        sb.py("result = refused('before.example.net:443')")
        sb.wait_audit(lambda r: r.get("host") == "before.example.net")
        f = pathlib.Path(log_of(net, state))
        fd = os.open(f.parent / "audit.lock", os.O_RDWR)
        fcntl.lockf(fd, fcntl.LOCK_EX)
        before = f.read_bytes()
        took = sb.py("""
            import time
            t = time.monotonic()
            for i in range(5):
                refused("d%d.example.net:443" % i)
            result = time.monotonic() - t
        """)
        assert took < 5, took
        assert f.read_bytes() == before
        os.close(fd)
        wait_until(lambda: f.read_bytes().count(b".example.net") == 6, 5, "what waited is written")
    assert audit(net, state, "verify").status == 0


def test_e8_required_refuses_while_the_lock_is_held_and_recovers(net):
    state = state_dir(net)
    with net.inside("--audit", "required", allow=[HOST], state=state) as sb:
        ask = f"s, st, h, b = connect('{HOST}:80'); s.close(); result = st"
        assert sb.py(ask) == 200
        sb.wait_audit(lambda r: r["event"] == "end")
        fd = os.open(pathlib.Path(log_of(net, state)).parent / "audit.lock", os.O_RDWR)
        fcntl.lockf(fd, fcntl.LOCK_EX)
        assert sb.py(ask) == 503
        os.close(fd)
        assert sb.py(ask) == 200
    assert audit(net, state, "verify").status == 0


def test_e8_required_and_the_file_removed_or_its_directory_closed(net):
    state = state_dir(net)
    with net.inside("--audit", "required", allow=[HOST], state=state) as sb:
        ask = f"s, st, h, b = connect('{HOST}:80'); s.close(); result = st"
        assert sb.py(ask) == 200
        sb.wait_audit(lambda r: r["event"] == "end")	# the last that is written unasked
        f = pathlib.Path(log_of(net, state))
        f.unlink()
        if not IS_ROOT or net.uid != 0:
            f.parent.chmod(0o500)
            assert sb.py(ask) == 503	# no record can be made
            f.parent.chmod(0o700)
        assert sb.py(ask) == 200
        assert any(json.loads(x)["event"] == "missing" for x in lines_of(f))
    r = audit(net, state, "verify")
    assert r.status == 1 and "removed or shortened" in r.text, r


def test_a_killed_writer_leaves_a_log_that_goes_on(net):
    state = state_dir(net)
    net.run("--", "true", state=state).ok()
    f = pathlib.Path(log_of(net, state))
    with f.open("ab") as out:
        out.write(lines_of(f)[0][:100])
    net.run("--", "true", state=state).ok()
    assert [json.loads(x)["event"] for x in lines_of(f)[3:]] == ["torn", "start", "exit"]
    r = audit(net, state, "verify").ok()
    assert "1 torn line" in r.text, r


def test_kill_9_of_busy_writers_leaves_whole_lines(net):
    state = state_dir(net)
    for n in range(3):
        with net.inside(allow=[HOST], state=state) as sb:
            sb.py(f"""
                import threading
                def flood():
                    while True:
                        try:
                            refused("x{n}.example.net:443")
                        except OSError:
                            return
                threading.Thread(target=flood, daemon=True).start()
                result = None
            """)
            sb.wait_audit(lambda r: r.get("host") == f"x{n}.example.net")
            os.kill(sb.pid, signal.SIGKILL)
    net.run("--", "true", state=state).ok()
    assert audit(net, state, "verify").ok().text.endswith("the chain holds\n")


def test_writers_that_race_to_rotate_and_are_killed_lose_nothing_of_the_others(net):
    """Eight sandboxes at the end of a full file, half of them killed there: one chain, each record once"""
    state = state_dir(net)
    f = log_of(net, state)
    with f.open("wb") as out:
        size = 0
        for line in chained(80000):
            if size + len(line) > (16 << 20) - 4096:
                break
            size += len(line)
            out.write(line)
    os.chmod(f, 0o600)
    net.own(f"{state}/weir/audit.jsonl")
    boxes = [net.inside("--name", f"s{i}", "-q", allow=[HOST], state=state) for i in range(8)]
    try:
        for b in boxes:
            b.__enter__()
        for b in boxes:
            b.py("result = 'it runs'")
        for i, b in enumerate(boxes):
            b.start("""
                n = 0
                try:
                    while n < 60:
                        refused("h%d.example.net:443" % n); n += 1
                except OSError:
                    pass
                result = n
            """)
        wait_until(lambda: f.with_name("audit.jsonl.1").exists(), 20, "the rotation")
        for b in boxes[::2]:
            os.kill(b.pid, signal.SIGKILL)
        assert [b.answer() for b in boxes[1::2]] == [60] * 4
        assert [b.close().status for b in boxes[1::2]] == [0] * 4
    finally:
        for b in boxes:
            b.__exit__(None, None, None)
    assert not f.with_name("audit.jsonl.2").exists(), "rotated twice"
    recs = [json.loads(x) for x in lines_of(f) if x.startswith(b"{")]
    old = [json.loads(x) for x in lines_of(f.with_name("audit.jsonl.1")) if b'"s' in x]
    for i in range(1, 8, 2):
        got = [x["seq"] for x in old + recs if x.get("name") == f"s{i}"]
        assert got == list(range(1, len(got) + 1)) and len(got) >= 62, (i, got)
    assert [x["event"] for x in recs].count("rotate") == 1 and recs[0]["event"] == "rotate", recs[0]
    assert audit(net, state, "verify").ok().text.endswith("the chain holds\n")


def test_rotation_by_a_locked_monitor_and_follow_across_it(net):
    state = state_dir(net)
    with net.inside("--name", "box", allow=[HOST], state=state) as sb:
        sb.py("result = refused('first.example.net:443')")
        sb.wait_audit(lambda r: r.get("host") == "first.example.net")
        f = pathlib.Path(log_of(net, state))
        whole = lines_of(f)
        with f.open("r+b") as out:	# a full file: a hole, then the last record again
            out.seek((16 << 20) - len(whole[-1]) - 1)
            out.write(b"\n" + whole[-1])
        with net.spawn("audit", "--follow", "--json", "--since", "1h", "--denied",
                       state=state) as reader:
            assert b"first.example.net" in reader.readline()
            os.set_blocking(reader.p.stdout.fileno(), False)
            sb.py("result = refused('second.example.net:443')")
            sb.py("result = refused('third.example.net:443')")
            # the record follows the answer
            wait_until(lambda: b"third.example.net" in f.read_bytes() and f.read_bytes()[-1:] == b"\n", 5)
            new = [json.loads(x) for x in lines_of(f)]
            assert new[0]["event"] == "rotate" and new[0]["file"] == "audit.jsonl.1", new
            assert new[0]["prev"] == json.loads(whole[-1])["hash"]
            assert [x["host"] for x in verdicts(new)] == ["second.example.net", "third.example.net"]
            assert (f.parent / "audit.jsonl.1").stat().st_size >= 16 << 20
            seen, end = b"", time.monotonic() + 60
            while b"third.example.net" not in seen:
                assert time.monotonic() < end, seen
                select.select([reader.p.stdout], [], [], 1)
                seen += reader.p.stdout.read() or b""
            assert seen.count(b"second.example.net") == 1 and seen.count(b"third.example.net") == 1
    text = audit(net, state, "--denied").ok().text
    assert "first.example.net" in text and "third.example.net" in text


@pytest.mark.skipif(not IS_ROOT, reason="/dev/log of the test's own world needs root")
def test_syslog_gets_structured_data_and_recovers(net):
    at = net.path("/dev/log")
    def listen():
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        s.bind(str(at))
        os.chmod(at, 0o666)
        s.settimeout(60)
        return s
    r = net.run("--audit", "syslog", "--audit", "required", "--", "true")
    assert r.status == 125 and "/dev/log" in r.errtext and "fix:" in r.errtext, r
    log = listen()
    try:
        with net.inside("--audit", "syslog", "--audit", "required", allow=[HOST]) as sb:
            ask = f"s, st, h, b = connect('{HOST}:80'); s.close(); result = st"
            assert sb.py(ask) == 200
            got = [log.recv(65536).decode("ascii") for _ in range(2)]
            m = re.fullmatch(r"<86>1 (\S+Z) (\S+) weir ([0-9a-f]{12}) verdict "
                             r"\[weir@32473( [a-z]+=\"[^\"]*\")+\] (\{.*\})", got[1])
            assert m and json.loads(m[5])["host"] == HOST and f' host="{HOST}"' in got[1], got
            sb.py("""
                talk(b'CONNECT a"]b\\\\c:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
                result = None
            """)
            while "deny" not in got[-1]:
                got.append(log.recv(65536).decode("ascii"))
            assert got[-1].startswith("<85>1 ") and '"a\\"\\]b' in got[-1], got[-1]
            log.close()
            at.unlink()
            assert sb.py(ask) == 503	# nobody listens: no record, no connection
            log = listen()
            assert sb.py(ask) == 200
        assert not log_of(net, sb.state).exists()
    finally:
        log.close()
        at.unlink(missing_ok=True)


def edited(net, sb, policy, text, at):
    """The policy is edited, and a record of that is on the file at"""
    seen = at.read_bytes().count(b'"policy_reloaded"') if at.exists() else 0
    net.write(policy, text)
    wait_until(lambda: at.exists() and at.read_bytes().count(b'"policy_reloaded"') > seen, 10, "the edit")


def hosts_of(f):
    return [x["host"] for x in verdicts([json.loads(x) for x in lines_of(f)])]


def test_records_go_where_an_edit_of_the_policy_says(net):
    """Behind the lock; each log has a chain of its own; a place that cannot be is said, and nothing is lost"""
    state = state_dir(net)
    policy = net.write(f"{net.home}/moving-{unique()}.policy", "")
    first, there = pathlib.Path(log_of(net, state)), f"{net.home}/logs-{unique()}/new/second.jsonl"
    second = pathlib.Path(net.path(there))
    with net.inside("-p", policy, allow=[HOST], state=state) as sb:
        sb.py("result = refused('one.example.net:443')")
        edited(net, sb, policy, f"audit {there}\n", second)
        sb.py("result = refused('two.example.net:443')")
        assert (second.stat().st_mode & 0o777, second.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        # where the command may write, and where nobody may
        for bad in (f"{sb.cwd}/third.jsonl", f"{sb.cwd}/made/by/third.jsonl", "/proc/none/third.jsonl", net.home):
            edited(net, sb, policy, f"audit {bad}\n", second)
        assert os.listdir(net.path(sb.cwd)) == []
        sb.py("result = refused('three.example.net:443')")
        edited(net, sb, policy, "audit off\n", second)
        sb.py("result = refused('off.example.net:443')")
        edited(net, sb, policy, "", first)
        sb.py("result = refused('four.example.net:443')")
        done = sb.close()
    assert "lies where the command may write" in done.errtext and done.errtext.count("went before") == 4, done
    assert hosts_of(first) == ["one.example.net", "four.example.net"]
    assert hosts_of(second) == ["two.example.net", "three.example.net"]
    recs = [json.loads(x) for f in (first, second) for x in lines_of(f)]
    assert sorted(x["seq"] for x in recs) == list(range(1, len(recs) + 1)), "one is lost"
    moved = [x["to"] for x in recs if x["event"] == "audit_moved"]
    assert moved == [there] and len([x for x in recs if x["event"] == "audit_stays"]) == 4, moved
    for f in (first, second):
        assert net.weir("audit", "verify", "/" + str(f.relative_to(net.path("/")))).status == 0


@pytest.mark.skipif(not IS_ROOT, reason="/dev/log of the test's own world needs root")
def test_an_edit_moves_the_log_to_syslog_and_back(net):
    state, at = state_dir(net), net.path("/dev/log")
    policy = net.write(f"{net.home}/moving-{unique()}.policy", "")
    first = pathlib.Path(log_of(net, state))
    log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    log.bind(str(at))
    os.chmod(at, 0o666)
    log.settimeout(10)
    try:
        with net.inside("-p", policy, allow=[HOST], state=state) as sb:
            sb.py("result = 'it runs'")
            net.write(policy, "audit syslog\naudit required\n")
            assert "policy_reloaded" in log.recv(65536).decode("ascii")
            sb.py(f"s, st, h, b = connect('{HOST}:80'); s.close(); result = st")
            assert f' host="{HOST}"' in log.recv(65536).decode("ascii")
            log.close()
            at.unlink()
            assert sb.py(f"s, st, h, b = connect('{HOST}:80'); s.close(); result = st") == 503
            edited(net, sb, policy, "", first)
            sb.py("result = refused('back.example.net:443')")
            sb.close()
        assert hosts_of(first) == ["back.example.net"]
        assert [x["to"] for x in map(json.loads, lines_of(first)) if x["event"] == "audit_moved"] == ["syslog"]
    finally:
        log.close()
        at.unlink(missing_ok=True)


@pytest.mark.skipif(not IS_ROOT, reason="/run of the test's own world needs root")
def test_the_journal_gets_fields(net):
    d = net.path("/run/systemd/journal")
    r = net.run("--audit", "journal", "--audit", "required", "--", "true")
    assert r.status == 125 and "journal" in r.errtext and "fix:" in r.errtext, r
    net.mkdir("/run/systemd/journal", root=True)
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(str(d / "socket"))
    os.chmod(d / "socket", 0o666)
    s.settimeout(60)
    try:
        net.run("--audit", "journal", "--", "true").ok()
        fields = dict(x.split("=", 1) for x in s.recv(65536).decode("ascii").splitlines())
        assert fields["SYSLOG_IDENTIFIER"] == "weir" and fields["WEIR_EVENT"] == "start", fields
        assert json.loads(fields["MESSAGE"])["sandbox"] == fields["WEIR_SANDBOX"]
    finally:
        s.close()
        (d / "socket").unlink()


def test_follow_goes_on_when_the_log_is_emptied_replaced_or_spoilt(net):
    """And what is no record is not shown"""
    state = state_dir(net)
    f, at = f"{state}/weir/audit.jsonl", log_of(net, state)
    net.write(f, "", 0o600)
    n = 0

    def put(data, mode="ab"):
        with open(at, mode) as out:
            out.write(data)

    def record():
        nonlocal n
        n += 1
        put(b'{"v":1,"ts":"2999-01-01T00:00:00.000000Z","event":"n%d"}\n' % n)
        assert select.select([p.p.stdout], [], [], 60)[0], f"record {n} is not shown"
        assert json.loads(p.readline())["event"] == f"n{n}"

    with net.spawn("audit", "--follow", "--json", "--since", "1w", state=state) as p:
        record()
        record()
        put(b"", "wb")
        record()
        os.unlink(at)
        net.write(f, "", 0o600)
        record()
        put(b"\0\x1b[2J\n{\n[]\n")
        record()
        p.kill()


@pytest.mark.nightly
def test_e8_twenty_sandboxes_of_ten_thousand_records_each_lose_none(net):
    """The log is rotated several times meanwhile"""
    state, n = state_dir(net), 10000
    boxes = [net.inside("--name", f"s{i}", "-q", allow=[HOST], state=state) for i in range(20)]
    begun = time.monotonic()
    try:
        open_ = [b.__enter__() for b in boxes]
        for sb in open_:
            sb.start(f"""
                for i in range({n}):
                    s = proxy()
                    s.sendall(b"CONNECT d.example.net:443 HTTP/1.1\\r\\n\\r\\n")
                    read_head(s); s.close()
                result = True
            """)
        assert all(sb.answer() for sb in open_)
    finally:
        for b in boxes:
            b.__exit__(None, None, None)
    took = time.monotonic() - begun
    top = pathlib.Path(log_of(net, state))
    seqs = {}
    for f in sorted(top.parent.glob("audit.jsonl*"), key=lambda f: -int(f.suffix[1:] or 0)
                    if f.suffix[1:].isdigit() else 0):
        for x in map(json.loads, lines_of(f)):
            seqs.setdefault(x["name"], []).append((x["seq"], x["event"]))
    assert len(seqs) == 20
    for name, got in seqs.items():
        assert [s for s, _ in got] == list(range(1, len(got) + 1)), name
        assert len([1 for _, e in got if e == "verdict"]) == n, name
    assert audit(net, state, "verify").ok().text.endswith("the chain holds\n")
    print(f"{20 * n} records in {took:.1f} s: {20 * n / took:.0f}/s")
