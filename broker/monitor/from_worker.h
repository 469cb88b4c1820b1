/* SPDX-License-Identifier: ISC */
/* broker/monitor/from_worker.h - what the exposed side may say */
#ifndef WEIR_BROKER_MONITOR_FROM_WORKER_H
#define WEIR_BROKER_MONITOR_FROM_WORKER_H

#include <stddef.h>

struct monitor;

/** from_worker() - judge and handle one message of the worker; descriptors are closed.
 * Return: 0, or -EBADMSG with m->bad set */
int from_worker(struct monitor *m, const void *buf, size_t len, const int *fds, size_t nfds);
/** from_worker_ready() - the worker's socket is readable: the loop calls this */
void from_worker_ready(struct monitor *m);

#endif
