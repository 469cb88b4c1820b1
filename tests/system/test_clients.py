# SPDX-License-Identifier: ISC
"""Real clients: an allowed host works, a denied one fails fast and says why (C)."""
import hashlib
import os
import subprocess
import io
import time
import zipfile

import pytest

from origins.tcp import pattern
from world import PATH, PYTHON, World, need

A, D = "allowed.example.org", "denied.example.net"


@pytest.fixture(scope="module")
def net(world):
    world.web = world.http("93.184.216.34", 80, "allowed")
    ctx = world.trust(A, D, "files.example.com", "other.example.org")
    world.tls = world.http("93.184.216.34", 443, "secure", tls=ctx)
    world.denied = world.http("93.184.216.36", 80, "denied")
    world.dtls = world.http("93.184.216.36", 443, "denied tls", tls=ctx)
    world.ctx = ctx
    return world


def quick(world, *cmd, allow=(A,), **kw):
    t = time.monotonic()
    r = world.run("--route", "proxy", "--", *cmd, allow=allow, **kw)
    r.took = time.monotonic() - t
    return r


@pytest.mark.parametrize("scheme,name", [("http", "allowed"), ("https", "secure")])
def test_c_curl(net, scheme, name):
    need("curl", "curl")
    r = quick(net, "curl", "-sS", f"{scheme}://{A}/x")
    assert r.ok().text == f"{name} /x\n", r
    r = quick(net, "curl", "-sS", "-f", f"{scheme}://{D}/x")
    assert r.status in (22, 56) and "403" in r.errtext and r.took < 20, r
    assert net.denied.count == net.dtls.count == 0


def test_c_curl_an_18_mb_file_by_sha256(net):
    n = 18_252_005
    net.tls.routes["/wheel"] = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n + pattern(0, n)
    net.web.routes["/wheel"] = net.tls.routes["/wheel"]
    want = hashlib.sha256(pattern(0, n)).hexdigest()
    for scheme in ("http", "https"):
        r = quick(net, "sh", "-c", f"curl -sS {scheme}://{A}/wheel | sha256sum")
        assert r.ok().text.split()[0] == want, r


def test_c_curl_posts(net):
    r = quick(net, "sh", "-c", f"head -c 3000000 /dev/zero | curl -sS -T - http://{A}/put; "
              f"curl -sS -d k=v http://{A}/post")
    assert r.ok().text == "allowed /put\nallowed /post\n", r
    assert [len(q.body) for q in net.web.requests if q.method in ("PUT", "POST")] == [3000000, 3]


@pytest.mark.clients
@pytest.mark.parametrize("scheme,name", [("http", "allowed"), ("https", "secure")])
def test_c_wget(net, scheme, name):
    need("wget", "wget")
    r = quick(net, "wget", "-q", "-O", "-", f"{scheme}://{A}/x")
    assert r.ok().text == f"{name} /x\n", r
    r = quick(net, "wget", "-nv", "-O", "-", "--tries=1", f"{scheme}://{D}/x")
    assert r.status in (4, 8) and r.took < 20, r
    assert "403" in r.errtext or "Forbidden" in r.errtext, r


@pytest.fixture(scope="module")
def repo(net):
    """A repository over the dumb protocol, which needs nothing but files"""
    need("git", "git")
    d = net.project()
    p = net.sh("git init -q r && cd r && git config user.email t@example.org && "
               "git config user.name t && echo hello > f && git add f && git commit -qm one && "
               "git gc -q && git update-server-info", cwd=d)
    assert p.returncode == 0, p.stderr
    base = net.path(f"{d}/r/.git")
    for root, _, files in os.walk(base):
        for f in files:
            path = os.path.join(root, f)
            with open(path, "rb") as fh:
                net.tls.routes["/r.git/" + os.path.relpath(path, base)] = fh.read()

    class Routes(dict):
        """What the repository does not have is a 404"""
        def get(self, k, default=None):
            if k.startswith("/r.git/") and k not in self:
                return b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"
            return super().get(k, default)
    net.tls.routes = Routes(net.tls.routes)
    return net


def test_c_git_https(repo):
    r = quick(repo, "sh", "-c", f"git clone -q https://{A}/r.git c && cat c/f")
    assert r.ok().text == "hello\n", r
    r = quick(repo, "git", "clone", "-q", f"https://{D}/r.git", "d")
    assert r.status == 128 and "403" in r.errtext and r.took < 20, r


def wheel(name="weirtestpkg", version="1.0"):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr(f"{name}.py", "answer = 42\n")
        di = f"{name}-{version}.dist-info"
        z.writestr(f"{di}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        z.writestr(f"{di}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\n"
                   "Tag: py3-none-any\n")
        z.writestr(f"{di}/RECORD", f"{name}.py,,\n{di}/METADATA,,\n{di}/WHEEL,,\n{di}/RECORD,,\n")
    return f"{name}-{version}-py3-none-any.whl", out.getvalue()


@pytest.fixture(scope="module")
def index(net):
    """A package index whose files are redirected to a second host"""
    assert subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True,
                          check=False).returncode == 0, \
        "pip is missing: apt-get install -y python3-pip"
    file, data = wheel()
    net.files = net.http("93.184.216.37", 443, "files", tls=net.ctx)
    page = f'<!DOCTYPE html><a href="/moved/{file}">{file}</a>'
    net.tls.routes["/simple/weirtestpkg/"] = (
        f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\n\r\n"
        f"{page}").encode()
    net.tls.routes[f"/moved/{file}"] = (
        f"HTTP/1.1 302 Found\r\nLocation: https://files.example.com/{file}\r\n"
        "Content-Length: 0\r\n\r\n").encode()
    net.files.routes[f"/{file}"] = data
    return net


PIP = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--no-cache-dir",
       "--target", "out", "--cert", "/etc/ssl/certs/ca-certificates.crt",
       "-i", f"https://{A}/simple", "--retries", "0", "-q", "weirtestpkg"]


@pytest.mark.clients
def test_c_pip_from_a_local_index_with_a_redirect_to_a_second_host(index):
    r = quick(index, "sh", "-c", " ".join(PIP) + f" && PYTHONPATH=out {PYTHON} -c "
              "'import weirtestpkg; print(weirtestpkg.answer)'", allow=[A, "files.example.com"],
              env={"PIP_CONFIG_FILE": "/dev/null"})
    assert r.ok().text == "42\n", r


@pytest.mark.clients
def test_c_pip_fails_fast_when_the_second_host_is_denied(index):
    r = quick(index, *PIP, allow=[A], env={"PIP_CONFIG_FILE": "/dev/null"})
    assert r.status != 0 and "files.example.com" in r.errtext and r.took < 60, r


def test_c_python_urllib(net):
    code = ("import urllib.request as u, sys\nfor x in sys.argv[1:]:\n"
            "  try: print(u.urlopen(x).read().decode().strip())\n"
            "  except Exception as e: print(type(e).__name__, e)")
    r = quick(net, PYTHON, "-c", code, f"http://{A}/1", f"https://{A}/2", f"http://{D}/3",
              f"https://{D}/4")
    lines = r.ok().text.splitlines()
    assert lines[:2] == ["allowed /1", "secure /2"], r
    assert "403" in lines[2] and "403" in lines[3] and r.took < 25, r


NODE = r"""
const http = require('http'), tls = require('tls');
const p = new URL(process.env.HTTP_PROXY);
function get(url) { return new Promise(done => {
  const u = new URL(url);
  if (u.protocol === 'http:') {
    http.get({host: p.hostname, port: p.port, path: url, headers: {Host: u.host}}, r => {
      let d = ''; r.on('data', x => d += x); r.on('end', () => done(r.statusCode + ' ' + d.trim()));
    }).on('error', e => done('error ' + e.message));
  } else {
    http.request({host: p.hostname, port: p.port, method: 'CONNECT', path: u.hostname + ':443'})
      .on('connect', (r, s) => {
        if (r.statusCode !== 200) return done(r.statusCode + ' ' + r.headers['proxy-status']);
        const ca = require('fs').readFileSync('/etc/ssl/certs/ca-certificates.crt');
        const t = tls.connect({socket: s, servername: u.hostname, ca});
        t.write(`GET ${u.pathname} HTTP/1.1\r\nHost: ${u.host}\r\nConnection: close\r\n\r\n`);
        let d = ''; t.on('data', x => d += x);
        t.on('end', () => done(d.slice(9, 12) + ' ' + d.split('\r\n\r\n')[1].trim()));
        t.on('error', e => done('tls ' + e.message));
      }).on('error', e => done('error ' + e.message)).end();
  } }); }
(async () => { for (const u of process.argv.slice(1)) console.log(await get(u)); })();
"""


@pytest.mark.clients
def test_c_node_with_an_explicit_proxy(net):
    need("node", "nodejs")
    r = quick(net, "node", "-e", NODE, f"http://{A}/1", f"https://{A}/2", f"http://{D}/3",
              f"https://{D}/4")
    lines = r.ok().text.splitlines()
    assert lines[:2] == ["200 allowed /1", "200 secure /2"], r
    assert lines[2].startswith("403 "), r
    assert any(ln.startswith("403") and "no_rule" in ln for ln in lines), r


def test_c_openssl_s_client(net):
    need("openssl", "openssl")
    r = quick(net, "sh", "-c", "printf 'GET /s HTTP/1.0\\r\\n\\r\\n' | "
              f"openssl s_client -quiet -proxy 127.0.0.1:3128 -connect {A}:443 "
              f"-servername {A} -verify_return_error 2>/dev/null")
    assert "secure /s" in r.text, r


# ---- npm: the real registry, read from npm's own configuration ----

def npm(*args):
    return subprocess.run(["npm", *args], capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": PATH}, timeout=120)


@pytest.fixture(scope="module")
def machine():
    """A world without a network of its own: weir runs in the machine's network"""
    w = World(net=False)
    yield w
    w.close()


def registry_rules():
    """--allow for the registry npm is configured with; where its name resolves to an address that
    is not public, the address rule that such a machine needs"""
    import ipaddress
    import socket
    from urllib.parse import urlsplit
    need("npm", "npm")
    url = urlsplit(npm("config", "get", "registry").stdout.strip())
    port = url.port or (443 if url.scheme == "https" else 80)
    rules = [f"{url.hostname}:{port}"]
    for *_, sa in socket.getaddrinfo(url.hostname, port, type=socket.SOCK_STREAM):
        ip = ipaddress.ip_address(sa[0])
        if not ip.is_global:
            if ip.is_private and not any(ip in ipaddress.ip_network(n) for n in
                                         ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24",
                                          "198.18.0.0/15", "192.0.0.0/24", "2001:db8::/32")):
                rules[0] = f"{url.hostname}:{port} private"
            rules.append(f"[{ip}]:{port}" if ip.version == 6 else f"{ip}:{port}")
    return url.geturl(), sorted(set(rules), key=rules.index)


NPM_ENV = ("cafile",)


def npm_flags():
    """Settings of this machine's npm that a private home does not show"""
    out = []
    for k in NPM_ENV:
        v = npm("config", "get", k).stdout.strip()
        if v and v not in ("null", "undefined"):
            out += [f"--{k}={v}"]
    return out


@pytest.mark.clients
def test_c_npm_install_of_a_real_package(machine):
    url, rules = registry_rules()
    cwd = machine.project()
    r = machine.run("--", "npm", "install", "--no-audit", "--no-fund", f"--registry={url}",
                    *npm_flags(), "is-number@7.0.0", allow=rules, cwd=cwd, timeout=180)
    assert r.status == 0, r
    assert machine.path(f"{cwd}/node_modules/is-number/package.json").exists()
    r2 = machine.run("--", "node", "-e", "console.log(require('is-number')('5'))", cwd=cwd)
    assert r2.ok().text == "true\n"
    assert [x for x in r.audit if x.get("verdict") == "allow"], r.audit


@pytest.mark.clients
def test_c_npm_fails_fast_without_the_rule(machine):
    url, _ = registry_rules()
    cwd = machine.project()
    r = machine.run("--", "npm", "install", "--no-audit", "--no-fund", f"--registry={url}",
                    "--fetch-retries=0", *npm_flags(), "is-number@7.0.0", cwd=cwd, timeout=120)
    assert r.status != 0 and "403" in r.errtext, r
    assert not machine.path(f"{cwd}/node_modules/is-number").exists()
