# SPDX-License-Identifier: ISC
"""A Jupyter KernelProvisioner that starts any kernel by weir run: an example.

Where kernelspecs are not to be copied (weir kernelspec add), or what a kernel may reach is decided when it
starts, by whom it belongs to. It is named in the metadata of a kernelspec,

    "metadata": {"kernel_provisioner": {"provisioner_name": "weir",
                                        "config": {"options": ["--allow", "data.example.org"]}}}

or is the default of all kernels by KernelProvisionerFactory.default_provisioner_name, once an entry point
makes it known: [project.entry-points."jupyter_client.kernel_provisioners"] weir = "provisioner:Weir".
Python 3.7 and jupyter-client 7 or later."""
import json
import os

from jupyter_client.provisioning import LocalProvisioner
from traitlets import List, Unicode


class Weir(LocalProvisioner):
    """Kernels in a sandbox each; the rest is the local provisioner's"""

    program = Unicode("weir", config=True, help="weir itself")
    options = List(Unicode(), config=True, help="options of weir run")

    sandbox = None	# what --status-fd said when the kernel was started

    async def launch_kernel(self, cmd, **kwargs):
        kernel_file = self.parent.connection_file
        name = "".join(c for c in self.kernel_spec.display_name.lower() if c.isalnum())[:32]
        status, theirs = os.pipe()
        front = [self.program, "run", "--name", name or "kernel", "--status-fd", str(theirs)]
        if kernel_file in cmd:	# the kernel is told where to listen: weir too
            front += ["--connection-file", kernel_file]
        # what the kernelspec sets is for the kernel, not for weir: XDG_CONFIG_HOME names a policy
        env = dict(kwargs["env"])
        for variable in self.kernel_spec.env:
            front += ["--env", f"{variable}={env.pop(variable)}"]
            if variable in os.environ:
                env[variable] = os.environ[variable]
        more = {"env": env, "pass_fds": (*kwargs.get("pass_fds", ()), theirs)}
        try:
            info = await super().launch_kernel(front + self.options + ["--"] + cmd,
                                               **{**kwargs, **more})
        finally:
            os.close(theirs)
        with os.fdopen(status) as f:
            line = f.readline()	# the first comes when the kernel runs; none: weir has ended
        self.sandbox = json.loads(line) if line else None
        return info

    async def get_provisioner_info(self):
        return {**await super().get_provisioner_info(), "sandbox": self.sandbox}
