/* SPDX-License-Identifier: ISC */
/* broker/monitor/cgroup.h - limits for the sandbox as a whole, where a part of cgroup v2 is this user's */
#ifndef WEIR_BROKER_MONITOR_CGROUP_H
#define WEIR_BROKER_MONITOR_CGROUP_H

#include <stdbool.h>

struct err;
struct monitor;
struct policy;

enum cgroup_limit { CGROUP_PIDS, CGROUP_MEMORY, CGROUP_CPU, CGROUP_LIMIT_COUNT };

/** struct cgroup - the sandbox's own, or none */
struct cgroup {
	int parent;		     /* O_PATH of the directory it lies in, or -1: there is none */
	int max[CGROUP_LIMIT_COUNT]; /* the file that holds the limit, or -1 */
	int swap;		     /* memory.swap.max, or -1 */
	int events;		     /* cgroup.events, or -1 */
	char name[32];
};

/** cgroup_init() - none yet */
void cgroup_init(struct cgroup *g);
/**
 * cgroup_below() - make a cgroup for a sandbox in a directory of cgroup v2
 * @dir:  O_PATH of a directory that is this user's; stays the caller's
 * @id:	  of the sandbox
 * @want: bit N: enum cgroup_limit N is wanted
 * What another sandbox left behind there, a minute ago or longer, is removed.
 * @procs: a descriptor that the sandbox writes to in order to enter it, the caller's
 *
 * Return: bits of @want that it can hold, 0: no cgroup was made; or -errno */
int cgroup_below(struct cgroup *g, int dir, const char *id, unsigned want, int *procs);
/** cgroup_remove() - remove it; whoever was in it is gone */
void cgroup_remove(struct cgroup *g);

/** cgroup_offered() - what a sandbox's own cgroup holds here: one is made as for a run, entered by a child
 * and removed. Return: bits as in cgroup_below(), 0: none */
unsigned cgroup_offered(void);
/** limits_begin() - before the sandbox is made: what the policy limits, by a cgroup where there can be one;
 * where not it is said what holds instead. Return: 0, or -errno with @e */
int limits_begin(struct monitor *m, struct err *e);
/** limits_change() - the policy in force is @now: what a cgroup holds follows, the rest is told */
void limits_change(struct monitor *m, const struct policy *before, const struct policy *now);

#endif
