/* SPDX-License-Identifier: ISC */
/* common/lock.h - the steps by which a process gives up power for good (DESIGN section 5) */
#ifndef WEIR_COMMON_LOCK_H
#define WEIR_COMMON_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** lock_caps() - empty the bounding, ambient, inheritable, effective and permitted sets and lock
 * the securebits. Return: 0, or -errno. Source: capabilities(7), libcap-ng */
int lock_caps(void);
/** lock_bounding() - only empty the bounding set, once for a process and its later copies, whose lock_caps()
 * is then shorter. Takes nothing that a process has, only what exec could give it. Return: 0, or -errno */
int lock_bounding(void);
/** lock_privs() - PR_SET_NO_NEW_PRIVS. Return: 0, or -errno */
int lock_privs(void);
/** lock_dumpable() - PR_SET_DUMPABLE 0; after the id maps are written. Return: 0, or -errno */
int lock_dumpable(void);

struct lock_limits {
	bool nproc_zero, fsize_zero, core_zero;
	bool nofile_max; /* raise the soft NOFILE limit to the hard one */
};
int lock_rlimits(const struct lock_limits *l);

/** lock_landlock_abi() - 0 where the kernel has none (or WEIR_TEST_WITHOUT=landlock) */
int lock_landlock_abi(void);

#define LOCK_ABI_UNIX 9 /* from here on LOCK_INSIDE closes unix sockets made outside */

enum lock_landlock {
	LOCK_NOTHING_FS = 1, /* every file right handled, none granted */
	LOCK_NO_BIND = 2,    /* ABI 4: TCP bind handled, none granted */
	LOCK_NO_CONNECT = 4, /* ABI 4: TCP connect handled, none granted */
	LOCK_SCOPES = 8,     /* ABI 6: abstract unix sockets and signals scoped */
	LOCK_ABSTRACT = 16,  /* ABI 6: abstract unix sockets scoped, nothing else */
	LOCK_INSIDE = 32, /* ABI 2: every file right but ioctl, beneath this process's root only */
};
/** lock_landlock() - restrict this thread by the @what (enum lock_landlock bits) the kernel has.
 * A kernel without Landlock is no error: result 0. Return: the ABI in force, or -errno */
int lock_landlock(unsigned what);
/** lock_landlock_open() - the same; under LOCK_INSIDE a unix socket among @fds, opened with O_PATH, can
 * be connected to whoever made it, and the regular files and FIFOs among them, which may lie
 * anywhere, can be opened again as they are open now: for reading, writing or both.
 * Everything else that is open goes on being read and written as it is. Allocates nothing */
int lock_landlock_open(unsigned what, const int *fds, size_t n);

#endif
