/* SPDX-License-Identifier: ISC */
/* broker/monitor/remains.h - what the kernel takes down when weir has returned (docs/adr/0016) */
#ifndef WEIR_BROKER_MONITOR_REMAINS_H
#define WEIR_BROKER_MONITOR_REMAINS_H

#include <stddef.h>
#include <sys/types.h>

#define REMAINS_NS_MAX 2 /* the sandbox's, the nursery's */

/** struct remains - references that are given up last, and by nobody who is waited for */
struct remains {
	int ns[REMAINS_NS_MAX]; /* mount namespaces */
	size_t n;
	int left; /* the socket that all of it lies in; -1: not yet */
	int peer; /* its other end, the last to be closed: that is when the kernel's collector looks */
};

void remains_init(struct remains *r);
/** remains_namespace() - hold the mount namespace of @pid, a child that is not waited for yet. Where that
 * fails the end of the child takes longer, and nothing else is different */
void remains_namespace(struct remains *r, pid_t pid);
/**
 * remains_leave() - put what is held, and copies of @fds, where the kernel finds it once nobody looks
 * Call before these children are reaped, and keep @r until they are.
 * @fds: @n of them; they stay the caller's */
void remains_leave(struct remains *r, const int *fds, size_t n);
/** remains_free() - let go of it: what was left is taken down from now on, by a worker of the kernel */
void remains_free(struct remains *r);

#endif
