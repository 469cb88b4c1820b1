# SPDX-License-Identifier: ISC
"""nested yes: programs that make a sandbox of their own work inside, and gain nothing over weir's."""
import pytest

from world import need

BWRAP = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all",
         "--die-with-parent"]

# as the root of a new user namespace, over a copy of the sandbox's mounts
POWER = ["unshare", "--user", "--map-root-user", "--mount", "--", "sh", "-c"]


@pytest.fixture(scope="module")
def nested(world):
    need("bwrap", "bubblewrap")
    world.policy = world.write(f"{world.home}/nested.policy", "nested yes\n")
    world.write(f"{world.home}/.ssh/id_ed25519", "secret", 0o600)
    return world


def run(world, *command, opts=()):
    return world.run("-n", "deny", "-p", world.policy, *opts, "--", *command)


def test_bwrap_works_inside(nested):
    r = run(nested, *BWRAP, "sh", "-c", "test $$ -lt 4 && echo inside; touch /usr/x")
    assert r.status == 1 and r.text == "inside\n" and "Read-only" in r.errtext, r


def test_without_it_bwrap_is_refused(nested):
    r = nested.run("-n", "deny", "--", *BWRAP, "true")
    assert r.status == 1 and "No permissions to create new namespace" in r.errtext, r


def test_what_weir_mounted_stays_as_it_is(nested):
    """Nothing is writable, removed or moved away that was not so before"""
    r = run(nested, *POWER, """
        grep CapEff /proc/self/status
        for m in / /usr /etc /proc /sys /var /run/weir/weir; do
            test $m = /proc || { mount -o remount,rw,bind $m && echo "remounted $m"; }
            umount $m && echo "unmounted $m"
            umount -l $m && echo "detached $m"
            mount --move $m /mnt && echo "moved $m"
        done 2>/dev/null
        touch /usr/x /etc/x /x 2>/dev/null && echo written
        ls -d ~/.ssh /etc/shadow 2>/dev/null
        cat /proc/1/environ 2>/dev/null
        exit 0""")
    lines = r.ok().text.splitlines()
    # a mount may be covered by itself, never taken away or changed
    assert lines[0].split()[1].strip("0") and lines[1:] == [], r


def test_its_namespaces_lead_nowhere(nested):
    """A network of its own is empty; raw sockets and the kernel's other doors stay closed"""
    r = run(nested, "unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--",
            "python3", "-c", """
import errno, os, socket
def sock(*a):
    try: socket.socket(*a); return "made"
    except OSError as e: return errno.errorcode[e.errno]
print(sorted(n for _, n in socket.if_nameindex()), sock(socket.AF_PACKET, socket.SOCK_RAW),
      sock(socket.AF_INET, socket.SOCK_RAW, 1), sock(socket.AF_VSOCK, socket.SOCK_STREAM))
""")
    assert r.ok().text == "['lo'] EAFNOSUPPORT EPERM EAFNOSUPPORT\n", r


@pytest.mark.nightly
def test_chromium_keeps_its_own_sandbox(nested):
    need("chromium", "chromium")
    r = run(nested, "sh", "-c", "chromium --headless=new --disable-gpu --user-data-dir=/tmp/c "
            "--dump-dom 'data:text/html,<p>inside</p>' 2>/dev/null")
    assert "<p>inside</p>" in r.ok().text, r
    r = nested.run("-n", "deny", "--", "chromium", "--headless=new", "--version-of-nothing",
                   "data:text/html,x", timeout=60)
    assert r.status != 0, "it starts without its sandbox"


# A runtime of one shell and an application of one script. Installing an application asks the system's bus
# who may: here that is the session's.
FLATPAK = r"""
export XDG_DATA_HOME=$PWD/data FLATPAK_USER_DIR=$PWD/data/flatpak DBUS_SYSTEM_BUS_ADDRESS=$DBUS_SESSION_BUS_ADDRESS
a=$(uname -m)
mkdir -p rt/files/bin app/files/bin app/export
cp /bin/dash rt/files/bin/sh
for l in $(ldd /bin/dash | grep -o '/[^ ]*'); do
    d=rt/files$(dirname $l | sed 's,^/usr,,'); mkdir -p $d; cp $l $d
done
printf '#!/bin/sh\necho hello from flatpak; echo /proc/[0-9]*; test ! -e /usr/bin/git; echo x > /app/x\n' > app/files/bin/hello
chmod +x app/files/bin/hello
printf '[Runtime]\nname=org.example.R\nruntime=org.example.R/%s/1\nsdk=org.example.R/%s/1\n' $a $a > rt/metadata
printf '[Application]\nname=org.example.A\nruntime=org.example.R/%s/1\nsdk=org.example.R/%s/1\ncommand=hello\n' \
    $a $a > app/metadata
flatpak build-export --disable-sandbox --runtime --files=files repo rt 1 >/dev/null
flatpak build-export --disable-sandbox repo app 1 >/dev/null
flatpak --user remote-add --no-gpg-verify here file://$PWD/repo
flatpak --user install -y --noninteractive here org.example.R//1 org.example.A//1 >/dev/null
flatpak run --user org.example.A//1
"""


@pytest.mark.clients
def test_flatpak_installs_and_runs_an_application(nested):
    need("flatpak", "flatpak")
    need("dbus-run-session", "dbus-daemon")
    r = run(nested, "dbus-run-session", "--", "sh", "-e", "-c", FLATPAK)
    assert r.text == "hello from flatpak\n/proc/1 /proc/2\n" and "Read-only file system" in r.errtext, r
    r = nested.run("-n", "deny", "--", "dbus-run-session", "--", "sh", "-e", "-c", FLATPAK)
    assert r.status != 0 and "hello" not in r.text, "it runs without its sandbox"
