/* SPDX-License-Identifier: ISC */
/* sandbox/filter_rules.h - what the command may not ask of the kernel (SPEC section 6).
 * Default allow: programs are arbitrary. ENOSYS where libraries fall back on it, EPERM where they
 * expect a container's answer. Calls above the table's last number are ENOSYS, another
 * architecture's are killed: common/filter_gen.c adds both. */
#ifndef WEIR_SANDBOX_FILTER_RULES_H
#define WEIR_SANDBOX_FILTER_RULES_H

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "../common/filter_rule.h"

#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452 /* Linux 6.6, the same on every architecture */
#endif

#define ALL64 0xffffffffffffffffULL
#define FAMILIES(mask, first) ARG_MASK(0, ALL64 & ~(uint64_t)(mask), first)
#define HAS_FLAG(index, flag) ARG_MASK(index, flag, flag)
/* clang-format off */
#define NO_SETID(call, mode) \
	{ SCMP_SYS(call), FAIL_WHEN(EPERM, HAS_FLAG(mode, S_ISUID)), "set-user-ID" }, \
	{ SCMP_SYS(call), FAIL_WHEN(EPERM, HAS_FLAG(mode, S_ISGID)), "set-group-ID" }
/* O_TMPFILE makes a file too, without O_CREAT */
#define NO_SETID_WITH(call, flags, how, mode) \
	{ SCMP_SYS(call), FAIL_WHEN2(EPERM, HAS_FLAG(flags, how), HAS_FLAG(mode, S_ISUID)), \
	  "set-user-ID" }, \
	{ SCMP_SYS(call), FAIL_WHEN2(EPERM, HAS_FLAG(flags, how), HAS_FLAG(mode, S_ISGID)), \
	  "set-group-ID" }
#define NO_SETID_CREATED(call, flags, mode) \
	NO_SETID_WITH(call, flags, O_CREAT, mode), \
	NO_SETID_WITH(call, flags, __O_TMPFILE, mode)
/* clang-format on */

static const struct filter_rule command_rules[] = {
	/* Address families. Allowed: UNIX 1, INET 2, INET6 10, NETLINK 16 (route only). The others
	 * leave the namespace (VSOCK, PACKET, QIPCRTR) or are code nobody here needs (ALG, CAN, …).
	 * Rows are blocks of numbers; a register with stray upper bits falls in the last. */
	{ SCMP_SYS(socket), FAIL_WHEN(EAFNOSUPPORT, ARG_EQ(0, 0)), "no family" },
	{ SCMP_SYS(socket), FAIL_WHEN(EAFNOSUPPORT, ARG_EQ(0, 3)), "AX25" },
	{ SCMP_SYS(socket), FAIL_WHEN(EAFNOSUPPORT, FAMILIES(3, 4)), "4-7" },
	{ SCMP_SYS(socket), FAIL_WHEN(EAFNOSUPPORT, FAMILIES(1, 8)), "8-9" },
	{ SCMP_SYS(socket), FAIL_WHEN(EAFNOSUPPORT, ARG_EQ(0, 11)), "ROSE" },
	{ SCMP_SYS(socket), FAIL_WHEN(EAFNOSUPPORT, FAMILIES(3, 12)), "12-15" },
	{ SCMP_SYS(socket), FAIL_WHEN(EAFNOSUPPORT, ARG_EQ(0, 17)),
	  "PACKET: frames of the device" },
	{ SCMP_SYS(socket), FAIL_WHEN(EAFNOSUPPORT, FAMILIES(1, 18)), "18-19" },
	{ SCMP_SYS(socket), FAIL_WHEN(EAFNOSUPPORT, FAMILIES(3, 20)), "20-23" },
	{ SCMP_SYS(socket), FAIL_WHEN(EAFNOSUPPORT, FAMILIES(7, 24)), "24-31: TIPC, BLUETOOTH, …" },
	{ SCMP_SYS(socket), FAIL_WHEN(EAFNOSUPPORT, FAMILIES(31, 32)),
	  "32-63: ALG, VSOCK, XDP, …" },
	{ SCMP_SYS(socket), FAIL_WHEN(EAFNOSUPPORT, ARG_GT(0, 63)), "not a family" },
	{ SCMP_SYS(socket), FAIL_WHEN2(EAFNOSUPPORT, ARG_EQ(0, AF_NETLINK), ARG_NE(2, 0)),
	  "netlink but NETLINK_ROUTE: audit, netfilter, uevents" },
	{ SCMP_SYS(socket), FAIL_WHEN2(EPERM, ARG_EQ(0, AF_INET), ARG_MASK(1, 0xf, SOCK_RAW)),
	  "raw IPv4, also where a capability came along" },
	{ SCMP_SYS(socket), FAIL_WHEN2(EPERM, ARG_EQ(0, AF_INET6), ARG_MASK(1, 0xf, SOCK_RAW)),
	  "raw IPv6" },
	{ SCMP_SYS(socket), FAIL_WHEN2(EPERM, ARG_EQ(0, AF_INET), ARG_MASK(1, 0xf, SOCK_PACKET)),
	  "the old spelling of AF_PACKET" },
	{ SCMP_SYS(socketpair), FAIL_WHEN(EAFNOSUPPORT, ARG_NE(0, AF_UNIX)),
	  "pairs of other families (TIPC) load modules" },

	/* Kernel machinery with a record of holes, or around the filter. */
	{ SCMP_SYS(io_uring_setup), FAIL(ENOSYS), "its operations are not seen by a filter" },
	{ SCMP_SYS(io_uring_enter), FAIL(ENOSYS), "as above" },
	{ SCMP_SYS(io_uring_register), FAIL(ENOSYS), "as above" },
	{ SCMP_SYS(userfaultfd), FAIL(ENOSYS), "stops the kernel in the middle of a copy" },
	{ SCMP_SYS(bpf), FAIL(ENOSYS), "programs in the kernel" },
	{ SCMP_SYS(perf_event_open), FAIL(ENOSYS), "sees the machine beyond the sandbox" },
	{ SCMP_SYS(keyctl), FAIL(ENOSYS), "keyrings know no namespace" },
	{ SCMP_SYS(add_key), FAIL(ENOSYS), "keyrings" },
	{ SCMP_SYS(request_key), FAIL(ENOSYS), "keyrings, and a program of the host's" },
	{ SCMP_SYS(syslog), FAIL(EPERM), "the kernel's log is the host's" },
	{ SCMP_SYS(quotactl), FAIL(EPERM), "the host's file systems" },
	{ SCMP_SYS(quotactl_fd), FAIL(EPERM), "the host's file systems" },
	{ SCMP_SYS(open_by_handle_at), FAIL(EPERM), "files by number, past every mount" },

	/* Programs that run as the user, or the user's group, whoever starts them: what the command leaves
	 * on the host may not be one. openat2 has its mode in memory; libraries go on with openat. */
	NO_SETID(chmod, 1),
	NO_SETID(fchmod, 1),
	NO_SETID(fchmodat, 2),
	NO_SETID(fchmodat2, 2),
	NO_SETID(mkdir, 1),
	NO_SETID(mkdirat, 2),
	NO_SETID(mknod, 1),
	NO_SETID(mknodat, 2),
	NO_SETID(creat, 1),
	NO_SETID_CREATED(open, 1, 2),
	NO_SETID_CREATED(openat, 2, 3),
	{ SCMP_SYS(openat2), FAIL(ENOSYS), "its flags and mode lie in memory" },

	/* What a container refuses too: needs a capability that is not there; kept from being tried. */
	{ SCMP_SYS(kexec_load), FAIL(EPERM), "another kernel" },
	{ SCMP_SYS(kexec_file_load), FAIL(EPERM), "another kernel" },
	{ SCMP_SYS(init_module), FAIL(EPERM), "modules" },
	{ SCMP_SYS(finit_module), FAIL(EPERM), "modules" },
	{ SCMP_SYS(delete_module), FAIL(EPERM), "modules" },
	{ SCMP_SYS(reboot), FAIL(EPERM), "the machine" },
	{ SCMP_SYS(swapon), FAIL(EPERM), "the machine" },
	{ SCMP_SYS(swapoff), FAIL(EPERM), "the machine" },
	{ SCMP_SYS(acct), FAIL(EPERM), "the machine" },
	{ SCMP_SYS(settimeofday), FAIL(EPERM), "the clock" },
	{ SCMP_SYS(clock_settime), FAIL(EPERM), "the clock" },
	{ SCMP_SYS(iopl), FAIL(EPERM), "ports" },
	{ SCMP_SYS(ioperm), FAIL(EPERM), "ports" },

	/* Typing into a terminal that a more trusted program reads next. The kernel takes 32 bits. */
	{ SCMP_SYS(ioctl), FAIL_WHEN(EPERM, ARG_LOW32(1, TIOCSTI)), "push back input" },
	{ SCMP_SYS(ioctl), FAIL_WHEN(EPERM, ARG_LOW32(1, TIOCLINUX)), "paste on a console" },
};

/* What "nested yes" lifts, for programs that make a sandbox of their own (bwrap, Chromium, flatpak):
 * inside it they have power over what they made, never over what weir mounted. */
static const struct filter_rule unnested_rules[] = {
	/* New namespaces: more kernel for an unprivileged user, and capabilities over them. */
	{ SCMP_SYS(clone3), FAIL(ENOSYS), "its flags lie in memory: libc falls back to clone" },
#ifdef __s390x__
#error "clone has its flags in the second argument here"
#endif
	{ SCMP_SYS(clone), FAIL_WHEN(EPERM, HAS_FLAG(0, CLONE_NEWNS)), "new mount namespace" },
	{ SCMP_SYS(clone), FAIL_WHEN(EPERM, HAS_FLAG(0, CLONE_NEWCGROUP)), "new cgroup namespace" },
	{ SCMP_SYS(clone), FAIL_WHEN(EPERM, HAS_FLAG(0, CLONE_NEWUTS)), "new uts namespace" },
	{ SCMP_SYS(clone), FAIL_WHEN(EPERM, HAS_FLAG(0, CLONE_NEWIPC)), "new ipc namespace" },
	{ SCMP_SYS(clone), FAIL_WHEN(EPERM, HAS_FLAG(0, CLONE_NEWUSER)), "new user namespace" },
	{ SCMP_SYS(clone), FAIL_WHEN(EPERM, HAS_FLAG(0, CLONE_NEWPID)), "new pid namespace" },
	{ SCMP_SYS(clone), FAIL_WHEN(EPERM, HAS_FLAG(0, CLONE_NEWNET)), "new network namespace" },
	{ SCMP_SYS(unshare), FAIL_WHEN(EPERM, HAS_FLAG(0, CLONE_NEWNS)), "new mount namespace" },
	{ SCMP_SYS(unshare), FAIL_WHEN(EPERM, HAS_FLAG(0, CLONE_NEWCGROUP)),
	  "new cgroup namespace" },
	{ SCMP_SYS(unshare), FAIL_WHEN(EPERM, HAS_FLAG(0, CLONE_NEWUTS)), "new uts namespace" },
	{ SCMP_SYS(unshare), FAIL_WHEN(EPERM, HAS_FLAG(0, CLONE_NEWIPC)), "new ipc namespace" },
	{ SCMP_SYS(unshare), FAIL_WHEN(EPERM, HAS_FLAG(0, CLONE_NEWUSER)), "new user namespace" },
	{ SCMP_SYS(unshare), FAIL_WHEN(EPERM, HAS_FLAG(0, CLONE_NEWPID)), "new pid namespace" },
	{ SCMP_SYS(unshare), FAIL_WHEN(EPERM, HAS_FLAG(0, CLONE_NEWNET)), "new network namespace" },
	{ SCMP_SYS(unshare), FAIL_WHEN(EPERM, HAS_FLAG(0, CLONE_NEWTIME)), "new time namespace" },
	{ SCMP_SYS(setns), FAIL(EPERM), "another namespace" },

	/* The mount family: nothing over, under or away from what weir mounted. */
	{ SCMP_SYS(mount), FAIL(EPERM), "mount" },
	{ SCMP_SYS(umount), FAIL(EPERM), "mount" },
	{ SCMP_SYS(umount2), FAIL(EPERM), "mount" },
	{ SCMP_SYS(pivot_root), FAIL(EPERM), "mount" },
	{ SCMP_SYS(open_tree), FAIL(EPERM), "mount" },
	{ SCMP_SYS(move_mount), FAIL(EPERM), "mount" },
	{ SCMP_SYS(fsopen), FAIL(EPERM), "mount" },
	{ SCMP_SYS(fsconfig), FAIL(EPERM), "mount" },
	{ SCMP_SYS(fsmount), FAIL(EPERM), "mount" },
	{ SCMP_SYS(fspick), FAIL(EPERM), "mount" },
	{ SCMP_SYS(mount_setattr), FAIL(EPERM), "mount" },
};

#undef ALL64
#undef FAMILIES
#undef HAS_FLAG
#undef NO_SETID
#undef NO_SETID_WITH
#undef NO_SETID_CREATED
#endif
