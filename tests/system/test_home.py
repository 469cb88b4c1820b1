# SPDX-License-Identifier: ISC
"""The home directory inside: harmless dotfiles, home keep, the project's cache (SPEC 6, 11)."""
import json
import os

import pytest

from test_policy_commands import check, schema

SECRET = "do-not-show-this-secret"


def read(sb, path):
    return sb.py("""
        p = os.path.expanduser(path)
        result = open(p).read() if os.path.exists(p) else None
    """, path=path)


# ---- dotfiles ----

HARMLESS = {
    ".gitconfig": "[user]\n\tname = Ada\n", ".config/git/ignore": "*.o\n",
    ".inputrc": "set bell-style none\n", ".vimrc": "set nocp\n",
    ".config/nvim/init.lua": "vim.o.nu = true\n", ".tmux.conf": "set -g mouse on\n",
    ".config/matplotlib/matplotlibrc": "backend: agg\n", ".Rprofile": "options(digits = 4)\n",
    ".jupyter/jupyter_lab_config.py": "c.ServerApp.open_browser = False\n",
    ".ipython/profile_default/ipython_config.py": "c.InteractiveShell.colors = 'NoColor'\n",
}
ABSENT = {	# not on the list, or with something in it that looks like a secret
    ".bashrc": "alias x=y\n", ".Renviron": "A=b\n", ".config/git/config":
    f"[http]\n\textraHeader = Authorization: Basic {SECRET}\n",
    ".config/git/attributes": f"# https://ada:{SECRET}@git.example/x\n",
    ".jupyter/jupyter_server_config.py": f"c.ServerApp.token = '{SECRET}'\n",
    ".ipython/profile_default/startup.py": f"PASSWORD: '{SECRET}'\n",
    ".jupyter/migrated": "x\n",
}


def test_harmless_dotfiles_are_copied_and_others_are_not_there(fresh):
    for name, text in {**HARMLESS, **ABSENT}.items():
        fresh.write(f"{fresh.home}/{name}", text)
    with fresh.inside("-v") as sb:
        for name, text in HARMLESS.items():
            assert read(sb, f"~/{name}") == text, name
        for name in ABSENT:
            assert read(sb, f"~/{name}") is None, name
        sb.py("open(os.path.expanduser('~/.vimrc'), 'a').write('changed')")
        done = sb.close()
    assert "'~/.config/git/config' is left out: line 2 looks like a secret" in done.errtext, done
    assert ".bashrc" not in done.errtext and SECRET not in done.errtext, done
    assert fresh.read(f"{fresh.home}/.vimrc") == b"set nocp\n"


def test_d6_symlinked_dotfiles_are_followed_within_home_and_never_to_a_credential(fresh):
    w, home = fresh, fresh.home
    w.write(f"{home}/dots/gitconfig", "[user]\n\tname = Ada\n")
    w.write(f"{home}/.ssh/config", "Host x\n")
    w.write("/srv/elsewhere/vimrc", "set nocp\n")
    w.write(f"{home}/dots/nvim/init.vim", "set nu\n")
    w.mkdir(f"{home}/.config")
    for name, to in ((".gitconfig", "dots/gitconfig"), (".inputrc", f"{home}/.ssh/config"),
                     (".vimrc", "/srv/elsewhere/vimrc"), (".config/nvim", f"{home}/dots/nvim"),
                     (".Rprofile", "/proc/self/environ"), (".tmux.conf", "nowhere")):
        os.symlink(to, w.path(f"{home}/{name}"))
    os.mkfifo(w.path(f"{home}/dots/nvim/init.lua"))
    with w.inside("-v") as sb:
        assert read(sb, "~/.gitconfig") == "[user]\n\tname = Ada\n"
        assert sb.py("result = os.path.islink(os.path.expanduser('~/.gitconfig'))") is False
        assert read(sb, "~/.config/nvim/init.vim") == "set nu\n"
        for name in (".inputrc", ".vimrc", ".Rprofile", ".tmux.conf", ".config/nvim/init.lua"):
            assert sb.py("result = os.path.lexists(os.path.expanduser(p))", p=f"~/{name}") is False
        done = sb.close()
    assert f"'~/.inputrc' is left out: it leads to '{home}/.ssh/config': ssh keys" in done.errtext


def test_a_dotfile_line_adds_one_but_no_credential(fresh):
    fresh.write(f"{fresh.home}/.config/tool/rc", "colour = blue\n")
    fresh.write(f"{fresh.home}/.toolrc", f"token = {SECRET}\n")
    fresh.write(f"{fresh.home}/.netrc", f"machine x password {SECRET}\n")
    fresh.write("/srv/p", "dotfile .config/tool/rc\ndotfile ~/.toolrc\ndotfile .missing\n")
    r = fresh.run("-p", "/srv/p", "--", "sh", "-c", "cat ~/.config/tool/rc; ls -a ~").ok()
    assert r.text.startswith("colour = blue\n") and ".toolrc" not in r.text, r
    assert "'~/.toolrc' is left out: line 1 looks like a secret" in r.errtext, r
    for bad, why in (("dotfile .netrc\n", "'~/.netrc' cannot be copied: passwords of hosts"),
                     ("dotfile .ssh/id\n", "ssh keys"), ("dotfile ../x\n", "expected a file below"),
                     ("dotfile /etc/x\n", "expected a file below"), ("dotfile a//b\n", "expected")):
        fresh.write("/srv/p", bad)
        r = fresh.run("-p", "/srv/p", "--", "true")
        assert r.status == 125 and why in r.errtext and "/srv/p:1" in r.errtext, r


# ---- the cache ----

def key_of(world, project):
    import hashlib
    return hashlib.blake2b(project.encode(), digest_size=32).hexdigest()[:16]


def test_the_cache_of_a_project_stays_and_anothers_is_not_reached(fresh):
    a, b = fresh.project(), fresh.project()
    fresh.run("--", "sh", "-c", "echo mine > ~/.cache/x; echo gone > ~/y", cwd=a).ok()
    r = fresh.run("--", "sh", "-c", "cat ~/.cache/x; ls ~", cwd=a).ok()
    assert r.text == "mine\nwork\n", r
    base = f"{fresh.home}/.cache/weir"
    key = key_of(fresh, a)
    assert fresh.read(f"{base}/{key}/x") == b"mine\n"
    assert fresh.read(f"{base}/{key}/project").decode() == a + "\n"
    assert fresh.path(f"{base}/{key}").stat().st_mode & 0o7777 == 0o700
    r = fresh.run("--", "sh", "-c", f"ls ~/.cache {base} {base}/{key}; find / -name x -size -2 "
                  "-path '*cache*' 2>/dev/null", cwd=b)
    assert "mine" not in r.text and "x\n" not in r.text, r
    for flag in ("-r", "-w"):
        r = fresh.run(flag, f"{base}/{key}", "--", "true", cwd=b)
        assert r.status == 125 and "weir's own files" in r.errtext, r
    fresh.write("/srv/off", "cache off\n")
    r = fresh.run("-p", "/srv/off", "--", "sh", "-c", "ls -A ~ ~/.cache; echo ok >$XDG_CACHE_HOME/x && "
                  "cat ~/.cache/x", cwd=a).ok()
    assert r.text == f"{fresh.home}:\n.cache\nwork\n\n{fresh.home}/.cache:\nok\n", r


def test_a_cache_that_the_command_has_prepared_leads_nowhere(fresh):
    """links and a false name in the cache: weir writes and reads beside none of them"""
    d = fresh.project()
    target = fresh.write(f"{fresh.home}/target", "untouched\n")
    fresh.run("--", "sh", "-c", f"cd ~/.cache && rm project && ln -s {target} project", cwd=d).ok()
    fresh.run("--", "true", cwd=d).ok()
    assert fresh.read(target) == b"untouched\n"
    fresh.run("--", "sh", "-c", "cd ~/.cache && rm -f project && echo /etc/other > project && "
              f"ln -s {fresh.home}/.. up", cwd=d).ok()
    r = fresh.weir("cache", "list")
    assert "(not known)" in r.text and "other" not in r.text, r
    fresh.run("--", "true", cwd=d).ok()
    assert d in fresh.weir("cache", "list").text


def test_cache_list_and_prune(fresh):
    a, b = fresh.project(), fresh.project()
    fresh.run("--", "sh", "-c", "head -c 3000000 /dev/zero > ~/.cache/big; mkdir -m 500 ~/.cache/ro",
              cwd=a).ok()
    fresh.run("--home", "keep", "--", "sh", "-c", "echo kept > ~/kept", cwd=b).ok()
    listed = json.loads(fresh.weir("cache", "list", "--json").ok().text)
    check(listed, schema("cache"))
    rows = {(r["project"], r["kind"]): r for r in listed}
    assert set(rows) == {(a, "cache"), (b, "cache"), (b, "home")}, rows
    assert 2900000 < rows[(a, "cache")]["bytes"] < 3200000 and rows[(a, "cache")]["files"] == 3
    os.rmdir(fresh.path(b))
    with fresh.inside(cwd=a) as sb:
        sb.py("result = 1")
        text = fresh.weir("cache", "list").ok().text
        assert f"{a} (in use)" in text and f"{b} (gone)" in text, text
        r = fresh.weir("cache", "prune", a)
        assert r.status == 1 and "a sandbox runs with it" in r.errtext, r
        r = fresh.weir("cache", "prune").ok()
        assert b in r.text and a not in r.text, r
        assert sb.py("result = os.path.getsize(os.path.expanduser('~/.cache/big'))") == 3000000
        sb.close()
    assert os.listdir(fresh.path(f"{fresh.home}/.cache/weir")) == [key_of(fresh, a)]
    assert fresh.weir("cache", "prune", a).ok().text.count(a) == 1
    assert os.listdir(fresh.path(f"{fresh.home}/.cache/weir")) == []
    r = fresh.weir("cache", "prune", a)
    assert r.status == 125 and "nothing is kept" in r.errtext, r
    for words in (["cache"], ["cache", "x"], ["cache", "list", "--all"], ["cache", "list", "x"],
                  ["cache", "prune", "--older-than", "x"]):
        assert fresh.weir(*words).status == 125, words


def test_a_cache_that_cannot_be_kept_is_told_and_private(fresh):
    fresh.write(f"{fresh.home}/.cache", "a file\n")
    r = fresh.run("--", "sh", "-c", "echo x >~/.cache/x && cat $XDG_CACHE_HOME/x && stat -c %a ~/.cache").ok()
    assert r.text == "x\n700\n" and "~/.cache is gone at exit" in r.errtext, r


def test_caches_of_tools_that_keep_them_elsewhere_are_in_it(fresh):
    r = fresh.run("--env", "GOMODCACHE=/tmp/go", "--keep-env", "npm_config_cache", "--", "env",
                  env={"npm_config_cache": "/tmp/npm"}).ok()
    for line in (f"CARGO_HOME={fresh.home}/.cache/cargo", "GOMODCACHE=/tmp/go",
                 "npm_config_cache=/tmp/npm"):
        assert line in r.text.splitlines(), r


# ---- home keep ----

def test_home_keep_keeps_it_for_the_project_and_private_does_not(fresh):
    a, b = fresh.project(), fresh.project()
    fresh.write(f"{fresh.home}/.vimrc", "set nocp\n")
    fresh.run("--home", "keep", "--", "sh", "-c", "echo kept > ~/x; echo own > ~/.vimrc", cwd=a).ok()
    r = fresh.run("--home", "keep", "--", "sh", "-c", "cat ~/x ~/.vimrc", cwd=a).ok()
    assert r.text == "kept\nown\n", r
    assert fresh.run("--home", "keep", "--", "cat", f"{fresh.home}/x", cwd=b).status != 0
    assert fresh.run("--", "cat", f"{fresh.home}/x", cwd=a).status != 0
    assert not fresh.path(f"{fresh.home}/x").exists()
    fresh.write(f"{fresh.home}/.config/weir/policy", "home keep\n", 0o600)
    assert fresh.run("--", "cat", f"{fresh.home}/x", cwd=a).ok().text == "kept\n"


def test_links_that_the_command_left_in_a_kept_home_are_not_followed(fresh):
    """weir copies dotfiles into a directory that the command has had"""
    d = fresh.project()
    out = fresh.mkdir(f"{fresh.home}/outside")
    fresh.write(f"{fresh.home}/.config/git/ignore", "*.o\n")
    fresh.write(f"{fresh.home}/.vimrc", "set nocp\n")
    fresh.run("--home", "keep", "--", "sh", "-c", f"cd ~ && rm -rf .config .vimrc && "
              f"ln -s {out} .config && ln -s {out}/new .vimrc", cwd=d).ok()
    fresh.run("--home", "keep", "--", "true", cwd=d).ok()
    assert os.listdir(fresh.path(out)) == []
    fresh.run("--home", "keep", "--", "sh", "-c", "cd ~ && rm -f .config .vimrc", cwd=d).ok()


@pytest.mark.as_root
def test_root_has_its_dotfiles_and_cache_too(fresh):
    fresh.write("/home/admin/.vimrc", "set nocp\n", root=True)
    r = fresh.run("--", "sh", "-c", "cat ~/.vimrc; echo x > ~/.cache/x; ls ~/.cache", root=True).ok()
    assert r.text == "set nocp\nproject\nx\n", r
