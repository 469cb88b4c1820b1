# SPDX-License-Identifier: ISC
"""A policy that is edited while the sandbox runs, and the runtime entry by which other commands find
it (SPEC 3 "Live", 11; E3, E4)."""
import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import time

import pytest

from origins.tcp import echo, source, unique
from world import IS_ROOT, PYTHON, ROOT, SLOW, alive, followed, open_files, run_delay, verdicts, wait_until, watching

ONE, TWO = "allowed.example.org", "other.example.org"
WITHIN = 1.0	# SPEC section 3: an edit reaches running sandboxes


@pytest.fixture(scope="module")
def net(world):
    world.echo = world.listen("93.184.216.34", 7000, echo)
    world.second = world.listen("93.184.216.35", 7000, echo)
    world.flood = world.listen("93.184.216.34", 7001, source(1 << 40))
    world.web = world.http("93.184.216.34", 80, "allowed")
    return world


class Policy:
    """A user's policy file in a directory of its own"""

    def __init__(self, world):
        self.world = world
        self.home = f"{world.home}/cfg-{unique()}"
        self.dir = f"{self.home}/weir"
        self.file = f"{self.dir}/policy"

    def write(self, text):
        self.world.edit(self.file, text, mode=0o600)

    def sh(self, script):
        """By another process of the user, outside every sandbox"""
        p = self.world.sh(script, cwd=self.dir)
        assert p.returncode == 0, p
        return p

    @contextlib.contextmanager
    def sandbox(self, *args, **kw):
        with self.world.inside(*args, env={"XDG_CONFIG_HOME": self.home}, **kw) as sb:
            sb.py("result = 1")
            sb.entry = entry_of(self.world, sb)
            yield sb


@pytest.fixture
def policy(net):
    return Policy(net)


def rules(*hosts):
    return "include none\n" + "".join(f"allow {h}:*\n" for h in hosts)


def entry_dir(world):
    return world.path(world.runtime) / "weir"


def entry_of(world, sb):
    """The id of a sandbox, from its audit log"""
    return sb.wait_audit(lambda r: r["event"] == "start")[0]["sandbox"]


ASK = """
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
s.connect(sys.argv[1])
f = s.makefile("rb")
for line in sys.argv[2:]:
    s.sendall(line.encode() + b"\\n")
    print(f.readline().decode().strip())
"""


def control(world, name, *requests):
    """The same by a process of the world's user, as weir's own commands do it"""
    p = subprocess.run(world.enter() + [PYTHON, "-c", ASK, f"{world.runtime}/weir/{name}",
                                        *[r if isinstance(r, str) else json.dumps(r)
                                          for r in requests]],
                       capture_output=True, text=True, check=False, timeout=30 * SLOW,
                       env=world.env("/nonexistent"))
    assert p.returncode == 0, p.stderr
    return [json.loads(line) if line else None for line in p.stdout.split("\n")[:-1]]


def status(sb, host):
    return sb.py("s, st, h, rest = connect(a); s.close(); result = st", a=f"{host}:7000")


def follows(sb, host, want):
    """The edit that was just made comes to answer `want` for the host, and within a second"""
    since, delay = time.time(), run_delay(sb.pid)
    wait_until(lambda: status(sb, host) == want, 5, f"{host}: {want}")
    followed(sb, since, WITHIN, delay)


def reloads(sb):
    return [r for r in sb.audit if r["event"] == "policy_reloaded"]


# ---- E3 ----

def test_e3_an_edit_by_another_process_reaches_a_running_sandbox(net, policy):
    """A new host works, a removed one's tunnel closes with a reset; CMD is not touched"""
    policy.write(rules(ONE))
    with policy.sandbox() as sb:
        cmd = sb.procs().cmd
        before = sb.py("result = os.getpid(), dict(os.environ)")
        sb.py("""
            keep, st, h, rest = connect("allowed.example.org:7000")
            keep.sendall(b"one"); result = keep.recv(3)
        """)
        assert status(sb, TWO) == 403
        policy.sh(f"echo 'allow {TWO}:*' >> policy")
        follows(sb, TWO, 200)
        assert sb.py('keep.sendall(b"two"); result = keep.recv(3)') == b"two", \
            "what is still allowed goes on"
        ended = len(net.echo.ended)
        policy.sh(f"grep -v '{ONE}' policy > new && mv new policy")
        since, delay = time.time(), run_delay(sb.pid)
        got = sb.py("""
            keep.settimeout(60)
            try:
                result = keep.recv(1) or "end of file"
            except OSError as e:
                result = errno.errorcode.get(e.errno, "timeout")
        """)
        assert got == "ECONNRESET"
        followed(sb, since, WITHIN, delay)
        net.echo.wait_for(lambda: len(net.echo.ended) > ended, text="the origin's end")
        assert status(sb, ONE) == 403 and status(sb, TWO) == 200
        assert sb.procs().cmd == cmd and alive(cmd)
        assert sb.py("result = os.getpid(), dict(os.environ)") == before
    ends = [r for r in sb.audit if r["event"] == "end" and r["host"] == ONE and
            r["reason"] == "cut"]
    assert len(ends) == 1 and (ends[0]["up"], ends[0]["down"]) == (6, 6)
    assert [r["cut"] for r in reloads(sb)] == [0, 1]


def test_every_audit_record_names_the_generation(policy):
    policy.write(rules(ONE))
    with policy.sandbox() as sb:
        assert status(sb, ONE) == 200
        policy.write(rules(ONE, TWO))
        follows(sb, TWO, 200)
        assert sb.close().status == 0
    assert all(r["generation"] in (1, 2) for r in sb.audit)
    of = {r["host"]: r["generation"] for r in verdicts(sb.audit) if r["verdict"] == "allow"}
    assert of == {ONE: 1, TWO: 2}
    assert [r["generation"] for r in reloads(sb)] == [2]


def test_a_kept_alive_http_verdict_is_revoked(net, policy):
    policy.write(rules(ONE))
    with policy.sandbox() as sb:
        sb.py("""
            s = proxy()
            s.sendall(b"GET http://allowed.example.org/ HTTP/1.1\\r\\nHost: allowed.example.org"
                      b"\\r\\n\\r\\n")
            result = read_head(s)[0]
        """)
        count = net.web.count
        policy.write(rules(TWO))
        got = sb.py("""
            s.settimeout(60)
            try:
                while s.recv(100): pass
                result = "end of file"
            except OSError as e:
                result = errno.errorcode.get(e.errno, "timeout")
        """)
        assert got == "ECONNRESET"
        st = sb.py("""result = talk(b"GET http://allowed.example.org/ HTTP/1.1\\r\\n"
                                    b"Host: allowed.example.org\\r\\n\\r\\n")[0]""")
        assert st == 403 and net.web.count == count


def test_a_tunnel_in_full_flow_is_cut(net, policy):
    policy.write(rules(ONE))
    with policy.sandbox() as sb:
        sb.py("""
            s, st, h, rest = connect("allowed.example.org:7001")
            end = None
            def suck():
                global end
                try:
                    while s.recv(262144): pass
                    end = "end of file"
                except OSError as e:
                    end = errno.errorcode.get(e.errno)
            t = threading.Thread(target=suck, daemon=True); t.start()
            result = st
        """)
        policy.write("include none\n")
        assert sb.py("t.join(60); result = end") == "ECONNRESET"


def test_a_deny_address_rule_cuts_what_is_connected_there(net, policy):
    policy.write(rules(ONE, TWO))
    with policy.sandbox() as sb:
        sb.py("""
            a, st, h, rest = connect("allowed.example.org:7000")
            b, st, h, rest = connect("other.example.org:7000")
        """)
        policy.write(rules(ONE, TWO) + "deny 93.184.216.35\n")
        got = sb.py("""
            b.settimeout(60)
            try:
                result = b.recv(1) or "end of file"
            except OSError as e:
                result = errno.errorcode.get(e.errno, "timeout")
        """)
        assert got == "ECONNRESET"
        assert sb.py('a.sendall(b"still"); result = a.recv(5)') == b"still"


def test_limits_follow_live(policy):
    policy.write(rules(ONE))
    with policy.sandbox() as sb:
        sb.py('s, st, h, rest = connect("allowed.example.org:7000")')
        policy.write(rules(ONE) + "limit idle 1\nlimit connections 1\n")
        got = sb.py("""
            s.settimeout(60)
            try:
                result = s.recv(1) or "end of file"
            except OSError as e:
                result = errno.errorcode.get(e.errno, "timeout")
        """)
        assert got in ("ECONNRESET", "end of file"), "the open tunnel has the new idle limit"
        assert sb.py("""
            one = proxy()
            result = connect("allowed.example.org:7000")[1]
        """) == 503


def test_what_takes_effect_at_the_next_start_is_said(policy):
    policy.write(rules(ONE))
    with policy.sandbox() as sb:
        policy.write(rules(ONE) + "network deny\nenv keep NOTHING_HERE\n")
        got = sb.wait_audit(lambda r: r["event"] == "policy_reloaded")[0]
        assert got["next_start"] == ["network", "env"]
        assert status(sb, ONE) == 200, "the running sandbox has its network"
        done = sb.close()
    for what in ("network", "env"):
        assert done.errtext.count(f"the policy's {what} changed") == 1, done
    assert done.errtext.count("takes effect at the next start") == 2, done


# ---- E4 ----

def test_e4_a_broken_edit_keeps_the_old_policy_and_says_so_once(policy):
    policy.write(rules(ONE))
    with policy.sandbox() as sb:
        policy.write(rules(ONE) + "alow other.example.org\n")
        got = sb.wait_audit(lambda r: r["event"] == "policy_broken")
        assert f"{policy.file}:3:1: 'alow'" in got[0]["error"]
        assert got[0]["generation"] == 1
        assert status(sb, ONE) == 200 and status(sb, TWO) == 403
        policy.sh("touch policy")
        policy.sh("sleep 0.4; touch policy")
        policy.write(rules(TWO))
        follows(sb, TWO, 200)
        assert status(sb, ONE) == 403
        done = sb.close()
    assert len([r for r in sb.audit if r["event"] == "policy_broken"]) == 1
    assert done.errtext.count(f"{policy.file}:3:1: 'alow'") == 1, done


def test_a_file_that_vanishes_keeps_what_it_said(policy):
    policy.write(rules(ONE))
    with policy.sandbox() as sb:
        policy.sh("rm policy")
        sb.wait_audit(lambda r: r["event"] == "policy_broken" and policy.file in r["error"])
        assert status(sb, ONE) == 200
        policy.write(rules(TWO))
        follows(sb, TWO, 200)


def test_a_directory_that_vanishes_keeps_what_was_in_it(policy):
    policy.write(rules(ONE))
    with policy.sandbox() as sb:
        policy.sh("mv ../weir ../away")
        sb.wait_audit(lambda r: r["event"] == "policy_broken")
        assert status(sb, ONE) == 200
        policy.write(rules(TWO))
        follows(sb, TWO, 200)


def test_a_file_that_others_may_write_is_not_taken_over(policy):
    policy.write(rules(ONE))
    with policy.sandbox() as sb:
        policy.sh(f"echo 'allow {TWO}:*' >> policy; chmod 666 policy")
        sb.wait_audit(lambda r: r["event"] == "policy_broken" and "written by others" in r["error"])
        assert status(sb, TWO) == 403
        policy.sh("chmod 600 policy")
        follows(sb, TWO, 200)


# ---- how editors write ----

AWAY = f"{PYTHON} -c \"import os, time; t = open('new').read(); n = time.monotonic(); %s; " \
       "open('policy', 'w').write(t); print(time.monotonic() - n)\""
EDITORS = {
    "in place": "cat new > policy",
    "appended in pieces": ": > policy; while read -r l; do echo \"$l\" >> policy; done < new",
    "renamed over": "cp new tmp && mv tmp policy",
    # in one program each, which tells how long the file was away: between two programs a shell takes its time
    "unlinked, then created": AWAY % "os.unlink('policy'); time.sleep(0.03)",
    "backup renamed away": AWAY % "os.rename('policy', 'policy~')",
}


@pytest.mark.parametrize("how", EDITORS)
def test_whatever_way_an_editor_writes(policy, how):
    policy.write(rules(ONE))
    away = [0]
    with policy.sandbox() as sb:
        for host, other in ((TWO, ONE), (ONE, TWO)) * 2:	# the second time finds the watches of the first renewed
            policy.world.write(f"{policy.dir}/new", rules(host), mode=0o600)
            away.append(float(policy.sh(EDITORS[how]).stdout or 0))
            follows(sb, host, 200)
            assert status(sb, other) == 403
        # LIVE_GATHER_S: whoever was held up for longer has left the user without a policy for a while
        assert max(away) > 0.09 or not [r for r in sb.audit if r["event"] == "policy_broken"]


def test_a_symlink_is_followed_when_it_is_turned_and_when_its_target_is_edited(policy):
    far = f"{policy.world.home}/dotfiles-{unique()}"
    for name, hosts in (("a", [ONE]), ("b", [TWO])):
        policy.world.write(f"{far}/{name}/policy", rules(*hosts), mode=0o600)
    policy.world.mkdir(policy.dir, 0o700)
    policy.sh(f"ln -s {far}/current/policy policy; ln -s a {far}/current")
    with policy.sandbox() as sb:
        assert status(sb, ONE) == 200
        policy.sh(f"ln -sfn b {far}/current")
        follows(sb, TWO, 200)
        assert status(sb, ONE) == 403
        policy.sh(f"echo 'allow {ONE}:*' >> {far}/b/policy")
        follows(sb, ONE, 200)
        policy.sh(f"ln -s {far}/a/policy tmp && mv tmp policy")
        follows(sb, TWO, 403)


def test_the_first_file_of_a_user_is_seen(policy):
    """The directory is made at the start, for the user alone"""
    with policy.sandbox() as sb:
        assert status(sb, ONE) == 403
        assert os.stat(policy.world.path(policy.dir)).st_mode & 0o7777 == 0o700
        policy.sh(f"printf 'allow {ONE}:*\\n' > policy")
        follows(sb, ONE, 200)


def test_an_edit_right_after_the_start_is_seen(policy):
    """Before anything is watched: by its time"""
    policy.write(rules(ONE))
    with policy.sandbox() as sb:
        policy.write(rules(TWO))
        follows(sb, TWO, 200)
    assert len(reloads(sb)) == 1


def test_the_administrators_first_file_is_seen(fresh):
    """/etc/weir is missing at the start: it is watched through /etc"""
    fresh.listen("93.184.216.34", 7000, echo)
    with fresh.inside(allow=[f"{ONE}:*"]) as sb:
        assert status(sb, ONE) == 200
        fresh.edit("/etc/weir/policy", f"deny {ONE}\n", root=True)
        follows(sb, ONE, 403)


def test_the_command_of_a_file_given_with_p_is_followed(net):
    p = net.write(f"{net.home}/given-{unique()}", rules(ONE))
    with net.inside("-p", p) as sb:
        assert status(sb, TWO) == 403
        net.edit(p, rules(TWO))
        follows(sb, TWO, 200)


def test_two_sandboxes_follow_one_file(policy):
    policy.write(rules(ONE))
    with policy.sandbox() as a, policy.sandbox() as b:
        policy.write(rules(TWO))
        since, delays = time.time(), [run_delay(sb.pid) for sb in (a, b)]
        for sb, delay in zip((a, b), delays):
            wait_until(lambda sb=sb: status(sb, TWO) == 200, 5, "the edit")
            followed(sb, since, WITHIN, delay)


def test_ten_thousand_rules_delay_no_transfer(net, policy):
    """Bytes flow on while the monitor reads: the worker alone moves them"""
    many = "".join(f"allow h{i}.example.com\n" for i in range(10000))
    policy.write(rules(ONE) + many)
    with policy.sandbox() as sb:
        sb.py("""
            s, st, h, rest = connect("allowed.example.org:7001")
            gap, last, on = 0, time.monotonic(), True
            def suck():
                global gap, last
                while on and s.recv(65536):
                    now = time.monotonic(); gap = max(gap, now - last); last = now
            t = threading.Thread(target=suck, daemon=True); t.start()
        """)
        for i in range(10):	# what a busy machine does to one of the reloads, a fault does to all
            sb.py("gap, last = 0, time.monotonic()")
            policy.write(rules(ONE, TWO) + f"# {i}\nallow {i}.example.org\n" + many)
            wait_until(lambda i=i: len(reloads(sb)) == i + 1, 10, "the reload")
            gap = sb.py("""
                seen = last
                while last == seen: time.sleep(0.01)
                result = gap
            """)
            if gap < 0.5:
                break
        sb.py("on = False; t.join(60)")
        assert 0 < gap < 0.5, f"no byte came for {gap} s"
        assert {r["cut"] for r in reloads(sb)} == {0}


def test_an_address_that_this_machine_gets_meanwhile_is_its_own(fresh):
    """What was another's a moment ago would now be reached on this machine"""
    fresh.listen("93.184.216.34", 7000, echo)
    with fresh.inside("--route", "proxy", allow=[f"{ONE}:*"]) as sb:
        assert status(sb, ONE) == 200
        here = fresh.listen("10.77.0.1", 7000)
        fresh.ip("host", "addr", "add", "93.184.216.34/32", "dev", "lo")
        time.sleep(1.1)	# OWN_REFRESH_S: nobody announces it
        st, h, _ = sb.py("s, st, h, rest = connect(a); s.close(); result = st, h, rest",
                         a=f"{ONE}:7000")
        assert st == 403 and "private_address" in h["proxy-status"]
        fresh.ip("host", "addr", "del", "93.184.216.34/32", "dev", "lo")
        time.sleep(1.1)
        assert status(sb, ONE) == 200
        fresh.nothing_reached(here)


# ---- the runtime entry ----

@pytest.mark.parametrize("state", ["allowlist", "deny", "allow"])
def test_the_entry_is_there_while_the_sandbox_runs(net, state):
    with net.inside("-n", state) as sb:
        sb.py("result = 1")
        name = entry_of(net, sb)
        wait_until(lambda: os.listdir(entry_dir(net)) == [name], 10, "the entry alone")
        st = os.lstat(entry_dir(net) / name)
        assert st.st_mode & 0o7777 == 0o600 and st.st_uid == net.uid
        assert os.stat(entry_dir(net)).st_mode & 0o7777 == 0o700
        info = control(net, name, {"v": 1, "verb": "info"})[0]
        assert info["ok"] is True and info["v"] == 1 and info["id"] == name
        assert info["network"] == state and info["generation"] == 1
        assert info["pid"] == sb.pid and info["command"][0] == PYTHON
        assert info["project"] == sb.cwd and info["connections"] == 0 and info["name"] is None
        assert f"{net.home}/.config/weir/policy" in info["files"]
        assert sb.close().status == 0
    assert os.listdir(entry_dir(net)) == []


@pytest.mark.lifecycle
@pytest.mark.parametrize("state", ["allowlist", "deny", "allow"])
@pytest.mark.parametrize("role", ["monitor", "nursery", "shim"])
def test_kill_9_leaves_no_entry(net, state, role):
    with net.inside("-n", state) as sb:
        sb.py("result = 1")
        name, procs = entry_of(net, sb), sb.procs(network=state == "allowlist")
        assert procs.nursery and name in os.listdir(entry_dir(net))
        os.kill(getattr(procs, role), signal.SIGKILL)
        wait_until(lambda: not any(alive(p) for p in procs.all()), 10, "the end of all")
        assert name not in os.listdir(entry_dir(net))


@pytest.mark.lifecycle
def test_kill_9_at_any_moment_of_the_start_leaves_no_entry(net):
    for step in range(30):
        r = net.spawn("run", "-n", "deny", "--", "sleep", "60")
        time.sleep(step * 0.001)
        r.kill()
        net.assert_clean()


def test_entries_of_the_dead_are_removed_by_the_next_run_and_those_of_the_living_stay(net):
    d = entry_dir(net)
    with net.inside("-n", "deny") as sb:
        sb.py("result = 1")
        name = entry_of(net, sb)
        dead = socket.socket(socket.AF_UNIX)
        dead.bind(str(d / "0123456789ab"))
        os.chown(d / "0123456789ab", net.uid, net.gid)
        dead.close()
        net.write(f"{net.runtime}/weir/other", "not weir's")
        net.run("--", "true").ok()
        assert sorted(os.listdir(d)) == sorted([name, "other"])
        os.unlink(d / "other")
        assert control(net, name, {"v": 1, "verb": "info"})[0]["ok"] is True


def test_nothing_of_it_can_be_reached_from_inside(net, policy):
    policy.write(rules(ONE))
    for args in ((), ("-n", "allow"), ("--view", "project")):
        with policy.sandbox(*args) as sb:
            path = f"{net.runtime}/weir/{sb.entry}"
            got = sb.py("""
                def reach(p):
                    try:
                        s = socket.socket(socket.AF_UNIX); s.connect(p); return "connected"
                    except OSError as e:
                        return errno.errorcode[e.errno]
                result = [reach(p) for p in paths], os.path.exists(os.path.dirname(paths[0]))
            """, paths=[path, f"/proc/1/root{path}", f"/proc/self/root{path}"])
            assert set(got[0]) <= {"ENOENT", "EACCES"} and got[1] is False, got


def test_the_socket_is_found_without_a_runtime_directory(net):
    """…/state/weir/run, which no path of a sandbox leads to either"""
    env = {"XDG_RUNTIME_DIR": None}
    os.rename(net.path(net.runtime), net.path("/run/user/away"))
    try:
        with net.inside(env=env) as sb:
            sb.py("result = 1")
            name = entry_of(net, sb)
            run = net.path(f"{sb.state}/weir/run")
            assert os.listdir(run) == [name] and os.stat(run).st_mode & 0o7777 == 0o700
            assert sb.py("result = os.path.exists(p)", p=f"{sb.state}/weir") is False
            sb.close()
        assert os.listdir(run) == []
    finally:
        os.rename(net.path("/run/user/away"), net.path(net.runtime))


def test_a_path_longer_than_a_socket_address_works(net):
    deep = net.mkdir("/run/user/" + "/".join(["d" * 40] * 5), 0o755)
    os.chmod(net.path(deep), 0o700)
    with net.inside(env={"XDG_RUNTIME_DIR": deep}) as sb:
        sb.py("result = 1")
        assert os.listdir(net.path(deep) / "weir") == [entry_of(net, sb)]
        assert sb.close().errtext == ""
    assert os.listdir(net.path(deep) / "weir") == []


@pytest.mark.skipif(not IS_ROOT, reason="a directory of somebody else's needs root")
def test_a_directory_of_somebody_else_is_not_used(net):
    place = f"/run/user/{unique()}"
    net.mkdir(place, 0o700)
    net.mkdir(f"{place}/weir", 0o777, root=True)
    r = net.run("--", "true", env={"XDG_RUNTIME_DIR": place})
    assert r.status == 0 and "belongs to another user" in r.errtext
    assert os.listdir(net.path(f"{place}/weir")) == []
    os.rmdir(net.path(f"{place}/weir"))
    os.symlink("/tmp", net.path(f"{place}/weir"))
    r = net.run("--", "true", env={"XDG_RUNTIME_DIR": place})
    assert r.status == 0 and "other weir commands will not find this sandbox" in r.errtext


# ---- the control socket ----

def test_reload_answers_with_the_generation_or_the_error(policy):
    policy.write(rules(ONE))
    with policy.sandbox() as sb:
        ask_reload = {"v": 1, "verb": "reload"}
        assert control(policy.world, sb.entry, ask_reload)[0] == \
            {"v": 1, "ok": True, "generation": 1}
        policy.write(rules(ONE, TWO))
        assert control(policy.world, sb.entry, ask_reload)[0]["generation"] == 2
        assert status(sb, TWO) == 200


BAD = {
    "no JSON": "garbage",
    "an array": "[1]",
    "a number": "7",
    "an empty line": "",
    "a key twice": '{"v":1,"v":1,"verb":"info"}',
    "nested beyond sense": "[" * 3000,
    "not UTF-8": '{"v":1,"verb":"\udcff"}',
    "too long": '{"v":1,"verb":"' + "x" * 5000 + '"}',
}


@pytest.mark.parametrize("what", BAD)
def test_nonsense_closes_that_client_only(policy, what):
    with policy.sandbox() as sb:
        assert control(policy.world, sb.entry, {"v": 1, "verb": "info"})[0]["ok"] is True
        got = CLOSED % (f"{policy.world.runtime}/weir/{sb.entry}",
                        BAD[what].encode("utf-8", "surrogateescape"))
        p = policy.world.sh(f"exec {PYTHON} -c \"$CODE\"", env={"CODE": got})
        assert p.returncode == 0 and p.stdout.strip() == b"closed", p
        assert control(policy.world, sb.entry, {"v": 1, "verb": "info"})[0]["ok"] is True
        assert sb.py("result = 2") == 2


CLOSED = """
import socket
s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect(%r)
try:
    s.sendall(%r + b"\\n")
    while s.recv(65536): pass
except (BrokenPipeError, ConnectionResetError):
    pass
print("closed")
"""


def test_an_unknown_verb_or_version_is_answered(policy):
    with policy.sandbox() as sb:
        got = control(policy.world, sb.entry, {"v": 1, "verb": "destroy"}, {"v": 2, "verb": "info"},
                      {"verb": "info"}, {"v": 1}, {"v": 1, "verb": "info", "more": [1]})
    assert [g["ok"] for g in got] == [False, False, False, False, True]
    assert all(g["v"] == 1 for g in got)
    assert "unknown verb" in got[0]["error"]


MANY = """
import socket, json, sys
path = sys.argv[1]
idle = []
for i in range(300):
    s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect(path)
    if i % 2: s.sendall(b'{"v":1,')
    idle.append(s)
s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect(path)
f = s.makefile("rb")
for i in range(200):
    s.sendall(b'{"v":1,"verb":"info"}\\n')
    assert json.loads(f.readline())["ok"] is True
print("served")
"""


def test_three_hundred_idle_clients_are_harmless(policy):
    policy.write(rules(ONE))
    with policy.sandbox() as sb:
        watching(sb.pid)
        fds = lambda: open_files(sb.pid)	# noqa: E731
        before = fds()
        p = policy.world.sh(f"exec {PYTHON} -c \"$CODE\" {policy.world.runtime}/weir/{sb.entry}",
                            env={"CODE": MANY})
        assert p.stdout.strip() == b"served", p
        assert status(sb, ONE) == 200
        wait_until(lambda: all(n <= o + 1 for n, o in zip(fds(), before)), 10, "the end of every client")


def test_a_client_that_never_reads_costs_only_itself(policy):
    policy.write(rules(ONE))
    code = """
import socket, sys
s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect(sys.argv[1])
try:
    for i in range(20000): s.sendall(b'{"v":1,"verb":"info"}\\n')
    print("taken")
except OSError:
    print("closed")
"""
    with policy.sandbox() as sb:
        p = policy.world.sh(f"exec {PYTHON} -c \"$CODE\" {policy.world.runtime}/weir/{sb.entry}",
                            env={"CODE": code})
        assert p.stdout.strip() == b"closed", p
        assert status(sb, ONE) == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_another_user_is_not_answered(policy):
    """The directory keeps them out; should it not, the socket asks who they are"""
    world = policy.world
    with policy.sandbox() as sb:
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(60)
        s.connect(str(entry_dir(world) / sb.entry))	# root passes every mode, but is not the user
        try:
            s.sendall(b'{"v":1,"verb":"info"}\n')
            got = s.recv(100)
        except (BrokenPipeError, ConnectionResetError):
            got = b""
        assert got == b""


def test_a_command_line_of_any_bytes_is_told(net):
    with net.spawn("run", "-n", "deny", "--name", "some.name", "--", "/bin/sh", "-c", "cat",
                   b"\xff\xfe", "x" * 100000, *["w"] * 500) as r:
        name = r.wait_audit(lambda x: x["event"] == "start")[0]["sandbox"]
        wait_until(lambda: os.path.exists(entry_dir(net) / name), 10, "the entry")
        info = control(net, name, {"v": 1, "verb": "info"})[0]
        assert info["command"][:4] == ["/bin/sh", "-c", "cat", "\\xff\\xfe"]
        assert len(info["command"]) == 64 and info["command"][4] == "x" * 1024
        assert info["name"] == "some.name"
        r.p.stdin.close()
        assert r.p.wait(60) == 0


def test_the_manuals_example_works(policy):
    page = (ROOT / "docs" / "weir-control.7").read_text(encoding="utf-8")
    text = page[page.index(".Sh EXAMPLES"):]
    text = text[text.index("for s in"):text.index("\n.Ed")].replace("\\e", "\\")
    with policy.sandbox("--name", "one"):
        p = policy.world.sh(text, env={"XDG_RUNTIME_DIR": policy.world.runtime})
    assert p.returncode == 0 and json.loads(p.stdout)["name"] == "one", p


def test_the_same_bytes_are_no_new_generation(policy):
    policy.write(rules(ONE))
    with policy.sandbox() as sb:
        digest = hashlib.sha256(policy.world.read(policy.file)).hexdigest()
        policy.sh("cp policy new && mv new policy && touch policy")
        policy.write(rules(ONE, TWO))
        follows(sb, TWO, 200)
        assert digest != hashlib.sha256(policy.world.read(policy.file)).hexdigest()
    assert [r["generation"] for r in reloads(sb)] == [2]


def test_a_policy_file_that_the_command_may_write_does_not_widen_its_own_sandbox(net, policy):
    """-p FILE in the project: it counts as it was at the start, also when another layer is edited"""
    proj = net.mkdir(f"{net.home}/proj-{unique()}", 0o700)
    mine = net.write(f"{proj}/my.policy", f"allow {ONE}:7000\n", 0o600)
    policy.write("# nothing yet\n")
    with policy.sandbox("-p", mine, "-C", proj) as sb:
        assert sb.py(f'open("{mine}", "a").write("allow {TWO}:7000\\n"); result = 1') == 1
        policy.write(f"allow {ONE}:7001\n")	# an honest edit: every layer is merged again
        wait_until(lambda: [r for r in sb.audit if r["event"] == "policy_reloaded"], 10, "the reload")
        assert sb.py(f's, st, h, b = connect("{ONE}:7000"); result = st') == 200
        assert sb.py(f's, st, h, b = connect("{TWO}:7000"); result = st') == 403
        done = sb.finish()
    assert "edits of it count at the next start" in done.errtext, done


LAYOUTS = ["a link in the project", "a directory link in the project", "a hard link in the project"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_way_to_the_users_policy_leads_through_what_the_command_may_write(net, layout):
    """Whoever may replace a link on the way decides what is read there"""
    top = net.mkdir(f"{net.home}/way-{unique()}", 0o700)
    proj, real = net.mkdir(f"{top}/proj", 0o700), net.mkdir(f"{top}/real", 0o700)
    conf = net.mkdir(f"{top}/conf", 0o700)
    net.mkdir(f"{conf}/weir", 0o700)
    net.write(f"{real}/policy", f"allow {ONE}:7000\n", 0o600)
    if layout == LAYOUTS[0]:
        os.symlink(f"{real}/policy", net.path(f"{proj}/mid"))
        os.symlink(f"{proj}/mid", net.path(f"{conf}/weir/policy"))
        attack = f"rm {proj}/mid; echo 'allow *:*' >{proj}/mid"
    elif layout == LAYOUTS[1]:
        os.rename(net.path(f"{conf}/weir"), net.path(f"{top}/weir"))
        os.rename(net.path(f"{real}/policy"), net.path(f"{top}/weir/policy"))
        os.symlink(f"{top}/weir", net.path(f"{proj}/dir"))
        os.symlink(f"{proj}/dir", net.path(f"{conf}/weir"))
        attack = f"rm {proj}/dir; mkdir -m 700 {proj}/dir; echo 'allow *:*' >{proj}/dir/policy"
    else:
        os.link(net.path(f"{real}/policy"), net.path(f"{proj}/same"))
        os.link(net.path(f"{real}/policy"), net.path(f"{conf}/weir/policy"))
        r = net.run("-C", proj, "--", "true", env={"XDG_CONFIG_HOME": conf})
        assert r.status == 125 and "another name, a hard link" in r.errtext, r
        return
    for link in (f"{proj}/mid", f"{conf}/weir/policy", f"{proj}/dir", f"{conf}/weir"):
        if os.path.islink(net.path(link)) and os.getuid() == 0:
            os.lchown(net.path(link), net.uid, net.gid)
    r = net.run("-C", proj, "--", "sh", "-c", attack, env={"XDG_CONFIG_HOME": conf})
    assert r.status != 125 and "Read-only file system" in r.errtext, r
    assert net.run("-C", proj, "--", "true", env={"XDG_CONFIG_HOME": conf}).status == 0
    for p in (f"{proj}/mid", f"{proj}/dir"):
        assert not os.path.lexists(net.path(p)) or os.path.islink(net.path(p)), "it was replaced"


@pytest.mark.parametrize("way", ["link", "fifo", "hard link"])
def test_a_given_policy_is_not_followed_over_what_the_command_may_write(net, policy, way):
    top = net.mkdir(f"{net.home}/given-{unique()}", 0o700)
    proj = net.mkdir(f"{top}/proj", 0o700)
    real = net.write(f"{top}/real", f"allow {ONE}:7000\n", 0o600)
    given = f"{top}/given"
    if way == "hard link":
        os.link(net.path(real), net.path(f"{proj}/mid"))
        given = real
    else:
        os.symlink(real, net.path(f"{proj}/mid"))
        os.symlink(f"{proj}/mid", net.path(given))
    policy.write("# nothing yet\n")
    change = {"link": f"rm {proj}/mid; echo 'allow {TWO}:7000' >{proj}/mid",
              "fifo": f"rm {proj}/mid; mkfifo {proj}/mid",
              "hard link": f"echo 'allow {TWO}:7000' >>{proj}/mid"}[way]
    with policy.sandbox("-p", given, "-C", proj) as sb:
        assert sb.py(f"import subprocess; result = subprocess.run({change!r}, shell=True).returncode") == 0
        policy.write(f"allow {ONE}:7001\n")
        wait_until(lambda: [r for r in sb.audit if r["event"] == "policy_reloaded"], 10, "the reload")
        assert sb.py(f's, st, h, b = connect("{ONE}:7000"); result = st') == 200
        assert sb.py(f's, st, h, b = connect("{TWO}:7000"); result = st') == 403
        sb.finish()


def test_a_directory_above_the_policy_that_is_replaced_is_noticed(net, policy):
    policy.write(f"allow {ONE}:7000\n")
    other = net.mkdir(f"{net.home}/cfg-{unique()}", 0o700)
    net.mkdir(f"{other}/weir", 0o700)
    net.write(f"{other}/weir/policy", f"deny {ONE}\n", 0o600)
    with policy.sandbox() as sb:
        assert sb.py(f's, st, h, b = connect("{ONE}:7000"); result = st') == 200
        watching(sb.pid)
        net.sh(f"mv {policy.home} {policy.home}.old && mv {other} {policy.home}")
        wait_until(lambda: [r for r in sb.audit if r["event"] == "policy_reloaded"], 10, "the reload")
        assert sb.py(f's, st, h, b = connect("{ONE}:7000"); result = st') == 403
        sb.finish()
