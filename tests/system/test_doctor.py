# SPDX-License-Identifier: ISC
"""weir doctor: each cause made real where a user or root can make it; else told by files that
build/test/weir reads in place of the machine's own (WEIR_TEST_SYSROOT)."""
import json
import os
import subprocess

import pytest

from test_policy_commands import check, schema
from test_sandbox_limits import delegated  # noqa: F401  pylint: disable=unused-import
from world import BIN, HERE, PYTHON, need, without

NAMES = ["kernel", "surroundings", "user namespaces", "other namespaces", "mounts", "fresh /proc",
         "seccomp", "seccomp notify", "landlock", "overlay", "fresh /sys", "nf_tables", "ipv6",
         "cgroup", "descriptors", "home", "sandbox"]


def doctor(world, status=0, **kw):
    r = world.weir("doctor", "--json", **kw)
    assert r.status == status, r
    got = json.loads(r.text)
    check(got, schema("doctor"))
    assert got["works"] is (status == 0), r
    by = {c["name"]: c for c in got["checks"]}
    assert list(by) == NAMES
    return by


def states(by, *names):
    return [by[n]["state"] for n in names]


def machine(world, **files):
    """Files of a machine that is not this one; for test=True"""
    root = world.project()
    for name, text in files.items():
        world.write(f"{root}/{name}", text)
    return {"WEIR_TEST_SYSROOT": root}


def test_this_machine_works_and_every_check_is_said(world):
    by = doctor(world)
    needed = [n for n in NAMES if by[n]["without"] is None and by[n]["state"] != "ok"]
    assert not needed and by["sandbox"]["found"] == "made and left", by
    if by["nf_tables"]["state"] == "ok":
        assert "a reset after the connection" in by["nf_tables"]["found"], by
    r = world.weir("doctor").ok()
    assert r.text.endswith("weir run works on this machine\n") and not r.audit, r
    for n in NAMES:
        assert f"  {n}" in r.text, n


@pytest.mark.parametrize("kind", ["user", "net", "mnt", "pid", "ipc", "uts", "cgroup"])
def test_a_limit_of_no_namespaces_is_named_as_run_names_it(world, kind):
    run = world.run("-n", "allowlist", "--", "true", prefix=without(kind))
    by = doctor(world, 1, prefix=without(kind))
    name = {"user": "user namespaces"}.get(kind, "other namespaces")
    assert by[name]["state"] == by["sandbox"]["state"] == "missing"
    for c in (by[name], by["sandbox"]):
        assert c["why"] == f"user.max_{kind}_namespaces is 0"
        assert c["fix"] == f"sudo sysctl user.max_{kind}_namespaces=15000"
    assert run.status == 125 and f"why: {by[name]['why']}\n" in run.errtext, run
    assert f"fix: {by[name]['fix']}\n" in run.errtext, run
    if kind == "user":
        assert set(states(by, "other namespaces", "mounts", "fresh /proc", "overlay")) == {
            "unknown"}


MASKED = ["/usr/bin/unshare", "-U", "-r", "-m", "/bin/sh", "-c",
          'mount -t tmpfs -o ro tmpfs /proc/irq && exec "$@"', "sh"]


@pytest.mark.parametrize("where,fix", [
    ({".dockerenv": ""}, "docker run --security-opt systempaths=unconfined"),
    ({"run/.containerenv": ""}, "podman run --security-opt unmask=ALL"),
    ({"var/run/secrets/kubernetes.io": ""}, "procMount: Unmasked"),
])
def test_a_masked_proc_has_the_remedy_of_what_weir_runs_in(world, where, fix):
    env = machine(world, **where)
    by = doctor(world, 1, prefix=MASKED, env=env, test=True)
    assert states(by, "user namespaces", "mounts", "fresh /proc") == ["ok", "ok", "missing"]
    assert "partly masked" in by["fresh /proc"]["why"] and fix in by["fresh /proc"]["fix"], by
    r = world.run("-n", "deny", "--", "true", prefix=MASKED, env=env, test=True)
    assert r.status == 125 and "partly masked" in r.errtext and fix in r.errtext, r


# As the seccomp profile of a container: no new namespace, by unshare or clone
FILTER = """
import ctypes, os, platform, struct, sys
x86 = platform.machine() == "x86_64"
unshare, clone, clone3 = (272, 56, 435) if x86 else (97, 220, 435)
errno = lambda n: (6, 0, 0, 0x00050000 | n)
code = [(32, 0, 0, 0), (21, 0, 1, clone3), errno(38), (21, 1, 0, unshare), (21, 0, 3, clone),
        (32, 0, 0, 16), (69, 0, 1, 0x7E020000), errno(1), (6, 0, 0, 0x7FFF0000)]
libc = ctypes.CDLL(None, use_errno=True)
class Prog(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
p = Prog(len(code), b"".join(struct.pack("<HBBI", *c) for c in code))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(p)) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("label,fix", [("docker-default (enforce)\n", "apparmor=unconfined"),
                                       ("unconfined\n", "seccomp=unconfined")])
def test_a_containers_seccomp_filter_is_told_as_such(world, label, fix):
    env = machine(world, **{".dockerenv": "", "proc/self/attr/current": label})
    by = doctor(world, 1, prefix=[PYTHON, "-c", FILTER], env=env, test=True)
    c = by["user namespaces"]
    assert c["found"] == "Operation not permitted" and "seccomp filter" in c["why"], c
    assert c["fix"].endswith(fix) and by["sandbox"]["fix"] == c["fix"], by


@pytest.mark.as_root
def test_a_chroot_is_told_as_such(world):
    root = world.mkdir("/srv/chroot", root=True)
    text = " && ".join(f"mkdir -p {root}/{d} && mount --rbind /{d} {root}/{d}" for d in
                       ("usr", "proc", "etc", "tmp", "home", "dev", "srv/bin"))
    links = " && ".join(f"ln -sf usr/{d} {root}/{d}" for d in ("bin", "lib", "lib64"))
    prefix = ["/usr/bin/unshare", "-m", "/bin/sh", "-c", f"{text} && {links} && cp {BIN} {root}/weir "
              f"&& shift && exec /usr/sbin/chroot {root} /weir \"$@\"", "sh"]
    by = doctor(world, 1, prefix=prefix, root=True)
    assert "chroot" in by["user namespaces"]["why"], by
    assert states(by, "kernel", "sandbox") == ["ok", "missing"]


@pytest.mark.parametrize("files,why", [
    ({"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}, "has no AppArmor profile"),
    ({"proc/sys/kernel/unprivileged_userns_clone": "0\n"}, "unprivileged_userns_clone is 0"),
])
def test_a_setting_of_the_kernel_is_named(world, files, why):
    by = doctor(world, 1, prefix=[PYTHON, "-c", FILTER], env=machine(world, **files), test=True)
    assert why in by["user namespaces"]["why"] and "sysctl" in by["user namespaces"]["fix"], by
    assert by["sandbox"]["why"] == by["user namespaces"]["why"]


@pytest.mark.parametrize("release,state", [("5.11.22", "missing"), ("4.4.0-19041-Microsoft", "missing"),
                                           ("5.12.0", "ok"), ("6.1", "ok"), ("10.0-rc1", "ok"),
                                           ("five", "missing")])
def test_a_kernel_that_is_too_old_is_named(world, release, state):
    env = machine(world, **{"proc/sys/kernel/osrelease": release + "\n"})
    by = doctor(world, int(state != "ok"), env=env, test=True)
    assert by["kernel"]["state"] == state and release in by["kernel"]["found"], by
    assert state == "ok" or "5.12" in by["kernel"]["why"]


def test_wsl_is_told(world):
    env = machine(world, **{"proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2\n"})
    assert "WSL" in doctor(world, env=env, test=True)["surroundings"]["found"]


@pytest.mark.parametrize("feature,name", [("landlock", "landlock"), ("overlay", "overlay"),
                                          ("nf_tables", "nf_tables"), ("ipv6", "ipv6"),
                                          ("notify", "seccomp notify")])
def test_what_changes_without_an_optional_feature_is_said(world, feature, name):
    by = doctor(world, env={"WEIR_TEST_WITHOUT": feature}, test=True)
    assert by[name]["state"] == "less" and by[name]["without"] and by[name]["fix"], by


def test_a_delegated_cgroup_is_seen(world, delegated):
    p = subprocess.run(delegated[1] + world.enter(world.home) + [BIN, "doctor", "--json"],
                       capture_output=True, text=True, check=False, timeout=60,
                       env=world.env(f"{world.home}/.local/state-cg"))
    by = {c["name"]: c for c in json.loads(p.stdout)["checks"]}
    assert by["cgroup"]["found"] == "delegated: processes, memory, cpu", p


def test_without_a_cgroup_the_remedy_is_said(world):
    c = doctor(world)["cgroup"]
    assert c["state"] == "ok" or "Delegate=yes" in c["fix"], c


@pytest.mark.clients
def test_the_apparmor_profile_is_read_by_its_parser(tmp_path):
    """A parser before 4.0 knows neither that abi nor the word userns: it reads the rest"""
    parser = need("apparmor_parser", "apparmor")
    text = (HERE.parent.parent / "docs" / "apparmor.in").read_text(encoding="utf-8")
    text = text.replace("@WEIR@", "/usr/local/bin/weir")
    assert text.count("abi <abi/4.0>,\n") == 1 and text.count("  userns,\n") == 1, text
    if not os.path.exists("/etc/apparmor.d/abi/4.0"):
        text = text.replace("abi <abi/4.0>,\n", "abi <abi/3.0>,\n").replace("  userns,\n", "")

    def parse(what):
        path = tmp_path / "weir"
        path.write_text(what, encoding="utf-8")
        p = subprocess.run([parser, "-Q", "-K", "--names", path], capture_output=True, text=True,
                           check=False, timeout=60)
        q = subprocess.run([parser, "-Q", "-K", path], capture_output=True, text=True, check=False,
                           timeout=60)
        return p.stdout.split() if (p.returncode, q.returncode) == (0, 0) else p.stderr + q.stderr

    assert parse(text) == ["weir"]
    assert "syntax error" in parse(text.replace("(unconfined) {", "(unconfined)"))


def test_few_descriptors_are_counted(world):
    by = doctor(world, prefix=["/usr/bin/prlimit", "--nofile=1064:1064"])
    assert by["descriptors"]["state"] == "less" and "500 connections" in by["descriptors"]["found"]


def test_what_it_takes(world):
    assert world.weir("doctor", "--help").ok().text.startswith("usage: weir doctor")
    r = world.weir("doctor", "x")
    assert r.status == 125 and "takes no 'x'" in r.errtext, r
    with open("/dev/full", "wb") as full:
        assert world.spawn("doctor", stdout=full).finish().status == 125
    assert os.path.exists("/dev/full")
