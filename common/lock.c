/* SPDX-License-Identifier: ISC */
/* common/lock.c - the steps by which a process gives up power for good.
 * Called by every process of weir with its last resource in hand; each step fails closed. */
#include "common/lock.h"

#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/securebits.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/feature.h"
#include "common/scope.h"

/* Debian 12's <linux/landlock.h> ends at ABI 2; these are of Linux 6.16. */
#define FS_ABI1 ((1ULL << 13) - 1)   /* execute … make_sym */
#define FS_REFER (1ULL << 13)	     /* ABI 2 */
#define FS_TRUNCATE (1ULL << 14)     /* ABI 3 */
#define FS_IOCTL_DEV (1ULL << 15)    /* ABI 5 */
#define FS_RESOLVE_UNIX (1ULL << 16) /* ABI 9: Linux 7.1 */
#define NET_BIND_TCP (1ULL << 0)     /* ABI 4 */
#define NET_CONNECT_TCP (1ULL << 1)
#define SCOPE_ABSTRACT (1ULL << 0) /* ABI 6 */
#define SCOPE_SIGNAL (1ULL << 1)

struct ruleset {
	uint64_t fs, net, scoped;
};

static int caps_read(struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3])
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };

	return syscall(SYS_capget, &h, d) < 0 ? -errno : 0;
}

/* libcap-ng reads /proc/self/status twice for each look at the bounding and ambient sets, and asks
 * for each capability alone on top: of a launch that was a tenth. So only the sets go by it. */
static int bounding_empty(void)
{
	static bool is_done;

	/* of a process that this one is a copy of; the set never grows again, but in a new user namespace,
	 * where it is full */
	if (is_done && prctl(PR_CAPBSET_READ, 0L, 0L, 0L, 0L) == 0)
		return 0;
	for (unsigned long cap = 0;; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0L, 0L, 0L) < 0) {
			if (errno != EINVAL || cap == 0) /* behind the kernel's last one */
				return -errno;
			break;
		}
	is_done = true;
	return 0;
}

int lock_bounding(void)
{
	return feature_off("caps") ? 0 : bounding_empty();
}

int lock_caps(void)
{
	static const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED |
					  SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED |
					  SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
					  SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3];
	int r = caps_read(d);

	if (feature_off("caps"))
		return 0;
	if (r < 0)
		return r;
	/* both need CAP_SETPCAP: without it the bounding set stays, and no_new_privs with an empty
	 * permitted set makes it void */
	if (d[0].effective & CAP_TO_MASK(CAP_SETPCAP)) {
		if ((r = bounding_empty()) < 0)
			return r;
		if (prctl(PR_SET_SECUREBITS, bits, 0L, 0L, 0L) < 0)
			return -errno;
	}
	capng_clear(CAPNG_SELECT_ALL);
	if (capng_apply(CAPNG_SELECT_CAPS) < 0)
		return -EPERM;
	/* what is in neither permitted nor inheritable is in no ambient set: for kernels that have one */
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0L, 0L, 0L) < 0 && errno != EINVAL)
		return -errno;
	if ((r = caps_read(d)) < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(d); i++)
		if (d[i].effective | d[i].permitted | d[i].inheritable)
			return -EPERM;
	return 0;
}

int lock_privs(void)
{
	if (feature_off("privs"))
		return 0;
	return prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 ? -errno : 0;
}

int lock_dumpable(void)
{
	return prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0 ? -errno : 0;
}

static int limit_zero(__rlimit_resource_t what)
{
	static const struct rlimit zero;

	return setrlimit(what, &zero) < 0 ? -errno : 0;
}

int lock_rlimits(const struct lock_limits *l)
{
	struct rlimit r;
	int e = 0;

	if (l->nofile_max) {
		if (getrlimit(RLIMIT_NOFILE, &r) < 0)
			return -errno;
		r.rlim_cur = r.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &r) < 0)
			return -errno;
	}
	if (l->nproc_zero)
		e = limit_zero(RLIMIT_NPROC);
	if (e == 0 && l->fsize_zero)
		e = limit_zero(RLIMIT_FSIZE);
	if (e == 0 && l->core_zero)
		e = limit_zero(RLIMIT_CORE);
	return e;
}

int lock_landlock_abi(void)
{
	long abi;

	if (feature_off("landlock"))
		return 0;
	abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	return abi < 0 ? 0 : (int)abi;
}

/* What of @what a kernel of @abi can enforce. */
static struct ruleset ruleset_for(unsigned what, int abi)
{
	struct ruleset r = { 0 };

	/* before ABI 2 a domain that handles any file right lets nobody rename across directories */
	if (what & LOCK_NOTHING_FS || (what & LOCK_INSIDE && abi >= 2)) {
		r.fs = FS_ABI1;
		r.fs |= abi >= 2 ? FS_REFER : 0;
		r.fs |= abi >= 3 ? FS_TRUNCATE : 0;
		r.fs |= abi >= LOCK_ABI_UNIX ? FS_RESOLVE_UNIX : 0;
	}
	if (what & LOCK_NOTHING_FS)
		r.fs |= abi >= 5 ? FS_IOCTL_DEV : 0;
	if (abi >= 4) {
		r.net |= what & LOCK_NO_BIND ? NET_BIND_TCP : 0;
		r.net |= what & LOCK_NO_CONNECT ? NET_CONNECT_TCP : 0;
	}
	if (abi >= 6) {
		r.scoped |= what & (LOCK_SCOPES | LOCK_ABSTRACT) ? SCOPE_ABSTRACT : 0;
		r.scoped |= what & LOCK_SCOPES ? SCOPE_SIGNAL : 0;
	}
	return r;
}

/* A kernel refuses a struct that is longer than its own unless the rest is zero (E2BIG). */
static size_t ruleset_size(int abi)
{
	if (abi >= 6)
		return sizeof(struct ruleset);
	return abi >= 4 ? offsetof(struct ruleset, scoped) : offsetof(struct ruleset, net);
}

static int rule_add(int ruleset, int fd, uint64_t rights)
{
	const struct landlock_path_beneath_attr rule = { .allowed_access = rights,
							 .parent_fd = fd };

	return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0
		       ? -errno
		       : 0;
}

/* What the mode of an open @fd lets its holder do to the file, of the @handled rights. */
static uint64_t open_rights(int fd, uint64_t handled)
{
	const uint64_t reads = LANDLOCK_ACCESS_FS_READ_FILE,
		       writes = LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE;
	int flags = fcntl(fd, F_GETFL);

	struct stat st;

	if (flags < 0 || fstat(fd, &st) < 0)
		return 0;
	if (flags & O_PATH)
		return S_ISSOCK(st.st_mode) ? FS_RESOLVE_UNIX & handled : 0;
	if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
		return 0;
	switch (flags & O_ACCMODE) {
	case O_RDONLY:
		return reads & handled;
	case O_WRONLY:
		return writes & handled;
	case O_RDWR:
		return (reads | writes) & handled;
	default:
		return 0;
	}
}

static int rules_add(int ruleset, uint64_t handled, const int *fds, size_t n)
{
	SCOPED_FD int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (root < 0)
		return -errno;
	/* sockets that a process inside makes are its own domain's: no rule is needed for them */
	if ((r = rule_add(ruleset, root, handled & ~FS_RESOLVE_UNIX)) < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		uint64_t rights = open_rights(fds[i], handled);

		if (rights == 0)
			continue;
		/* EBADFD: of no tree at all, as a pipe or a memfd; those are never refused */
		if ((r = rule_add(ruleset, fds[i], rights)) < 0 && r != -EBADFD)
			return r;
	}
	return 0;
}

int lock_landlock_open(unsigned what, const int *fds, size_t n)
{
	int abi = lock_landlock_abi();
	struct ruleset r = ruleset_for(what, abi);
	SCOPED_FD int fd = -1;
	int e;

	if (abi == 0 || (r.fs | r.net | r.scoped) == 0)
		return abi;
	fd = (int)syscall(SYS_landlock_create_ruleset, &r, ruleset_size(abi), 0);
	if (fd < 0)
		return -errno;
	if (what & LOCK_INSIDE && r.fs != 0 && (e = rules_add(fd, r.fs, fds, n)) < 0)
		return e;
	if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return -errno;
	return abi;
}

int lock_landlock(unsigned what)
{
	return lock_landlock_open(what, NULL, 0);
}
