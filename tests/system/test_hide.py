# SPDX-License-Identifier: ISC
"""hide: beats read and write; by construction below overlays, a watched mask below a writable tree
(SPEC 3, 6; A11)."""
import os

import pytest

SECRET = "do-not-show-this-secret"
SEE = """
    try: result = open(p).read()
    except OSError as e: result = errno.errorcode[e.errno]
"""


def policy(w, *lines):
    return ["-p", w.write("/srv/hide.policy", "".join(ln + "\n" for ln in lines))]


def replace(w, path, text=SECRET):
    w.write(path + ".new", text)
    os.replace(w.path(path + ".new"), w.path(path))


def test_below_a_read_grant_it_is_absent_by_construction(fresh):
    w, data = fresh, f"{fresh.home}/data"
    w.write(f"{data}/seen", "seen\n")
    w.write(f"{data}/keys/key", SECRET)
    w.write(f"{data}/one", SECRET)
    w.mkdir(f"{data}/sub")
    os.symlink("one", w.path(f"{data}/link"))
    with w.inside("-r", data, *policy(w, "hide ~/data/keys", "hide ~/data/link", "hide ~/data/sub/later",
                                      "hide ~/data/no/such/place")) as sb:
        assert sb.py(SEE, p=f"{data}/seen") == "seen\n"
        for name in ("keys", "keys/key", "one", "link"):
            assert sb.py("result = os.path.lexists(p)", p=f"{data}/{name}") is False, name
        replace(w, f"{data}/one")
        os.rename(w.path(f"{data}/keys"), w.path(f"{data}/was"))
        replace(w, f"{data}/keys/key")
        replace(w, f"{data}/sub/later")
        w.write(f"{data}/no/such/place", SECRET)
        for name in ("keys", "one", "sub/later", "no/such/place"):
            assert sb.py("result = os.path.lexists(p)", p=f"{data}/{name}") is False, name
        done = sb.close()
    assert done.status == 0 and "hide" not in done.errtext, done


@pytest.mark.parametrize("view", ["project", "host"])
def test_it_beats_read_and_write_at_the_same_or_a_higher_path(fresh, view):
    w, data = fresh, f"{fresh.home}/data"
    w.write(f"{data}/sub/file", SECRET)
    for grant in ("-r", "-w"):
        for hidden in (data, f"{data}/sub"):
            r = w.run("--view", view, grant, f"{data}/sub", "--hide", hidden, "--", "cat",
                      f"{data}/sub/file")
            assert r.status == 1 and SECRET not in r.text, r
    p = w.project()
    w.write(f"{p}/file", SECRET)
    r = w.run("--view", view, "--hide", p, "--", "sh", "-c", f"pwd; cat {p}/file", cwd=p)
    assert r.status != 0 and SECRET not in r.text and "is not shared: it is hidden" in r.errtext, r


def test_the_views_own_places(fresh):
    w = fresh
    w.write("/etc/site.conf", SECRET, root=True)
    w.write(f"{w.home}/.vimrc", SECRET)
    w.write(f"{w.home}/notes", SECRET)
    with w.inside("--view", "host", "--hide", "/etc/site.conf", "--hide", f"{w.home}/notes",
                  "--hide", "/usr/share/doc") as sb:
        for p in ("/etc/site.conf", f"{w.home}/notes", "/usr/share/doc/bash"):
            assert sb.py("result = os.path.lexists(p)", p=p) is False, p
        assert sb.py("result = os.listdir('/usr/share')")
        sb.close()
    r = w.run("--hide", f"{w.home}/.vimrc", "--", "ls", "-A", w.home).ok()
    assert ".vimrc" not in r.text.split(), r
    for p in ("/", "/usr", "/etc", "/proc"):
        r = w.run("--hide", p, "--", "true")
        assert r.status == 125 and f"--hide: '{p}' cannot be hidden: every sandbox needs it" in \
            r.errtext, r


def test_below_a_writable_tree_a_mask_hides_it_and_the_command_cannot_lift_it(fresh):
    w, p = fresh, fresh.project()
    w.write(f"{p}/.env", SECRET)
    w.write(f"{p}/conf/keys/key", SECRET)
    with w.inside(*policy(w, f"hide {p}/.env", f"hide {p}/conf/keys"), cwd=p) as sb:
        assert sb.py(SEE, p=f"{p}/.env") in ("", "EACCES")
        assert sb.py("""
            out = {}
            for name, f in (("unlink", lambda: os.unlink(".env")),
                            ("rename", lambda: os.rename(".env", "x")),
                            ("over", lambda: os.rename("other", ".env")),
                            ("write", lambda: open(".env", "w")),
                            ("link", lambda: os.link(".env", "hard")),
                            ("chmod", lambda: os.chmod(".env", 0o644))):
                open("other", "w").close()
                try: f(); out[name] = "done"
                except OSError as e: out[name] = errno.errorcode[e.errno]
            os.rename("conf", "moved")
            try: out["moved"] = os.listdir("moved/keys")
            except OSError as e: out["moved"] = errno.errorcode[e.errno]
            time.sleep(.3)	# the monitor looks while it is away, and again
            os.rename("moved", "conf")
            time.sleep(.3)
            result = out
        """) == {"unlink": "EBUSY", "rename": "EBUSY", "over": "EBUSY", "write": "EROFS",
                 "link": "EXDEV", "chmod": "EROFS", "moved": []}
        # in place the host's write is no new name: still hidden, and nobody is bothered
        w.path(f"{p}/.env").write_text(SECRET + "2", encoding="utf-8")
        assert SECRET not in sb.py(SEE, p=f"{p}/.env")
        done = sb.close()
    assert done.status == 0 and "hide" not in done.errtext, done
    assert w.read(f"{p}/.env").decode() == SECRET + "2"


def test_a11_a_replaced_or_new_name_is_told_on_stderr_and_in_the_log(fresh):
    w, p = fresh, fresh.project()
    w.write(f"{p}/.env", SECRET)
    with w.inside(*policy(w, f"hide {p}/.env", f"hide {p}/later"), cwd=p) as sb:
        sb.py("result = 1")
        replace(w, f"{p}/.env")
        sb.wait_audit(lambda r: r.get("event") == "hide_broken" and r["path"] == f"{p}/.env")
        w.write(f"{p}/later", "x")
        sb.wait_audit(lambda r: r.get("event") == "hide_broken" and r["path"] == f"{p}/later")
        done = sb.close()
    assert done.status == 0, done
    for name in (".env", "later"):
        assert done.errtext.count(f"'{p}/{name}' was made or replaced: the command can see it now") == 1
    assert [r["strict"] for r in done.audit if r["event"] == "hide_broken"] == [False, False]


def test_strict_ends_the_command_with_125(fresh):
    w, p = fresh, fresh.project()
    w.write(f"{p}/.env", SECRET)
    with w.inside(*policy(w, f"hide {p}/.env strict"), cwd=p) as sb:
        sb.py("result = 1")
        w.path(f"{p}/.env").unlink()	# gone is hidden
        replace(w, f"{p}/.env")
        done = sb.finish(b"")
    assert done.status == 125 and "the command was ended" in done.errtext, done
    assert [r["strict"] for r in done.audit if r["event"] == "hide_broken"] == [True]
    w.assert_clean()


@pytest.mark.as_root
def test_root_finds_nothing_behind_a_mask(fresh):
    p = fresh.mkdir("/home/admin/work/p", root=True)
    fresh.write(f"{p}/.env", SECRET, root=True)
    fresh.write(f"{p}/keys/key", SECRET, root=True)
    r = fresh.run("--hide", f"{p}/.env", "--hide", f"{p}/keys", "--", "sh", "-c",
                  "cat .env keys/*; ls -A keys", cwd=p, root=True)
    assert SECRET not in r.text, r
