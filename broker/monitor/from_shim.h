/* SPDX-License-Identifier: ISC */
/* broker/monitor/from_shim.h - what pid 1 of the sandbox may say */
#ifndef WEIR_BROKER_MONITOR_FROM_SHIM_H
#define WEIR_BROKER_MONITOR_FROM_SHIM_H

#include <stddef.h>

struct monitor;

/** from_shim() - judge and handle one message; LISTENERS brings descriptors, which are kept.
 * Return: 0, or -EBADMSG with m->bad set */
int from_shim(struct monitor *m, const void *buf, size_t len, const int *fds, size_t nfds);
/** from_shim_ready() - its socket is readable */
void from_shim_ready(struct monitor *m);
/** shim_ended() - its pidfd says that the sandbox is gone, all of it */
void shim_ended(struct monitor *m);

#endif
