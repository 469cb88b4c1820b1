/* SPDX-License-Identifier: ISC */
/* broker/worker/filter_rules.h - the system calls of the worker while it serves
 * and of the nursery.
 * A worker inherits the nursery's filter and adds its own: the nursery's table therefore holds the
 * worker's, what a worker needs until it is locked, and what the nursery itself does.
 * Everything else kills the process. */
#ifndef WEIR_BROKER_WORKER_FILTER_RULES_H
#define WEIR_BROKER_WORKER_FILTER_RULES_H

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "../../common/filter_rule.h"
#include "../../common/gates.h"
#include "filter_args.h"

#define SOCKET_KIND 0xf /* SOCK_STREAM, … without SOCK_NONBLOCK and SOCK_CLOEXEC */

/* clang-format off */
#define WORKER_SERVES \
	/* clients and origins */ \
	{ SCMP_SYS(accept4), ANY, "take a client off a listener" }, \
	{ SCMP_SYS(socket), WHEN2(ARG_EQ(0, AF_INET), ARG_MASK(1, SOCKET_KIND, SOCK_STREAM)), \
	  "dial an origin, DNS over TCP" }, \
	{ SCMP_SYS(socket), WHEN2(ARG_EQ(0, AF_INET6), ARG_MASK(1, SOCKET_KIND, SOCK_STREAM)), \
	  "the same" }, \
	{ SCMP_SYS(socket), WHEN2(ARG_EQ(0, AF_INET), ARG_MASK(1, SOCKET_KIND, SOCK_DGRAM)), \
	  "DNS; the spare descriptor" }, \
	{ SCMP_SYS(socket), WHEN2(ARG_EQ(0, AF_INET6), ARG_MASK(1, SOCKET_KIND, SOCK_DGRAM)), \
	  "DNS" }, \
	{ SCMP_SYS(connect), ANY, "dial an origin or a name server; the monitor judges where" }, \
	{ SCMP_SYS(setsockopt), WHEN2(ARG_EQ(1, IPPROTO_TCP), ARG_EQ(2, TCP_NODELAY)), \
	  "no delay, either side; c-ares" }, \
	{ SCMP_SYS(setsockopt), WHEN2(ARG_EQ(1, SOL_SOCKET), ARG_EQ(2, SO_LINGER)), \
	  "a reset stays a reset, and a death looks like one" }, \
	{ SCMP_SYS(setsockopt), WHEN2(ARG_EQ(1, SOL_SOCKET), ARG_EQ(2, SO_OOBINLINE)), \
	  "peeked bytes stay in place" }, \
	{ SCMP_SYS(getsockopt), WHEN2(ARG_EQ(1, SOL_SOCKET), ARG_EQ(2, SO_ERROR)), \
	  "how a dial ended" }, \
	{ SCMP_SYS(getsockopt), WHEN2(ARG_EQ(1, SOL_SOCKET), ARG_EQ(2, SO_DOMAIN)), \
	  "is it the unix listener of weir proxy" }, \
	{ SCMP_SYS(getsockopt), WHEN2(ARG_EQ(1, SOL_SOCKET), ARG_EQ(2, SO_PEERCRED)), \
	  "whose is its client" }, \
	{ SCMP_SYS(getpeername), ANY, "is a dial over already" }, \
	{ SCMP_SYS(getsockname), ANY, "where a listener is; where one that nothing redirected was going" }, \
	{ SCMP_SYS(recvfrom), ANY, "read, peek at and discard a socket's bytes; DNS answers" }, \
	{ SCMP_SYS(sendto), WHEN2(ARG_EQ(4, 0), ARG_MASK(3, MSG_FASTOPEN, 0)), \
	  "write to a socket that is connected, and connect none by it" }, \
	{ SCMP_SYS(recvmsg), ANY, "messages and listeners from the monitor" }, \
	{ SCMP_SYS(writev), ANY, "a head and its body in one; DNS questions" }, \
	{ SCMP_SYS(shutdown), ANY, "half-close" }, \
	{ SCMP_SYS(splice), ANY, "long flows through a pipe" }, \
	{ SCMP_SYS(pipe2), ANY, "that pipe" }, \
	{ SCMP_SYS(fcntl), WHEN(ARG_EQ(1, F_SETPIPE_SZ)), "that pipe's size" }, \
	{ SCMP_SYS(fcntl), WHEN(ARG_EQ(1, F_GETFL)), \
	  "a socket's flags, to make it non-blocking" }, \
	{ SCMP_SYS(fcntl), WHEN(ARG_EQ(1, F_SETFL)), \
	  "c-ares' sockets and the listeners do not block" }, \
	{ SCMP_SYS(fcntl), WHEN(ARG_EQ(1, F_SETFD)), "c-ares and libev: close-on-exec" }, \
	{ SCMP_SYS(close), ANY, "end of a connection" }, \
	/* the loop */ \
	{ SCMP_SYS(epoll_ctl), ANY, "libev; the set that reports resets" }, \
	{ SCMP_SYS(epoll_wait), ANY, "libev" }, \
	{ SCMP_SYS(epoll_pwait), ANY, "libev where the machine has no epoll_wait" }, \
	{ SCMP_SYS(epoll_create1), ANY, "libev makes its set anew when the kernel confuses it" }, \
	{ SCMP_SYS(poll), ANY, "wait for room in the monitor's queue at the end" }, \
	{ SCMP_SYS(ppoll), ANY, "the same where the machine has no poll" }, \
	{ SCMP_SYS(clock_gettime), ANY, "time where the vdso cannot tell it" }, \
	{ SCMP_SYS(gettimeofday), ANY, "c-ares: time where the vdso cannot tell it" }, \
	{ SCMP_SYS(restart_syscall), ANY, "a wait goes on after a stop" }, \
	{ SCMP_SYS(rt_sigreturn), ANY, "the kernel's way back from a signal" }, \
	{ SCMP_SYS(exit_group), ANY, "end" }, \
	/* memory: c-ares and libev allocate; nothing may become executable */ \
	{ SCMP_SYS(brk), ANY, "malloc" }, \
	{ SCMP_SYS(mmap), WHEN2(ARG_MASK(2, PROT_EXEC, 0), ARG_LOW32(4, -1)), \
	  "malloc: anonymous memory" }, \
	{ SCMP_SYS(mprotect), WHEN(ARG_MASK(2, PROT_EXEC, 0)), "malloc" }, \
	{ SCMP_SYS(munmap), ANY, "malloc" }, \
	{ SCMP_SYS(mremap), ANY, "malloc: libev's tables grow" }, \
	{ SCMP_SYS(madvise), ANY, "malloc" }, \
	{ SCMP_SYS(futex), ANY, "stdio's locks inside c-ares" }, \
	{ SCMP_SYS(getrandom), ANY, "malloc's own tables" }

#define WORKER_LIBRARIES \
	{ SCMP_SYS(openat), FAIL(ENOENT), "a library looks for a file: there is none" }, \
	{ SCMP_SYS(newfstatat), FAIL(ENOENT), "the same" }, \
	{ SCMP_SYS(ioctl), FAIL(ENOTTY), "stdio asks whether it writes to a terminal" }

static const struct filter_rule worker_rules[] = {
	/* call, argument, why the worker needs it once it serves */
	WORKER_SERVES,
	WORKER_LIBRARIES,
};

/* In front of the other, and without it where the kernel has a listener already. */
static const struct filter_rule connect_rules[] = {
	{ SCMP_SYS(connect), NOTIFY, "the monitor answers for each place the worker goes to" },
};

/* Some kernels leave a pointer's highest byte out of account (arm64 always does, for these calls). Bit by
 * bit: libseccomp 2.5 makes a wrong program of ARG_LT beside an ARG_GE of more than 32 bits. */
#define TAG_BIT(name, n, why) \
	{ SCMP_SYS(name), FAIL_WHEN(EPERM, ARG_MASK(0, GATES_TAGGED << (n), GATES_TAGGED << (n))), why }
#define GATES_UNTAGGED(name, why) \
	TAG_BIT(name, 0, why), TAG_BIT(name, 1, why), TAG_BIT(name, 2, why), TAG_BIT(name, 3, why), \
	TAG_BIT(name, 4, why), TAG_BIT(name, 5, why), TAG_BIT(name, 6, why), TAG_BIT(name, 7, why)

/* The same where the worker has a page of gates: an address that lies there, aligned, is one that a
 * verdict names, and nothing takes the page's place. */
static const struct filter_rule gates_rules[] = {
	{ SCMP_SYS(connect), NOTIFY_WHEN(ARG_LT(1, GATES_AT)), "the monitor answers for any other place" },
	{ SCMP_SYS(connect), NOTIFY_WHEN(ARG_GE(1, GATES_END)), "the same" },
	{ SCMP_SYS(connect), NOTIFY_WHEN(ARG_NE(2, GATE_BYTES)), "half a gate, or two, is no address" },
	{ SCMP_SYS(connect), NOTIFY_WHEN(ARG_MASK(1, 1, 1)), "nor is what begins inside one" },
	{ SCMP_SYS(connect), NOTIFY_WHEN(ARG_MASK(1, 2, 2)), "the same" },
	{ SCMP_SYS(connect), NOTIFY_WHEN(ARG_MASK(1, 4, 4)), "the same" },
	{ SCMP_SYS(connect), NOTIFY_WHEN(ARG_MASK(1, 8, 8)), "the same" },
	{ SCMP_SYS(munmap), FAIL_WHEN(EPERM, ARG_LT(0, GATES_END)), "the page stays" },
	{ SCMP_SYS(mprotect), FAIL_WHEN(EPERM, ARG_LT(0, GATES_END)), "and stays as it is" },
	{ SCMP_SYS(madvise), FAIL_WHEN(EPERM, ARG_LT(0, GATES_END)), "the same" },
	{ SCMP_SYS(mremap), FAIL_WHEN(EPERM, ARG_LT(0, GATES_END)), "and where it is" },
	GATES_UNTAGGED(munmap, "nor does it go by another name"),
	GATES_UNTAGGED(mprotect, "the same"),
	GATES_UNTAGGED(madvise, "the same"),
	GATES_UNTAGGED(mremap, "the same"),
	{ SCMP_SYS(mremap), FAIL_WHEN(EPERM, ARG_MASK(3, MREMAP_FIXED, MREMAP_FIXED)),
	  "nothing is moved to its place" },
	{ SCMP_SYS(mmap), FAIL_WHEN(EPERM, ARG_MASK(3, MAP_FIXED, MAP_FIXED)), "nor put there" },
};

/* A worker of the transparent route may do this too. */
#define WORKER_NAMES \
	{ SCMP_SYS(sendto), WHEN2(ARG_LOW32(0, WORKER_NAMES_FD), ARG_MASK(3, MSG_FASTOPEN, 0)), \
	  "answer who asked for a name; that socket is the sandbox's" }, \
	{ SCMP_SYS(getsockopt), WHEN2(ARG_EQ(1, IPPROTO_IP), ARG_EQ(2, ORIGINAL_DST)), \
	  "where a redirected connection was going" }, \
	{ SCMP_SYS(getsockopt), WHEN2(ARG_EQ(1, IPPROTO_IPV6), ARG_EQ(2, ORIGINAL_DST)), \
	  "the same" }

static const struct filter_rule worker_names_rules[] = {
	/* call, argument, why the worker needs it once it serves */
	WORKER_SERVES,
	WORKER_NAMES,
	WORKER_LIBRARIES,
};

/* In front of that: no other socket may take the place of the one it may send from. */
static const struct filter_rule names_rules[] = {
	{ SCMP_SYS(close), FAIL_WHEN(EBADF, ARG_LOW32(0, WORKER_NAMES_FD)),
	  "the number stays the sandbox's socket: what has it may send anywhere" },
};

static const struct filter_rule nursery_rules[] = {
	/* what its workers do once they serve */
	WORKER_SERVES,
	WORKER_NAMES,
	{ SCMP_SYS(mmap), WHEN2(ARG_EQ(2, PROT_READ), ARG_LOW32(3, MAP_SHARED | MAP_FIXED_NOREPLACE)),
	  "a worker maps its page of gates" },
	{ SCMP_SYS(dup3), WHEN(ARG_LOW32(1, WORKER_NAMES_FD)), "a worker puts that socket into its place" },
	{ SCMP_SYS(sendmsg), ANY, "a worker passes its listener to the monitor, with READY" },
	/* call, argument, why a worker needs it until it is locked */
	{ SCMP_SYS(openat), ANY, "c-ares reads /dev/urandom, the only file in the room" },
	{ SCMP_SYS(newfstatat), ANY, "stdio on /dev/urandom" },
	{ SCMP_SYS(ioctl), FAIL(ENOTTY), "stdio asks whether it writes to a terminal" },
	{ SCMP_SYS(read), ANY, "/dev/urandom" },
	{ SCMP_SYS(lseek), ANY, "stdio on /dev/urandom" },
	{ SCMP_SYS(set_robust_list), ANY, "the C library after fork" },
	{ SCMP_SYS(rt_sigaction), ANY, "a worker ignores SIGPIPE" },
	{ SCMP_SYS(rt_sigprocmask), ANY, "the C library around fork" },
	{ SCMP_SYS(prlimit64), ANY, "a worker's limits" },
	{ SCMP_SYS(getrlimit), ANY, "the same on older C libraries" },
	{ SCMP_SYS(setrlimit), ANY, "the same" },
	{ SCMP_SYS(prctl), ANY, "a worker gives up its privileges" },
	{ SCMP_SYS(capget), ANY, "the same, libcap-ng" },
	{ SCMP_SYS(capset), ANY, "the same, libcap-ng" },
	{ SCMP_SYS(landlock_create_ruleset), ANY, "a worker locks itself" },
	{ SCMP_SYS(landlock_restrict_self), ANY, "a worker locks itself" },
	{ SCMP_SYS(seccomp), ANY, "a worker adds its own filter" },
	{ SCMP_SYS(getppid), ANY, "a worker makes sure that the nursery is there" },
	{ SCMP_SYS(getpid), ANY, "c-ares, libcap-ng" },
	{ SCMP_SYS(gettid), ANY, "libcap-ng" },
	{ SCMP_SYS(getuid), ANY, "libcap-ng" },
	{ SCMP_SYS(geteuid), ANY, "c-ares and libev ask whether they run set-uid" },
	{ SCMP_SYS(getgid), ANY, "the same" },
	{ SCMP_SYS(getegid), ANY, "the same" },
	/* call, argument, why the nursery needs it */
	{ SCMP_SYS(clone), ANY, "fork a worker" },
	{ SCMP_SYS(pidfd_open), ANY, "hear of the worker's end" },
	{ SCMP_SYS(kill), ANY, "end a worker before the next one" },
	{ SCMP_SYS(wait4), ANY, "reap it" },
	{ SCMP_SYS(unlinkat), ANY, "remove the runtime entry, and the cgroup, of a monitor that was killed" },
};

#endif
