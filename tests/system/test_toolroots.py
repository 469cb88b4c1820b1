# SPDX-License-Identifier: ISC
"""Toolchains below the home directory start in view project as they are (SPEC 6).

The version managers themselves are not installed here: each test lays out the tree that the real one
makes, names and links included, around a real interpreter of this machine (Python, node, cargo, go),
copied or linked. What the managers' own shims do is done by a short script in their place."""
import os
import shutil

import pytest

from world import PYTHON, need

SECRET = "do-not-show-this-secret"
VERSION = "3.%d" % __import__("sys").version_info[1]
SHOW = "import sys, json; print(sys.prefix)"


def script(w, path, text):
    return w.write(path, text, 0o755)


def link(w, path, to):
    w.mkdir(os.path.dirname(path))
    os.symlink(to, w.path(path))
    w.own(path)


def python_at(w, prefix):
    """A Python whose prefix is @prefix: a copy of the program, the system's library behind a link"""
    real = os.path.realpath(PYTHON)
    exe = f"{prefix}/bin/python{VERSION}"
    w.mkdir(f"{prefix}/bin")
    shutil.copy(real, w.path(exe))
    w.own(exe)
    for name in ("python3", "python"):
        link(w, f"{prefix}/bin/{name}", f"python{VERSION}")
    w.mkdir(f"{prefix}/lib")
    link(w, f"{prefix}/lib/python{VERSION}", f"/usr/lib/python{VERSION}")
    return f"{prefix}/bin"


def venv_at(w, prefix, home, python):
    """What uv venv and python -m venv make: a link to the interpreter and pyvenv.cfg"""
    w.write(f"{prefix}/pyvenv.cfg", f"home = {home}\ninclude-system-site-packages = false\n")
    link(w, f"{prefix}/bin/python", python)
    link(w, f"{prefix}/bin/python3", "python")
    w.mkdir(f"{prefix}/lib/python{VERSION}/site-packages")
    w.write(f"{prefix}/lib/python{VERSION}/site-packages/mine.py", "word = 'from the environment'\n")


def start(w, *cmd, path="", cwd=None, **env):
    if path:
        env["PATH"] = f"{path}:/usr/local/bin:/usr/bin:/bin"
    return w.run("-v", "--", *cmd, cwd=cwd or w.project(), env=env)


def absent(w, done_for, *secrets, path="", **env):
    """Files that hold a secret: absent, also when they come back by rename while it runs"""
    if path:
        env["PATH"] = f"{path}:/usr/local/bin:/usr/bin:/bin"
    for s in secrets:
        w.write(s, SECRET, 0o600)
    with w.inside(env=env) as sb:
        assert sb.py("result = os.path.isdir(p)", p=done_for) is True
        for s in secrets:
            assert sb.py("result = os.path.lexists(p)", p=s) is False, s
            w.write(s + ".new", SECRET, 0o600)
            os.replace(w.path(s + ".new"), w.path(s))
            assert sb.py("result = os.path.lexists(p)", p=s) is False, s
        assert sb.py("""
            try: open(p + "/written", "w"); result = "written"
            except OSError as e: result = errno.errorcode[e.errno]
        """, p=done_for) == "EROFS"
        sb.close()


def test_pyenv_by_its_shims(fresh):
    w, root = fresh, f"{fresh.home}/.pyenv"
    python_at(w, f"{root}/versions/{VERSION}.99")
    w.write(f"{root}/version", f"{VERSION}.99\n")
    script(w, f"{root}/bin/pyenv", "#!/bin/sh\nroot=$(dirname $(dirname $0))\n"
           "shift; exec $root/versions/$(cat $root/version)/bin/\"$@\"\n")
    script(w, f"{root}/shims/python", f"#!/bin/sh\nexec {root}/bin/pyenv exec python \"$@\"\n")
    path = f"{root}/shims:{root}/bin"
    r = start(w, "python", "-c", SHOW, path=path).ok()
    assert r.text == f"{root}/versions/{VERSION}.99\n", r
    assert f"toolchain '{root}': read-only" in r.errtext, r
    # a virtual environment in P that was made with it, without PATH naming pyenv
    p = w.project()
    venv_at(w, f"{p}/.venv", f"{root}/versions/{VERSION}.99/bin",
            f"{root}/versions/{VERSION}.99/bin/python")
    r = start(w, ".venv/bin/python", "-c", "import mine; print(mine.word)", cwd=p).ok()
    assert r.text == "from the environment\n", r
    absent(w, root, f"{root}/versions/{VERSION}.99/pip.conf", path=path)


def test_conda_by_prefix_and_path(fresh):
    w, base = fresh, f"{fresh.home}/miniconda3"
    for prefix in (base, f"{base}/envs/work"):
        w.mkdir(f"{prefix}/conda-meta")
        python_at(w, prefix)
    script(w, f"{base}/condabin/conda", f"#!{base}/bin/python\nprint('conda', __file__)\n")
    path = f"{base}/envs/work/bin:{base}/condabin"
    env = {"CONDA_PREFIX": f"{base}/envs/work", "CONDA_EXE": f"{base}/bin/conda"}
    r = start(w, "python", "-c", SHOW + "; import os; print(os.environ['CONDA_PREFIX'])", path=path,
              **env).ok()
    assert r.text == f"{base}/envs/work\n" * 2, r
    assert start(w, "conda", path=path, **env).ok().text.startswith("conda ")
    absent(w, base, f"{base}/.condarc", f"{base}/envs/work/pip.conf", path=path)
    # by the variable alone
    r = start(w, f"{base}/envs/work/bin/python", "-c", SHOW, CONDA_PREFIX=f"{base}/envs/work").ok()
    assert r.text == f"{base}/envs/work\n", r


def test_uv_venv_and_tools(fresh):
    w, share = fresh, f"{fresh.home}/.local/share"
    full = f"{share}/uv/python/cpython-{VERSION}.99-linux-x86_64-gnu"
    python_at(w, full)
    link(w, f"{share}/uv/python/cpython-{VERSION}-linux-x86_64-gnu", os.path.basename(full))
    p = w.project()
    venv_at(w, f"{p}/.venv", f"{full}/bin",
            f"{share}/uv/python/cpython-{VERSION}-linux-x86_64-gnu/bin/python{VERSION}")
    r = start(w, ".venv/bin/python", "-c", "import mine, sys; print(mine.word, sys.base_prefix)",
              cwd=p).ok()
    assert r.text == f"from the environment {full}\n", r
    r = start(w, "python", "-c", "import mine; print(mine.word)", cwd=p, path=f"{p}/.venv/bin",
              VIRTUAL_ENV=f"{p}/.venv").ok()
    assert r.text == "from the environment\n", r
    # uv tool install: a link in ~/.local/bin
    venv_at(w, f"{share}/uv/tools/black", f"{full}/bin", f"{full}/bin/python{VERSION}")
    script(w, f"{share}/uv/tools/black/bin/black",
           f"#!{share}/uv/tools/black/bin/python\nimport mine; print(mine.word)\n")
    link(w, f"{w.home}/.local/bin/black", f"{share}/uv/tools/black/bin/black")
    w.write(f"{share}/keyrings/login.keyring", SECRET)
    w.write(f"{share}/other/file", SECRET)
    path = f"{w.home}/.local/bin"
    assert start(w, "black", path=path).ok().text == "from the environment\n"
    absent(w, f"{share}/uv", f"{share}/uv/credentials/store", f"{share}/uv/tools/black/pip.conf",
           path=path)
    r = start(w, "ls", "-A", share, path=path).ok()
    assert r.text.split() == ["uv"], r


def test_pipx(fresh):
    w = fresh
    venv = f"{w.home}/.local/share/pipx/venvs/cowsay"
    venv_at(w, venv, "/usr/bin", PYTHON)
    script(w, f"{venv}/bin/cowsay", f"#!{venv}/bin/python\nimport mine; print(mine.word)\n")
    link(w, f"{w.home}/.local/bin/cowsay", f"{venv}/bin/cowsay")
    assert start(w, "cowsay", path=f"{w.home}/.local/bin").ok().text == "from the environment\n"
    # by its full name, with no PATH that leads there
    assert start(w, f"{w.home}/.local/bin/cowsay").ok().text == "from the environment\n"


def test_pip_user_programs(fresh):
    w, local = fresh, f"{fresh.home}/.local"
    w.write(f"{local}/lib/python{VERSION}/site-packages/tool.py", "print('a user tool')\n")
    script(w, f"{local}/bin/tool", f"#!{PYTHON}\nimport tool\n")
    assert start(w, "tool", path=f"{local}/bin").ok().text == "a user tool\n"


def test_sdkman_by_java_home_and_path(fresh):
    """the program is a script that reads its JDK's release file, as no JDK is needed for the layout"""
    w, java = fresh, f"{fresh.home}/.sdkman/candidates/java"
    script(w, f"{java}/17.0.9-tem/bin/java", "#!/bin/sh\ncat $(dirname $(readlink -f $0))/../release\n")
    w.write(f"{java}/17.0.9-tem/release", 'JAVA_VERSION="17.0.9"\n')
    link(w, f"{java}/current", "17.0.9-tem")
    for env in ({"path": f"{java}/current/bin"}, {"JAVA_HOME": f"{java}/current"}):
        r = start(w, "sh", "-c", f"exec ${{JAVA_HOME:-{java}/current}}/bin/java", **env).ok()
        assert r.text == 'JAVA_VERSION="17.0.9"\n', r
    r = start(w, "java", path=f"{java}/current/bin").ok()
    assert r.text == 'JAVA_VERSION="17.0.9"\n', r


def test_fnm_by_its_link_in_the_runtime_directory(fresh):
    w = fresh
    node = f"{w.home}/.local/share/fnm/node-versions/v20/installation"
    script(w, f"{node}/bin/node", "#!/bin/sh\necho node of fnm\n")
    link(w, f"{w.runtime}/fnm_multishells/1_2", node)
    r = start(w, "node", path=f"{w.runtime}/fnm_multishells/1_2/bin").ok()
    assert r.text == "node of fnm\n", r
    absent(w, node, f"{node}/etc/npmrc", path=f"{w.runtime}/fnm_multishells/1_2/bin")


def test_a_root_that_is_a_link_to_another_disk(fresh):
    w = fresh
    python_at(w, f"/srv/big/pyenv/versions/{VERSION}.99")
    link(w, f"{w.home}/.pyenv", "/srv/big/pyenv")
    r = start(w, "python", "-c", SHOW, path=f"{w.home}/.pyenv/versions/{VERSION}.99/bin").ok()
    assert r.text.strip().endswith(f"pyenv/versions/{VERSION}.99"), r


def test_what_is_no_toolchain_is_not_shared(fresh):
    """PATH that names the home, a credential or nothing; a program alone"""
    w, home = fresh, fresh.home
    w.write(f"{home}/mine", "x")
    script(w, f"{home}/x/tool", "#!/bin/sh\necho tool\n")
    script(w, f"{home}/.ssh/bin/tool", "#!/bin/sh\n")
    w.mkdir(f"{home}/.ssh/lib")
    script(w, f"{home}/bin/own", "#!/bin/sh\necho own\n")
    w.mkdir(f"{home}/lib")
    r = start(w, f"{home}/x/tool")
    assert r.status == 127 and f"'{home}/x/tool' is not visible in view project" in r.errtext, r
    assert f"-r {home}/x/tool" in r.errtext, r
    r = start(w, "../../x/tool", cwd=w.mkdir(f"{home}/work/here"))
    assert f"'{home}/x/tool' is not visible" in r.errtext and f"-r {home}/x/tool -- ../../x/tool" in r.errtext, r
    script(w, f"{home}/x/my tool", "#!/bin/sh\n")
    r = start(w, f"{home}/x/my tool")
    assert r.status == 127 and f"-r '{home}/x/my tool' -- '{home}/x/my tool'" in r.errtext, r
    path = f"{home}:{home}/.ssh/bin:{home}/nowhere:relative:.:/:{home}/bin:/srv"
    r = start(w, "sh", "-c", f"own; ls -A {home} {home}/.ssh 2>&1", path=path)
    assert r.text.startswith("own\n") and "mine" not in r.text and "lib" not in r.text.split(), r


def test_a_script_whose_interpreter_is_not_inside_says_which(fresh):
    w, d = fresh, fresh.project()
    script(w, "/srv/lang/interp", "")
    w.path("/srv/lang/interp").write_bytes(w.path("/bin/dash").read_bytes())
    script(w, f"{d}/tool", "#!/srv/lang/interp -e\necho ran\n")
    r = start(w, "./tool", cwd=d)
    assert r.status == 127 and "'./tool' needs '/srv/lang/interp', which is not visible in view project\n" \
        "  fix: weir run -r /srv/lang/interp -- ./tool …\n" in r.errtext, r
    assert w.run("-r", "/srv/lang/interp", "--", "./tool", cwd=d).ok().text == "ran\n"
    script(w, f"{d}/tool", "#!/srv/lang/none\n")
    r = start(w, "./tool", cwd=d)
    assert r.status == 127 and "what it needs to start is not" in r.errtext and "-r" not in r.errtext, r


def test_a_checkout_cannot_name_what_is_no_toolchain(fresh):
    """P/.venv is a stranger's: bin beside lib of another project is not shared for it"""
    w = fresh
    other = w.project()
    script(w, f"{other}/bin/python", "#!/bin/sh\n")
    w.write(f"{other}/lib/secret", SECRET)
    w.write(f"{w.home}/.aws/credentials", SECRET)
    for home in (f"{other}/bin", w.home, f"{w.home}/.aws", "/root", "/home/stranger"):
        p = w.project()
        venv_at(w, f"{p}/.venv", home, f"{other}/bin/python")
        script(w, f"{p}/run", f"#!{other}/bin/python\n")
        for cmd in (["cat", f"{other}/lib/secret"], ["cat", f"{w.home}/.aws/credentials"],
                    ["./run"], [".venv/bin/python"]):
            r = start(w, *cmd, cwd=p)
            assert r.status != 0 and SECRET not in r.text, r


def test_a_checkout_that_names_an_environment_gets_python_and_not_the_project_around_it(fresh):
    """python -m venv . makes an environment of the project's root: what else lies there is not python's"""
    w = fresh
    other = w.project()
    home = python_at(w, other)
    w.write(f"{other}/secret", SECRET)
    w.write(f"{other}/src/secret", SECRET)
    w.write(f"{other}/pyvenv.cfg", "home = /usr/bin\n")
    p = w.project()
    venv_at(w, f"{p}/.venv", home, f"{home}/python{VERSION}")
    r = start(w, ".venv/bin/python", "-c", "import mine; print(mine.word)", cwd=p).ok()
    assert r.text == "from the environment\n", r
    r = start(w, "sh", "-c", f"cat {other}/secret {other}/src/secret; ls -A {other}", cwd=p)
    assert SECRET not in r.text and r.text.split() == ["bin", "lib"], r


def test_a_link_of_a_checkout_on_the_path_shares_nothing(fresh):
    """An editor puts P/node_modules/.bin into PATH; where that leads is the checkout's word"""
    w = fresh
    other = w.project()
    w.write(f"{other}/secret", SECRET)
    p = w.project()
    link(w, f"{p}/bin", other)
    r = start(w, "cat", f"{other}/secret", cwd=p, path=f"{p}/bin", VIRTUAL_ENV=f"{p}/bin")
    assert r.status == 1 and SECRET not in r.text, r


@pytest.mark.clients
def test_nvm_with_a_real_node(fresh):
    w, root = fresh, f"{fresh.home}/.nvm"
    node = os.path.realpath(need("node", "nodejs"))
    bin_ = f"{root}/versions/node/v20.1.0/bin"
    w.mkdir(bin_)
    shutil.copy(node, w.path(f"{bin_}/node"))
    w.own(f"{bin_}/node")
    w.write(f"{root}/versions/node/v20.1.0/lib/node_modules/left/index.js", "module.exports = 'left'\n")
    script(w, f"{bin_}/left", "#!/usr/bin/env node\nconsole.log(require('../lib/node_modules/left'))\n")
    assert start(w, "left", path=bin_).ok().text == "left\n"
    absent(w, root, f"{root}/versions/node/v20.1.0/etc/npmrc", path=bin_)


@pytest.mark.clients
def test_rustup_with_a_real_cargo(fresh):
    w, home = fresh, fresh.home
    need("cargo", "cargo")
    chain = f"{home}/.rustup/toolchains/stable-x86_64-unknown-linux-gnu"
    for tool in ("cargo", "rustc"):
        link(w, f"{chain}/bin/{tool}", f"/usr/bin/{tool}")
        script(w, f"{home}/.cargo/bin/{tool}", f"#!/bin/sh\nexec {chain}/bin/{tool} \"$@\"\n")
    w.mkdir(f"{chain}/lib")
    w.write(f"{home}/.cargo/registry/secret", SECRET)
    path = f"{home}/.cargo/bin"
    p = w.project()
    r = start(w, "sh", "-c", "cargo init -q --name hello . && cargo build -q --offline && "
              "target/debug/hello", path=path, cwd=p).ok()
    assert r.text == "Hello, world!\n", r
    assert w.path(f"{home}/.cargo").exists() and not w.path(f"{home}/.cargo/.package-cache").exists()
    absent(w, path, f"{home}/.cargo/credentials.toml", f"{home}/.cargo/registry/secret", path=path)


@pytest.mark.clients
def test_go_from_a_private_goroot(fresh):
    w, home = fresh, fresh.home
    need("go", "golang-go")
    root = os.path.realpath(os.popen("/usr/bin/go env GOROOT").read().strip())
    for name in ("bin", "pkg", "src"):
        link(w, f"{home}/sdk/go/{name}", os.path.realpath(f"{root}/{name}"))
    w.write(f"{home}/sdk/go/VERSION", "go\n")
    script(w, f"{home}/go/bin/tool", "#!/bin/sh\necho installed by go\n")
    w.write(f"{home}/go/pkg/mod/secret", SECRET)
    p = w.project()
    w.write(f"{p}/go.mod", "module hello\n")
    w.write(f"{p}/main.go", 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("hello") }\n')
    r = start(w, "sh", "-c", f"tool && go build -o hello . && ./hello; ls {home}/go", cwd=p,
              path=f"{home}/sdk/go/bin:{home}/go/bin").ok()
    assert r.text == "installed by go\nhello\nbin\n", r
