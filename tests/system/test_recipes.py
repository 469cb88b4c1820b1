# SPDX-License-Identifier: ISC
"""Every recipe of docs/agents.md, docs/ide.md and docs/jupyter.md is run as it stands there: blocks
marked "sh run" by sh(1), as the user, with weir and data.example.org in the test world."""
import json
import os
import re
import socket
import subprocess

import pytest

from world import BIN, PYTHON, ROOT, need, wait_until

EXAMPLES = "/srv/examples"
PAGES = ("agents", "jupyter")


def blocks(page, mark):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{mark}\n(.*?)^```$", text, re.M | re.S)


@pytest.fixture(scope="module")
def net(world):
    """What the pages take for granted: weir in PATH, the examples, a host with data"""
    os.symlink(BIN, world.path("/srv/bin/weir"))
    world.mkdir(EXAMPLES, root=True)
    for f in (ROOT / "docs" / "examples").iterdir():
        if f.is_file():
            world.write(f"{EXAMPLES}/{f.name}", f.read_bytes(), 0o755, root=True)
    world.dns.set("data.example.org", ["93.184.216.34"])
    world.web = world.http("93.184.216.34", 80, "data")
    world.extra_env = {"PATH": "/srv/bin:/usr/local/bin:/usr/bin:/bin", "EXAMPLES": EXAMPLES}
    return world


RECIPES = [pytest.param(p, b, id=f"{p}-{i}",
                        marks=[pytest.mark.clients] if p == "jupyter" else [])
           for p in PAGES for i, b in enumerate(blocks(p, "sh run"))]


@pytest.mark.parametrize("page, text", RECIPES)
def test_recipe_of_the_page_works_as_it_stands(net, page, text):
    if "jupyter-" in text:
        need("jupyter-execute", "python3-nbclient")
    r = net.sh("set -eu\n" + text, cwd=net.project())
    assert r.returncode == 0, (page, text, r.stdout.decode(), r.stderr.decode())
    net.assert_clean()


SERVERS = [pytest.param(int(port), text, id=f"{p}-{port}", marks=pytest.mark.clients)
           for p in PAGES for port, text in blocks(p, r"sh server (\d+)")]


@pytest.mark.parametrize("port, text", SERVERS)
def test_server_of_the_page_is_reached_on_its_port(net, port, text):
    need("jupyter-notebook", "jupyter-notebook")
    p = subprocess.Popen(net.enter(net.project()) + ["/bin/sh", "-c", "exec " + text],
                         env=net.env(f"{net.home}/.local/state"), stdin=subprocess.DEVNULL,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def answers():
        s = net.make("host", socket.AF_INET, socket.SOCK_STREAM)
        try:
            s.settimeout(60)
            s.connect(("127.0.0.1", port))
            s.sendall(b"GET /api HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            return s.recv(100).startswith(b"HTTP/1.1 200")
        except OSError:
            return False
        finally:
            s.close()
    try:
        wait_until(answers, 60, "the server's answer")
    finally:
        p.terminate()
        p.wait(60)
    net.assert_clean()


@pytest.mark.parametrize("page", PAGES)
def test_page_has_no_block_that_is_not_run(page):
    """one would be one that nobody knows to work"""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    marks = re.findall(r"^```(.+)$", text, re.M)
    # test_jupyterhub.py has the hub's
    assert marks and all(re.fullmatch(r"sh run|sh server \d+|python hub", m) for m in marks), marks


def test_an_agent_runs_a_hundred_commands_answers_a_question_and_reads_the_audit(net):
    cwd, state = net.project(), f"{net.home}/.local/state-agent"
    lines = [f"echo {i}; exit {i % 7}" for i in range(98)]
    lines[40] = "curl -s http://data.example.org/answer"
    lines[41] = "curl -s http://denied.example.net/"
    lines += ["head -c 300000 /dev/zero | tr '\\0' x", "kill -9 $$"]
    net.write(f"{cwd}/commands", "\n".join(lines) + "\n")
    r = net.sh(f"{PYTHON} {EXAMPLES}/agent.py a1 --answer data.example.org --preset none --ask '*' "
               "< commands", cwd=cwd, env={"XDG_STATE_HOME": state}, timeout=100)
    assert r.returncode == 0, r.stderr.decode()
    out = [json.loads(x) for x in r.stdout.splitlines()]
    done, summary = out[:-1], out[-1]
    assert len(done) == 100 and len({d["id"] for d in done}) == 100
    for i in range(98):
        if i not in (40, 41):
            assert (done[i]["status"], done[i]["out"]) == (i % 7, f"{i}\n"), done[i]
    assert done[40]["out"] == "data /answer\n" and done[40]["asked"] == ["data.example.org:80"]
    assert "not allowed" in done[41]["out"] and done[41]["asked"] == ["denied.example.net:80"]
    assert done[98]["out"] == "x" * 300000 and done[99]["status"] == 137
    assert summary == {"allow": {"data.example.org:80": 1}, "deny": {"denied.example.net:80": 1}}
    net.assert_clean()


def test_an_agent_counts_what_was_rotated_away_too(net):
    cwd, state = net.project(), f"{net.home}/.local/state-rotated"
    net.mkdir(f"{state}/weir", 0o700)
    log = net.write(f"{state}/weir/audit.jsonl", b"x" * ((16 << 20) - 3000) + b"\n", 0o600)
    net.write(f"{cwd}/commands", "curl -s http://data.example.org/\n" * 6)
    r = net.sh(f"{PYTHON} {EXAMPLES}/agent.py a2 --preset none --allow data.example.org < commands",
               cwd=cwd, env={"XDG_STATE_HOME": state})
    assert r.returncode == 0, r.stderr.decode()
    for name in ("audit.jsonl.1", "audit.jsonl"):
        assert b'"event":"verdict"' in net.read(f"{state}/weir/{name}"), f"a part is in {name}"
    assert json.loads(r.stdout.splitlines()[-1]) == {"allow": {"data.example.org:80": 6}, "deny": {}}
    os.unlink(net.path(log + ".1"))
    net.assert_clean()
