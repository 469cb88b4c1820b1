/* SPDX-License-Identifier: ISC */
/* broker/monitor/live.h - a policy that is edited while the sandbox runs */
#ifndef WEIR_BROKER_MONITOR_LIVE_H
#define WEIR_BROKER_MONITOR_LIVE_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watch.h"

struct err;
struct monitor;

#define LIVE_GATHER_S 0.1 /* quiet time after an event before the files are read */
#define LIVE_LATEST_S 0.4 /* and the longest time after the first one */
/* Nothing is watched before: a short command does not pay for closing an inotify descriptor. What
 * changed meanwhile is seen by its time. */
#define LIVE_BEGIN_S 0.3
#define LIVE_POLL_S 0.5 /* where inotify is not to be had */

/** struct live - what is known of the policy's files
 *   OFF --live_start()--> BEGUN --LIVE_BEGIN_S--> WATCHING (or POLLING) <--event-- GATHERING */
struct live {
	uint64_t generation; /* of the policy in force, 1-; in every audit record */
	struct watch watch;
	ev_io io;
	ev_timer begin, gather, poll;
	double first; /* loop time of the first event being gathered; 0: none */
	char **paths; /* owned, NULL-terminated */
	size_t npaths;
	uint64_t print; /* of what was read last, while polling */
	char *told;	/* why the layers did not merge the last time; NULL: they did */
};

void live_init(struct monitor *m);
/** live_start() - follow the files of m->run->files() from now on; makes the user's own directory.
 * Before the monitor is locked */
void live_start(struct monitor *m);
/** live_paths() - fill m->live.paths, where they are not yet */
void live_paths(struct monitor *m);
/**
 * live_reload() - read the policy's files now and put what they say in force
 * What is broken is told on stderr and in the audit, once; the last good policy stays. Open
 * connections are judged again. @e may be NULL.
 * Return: 0, or -errno with @e filled in: the policy that was in force still is */
int live_reload(struct monitor *m, struct err *e);
void live_free(struct monitor *m);

#endif
