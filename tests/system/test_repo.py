# SPDX-License-Identifier: ISC
"""tests/system/test_repo.py - what a command leaves in a repository and git outside would run: cannot
be left, or is told and recorded. Each attack is followed by what a person types next."""
import os
import pathlib

import pytest

from world import BIN, flags, need, wait_until

MARK = "/tmp/ran-outside"
COMMIT = "git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m x"
EVIL = f"[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = touch {MARK}\\n" \
       f"\\tsshCommand = touch {MARK}\\n\\tpager = touch {MARK}\\n" \
       f'[filter "f"]\\n\\tclean = touch {MARK}\\n'
HOOK = f"printf '#!/bin/sh\\ntouch {MARK}\\n' > %s; chmod +x %s"


def git(world, cwd, *args):
    need("git", "git")
    p = world.sh("git -c protocol.file.allow=always " + " ".join(args), cwd=cwd)
    assert p.returncode == 0, p.stderr
    return p.stdout.decode()


def make_repo(world, d):
    git(world, d, "init -q -b main . && git config user.email t@example.org && git config user.name "
        "t && echo a > a && git add a && git commit -qm first && mkdir -p sub/deep")
    return d


@pytest.fixture
def repo(world):
    return make_repo(world, world.project())


def told(r):
    return [ln for ln in r.errtext.splitlines() if "git outside would run" in ln]


def records(r):
    return [x for x in r.audit if x["event"] == "repo_changed"]


def run_later(world, text, cwd, *opts):
    """The command waits for weir's first look at P, which is taken beside the launch, before the lock: what
    it changes sooner counts as added"""
    with world.spawn("run", *flags(()), *opts, "--", "sh", "-ec", f"read go; {text}", cwd=cwd) as r:
        status = pathlib.Path(f"/proc/{r.pid}/status")
        wait_until(lambda: "Seccomp:\t2\n" in status.read_text(encoding="latin-1"), 10, "the lock")
        return r.finish(b"go\n").ok()


def run_git_outside(world, *dirs):
    """What a prompt, an editor and a person do next, in each directory. Did a stranger's word run?"""
    mark = world.path(MARK)
    if mark.exists():
        mark.unlink()
    for d in dirs:
        world.sh(f"git status; git diff; echo '* filter=f' >> .gitattributes; echo x >> f; git add .;"
                 f"{COMMIT}; git log -p | cat; git fetch ssh://nobody.invalid/x; git checkout -q .;"
                 "git --paginate log -1", cwd=d)
    ran = mark.exists()
    if ran:
        mark.unlink()
    return ran


def test_a_commit_works_and_nothing_is_told(world, repo):
    r = world.run("--", "sh", "-ec", f"git status; echo b > b; git add b; {COMMIT}; git log --oneline;"
                  "git branch x; git tag t; git stash list; git branch -D x; git gc -q", cwd=repo)
    assert not told(r.ok()) and not records(r), r
    assert git(world, repo, "rev-list --count HEAD").strip() == "2"


IMPOSSIBLE = {
    "hook": HOOK % ((".git/hooks/post-commit",) * 2),
    "hook by rename": "mkdir h && mv .git/hooks h; mv h .git/hooks",
    "config": f"printf '{EVIL}' > .git/config",
    "config by git": f"git config core.fsmonitor 'touch {MARK}'",
    "config by rename": f"printf '{EVIL}' > .git/c && mv .git/c .git/config",
    "rename": "mv .git x",
    "remove": "rm -rf .git/config .git/hooks",
    "rebuild": f"mv .git .git2; cp -r .git2 .git; {HOOK % (('.git/hooks/post-commit',) * 2)}",
    "weir": "mkdir -p .weir; echo 'allow *' > .weir/policy",
}


def test_what_was_written_the_moment_before_is_nobodys_doing(world, repo):
    """The clock of files stands still for milliseconds: this is as young as the sandbox, by that clock.
    (On a busy machine the look may come too late to know; each time it does not.)"""
    p = world.sh(f"for i in $(seq 20); do echo >> .git/config; {BIN} run --preset none -- true || exit 9; done",
                 cwd=repo)
    assert p.returncode == 0 and p.stderr.count(b"git outside would run") < 8, p.stderr


@pytest.mark.parametrize("attack", IMPOSSIBLE)
def test_a11_what_mounts_prevent_does_not_happen(world, repo, attack):
    world.mkdir(f"{repo}/.weir")
    before = world.sh("cat .git/config; ls .git/hooks .weir", cwd=repo).stdout
    r = world.run("--", "sh", "-ec", IMPOSSIBLE[attack], cwd=repo)
    assert r.status != 0, r
    assert world.sh("cat .git/config; ls .git/hooks .weir", cwd=repo).stdout == before
    assert not run_git_outside(world, repo)


PLANTS = {	# attack: where git is run next, what is named
    "commondir": (f"mkdir -p e/objects e/refs && cp -r .git/objects .git/refs e && printf '{EVIL}' > "
                  "e/config && cp .git/HEAD e && echo ../e > .git/commondir", ".", ".git/commondir"),
    "worktree config": (f"printf '{EVIL}' > .git/config.worktree", ".", ".git/config.worktree"),
    "nested repository": (f"git init -q sub && printf '{EVIL}' >> sub/.git/config", "sub",
                          "sub/.git"),
    "nested, moved": ("mv evil .git-x; mv .git-x sub/.git", "sub", "sub/.git"),
    "bare repository": (f"git init -q --bare sub/deep && printf '{EVIL}' >> sub/deep/config",
                        "sub/deep", "sub/deep/config"),
    "a file that points": (f"git init -q --bare e && printf '{EVIL}' >> e/config && "
                           "echo 'gitdir: ../e' > sub/.git", "sub", "sub/.git"),
    "a link": (f"git init -q --bare e && printf '{EVIL}' >> e/config && ln -s ../e sub/.git", "sub",
               "sub/.git"),
    "hook of a nested one": (HOOK % (("old/.git/hooks/post-commit",) * 2), "old",
                             "old/.git/hooks/post-commit"),
    "config of a nested one": (f"printf '{EVIL}' >> old/.git/config", "old", "old/.git/config"),
}


@pytest.mark.parametrize("attack", PLANTS)
def test_a11_what_mounts_cannot_prevent_is_told_and_recorded(world, repo, attack):
    text, where, name = PLANTS[attack]
    make_repo(world, world.mkdir(f"{repo}/old"))
    if "moved" in attack:
        git(world, repo, f"init -q e2 && printf '{EVIL}' >> e2/.git/config && mv e2/.git evil")
    r = world.run("--", "sh", "-ec", text, cwd=repo).ok()
    lines, recs = told(r), records(r)
    assert len(lines) == 1 and len(recs) == 1, r
    assert name in [p["path"] for p in recs[0]["paths"]], recs
    assert run_git_outside(world, f"{repo}/{where}") or "commondir" in attack or \
        "worktree" in attack, "the attack is none: nothing is tried here"
    assert not told(world.run("-q", "--", "sh", "-c", "echo x > .git/commondir", cwd=repo))


def test_a_repository_where_there_was_none_is_told(world):
    d = world.project()
    assert not told(world.run("--", "true", cwd=d).ok())
    r = world.run("--", "sh", "-ec", f"git init -q . && printf '{EVIL}' >> .git/config", cwd=d).ok()
    assert told(r) == ["weir: this command added .git: git outside would run its configuration"], r
    assert run_git_outside(world, d)
    assert not told(world.run("--", "git", "status", cwd=d)), "it was there before"


def test_a_hook_where_there_was_no_directory_of_hooks(world, repo):
    world.sh("rm -rf .git/hooks", cwd=repo)
    r = world.run("--", "sh", "-ec", "mkdir .git/hooks;" + HOOK % ((".git/hooks/post-commit",) * 2),
                  cwd=repo).ok()
    assert told(r) == ["weir: this command added .git/hooks/post-commit: git outside would run its "
                       "configuration"], r
    assert run_git_outside(world, repo)


NAMED = {	# what the configuration says: what is there, what is written
    "core.hooksPath .husky/_": (".husky/_/post-commit", ".husky/_/post-commit"),
    "core.hooksPath ./.husky/../.husky/_": (".husky/_/x", ".husky/pre-commit"),
    "core.hooksPath hooks.d": ("hooks.d/x", "hooks.d/post-commit"),
    "core.hooksPath $PWD/hooks.d": ("hooks.d/x", "hooks.d/post-commit"),
    "include.path ../.gitconfig": (".gitconfig", ".gitconfig"),
    "includeIf.gitdir:/**.path ../conf/git": ("conf/git", "conf/git"),
    "core.fsmonitor tools/watch": ("tools/watch", "tools/watch"),
    "core.sshCommand 'python3 tools/ssh.py -v'": ("tools/ssh.py", "tools/ssh.py"),
    "filter.f.clean './clean.sh %f'": ("clean.sh", "clean.sh"),
    "alias.x '!sh tools/x.sh'": ("tools/x.sh", "tools/x.sh"),
    "core.attributesFile conf/attributes": ("conf/attributes", "conf/attributes"),
}


@pytest.mark.parametrize("said", NAMED)
def test_what_the_configuration_names_in_P_is_told_when_it_changes(world, repo, said):
    there, name = NAMED[said]
    world.write(f"{repo}/{there}", "# it was there\n")
    git(world, repo, f"config {said} && git status && git log")  # older than the run by the file's clock
    assert not told(world.run("--", "sh", "-ec", f"cat {there}; echo > other", cwd=repo).ok())
    text = f"printf '{EVIL}' >> {name}" if "include" in said else HOOK % (name, name)
    r = run_later(world, text, repo)
    verb = "changed" if there == name else "added"
    assert told(r) == [f"weir: this command {verb} {name}: git outside would run its configuration"], r
    assert [p["path"] for p in records(r)[0]["paths"]] == [name], r
    if said.split()[0] in ("core.hooksPath", "include.path", "core.fsmonitor") and "pre-" not in name:
        assert run_git_outside(world, repo), "the attack is none"


OWN = {	# the user's own configuration: what is there, what is written, is it told
    "core.hooksPath .githooks": (".githooks/x", ".githooks/post-commit", True),
    "core.hooksPath ~/h": ("~/h/x", "~/h/post-commit", True),
    "core.fsmonitor tools/watch": ("tools/watch", "tools/watch", True),
    "include.path ~/h/more": ("~/h/more", "~/h/more", True),
    "core.editor vim": ("vim", "vim", False),
}


@pytest.fixture
def own_config(world):
    """~/.gitconfig, here a link as of a dotfiles repository; gone afterwards"""
    world.write(f"{world.home}/dotfiles/gitconfig", "[user]\n\tname = t\n[include]\n\tpath = inc\n")
    world.write(f"{world.home}/inc", "")
    world.sh("ln -s dotfiles/gitconfig ~/.gitconfig")
    yield f"{world.home}/inc"
    world.sh("rm -rf ~/.gitconfig ~/inc ~/dotfiles ~/h")


@pytest.mark.parametrize("said", OWN)
def test_what_the_users_own_configuration_names_is_told_where_the_command_may_write(world, repo, own_config, said):
    there, name, is_told = OWN[said]
    h = world.mkdir(f"{world.home}/h")
    there, path = (x.replace("~", world.home) if x[0] == "~" else f"{repo}/{x}" for x in (there, name))
    world.write(there, "# it was there\n")
    git(world, repo, f"config -f {own_config} {said} && git status && git log")
    opts = ("-w", h) if "~" in name else ()
    assert not told(world.run(*opts, "--", "sh", "-ec", f"cat {there}; echo > other", cwd=repo).ok())
    text = f"printf '{EVIL}' >> {path}" if "include" in said else HOOK % (path, path)
    r = run_later(world, text, repo, *opts)
    shown = path if opts else name
    verb = "changed" if there == path else "added"
    assert told(r) == [f"weir: this command {verb} {shown}: git outside would run its configuration"] * is_told, r
    assert run_git_outside(world, repo) is is_told, "the attack is none"


@pytest.mark.parametrize("said,link", [("core.hooksPath .githooks", "ln -s tools/hooks .githooks"),
                                       ("core.hooksPath tools/hooks", "ln -s real tools"),
                                       ("include.path ../conf", "ln -s tools/hooks/conf conf")])
def test_what_lies_behind_a_link_of_the_project_is_told(world, repo, said, link):
    real = "real" if "real" in link else "tools"
    world.write(f"{repo}/{real}/hooks/conf", "# x\n")
    git(world, repo, f"config {said} && {link} && git status && git log")
    assert not told(world.run("--", "sh", "-c", "cat conf; echo > other", cwd=repo).ok())
    name = f"{real}/hooks/" + ("conf" if "include" in said else "post-commit")
    text = f"printf '{EVIL}' >> {name}" if "include" in said else HOOK % (name, name)
    r = world.run("--", "sh", "-ec", text, cwd=repo).ok()
    assert len(told(r)) == 1 and f"{name}:" in told(r)[0], r
    assert run_git_outside(world, repo), "the attack is none"


def test_what_an_included_file_names_is_told_too(world, repo):
    world.write(f"{repo}/conf/git", "# x\n[include]\n\tpath = more ; beside it\n")
    world.write(f"{repo}/conf/more", '[core] hooksPath = "h d" # y\n')
    world.write(f"{repo}/h d/pre-push", "x")
    git(world, repo, "config include.path ../conf/git && git status && git log")
    r = world.run("--", "sh", "-ec", HOOK % (("'h d/post-commit'",) * 2), cwd=repo).ok()
    assert len(told(r)) == 1 and "added h d/post-commit:" in told(r)[0], r
    assert run_git_outside(world, repo)


def test_a_named_directory_that_becomes_a_link_is_told(world, repo):
    world.write(f"{repo}/.husky/_/pre-push", "x")
    git(world, repo, "config core.hooksPath .husky/_ && git status && git log")
    r = world.run("--", "sh", "-ec", "mv .husky h; ln -s $PWD/h .husky", cwd=repo).ok()
    assert len(told(r)) == 1 and "added .husky:" in told(r)[0], r


def test_names_are_escaped(world, repo):
    r = world.run("--", "sh", "-ec", "d=$(printf 'a\\033[31mb\\nc'); git init -q \"$d\"", cwd=repo).ok()
    assert len(told(r)) == 1 and "\x1b" not in r.errtext, r


def test_too_many_directories_are_told(world, repo):
    r = world.run("--", "python3", "-c", "import os\nfor i in range(70):\n for j in range(70):\n"
                  "  os.makedirs(f'many/{i}/{j}')", cwd=repo, timeout=60).ok()
    assert "not known" in r.errtext and records(r)[0]["incomplete"], r
    world.sh("rm -rf many", cwd=repo)


# ---- worktrees ----

@pytest.fixture
def worktree(world, repo):
    d = world.project()
    git(world, repo, f"worktree add -q {d}/wt && git pack-refs --all")
    return repo, f"{d}/wt"


def test_d6_a_commit_from_a_worktree_whose_repository_lies_outside(world, worktree):
    repo, wt = worktree
    r = world.run("--", "sh", "-ec", f"git status; echo b > b; git add b; {COMMIT}; git log --oneline;"
                  "git branch x; git tag t; git stash list; git rev-parse HEAD", cwd=wt)
    assert not told(r.ok()) and not records(r), r
    assert git(world, repo, "rev-parse wt").strip() == r.text.splitlines()[-1]


def test_d6_hooks_that_the_common_configuration_names_in_the_worktree_are_told(world, worktree):
    repo, wt = worktree
    git(world, repo, "config core.hooksPath .githooks && git status && git log")
    r = world.run("--", "sh", "-ec", "mkdir .githooks;" + HOOK % ((".githooks/post-commit",) * 2),
                  cwd=wt).ok()
    assert len(told(r)) == 1 and "added .githooks/post-commit:" in told(r)[0], r
    assert run_git_outside(world, wt)


WORKTREE = ["echo 'gitdir: /tmp/evil' > .git", "mv .git x", "rm .git",
            HOOK % (("$C/hooks/post-commit",) * 2), f"printf '{EVIL}' > $C/config",
            "echo x > $C/commondir", "echo x > $C/planted", "mkdir $C/hooks2", "mv $C $C.x",
            "mv $C/objects $C/o", "mv $C/worktrees $C/w", "echo x > $C/worktrees/wt/commondir",
            "echo x > $C/worktrees/wt/gitdir", "rm $C/worktrees/wt/commondir",
            "mv $C/worktrees/wt $C/worktrees/x", "git worktree add ../y", "cat $C/../a",
            f"git config core.fsmonitor 'touch {MARK}'", "cat $C/worktrees/other/index"]


@pytest.mark.parametrize("attack", WORKTREE)
def test_d6_and_only_the_commit(world, worktree, attack):
    repo, wt = worktree
    look = "cat .git/config; ls -A .git .git/hooks .git/worktrees; cat .git/worktrees/wt/commondir"
    before = world.sh(look, cwd=repo).stdout
    r = world.run("--", "sh", "-ec", f"C={repo}/.git; {attack}", cwd=wt)
    assert r.status != 0, r
    assert world.sh(look, cwd=repo).stdout == before
    assert not run_git_outside(world, wt) and not run_git_outside(world, repo)


WORKS = {	# with the common directory as it is; the rest needs a write line for it
    "amend": "git commit -q --amend --allow-empty -m y",
    "switch": "git switch -q -c n && git switch -q wt",
    "merge": "git merge -q --no-edit more",
    "revert": "git revert --no-edit HEAD",
    "am": "git format-patch -1 --stdout more > p && git am -q p",
    "notes": "git notes add -m hi",
    "fetch": "git fetch -q origin && git fetch -q origin more:refs/heads/fetched",
    "push": "git push -q origin HEAD:refs/heads/pushed",
}
NEEDS_WRITE = {
    "branch -D": "git branch -D more",
    "tag -d": "git tag t && git tag -d t",
    "stash": "echo x > a && git stash -q && git stash pop -q && test -z $(git stash list)",
    "rebase": "git rebase -q --force-rebase HEAD~1",
    "cherry-pick": "git cherry-pick more && test ! -e $(git rev-parse --git-path CHERRY_PICK_HEAD)",
    "bisect": "git bisect start HEAD HEAD~1 && git bisect reset",
    "pack-refs": "git pack-refs --all --prune",
    "gc": "git gc -q --prune=now",
    "fetch --prune": "git fetch -q --prune origin",
    "worktree": "git worktree add -q in && git worktree remove in",
}


@pytest.fixture
def busy(world, worktree):
    """A worktree two commits ahead, a branch to merge, and a remote repository with a ref that is gone"""
    repo, wt = worktree
    far = world.mkdir(f"{world.project()}/far.git")
    git(world, wt, f"init -q --bare {far} && git commit -q --allow-empty -m y && echo b > b && git add b && "
        "git commit -qm b && git checkout -q -b more && echo c > c && git add c && git commit -qm c && "
        f"git switch -q wt && git remote add origin {far} && git push -q origin more main more:gone && "
        f"git fetch -q && git pack-refs --all && git -C {far} update-ref -d refs/heads/gone")
    return repo, wt, far


@pytest.mark.parametrize("what", [*WORKS, *NEEDS_WRITE])
def test_d6_what_works_in_a_worktree_and_what_needs_a_write_line(world, busy, what):
    repo, wt, far = busy
    text = WORKS.get(what) or NEEDS_WRITE[what]
    word = ("-w", f"{repo}/.git") if what in NEEDS_WRITE else ()
    if word:
        tip = git(world, wt, "rev-parse HEAD").strip()
        r = world.run("-w", far, "--", "sh", "-ec", text, cwd=wt)
        assert "Read-only file system" in r.errtext, r
        world.sh("git cherry-pick --quit; git bisect reset; git stash drop; git checkout -q wt;"
                 "git worktree prune; git tag -d t; git branch -D in; " + f"git reset -q --hard {tip}",
                 cwd=wt)
    r = world.run(*word, "-w", far, "--", "sh", "-ec", text, cwd=wt).ok()
    assert not records(r) and not told(r), r
    git(world, repo, "fsck --strict && git log --all > /dev/null")


def test_d6_a_write_line_for_a_worktrees_repository_lifts_no_guard(world, worktree):
    repo, wt = worktree
    w = ("-w", f"{repo}/.git")
    look = "cat .git/config; ls -A .git .git/hooks .git/worktrees; cat .git/worktrees/wt/commondir"
    before = world.sh(look, cwd=repo).stdout
    for attack in WORKTREE:
        if any(x in attack for x in ("hooks/", "/config", "mv .git", "worktrees", "rm .git", "fsmonitor")) \
                and "cat " not in attack:
            r = world.run(*w, "--", "sh", "-ec", f"C={repo}/.git; {attack}", cwd=wt)
            assert r.status != 0, (attack, r)
    assert world.sh(look, cwd=repo).stdout == before
    r = world.run(*w, "--", "sh", "-ec", f"mkdir e; echo {wt}/e > {repo}/.git/commondir", cwd=wt).ok()
    assert len(told(r)) == 1 and f"added {repo}/.git/commondir:" in told(r)[0], r
    assert [p["path"] for p in records(r)[0]["paths"]] == [f"{repo}/.git/commondir"], r


def test_a_worktrees_own_configuration_is_told(world, worktree):
    repo, wt = worktree
    git(world, repo, "config extensions.worktreeConfig true")
    name = f"{repo}/.git/worktrees/wt/config.worktree"
    r = world.run("--", "sh", "-ec", f"printf '{EVIL}' > {name}", cwd=wt).ok()
    assert len(told(r)) == 1 and name in told(r)[0], r
    assert run_git_outside(world, wt)
    r = world.run("--", "sh", "-ec", f"echo > {name}", cwd=wt)
    assert r.status != 0, "what is there stays as it is"


def test_a_pointer_to_somebody_elses_repository_shares_nothing(world, repo):
    """A .git file is the checkout's word: a directory that does not name the checkout is not shared"""
    d = world.project()
    for to in (f"{repo}/.git", f"{repo}", "/etc", world.home, f"{repo}/.git/worktrees/no", ""):
        world.write(f"{d}/.git", f"gitdir: {to}\n")
        r = world.run("--", "sh", "-c", f"ls {repo} {repo}/.git; ls -d {repo}/a", cwd=d)
        assert r.status != 0 and "config" not in r.text, (to, r)
    world.write(f"{d}/.git", f"gitdir: {repo}/.git\n")
    r = world.run("--", "true", cwd=d).ok()
    assert f"'{repo}/.git' does not name '{d}'" in r.errtext, r


def test_a_forged_worktree_leads_to_no_other_repository(world, repo):
    """The pointer leads to a directory of the checkout's author, whose commondir leads further"""
    d = world.project()
    for place in (f"{d}/fake", f"{d}/x/worktrees/fake"):
        world.write(f"{d}/p/.git", f"gitdir: {place}\n")
        world.write(f"{place}/gitdir", f"{d}/p/.git\n")
        world.write(f"{place}/commondir", f"{repo}/.git\n")
        world.write(f"{place}/HEAD", "ref: refs/heads/main\n")
        r = world.run("--", "sh", "-c", f"ls {repo}/.git", cwd=f"{d}/p")
        assert r.status != 0 and "config" not in r.text, r


# ---- submodules ----

@pytest.fixture
def submodule(world, repo):
    top = make_repo(world, world.project())
    git(world, top, f"submodule --quiet add {repo} lib/mod && git commit -qm sub")
    return top


def test_commits_in_a_submodule_and_its_parent(world, submodule):
    commit = f"echo b > b; git add b; {COMMIT}"
    r = world.run("--", "sh", "-ec", f"cd lib/mod; git status; {commit}; cd ../..; git add lib/mod;"
                  f"{COMMIT}", cwd=submodule)
    assert not told(r.ok()), r
    r = world.run("--", "sh", "-ec", f"git status; {commit}; git rev-parse HEAD",
                  cwd=f"{submodule}/lib/mod").ok()
    assert not told(r), r
    assert git(world, f"{submodule}/lib/mod", "rev-parse HEAD").strip() == r.text.splitlines()[-1]


SUBMODULE = [HOOK % (("$M/hooks/post-commit",) * 2), f"printf '{EVIL}' > $M/config", "mv $M $M.x",
             "mv .git/modules .git/m", "mv .git/modules/lib .git/m", "rm -rf $M/hooks $M/config"]


@pytest.mark.parametrize("attack", SUBMODULE)
def test_a_submodules_hooks_and_config_stay(world, submodule, attack):
    look = "cd .git/modules/lib/mod && cat config && ls hooks"
    before = world.sh(look, cwd=submodule).stdout
    r = world.run("--", "sh", "-ec", f"M=.git/modules/lib/mod; {attack}", cwd=submodule)
    assert r.status != 0, r
    assert world.sh(look, cwd=submodule).stdout == before
    assert not run_git_outside(world, submodule, f"{submodule}/lib/mod")


@pytest.mark.parametrize("attack", ["echo x > $M/commondir", f"printf '{EVIL}' > $M/config.worktree",
                                    "echo 'gitdir: ../../e' > lib/mod/.git"])
def test_what_is_planted_for_a_submodule_is_told(world, submodule, attack):
    r = world.run("--", "sh", "-ec", f"M=.git/modules/lib/mod; {attack}", cwd=submodule).ok()
    assert len(told(r)) == 1, r
    if "$M" in attack:
        sub = f"{submodule}/lib/mod"
        world.sh("rm -f .git/modules/lib/mod/commondir .git/modules/lib/mod/config.worktree",
                 cwd=submodule)
        r = world.run("--", "sh", "-ec", f"M=../../.git/modules/lib/mod; {attack}", cwd=sub).ok()
        assert len(told(r)) == 1, r
        r = world.run("--", "sh", "-c", "echo x >> ../../.git/modules/lib/mod/config; echo x > .git;"
                      "ls ../../.git", cwd=sub)
        assert r.text == "modules\n", r
    assert not told(world.run("--", "true", cwd=submodule))


# ---- links, and what is lifted ----

def test_a_symlinked_git_directory_is_guarded_below_P(world, repo):
    world.sh("mv .git real && ln -s real .git", cwd=repo)
    for attack in ("echo x >> real/config", "echo x > real/hooks/post-commit", "mv real r2"):
        assert world.run("--", "sh", "-ec", attack, cwd=repo).status != 0, attack
    r = run_later(world, f"{COMMIT}; git init -q --bare e; ln -sfn e .git", repo)
    assert len(told(r)) == 1 and "changed .git" in told(r)[0], r


def test_symlinked_hooks_are_guarded_below_P(world, repo):
    world.sh("rm -rf .git/hooks && mkdir tools && ln -s ../tools .git/hooks", cwd=repo)
    assert world.run("--", "sh", "-ec", "echo x > tools/post-commit", cwd=repo).status != 0
    r = world.run("--", "sh", "-ec", "rm .git/hooks; mkdir .git/hooks; echo > .git/hooks/post-commit",
                  cwd=repo).ok()
    assert len(told(r)) == 1, r


def test_a_bare_repository_as_P(world):
    d = world.project()
    git(world, d, "init -q --bare .")
    for attack in (f"printf '{EVIL}' > config", HOOK % (("hooks/update",) * 2), "mv hooks h"):
        assert world.run("--", "sh", "-ec", attack, cwd=d).status != 0, attack
    r = world.run("--", "sh", "-ec", "echo x > commondir", cwd=d).ok()
    assert len(told(r)) == 1 and "commondir" in told(r)[0], r


def test_a_write_line_lifts_the_guard_of_its_path(world, repo):
    r = world.run("-w", f"{repo}/.git/config", "--", "git", "remote", "add", "o", "https://x.example",
                  cwd=repo)
    # git replaces the file by rename, which a mount of one file refuses: it is written in place
    assert r.status != 0 or "o" in git(world, repo, "remote")
    r = world.run("-w", f"{repo}/.git/config", "--", "sh", "-ec", "echo '[a]' >> .git/config", cwd=repo)
    assert r.ok() and b"[a]" in world.read(f"{repo}/.git/config")
    assert len(told(r)) == 1, "it is told all the same"


def test_many_worktrees_are_guarded_as_one(world, repo):
    d = world.project()
    git(world, repo, "; ".join(["status"] + [f"git worktree add -q {d}/{i}" for i in range(18)]))
    r = world.run("--", "sh", "-c", "echo x > .git/worktrees/3/commondir; mv .git/worktrees w; "
                  f"{COMMIT}", cwd=repo)
    assert "Read-only" in r.ok().errtext, r
    assert world.path(f"{repo}/.git/worktrees/3/commondir").exists()


def test_the_number_of_mounts_is_bounded(world, repo):
    r = world.run("--", "sh", "-c", "wc -l < /proc/self/mountinfo", cwd=repo).ok()
    assert int(r.text) <= 36, r.text
    assert os.path.exists(world.path(f"{repo}/.git/config"))
