# SPDX-License-Identifier: ISC
"""A JupyterHub spawner that starts each user's server by weir run: an example.

In jupyterhub_config.py, with this file in the hub's PYTHONPATH:

    c.JupyterHub.spawner_class = "spawner.Weir"
    c.Weir.options = ["-C", "notebooks", "--home", "keep", "--preset", "python"]

The server's port is published under its own number, the hub's API is reached at its own, and of the
variables only those that the hub makes for the server are kept. The directory that the server starts in is
writable for it: a home directory itself is never shared, so that -C names one below it.
JupyterHub 2 or later."""
import asyncio
import json
import os
from urllib.parse import urlsplit

from jupyterhub.spawner import LocalProcessSpawner
from jupyterhub.traitlets import Command
from jupyterhub.utils import random_port
from traitlets import List, Unicode


class Weir(LocalProcessSpawner):
    """Servers in a sandbox each; users, processes and polling are the local spawner's"""

    cmd = Command(["weir"], config=True, help="weir itself")
    singleuser = Command(["jupyterhub-singleuser"], config=True, help="what runs in the sandbox")
    options = List(Unicode(), config=True, help="more options of weir run")

    sandbox = None	# what --status-fd said when the server was started
    told = -1

    def get_args(self):
        name = "".join(c for c in self.user.name if c.isascii() and (c.isalnum() or c in "._-"))[:64]
        words = ["run", "-q", "--name", name or "server", "--status-fd", str(self.told),
                 "--publish", str(self.port), "--reach", str(urlsplit(self.hub.api_url).port)]
        for variable in sorted(self.get_env()):
            if variable.startswith("JUPYTERHUB_"):
                words += ["--keep-env", variable]
        return words + self.options + ["--"] + self.singleuser + super().get_args()

    async def start(self):
        if self.port == 0:
            self.port = random_port()
        status, self.told = os.pipe()
        self.popen_kwargs = {**self.popen_kwargs, "pass_fds": (self.told,)}
        try:
            where = await super().start()
        finally:
            os.close(self.told)
        with os.fdopen(status) as f:	# the first line comes when the server runs; none: weir has ended
            line = await asyncio.get_running_loop().run_in_executor(None, f.readline)
        if not line:
            raise RuntimeError("weir did not start the server: its message is in the hub's output")
        self.sandbox = json.loads(line)
        return where
