# SPDX-License-Identifier: ISC
"""Debian's JupyterHub, its proxy and docs/examples/spawner.py: a user's server is in a sandbox, reached
through the hub's proxy, and asks the hub who comes."""
import json
import os
import socket
import subprocess

import pytest

from test_recipes import blocks
from world import BIN, PYTHON, ROOT, cmdline, descendants, need, wait_until

pytestmark = pytest.mark.clients
TOKEN = "0123456789abcdef0123456789abcdef"
(LINES,) = blocks("jupyter", "python hub")
CONFIG = LINES + """
from jupyterhub.spawner import SimpleLocalProcessSpawner
import spawner

class OneUser(spawner.Weir, SimpleLocalProcessSpawner):
    '''The test has one user of the machine'''

c.JupyterHub.spawner_class = OneUser
c.Weir.options.extend({options})
c.SimpleLocalProcessSpawner.home_dir_template = "{home}"
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.JupyterHub.db_url = "sqlite:///{d}/hub.sqlite"
c.JupyterHub.cookie_secret_file = "{d}/cookie"
c.ConfigurableHTTPProxy.pid_file = "{d}/proxy.pid"
c.JupyterHub.services = [dict(name="test", api_token="{token}")]
c.JupyterHub.load_roles = [dict(name="test", services=["test"],
                                scopes=["admin:users", "admin:servers", "access:servers"])]
"""
# what a notebook page does, by a client outside
CELL = """
import asyncio, json, sys, tornado.httpclient as h, tornado.websocket as w
url, token, code = sys.argv[1:]
async def main():
    c = await w.websocket_connect(h.HTTPRequest(url, headers={"Authorization": "token " + token}))
    head = {"msg_id": "m1", "msg_type": "execute_request", "username": "", "session": "s", "version": "5.3"}
    await c.write_message(json.dumps({"channel": "shell", "header": head, "parent_header": {}, "metadata": {},
        "content": {"code": code, "silent": False, "store_history": False, "user_expressions": {},
                    "allow_stdin": False}}))
    while True:
        m = json.loads(await c.read_message())
        if m["parent_header"].get("msg_id") == "m1" and m["msg_type"] in ("stream", "error"):
            print(m["content"].get("text") or m["content"]); return
asyncio.run(asyncio.wait_for(main(), 60))
"""


def api(net, method, path, data=None):
    """One request through the hub's proxy: (status, what came)"""
    s = net.make("host", socket.AF_INET, socket.SOCK_STREAM)
    s.settimeout(60)
    body = b"" if data is None else json.dumps(data).encode()
    got = b""
    try:
        s.connect(("127.0.0.1", 8000))
        s.sendall((f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nAuthorization: token {TOKEN}\r\n"
                   f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                   "Connection: close\r\n\r\n").encode() + body)
        while True:
            d = s.recv(65536)
            if not d:
                break
            got += d
    except OSError:
        return 0, b""
    finally:
        s.close()
    head, _, text = got.partition(b"\r\n\r\n")
    if b"chunked" in head.lower():
        out = b""
        while text:
            n, _, text = text.partition(b"\r\n")
            out, text = out + text[:int(n, 16)], text[int(n, 16) + 2:]
        text = out
    return int(head.split(b" ")[1]) if head else 0, text


class Hub:
    """A hub of the world's user"""

    def __init__(self, net, options):
        need("jupyterhub", "jupyterhub")
        need("configurable-http-proxy", "node-configurable-http-proxy")
        self.net = net
        d = net.mkdir(f"{net.home}/hub", 0o700)
        net.write("/srv/examples/spawner.py", (ROOT / "docs/examples/spawner.py").read_bytes(), root=True)
        net.write(f"{d}/config.py", CONFIG.format(d=d, home=net.home, token=TOKEN, options=options))
        self.log = net.write(f"{d}/log", "")
        self.p = subprocess.Popen(
            net.enter(d) + ["/bin/sh", "-c", f"exec jupyterhub --config config.py >{self.log} 2>&1"],
            env=net.env(f"{net.home}/.local/state", NODE_PATH="/usr/share/nodejs"), stdin=subprocess.DEVNULL)

    def __enter__(self):
        try:
            wait_until(self.serves, 90, "the hub")
            assert api(self.net, "POST", "/hub/api/users/u")[0] == 201
        except BaseException:
            self.__exit__()
            raise
        return self

    def serves(self):
        assert self.p.poll() is None, self.said()
        return api(self.net, "GET", "/hub/api/")[0] == 200

    def __exit__(self, *a):
        self.p.terminate()
        self.p.wait(60)

    def user(self):
        return json.loads(api(self.net, "GET", "/hub/api/users/u")[1])

    def said(self):
        return self.net.read(self.log).decode("utf-8", "replace")


@pytest.fixture
def net(fresh):
    os.symlink(BIN, fresh.path("/srv/bin/weir"))
    fresh.extra_env = {"PATH": "/srv/bin:/usr/local/bin:/usr/bin:/bin"}
    fresh.mkdir(f"{fresh.home}/notebooks")
    fresh.write(f"{fresh.home}/.ssh/id_ed25519", "secret", 0o600)
    return fresh


def test_a_users_server_is_in_a_sandbox_behind_the_hub(net):
    net.dns.set("data.example.org", ["93.184.216.34"])
    net.web = net.http("93.184.216.34", 80, "data")
    with Hub(net, []) as hub:
        status, text = api(net, "POST", "/hub/api/users/u/server")
        assert status in (201, 202), (status, text, hub.said()[-3000:])
        wait_until(lambda: (hub.user().get("servers") or {}).get("", {}).get("ready"), 90, "the server")
        (box,) = json.loads(net.weir("ps", "--json").ok().text)
        assert box["name"] == "u" and "jupyterhub-singleuser" in " ".join(box["command"]), box
        # through the hub's proxy, the published port, and back to the hub to ask whose token it is
        status, text = api(net, "GET", "/user/u/api/status")
        assert status == 200 and b"kernels" in text, (status, text, hub.said()[-3000:])
        status, text = api(net, "POST", "/user/u/api/kernels", {"name": "python3"})
        assert status == 201, (status, text)
        code = ("import os, urllib.request as u\n"
                "try: no = u.urlopen('http://denied.example.net/')\nexcept OSError as e: no = e\n"
                "open('made', 'w').write('here')\n"
                "print(os.environ['WEIR_SANDBOX'], os.path.exists('%s/.ssh'), 'JUPYTERHUB_API_TOKEN' in os.environ,\n"
                "      u.urlopen('http://data.example.org/x').read(), no)" % net.home)
        r = subprocess.run(net.enter() + [PYTHON, "-c", CELL, "ws://127.0.0.1:8000/user/u/api/kernels/"
                                          f"{json.loads(text)['id']}/channels", TOKEN, code],
                           env=net.env(f"{net.home}/.local/state"), capture_output=True, check=False, timeout=90)
        out = r.stdout.decode()
        assert out.startswith(f"{box['id']} False True b'data /x\\n' HTTP Error 403"), (out, r.stderr)
        assert net.read(f"{net.home}/notebooks/made") == b"here"
        assert api(net, "DELETE", "/hub/api/users/u/server")[0] in (202, 204)
        wait_until(lambda: json.loads(net.weir("ps", "--json").ok().text) == [], 60, "the server's end")
        assert not [p for p in descendants(hub.p.pid) if cmdline(p).startswith("weir")]
    net.assert_clean(30)


def test_a_server_that_weir_refuses_to_start_is_told(net):
    with Hub(net, ["--allow", ".."]) as hub:
        status, text = api(net, "POST", "/hub/api/users/u/server")
        assert status == 500, (status, text)
        wait_until(lambda: "weir did not start the server" in hub.said(), 30, "the message")
        assert "empty label" in hub.said()
    net.assert_clean(30)
