# SPDX-License-Identifier: ISC
"""tests/system/origins/holder.py - the long-lived process that owns one test world.

Started in a mount namespace of its own (and, for an ordinary user, a user namespace with its
capabilities kept). It makes two network namespaces joined by a veth pair: "host" is where weir
runs, "net" is everything beyond it: public addresses, a LAN host, the metadata address. Then it
answers requests on a SOCK_SEQPACKET socket: make a socket in one of them (the descriptor comes
back), run `ip` there. It ends when that socket does.
"""
import ctypes
import json
import os
import socket
import subprocess
import sys

CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def call(name, *args):
    if getattr(libc, name)(*args) < 0:
        e = ctypes.get_errno()
        raise OSError(e, f"{name}: {os.strerror(e)}")


def run(*argv, check=True, stdin=None):
    p = subprocess.run(argv, input=stdin, text=True, capture_output=True)
    if check and p.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {p.stderr.strip()}")
    return p.stdout


HOST_NET = """\
link set lo up
link set lan0 up
addr add 10.77.0.1/24 dev lan0
addr add fd77::1/64 dev lan0 nodad
route add default via 10.77.0.2
route add ::/0 via fd77::2
"""
PUBLIC4 = [f"93.184.216.{n}" for n in range(34, 42)]
PUBLIC6 = [f"2606:2800:220:1::{n}" for n in range(34, 38)]
OTHERS = ["192.168.7.7", "172.16.9.9", "100.64.1.1", "169.254.169.254", "198.51.100.7",
          "198.18.0.7"]


def net_batch():
    out = ["link set lo up", "link set up0 up", "addr add 10.77.0.2/24 dev up0",
           "addr add fd77::2/64 dev up0 nodad"]
    out += [f"addr add {a}/32 dev lo" for a in PUBLIC4 + OTHERS]
    out += [f"addr add {a}/128 dev lo nodad" for a in PUBLIC6]
    return "\n".join(out) + "\n"


def make_socket(req):
    s = socket.socket(req["family"], req["type"], req.get("proto", 0))
    if req["family"] in (socket.AF_INET, socket.AF_INET6):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if req["family"] == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    if req.get("bind") is not None:
        b = req["bind"]
        s.bind(tuple(b) if isinstance(b, list) else b)
    if req.get("listen"):
        s.listen(req["listen"])
    return s


def main():
    ctl = socket.socket(fileno=int(sys.argv[1]))
    opts = json.loads(sys.argv[2])
    ns = {}
    mount = "/usr/bin/mount"

    run(mount, "--make-rprivate", "/")
    # every place a test writes to is a tmpfs of this world
    for where, mode in (("/home", "755"), ("/tmp", "1777"), ("/run", "755"), ("/srv", "755")):
        run(mount, "-t", "tmpfs", "-o", f"mode={mode}", "tmpfs", where)
    if opts["etc"] == "copy":
        os.mkdir("/home/.etc")
        run(mount, "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/home/.etc")
        run("/usr/bin/cp", "-a", "/etc/.", "/home/.etc/", check=False)
        run(mount, "--move", "/home/.etc", "/etc")
        os.rmdir("/home/.etc")
        if os.path.islink("/etc/resolv.conf"):
            with open("/etc/resolv.conf", encoding="utf-8") as f:
                text = f.read()
            os.unlink("/etc/resolv.conf")
            with open("/etc/resolv.conf", "w", encoding="utf-8") as f:
                f.write(text)
    else:	# files bound one by one over the machine's own /etc, as containers do it
        os.mkdir("/run/etc")
        for name in ("hosts", "resolv.conf", "passwd"):
            run("/usr/bin/cp", f"/etc/{name}", f"/run/etc/{name}")
            run(mount, "--bind", f"/run/etc/{name}", f"/etc/{name}")
    if opts["net"]:
        call("unshare", CLONE_NEWNET)
        ns["net"] = os.open("/proc/self/ns/net", os.O_RDONLY)
        call("unshare", CLONE_NEWNET)
        ns["host"] = os.open("/proc/self/ns/net", os.O_RDONLY)
        run("ip", "link", "add", "lan0", "type", "veth", "peer", "name", "up0", "netns",
            f"/proc/{os.getpid()}/fd/{ns['net']}")
        run("ip", "-batch", "-", stdin=HOST_NET)
        call("setns", ns["net"], CLONE_NEWNET)
        run("ip", "-batch", "-", stdin=net_batch())
        call("setns", ns["host"], CLONE_NEWNET)
    ctl.send(json.dumps({"ok": True, "pid": os.getpid(), "ns": ns}).encode())
    while True:
        data = ctl.recv(65536)
        if not data:
            return
        req = json.loads(data)
        fds, made = [], None
        try:
            if req["ns"] in ns:
                call("setns", ns[req["ns"]], CLONE_NEWNET)
            if req["op"] == "socket":
                made = make_socket(req)
                fds, answer = [made.fileno()], {"ok": True}
            elif req["op"] == "ip":
                answer = {"ok": True, "out": run("ip", *req["args"])}
            else:
                raise ValueError(req["op"])
        except Exception as e:	# pylint: disable=broad-except
            answer = {"ok": False, "error": str(e)}
        if "host" in ns:	# before the answer: whoever got it may look at this process
            call("setns", ns["host"], CLONE_NEWNET)
        socket.send_fds(ctl, [json.dumps(answer).encode()], fds)
        if made:
            made.close()


main()
