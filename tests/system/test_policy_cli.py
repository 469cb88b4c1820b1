# SPDX-License-Identifier: ISC
"""Policy text and the command line: every bad line is told with file, line, column and what was
expected, and nothing runs (E1, SPEC 3; H17, H27, H29)."""
import json
import os

import pytest

from world import without

BAD = [	# (line, column of the bad word, a word of the message)
    ("allow", 1, "target"),
    ("alow pypi.org", 1, "allow"),		# suggests the nearest
    ("netwrok deny", 1, "network"),
    ("nonsense", 1, "nonsense"),
    ("ALLOW pypi.org", 1, "allow"),
    ("allow .", 7, "."),
    ('allow ""', 7, ""),
    ("allow *.com", 7, "public suffix"),
    ("allow .com", 7, "public suffix"),
    ("allow .co.uk", 7, "public suffix"),
    ("allow *.co.uk", 7, "public suffix"),
    ("allow .github.io:443 private privat", 30, "private"),
    ("allow a..b", 7, "a..b"),
    ("allow .a..b", 7, ".a..b"),
    ("allow a.*.b", 7, "a.*.b"),
    ("allow a*.b.org", 7, "a*.b.org"),
    ("allow **.b.org", 7, "**.b.org"),
    ("allow https://pypi.org/simple", 7, "URL"),
    ("allow user@pypi.org", 7, "user"),
    ("allow pypi.org/simple", 7, "pypi.org/simple"),
    ("allow pypi%2eorg", 7, "pypi%2eorg"),
    ("allow " + "a" * 64 + ".org", 7, "label"),
    ("allow " + "a." * 130 + "org", 7, ""),
    ("allow -a.org", 7, "-a.org"),
    ("allow 127.1", 7, "127.1"),
    ("allow 0x7f.1", 7, "0x7f.1"),
    ("allow 2130706433", 7, "2130706433"),
    ("allow 0177.0.0.1", 7, "0177.0.0.1"),
    ("allow 10.0.0.1/8", 7, "10.0.0.1/8"),
    ("allow 10.0.0.0/33", 7, "10.0.0.0/33"),
    ("allow [10.0.0.1]", 7, "[10.0.0.1]"),
    ("allow [fe80::1%lo]", 7, "zone"),
    ("allow [::1", 7, "[::1"),
    ("allow ::1", 7, "brackets"),
    ("allow pypi.org:", 16, "port"),
    ("allow pypi.org:0", 16, "port"),
    ("allow pypi.org:65536", 16, "65536"),
    ("allow pypi.org:http", 16, "http"),
    ("allow pypi.org:443,", 20, "port"),
    ("allow pypi.org:80-", 16, "80-"),
    ("allow pypi.org:90-80", 16, "90-80"),
    ("allow pypi.org:443 no-snip", 20, "no-sni"),
    ("allow pypi.org publik", 16, "publik"),
    ("deny pypi.org private", 15, "private"),
    ("ask pypi.org pls", 14, "private"),
    ("ask-timeout 0", 13, "3600"),
    ("hide ~/x always", 10, "always"),
    ("socket", 1, "path"),
    ("device gpu gpu", 12, "end"),
    ("publish 8888x", 9, "[ADDRESS:]PORT"),
    ("publish 3128", 9, "proxy"),
    ("reach 5432:70000", 7, "PORT[:PORT OF THE HOST]"),
    ("upstream ftp://proxy.example.org:8080", 10, "http://"),
    ("nested maybe", 8, "yes"),
    ("network", 1, "allowlist"),
    ("network maybe", 9, "maybe"),
    ("network deny deny", 14, "deny"),
    ("route direct", 7, "transparent"),
    ("include", 1, "preset"),
    ("include no-such-preset", 9, "no-such-preset"),
    ("include pyhton", 9, "python"),
    ("include /etc/passwd", 9, "/etc/passwd"),
    ("limit", 1, "connections"),
    ("limit connections", 7, "number"),
    ("limit connections 0", 19, "0"),
    ("limit connections 65537", 19, "65537"),
    ("limit connections -1", 19, "-1"),
    ("limit connections 1e3", 19, "1e3"),
    ("limit pids x", 12, "processes"),
    ("limit memory 1", 14, "512M"),
    ("limit time 10", 7, "time"),
    ("audit client now", 14, "end of the line"),
    ("audit maybe", 7, "maybe"),
    ("on-unavailable maybe", 16, "maybe"),
    ("env", 1, "keep"),
    ("env drop X", 5, "drop"),
    ("env set X", 9, "X"),
    ("env keep X=Y", 10, "X=Y"),
    ("env set 1X=Y", 9, "1X=Y"),
    ("read", 1, "path"),
    ("read ~other/x", 6, "~other/x"),
    ("read /a /b", 9, "/b"),
    ("lock allow", 1, "lock"),			# administrator's file only
    ('allow "pypi.org', 7, "closed"),
    ('allow pypi"org', 11, "quotes"),
    ("allow pypi.org\r", 15, "0x0d"),
    ("allow pypi.org\x00", 15, "0x00"),
    ("allow py\x1bpi.org", 9, "0x1b"),
    ("\tallow\tpypi.org\tpublik", 17, "publik"),
]


@pytest.mark.parametrize("line,column,word", BAD, ids=[repr(b[0])[:60] for b in BAD])
def test_e1_h17_every_bad_line_is_told_with_file_line_and_column(world, line, column, word):
    """H17: rules are validated when written; nothing is silently inert"""
    text = "# a comment\n\nallow good.example.org\n" + line + "\nallow later.example.org\n"
    path = world.write(f"{world.home}/bad.policy", text)
    r = world.weir("policy", "check", path)
    assert r.status != 0, r
    first = r.errtext.splitlines()[0]
    assert first.startswith(f"weir: {path}:4:{column}: "), first
    assert word in r.errtext, r
    assert not any(c < 32 and c != 10 or c == 127 for c in r.err), "a raw control byte was printed"


def test_e1_nothing_runs_with_a_bad_policy(world):
    path = world.write(f"{world.home}/bad.policy", "allow *.com\n")
    cwd = world.project()
    for args in (["-p", path], ["--allow", "*.com"], ["--allow", "a.example.org privat"]):
        r = world.weir("run", *args, "--", "touch", "ran", cwd=cwd)
        assert r.status == 125 and "weir:" in r.errtext, r
        assert not world.path(f"{cwd}/ran").exists()
        assert not r.audit_path.exists(), "something was created"


def test_e1_the_users_file_is_checked_at_every_run(world):
    path = world.write(f"{world.home}/.config/weir/policy", "allow ok.example.org\nnetwork maybe\n")
    try:
        r = world.weir("run", "--", "true")
        assert r.status == 125 and f"{path}:2:9: 'maybe'" in r.errtext, r
        assert world.weir("run", "--no-user-policy", "--", "true").status == 0
    finally:
        world.path(path).unlink()


def test_e1_the_administrators_file_is_checked_too(world):
    path = world.write("/etc/weir/policy", "read relative/path\n", root=True)
    try:
        r = world.weir("run", "--no-user-policy", "--", "true")
        assert r.status == 125 and f"{path}:1:6: " in r.errtext, r
    finally:
        world.path(path).unlink()
        world.path("/etc/weir").rmdir()


def test_e1_policy_check_accepts_what_spec_allows(world):
    good = """
# comment
allow pypi.org
allow .ebi.ac.uk:443   # trailing comment
allow *.ncbi.nlm.nih.gov:80,443,8000-8010
allow *:443
allow db.lab.example private
allow 10.1.0.0/16:22
allow [fd00::/8]:443
allow Bücher.example
allow UPPER.Example.org.
allow under_score.example.org:*
deny .com
deny *
include python
include none
network allowlist
route both
view project
home private
read /usr/share
write "~/with space"
env keep CUDA_VISIBLE_DEVICES
env set PIP_INDEX_URL=https://example.org/simple
limit connections 65536
audit required
audit optional
audit ~/audit.jsonl
on-unavailable error
"""
    path = world.write(f"{world.home}/good.policy", good)
    world.weir("policy", "check", path).ok()


def test_e1_policy_check_of_what_is_not_a_file(world):
    for path in ("/nonexistent", world.home):
        r = world.weir("policy", "check", path)
        assert r.status != 0 and path in r.errtext, r
    r = world.weir("policy", "check")
    assert r.status != 0 and r.err, r


def test_e1_a_huge_file_and_a_huge_line_are_refused(world):
    path = world.write(f"{world.home}/huge.policy", "allow " + "a" * 5000 + "\n")
    r = world.weir("policy", "check", path)
    assert r.status != 0 and ":1:" in r.errtext, r
    path = world.write(f"{world.home}/huge.policy", "# x\n" * 600_000)
    assert world.weir("policy", "check", path).status != 0


def test_policy_show_names_the_origin_of_every_line(world):
    path = world.write(f"{world.home}/more.policy",
                       "allow more.example.org\ndeny bad.example.org\n")
    r = world.weir("policy", "show", "-p", path, "--allow", "flag.example.org:8443").ok()
    assert f"{path}:1" in r.text and f"{path}:2" in r.text, r
    assert "flag.example.org" in r.text and "--allow" in r.text, r
    assert "builtin" in r.text and "pypi.org" in r.text, r	# default lies beneath
    json.loads(world.weir("policy", "show", "--json", "-p", path).ok().text)


def test_policy_show_default_goes_with_include_none(world):
    r = world.weir("policy", "show", "--preset", "none").ok()
    names = [f["path"] for f in json.loads(world.weir("policy", "show", "--json").ok().text)["fixed"]]
    short, long = r.text.splitlines(), world.weir("policy", "show", "-v").ok().text.splitlines()
    shown = ", ".join(ln[4:].rstrip(",") for ln in short if ln.startswith("#   ")).split(", ")
    assert shown[-len(names):] == names and len(short) < 130 and max(map(len, short)) <= 101, r
    assert [ln for ln in long if ln.startswith("#   ~/.ssh ") and ln.endswith(" ssh keys")]
    assert len(long) > len(names)
    assert "pypi.org" not in r.text, r


def test_one_rule_does_not_take_the_default_away(world):
    """H27: flags and files add, they never replace"""
    r = world.weir("policy", "show", "--allow", "example.org").ok()
    assert "files.pythonhosted.org" in r.text and "example.org" in r.text


def test_policy_presets_lists_the_five(world):
    r = world.weir("policy", "presets").ok()
    for name in ("python", "r", "science", "default", "none"):
        assert any(ln.split()[:1] == [name] for ln in r.text.splitlines()), r


@pytest.mark.parametrize("option", [
    ["--tty", "sometimes"],
    ["--write-anyway"], ["--ask-on", "approve"]])
def test_options_of_later_are_refused_by_name(world, option):
    r = world.run(*option, "--", "true")
    assert r.status == 125 and (option[-1] in r.errtext or option[0] in r.errtext), r


def test_an_unknown_command_and_option_suggest_the_nearest(world):
    assert "run" in world.weir("rn", "--", "true").errtext
    assert "--allow" in world.weir("run", "--alow", "x.example.org", "--", "true").errtext


def test_help_and_version(world):
    for args in (["--help"], ["run", "--help"], ["policy", "--help"], ["allow", "--help"],
                 ["forget", "--help"], ["ask", "--help"], ["approve", "--help"], ["trust", "--help"], ["test", "--help"],
                 ["--version"]):
        r = world.weir(*args).ok()
        assert r.text and not r.err, r
    text = world.weir("run", "--help").text
    for o in ("--allow", "--deny", "--network", "--route", "--policy", "--preset", "--read",
              "--write", "--chdir", "--name", "--env", "--keep-env", "--keep-fd", "--audit",
              "--status-fd", "--on-unavailable", "--no-user-policy"):
        assert o in text, o


def test_layers_the_later_wins_and_union(world):
    admin = world.write("/etc/weir/policy", "network deny\naudit required\n", root=True)
    try:
        r = world.weir("run", "--audit", "optional", "--", "true")
        assert r.status == 125 and "audit" in r.errtext, r
        r = world.weir("run", "--audit", "off", "--", "true")
        assert r.status == 125, r
        r = world.run("--", "env")
        assert "HTTP_PROXY" not in r.ok().text
        r = world.run("-n", "allowlist", "--", "env")
        assert "HTTP_PROXY=http://127.0.0.1:3128" in r.ok().text
        world.write(admin, "network deny\nlock network deny\n", root=True)
        r = world.run("-n", "allow", "--", "true")
        assert r.status == 125 and "lock" in r.errtext, r
    finally:
        world.path(admin).unlink()
        world.path("/etc/weir").rmdir()


def test_a_projects_policy_is_not_read_and_that_is_said_once(world):
    cwd = world.project()
    world.write(f"{cwd}/.weir/policy", "allow *\nnetwork allow\nnonsense line\n")
    r = world.run("--", "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}",
                  "http://denied.example.net/", cwd=cwd)
    assert r.text == "403", r
    assert sum(".weir/policy" in ln for ln in r.errtext.splitlines()) == 1, r


def test_a_projects_weir_directory_is_read_only(world):
    cwd = world.project()
    world.write(f"{cwd}/.weir/policy", "allow x.example.org\n")
    r = world.run("--", "sh", "-c", "echo allow '*' >> .weir/policy; mv .weir x; rm -rf .weir",
                  cwd=cwd)
    assert r.status != 0
    assert world.read(f"{cwd}/.weir/policy") == b"allow x.example.org\n"


@pytest.mark.parametrize("kind", ["user", "net", "mnt", "pid"])
@pytest.mark.parametrize("word,lines", [("warn", 3), ("allow", 0)])
def test_on_unavailable_is_all_or_nothing_and_only_when_asked(world, word, lines, kind):
    r = world.run("--", "sh", "-c", "echo ran", prefix=without(kind))
    assert r.status == 125 and "ran" not in r.text, r
    assert r.errtext.startswith("weir: ") and "namespace" in r.errtext and "fix:" in r.errtext, r
    r = world.run("--on-unavailable", word, "--", "sh", "-c", "echo ran", prefix=without(kind))
    assert r.status == 0 and r.text == "ran\n", r
    assert len(r.errtext.splitlines()) == lines, r
    assert r.audit, "the run without a sandbox is on record"


def test_on_unavailable_is_not_for_a_command_that_cannot_run(world):
    """Only what this machine lacks counts: not a bad policy, not a missing command"""
    assert world.run("--on-unavailable", "allow", "--", "/no/such").status == 127
    assert world.run("--on-unavailable", "allow", "-a", "*.com", "--", "true").status == 125


def test_weir_works_from_any_place(world):
    """build/weir alone, copied below /tmp"""
    world.write("/tmp/elsewhere/my weir", world.path("/srv/weir").read_bytes(), 0o755)
    p = world.sh("'/tmp/elsewhere/my weir' run -- sh -c '/run/weir/weir --version && exit 6'")
    assert p.returncode == 6, p


def test_setuid_weir_refuses(world):
    if os.geteuid() != 0:
        pytest.skip("making a setuid program of another user needs root")
    world.write("/srv/setuid", world.path("/srv/weir").read_bytes(), 0o4755, root=True)
    p = world.sh("/srv/setuid run -- true")
    assert p.returncode == 125 and b"setuid" in p.stderr, p
