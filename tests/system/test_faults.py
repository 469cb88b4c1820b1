# SPDX-License-Identifier: ISC
"""Out of descriptors, memory, processes or space at any step of a launch (faults.py): a clear error and
exit status 125, or success; nothing left; and never a command outside its sandbox."""
import os
import signal
import subprocess

import pytest

from faults import calls_of, error_of, in_command
from world import Done, need

SHELL = "/bin/sh"
# prints who it is: its sandbox and its network
WHO = "echo IN $WEIR_SANDBOX $(readlink /proc/self/ns/net)"
EVERY = 9	# in a plain check: each ninth call


@pytest.fixture(scope="module")
def launch(world):
    need("strace", "strace")
    return Launch(world)


class Launch:
    """One launch, again and again, each time with another fault"""

    def __init__(self, world):
        self.world = world
        self.out = f"{world.home}/trace"
        self.state, self.cwd = f"{world.home}/.local/state-faults", world.project()
        self.host = os.readlink(f"/proc/{world.pid}/fd/{world.ns['host']}")
        self.start()	# the first one makes directories that the others find
        done = self.start()
        assert done.status == 0 and self.inside(done), done
        self.calls = calls_of(self.trace(), SHELL)
        self.mounts = world.mounts()
        assert len(self.calls) > 200, "strace shows less than a launch"

    def start(self, *options):
        r = self.world.spawn("run", "--", SHELL, "-c", WHO, state=self.state, cwd=self.cwd,
                             prefix=["strace", "-f", "-qq", *options, "-o", self.out])
        try:
            out, err = r.p.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            for pid, _, _ in self.world.leftovers():
                os.kill(pid, signal.SIGKILL)
            out, err = r.p.communicate()
            err = b"it hung\n" + err
        return Done(r.argv, r.p.returncode, out, err, r.audit_path)

    def trace(self):
        return self.world.path(self.out).read_text(errors="replace").splitlines()

    def inside(self, done):
        words = done.text.split()
        return len(words) == 3 and words[0] == "IN" and len(words[1]) == 12 and words[2] != self.host

    def fault(self, call, n):
        """Return: what is wrong, or None"""
        done = self.start("-e", f"trace={call},execve", "-e",
                          f"inject={call}:error={error_of(call)}:when={n}")
        if done.out and not self.inside(done) and not in_command(self.trace(), SHELL):
            return f"it ran outside: {done}"
        is_told = done.status == 125 and done.err.startswith(b"weir: ") and not done.out
        if not is_told and not (done.status == 0 and self.inside(done)) and \
                not in_command(self.trace(), SHELL):
            return f"{done}\n{[x for x in self.trace() if 'INJECTED' in x][:4]}"
        try:
            self.world.assert_clean(5)
        except AssertionError as e:
            return str(e)
        if self.world.mounts() != self.mounts or os.listdir(self.world.path("/tmp")):
            return "mounts or files were left"
        return None

    def faults(self, calls):
        wrong = []
        for call, n in calls:
            what = self.fault(call, n)
            if what:
                wrong.append(f"{call} number {n} gives {error_of(call)}: {what}")
        assert not wrong, "\n\n".join(wrong)


def test_a_launch_without_one_thing_fails_clearly_or_works(launch):
    launch.faults(launch.calls[::EVERY])


@pytest.mark.clients
@pytest.mark.parametrize("part", range(EVERY - 1))
def test_a_launch_without_any_one_thing_fails_clearly_or_works(launch, part):
    launch.faults(launch.calls[part + 1::EVERY])
