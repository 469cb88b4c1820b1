# SPDX-License-Identifier: ISC
"""weir connect, and plain ssh, scp, rsync and git over ssh by it (C, B1, B2, D1)."""
import hashlib
import subprocess
import threading

import pytest

from origins.tcp import answer_after_eof, check_pattern, echo, pattern, send_pattern, sink, source
from world import need, verdicts, wait_until

HOST, DENIED = "allowed.example.org", "denied.example.net"
CONNECT = "/run/weir/weir connect"


@pytest.fixture
def origin(world):
    made = []

    def make(handler, port):
        o = world.listen("93.184.216.34", port, handler)
        made.append(o)
        return o
    yield make
    for o in made:
        o.close()


def sh(world, text, allow=(HOST + ":*",), **kw):
    return world.run("--route", "proxy", "--", "sh", "-c", text, allow=allow, **kw)


# ---- weir connect ----

def test_connect_passes_bytes_and_half_closes(world, origin):
    origin(answer_after_eof, 7100)
    r = sh(world, f"printf question | {CONNECT} {HOST} 7100; echo \" $?\"")
    assert r.ok().text == "the whole answer to question 0\n", r


def test_connect_goes_on_sending_after_the_answer_has_ended(world, origin):
    """The mirror: the host shuts down first and still gets everything"""
    def mirror(o, c, n):
        c.sendall(b"first and last")
        c.shutdown(1)
        o.record(n, str(check_pattern(c.recv)).encode())
    o = origin(mirror, 7101)
    with world.inside(allow=[HOST + ":*"]) as s:
        got = s.py("""
            import subprocess
            p = subprocess.Popen(["/run/weir/weir", "connect", "allowed.example.org", "7101"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            first = p.stdout.read()
            class W:
                def sendall(self, d): p.stdin.write(d)
            send_pattern(W(), 3000000); p.stdin.close()
            result = first, p.wait()
        """)
        o.wait_ended(1)
    assert got == (b"first and last", 0)
    assert o.data[0] == b"3000000"


def test_b1_connect_is_exact_both_ways(world, origin):
    n = 44_841_256
    origin(source(n), 7102)
    origin(sink, 7103)
    with world.inside(allow=[HOST + ":*"]) as s:
        got = s.py("""
            import subprocess
            argv = ["/run/weir/weir", "connect", "allowed.example.org"]
            p = subprocess.Popen(argv + ["7102"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            down = check_pattern(p.stdout.read1); p.stdin.close(); st = p.wait()
            p = subprocess.Popen(argv + ["7103"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            class W:
                def sendall(self, d): p.stdin.write(d)
            send_pattern(W(), n); p.stdin.close()
            result = down, st, p.stdout.read(), p.wait()
        """, n=n)
    assert got == (n, 0, f"got {n}\n".encode(), 0)


def test_connect_does_not_hang_on_a_peer_that_reads_late(world, origin):
    """Both directions full at once: neither waits for the other"""
    n = 8 << 20

    def handler(o, c, k):
        send_pattern(c, n)	# reads nothing before all of it is gone
        c.shutdown(1)
        o.record(k, str(check_pattern(c.recv)).encode())
    o = origin(handler, 7104)
    with world.inside(allow=[HOST + ":*"]) as s:
        got = s.py("""
            import subprocess
            p = subprocess.Popen(["/run/weir/weir", "connect", "allowed.example.org", "7104"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
            class W:
                def sendall(self, d): p.stdin.write(d)
            t = threading.Thread(target=lambda: (send_pattern(W(), n), p.stdin.close()))
            t.start(); got = check_pattern(p.stdout.read1); t.join()
            result = got, p.wait(), p.stderr.read()
        """, n=n, timeout=60)
        o.wait_ended(1)
    assert got == (n, 0, b"")
    assert o.data[0] == str(n).encode()


REFUSALS = [
    (f"{DENIED} 22", 1, [f"weir: {DENIED}:22 is not allowed", "why: no rule", f"fix: weir allow {DENIED}:22"]),
    (f"{HOST} 9", 1, ["weir: ", "refused"]),
    ("nowhere.example.org 22", 1, ["weir: ", "resolve"]),
    ("::1 22", 1, ["not allowed"]),
    ("127.1 22", 1, ["not a host name"]),
    ("", 125, ["usage: weir connect HOST PORT"]),
    (HOST, 125, ["usage: weir connect HOST PORT"]),
    (f"{HOST} 22 x", 125, ["usage: weir connect HOST PORT"]),
    (f"{HOST} 0", 125, ["'0' is not a port"]),
    (f"{HOST} ssh", 125, ["'ssh' is not a port"]),
    (f"{HOST} 65536", 125, ["'65536' is not a port"]),
    ("'a b' 22", 125, ["'a b' is not a host name"]),
    ("'' 22", 125, ["'' is not a host name"]),
    ("'a\r\nX: y' 22", 125, ["is not a host name"]),
]


@pytest.mark.parametrize("args,status,words", REFUSALS, ids=[repr(r[0])[:40] for r in REFUSALS])
def test_connect_says_why_and_its_status_says_it_too(world, args, status, words):
    r = sh(world, f"{CONNECT} {args} 2>err; echo $?; cat err >&2", allow=[HOST + ":*", "nowhere.example.org:*"])
    assert r.text == f"{status}\n", r
    own = r.errtext
    for w in words:
        assert w in own, r
    assert "\x1b" not in own and "weir: weir:" not in own


def test_connect_outside_a_sandbox_says_so(world):
    r = world.weir("connect", HOST, "22")
    assert r.status == 125 and "only inside a sandbox" in r.errtext, r


def test_connect_in_network_deny_says_so(world):
    r = world.weir("run", "-n", "deny", "--", "sh", "-c", f"{CONNECT} {HOST} 22")
    assert r.status == 125 and "allowlist" in r.errtext, r


def test_connect_ends_when_its_reader_does(world, origin):
    origin(source(1 << 40), 7105)
    r = sh(world, f"{CONNECT} {HOST} 7105 </dev/null | head -c 100000 | wc -c")
    assert r.ok().text.strip() == "100000", r


def test_connect_leaves_a_shared_pipe_as_it_was(world, origin):
    """stdout is made non-blocking for a while; whoever shares it must not find it so"""
    origin(answer_after_eof, 7106)
    r = sh(world, f"({CONNECT} {HOST} 7106 </dev/null; python3 -c 'import os; "
                  f"print(os.get_blocking(1))') | cat")
    assert r.ok().text == "the whole answer to True\n", r


# ---- ssh ----

@pytest.fixture(scope="module")
def ssh(world):
    """A real sshd behind HOST:22, one process for each connection, as the world's user"""
    sshd = need("sshd", "openssh-server")
    need("ssh", "openssh-client")
    d = world.mkdir("/home/tester/sshd", 0o700)
    done = world.sh(f"cd {d} && ssh-keygen -q -t ed25519 -N '' -f host && "
                    f"ssh-keygen -q -t ed25519 -N '' -f user && cp user.pub authorized && cat host.pub")
    assert done.returncode == 0, done
    world.write(f"{d}/config", f"""HostKey {d}/host
AuthorizedKeysFile {d}/authorized
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PidFile none
Subsystem sftp internal-sftp
""")
    procs = []

    def serve(_o, c, _n):
        p = subprocess.Popen(world.enter("/home/tester") + [sshd, "-i", "-e", "-f", f"{d}/config"], stdin=c,
                             stdout=c, stderr=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin"})
        procs.append(p)
        c.close()
        p.wait()
    o = world.listen("93.184.216.34", 22, serve)
    world.listen("93.184.216.36", 22, echo)
    key = " ".join(done.stdout.decode().split()[:2])
    world.write("/home/tester/.ssh/known_hosts", f"{HOST} {key}\n", 0o600)
    # as hosts ship it; inside it belongs to nobody, and ssh would die of it
    world.write("/etc/ssh/ssh_config.d/20-foreign.conf", "Host *\n\tSendEnv FOREIGN\n", root=True)
    world.ssh_origin, world.key = o, world.read(f"{d}/user")
    yield world
    for p in procs:
        if p.poll() is None:
            p.kill()
            p.wait()


def project(world):
    cwd = world.project()
    world.write(f"{cwd}/key", world.key, 0o600)
    return cwd


SSH = "ssh -i key -o BatchMode=yes -o StrictHostKeyChecking=yes"


@pytest.mark.clients
def test_c_plain_ssh_knows_the_host_and_runs_a_command(ssh):
    r = sh(ssh, f"{SSH} {HOST} 'echo from $SSH_ORIGINAL_COMMAND ssh; cat' <key | sha256sum; {SSH} {HOST} exit 7",
           allow=[HOST + ":22"], cwd=project(ssh))
    want = hashlib.sha256(b"from ssh\n" + ssh.key).hexdigest()
    assert r.text.split()[0] == want and r.status == 7, r
    assert len(verdicts(r.audit, HOST)) == 2


@pytest.mark.clients
def test_c_ssh_to_a_denied_host_fails_fast_and_says_why(ssh):
    r = sh(ssh, f"{SSH} {DENIED} true", allow=[HOST + ":22"], cwd=project(ssh))
    assert r.status == 255 and f"{DENIED}:22 is not allowed" in r.errtext, r
    assert f"fix: weir allow {DENIED}:22" in r.errtext, r


@pytest.mark.clients
def test_c_ssh_to_a_host_that_is_not_known_is_refused(ssh):
    ssh.write("/home/tester/.ssh/known_hosts.other", "", 0o600)
    r = sh(ssh, f"{SSH} -o HostKeyAlias=stranger {HOST} true", allow=[HOST + ":22"], cwd=project(ssh))
    assert r.status == 255 and "Host key verification failed" in r.errtext, r


@pytest.mark.clients
def test_c_known_hosts_is_a_copy_and_the_key_directory_is_absent(ssh):
    r = sh(ssh, "cat /run/weir/known_hosts; ls -la ~/.ssh 2>&1 | grep -v total; "
                "ls /etc/ssh/ssh_config.d/; stat -Lc %U /etc/ssh/ssh_config.d/*")
    assert r.text.startswith(f"{HOST} ssh-ed25519 ") and "weir.conf\ntester\n" in r.text, r
    assert "foreign" not in r.text and "sshd" not in r.text, r


@pytest.mark.clients
def test_c_scp_both_ways(ssh):
    cwd, n = project(ssh), 8_000_003
    ssh.write(f"{cwd}/up", pattern(0, n))
    opts = "-q -i key -o BatchMode=yes -o StrictHostKeyChecking=yes"
    r = sh(ssh, f"scp {opts} up {HOST}:/home/tester/up && scp {opts} {HOST}:/home/tester/up down && cmp up down",
           allow=[HOST + ":22"], cwd=cwd)
    r.ok()
    assert ssh.read("/home/tester/up") == pattern(0, n)


@pytest.mark.clients
def test_c_rsync(ssh):
    need("rsync", "rsync")
    cwd = project(ssh)
    for i in range(20):
        ssh.write(f"{cwd}/tree/d{i % 3}/f{i}", pattern(i, 10000 + i))
    r = sh(ssh, f"rsync -a -e '{SSH}' tree/ {HOST}:/home/tester/tree/ && "
                f"rsync -a -e '{SSH}' {HOST}:/home/tester/tree/ back/ && diff -r tree back",
           allow=[HOST + ":22"], cwd=cwd)
    r.ok()
    assert ssh.read("/home/tester/tree/d1/f1") == pattern(1, 10001)


@pytest.mark.clients
def test_c_git_over_ssh(ssh):
    need("git", "git")
    made = ssh.sh("cd && git init -q --bare repo.git && git init -q w && cd w && git config user.email a@b && "
                  "git config user.name a && echo one >f && git add f && git commit -qm one && "
                  "git push -q ../repo.git HEAD:refs/heads/main && git -C ../repo.git symbolic-ref HEAD refs/heads/main")
    assert made.returncode == 0, made
    cwd = project(ssh)
    r = sh(ssh, f"git -c core.sshCommand='{SSH}' clone -q ssh://{HOST}/home/tester/repo.git c && cat c/f && cd c && "
                f"echo two >f && git -c user.email=a@b -c user.name=a commit -qam two && "
                f"git -c core.sshCommand='{SSH.replace('key', '../key', 1)}' push -q", allow=[HOST + ":22"], cwd=cwd)
    assert r.ok().text == "one\n", r
    assert b"two" in ssh.sh("git -C repo.git log --format=%s main").stdout
    r = sh(ssh, f"git -c core.sshCommand='{SSH}' clone -q ssh://{DENIED}/x.git d", allow=[HOST + ":22"], cwd=cwd)
    assert r.status == 128 and f"{DENIED}:22 is not allowed" in r.errtext, r


@pytest.mark.clients
def test_c_ssh_inside_to_the_sandbox_itself_needs_no_proxy(ssh):
    r = sh(ssh, f"{SSH} -G localhost | grep -i proxycommand; {SSH} -G 127.0.0.1 | grep -i proxycommand; "
                f"{SSH} -G {HOST} | grep -i proxycommand", cwd=project(ssh))
    assert r.text == "proxycommand /run/weir/weir connect %h %p\n", r
