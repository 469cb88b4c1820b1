# SPDX-License-Identifier: ISC
"""The audit log: a record for every decision and every end, or no connection (SPEC 7; H18)."""
import json
import os
import re
import stat

import pytest

from origins.tcp import unique
from world import IS_ROOT, ROOT, verdicts

HOST = "allowed.example.org"


@pytest.fixture(scope="module")
def net(world):
    world.web = world.http("93.184.216.34", 80, "allowed")
    return world


def curl(*urls):
    return ["--", "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}\n", *urls]


def test_a_record_for_every_verdict_and_every_end(net):
    r = net.run("--name", "my-run", *curl(f"http://{HOST}/", "http://denied.example.net/"),
                allow=[HOST])
    recs = r.ok().audit
    by = {}
    for x in recs:
        by.setdefault(x["event"], []).append(x)
        assert x["v"] == 1 and x["name"] == "my-run" and x["sandbox"] == recs[0]["sandbox"], x
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$", x["ts"]), x
    assert [x["seq"] for x in recs] == list(range(recs[0]["seq"], recs[0]["seq"] + len(recs)))
    v = verdicts(recs)
    assert [(x["host"], x["verdict"], x["reason"], x["port"]) for x in v] == \
        [(HOST, "allow", "rule", 80), ("denied.example.net", "deny", "no_rule", 80)], v
    assert v[0]["rule"]["file"] == "--allow" and HOST in v[0]["rule"]["text"], v
    assert v[0]["proto"] == "http"
    ends = [x for x in by["end"] if x.get("host")]
    assert len(ends) == 1 and ends[0]["id"] == v[0]["id"] and ends[0]["addr"] == "93.184.216.34"
    assert ends[0]["down"] > 0 and ends[0]["up"] > 0 and ends[0]["ms"] >= 0


def test_the_rule_of_a_file_has_its_line(net):
    path = net.write(f"{net.home}/a.policy", f"# first\nallow {HOST}:80\n")
    r = net.run("-p", path, *curl(f"http://{HOST}/"))
    rule = verdicts(r.ok().audit, HOST)[0]["rule"]
    assert rule == {"file": path, "line": 2, "text": f"allow {HOST}:80"}, rule


def test_the_refusal_names_the_rule_that_decided(net):
    path = net.write(f"{net.home}/a.policy", f"# first\ndeny {HOST}\n")
    with net.inside("-p", path, allow=[HOST]) as sb:
        st, h, body = sb.py(f"result = refused('{HOST}:80')")
    assert st == 403 and f"{path}:2".encode() in body, body


def test_nothing_of_head_path_query_or_body_is_recorded(net):
    r = net.run("--", "curl", "-s", "-o", "/dev/null", "-H", "X-Secret: TOPSECRETHEADER",
                "-u", "user:TOPSECRETPASSWORD", "-d", "TOPSECRETBODY",
                f"http://{HOST}/TOPSECRETPATH?q=TOPSECRETQUERY", allow=[HOST])
    assert r.status == 0
    assert b"TOPSECRET" not in net.read(str(r.audit_path).removeprefix(str(net.root)))
    r = net.run("--", "curl", "-s", "-o", "/dev/null", "http://denied.example.net/TOPSECRETPATH")
    assert b"TOPSECRET" not in r.audit_path.read_bytes()


def test_h18_hostile_names_are_escaped(net):
    """H18: no byte of a client's breaks a line or reaches a terminal"""
    names = [b"a\nb", b"a\rb", b'a"b', b"a\\b", b"\x1b]0;x\x07", b"\xff\xfe", b'","verdict":"allow',
             b"a\x00b", b"{}", "é".encode(), b"x" * 5000]
    with net.inside(allow=[HOST]) as sb:
        sb.py("""
            for n in names:
                talk(b"CONNECT " + n + b":443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
            result = None
        """, names=names)
        done = sb.close()
    data = done.audit_path.read_bytes()
    assert all(32 <= c < 127 or c == 10 for c in data), "raw bytes in the log"
    recs = [json.loads(x) for x in data.splitlines()]
    assert len([x for x in verdicts(recs) if x["verdict"] == "deny"]) == len(names), recs
    assert not [x for x in verdicts(recs) if x["verdict"] == "allow"]
    assert max(len(x) for x in data.splitlines()) < 8192
    assert all(32 <= c < 127 or c == 10 for c in done.err), "raw bytes on stderr"


def test_files_are_private(net):
    r = net.run("--", "true").ok()
    d = r.audit_path.parent
    for p, mode in ((r.audit_path, 0o600), (d / "audit.lock", 0o600), (d, 0o700)):
        st = os.stat(p)
        assert stat.S_IMODE(st.st_mode) == mode, (p, oct(st.st_mode))
        assert not IS_ROOT or st.st_uid == net.uid


def unwritable(net, kind):
    state = f"{net.home}/.local/st-{unique()}"
    net.mkdir(f"{state}/weir", 0o700)
    f = f"{state}/weir/audit.jsonl"
    if kind == "directory in its place":
        net.mkdir(f)
    elif kind == "symlink in its place":
        net.write(f"{net.home}/target", "")
        os.symlink(f"{net.home}/target", net.path(f))
        net.own(f)
    elif kind == "read-only directory":
        os.chmod(net.path(f"{state}/weir"), 0o500)
    elif kind == "fifo in its place":
        os.mkfifo(net.path(f))
        net.own(f)
    elif kind == "hard link":
        other = net.write(f"{state}/other", "", 0o600)
        os.link(net.path(other), net.path(f))
    elif kind == "writable by others":
        net.write(f, "", 0o666)
        os.chmod(net.path(f), 0o666)
    return state, f


KINDS = ["directory in its place", "symlink in its place", "read-only directory",
         "fifo in its place", "hard link", "writable by others"]


def test_every_event_of_the_sources_is_in_the_manual():
    page = (ROOT / "docs/weir-audit.5").read_text(encoding="utf-8")
    text = "".join(f.read_text(encoding="utf-8") for f in sorted((ROOT / "broker").glob("*/*.c")))
    seen = set(re.findall(r'(?:record_event\(m|out_event\(a),\s*"([a-z_]+)"|\.event = "([a-z_]+)"', text))
    seen = {a or b for a, b in seen}
    assert len(seen) > 25 and {"verdict", "audit_moved", "lost", "kill"} <= seen, seen
    assert not [e for e in seen if not re.search(rf"(?<![a-z_]){e}(?![a-z_])", page)], "not in weir-audit(5)"


@pytest.mark.parametrize("kind", ["symlink", "fifo", "hard link", "directory", "somebody else's mode"])
def test_e8_what_takes_the_logs_place_meanwhile_is_not_written_and_it_recovers(net, kind):
    """A hostile swap of the file while the sandbox runs: refused, nothing of the target changes"""
    state = f"{net.home}/.local/st-{unique()}"
    target = net.write(f"{net.home}/target-{unique()}", "mine\n", 0o600)
    f = net.path(f"{state}/weir/audit.jsonl")
    with net.inside("--audit", "required", allow=[HOST], state=state) as sb:
        ask = f"s, st, h, b = connect('{HOST}:80'); s.close(); result = st"
        assert sb.py(ask) == 200
        sb.wait_audit(lambda r: r["event"] == "end")	# or it makes a file anew for that one
        away = f.with_name("away")
        f.rename(away)
        if kind == "symlink":
            os.symlink(target, f)
        elif kind == "fifo":
            os.mkfifo(f, 0o600)
        elif kind == "hard link":
            os.link(net.path(target), f)
        elif kind == "directory":
            f.mkdir()
        else:
            f.write_bytes(b"")
            f.chmod(0o666)
        if kind not in ("symlink", "directory"):
            net.own(f"{state}/weir/audit.jsonl")
        assert sb.py(ask) == 503
        assert net.read(target) == b"mine\n"
        if kind == "directory":
            f.rmdir()
        else:
            f.unlink()
        away.rename(f)
        assert sb.py(ask) == 200
    assert net.weir("audit", "verify", f"{state}/weir/audit.jsonl").ok().text.endswith("the chain holds\n")


@pytest.mark.parametrize("kind", KINDS)
def test_e8_audit_required_but_not_writable_is_503_and_nothing_dialled(net, kind):
    state, _ = unwritable(net, kind)
    at, n = net.dns.mark(), net.web.count
    with net.capture() as cap:
        r = net.run("--audit", "required", "--", "curl", "-s", "-i", f"http://{HOST}/",
                    allow=[HOST], state=state)
        if r.status == 125:	# refusing to start at all is as closed
            assert "audit" in r.errtext, r
        else:
            assert "503" in r.text and "Retry-After" in r.text and "audit_unavailable" in r.text, r
        assert not [t for t in cap.seen() if t[0] == "tcp"], cap.tries
    assert net.dns.names(at) == [] and net.web.count == n


@pytest.mark.parametrize("kind", KINDS[:3])
def test_e8_without_required_the_loss_is_counted_and_told(net, kind):
    state, _ = unwritable(net, kind)
    r = net.run(*curl(f"http://{HOST}/"), allow=[HOST], state=state)
    assert r.status == 0 and r.text == "200\n", r
    assert "audit" in r.errtext, r
    if kind == "symlink in its place":
        assert net.read(f"{net.home}/target") == b"", "a symlink was followed"


def test_e8_disk_full_with_required_is_503(net):
    """A file system without room: the record cannot be written, so nothing is dialled"""
    state = f"{net.home}/.local/full"
    net.mkdir(f"{state}/weir", 0o700)
    if not IS_ROOT:
        pytest.skip("mounting a small file system needs root")
    import subprocess
    subprocess.run(["nsenter", f"--target={net.pid}", "--mount", "mount", "-t", "tmpfs", "-o",
                    f"size=16k,uid={net.uid},gid={net.gid},mode=700", "tmpfs", f"{state}/weir"],
                   check=True)
    net.write(f"{state}/weir/filler", b"x" * 4096)
    with net.inside("--audit", "required", allow=[HOST], state=state) as sb:
        got = sb.py(f"""
            out = []
            for i in range(200):
                s, st, h, b = connect("{HOST}:80"); s.close()
                out.append((st, h.get("retry-after")))
            result = out
        """)
    assert got[0][0] == 200 and got[-1][0] == 503 and got[-1][1], got[-1]
    for line in net.read(f"{state}/weir/audit.jsonl").splitlines():
        json.loads(line)	# what is there is whole


def test_audit_off_writes_nothing(net):
    r = net.run("--audit", "off", *curl(f"http://{HOST}/"), allow=[HOST])
    assert r.text == "200\n" and not r.audit_path.exists(), r


def test_audit_to_a_file_of_ones_own(net):
    f = f"{net.home}/elsewhere/my.jsonl"
    net.mkdir(os.path.dirname(f), 0o700)
    r = net.run("--audit", f, *curl(f"http://{HOST}/"), allow=[HOST])
    assert r.text == "200\n", r
    assert any(json.loads(x).get("host") == HOST for x in net.read(f).splitlines())
    assert not r.audit_path.exists()


def test_the_audit_file_is_not_visible_inside(net):
    r = net.run("--", "sh", "-c", "find / -name 'audit.*' -not -path '/proc/*' -not -path '/usr/*' "
                "-not -path '/sys/*' 2>/dev/null | grep -i -e jsonl -e audit.lock")
    assert r.text == "", r
    r = net.run("-w", f"{net.home}/.local", "--", "true")
    assert r.status == 125, r


@pytest.mark.parametrize("grant", [False, True])
def test_an_audit_file_that_the_command_may_write_is_refused(net, grant):
    """A record that the command can rewrite records nothing"""
    top = f"{net.home}/shared-{grant}"
    net.mkdir(top, 0o700)
    opts = ["-w", top] if grant else ["-C", top]
    r = net.run("--audit", f"{top}/a.jsonl", *opts, "--", "true")
    assert r.status == 125 and "lies where the command may write" in r.errtext, r
    assert f"outside '{top}'" in r.errtext and not os.path.exists(f"{top}/a.jsonl")
    r = net.run("--audit", f"{net.home}/shared.jsonl", *opts, "--", "true")
    assert r.status == 0, r
