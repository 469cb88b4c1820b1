/* SPDX-License-Identifier: ISC */
/* common/filter.c - load a seccomp program that was made when weir was built. */
#include "common/filter.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/feature.h"

int filter_listen(const struct filter_prog *p)
{
	struct sock_fprog prog = { .len = p->len,
				   .filter = (struct sock_filter *)(uintptr_t)p->insns };
	long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			  &prog);

	return fd < 0 ? -errno : (int)fd;
}

int filter_load(const struct filter_prog *p)
{
	struct sock_fprog prog = { .len = p->len,
				   .filter = (struct sock_filter *)(uintptr_t)p->insns };

	if (feature_off("filter"))
		return 0;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return -errno;
	return 0;
}
