# SPDX-License-Identifier: ISC
"""What the command finds inside: files, environment, rights, its repository; and which grants are
refused (SPEC 6; H31-H34, H37, H38, H46; N1-N11)."""
import os
import socket
import textwrap

import pytest

from world import IS_ROOT, PYTHON, need

SECRET = "do-not-show-this-secret"


@pytest.fixture(scope="module")
def box(world):
    """One sandbox that every look from inside shares"""
    for f in CREDENTIALS:
        world.write(f"{world.home}/{f}", SECRET, 0o600)
    world.write(f"{world.home}/outside", "outside\n")
    cwd = world.project()
    world.write(f"{cwd}/mine", "mine\n")
    with world.inside(cwd=cwd, env={
            "AWS_SECRET_ACCESS_KEY": SECRET, "GITHUB_TOKEN": SECRET, "LD_PRELOAD": "/x.so",
            "BASH_ENV": "/x", "PYTHONSTARTUP": "/x", "NODE_OPTIONS": "--x", "GIT_DIR": "/x",
            "NO_PROXY": "*", "HTTP_PROXY": "http://evil.example:1", "all_proxy": "socks5://x:1",
            "SSH_AUTH_SOCK": "/tmp/agent", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/x",
            "LD_LIBRARY_PATH": "/x", "PYTHONPATH": f"{world.home}/outside-of-it",
            "EDITOR": "vi", "LANG": "C.UTF-8", "TZ": "UTC"}) as sb:
        yield sb


CREDENTIALS = [".ssh/id_ed25519", ".aws/credentials", ".azure/token", ".config/gcloud/creds",
               ".config/gh/hosts.yml", ".docker/config.json", ".kube/config", ".netrc",
               ".git-credentials", ".npmrc", ".pypirc", ".gnupg/secring.gpg",
               ".local/share/keyrings/login.keyring", ".mozilla/firefox/x/logins.json",
               ".config/google-chrome/Default/Cookies", ".config/weir/policy.d", ".bash_history",
               ".config/rclone/rclone.conf", ".cargo/credentials.toml", ".vault-token"]


# ---- environment ----

def test_h28_proxy_variables_are_weirs_own_all_eight(box):
    """H28: inherited NO_PROXY and ALL_PROXY do not change what clients do"""
    env = box.py("result = dict(os.environ)")
    for v in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        assert env[v] == "http://127.0.0.1:3128", v
    for v in ("NO_PROXY", "no_proxy"):
        assert env[v] == "localhost,127.0.0.1,::1", v
    assert env["WEIR"] == "1" and env["NODE_USE_ENV_PROXY"] == "1" and env["WEIR_SANDBOX"]


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "LD_PRELOAD", "BASH_ENV",
                                  "PYTHONSTARTUP", "NODE_OPTIONS", "GIT_DIR", "SSH_AUTH_SOCK",
                                  "DBUS_SESSION_BUS_ADDRESS", "LD_LIBRARY_PATH", "PYTHONPATH",
                                  "XDG_STATE_HOME"])
def test_h34_secrets_and_code_in_variables_are_dropped(box, name, world):
    """H34: one filter for every run, minimal by default"""
    env = box.py("result = dict(os.environ)")
    assert SECRET not in str(env)
    assert env.get(name, "") in ("",) or (name == "XDG_STATE_HOME" and world.home in env[name]), env


def test_ordinary_variables_stay(box, world):
    env = box.py("result = dict(os.environ)")
    assert env["LANG"] == "C.UTF-8" and env["HOME"] == world.home and env["PATH"]
    assert env["TMPDIR"].startswith("/tmp") and env["PWD"] == box.cwd


def test_env_and_keep_env(world):
    r = world.run("--env", "A=b c", "--keep-env", "KEPT", "--", "env",
                  env={"KEPT": "yes", "DROPPED": "no"}).ok()
    assert "A=b c\n" in r.text and "KEPT=yes\n" in r.text and "DROPPED" not in r.text, r
    for bad in ("--env=novalue", "--env==x", "--env=A B=x"):
        assert world.run(bad, "--", "true").status == 125, bad


def test_deny_has_no_proxy_variables(world):
    assert "proxy" not in world.run("-n", "deny", "--", "env").ok().text.lower()


# ---- files ----

@pytest.mark.parametrize("path", CREDENTIALS)
def test_h33_credentials_are_absent_by_construction(box, world, path):
    """H33: absent, not merely unreadable; H32: also when they appear later"""
    got = box.py("result = os.path.lexists(p)", p=f"{world.home}/{path}")
    assert got is False
    world.write(f"{world.home}/{path}.new", SECRET, 0o600)
    os.replace(world.path(f"{world.home}/{path}.new"), world.path(f"{world.home}/{path}"))	# H31
    assert box.py("result = os.path.lexists(p)", p=f"{world.home}/{path}") is False


def test_h46_tmp_is_private(box, world):
    """H46: temporary files are shared with nobody"""
    world.write("/tmp/host-file", "x")
    got = box.py("""
        open("/tmp/inside-file", "w").write("x"); open("/var/tmp/inside-file", "w").write("x")
        result = [os.listdir(d) for d in ("/tmp", "/var/tmp", "/dev/shm")]
    """)
    assert "host-file" not in got[0] and not world.path("/tmp/inside-file").exists()
    assert not os.path.exists("/var/tmp/inside-file")


def test_the_project_is_writable_and_the_rest_of_home_is_not_there(box, world):
    got = box.py("""
        open("made", "w").write("made inside")
        open(os.path.expanduser("~/private"), "w").write("x")
        result = open("mine").read(), os.path.lexists(os.path.expanduser("~/outside")), os.getcwd()
    """)
    assert got == ("mine\n", False, box.cwd)
    assert world.read(f"{box.cwd}/made") == b"made inside"
    assert not world.path(f"{world.home}/private").exists()


WRITES = ["/etc/x", "/usr/x", "/usr/bin/x", "/bin/x", "/lib/x", "/x", "/var/lib/x", "/boot/x",
          "/opt/x",
          "/srv/x", "/sys/x", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/root/x",
          "/home/x", "/run/weir/weir", "/dev/x", "/etc/passwd", "/etc/hosts"]


@pytest.mark.parametrize("path", WRITES)
def test_a_write_outside_is_refused(box, path):
    """N3: parents of mounts are not writable either"""
    got = box.py("""
        try:
            with open(p, "w") as f: f.write("x")
            result = "written"
        except OSError as e:
            result = errno.errorcode[e.errno]
    """, p=path)
    if path in ("/dev/x", "/run/x"):	# a tmpfs of the sandbox's own
        return
    assert got in ("EROFS", "EACCES", "EPERM", "ENOENT"), got
    assert not os.path.exists("/etc/x") and not os.path.exists("/usr/x")


HIDDEN = ["/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/ssh_host_ed25519_key", "/boot/x",
          "/etc/ssl/private", "/var/lib/docker", "/home/stranger", "/root/.bashrc", "/etc/weir"]


@pytest.mark.parametrize("path", HIDDEN)
def test_h38_system_secrets_are_absent(box, path):
    assert box.py("""
        try:
            os.listdir(p) if os.path.isdir(p) else open(p).read()
            result = os.path.lexists(p) and not (os.path.isdir(p) and not os.listdir(p))
        except OSError:
            result = False
    """, p=path) is False


def test_n10_etc_has_what_programs_need(box):
    got = box.py("""
        import pwd, ssl, subprocess, mimetypes
        result = (pwd.getpwuid(os.getuid()).pw_name, os.path.exists("/etc/ssl/certs"),
                  open("/etc/resolv.conf").read().split("\\n")[0][:10], open("/etc/hosts").read(),
                  os.path.exists("/etc/machine-id"), mimetypes.guess_type("x.html")[0],
                  ssl.create_default_context() is not None, open("/etc/nsswitch.conf").read())
    """)
    assert got[0] == "tester" and got[1] and "localhost" in got[3] and got[5] == "text/html"
    assert "10.77.0.2" not in got[2]


def test_the_hosts_own_name_servers_and_hosts_are_not_told(box):
    text = box.py("result = open('/etc/resolv.conf').read() + open('/etc/hosts').read()")
    assert "10.77" not in text


def test_uid_is_ones_own_and_no_capability_is_left(box, world):
    got = box.py("result = os.getuid(), os.getgid(), open('/proc/self/status').read()")
    assert got[:2] == (world.uid, world.gid)
    st = dict(ln.split(":\t", 1) for ln in got[2].splitlines() if ":\t" in ln)
    for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(st[k], 16) == 0, (k, st[k])
    assert st["NoNewPrivs"] == "1" and st["Seccomp"] == "2"


def test_setuid_programs_gain_nothing(box):
    got = box.py("""
        import subprocess
        p = subprocess.run(["/usr/bin/su", "-c", "id"], capture_output=True,
                           stdin=subprocess.DEVNULL)
        result = p.returncode, p.stdout
    """)
    assert got[0] != 0 and b"uid=0" not in got[1]


def test_n7_no_host_process_is_visible(box):
    got = box.py("""
        result = sorted(int(p) for p in os.listdir("/proc") if p.isdigit())
    """)
    assert got[0] == 1 and len(got) <= 4 and max(got) < 100000, got


def test_descriptors_are_closed(box):
    got = box.py("""
        d = "/proc/self/fd/"
        result = {f: os.readlink(d + f) for f in os.listdir(d) if os.path.lexists(d + f)}
    """)
    assert not [v for v in got.values() if v.startswith(("socket:", "anon_inode:", "/home"))], got


def test_sys_shows_only_the_loopback_of_the_sandbox(box):
    assert box.py("result = os.listdir('/sys/class/net')") == ["lo"]


def test_dev_is_private_and_small(box):
    got = set(box.py("result = os.listdir('/dev')"))
    assert {"null", "zero", "full", "random", "urandom", "tty", "shm", "ptmx", "pts"} <= got
    assert not got & {"kvm", "mem", "kmsg", "vda", "sda", "fuse", "net", "vsock", "console"}, got


def test_devices_and_kernel_files_cannot_be_reached(box):
    got = box.py("""
        out = {}
        for p in ("/proc/kcore", "/proc/kallsyms", "/proc/keys", "/proc/1/environ", "/dev/mem",
                  "/sys/kernel/security", "/sys/fs/cgroup"):
            try:
                d = open(p, "rb").read(64) if not os.path.isdir(p) else os.listdir(p)
                out[p] = d
            except OSError as e:
                out[p] = errno.errorcode[e.errno]
        try:
            os.mknod("/tmp/dev", 0o600 | 0o020000, os.makedev(1, 1)); out["mknod"] = "made"
        except OSError as e:
            out["mknod"] = errno.errorcode[e.errno]
        result = out
    """)
    assert got["mknod"] == "EPERM" and got["/dev/mem"] in ("ENOENT", "EACCES", "EPERM")
    assert got["/proc/1/environ"] in ("EACCES", "EPERM") and got["/proc/kcore"] in (
        "EACCES", "EPERM", "ENOENT", b""), got


def test_mounts_are_few_and_read_only_but_for_the_named(box, world):
    lines = box.py("result = open('/proc/self/mountinfo').read()").splitlines()
    assert len(lines) <= 40, len(lines)
    for ln in lines:
        f = ln.split()
        where, opts, fs = f[4], f[5].split(","), f[f.index("-") + 1]
        assert "shared:" not in ln and "master:" not in ln, ln	# nothing propagates
        if "rw" in opts and fs not in ("tmpfs", "proc", "devpts", "mqueue", "devtmpfs"):
            assert where in (box.cwd,) or where.startswith("/dev/"), ln


def test_the_weir_binary_is_at_run_weir_weir(box):
    assert box.py("""
        import subprocess
        result = subprocess.run(["/run/weir/weir", "--version"], capture_output=True).returncode
    """) == 0


def test_a_host_mount_made_later_does_not_come_in(world):
    if not IS_ROOT:
        pytest.skip("mounting in the world needs root")
    import subprocess
    with world.inside() as sb:
        sb.py("result = 1")
        d = world.mkdir(f"{sb.cwd}/later")
        enter = ["nsenter", f"--target={world.pid}", "--mount"]
        subprocess.run([*enter, "mount", "-t", "tmpfs", "tmpfs", d], check=True)
        world.write(f"{d}/secret", SECRET)
        assert sb.py("result = os.listdir('later')") == []
        subprocess.run([*enter, "umount", d], check=True)


# ---- unix sockets ----

def test_k1_h22_host_unix_sockets_are_unreachable(world):
    """K1, H22, H23: in every network state, also those created or renamed later"""
    for state in ("deny", "allowlist", "allow"):
        with world.inside("-n", state) as sb:
            sb.py("result = 1")
            paths = ["/run/a.sock", "/tmp/b.sock", f"{world.home}/c.sock",
                     f"{os.path.dirname(sb.cwd)}/d.sock"]
            servers = []
            for p in paths:
                full = str(world.path(p))
                if os.path.lexists(full):
                    os.unlink(full)
                s = world.make("host", socket.AF_UNIX, socket.SOCK_STREAM, bind=p, listen=5)
                os.chmod(full, 0o777)
                servers.append(s)
            os.rename(world.path("/run/a.sock"), world.path("/run/e.sock"))
            got = sb.py("""
                out = []
                for p in paths:
                    s = socket.socket(socket.AF_UNIX)
                    try: s.connect(p); out.append(p)
                    except OSError: pass
                result = out
            """, paths=paths + ["/run/e.sock"])
            assert got == [], (state, got)
            for s in servers:
                s.close()
            for p in [*paths[1:], "/run/e.sock"]:
                os.unlink(world.path(p))


@pytest.mark.parametrize("state", ["deny", "allowlist"])
def test_abstract_sockets_are_unreachable(world, state):
    s = world.make("host", socket.AF_UNIX, socket.SOCK_STREAM, bind="\0weir-abstract", listen=5)
    with world.inside("-n", state) as sb:
        assert sb.py("""
            s = socket.socket(socket.AF_UNIX)
            try: s.connect("\\0weir-abstract"); result = "connected"
            except OSError as e: result = errno.errorcode[e.errno]
        """) == "ECONNREFUSED"
    s.close()


# ---- working directory and project ----

def git(world, cwd, *args):
    need("git", "git")
    p = world.sh("git " + " ".join(args), cwd=cwd)
    assert p.returncode == 0, p.stderr
    return p.stdout


@pytest.fixture
def repo(world):
    d = world.project()
    git(world, d, "init -q . && git config user.email t@example.org && git config user.name t "
        "&& echo a > a && git add a && git commit -qm first && mkdir -p sub/deep")
    return d


def test_git_status_works_in_a_sub_folder(world, repo):
    """P is the repository, not the working directory"""
    r = world.run("--", "git", "status", "--porcelain", cwd=f"{repo}/sub/deep")
    assert r.ok().text == "", r
    r = world.run("--", "sh", "-c", "echo b > ../../b && pwd", cwd=f"{repo}/sub/deep").ok()
    assert r.text == f"{repo}/sub/deep\n" and world.read(f"{repo}/b") == b"b\n"


@pytest.mark.parametrize("where", ["home", "/", "/tmp", "/usr", "/etc", "/var", "/home"])
def test_a_working_directory_that_may_not_be_granted_is_not_shared(world, where):
    cwd = world.home if where == "home" else where
    if where == "home":
        world.write(f"{world.home}/outside", "x")
    r = world.run("--", "sh", "-c", "pwd; ls -A ~; touch weir-test-file 2>/dev/null; echo done",
                  cwd=cwd)
    assert r.ok().text.endswith("done\n") and "outside" not in r.text, r
    said = [ln for ln in r.errtext.splitlines() if "not shared" in ln or "-w" in ln or "-C" in ln]
    assert said, r
    assert not world.path(f"{cwd}/weir-test-file").exists()
    if where == "home":
        assert r.text.splitlines()[0] == world.home


def test_somebody_elses_directory_is_read_only(world):
    if not IS_ROOT:
        pytest.skip("a stranger's directory needs root")
    d = world.mkdir("/srv/theirs/x", root=True)
    world.write(f"{d}/readable", "r", root=True)
    os.chmod(world.path(d), 0o777)
    r = world.run("--", "sh", "-c", "cat readable; touch w", cwd=d)
    assert r.status != 0 and r.text == "r" and not world.path(f"{d}/w").exists(), r


@pytest.mark.parametrize("where", ["/proc", "/sys", "/dev", "/run", "/proc/self", "/dev/shm"])
def test_a_working_directory_on_proc_sys_dev_run_is_125(world, where):
    r = world.run("--", "true", cwd=where)
    assert r.status == 125 and where.split("/")[1] in r.errtext, r


def test_a_deleted_working_directory_is_125(world):
    d = world.mkdir(f"{world.home}/work/gone")
    p = world.sh("rmdir ../gone; /srv/weir run -- true; echo $?", cwd=d)
    assert p.stdout == b"125\n" and b"weir:" in p.stderr, p


def test_h37_a_symlinked_working_directory_widens_nothing(world):
    """H37: /tmp/x/ws -> $HOME does not make home writable"""
    world.mkdir("/tmp/x")
    os.symlink(world.home, world.path("/tmp/x/ws"))
    try:
        p = world.sh("cd /tmp/x/ws && /srv/weir run -- sh -c 'touch hole; ls -A'; "
                     "/srv/weir run -C /tmp/x/ws -- touch hole2")
        assert b"outside" not in p.stdout, p
        for f in ("hole", "hole2"):
            assert not world.path(f"{world.home}/{f}").exists()
    finally:
        os.unlink(world.path("/tmp/x/ws"))


def test_chdir_changes_first(world):
    d = world.project()
    r = world.run("-C", d, "--", "pwd", cwd=world.home)
    assert r.ok().text == d + "\n"


# ---- grants ----

REFUSED = ["/", "//", "/.", "/usr/..", "/etc", "/usr", "/bin", "/lib", "/var", "/boot", "/dev",
           "/proc", "/proc/self", "/sys", "/run", "/srv", "/mnt", "/media", "/home", "/tmp",
           "/root",
           "~", "~/", "~//", "~/.", "~/work/..", "/home/stranger",
           "~/.ssh", "~/.ssh/", "~/.ssh/id_ed25519", "~/.aws", "~/.gnupg", "~/.config/gh",
           "~/.netrc",
           "~/.docker", "~/.kube", "~/.npmrc", "~/.git-credentials", "~/.config/gcloud",
           "~/.config/weir", "~/.config", "~/.local", "~/.local/state", "~/.cache", "~/.cache/weir"]
REFUSED_WRITE = ["~/.bashrc", "~/.profile", "~/.bash_profile", "~/.zshrc", "~/.config/autostart",
                 "~/.config/systemd", "~/.config/fish", "~/.config/git", "~/.config/environment.d",
                 "~/.local/bin", "~/bin"]


@pytest.fixture(scope="module")
def furnished(world):
    for f in [*CREDENTIALS, ".bashrc", ".profile", ".bash_profile", ".zshrc", ".config/autostart/x",
              ".config/systemd/x", ".config/fish/x", ".config/git/config",
              ".config/environment.d/x",
              ".local/bin/x", "bin/x", ".config/weir/policy", ".cache/weir/x", "data/file"]:
        if not world.path(f"{world.home}/{f}").exists():
            world.write(f"{world.home}/{f}", "" if f.endswith("policy") else "x", 0o600)
    world.mkdir(f"{world.home}/.local/state/weir", 0o700)
    yield world
    world.path(f"{world.home}/.config/weir/policy").unlink()


def stranger(path):
    if path == "/home/stranger" and not IS_ROOT:
        pytest.skip("a home of somebody else's needs root")


def expand(world, p):
    return p.replace("~", world.home, 1) if p.startswith("~") else p


# where /bin and /lib are links they lead below /usr, which every sandbox can read anyway
GRANTS = [(f, p) for f in ("-r", "-w") for p in REFUSED if f == "-w" or p not in ("/bin", "/lib")]


@pytest.mark.parametrize("flag,path", GRANTS)
def test_h38_grants_that_are_too_broad_or_hold_secrets_are_refused(furnished, flag, path):
    """H38: the whole refusal list, with the reason, before anything is created"""
    stranger(path)
    r = furnished.run(flag, expand(furnished, path), "--", "true")
    assert r.status == 125 and "weir:" in r.errtext, r
    assert not r.audit_path.exists(), "something was created"


@pytest.mark.parametrize("path", REFUSED_WRITE)
def test_places_that_run_by_themselves_are_refused_for_write(furnished, path):
    r = furnished.run("-w", expand(furnished, path), "--", "true")
    assert r.status == 125 and "weir:" in r.errtext, r


@pytest.mark.parametrize("target", ["~", "/", "/etc", "~/.ssh", "/home/stranger", "~/.config/weir"])
@pytest.mark.parametrize("flag", ["-r", "-w"])
def test_h37_a_symlink_to_a_refused_place_is_refused(furnished, flag, target):
    """H37: judged where it leads"""
    stranger(target)
    link = furnished.path(f"{furnished.home}/link")
    if os.path.lexists(link):
        os.unlink(link)
    os.symlink(expand(furnished, target), link)
    furnished.own(f"{furnished.home}/link")
    try:
        for spelled in ("link", "link/", "link/."):
            r = furnished.run(flag, f"{furnished.home}/{spelled}", "--", "true")
            assert r.status == 125, r
    finally:
        os.unlink(link)


def test_a_broken_link_is_an_error(furnished):
    os.symlink("/nonexistent/x", furnished.path(f"{furnished.home}/broken"))
    r = furnished.run("-r", f"{furnished.home}/broken", "--", "true")
    assert r.status == 125, r
    os.unlink(furnished.path(f"{furnished.home}/broken"))


@pytest.mark.parametrize("kind", ["fifo", "socket"])
@pytest.mark.parametrize("flag", ["-r", "-w"])
def test_h39_fifos_and_sockets_are_refused(furnished, flag, kind):
    """H39: a grant is a file or a directory"""
    p = f"{furnished.home}/data/{kind}"
    full = furnished.path(p)
    if os.path.lexists(full):
        os.unlink(full)
    if kind == "fifo":
        os.mkfifo(full)
        furnished.own(p)
    else:
        furnished.make("host", socket.AF_UNIX, socket.SOCK_STREAM, bind=p, listen=1)
        furnished.own(p)
    r = furnished.run(flag, p, "--", "true")
    assert r.status == 125 and kind in r.errtext.lower(), r
    os.unlink(full)


@pytest.mark.parametrize("spelled", ["data", "data/", "data//", "./data/../data", "work/../data"])
def test_a_read_grant_is_readable_not_writable_however_spelled(furnished, spelled):
    r = furnished.run("-r", f"{furnished.home}/{spelled}", "--", "sh", "-c",
                      f"cat {furnished.home}/data/file; echo y > {furnished.home}/data/file")
    assert r.text == "x" and r.status != 0, r
    assert furnished.read(f"{furnished.home}/data/file") == b"x"
    assert "bash" not in r.text


def test_a_write_grant_is_writable(furnished):
    d = furnished.mkdir(f"{furnished.home}/results")
    furnished.run("-w", d, "--", "sh", "-c", f"echo out > {d}/f").ok()
    assert furnished.read(f"{d}/f") == b"out\n"


def test_a_symlinked_grant_works_as_spelled(furnished):
    """Mounted where it leads, and the user's spelling works"""
    os.symlink(f"{furnished.home}/data", furnished.path(f"{furnished.home}/alias"))
    furnished.own(f"{furnished.home}/alias")
    r = furnished.run("-r", f"{furnished.home}/alias", "--", "cat", f"{furnished.home}/alias/file")
    assert r.ok().text == "x"
    os.unlink(furnished.path(f"{furnished.home}/alias"))


def test_n5_a_link_in_the_project_to_what_is_not_granted_leads_nowhere(furnished):
    d = furnished.project()
    os.symlink(f"{furnished.home}/.ssh/id_ed25519", furnished.path(f"{d}/key"))
    os.symlink("/etc/shadow", furnished.path(f"{d}/shadow"))
    r = furnished.run("--", "sh", "-c", "cat key shadow", cwd=d)
    assert r.status != 0 and r.text == "", r


@pytest.mark.parametrize("secret", [".ssh/id_ed25519", ".aws/credentials", ".netrc"])
def test_h31_h32_credentials_below_a_read_grant_stay_absent(furnished, secret):
    """H31, H32: also after the host replaces or creates them while the sandbox runs"""
    # another user's-home shape below a grant: what the list names relative to $HOME is hidden there
    with furnished.inside("-r", f"{furnished.home}/data") as sb:
        p = f"{furnished.home}/{secret}"
        assert sb.py("result = os.path.lexists(p)", p=p) is False
        furnished.write(p + ".n", SECRET, 0o600)
        os.replace(furnished.path(p + ".n"), furnished.path(p))
        assert sb.py("result = os.path.lexists(p)", p=p) is False


def test_a_files_grant_that_is_missing_is_inactive_a_flags_is_an_error(furnished):
    path = furnished.write(f"{furnished.home}/g.policy",
                           "read /nonexistent/x\nread $UNSET_THING/x\n")
    furnished.run("-p", path, "--", "true").ok()
    assert furnished.run("-r", "/nonexistent/x", "--", "true").status == 125
    assert furnished.run("-r", "$UNSET_THING/x", "--", "true").status == 125


def test_policy_grants_work_like_flags(furnished):
    path = furnished.write(f"{furnished.home}/g.policy", "read ~/data\nread ~/.ssh\n")
    r = furnished.run("-p", path, "--", "true")
    assert r.status == 125 and ".ssh" in r.errtext, r
    path = furnished.write(f"{furnished.home}/g.policy", "read ~/data\n")
    r = furnished.run("-p", path, "--", "cat", f"{furnished.home}/data/file")
    assert r.ok().text == "x"


def test_a_project_that_may_not_be_written_is_read_only(furnished):
    """A dotfiles repository at ~/.config is not handed out for writing"""
    d = f"{furnished.home}/.config/fish"
    r = furnished.run("--", "sh", "-c", "echo evil > config.fish", cwd=d)
    assert r.status != 0 and not furnished.path(f"{d}/config.fish").exists(), r


@pytest.mark.parametrize("sub", [".config/weir", ".ssh", ".local/state/weir"])
def test_a_working_directory_of_secrets_is_not_shared(furnished, sub):
    r = furnished.run("--", "sh", "-c", "ls -A; touch made", cwd=f"{furnished.home}/{sub}")
    assert "id_ed25519" not in r.text and "policy" not in r.text, r
    assert not furnished.path(f"{furnished.home}/{sub}/made").exists()


@pytest.mark.as_root
@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/gshadow", "/etc/sudoers",
                                  "/etc/ssh/ssh_host_ed25519_key", "/etc/ssl/private"])
def test_as_root_the_system_secrets_are_absent_too(world, path):
    full = world.path(path)
    if not full.exists():
        full.parent.mkdir(exist_ok=True)
        if path.endswith("private"):
            full.mkdir()
        else:
            full.write_text(SECRET)
        os.chmod(full, 0o600)
    r = world.run("--", PYTHON, "-c", f"import os; print(os.path.lexists({path!r}))", root=True)
    assert r.ok().text == "False\n", r


@pytest.mark.as_root
def test_as_root_no_capability_and_no_write_to_the_system(world):
    r = world.run("--", "sh", "-c", "grep -E 'Cap(Eff|Prm|Bnd)|NoNewPrivs' /proc/self/status; "
                  "touch /etc/x /usr/x; chown 1 /tmp; echo x > /proc/sys/kernel/hostname",
                  root=True)
    assert r.text.count("0000000000000000") == 3 and "NoNewPrivs:\t1" in r.text, r
    assert not os.path.exists("/usr/x") and not world.path("/etc/x").exists()


# A /dev of its own: no test may come near the machine's.
OWN_DEV = ["/usr/bin/unshare", "-m", "/bin/sh", "-ec", """
    mount -t tmpfs -o mode=755 tmpfs /dev
    for n in null:3 zero:5 full:7 random:8 urandom:9; do
        mknod -m 666 /dev/${n%:*} c 1 ${n#*:}
    done
    mknod -m 666 /dev/tty c 5 0
    touch -d @0 /dev/[a-z]*
    "$@" </dev/null
    stat -c '%n %a %u %Y' /dev/full /dev/null""", "sh"]


@pytest.mark.as_root
def test_as_root_the_hosts_device_nodes_keep_their_modes_and_work(world):
    r = world.run("-q", "-n", "deny", "--", "sh", "-c", """
        for n in null zero full random urandom tty; do
            chmod 0 /dev/$n && echo chmod $n
            touch -d @1 /dev/$n && echo touch $n
        done 2>/dev/null
        chmod 0 /proc/self/fd/0 2>/dev/null && echo chmod 0
        echo x >/dev/null && echo x >>/dev/zero && ! echo x 2>/dev/null >/dev/full &&
        test "$(head -c2 /dev/zero | od -An -tx1)" = ' 00 00' &&
        test $(head -c9 /dev/urandom | wc -c) = 9 && : >/dev/random && echo works""",
                  root=True, prefix=OWN_DEV)
    assert r.ok().text == "works\n/dev/full 666 0 0\n/dev/null 666 0 0\n", r


@pytest.mark.as_root
def test_as_root_a_file_below_a_hidden_directory_of_etc_is_absent(world):
    world.mkdir("/etc/sudoers.d", 0o750, root=True)
    world.write("/etc/sudoers.d/x", SECRET, 0o440, root=True)
    r = world.run("-n", "deny", "--", "ls", "/etc/sudoers.d/x", "/etc/hosts", root=True)
    assert r.status == 2 and r.text == "/etc/hosts\n", r


def redirected(world, how, *command, opts=()):
    """`weir run … COMMAND HOW`, the redirection by a shell of the user's in a directory of P's"""
    base = world.project()
    world.mkdir(f"{base}/p")
    world.mkdir(f"{base}/out")
    for name in ("in", "log"):
        world.write(f"{base}/{name}", "held\n")
    r = world.weir("run", "--preset", "none", "-q", "-n", "deny", *opts, "--", *command,
                   cwd=f"{base}/p", prefix=["/bin/sh", "-c", f'exec "$@" {how}', "sh"])
    r.base = world.path(base)
    return r


@pytest.mark.parametrize("how,text,opts", [
    ("<../in", "echo x >/proc/self/fd/0", ()),
    ("<../in", "echo x >>/dev/stdin", ()),
    ("<../in", "exec 5<>/proc/self/fd/0", ()),
    (">>../log", "timeout 5 cat /proc/$$/fd/1 >&2", ()),
    ("3<../in", "echo x >/dev/fd/3", ("--keep-fd", "3")),
    ("<../in", "python3 -c 'import os; os.truncate(\"/proc/self/fd/0\", 0)' 2>/dev/null", ()),
])
def test_a_descriptor_gives_what_its_mode_gave_and_no_more(world, how, text, opts):
    r = redirected(world, how, "sh", "-c", f"{text} || exit 9", opts=opts)
    assert r.status in (2, 9) and "held" not in r.errtext, r
    assert (r.base / "in").read_text() == "held\n" and (r.base / "log").read_text() == "held\n"


@pytest.mark.parametrize("how,text,out", [
    ("<../in", "cat", "held\n"),
    ("<../in", "cat /dev/stdin", "held\n"),
    ("3<../in", "cat /dev/fd/3", "held\n"),
    ("<>../in", "printf ab >/dev/stdin; cat /dev/stdin", "ab"),
    (">>../log", "echo x; cat ../log 2>/dev/null; exit 0", ""),
    ("2>../log", "echo x | tee /dev/stderr", "x\n"),
    ("<../in", "bash -c 'cat <(echo one) /dev/fd/0; echo two > >(cat); wait'", "one\nheld\ntwo\n"),
    ("", "echo piped | cat /proc/self/fd/0", "piped\n"),
    ("</dev/null >/dev/null", "cat /dev/stdin; echo x >/dev/stdout", ""),
    ("", "mkdir -p a/b c /tmp/a /tmp/b; echo m >a/b/f; mv a/b/f c/; mv a/b c/; ln c/f a/g; "
     "echo t >/tmp/a/f; mv /tmp/a/f /tmp/b/; ln /tmp/b/f /tmp/a/; cat a/g /tmp/a/f", "m\nt\n"),
])
def test_what_scripts_do_with_descriptors_goes_on(world, how, text, out):
    r = redirected(world, how, "sh", "-c", text, opts=("--keep-fd", "3") if how[:1] == "3" else ())
    assert r.ok().text == out, r
    assert (r.base / "log").read_text() == {">>": "held\nx\n", "2>": "x\n"}.get(how[:2], "held\n")


def test_a_memfd_runs_and_an_unlinked_file_is_opened_again(world):
    with world.inside("-n", "deny") as sb:
        assert sb.py("""
            import os
            fd = os.memfd_create("m", 0)
            os.write(fd, open("/bin/true", "rb").read())
            t = open("/tmp/gone", "w+")
            t.write("x")
            t.flush()
            os.unlink("/tmp/gone")
            result = (os.spawnve(os.P_WAIT, f"/proc/self/fd/{fd}", ["true"], {}),
                      open(f"/proc/self/fd/{t.fileno()}").read())
        """) == (0, "x")


@pytest.mark.parametrize("how,opts,want", [
    ("<../out", (), "standard input is a directory"),
    ("1<../out", (), "standard output is a directory"),
    ("3</", ("--keep-fd", "3"), "--keep-fd 3 is a directory"),
])
def test_a_directory_is_no_descriptor_of_the_commands(world, how, opts, want):
    r = redirected(world, how, "touch", "made", opts=opts)
    assert r.status == 125 and want in r.errtext, r
    assert not (r.base / "p" / "made").exists()


def below(world, tree):
    """A prefix that mounts something on a directory below TREE before weir starts"""
    return ["/usr/bin/unshare", "-U", "-m", "--map-current-user", "--keep-caps", "/bin/sh", "-ec",
            f'mount -t tmpfs tmpfs "{tree}/a b/on"; exec "$@"', "sh"]


SOCKETS = """
    import os, socket, sys
    s = socket.socket(socket.AF_UNIX)
    try: s.connect(sys.argv[1] + "/sock"); print("connected")
    except OSError as e: print("refused")
    try: os.close(os.open(sys.argv[1] + "/fifo", os.O_RDWR | os.O_NONBLOCK)); print("opened")
    except OSError as e: print("refused")"""


@pytest.fixture
def tree(world):
    """A directory of the user's with a socket that listens, and a place to mount something on"""
    path = world.project()
    world.mkdir(f"{path}/a b/on")
    os.mkfifo(world.path(f"{path}/fifo"))
    s = world.make("host", socket.AF_UNIX, socket.SOCK_STREAM)
    here = os.open(world.path(path), os.O_PATH)
    s.bind(f"/proc/self/fd/{here}/sock")
    s.listen(1)
    os.close(here)
    for name in ("sock", "fifo"):
        os.chmod(world.path(f"{path}/{name}"), 0o777)
    return path


def test_a_read_tree_with_a_mount_below_is_refused_by_name(world, tree):
    for opts, cwd in ((("-r", tree), None), (("-r", "."), tree)):
        r = world.weir("run", "--preset", "none", "-n", "deny", *opts, "--", PYTHON, "-c",
                       textwrap.dedent(SOCKETS), tree, prefix=below(world, tree), cwd=cwd)
        assert r.status == 125 and r.text == "" and f"'{tree}' cannot be shared" in r.errtext, r
        assert f"'{tree}/a b/on' is mounted below it" in r.errtext and "fix: " in r.errtext, r


def test_a_socket_of_a_read_tree_is_not_the_hosts(world, tree):
    r = world.run("-n", "deny", "-r", tree, "--", PYTHON, "-c", textwrap.dedent(SOCKETS), tree)
    assert r.ok().text.startswith("refused\n"), r


def test_a_read_only_project_with_a_mount_below_is_not_shared(world, tree):
    r = world.run("-n", "deny", "--", "sh", "-c", 'pwd; ls -d "$0"', tree, cwd=tree,
                  env={"PATH": f"{tree}:/usr/bin:/bin"}, prefix=below(world, tree))
    assert r.text == f"{world.home}\n" and f"'{tree}/a b/on' is mounted below it" in r.errtext, r
    r = world.run("-n", "deny", "--", "pwd", cwd=tree, env={"PATH": f"{tree}:/usr/bin:/bin"})
    assert r.ok().text == f"{tree}\n" and "shared read-only" in r.errtext, r


@pytest.mark.parametrize("bit", ["0o4000", "0o2000", "0o6000"])
def test_no_set_id_file_can_be_left_on_the_host(world, bit):
    with world.inside("-n", "deny") as sb:
        got = sb.py("""
            import ctypes, platform, stat
            bit = int(bit, 8)
            libc = ctypes.CDLL(None, use_errno=True)
            reg = stat.S_IFREG | 0o755 | bit
            x86, at = platform.machine() == "x86_64", -100
            open("f", "w").close()
            fd = os.open("f", os.O_RDONLY)
            new, made = os.O_CREAT | os.O_EXCL | os.O_WRONLY, []
            calls = {
                "chmod": lambda p: libc.chmod(p, 0o755 | bit),
                "fchmod": lambda p: libc.fchmod(fd, 0o755 | bit),
                "fchmodat": lambda p: libc.fchmodat(at, p, 0o755 | bit, 0),
                "fchmodat2": lambda p: libc.syscall(452, at, p, 0o755 | bit, 0),
                "mkdirat": lambda p: libc.mkdirat(at, b"new", 0o755 | bit),
                "mknodat": lambda p: libc.mknodat(at, b"new", reg, 0),
                "openat": lambda p: libc.openat(at, b"new", new, 0o755 | bit),
                "tmpfile": lambda p: libc.openat(at, b".", os.O_TMPFILE | os.O_RDWR, 0o755 | bit),
            }
            if x86:
                calls.update({
                    "chmod, old": lambda p: libc.syscall(90, p, 0o755 | bit),
                    "mkdir, old": lambda p: libc.syscall(83, b"new", 0o755 | bit),
                    "mknod, old": lambda p: libc.syscall(133, b"new", reg, 0),
                    "creat, old": lambda p: libc.syscall(85, b"new", 0o755 | bit),
                    "open, old": lambda p: libc.syscall(2, b"new", new, 0o755 | bit),
                })
            for name, call in calls.items():
                ctypes.set_errno(0)
                r = call(b"f")
                if r >= 0 or ctypes.get_errno() != errno.EPERM:
                    made.append((name, r, ctypes.get_errno()))
            how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o755, 0)
            r = libc.syscall(437, at, b"new", how, 24)
            result = made, r, errno.errorcode[ctypes.get_errno()], sorted(os.listdir("."))
        """, bit=bit)
    # a kernel or a filter that is older than fchmodat2 says ENOSYS
    assert [m for m in got[0] if m[0] != "fchmodat2" or m[2] != 38] == [], got
    assert got[1:] == (-1, "ENOSYS", ["f"]), got


def test_modes_without_set_id_bits_and_archives_go_on(world):
    need("tar", "tar")
    r = world.run("-n", "deny", "--", "sh", "-ec", """
        umask 0; mkdir -m 1777 d; echo >d/f; chmod 1755 d; chmod 755 d/f; install -m 711 d/f d/g
        tar cf t.tar d; mkdir e; tar xpf t.tar -C e; cp -a d c; mkfifo -m 600 p
        stat -c %a d d/f d/g e/d e/d/g c/g p | tr '\\n' ' '""")
    assert r.ok().text == "1755 755 711 1755 711 711 600 ", r


@pytest.mark.parametrize("how", [[], ["--tty", "always"], ["-n", "deny"], ["-n", "allow"]])
def test_the_launch_leaves_nobody_on_fewer_processors(world, how):
    """pid 1 is kept off the keeper's while the tree is made"""
    mine = sorted(os.sched_getaffinity(0))
    r = world.run(*how, "--", PYTHON, "-c",
                  "import os; print([sorted(os.sched_getaffinity(p)) for p in (0, 1, 2)])").ok()
    assert r.text.strip() == repr([mine] * 3), r
