# SPDX-License-Identifier: ISC
"""Real clients in the transparent route: none of them is told of a proxy (C). Every test names its route."""
import os
import subprocess
import threading
import time

import pytest

from origins.tcp import both_ways, echo, pattern
from test_clients import index, repo, wheel  # noqa: F401  pylint: disable=unused-import
from test_clients_more import serve
from test_ssh import SSH, project, ssh  # noqa: F401  pylint: disable=unused-import
from world import PYTHON, need, verdicts

pytestmark = pytest.mark.clients

A, D = "allowed.example.org", "denied.example.net"
T = ("--route", "transparent")


@pytest.fixture(scope="module")
def net(world):
    world.web = world.http("93.184.216.34", 80, "allowed")
    world.ctx = world.trust(A, D, "files.example.com")
    world.tls = world.http("93.184.216.34", 443, "secure", tls=world.ctx)
    world.denied = world.http("93.184.216.36", 80, "denied")
    world.hello = world.listen("93.184.216.34", 7001, echo)
    world.slow = world.listen("93.184.216.34", 7002, lambda o, c, n: time.sleep(0.3) or echo(o, c, n))
    world.hosts("127.0.0.1 db.lab.example other.lab.example\n")
    return world


def run(world, *cmd, allow=(A + ":*",), **kw):
    t = time.monotonic()
    r = world.run(*T, "--", *cmd, allow=allow, **kw)
    r.took = time.monotonic() - t
    assert not [k for k in ("HTTP_PROXY", "https_proxy") if k in r.errtext]
    return r


def good(net, *cmd, **kw):
    r = run(net, *cmd, **kw)
    assert r.ok().text.split() == ["allowed", "/1", "secure", "/2"], r
    assert {v["proto"] for v in verdicts(r.audit, A)} == {"transparent"}, r.audit
    return r


U1, U2, UD = f"http://{A}/1", f"https://{A}/2", f"http://{D}/3"


def test_c_transparent_wget(net):
    need("wget", "wget")
    good(net, "sh", "-c", f"wget -q -O - {U1} {U2}")
    r = run(net, "wget", "-nv", "-O", "-", "--tries=1", UD)
    assert r.status == 4 and r.took < 20 and "resolve" in r.errtext, r


def test_c_transparent_curl_h2_and_ipv6_flags(net):
    good(net, "sh", "-c", f"curl -sS -4 {U1}; curl -sS --http2 {U2}")
    r = run(net, "curl", "-sS", "-m", "60", "-6", U1)
    assert r.status in (6, 7) and r.took < 20, r
    r = run(net, "curl", "-sS", UD)
    assert r.status == 6 and r.took < 20 and f"{D} is not allowed" in r.errtext, r


PYTHONS = {
    "urllib": "import urllib.request\nget = lambda u: urllib.request.urlopen(u).read().decode()",
    "requests": "import requests\nget = lambda u: requests.get(u, verify='/etc/ssl/certs/ca-certificates.crt').text",
    "httpx": "import httpx\nget = lambda u: httpx.get(u, verify='/etc/ssl/certs/ca-certificates.crt').text",
    "aiohttp": """
import aiohttp, asyncio
async def one(u):
    async with aiohttp.ClientSession() as s, s.get(u) as r: return await r.text()
get = lambda u: asyncio.run(one(u))""",
}


@pytest.mark.parametrize("library", list(PYTHONS))
def test_c_transparent_python_libraries(net, library):
    code = PYTHONS[library] + "\nimport sys\nfor u in sys.argv[1:]: print(get(u).strip())\n"
    good(net, PYTHON, "-c", code, U1, U2)
    r = run(net, PYTHON, "-c", code, UD)
    assert r.status == 1 and r.took < 40, r


def test_c_transparent_node_fetch_http_and_net(net):
    node = need("node", "nodejs")
    good(net, node, "-e", f"""
        const http = require('http'), https = require('https'), net = require('net');
        (async () => {{
          console.log((await (await fetch('{U1}')).text()).trim());
          https.get('{U2}', r => r.on('data', d => console.log(d.toString().trim())));
          const s = net.connect(7001, '{A}'); s.end('x'.repeat(100000)); let n = 0;
          for await (const d of s) n += d.length; if (n != 100000) process.exit(3);
        }})();""", env={"NODE_EXTRA_CA_CERTS": "/etc/ssl/certs/ca-certificates.crt"})
    r = run(net, node, "-e", f"fetch('{UD}').catch(e => {{ console.log(e.cause.code); }})")
    assert r.ok().text == "ENOTFOUND\n" and r.took < 25, r


JAVA = """
import java.io.*; import java.net.*; import java.net.http.*; import java.nio.*; import java.nio.channels.*;
import java.nio.charset.StandardCharsets;
class Go {
  public static void main(String[] a) throws Exception {
    System.out.print(HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(a[0])).build(),
      HttpResponse.BodyHandlers.ofString()).body());
    System.out.print(new String(new URL(a[0]).openConnection().getInputStream().readAllBytes()));
    try (Socket s = new Socket(a[1], 7001)) {
      s.getOutputStream().write("socket\\n".getBytes()); s.shutdownOutput();
      System.out.print(new String(s.getInputStream().readAllBytes()));
    }
    Selector sel = Selector.open(); SocketChannel c = SocketChannel.open(); c.configureBlocking(false);
    c.register(sel, SelectionKey.OP_CONNECT); sel.selectNow();
    c.connect(new InetSocketAddress(a[1], 7001));
    ByteBuffer b = ByteBuffer.allocate(100); boolean sent = false; int n = 0;
    while (n < 4) {
      sel.select(10000);
      for (SelectionKey k : sel.selectedKeys()) {
        if (k.isConnectable() && c.finishConnect()) { c.write(ByteBuffer.wrap("nio\\n".getBytes())); k.interestOps(SelectionKey.OP_READ); }
        else if (k.isReadable()) n += Math.max(0, c.read(b));
      }
      sel.selectedKeys().clear();
    }
    System.out.print(new String(b.array(), 0, n));
    try { new Socket(a[2], 80); } catch (UnknownHostException e) { System.out.println("unknown"); }
  }
}
"""


def test_c_transparent_java(net):
    need("java", "default-jdk-headless")
    cwd = net.project()
    net.write(f"{cwd}/Go.java", JAVA)
    r = run(net, "java", "Go.java", U1, A, D, cwd=cwd)
    assert r.ok().text == "allowed /1\nallowed /1\nsocket\nnio\nunknown\n", r
    assert "Picked up" not in r.errtext, r


GO = """
package main
import ("fmt"; "io"; "net"; "net/http"; "os"; "sync")
func main() {
  var w sync.WaitGroup; var m sync.Mutex; n := 0
  for i := 0; i < 20; i++ { w.Add(1); go func() { defer w.Done()
    r, e := http.Get(os.Args[1]); if e != nil { fmt.Println(e); return }
    b, _ := io.ReadAll(r.Body); r.Body.Close(); m.Lock(); if string(b) == "allowed /1\\n" { n++ }; m.Unlock() }() }
  w.Wait(); fmt.Println(n)
  _, e := net.Dial("tcp", os.Args[2] + ":80"); fmt.Println(e)
}
"""


def test_c_transparent_go_static_twenty_at_once(net, tmp_path):
    go = need("go", "golang-go")
    (tmp_path / "m.go").write_text(GO, encoding="utf-8")
    p = subprocess.run([go, "build", "-o", "m", "m.go"], cwd=tmp_path, capture_output=True, check=False,
                       env={"CGO_ENABLED": "0", "HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "GO111MODULE": "off"})
    assert p.returncode == 0, p.stderr
    cwd = net.project()
    net.write(f"{cwd}/m", (tmp_path / "m").read_bytes(), 0o755)
    r = run(net, "./m", U1, D, cwd=cwd)
    assert r.ok().text.startswith("20\n") and "no such host" in r.text, r


C_EPOLL = r"""
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int c, char **v)	/* registered before it is connected */
{
	struct addrinfo *a, h = { .ai_socktype = SOCK_STREAM };
	struct epoll_event ev = { .events = EPOLLOUT | EPOLLET };
	int e = epoll_create1(0), s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = 0;
	socklen_t n = sizeof(error);
	char b[10] = "";
	(void)c;
	if (getaddrinfo(v[1], v[2], &h, &a)) return 2;
	epoll_ctl(e, EPOLL_CTL_ADD, s, &ev);
	epoll_wait(e, &ev, 1, 0);
	if (connect(s, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS) return 3;
	if (epoll_wait(e, &ev, 1, 60000) != 1) return 4;
	if (getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &n) || error) return 5;
	ev.events = EPOLLIN;
	epoll_ctl(e, EPOLL_CTL_MOD, s, &ev);
	if (write(s, "epoll", 5) != 5 || epoll_wait(e, &ev, 1, 60000) != 1 || read(s, b, 9) != 5) return 6;
	return puts(b) < 0;
}
"""


def test_c_transparent_a_c_program_that_registers_with_epoll_before_it_connects(net, tmp_path):
    need("gcc", "gcc")
    (tmp_path / "e.c").write_text(C_EPOLL, encoding="utf-8")
    subprocess.run(["gcc", "-O2", "-o", "e", "e.c"], cwd=tmp_path, check=True)
    cwd = net.project()
    net.write(f"{cwd}/e", (tmp_path / "e").read_bytes(), 0o755)
    assert run(net, "./e", A, "7001", cwd=cwd).ok().text == "epoll\n"


def test_c_transparent_nc_socat_perl_and_bash(net):
    for program, package in (("nc", "netcat-openbsd"), ("socat", "socat")):
        need(program, package)
    n = 3_000_000
    o = net.listen("93.184.216.34", 7003, both_ways(n))
    r = run(net, "bash", "-c", f"echo nc | nc -N {A} 7001; echo socat | socat - TCP:{A}:7001; "
            f"perl -MIO::Socket -e '$s=IO::Socket::INET->new(\"{A}:7001\") or die; print $s \"perl\\n\"; print scalar <$s>';"
            f"exec 3<>/dev/tcp/{A}/7001; echo bash >&3; head -n1 <&3; nc -z -w 3 {D} 80; echo $?")
    assert r.ok().text == "nc\nsocat\nperl\nbash\n1\n", r
    r = run(net, "sh", "-c", f"nc -N {A} 7003 </dev/null | sha256sum; nc -u -w1 {A} 53 </dev/null; true")
    import hashlib
    assert r.ok().text.split()[0] == hashlib.sha256(pattern(0, n)).hexdigest(), r
    o.close()


def test_c_transparent_git_https_and_git_protocol(repo):  # noqa: F811
    r = repo.run(*T, "--", "sh", "-c", f"git clone -q https://{A}/r.git c && cat c/f", allow=[A])
    assert r.ok().text == "hello\n", r
    r = repo.run(*T, "--", "git", "clone", "-q", f"https://{D}/r.git", "d", allow=[A])
    assert r.status == 128 and "Could not resolve host" in r.errtext, r
    repo.sh("git clone -q --bare r g.git && touch g.git/git-daemon-export-ok", cwd=f"{repo.home}")
    r = repo.run(*T, "--", "git", "ls-remote", f"git://{A}/none.git", allow=[A])
    assert r.status == 128 and f"{A}:9418 is not allowed on this port" in r.errtext, r


def test_c_transparent_pip_without_proxy_settings(index):  # noqa: F811
    r = index.run(*T, "--", PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--no-cache-dir", "--target", "out",
                  "--cert", "/etc/ssl/certs/ca-certificates.crt", "-i", f"https://{A}/simple", "--retries", "0", "-q",
                  "weirtestpkg", allow=[A, "files.example.com"])
    r.ok()


def test_c_transparent_ssh_scp_rsync_and_git_over_ssh(ssh):  # noqa: F811
    need("rsync", "rsync")
    cwd, n = project(ssh), 4_000_003
    ssh.write(f"{cwd}/up", pattern(0, n))
    opts = "-q -i key -o BatchMode=yes -o StrictHostKeyChecking=yes"
    r = ssh.run(*T, "--", "sh", "-c", f"ssh -G {A} | grep -i proxycommand; {SSH} {A} 'echo over ssh; cat' <up | wc -c; "
                f"scp {opts} up {A}:/home/tester/up && scp {opts} {A}:/home/tester/up down && cmp up down && "
                f"rsync -a -e '{SSH}' {A}:/home/tester/up again && cmp up again && echo same", allow=[A + ":22"], cwd=cwd)
    assert r.ok().text.split() == [str(n + 9), "same"], r
    r = ssh.run(*T, "--", "sh", "-c", f"{SSH} {D} true", allow=[A + ":22"], cwd=cwd)
    assert r.status == 255 and "Could not resolve hostname" in r.errtext and f"{D} is not allowed" in r.errtext, r
    made = ssh.sh("cd && rm -rf t.git tw && git init -q --bare t.git && git init -q tw && cd tw && git config user.email a@b && "
                  "git config user.name a && echo one >f && git add f && git commit -qm one && git push -q ../t.git HEAD:main && "
                  "git -C ../t.git symbolic-ref HEAD refs/heads/main")
    assert made.returncode == 0, made
    r = ssh.run(*T, "--", "sh", "-c", f"git -c core.sshCommand='{SSH}' clone -q ssh://{A}/home/tester/t.git c && cat c/f",
                allow=[A + ":22"], cwd=cwd)
    assert r.ok().text == "one\n", r


def test_c_transparent_redis_and_psql(net):
    need("redis-cli", "redis-server")
    need("psql", "postgresql-client")
    tools = sorted(d for d in os.listdir("/usr/lib/postgresql"))
    bin_ = f"/usr/lib/postgresql/{tools[-1]}/bin"
    cwd = net.project()
    r = net.sh(f"{bin_}/initdb -D pg -A trust -U tester --no-sync >/dev/null", cwd=cwd)
    assert r.returncode == 0, r
    up = [serve(net, ["redis-server", "--port", "6379", "--bind", "127.0.0.1", "--save", ""], 6379, cwd),
          serve(net, [f"{bin_}/postgres", "-D", "pg", "-h", "127.0.0.1", "-p", "5432", "-k", ""], 5432, cwd)]
    allow = ["db.lab.example:6379,5432 private"]
    try:
        r = run(net, "redis-cli", "-h", "db.lab.example", "eval", "return string.rep('x', 3000000)", "0", allow=allow)
        assert r.ok().text == "x" * 3000000 + "\n"
        r = run(net, "redis-cli", "-h", "other.lab.example", "ping", allow=allow)
        assert r.status != 0 and "Name or service not known" in r.errtext + r.text, r
        sql = "select sum(length(repeat('x', g))) from generate_series(1, 1000) g"
        r = run(net, "psql", "-X", "-h", "db.lab.example", "-U", "tester", "-At", "-c", sql, "postgres", allow=allow)
        assert r.ok().text == "500500\n", r
        r = run(net, "psql", "-X", "-h", "other.lab.example", "-U", "tester", "-At", "-c", sql, "postgres", allow=allow)
        assert r.status == 2 and "could not translate host name" in r.errtext, r
    finally:
        for p in up:
            p.terminate()
            p.wait()
            p.stdout.close()


def test_c_transparent_nginx_as_an_upstream(net):
    nginx = need("nginx", "nginx")
    cwd = net.project()
    net.write(f"{cwd}/n.conf", f"""daemon off; pid n.pid; error_log stderr; master_process off; events {{}}
http {{ access_log off; client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
server {{ listen 127.0.0.1:8088; location / {{ proxy_pass http://{A}; }} }} }}""")
    r = run(net, "sh", "-c", f"{nginx} -p . -c n.conf & for i in $(seq 100); do curl -sS --retry 50 --retry-connrefused "
            f"--retry-delay 0 -m 60 http://127.0.0.1:8088/1 && break; sleep 0.05; done; kill $!; wait", cwd=cwd)
    assert r.text == "allowed /1\n", r


def test_c_transparent_a_signal_every_200_us_breaks_no_connection(net):
    """A handler with SA_RESTART, and slow answers"""
    r = run(net, PYTHON, "-c", f"""
import signal, socket
n = [0]
signal.signal(signal.SIGALRM, lambda *a: n.__setitem__(0, n[0] + 1))
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
for i in range(30):
    s = socket.create_connection(('{A}', 7002 if i % 10 == 0 else 7001)); s.sendall(b'%d' % i); s.shutdown(1)
    d = b''
    while (x := s.recv(100)): d += x
    assert d == b'%d' % i
signal.setitimer(signal.ITIMER_REAL, 0)
print(n[0] > 50 or n[0])
""")
    assert r.ok().text == "True\n", r


def test_c_transparent_ctrl_c_ends_a_client_whose_host_never_answers(net):
    with net.inside(*T, allow=["blackhole.example.org"]) as s:
        got = s.py("""
            import signal, subprocess
            p = subprocess.Popen(["curl", "-sS", "http://blackhole.example.org/"])
            time.sleep(0.5)
            t = time.monotonic(); p.send_signal(signal.SIGINT); result = p.wait(), time.monotonic() - t < 10
        """)
        assert got == (-2, True)


def test_c_transparent_a_nested_bwrap_without_network_stays_offline(net):
    need("bwrap", "bubblewrap")
    net.write(f"{net.home}/nest.policy", "nested yes\n")
    r = net.run("-p", f"{net.home}/nest.policy", *T, "--", "sh", "-c",
                f"curl -sS {U1}; bwrap --ro-bind / / --dev /dev --proc /proc --unshare-net curl -sS -m 60 {U1}; echo $?",
                allow=[A])
    assert r.ok().text.splitlines()[0] == "allowed /1" and r.text.splitlines()[-1] in ("6", "7"), r


def test_c_transparent_npm_without_proxy_settings(net):
    npm = need("npm", "npm")
    cwd = net.project()
    tgz = net.sh("mkdir -p package && echo '{\"name\":\"weirpkg\",\"version\":\"1.0.0\"}' >package/package.json && "
                 "tar czf - package", cwd=cwd)
    net.tls.routes["/weirpkg/-/weirpkg-1.0.0.tgz"] = tgz.stdout
    body = ('{"name":"weirpkg","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"weirpkg","version":"1.0.0",'
            f'"dist":{{"tarball":"https://{A}/weirpkg/-/weirpkg-1.0.0.tgz"}}}}}}}}').encode()
    net.tls.routes["/weirpkg"] = (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                                  % len(body)) + body
    r = run(net, npm, "install", "--registry", f"https://{A}/", "--cafile", "/etc/ssl/certs/ca-certificates.crt", "--no-audit",
            "--no-fund", "--fetch-retries", "0", "weirpkg", cwd=cwd)
    assert r.status == 0 and net.path(f"{cwd}/node_modules/weirpkg/package.json").exists(), r
