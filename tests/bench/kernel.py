#!/usr/bin/python3
# SPDX-License-Identifier: ISC
"""tests/bench/kernel.py - how long a kernel takes from its start until it listens and runs code.

usage: kernel.py WEIR ROUNDS: plain and by weir run --connection-file, interleaved; the two medians in ms.
A client is there from the start, as with every front end: its connections come before the kernel listens.
Its answers come at the next of its tries, 100 ms apart, which is coarser than what is measured; so the
kernel says by a pipe that it is there."""
import os
import statistics
import subprocess
import sys
import time

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

KERNEL = ["/usr/bin/python3", "-m", "ipykernel_launcher", "-f", "{connection_file}",
          "--IPKernelApp.exec_lines=import os; os.write(1, b'x')"]


class Manager(KernelManager):
    argv = KERNEL

    @property
    def kernel_spec(self):
        return KernelSpec(argv=self.argv, display_name="k", language="python")


def once(argv):
    m = Manager()
    m.argv = argv
    here, theirs = os.pipe()
    t = time.monotonic()
    m.start_kernel(stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    client = m.client()
    client.start_channels()
    got = os.read(here, 1)
    took = time.monotonic() - t
    client.stop_channels()
    m.shutdown_kernel(now=True)
    os.close(here)
    if got != b"x":
        sys.exit("a kernel did not start")
    return took * 1000


def main(weir, rounds):
    ways = [KERNEL, [weir, "run", "-q", "--connection-file", "{connection_file}", "--", *KERNEL]]
    got = [[], []]
    for _ in range(rounds):
        for way, out in zip(ways, got):
            out.append(once(way))
    print(*(f"{statistics.median(out):.1f}" for out in got))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
