# SPDX-License-Identifier: ISC
"""Fault injection: which system calls one launch makes, and what each gives when the kernel is out of
something. strace(1) makes the Nth call of a name fail in every process that makes so many."""
import collections
import re

# What does not fail, or whose failure no program answers: an end, a wait, a question about oneself.
NEVER = {"exit", "exit_group", "rt_sigreturn", "restart_syscall", "close", "munmap", "madvise",
         "futex", "poll", "ppoll", "epoll_wait", "epoll_pwait", "sched_yield", "nanosleep",
         "clock_nanosleep", "getpid", "gettid", "getppid", "getuid", "geteuid", "getgid", "getegid",
         "umask", "wait4", "waitid", "arch_prctl", "set_tid_address", "set_robust_list", "rseq",
         "rt_sigaction", "rt_sigprocmask", "uname", "getcwd", "lseek", "alarm",
         "brk"}	# the kernel's brk gives the old end, not an errno: libc would believe the latter
# The errno of a machine that has no more of it; ENOMEM is what any other call says.
ERRORS = {"EMFILE": {"open", "openat", "openat2", "open_tree", "fsopen", "fsmount", "socket",
                     "socketpair", "pipe2", "accept4", "epoll_create1", "eventfd2", "signalfd4",
                     "inotify_init1", "dup", "dup2", "dup3", "fcntl", "pidfd_open", "recvmsg"},
          "EAGAIN": {"clone", "clone3", "fork", "vfork"},
          "ENOSPC": {"write", "unshare", "mkdir", "mkdirat", "mknodat", "symlinkat", "renameat",
                     "setns", "pwrite64"},
          "EPERM": {"prctl", "capset", "seccomp", "landlock_restrict_self", "setsid", "pivot_root",
                    "pidfd_send_signal"}}
LINE = re.compile(r"^(\d+) +(\w+)\(")


def error_of(call):
    for error, calls in ERRORS.items():
        if call in calls:
            return error
    return "ENOMEM"


def command_of(trace, program):
    """-> (pid that became the command, number of the line where it did)"""
    for i, line in enumerate(trace):
        if re.match(rf'^\d+ +(<\.\.\. )?execve.*{re.escape(program)}"', line) and \
                line.rstrip().endswith("= 0"):
            return line.split()[0], i
    return None, len(trace)


def calls_of(trace, program):
    """[(name, N)]: every call that can fail and that weir's own processes make, each once"""
    cmd, since = command_of(trace, program)
    kids, seen = {cmd}, collections.Counter()
    for i, line in enumerate(trace):
        m = LINE.match(line)
        if not m or (i > since and m[1] in kids):
            continue
        seen[m[1], m[2]] += 1
    most = collections.Counter()
    for (_, name), n in seen.items():
        most[name] = max(most[name], n)
    return [(name, n + 1) for name, k in sorted(most.items()) if name not in NEVER
            for n in range(k)]


def in_command(trace, program):
    """Did a fault hit the command itself, or what it started?"""
    cmd, since = command_of(trace, program)
    hit = [(i, ln.split()[0]) for i, ln in enumerate(trace) if "(INJECTED)" in ln]
    weirs = {ln.split()[0] for ln in trace[:since]} - {cmd}
    return any(i > since and pid not in weirs for i, pid in hit)
