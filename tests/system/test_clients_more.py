# SPDX-License-Identifier: ISC
"""More real clients (C): languages' own libraries, static binaries, databases over SOCKS."""
import asyncio
import os
import socket
import subprocess
import threading
import time

import pytest

from test_clients import A, D, quick
from world import PYTHON, need, wait_until

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def net(world):
    world.web = world.http("93.184.216.34", 80, "allowed")
    world.ctx = world.trust(A, D)
    world.tls = world.http("93.184.216.34", 443, "secure", tls=world.ctx)
    world.denied = world.http("93.184.216.36", 80, "denied")
    world.dtls = world.http("93.184.216.36", 443, "denied tls", tls=world.ctx)
    return world


def fetched(net, r, lines=4):
    """http and https of the allowed host, then of the denied one: the last two say why"""
    got = r.ok().text.splitlines()
    assert len(got) == lines and got[:2] == ["allowed /1", "secure /2"], r
    for line in got[2:]:
        assert "403" in line or "Forbidden" in line, got
    assert r.took < 100, r
    assert net.denied.count == net.dtls.count == 0


URLS = [f"http://{A}/1", f"https://{A}/2", f"http://{D}/3", f"https://{D}/4"]

# ---- Python's libraries ----

PYTHONS = {
    "requests": """
import requests
def get(u):
    r = requests.get(u, verify='/etc/ssl/certs/ca-certificates.crt')
    return r.text if r.ok else r.status_code
""",
    "httpx": """
import httpx
def get(u):
    r = httpx.get(u, verify='/etc/ssl/certs/ca-certificates.crt')
    return r.text if r.status_code == 200 else r.status_code
""",
    "aiohttp": """
import aiohttp, asyncio
async def one(u):
    async with aiohttp.ClientSession(trust_env=True) as s, s.get(u) as r:
        return await r.text() if r.status == 200 else r.status
def get(u): return asyncio.run(one(u))
""",
    "asyncio": """
import asyncio, ssl, os
from urllib.parse import urlsplit
async def one(u):
    x, p = urlsplit(u), urlsplit(os.environ['HTTPS_PROXY'])
    tls = x.scheme == 'https'
    r, w = await asyncio.open_connection(p.hostname, p.port)
    async def head(t):
        w.write(t.encode()); return (await r.readuntil(b'\\r\\n\\r\\n')).decode()
    h = await head(f'CONNECT {x.hostname}:{443 if tls else 80} HTTP/1.1\\r\\n\\r\\n')
    if h.split()[1] != '200': return h.split()[1]
    if tls: await w.start_tls(ssl.create_default_context(), server_hostname=x.hostname) \\
        if hasattr(w, 'start_tls') else None
    await head(f'GET {x.path} HTTP/1.1\\r\\nHost: {x.hostname}\\r\\nConnection: close\\r\\n\\r\\n')
    return (await r.read()).decode()
def get(u): return asyncio.run(one(u))
""",
}


@pytest.mark.parametrize("library", list(PYTHONS))
def test_c_python_libraries(net, library):
    code = PYTHONS[library] + """
import sys
for u in sys.argv[1:]:
    try: print(str(get(u)).strip())
    except Exception as e: print(type(e).__name__, str(e).replace(chr(10), ' '))
"""
    fetched(net, quick(net, PYTHON, "-c", code, *URLS))


@pytest.fixture(scope="module")
def echoes(net):
    """A websocket server, ws:// and wss://"""
    import websockets
    loop = asyncio.new_event_loop()

    async def echo(ws, *_path):
        async for m in ws:
            await ws.send(m)

    async def begin():
        for port, ctx in ((8080, None), (8443, net.ctx)):
            s = net.make("net", socket.AF_INET, socket.SOCK_STREAM, bind=("93.184.216.34", port),
                         listen=16)
            s.setblocking(False)
            await websockets.serve(echo, sock=s, ssl=ctx, max_size=None)
    loop.run_until_complete(begin())
    threading.Thread(target=loop.run_forever, daemon=True).start()
    yield net
    loop.call_soon_threadsafe(loop.stop)


def test_c_websockets(echoes):
    """ws:// and wss:// as the library asks a proxy: CONNECT; frames of every size both ways"""
    code = """
import asyncio, socket, ssl, sys, websockets
async def go(host, port, tls):
    s = socket.create_connection(('127.0.0.1', 3128))
    s.sendall(f'CONNECT {host}:{port} HTTP/1.1\\r\\n\\r\\n'.encode())
    d = b''
    while b'\\r\\n\\r\\n' not in d: d += s.recv(1)
    if d.split()[1] != b'200': return print(d.split()[1].decode())
    ctx = ssl.create_default_context() if tls else None
    uri = f'{"wss" if tls else "ws"}://{host}:{port}/'
    async with websockets.connect(uri, sock=s, ssl=ctx, server_hostname=host if tls else None,
                                  max_size=None) as ws:
        for n in (0, 1, 125, 126, 65536, 3000000):
            await ws.send(b'x' * n); assert await ws.recv() == b'x' * n
        await ws.send('done'); print(await ws.recv())
for host in sys.argv[1:]:
    for port, tls in ((8080, False), (8443, True)):
        asyncio.run(go(host, port, tls))
"""
    r = quick(echoes, PYTHON, "-c", code, A, D, allow=[f"{A}:8080,8443"])
    assert r.ok().text.split() == ["done", "done", "403", "403"], r


# ---- Java, Go, R ----

JAVA = """
import java.io.*; import java.net.*; import java.net.http.*; import java.security.*;
import java.security.cert.*; import javax.net.ssl.*;
public class Get {
  static SSLContext trust() throws Exception {
    KeyStore k = KeyStore.getInstance(KeyStore.getDefaultType()); k.load(null, null); int i = 0;
    try (InputStream in = new FileInputStream("/etc/ssl/certs/ca-certificates.crt")) {
      for (var c : CertificateFactory.getInstance("X.509").generateCertificates(in))
        k.setCertificateEntry("c" + i++, c); }
    var f = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm()); f.init(k);
    SSLContext s = SSLContext.getInstance("TLS"); s.init(null, f.getTrustManagers(), null);
    return s; }
  public static void main(String[] a) throws Exception {
    SSLContext tls = trust();
    HttpsURLConnection.setDefaultSSLSocketFactory(tls.getSocketFactory());
    HttpClient client = HttpClient.newBuilder().proxy(ProxySelector.getDefault()).sslContext(tls)
      .version(HttpClient.Version.HTTP_1_1).build();
    for (int i = 1; i < a.length; i++) {
      try {
        if (a[0].equals("HttpClient")) {
          var r = client.send(HttpRequest.newBuilder(URI.create(a[i])).build(),
            HttpResponse.BodyHandlers.ofString());
          System.out.println(r.statusCode() == 200 ? r.body().trim() : "" + r.statusCode());
        } else {
          var c = (HttpURLConnection) new URL(a[i]).openConnection();
          System.out.println(c.getResponseCode() == 200 ?
            new String(c.getInputStream().readAllBytes()).trim() : "" + c.getResponseCode());
        }
      } catch (Exception e) { System.out.println(e); } } System.exit(0); } }
"""


@pytest.mark.parametrize("by", ["HttpClient", "URLConnection"])
def test_c_java(net, by):
    need("java", "default-jdk-headless")
    cwd = net.project()
    net.write(f"{cwd}/Get.java", JAVA)
    fetched(net, quick(net, "java", "-XX:TieredStopAtLevel=1", "Get.java", by, *URLS, cwd=cwd))


GO = """
package main

import ("fmt"; "io"; "net/http"; "os"; "strings")

func main() {
	for _, u := range os.Args[1:] {
		r, err := http.Get(u)
		if err != nil { fmt.Println(err); continue }
		b, _ := io.ReadAll(r.Body)
		if r.StatusCode == 200 { fmt.Println(strings.TrimSpace(string(b))) } else { fmt.Println(r.Status) }
	}
}
"""


def test_c_go_static_binary(net, tmp_path):
    """No libc, no dynamic linker: nothing could be preloaded or wrapped"""
    need("go", "golang-go")
    (tmp_path / "get.go").write_text(GO, encoding="ascii")
    subprocess.run(["go", "build", "-o", tmp_path / "get", "get.go"], cwd=tmp_path, check=True,
                   timeout=300, env={**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off",
                                     "GOFLAGS": "", "GOCACHE": str(tmp_path / "cache"),
                                     "HOME": str(tmp_path)})
    cwd = net.project()
    net.write(f"{cwd}/get", (tmp_path / "get").read_bytes(), 0o755)
    fetched(net, quick(net, "./get", *URLS, cwd=cwd))


def test_c_r_download_file(net):
    need("Rscript", "r-base-core")
    cwd = net.project()
    net.write(f"{cwd}/get.R", """
for (u in commandArgs(TRUE)) {
  f <- tempfile(); said <- NULL
  r <- tryCatch(withCallingHandlers({ download.file(u, f, quiet = TRUE); readLines(f) },
    warning = function(w) { said <<- c(said, conditionMessage(w)); invokeRestart("muffleWarning") }),
    error = function(e) c(said, conditionMessage(e)))
  cat(gsub("\\n", " ", paste(r, collapse = "; ")), "\\n", sep = "")
}
""")
    r = quick(net, "Rscript", "--vanilla", "get.R", *URLS, cwd=cwd,
              env={"CURL_CA_BUNDLE": "/etc/ssl/certs/ca-certificates.crt"})
    got = r.ok().text.splitlines()
    assert got[:2] == ["allowed /1", "secure /2"] and len(got) == 4, r
    # of a refused CONNECT libcurl tells R no status: weir's own line does
    assert "403" in got[2] and "error" in got[3] and f"{D}:443 is not allowed" in r.errtext, got


# ---- databases over SOCKS ----

@pytest.fixture(scope="module")
def chain(net):
    """proxychains sends what a program connects to SOCKS5, names and all"""
    need("proxychains4", "proxychains4")
    net.hosts(f"127.0.0.1 localhost\n127.0.0.1 db.lab.example other.lab.example\n")
    return net.write(f"{net.home}/work/chains.conf",
                     "strict_chain\nproxy_dns\nquiet_mode\n[ProxyList]\nsocks5 127.0.0.1 3128\n")


def serve(net, argv, port, cwd):
    p = subprocess.Popen(net.enter(cwd) + argv, env=net.env(net.home + "/.local/state"),
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def up():
        assert p.poll() is None, p.stdout.read()
        s = net.make("host", socket.AF_INET, socket.SOCK_STREAM)
        with s:
            return s.connect_ex(("127.0.0.1", port)) == 0
    wait_until(up, 20, f"a server on port {port}")
    return p


def chained(net, chain, *argv):
    return net.run("--route", "proxy", "-r", chain, "--", "proxychains4", "-f", chain, *argv,
                   allow=["db.lab.example:6379,5432 private"], env={"PGCONNECT_TIMEOUT": "60"})


def test_c_redis_cli_over_socks(net, chain):
    need("redis-cli", "redis-server")
    p = serve(net, ["redis-server", "--port", "6379", "--bind", "127.0.0.1", "--save", "",
                    "--daemonize", "no"], 6379, net.project())
    try:
        r = chained(net, chain, "redis-cli", "-h", "db.lab.example", "eval", "return string.rep('x', 3000000)", "0")
        assert r.ok().text == "x" * 3000000 + "\n"
        t = time.monotonic()
        r = chained(net, chain, "redis-cli", "-h", "other.lab.example", "ping")
        assert r.status != 0 and "PONG" not in r.text and time.monotonic() - t < 25, r
        assert "other.lab.example:6379" in r.errtext, r
    finally:
        p.terminate()
        p.wait()
        p.stdout.close()


def test_c_psql_over_socks(net, chain):
    need("psql", "postgresql-client")
    tools = sorted(d for d in os.listdir("/usr/lib/postgresql"))
    assert tools, "postgresql is missing: apt-get install -y postgresql"
    bin_ = f"/usr/lib/postgresql/{tools[-1]}/bin"
    cwd = net.project()
    r = net.sh(f"{bin_}/initdb -D pg -A trust -U tester --no-sync >/dev/null", cwd=cwd)
    assert r.returncode == 0, r
    p = serve(net, [f"{bin_}/postgres", "-D", "pg", "-h", "127.0.0.1", "-p", "5432", "-k", ""],
              5432, cwd)
    try:
        sql = "select sum(length(repeat('x', g))) from generate_series(1, 1000) g"
        r = chained(net, chain, "psql", "-X", "-h", "db.lab.example", "-U", "tester", "-At", "-c",
                    sql, "postgres")
        assert r.ok().text == "500500\n", r
        r = chained(net, chain, "psql", "-X", "-h", "other.lab.example", "-U", "tester", "-At",
                    "-c", sql, "postgres")
        assert r.status != 0 and "other.lab.example:5432" in r.errtext, r
    finally:
        p.terminate()
        p.wait()
        p.stdout.close()
