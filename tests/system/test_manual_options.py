# SPDX-License-Identifier: ISC
"""Every option that the code reads is in --help and in the manual, with or without a value as it is
there, and neither names one that the code does not read."""
import re

import pytest

from world import ROOT

CLI = ROOT / "broker" / "cli"
PAGE = (ROOT / "docs" / "weir.1").read_text(encoding="utf-8")
KERNELSPEC = (ROOT / "docs" / "weir-kernelspec.1").read_text(encoding="utf-8")
HELP = "--help"


def source(name):
    return (CLI / name).read_text(encoding="utf-8")


ROW = re.compile(r'^\t\{ "(--[a-z-]+)", (0|\'.\'), [A-Z]+, ([A-Z_ |]+), (NULL|"[^"]+"),', re.M)
ALL = "OF_RUN | OF_PROXY | OF_SHOW"


def rows(*of):
    """Options of the table: name -> (letter, takes a value)"""
    out = {}
    for name, letter, bits, value in ROW.findall(source("options.c")):
        if set(of) & set(bits.replace("ALL", ALL).split(" | ")):
            out[name] = (letter.strip("'") if letter != "0" else "", value != "NULL")
    return out


def longs(name):
    """The options of a file with a getopt table of its own"""
    return {"--" + o: ("", kind == "required") for o, kind in
            re.findall(r'\{ "([a-z-]+)", (no|required)_argument,', source(name))}


def compared(name):
    """The options of a file that compares words"""
    return {o: ("", False) for o in re.findall(r'"(--[a-z][a-z-]*)"', source(name))}


def kernelspec():
    out = compared("kernelspec_cmd.c")
    del out["--connection-file"]    # that of weir run, which it refuses
    return {o: ("", o in ("--from", "--display-name")) for o in out}


PS = {"--json": ("", False), HELP: ("", False)}
KILL = {"--now": ("", False), HELP: ("", False)}
# the command line -> its options as the code has them
COMMANDS = {
    "run": rows("OF_RUN"), "shell": rows("OF_RUN"), "proxy": rows("OF_PROXY"),
    "test": rows("OF_SHOW"), "doctor": rows("OF_DOCTOR"), "policy show": rows("OF_SHOW", "OF_WHY"),
    "audit": longs("audit_cmd.c"), "cache": longs("cache_cmd.c"), "connect": longs("connect.c"),
    "approve": compared("approve.c"), "allow": compared("edit_cmd.c"), "trust": compared("trust_cmd.c"),
    "ps": PS, "kill": KILL, "kernelspec": kernelspec(),
}
WORD = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def test_the_tables_are_found_in_the_source():
    table = source("options.c").split("static const struct row rows[] = {")[1].split("/* clang-format on")[0]
    assert len(ROW.findall(table)) == len(re.findall(r'^\t\{ "', table, re.M)) > 30
    for name in ("audit_cmd.c", "cache_cmd.c", "connect.c"):
        assert len(longs(name)) == source(name).count("_argument,"), name
    for name in CLI.glob("*.c"):
        known = {"options.c", "audit_cmd.c", "cache_cmd.c", "connect.c"}
        assert name.name in known or "_argument," not in name.read_text(encoding="utf-8"), \
            f"{name.name} has a table that is not compared here"
    assert compared("ps.c").keys() == {*PS, *KILL}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_what_the_command_takes_and_nothing_else(world, command):
    text = world.weir(*command.split(), HELP).ok().text
    told = set(WORD.findall(text))
    # words about other commands, and of examples
    told -= {"kernelspec": {"--preset", "--allow"}, "audit": {"--name"}, "kill": {"--name"},
             "test": {"--status-fd"}, "policy show": {"--status-fd"}}.get(command, set())
    assert told | {HELP} == set(COMMANDS[command]) | {HELP}, told ^ set(COMMANDS[command])
    for name, (letter, takes) in COMMANDS[command].items():
        line = re.search(rf"^  (?:-(.), |    ){re.escape(name)}( \S.*?)?(?:  |$|\n)", text + "\n", re.M)
        if line and name != HELP:
            assert not letter or line.group(1) == letter, line
            assert bool((line.group(2) or "").strip()) == takes or command in ("allow", "trust"), line.group()


@pytest.mark.parametrize("command", ["run", "shell", "proxy", "test", "doctor", "policy show", "audit", "cache",
                                     "kernelspec", "ps", "kill", "approve"])
def test_each_option_is_explained_on_a_line_of_its_own(world, command):
    text = world.weir(*command.split(), HELP).ok().text
    for name in COMMANDS[command]:
        assert re.search(rf"^ +(-\w, +)?{re.escape(name)}\b", text, re.M), (command, name)


# ---- the manual ----

def items(text):
    """.It Fl lines: name -> (letter, takes a value)"""
    out = {}
    for line in re.findall(r"^\.It (Fl .*)$", text, re.M):
        m = re.fullmatch(r"(?:Fl (\w)(?: , ))?Fl (-[a-z-]+)( .+)?", line)
        assert m, line
        letter, name, rest = m.groups()
        out["-" + name] = (letter or "", rest is not None)
    return out


def section(title, page=PAGE):
    at = page.index(f"\n{title}\n")
    end = re.search(r"^\.S[sh] ", page[at + len(title) + 2:], re.M)
    return page[at:at + len(title) + 2 + end.start()]


def synopsis(command, page=PAGE):
    """The options of one .Nm block"""
    text = section(".Sh SYNOPSIS", page)
    out = set()
    for block in re.split(r"^\.Nm(?: weir)?$", text, flags=re.M):
        if block.split("\n")[1:2] and block.split("\n")[1].startswith(f".Cm {command}"):
            for words in re.findall(r"\bFl ((?:-[a-z-]+|[a-z]+)(?: \| -[a-z-]+)*)", block):
                for w in words.split(" | "):
                    out |= {"-" + w} if w.startswith("-") else {"-" + c for c in w}
    return out


def test_the_options_of_run_are_those_of_the_manual():
    assert items(section(".Ss Options of run")) == \
        {k: v for k, v in COMMANDS["run"].items() if k != HELP} | {HELP: ("", False)}


def test_the_options_of_proxy_are_those_of_the_manual():
    own = {k: v for k, v in rows("OF_PROXY").items() if k not in rows("OF_RUN")}
    assert items(section(".Ss Proxy")) == own


@pytest.mark.parametrize("command, words", [
    ("audit", "audit"), ("cache", "cache"), ("approve", "approve"), ("trust", "trust"), ("ps", "ps"), ("kill", "kill"),
    ("doctor", "doctor"), ("connect", "connect")])
def test_the_synopsis_has_every_option(command, words):
    assert synopsis(words) == set(COMMANDS[command]) - {HELP}


def test_policy_commands_name_what_run_does_not_have():
    assert synopsis("policy show") == {"--json"} == \
        set(rows("OF_SHOW")) - set(rows("OF_RUN")) == synopsis("test")
    assert synopsis("policy why") == set(rows("OF_SHOW", "OF_WHY")) - set(rows("OF_RUN"))
    assert synopsis("allow") == {"-q"}


def test_kernelspec_has_a_page_with_all_of_its_options():
    own = {k: v for k, v in COMMANDS["kernelspec"].items() if k != HELP}
    assert items(KERNELSPEC) == own
    assert synopsis("kernelspec", KERNELSPEC) == set(own)


def test_no_other_option_is_spoken_of():
    """in running text, of either page: a name that was changed, or taken out"""
    known = {o for c in COMMANDS.values() for o in c} | {"--version"}
    letters = {"-" + v[0] for c in COMMANDS.values() for v in c.values() if v[0]} | {"-q"}
    for page in (PAGE, KERNELSPEC):
        text = re.sub(r"Nm b2sum Fl l\b", "", page)
        for w in re.findall(r"\bFl (-?[a-zA-Z][a-z-]*)", text):
            assert "-" + w in known | letters or w == "qv", w
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for w in re.findall(r"weir \w+[^`\n]*", text):
            before = w.split(" -- ")[0]
            for o in WORD.findall(before):
                assert o in known, (page.name, w)
