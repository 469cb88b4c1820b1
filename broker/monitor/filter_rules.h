/* SPDX-License-Identifier: ISC */
/* broker/monitor/filter_rules.h - what the monitor may ask of the kernel once the command runs.
 * It reads what the user may read, because it follows the hosts, resolv.conf and policy files; it
 * writes what it holds open, the audit log above all, and a new file that replaces a policy file when
 * a person's answer is to be kept (docs/adr/0007). No exec, no new process, no connect(). */
#ifndef WEIR_BROKER_MONITOR_FILTER_RULES_H
#define WEIR_BROKER_MONITOR_FILTER_RULES_H

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <termios.h>

#include "audit_file.h"
#include "common/filter_rule.h"

#define READ_ONLY ARG_MASK(2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY)

#define NEW_FILE (O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)

/* clang-format off */
static const struct filter_rule monitor_rules[] = {
	/* call                        argument             why the monitor needs it once it serves */
	/* the loop */
	{ SCMP_SYS(epoll_wait),        ANY,                 "wait for messages, signals and timers" },
	{ SCMP_SYS(epoll_pwait),       ANY,                 "the same on arm64" },
	{ SCMP_SYS(epoll_ctl),         ANY,                 "watch a replaced worker's socket" },
	{ SCMP_SYS(epoll_create1),     ANY,                 "libev makes its set anew when a descriptor "
							    "that it closed still reports" },
	{ SCMP_SYS(clock_gettime),     ANY,                 "time where the vdso has none" },
	{ SCMP_SYS(restart_syscall),   ANY,                 "go on after SIGSTOP and SIGCONT" },
	{ SCMP_SYS(rt_sigreturn),      ANY,                 "come back from a signal handler" },
	{ SCMP_SYS(rt_sigprocmask),    ANY,                 "libev stops its signal watchers at the end" },
	{ SCMP_SYS(rt_sigaction),      ANY,                 "the same" },
	{ SCMP_SYS(eventfd2),          ANY,                 "libev makes its wake-up when first needed" },
	{ SCMP_SYS(poll),              ANY,                 "wait for a killed sandbox to be gone" },
	{ SCMP_SYS(ppoll),             ANY,                 "the same on arm64" },

	/* messages */
	{ SCMP_SYS(recvmsg),           ANY,                 "receive from shim, nursery and worker" },
	{ SCMP_SYS(sendmsg),           ANY,                 "send to them" },
	{ SCMP_SYS(ioctl),             WHEN(ARG_LOW32(1, SECCOMP_IOCTL_NOTIF_RECV)), "hear of the worker's connect()" },
	{ SCMP_SYS(ioctl),             WHEN2(ARG_LOW32(1, (uint32_t)SECCOMP_IOW(4, __u64)), ARG_EQ(2, 1)), "the worker goes on where the monitor ran" },
	{ SCMP_SYS(ioctl),             WHEN(ARG_LOW32(1, SECCOMP_IOCTL_NOTIF_SEND)), "let it go on, or not" },
	{ SCMP_SYS(ioctl),             WHEN(ARG_LOW32(1, TCGETS)), "the modes of the terminal before they are set" },
	{ SCMP_SYS(ioctl),             WHEN(ARG_LOW32(1, TCSETS)), "set them, and put them back" },
	{ SCMP_SYS(ioctl),             WHEN(ARG_LOW32(1, TIOCGWINSZ)), "its size" },
	{ SCMP_SYS(ioctl),             WHEN(ARG_LOW32(1, TIOCSWINSZ)), "give it to the one inside" },
	{ SCMP_SYS(ioctl),             WHEN(ARG_LOW32(1, TIOCGPGRP)), "is weir in its foreground" },
	{ SCMP_SYS(ioctl),             WHEN2(ARG_LOW32(1, TCFLSH), ARG_LOW32(2, TCIFLUSH)), "what was typed before a question is no answer" },
	{ SCMP_SYS(kill),              WHEN(ARG_EQ(1, SIGTSTP)), "stop, as a job that was stopped" },
	{ SCMP_SYS(kill),              WHEN2(ARG_EQ(0, 0), ARG_EQ(1, SIGTTIN)), "the same in the background" },
	{ SCMP_SYS(kill),              WHEN2(ARG_EQ(0, 0), ARG_EQ(1, SIGTTOU)), "the same" },
	{ SCMP_SYS(rt_sigpending),     ANY,                 "was it stopped" },
	{ SCMP_SYS(process_vm_readv),  ANY,                 "read its address" },
	{ SCMP_SYS(memfd_create),      ANY,                 "the page of gates, made when the first worker starts" },
	{ SCMP_SYS(ftruncate),         ANY,                 "the same" },
	{ SCMP_SYS(socketpair),        WHEN(ARG_LOW32(0, AF_UNIX)), "a fresh pair for a new worker" },
	{ SCMP_SYS(shutdown),          ANY,                 "close the network after five worker deaths" },
	{ SCMP_SYS(close),             ANY,                 "close what was used" },
	{ SCMP_SYS(fcntl),             WHEN(ARG_LOW32(1, F_OFD_SETLK)), "the lock of the audit log" },
	{ SCMP_SYS(fcntl),             WHEN(ARG_LOW32(1, F_GETFL)), "make the pair non-blocking" },
	{ SCMP_SYS(fcntl),             WHEN(ARG_LOW32(1, F_SETFL)), "the same" },
	{ SCMP_SYS(fcntl),             WHEN(ARG_LOW32(1, F_SETFD)), "libev marks its descriptors" },

	/* files: hosts, resolv.conf, /etc/localtime, the audit log, the terminal */
	{ SCMP_SYS(openat),            WHEN(READ_ONLY),     "read hosts, resolv.conf and the policy "
							    "files again" },
	{ SCMP_SYS(openat),            WHEN(ARG_LOW32(2, NEW_FILE)), "a kept answer: a new file beside the policy" },
	{ SCMP_SYS(openat),            WHEN(ARG_LOW32(2, AUDIT_OPEN)), "the audit log, when another has rotated it" },
	{ SCMP_SYS(openat),            WHEN(ARG_LOW32(2, AUDIT_OPEN_NEW)), "the same, when it is rotated or was removed" },
	{ SCMP_SYS(pread64),           ANY,                 "its last record, which another may have written" },
	{ SCMP_SYS(mkdirat),           ANY,                 "its directory, the first time" },
	{ SCMP_SYS(fchmod),            ANY,                 "it has the mode of the one it replaces" },
	{ SCMP_SYS(fchown),            ANY,                 "and, as root, its owner" },
	{ SCMP_SYS(renameat),          ANY,                 "it replaces it; the audit log is rotated" },
	{ SCMP_SYS(read),              ANY,                 "read them, and the command's output" },
	{ SCMP_SYS(write),             ANY,                 "audit, notices, output to the terminal" },
	{ SCMP_SYS(newfstatat),        ANY,                 "has hosts or resolv.conf changed; whose is a "
							    "policy file" },
	{ SCMP_SYS(getdents64),        ANY,                 "what git outside would run of P, at the end; who inside holds a client's socket" },
	{ SCMP_SYS(readlinkat),        ANY,                 "a policy file may be a symlink" },
	{ SCMP_SYS(readlink),          ANY,                 "the same" },
	{ SCMP_SYS(inotify_init1),     ANY,                 "hear of edits; made when the command has run "
							    "for a moment" },
	{ SCMP_SYS(inotify_add_watch), ANY,                 "which files and directories" },
	{ SCMP_SYS(inotify_rm_watch),  ANY,                 "which no longer" },
	{ SCMP_SYS(lseek),             ANY,                 "stdio" },
	{ SCMP_SYS(ftruncate),         ANY,                 "take a half-written audit record back" },
	{ SCMP_SYS(fsync),             ANY,                 "the audit log at exit and rotation, a policy file" },
	{ SCMP_SYS(clock_nanosleep),   ANY,                 "between two tries for the audit lock" },

	/* overlays */
	{ SCMP_SYS(fsconfig),          WHEN(ARG_LOW32(1, FSCONFIG_SET_FLAG)), "an overlay stays read-only" },
	{ SCMP_SYS(fsconfig),          WHEN(ARG_LOW32(1, FSCONFIG_CMD_RECONFIGURE)), "it forgets names that "
							    "the host may have changed" },

	/* the control socket */
	{ SCMP_SYS(accept4),           ANY,                 "take a client" },
	{ SCMP_SYS(getsockopt),        WHEN2(ARG_EQ(1, SOL_SOCKET), ARG_EQ(2, SO_PEERCRED)),
							    "is it this user" },
	{ SCMP_SYS(unlinkat),          WHEN(ARG_LOW32(2, 0)), "remove the runtime entry, or the socket of weir proxy, at the end" },
	{ SCMP_SYS(unlinkat),          WHEN(ARG_LOW32(2, AT_REMOVEDIR)), "remove the sandbox's cgroup" },

	/* this machine's own addresses, DNS servers */
	{ SCMP_SYS(socket),            WHEN(ARG_LOW32(0, AF_NETLINK)), "list own addresses" },
	{ SCMP_SYS(sendto),            ANY,                 "the netlink request; replies to clients" },
	{ SCMP_SYS(recvfrom),          ANY,                 "its answer; requests of clients" },
	{ SCMP_SYS(uname),             ANY,                 "c-ares asks for the host name when it reads "
							    "resolv.conf" },
	{ SCMP_SYS(getrandom),         ANY,                 "seeds of libraries" },

	/* the sandbox's end */
	{ SCMP_SYS(pidfd_send_signal), ANY,                 "kill the sandbox or the nursery" },
	{ SCMP_SYS(waitid),            ANY,                 "how pid 1 ended" },

	/* memory and the end */
	{ SCMP_SYS(brk),               ANY,                 "malloc" },
	{ SCMP_SYS(mmap),              WHEN(ARG_MASK(2, PROT_EXEC, 0)), "malloc; never executable" },
	{ SCMP_SYS(mprotect),          WHEN(ARG_MASK(2, PROT_EXEC, 0)), "malloc; never executable" },
	{ SCMP_SYS(munmap),            ANY,                 "free" },
	{ SCMP_SYS(mremap),            ANY,                 "realloc of a large hosts file" },
	{ SCMP_SYS(madvise),           ANY,                 "free gives memory back" },
	{ SCMP_SYS(futex),             ANY,                 "libc's locks" },
	{ SCMP_SYS(exit_group),        ANY,                 "exit with the command's status" },
};
/* clang-format on */

#endif
