/* SPDX-License-Identifier: ISC */
/* common/slice.c - whoever is waited for gets the processor soon, and no more of it.
 * Scheduling is no boundary: all that fails here is let be. */
#include "common/slice.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_NS 100000

/** struct attr - the first version of struct sched_attr; glibc has it since 2.41 */
struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period; /* runtime: of SCHED_OTHER, the length of a turn */
};

static struct attr before; /* size 0: nothing was changed */

void slice_short(void)
{
	struct attr a = { .size = sizeof(a) };

	if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) < 0 || a.policy != SCHED_OTHER ||
	    a.runtime <= SLICE_NS)
		return;
	a.size = sizeof(a);
	before = a;
	a.runtime = SLICE_NS;
	if (syscall(SYS_sched_setattr, 0, &a, 0) < 0)
		before.size = 0;
}

void slice_back(void)
{
	if (before.size)
		(void)syscall(SYS_sched_setattr, 0, &before, 0);
}

/* As many processors as a static set holds; with more of them there is always an idle one. */
static cpu_set_t all;
static bool has_all;

void slice_apart(int pid)
{
	cpu_set_t others;
	int here = sched_getcpu();

	if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(pid, sizeof(others), &others) < 0)
		return;
	CPU_CLR(here, &others);
	if (CPU_COUNT(&others) > 0)
		(void)sched_setaffinity(pid, sizeof(others), &others);
}

void slice_keep(void)
{
	has_all = sched_getaffinity(0, sizeof(all), &all) == 0;
}

void slice_anywhere(void)
{
	if (has_all)
		(void)sched_setaffinity(0, sizeof(all), &all);
}
