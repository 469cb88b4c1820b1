# SPDX-License-Identifier: ISC
"""More real clients in the transparent route: those that need a server, a compiler or a package archive of
their own (C). Every test names its route."""
import hashlib
import os
import subprocess

import pytest

from origins.tcp import echo
from test_clients_more import serve
from test_transparent_clients import D, GO, U1, run
from world import need, verdicts

pytestmark = pytest.mark.clients

A, LAB, NO = "allowed.example.org", "db.lab.example", "other.lab.example"


@pytest.fixture(scope="module")
def net(world):
    world.web = world.http("93.184.216.34", 80, "allowed")
    world.denied = world.http("93.184.216.36", 80, "denied")
    world.hello = world.listen("93.184.216.34", 7001, echo)
    world.hosts(f"127.0.0.1 {LAB} {NO}\n")
    return world


def need_file(path, package):
    assert os.path.exists(path), f"{path} is missing: apt-get install -y {package}"


def stop(p):
    p.terminate()
    p.wait()
    p.stdout.close()


def test_c_transparent_mysql(net):
    need("mariadb", "mariadb-client")
    need("/usr/sbin/mariadbd", "mariadb-server")
    cwd = net.project()
    r = net.sh("mariadb-install-db --no-defaults --datadir=$PWD/my --auth-root-authentication-method=normal --skip-test-db "
               ">/dev/null", cwd=cwd)
    assert r.returncode == 0, r
    p = serve(net, ["/usr/sbin/mariadbd", "--no-defaults", f"--datadir={cwd}/my", "--port=3306", "--bind-address=127.0.0.1",
                    f"--socket={cwd}/s", "--skip-grant-tables", f"--pid-file={cwd}/p"], 3306, cwd)
    sql = "select sum(length(repeat('x', seq))), md5(repeat('y', 3000000)) from seq_1_to_1000"
    try:
        r = run(net, "mariadb", "--no-defaults", "-N", "-h", LAB, "-u", "tester", "-e", sql, "mysql", allow=[f"{LAB}:3306 private"])
        assert r.ok().text.split() == ["500500", hashlib.md5(b"y" * 3000000).hexdigest()], r
        assert {(v["proto"], v["port"]) for v in verdicts(r.audit, LAB)} == {("transparent", 3306)}, r.audit
        r = run(net, "mariadb", "--no-defaults", "-h", NO, "-u", "tester", "-e", sql, "mysql", allow=[f"{LAB}:3306 private"])
        assert r.status == 1 and "server host" in r.errtext and f"{NO} is not allowed" in r.errtext, r
        r = run(net, "mariadb", "--no-defaults", "-h", LAB, "-u", "tester", "-e", sql, "mysql", allow=[f"{LAB}:5432 private"])
        assert r.status == 1 and r.took < 25 and f"{LAB}:3306 is not allowed on this port" in r.errtext, r
    finally:
        stop(p)


def test_c_transparent_git_protocol_clone(net):
    need("git", "git")
    cwd = net.project()
    r = net.sh("git init -q r && cd r && git config user.email t@example.org && git config user.name t && "
               "head -c 2000000 /dev/urandom >f && git add f && git commit -qm one && sha256sum f", cwd=cwd)
    assert r.returncode == 0, r
    p = serve(net, ["git", "daemon", "--export-all", f"--base-path={cwd}", "--listen=127.0.0.1", "--port=9418",
                    "--reuseaddr"], 9418, cwd)
    try:
        got = run(net, "sh", "-c", f"git clone -q git://{LAB}/r c && sha256sum c/f", allow=[f"{LAB}:9418 private"])
        assert got.ok().text.split()[0] == r.stdout.decode().split()[0], got
        got = run(net, "git", "clone", "-q", f"git://{NO}/r", "d", allow=[f"{LAB}:9418 private"])
        assert got.status == 128 and "unable to look up" in got.errtext, got
    finally:
        stop(p)


class Archive(dict):
    """A flat archive of one package; what it has not is a 404"""

    def get(self, k, default=None):
        if k.startswith("/apt/") and k not in self:
            return b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"
        return super().get(k, default)


def test_c_transparent_apt_get_update_and_download(net):
    need("apt-get", "apt")
    cwd = net.project()
    r = net.sh("mkdir -p p/DEBIAN && printf 'Package: weirpkg\\nVersion: 1\\nArchitecture: all\\nMaintainer: a <a@example.org>\\n"
               "Description: x\\n' >p/DEBIAN/control && head -c 1000000 /dev/urandom >p/big && dpkg-deb -b p w.deb >&2; cat w.deb",
               cwd=cwd)
    deb = r.stdout
    assert r.returncode == 0 and len(deb) > 900000, r
    net.web.routes = Archive(net.web.routes)
    net.web.routes["/apt/./w.deb"] = net.web.routes["/apt/w.deb"] = deb
    net.web.routes["/apt/./Packages"] = net.web.routes["/apt/Packages"] = (
        "Package: weirpkg\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.org>\nFilename: ./w.deb\n"
        f"Size: {len(deb)}\nSHA256: {hashlib.sha256(deb).hexdigest()}\nDescription: x\n\n").encode()
    for host, name in ((A, "good"), (D, "bad")):
        net.write(f"{cwd}/{name}.list", f"deb [trusted=yes] http://{host}/apt ./\n")
    apt = ("mkdir -p s/lists/partial c/archives/partial && apt-get -o Dir::State=$PWD/s -o Dir::Cache=$PWD/c "
           "-o Dir::State::status=/dev/null -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Parts=/dev/null "
           "-o Acquire::Languages=none -o Acquire::Retries=0 -o Dir::Etc::SourceList=$PWD/{}.list {}")
    r = run(net, "sh", "-c", apt.format("good", "-q update") + " >&2 && " + apt.format("good", "download weirpkg") +
            " >&2; sha256sum *.deb", cwd=cwd, allow=[A])
    assert r.ok().text.count(hashlib.sha256(deb).hexdigest()) == 2, r
    assert {v["proto"] for v in verdicts(r.audit, A)} == {"transparent"}, r.audit
    r = run(net, "sh", "-c", apt.format("bad", "-q update"), cwd=cwd, allow=[A])
    assert r.took < 80 and f"Could not resolve '{D}'" in r.errtext + r.text, r


def build(argv, where, name, text, *libs):
    (where / name).write_text(text, encoding="utf-8")
    p = subprocess.run([*argv, name, *libs], cwd=where, capture_output=True, check=False,
                       env={"HOME": str(where), "PATH": "/usr/bin:/bin", "CGO_ENABLED": "1", "GO111MODULE": "off"})
    assert p.returncode == 0, p.stderr
    return (where / "m").read_bytes()


def test_c_transparent_go_with_the_c_library_twenty_at_once(net, tmp_path):
    go = need("go", "golang-go")
    cwd = net.project()
    net.write(f"{cwd}/m", build([go, "build", "-o", "m"], tmp_path, "m.go", GO), 0o755)
    r = run(net, "./m", U1, D, cwd=cwd, env={"GODEBUG": "netdns=cgo"})
    assert r.ok().text.startswith("20\n") and "no such host" in r.text, r


LIBEVENT = r"""
#include <event2/bufferevent.h>
#include <event2/buffer.h>
#include <event2/dns.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
static struct event_base *base;
static int want = 2, status;
static void on_read(struct bufferevent *b, void *what)
{
	char buf[16] = "";
	if (evbuffer_get_length(bufferevent_get_input(b)) < 5)
		return;
	bufferevent_read(b, buf, 5);
	printf("%s %s\n", (char *)what, buf);
	if (--want == 0)
		event_base_loopbreak(base);
}
static void on_event(struct bufferevent *b, short what, void *name)
{
	if (what & BEV_EVENT_CONNECTED) {
		bufferevent_write(b, "event", 5);
	} else if (what & BEV_EVENT_ERROR) {
		printf("%s: %s\n", (char *)name, evutil_gai_strerror(bufferevent_socket_get_dns_error(b)));
		status = 7;
		if (--want == 0)
			event_base_loopbreak(base);
	}
}
int main(int c, char **v)	/* by the resolver of the C library, and by libevent's own */
{
	static char *how[] = { "libc", "evdns" };
	struct timeval most = { 60, 0 };
	(void)c;
	base = event_base_new();
	for (int i = 0; i < 2; i++) {
		struct bufferevent *b = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
		bufferevent_setcb(b, on_read, NULL, on_event, how[i]);
		bufferevent_enable(b, EV_READ | EV_WRITE);
		if (bufferevent_socket_connect_hostname(b, i ? evdns_base_new(base, 1) : NULL, AF_INET, v[1], atoi(v[2])) < 0 && i)
			return 3;
	}
	event_base_loopexit(base, &most);
	event_base_dispatch(base);
	return want ? 4 : status;
}
"""


def test_c_transparent_libevent_by_either_resolver(net, tmp_path):
    need("gcc", "gcc")
    need_file("/usr/include/event2/bufferevent.h", "libevent-dev")
    cwd = net.project()
    net.write(f"{cwd}/m", build(["gcc", "-O1", "-o", "m"], tmp_path, "m.c", LIBEVENT, "-levent"), 0o755)
    r = run(net, "./m", A, "7001", cwd=cwd)
    assert sorted(r.ok().text.splitlines()) == ["evdns event", "libc event"], r
    r = run(net, "./m", D, "7001", cwd=cwd)
    assert r.status == 7 and r.took < 60 and "evdns: " in r.text and f"{D} is not allowed" in r.errtext, r


ASIO = r"""
#include <asio.hpp>
#include <iostream>
int main(int, char **v)	/* the socket is opened, and so registered, before it is connected */
{
	asio::io_context io;
	asio::ip::tcp::resolver r(io);
	asio::ip::tcp::socket s(io, asio::ip::tcp::v4());
	char buf[5];
	r.async_resolve(v[1], v[2], [&](asio::error_code e, asio::ip::tcp::resolver::results_type all) {
		if (e) { std::cout << e.message() << "\n"; return; }
		s.async_connect(*all.begin(), [&](asio::error_code e) {
			if (e) { std::cout << e.message() << "\n"; return; }
			asio::async_write(s, asio::buffer("asio\n", 5), [&](asio::error_code, size_t) {
				asio::async_read(s, asio::buffer(buf), [&](asio::error_code, size_t n) {
					std::cout.write(buf, n);
				});
			});
		});
	});
	io.run();
}
"""


BOOST = ASIO.replace("<asio.hpp>", "<boost/asio.hpp>").replace("int main", "namespace asio = boost::asio;\nint main") \
    .replace("asio::error_code", "boost::system::error_code")


@pytest.mark.parametrize("text,header,package", [(ASIO, "asio.hpp", "libasio-dev"),
                                                 (BOOST, "boost/asio.hpp", "libboost-dev")], ids=["alone", "boost"])
def test_c_transparent_asio_that_registers_when_it_opens(net, tmp_path, text, header, package):
    need("g++", "g++")
    need_file(f"/usr/include/{header}", package)
    cwd = net.project()
    net.write(f"{cwd}/m", build(["g++", "-O0", "-DBOOST_ERROR_CODE_HEADER_ONLY", "-o", "m", "-pthread"], tmp_path, "m.cpp",
                                text), 0o755)
    assert run(net, "./m", A, "7001", cwd=cwd).ok().text == "asio\n"
    assert "Host not found" in run(net, "./m", D, "7001", cwd=cwd).text


def test_c_transparent_a_quic_client_is_told_at_once(net):
    """gtlsclient speaks nothing but QUIC; what can fall back does so because the answer is there at once"""
    need("gtlsclient", "ngtcp2-client")
    with net.capture() as cap:
        r = run(net, "gtlsclient", A, "443", f"https://{A}/", allow=[A])
        assert not cap.seen()
    assert r.status == 1 and r.took < 5 and "sendmsg: Operation not permitted" in r.errtext, r


PAGE = b"""<!doctype html><body><script>
let t = performance.now(), all = [];
for (let i = 0; i < 5; i++) {
  const x = new XMLHttpRequest(); x.open('GET', '/n' + i, false); x.send(); all.push(x.responseText);
}
document.body.textContent = 'after ' + (performance.now() - t) + ' ms: ' + all.join(',');
</script>"""


@pytest.mark.nightly
def test_c_transparent_chromium_falls_back_to_tcp_from_http3(net):
    """The server offers HTTP/3; and where the browser must take it, it says so at once"""
    need("chromium", "chromium")
    o = net.http("93.184.216.34", 443, "tls", tls=net.trust(A))
    alt = b'HTTP/1.1 200 OK\r\nAlt-Svc: h3=":443"; ma=3600\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s'
    o.routes["/"] = alt % (len(PAGE), PAGE)
    for i in range(5):
        o.routes[f"/n{i}"] = alt % (2, b"n%d" % i)
    line = ("chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir=/tmp/c "
            f"--ignore-certificate-errors --enable-quic {{}} --dump-dom https://{A}/ 2>/dev/null")
    with net.capture() as cap:
        r = run(net, "sh", "-c", line.format(""), allow=[A], timeout=60)
        assert "n0,n1,n2,n3,n4" in r.ok().text, r
        assert float(r.text.split("after ")[1].split(" ms")[0]) < 2000, r
        r = run(net, "sh", "-c", line.format(f"--origin-to-force-quic-on={A}:443"), allow=[A], timeout=60)
        assert "n0,n1" not in r.text and r.took < 30, r
        assert not [t for t in cap.seen() if t[0] == "udp" and t[2] == 443]
    o.close()


WS_SERVER = """
const { WebSocketServer } = require('/usr/share/nodejs/ws');
new WebSocketServer({ host: '127.0.0.1', port: 8765 }).on('connection', c => c.on('message', (d, b) => c.send(d, { binary: b })));
"""


def test_c_transparent_node_ws_and_fetch_with_a_body(net):
    node = need("node", "nodejs")
    need_file("/usr/share/nodejs/ws/index.js", "node-ws")
    cwd = net.project()
    p = serve(net, [node, "-e", WS_SERVER], 8765, cwd)
    try:
        r = run(net, node, "-e", f"""
            const WebSocket = require('/usr/share/nodejs/ws'), n = 1000003;
            const c = new WebSocket('ws://{LAB}:8765/');
            c.on('open', () => c.send(Buffer.alloc(n, 7)));
            c.on('message', d => {{ console.log(d.length == n && d.every(x => x == 7)); c.close();
              new WebSocket('ws://{NO}:8765/').on('error', e => console.log(e.code)); }});
            """, allow=[f"{LAB}:8765 private"])
        assert r.ok().text == "true\nENOTFOUND\n", r
    finally:
        stop(p)
    r = run(net, node, "-e", f"""
        (async () => {{ const all = await Promise.all([...Array(50).keys()].map(async i =>
            (await (await fetch('http://{A}/' + i)).text()) == 'allowed /' + i + '\\n'));
          console.log(all.length, all.every(x => x)); }})();""", allow=[A])
    assert r.ok().text == "50 true\n", r
