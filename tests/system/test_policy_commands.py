# SPDX-License-Identifier: ISC
"""weir allow, deny, forget, trust, untrust, policy why and import, as a person types them (SPEC 1, 3;
E2, E5, E6), and the schemas of what they print."""
import json
import os
import re
import stat

import pexpect
import pytest

from origins.tcp import unique
from world import ROOT, verdicts, wait_until

TWENTY = 20


class User:
    """A user's files of their own: policy, trust store, a project"""

    def __init__(self, world):
        self.world = world
        self.home = f"{world.home}/u-{unique()}"
        self.file = f"{self.home}/config/weir/policy"
        self.state = f"{self.home}/state"
        world.mkdir(self.home, 0o700)
        self.project = world.mkdir(f"{self.home}/project")
        self.env = {"XDG_CONFIG_HOME": f"{self.home}/config"}

    def weir(self, *args, **kw):
        kw.setdefault("cwd", self.project)
        return self.world.weir(*args, env=self.env, state=self.state, **kw)

    def spawn(self, *args, **kw):
        kw.setdefault("cwd", self.project)
        return self.world.spawn(*args, env=self.env, state=self.state, **kw)

    def write(self, text, mode=0o600):
        self.world.write(self.file, text, mode=mode)

    def text(self):
        return self.world.read(self.file).decode()

    def trust_file(self, text):
        self.world.write(f"{self.project}/.weir/policy", text)


@pytest.fixture
def user(world):
    return User(world)


# --- allow, deny, forget ---

def test_allow_makes_the_file_private(user):
    r = user.weir("allow", "pypi.org").ok()
    assert user.text() == "allow pypi.org\n" and f"{user.file}:1" in r.text, r
    st = os.stat(user.world.path(user.file))
    assert stat.S_IMODE(st.st_mode) == 0o600
    assert stat.S_IMODE(os.stat(user.world.path(user.file).parent).st_mode) == 0o700


def test_edit_keeps_every_other_byte_and_the_mode(user):
    before = "# mine\n\n  allow   a.example.org\t# \u00fcber\ninclude python\ndeny x.example.org"
    user.write(before, mode=0o640)
    user.weir("allow", "b.example.org").ok()
    assert user.text() == before + "\nallow b.example.org\n"
    user.weir("forget", "b.example.org").ok()
    assert user.text() == before + "\n"
    assert stat.S_IMODE(os.stat(user.world.path(user.file)).st_mode) == 0o640
    assert os.listdir(user.world.path(user.file).parent) == ["policy"], "a file was left behind"


def test_deny_and_allow_replace_each_other(user):
    user.weir("allow", "a.example.org").ok()
    assert "taken out" in user.weir("deny", "a.example.org").ok().text
    assert user.text() == "deny a.example.org\n"
    user.weir("allow", "a.example.org:443").ok()
    assert user.text() == "allow a.example.org:443\n"


def test_what_stood_behind_a_line_that_goes_stays(user):
    user.write("allow a.example.org # the mirror of the lab\n")
    user.weir("deny", "a.example.org").ok()
    assert user.text() == "# the mirror of the lab\ndeny a.example.org\n"


def test_a_limit_on_file_sizes_leaves_nothing_behind(user):
    user.write("allow a.example.org\n")
    r = user.weir("allow", "b.example.org", prefix=("/bin/sh", "-c", 'ulimit -f 0; exec "$@"', "sh"))
    assert r.status == 125 and "File too large" in r.errtext, r
    assert user.text() == "allow a.example.org\n"
    assert os.listdir(user.world.path(user.file).parent) == ["policy"], "a file was left behind"


def test_targets_are_taken_as_people_have_them(user):
    user.weir("allow", "https://a.example.org/x?y", "b.example.org:8443", "db.example.org:5432",
              "private", "c.example.org private", ".d.example.org", "[fd00::1]:22").ok()
    assert user.text() == ("allow a.example.org\nallow b.example.org:8443\n"
                           "allow db.example.org:5432 private\nallow c.example.org private\n"
                           "allow .d.example.org\nallow [fd00::1]:22\n")


def test_allow_of_localhost_says_how_a_port_of_this_machine_is_had(user):
    for host in ("localhost:8888", "db.localhost", "127.0.0.1:5432", "[::1]:5432"):
        r = user.weir("allow", host).ok()
        assert "inside is the sandbox's own" in r.errtext and "--reach PORT" in r.errtext, r
    assert user.weir("allow", "a.example.org", "10.0.0.1:22").ok().errtext == ""
    assert user.weir("allow", "-q", "localhost:22").ok().errtext == ""


def test_an_error_of_a_newcomer_says_what_to_type(user):
    for line, fix in ((("policy", "why"), "weir policy why pypi.org"),
                      (("trust",), "weir allow HOST"),
                      (("run", "-w", user.world.home, "--", "true"), "--view host"),
                      (("proxy", "--listen", f"unix:{user.home}/no/such/socket"), "above it")):
        r = user.weir(*line)
        assert r.status == 125 and fix in r.errtext, r


@pytest.mark.parametrize("typed,fix", [
    ("*.com", "*.example.com"), ("git@github.com:a/b", "github.com:22"),
    ("me@a.example.org", "a.example.org"), ("::1", "[::1]"), ("a.example.org/x", "a.example.org"),
    ("gopher://a.example.org/", "a.example.org:PORT"), ("a..b", ""), ("127.1", ""), ("", ""),
    ("a.example.org privat", "private"), ("a\nallow *", ""), ("a.example.org # x", "")])
def test_nonsense_is_refused_with_the_right_spelling_and_nothing_is_written(user, typed, fix):
    r = user.weir("allow", typed)
    assert r.status == 125 and fix in r.errtext and r.out == b"", r
    assert not user.world.path(user.file).exists()


def test_ask_takes_the_place_of_allow_and_deny(user):
    user.write("allow a.example.org\ndeny a.example.org:22\nallow .b.example.org\n")
    user.weir("ask", "https://a.example.org/x", "c.b.example.org:443", "private").ok()
    assert user.text() == ("deny a.example.org:22\nallow .b.example.org\nask a.example.org\n"
                           "ask c.b.example.org:443 private\n")
    assert "is still allowed" in user.weir("ask", "c.b.example.org:443").errtext
    r = user.weir("ask", "*.com")
    assert r.status == 125 and "public suffix" in r.errtext, r
    user.weir("forget", "a.example.org").ok()
    assert "a.example.org" not in user.text()


def test_ask_in_show_check_and_why(user):
    user.write("ask *:443\nask *:443\nask-timeout 5\nask-timeout 6\nask x.example.org\ndeny x.example.org\n")
    o = json.loads(user.weir("policy", "show", "--json").ok().text)
    assert o["settings"]["ask_timeout"] == 6
    ask = [i for i in o["lines"] if i["keyword"] == "ask"][0]
    assert (ask["target"], ask["ports"], ask["state"]) == ("*", [[443, 443]], "in force")
    check(o, schema("policy-show"))
    r = user.weir("policy", "check", user.file).ok()
    for words in ("'ask *:443' says no more than", "'ask-timeout 5' does not count",
                  "'ask x.example.org' never applies: it is denied by"):
        assert words in r.errtext, r
    o = why(user, "denied.example.net")
    assert (o["verdict"], o["reason"], o["rule"]["line"]) == ("ask", "ask", 2), o
    assert o["addresses"][0]["dialled"] and o["change"].startswith("to allow it: weir allow"), o
    o = why(user, "-a", "denied.example.net", "denied.example.net")
    assert [m["standing"] for m in o["matching"]] == ["decides", "beaten", "beaten"], o


def test_a_broken_file_is_told_and_left_alone(user):
    user.write("allow a.example.org\nalow b\n")
    r = user.weir("allow", "c.example.org")
    assert r.status == 125 and f"{user.file}:2:1: 'alow'" in r.errtext, r
    assert user.text() == "allow a.example.org\nalow b\n"


def test_a_symlink_stays_and_its_target_is_changed(user):
    w = user.world
    w.write(f"{user.home}/dots/weir-policy", "# dots\n", mode=0o600)
    w.mkdir(os.path.dirname(user.file), 0o700)
    os.symlink("../../dots/weir-policy", w.path(user.file))
    w.own(user.file)
    user.weir("allow", "a.example.org").ok()
    assert w.path(user.file).is_symlink()
    assert w.read(f"{user.home}/dots/weir-policy") == b"# dots\nallow a.example.org\n"


def test_a_file_others_can_write_is_refused(user):
    user.write("", mode=0o666)
    r = user.weir("allow", "a.example.org")
    assert r.status == 125 and "can be written by others" in r.errtext, r


def test_many_at_once_lose_nothing(user):
    ps = [user.spawn("allow", "-q", f"h{i}.example.org") for i in range(TWENTY)]
    for p in ps:
        r = p.finish()
        assert r.status == 0 and r.out == b"", r
    assert sorted(user.text().split("\n")[:-1]) == sorted(f"allow h{i}.example.org"
                                                          for i in range(TWENTY))


def test_allow_says_what_outweighs_it(user):
    admin = user.world.write("/etc/weir/policy", "deny bad.example.org\n", root=True)
    try:
        r = user.weir("allow", "bad.example.org").ok()
        assert "still denied" in r.errtext and "/etc/weir/policy:1" in r.errtext, r
        user.world.write(admin, "lock allow\n", root=True)
        r = user.weir("allow", "c.example.org").ok()
        assert "locked by /etc/weir/policy:1" in r.errtext, r
    finally:
        user.world.path(admin).unlink()
        user.world.path("/etc/weir").rmdir()


def test_running_sandboxes_that_follow_are_named(user):
    with user.spawn("run", "--name", "nb", "--", "sh", "-c", "echo up; read x") as run, \
            user.spawn("run", "--no-user-policy", "--name", "other", "--", "sh", "-c",
                       "echo up; read x") as other:
        assert run.readline() == b"up\n" and other.readline() == b"up\n"
        entries = user.world.path(user.world.runtime) / "weir"
        wait_until(lambda: len([e for e in entries.iterdir() if e.name[0] != "."]) == 2, 10,
                   "two runtime entries")
        r = user.weir("allow", "a.example.org").ok()
        lines = [ln for ln in r.text.splitlines() if ln.startswith("sandbox ")]
        assert len(lines) == 1 and re.match(r"sandbox [0-9a-f]{12} nb \(pid \d+, sh\) follows$",
                                            lines[0]), r


# --- trust ---

def test_trust_shows_asks_on_the_terminal_and_counts(user):
    user.trust_file("# p\nallow a.example.org\n")
    r = user.weir("policy", "show").ok()
    assert "weir trust" in r.errtext and "a.example.org" not in r.text, r
    argv = user.world.enter(user.project) + ["/srv/weir", "trust"]
    env = user.world.env(user.state, **user.env)
    for answer, trusted in (("", False), ("y", False), ("yes", True)):
        p = pexpect.spawn(argv[0], argv[1:], env=env, timeout=80, encoding="utf-8")
        p.expect_exact("allow a.example.org")
        p.expect_exact("type yes:")
        p.sendline(answer)
        p.expect(pexpect.EOF)
        p.close()
        assert p.exitstatus == (0 if trusted else 125)
        r = user.weir("policy", "show", "-q").ok()
        assert ("allow a.example.org" in r.text) is trusted, r


def test_trust_without_a_terminal_needs_yes(user):
    user.trust_file("allow a.example.org\n")
    r = user.weir("trust", start_new_session=True)
    assert r.status == 125 and "--yes" in r.errtext, r
    user.weir("trust", "--yes", start_new_session=True).ok()
    assert "a.example.org" in user.weir("policy", "show").ok().text
    user.weir("untrust").ok()
    assert "a.example.org" not in user.weir("policy", "show").ok().text


def test_e5_a_changed_project_file_is_not_read_and_says_so(user):
    user.trust_file("allow a.example.org\n")
    user.weir("trust", "--yes").ok()
    user.trust_file("allow a.example.org\nallow b.example.org\n")
    r = user.weir("policy", "show").ok()
    assert "has changed since it was trusted" in r.errtext, r
    assert "a.example.org" not in r.text and "b.example.org" not in r.text, r


def test_what_trust_shows_holds_no_control_sequence(user):
    user.world.write(f"{user.project}/.weir/policy", b"# \x1b[2J\xe2\x80\xae\n")
    r = user.weir("trust", "--yes")
    assert b"\x1b" not in r.out + r.err and "\u202e" not in r.text + r.errtext, r


@pytest.mark.parametrize("text", ["network allow\n", "on-unavailable allow\n", "lock allow\n",
                                  "nonsense\n"])
def test_what_would_not_be_read_cannot_be_trusted(user, text):
    user.trust_file(text)
    r = user.weir("trust", "--yes")
    assert r.status == 125 and ".weir/policy:1:" in r.errtext, r


# --- schemas ---

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(v, name):
    if name == "integer":
        return isinstance(v, int) and not isinstance(v, bool)
    return isinstance(v, TYPES[name])


def check(v, s, at="$"):
    """As much of JSON Schema as docs/schema uses; an unknown word is an error"""
    known = {"$schema", "title", "description", "type", "required", "additionalProperties",
             "properties", "items", "enum", "const", "anyOf", "minimum", "maximum", "minItems",
             "maxItems"}
    assert set(s) <= known, (at, set(s) - known)
    if "anyOf" in s:
        errors = []
        for one in s["anyOf"]:
            try:
                return check(v, one, at)
            except AssertionError as e:
                errors.append(e)
        raise AssertionError((at, errors))
    types = s.get("type", [])
    types = [types] if isinstance(types, str) else types
    assert not types or any(is_type(v, t) for t in types), (at, v, types)
    assert "enum" not in s or v in s["enum"], (at, v)
    assert "const" not in s or v == s["const"], (at, v)
    if is_type(v, "integer"):
        assert s.get("minimum", v) <= v <= s.get("maximum", v), (at, v)
    if isinstance(v, list):
        assert s.get("minItems", 0) <= len(v) <= s.get("maxItems", len(v)), (at, v)
        for i, x in enumerate(v):
            check(x, s.get("items", {}), f"{at}[{i}]")
    if isinstance(v, dict):
        assert set(s.get("required", [])) <= set(v), (at, v)
        for k, x in v.items():
            assert k in s.get("properties", {}) or s.get("additionalProperties") is not False, (at, k)
            check(x, s.get("properties", {}).get(k, {}), f"{at}.{k}")
    return None


def schema(name):
    return json.loads((ROOT / "docs" / "schema" / f"{name}.json").read_text(encoding="utf-8"))


def why(user, *args):
    o = json.loads(user.weir("policy", "why", "--json", *args).ok().text)
    check(o, schema("policy-why"))
    return o


def test_show_and_presets_print_what_their_schemas_say(user):
    admin = user.world.write("/etc/weir/policy", "lock deny\naudit off\n", root=True)
    user.write("allow a.example.org:1-9\nallow a.example.org:2\ndeny b.example.org\nread /none\n"
               "allow *:* private\nnetwork deny\nenv keep X\nallow 10.0.0.0/8\n")
    try:
        o = json.loads(user.weir("policy", "show", "--json", "-n", "allow", "-r", "/usr",
                                 "--preset", "none").ok().text)
        check(o, schema("policy-show"))
        assert {ln["state"] for ln in o["lines"]} == {"in force", "locked", "inactive", "overridden"}
        assert {"list": "absent", "path": "~/.ssh", "what": "ssh keys"} in o["fixed"]
        assert {f["list"] for f in o["fixed"]} == {"absent", "absent-root", "autorun", "dotfiles",
                                                   "toolchains"}
        text = user.weir("policy", "show", "-v").ok().text
        for f in o["fixed"]:
            assert f"#   {f['path']} " in text, f
        assert any(ln.get("repeats_line") == 1 for ln in o["lines"]), o
        check(json.loads(user.weir("policy", "presets", "--json").ok().text),
              schema("policy-presets"))
    finally:
        user.world.path(admin).unlink()
        user.world.path("/etc/weir").rmdir()


def test_the_schema_check_can_fail(user):
    o = why(user, "a.example.org")
    for key, bad in (("verdict", "maybe"), ("port", 0), ("rule", {}), ("extra", 1)):
        with pytest.raises(AssertionError):
            check({**o, key: bad}, schema("policy-why"))


# --- why ---

def test_e6_why_names_the_rule_what_it_beats_and_the_remedy(user):
    user.write("allow .example.org\n# x\nallow allowed.example.org private\nallow allowed.example.org:22\n")
    o = why(user, "https://allowed.example.org/x")
    assert (o["verdict"], o["reason"], o["rule"]["line"]) == ("allow", "rule", 3), o
    assert [(m["line"], m["standing"]) for m in o["matching"]] == [(3, "decides"), (1, "beaten"),
                                                                  (4, "other ports")], o
    assert o["addresses"][0]["addr"] == "93.184.216.34" and o["addresses"][0]["dialled"], o
    assert o["change"] == "to deny it: weir deny allowed.example.org:443", o
    text = user.weir("policy", "why", "allowed.example.org").ok().text
    assert f"{user.file}:3" in text and f"{user.file}:1" in text and "93.184.216.34" in text, text


def test_no_query_leaves_for_a_denied_name_unless_asked(user):
    mark = user.world.dns.mark()
    o = why(user, "denied.example.net")
    assert o["addresses"] is None and o["reason"] == "no_rule", o
    assert o["change"] == "to allow it: weir allow denied.example.net:443", o
    assert user.world.dns.names(mark) == []
    o = why(user, "--resolve", "denied.example.net")
    assert [a["addr"] for a in o["addresses"]] == ["93.184.216.36"], o
    assert not o["addresses"][0]["dialled"], o
    assert set(user.world.dns.names(mark)) == {"denied.example.net"}


@pytest.mark.parametrize("name,kind", [("lan.example.org", "private"), ("loop.example.org", "loopback"),
                                       ("meta.example.org", "link-local")])
def test_why_and_enforcement_agree_on_private_addresses(user, name, kind):
    user.write(f"allow {name}\n")
    o = why(user, f"{name}:80")
    assert o["verdict"] == "deny" and o["reason"] == "private_address", o
    assert o["addresses"][0]["class"] == kind, o
    r = user.weir("run", "--", "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"http://{name}/")
    assert r.text == "403", r
    v = verdicts(r.audit, name)
    assert v and v[-1]["reason"] == "private_address", v
    typed = re.search(r"weir (allow .*)", o["change"]).group(1)
    user.world.sh(f"XDG_CONFIG_HOME={user.home}/config XDG_STATE_HOME={user.state} /srv/weir {typed}",
                  ).check_returncode()
    assert why(user, f"{name}:80")["verdict"] == "allow"


def test_the_remedy_of_a_refusal_works_when_typed(user):
    r = user.weir("run", "--", "curl", "-s", "http://denied.example.net/")
    line = r.text.splitlines()[-1]
    assert line == "to allow it: weir allow denied.example.net:80", r
    user.weir("allow", "denied.example.net:80").ok()
    assert why(user, "http://denied.example.net/")["verdict"] == "allow"
    user.weir("deny", "denied.example.net").ok()
    r = user.weir("run", "--", "curl", "-s", "http://denied.example.net/")
    assert "weir forget denied.example.net" in r.text.splitlines()[-1], r


def test_why_suggests_no_rule_where_no_rule_counts(user):
    user.write("# mine\nnetwork deny\n")
    assert why(user, "a.example.org")["change"] == \
        f"to change it: {user.file}:2: 'network deny' has to say 'network allowlist'; no rule counts before"
    assert "leave --network out" in why(user, "-n", "allow", "a.example.org")["change"]


def test_why_takes_a_host_behind_two_dashes(user):
    assert why(user, "--", "pypi.org")["host"] == "pypi.org"
    r = user.weir("policy", "why", "pypi.org", "--", "-q")
    assert r.status == 125 and "'-q'" in r.errtext, r


def test_localhost_without_a_rule_is_known_to_be_private(user):
    o = why(user, "x.localhost:8080")
    assert o["reason"] == "private_address" and "'x.localhost:8080 private'" in o["change"], o
    r = user.weir("run", "--", "curl", "-si", "--noproxy", "", "-x",
                  "http://127.0.0.1:3128", "http://localhost:8080/")
    assert " 403 " in r.text and "private_address" in r.text and "weir allow 'localhost:8080 private'" in r.text, r


def test_why_names_the_lock(user):
    admin = user.world.write("/etc/weir/policy", "lock allow\n", root=True)
    user.write("allow a.example.org\n")
    try:
        o = why(user, "a.example.org")
        assert o["reason"] == "no_rule" and o["matching"][0]["standing"] == "locked", o
        assert o["matching"][0]["locked_by_line"] == 1 and "/etc/weir/policy:1" in o["change"], o
        r = user.weir("policy", "why", "-a", "a.example.org", "a.example.org")
        assert r.status == 125 and "locked by /etc/weir/policy:1" in r.errtext, r
    finally:
        user.world.path(admin).unlink()
        user.world.path("/etc/weir").rmdir()


@pytest.mark.parametrize("bad", ["*", ".a.example.org", "a.example.org:1-2", "10.0.0.0/8", "a..b", "127.1"])
def test_why_takes_one_host(user, bad):
    r = user.weir("policy", "why", bad)
    assert r.status == 125 and r.errtext.startswith("weir: ") and r.out == b"", r


# --- import ---

def test_imported_settings_are_a_policy(user):
    path = user.world.write(f"{user.home}/s.json", """{ // srt
  "network": {"allowedDomains": ["allowed.example.org", "*.com"], "deniedDomains": ["x.example.org"]},
  "filesystem": {"allowWrite": ["."], "denyRead": ["~/.ssh"], "denyWrite": []},
}""")
    r = user.weir("policy", "import", path).ok()
    assert "\nallow allowed.example.org:*\n" in r.text and "\ndeny x.example.org\n" in r.text, r
    assert "# no equivalent: network.allowedDomains \"*.com\"" in r.text, r
    user.write(r.text)
    assert why(user, "allowed.example.org:9")["verdict"] == "allow"
    r = user.weir("policy", "import", user.file)
    assert r.status == 125 and "not JSON" in r.errtext, r


# --- check ---

def test_check_tells_lines_that_say_nothing(user):
    path = user.world.write(f"{user.home}/p", "allow a.example.org\nallow a.example.org:443\n"
                            "deny .b.example.org\nallow x.b.example.org\n")
    r = user.weir("policy", "check", path).ok()
    lines = r.errtext.splitlines()
    assert len(lines) == 2 and f"{path}:2: " in lines[0] and f"{path}:4: " in lines[1], r


def test_a_suffix_word_that_is_not_there_yet_is_added(user):
    user.weir("allow", "h.example.org private").ok()
    r = user.weir("allow", "h.example.org no-sni").ok()
    assert "added: allow h.example.org no-sni" in r.text, r
    r = user.weir("allow", "h.example.org no-sni").ok()
    assert "added" not in r.text, r
