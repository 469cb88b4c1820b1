/* SPDX-License-Identifier: ISC */
/* sandbox/handover.h - the plan, on its way to a sandbox that began before there was one.
 * Memory that both processes share, at the same address in both, holds a copy of the whole plan; a
 * message says that it is there and brings the few descriptors that are used, not only compared. */
#ifndef WEIR_SANDBOX_HANDOVER_H
#define WEIR_SANDBOX_HANDOVER_H

#include <stddef.h>

struct err;
struct sandbox_plan;

/** struct handover - made before the clone(2), so that both have it */
struct handover {
	void *at; /* shared memory, or NULL */
	size_t size, used;
};

/** handover_open() - get the memory. Return: 0, or -errno with @e */
int handover_open(struct handover *h, struct err *e);
/** handover_close() - in each process that has it, once the plan is not needed there any more */
void handover_close(struct handover *h);

/**
 * handover_give() - copy @plan and tell the other end of @sock
 * What the plan has open is identified in the copy (plan_pin) and must stay open, with the caller, until
 * the sandbox's tree is made: a number that is used anew would be taken for it.
 * Return: 0, also when nobody is there any more, whose last word waits in @sock; else -errno with @e */
int handover_give(struct handover *h, const struct sandbox_plan *plan, int sock, struct err *e);

/**
 * handover_take() - wait for the plan
 * Return: the copy, good until handover_close(); its stdio[] and cgroup_fd are this process's, all
 *	   other descriptors in it are nobody's. NULL: whoever would give it is gone */
struct sandbox_plan *handover_take(const struct handover *h, int sock);

#endif
