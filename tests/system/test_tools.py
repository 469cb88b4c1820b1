# SPDX-License-Identifier: ISC
"""Ordinary tools, unmodified, in view project (D6): builds, tests, databases, debuggers."""
import textwrap

import pytest

from world import PYTHON, need


def sh(w, text, *args, cwd=None, **kw):
    r = w.run(*args, "--", "sh", "-ec", text, cwd=cwd or w.project(), **kw)
    assert r.status == 0, r
    return r


MODULES = '''
import asyncio, multiprocessing as mp, os, socket, sys, tempfile
from multiprocessing import shared_memory

def square(n):
    return n * n

def main():
    for way in ("fork", "spawn", "forkserver"):
        with mp.get_context(way).Pool(2) as pool:
            assert pool.map(square, range(50)) == [n * n for n in range(50)], way
        with mp.get_context(way).Manager() as manager:
            d = manager.dict()
            d["x"] = 1
            assert d["x"] == 1
    shm = shared_memory.SharedMemory(create=True, size=1 << 20)
    shm.buf[:4] = b"abcd"
    again = shared_memory.SharedMemory(shm.name)
    assert bytes(again.buf[:4]) == b"abcd"
    again.close(); shm.close(); shm.unlink()
    lock, q = mp.Lock(), mp.Queue()
    with lock: q.put(1)
    assert q.get(timeout=5) == 1
    for d in (tempfile.mkdtemp(), os.getcwd()):
        async def serve():
            path = os.path.join(d, "s.sock")
            async def echo(r, w):
                w.write(await r.readline()); await w.drain(); w.close()
            server = await asyncio.start_unix_server(echo, path)
            r, w = await asyncio.open_unix_connection(path)
            w.write(b"hello\\n"); await w.drain()
            assert await r.readline() == b"hello\\n"
            server.close()
            p = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
            assert (await p.communicate(b"x"))[0] == b"x"
            server = await asyncio.start_server(echo, "127.0.0.1", 0)
            r, w = await asyncio.open_connection(*server.sockets[0].getsockname())
            w.write(b"tcp\\n"); assert await r.readline() == b"tcp\\n"
            server.close()
        asyncio.run(serve())
    print("all of it")

if __name__ == "__main__":
    main()
'''


def test_d6_multiprocessing_shared_memory_and_asyncio(fresh):
    p = fresh.project()
    fresh.write(f"{p}/modules.py", MODULES)
    assert sh(fresh, f"{PYTHON} modules.py", cwd=p).text == "all of it\n"


def test_d6_pytest_runs_in_a_read_only_directory_too(fresh):
    p = fresh.project()
    fresh.write(f"{p}/modules.py", MODULES)
    fresh.write(f"{p}/test_it.py", "import modules\n\ndef test_square(tmp_path):\n"
                "    (tmp_path / 'x').write_text('y')\n    assert modules.square(3) == 9\n")
    assert "1 passed" in sh(fresh, f"{PYTHON} -m pytest -q", cwd=p).text
    r = sh(fresh, f"{PYTHON} -m pytest -q -p no:cacheprovider && ! touch x 2>/dev/null", "-r", p, cwd=p)
    assert "1 passed" in r.text and not fresh.path(f"{p}/x").exists(), r


def test_d6_temporary_files_tar_chown_and_pipelines(fresh):
    p = fresh.project()
    fresh.write(f"{p}/a", "one\ntwo\n")
    r = sh(fresh, """
        f=$(mktemp); d=$(mktemp -d); echo x > $f; test -O $f; rm -r $f $d
        chown "$(id -u):$(id -g)" a; chmod 600 a; touch -d 2020-01-01 a
        tar -cf t.tar a; mkdir out; tar -xpf t.tar -C out; cmp a out/a; ls -l out/a | cut -c1-10
        seq 1 3 | cat | grep 2
    """, cwd=p)
    assert r.text == "-rw-------\n2\n", r


def test_sqlite_writes_its_journal_and_takes_its_locks(fresh):
    p = fresh.project()
    r = sh(fresh, f"{PYTHON} -c " + "'" + textwrap.dedent("""
        import sqlite3
        for mode in ("delete", "wal"):
            a, b = sqlite3.connect("x.db"), sqlite3.connect("x.db", timeout=0)
            a.execute("pragma journal_mode=" + mode)
            a.execute("create table if not exists t (n)"); a.execute("begin immediate")
            a.execute("insert into t values (1)")
            try: b.execute("begin immediate"); print("no lock")
            except sqlite3.OperationalError as e: print(e)
            a.commit()
            print(b.execute("select count(*) from t").fetchall())
            a.close(); b.close()
    """) + "'", cwd=p)
    assert r.text == "database is locked\n[(1,)]\ndatabase is locked\n[(2,)]\n", r


def test_gcc_make_and_strace_of_a_child(fresh):
    p = fresh.project()
    need("strace", "strace")
    fresh.write(f"{p}/main.c", '#include <stdio.h>\nint main(void) { puts("built"); return 7; }\n')
    fresh.write(f"{p}/Makefile", "main: main.c\n\tcc -g -O1 -o $@ $<\n")
    r = sh(fresh, "make -s && ./main || echo $?; strace -f -e trace=write -o log ./main || true; "
           "grep -c built log", cwd=p)
    assert r.text == "built\n7\nbuilt\n1\n", r


@pytest.mark.clients
def test_the_font_cache_is_made_and_kept(fresh):
    need("fc-list", "fontconfig")
    p = fresh.project()
    r = sh(fresh, "fc-cache -v 2>&1 | tail -3; fc-list | head -2; ls ~/.cache", cwd=p)
    assert "failed" not in r.text, r


# ---- heavy ones ----

@pytest.mark.clients
def test_gdb_runs_a_child_and_reads_it(fresh):
    p = fresh.project()
    need("gdb", "gdb")
    fresh.write(f"{p}/main.c", "int answer = 41;\nint main(void) { answer++; return answer; }\n")
    r = sh(fresh, "cc -g -o main main.c && gdb -q -batch -ex 'break main' -ex run -ex next "
           "-ex 'print answer' ./main 2>&1", cwd=p)
    assert "$1 = 42" in r.text, r


@pytest.mark.clients
def test_pytest_with_asyncio_and_processes(fresh):
    p = fresh.project()
    fresh.write(f"{p}/modules.py", MODULES)
    fresh.write(f"{p}/test_it.py", textwrap.dedent("""
        import asyncio
        import concurrent.futures as f
        import multiprocessing as mp
        import pytest
        import modules

        @pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
        def test_pool(how):
            with f.ProcessPoolExecutor(2, mp.get_context(how)) as e:
                assert list(e.map(modules.square, [1, 2, 3])) == [1, 4, 9]

        @pytest.mark.asyncio
        async def test_loop():
            p = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
            out, _ = await asyncio.wait_for(p.communicate(b"x" * 100000), 60)
            assert len(out) == 100000
    """))
    r = sh(fresh, f"{PYTHON} -m pytest -q -p asyncio -p no:cacheprovider", cwd=p)
    assert "4 passed" in r.text, r


def wheel(w, where):
    """A package to install, without an index: built by hand, as a wheel is a zip"""
    import base64
    import hashlib
    import io
    import zipfile
    files = {"left.py": "word = 'from the wheel'\n",
             "left-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: left\nVersion: 1.0\n",
             "left-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\n"
             "Tag: py3-none-any\n"}
    record = "".join("%s,sha256=%s,%d\n" % (n, base64.urlsafe_b64encode(hashlib.sha256(
        t.encode()).digest()).decode().rstrip("="), len(t)) for n, t in files.items())
    files["left-1.0.dist-info/RECORD"] = record + "left-1.0.dist-info/RECORD,,\n"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as z:
        for n, t in files.items():
            z.writestr(n, t)
    w.write(where, data.getvalue())


@pytest.mark.clients
def test_a_virtual_environment_is_built_and_pip_installs_from_a_directory(fresh):
    need("pip3", "python3-pip python3-venv")
    p = fresh.project()
    wheel(fresh, f"{p}/index/left/left-1.0-py3-none-any.whl")
    r = sh(fresh, f"{PYTHON} -m venv .venv && .venv/bin/pip install -q --no-index --find-links "
           "index/left left && .venv/bin/python -c 'import left; print(left.word)'", cwd=p)
    assert r.text == "from the wheel\n", r
    # and by PATH and VIRTUAL_ENV, in a later run
    r = sh(fresh, "python -c 'import left, sys; print(left.word, sys.prefix)'", cwd=p,
           env={"PATH": f"{p}/.venv/bin:/usr/bin:/bin", "VIRTUAL_ENV": f"{p}/.venv"})
    assert r.text == f"from the wheel {p}/.venv\n", r


@pytest.mark.clients
def test_npm_installs_from_a_directory_and_keeps_its_cache(fresh):
    need("npm", "npm")
    p = fresh.project()
    fresh.write(f"{p}/left/package.json", '{"name": "left", "version": "1.0.0", "main": "i.js"}\n')
    fresh.write(f"{p}/left/i.js", "module.exports = 'from npm'\n")
    fresh.write(f"{p}/package.json", '{"name": "top", "version": "1.0.0"}\n')
    r = sh(fresh, "cd left && npm pack --silent >/dev/null && cd .. && "
           "npm install --silent --offline --no-audit ./left/left-1.0.0.tgz && "
           "node -e 'console.log(require(\"left\"))'; ls ~/.cache", cwd=p)
    assert r.text.startswith("from npm\n") and "npm" in r.text.splitlines()[1:], r


@pytest.mark.clients
def test_cargo_and_go_build_offline(fresh):
    need("cargo", "cargo")
    need("go", "golang-go")
    p = fresh.project()
    fresh.write(f"{p}/go/go.mod", "module hello\n")
    fresh.write(f"{p}/go/main.go", 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("go") }\n')
    r = sh(fresh, "cargo new -q --vcs none hello && cd hello && cargo run -q --offline && cd ../go && "
           "go run . && ls ~/.cache", cwd=p)
    assert r.text.startswith("Hello, world!\ngo\n"), r
    assert {"cargo", "go-build"} <= set(r.text.split()), r


@pytest.mark.clients
def test_matplotlib_draws_and_its_font_cache_stays(fresh):
    p = fresh.project()
    code = ("import matplotlib; matplotlib.use('agg'); import matplotlib.pyplot as p; "
            "p.plot([1, 2]); p.title('x'); p.savefig('x.png')")
    for _ in range(2):
        r = sh(fresh, f"{PYTHON} -W error -c \"{code}\" && file -b x.png 2>/dev/null | cut -c1-3; "
               "ls ~/.cache/matplotlib", cwd=p)
        assert "fontlist" in r.text, r
    assert fresh.path(f"{p}/x.png").stat().st_size > 1000


@pytest.mark.clients
def test_r_runs_and_plots(fresh):
    need("Rscript", "r-base-core")
    r = sh(fresh, "Rscript -e 'x <- c(1,2,3); pdf(\"x.pdf\"); plot(x); invisible(dev.off()); "
           "cat(mean(x), file.exists(\"x.pdf\"), \"\\n\")'")
    assert r.text == "2 TRUE \n", r


@pytest.mark.clients
def test_latex_makes_a_document(fresh):
    need("pdflatex", "texlive-latex-base")
    p = fresh.project()
    fresh.write(f"{p}/x.tex", "\\documentclass{article}\n\\begin{document}\nText $x^2$\n\\end{document}\n")
    r = sh(fresh, "pdflatex -interaction=batchmode x.tex >/dev/null && head -c 5 x.pdf", cwd=p)
    assert r.text == "%PDF-", r
