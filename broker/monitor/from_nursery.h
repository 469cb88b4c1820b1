/* SPDX-License-Identifier: ISC */
/* broker/monitor/from_nursery.h - what pid 1 of the worker's room may say */
#ifndef WEIR_BROKER_MONITOR_FROM_NURSERY_H
#define WEIR_BROKER_MONITOR_FROM_NURSERY_H

#include <stddef.h>

struct monitor;

/** from_nursery() - judge and handle one message. Return: 0, or -EBADMSG with m->bad set */
int from_nursery(struct monitor *m, const void *buf, size_t len, const int *fds, size_t nfds);
/** from_nursery_ready() - its socket is readable */
void from_nursery_ready(struct monitor *m);
/** nursery_stop() - let it kill its worker; it stays, to remove the runtime entry after a monitor
 * that was killed */
void nursery_stop(struct monitor *m);
/** nursery_entry() - tell it which entry that is. Return: 0, or -errno */
int nursery_entry(struct monitor *m, int dir, const char *name);
/** nursery_cgroup() - tell it which cgroup to remove after a monitor that was killed: @name of the directory
 * @dir, whose cgroup.events is @events. Return: 0, or -errno */
int nursery_cgroup(struct monitor *m, int dir, int events, const char *name);
/** nursery_ended() - it is gone, by end of file or by its pidfd */
void nursery_ended(struct monitor *m);
/** nursery_lost() - it ended, or must: no worker can be had any more, so the sandbox ends too.
 * @why: for the message */
void nursery_lost(struct monitor *m, const char *why);
/** nursery_kill() - SIGKILL by pidfd, with every worker; nothing is said about it */
void nursery_kill(struct monitor *m);

#endif
