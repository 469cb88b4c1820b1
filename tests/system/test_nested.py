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
