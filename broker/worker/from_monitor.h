/* SPDX-License-Identifier: ISC */
/* broker/worker/from_monitor.h - what the monitor says */
#ifndef WEIR_BROKER_WORKER_FROM_MONITOR_H
#define WEIR_BROKER_WORKER_FROM_MONITOR_H

#include <stddef.h>

struct ev_io;
struct ev_loop;
struct worker;

/** from_monitor() - act on one message and take its @nfds descriptors.
 * Return: 0, or -EBADMSG: then the descriptors were closed */
int from_monitor(struct worker *w, const void *buf, size_t len, int *fds, size_t nfds);
/** from_monitor_ready() - the watcher's callback: a bounded number of messages per wake */
void from_monitor_ready(struct ev_loop *loop, struct ev_io *io, int revents);

#endif
