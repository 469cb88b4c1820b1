/* SPDX-License-Identifier: ISC */
/* broker/monitor/connects.h - where the worker's sockets may connect to */
#ifndef WEIR_BROKER_MONITOR_CONNECTS_H
#define WEIR_BROKER_MONITOR_CONNECTS_H

#include <stdbool.h>
#include <stdint.h>

struct addr;
struct monitor;

/** connects_watch() - answer the worker's connect() calls from now on
 * @fd: the listener of its seccomp filter, taken; -1: it has none, nothing is judged */
void connects_watch(struct monitor *m, int fd);
/** connects_stop() - no call is answered any more: that worker waits in its next one until it is killed,
 * and says nothing that is no longer true */
void connects_stop(struct monitor *m);
/** connects_allowed() - is it a name server, or a place that a verdict under way lets this worker
 * dial? Where the worker resolves the name itself, its addresses are its word: then any public
 * address on the verdict's port that no rule denies */
bool connects_allowed(struct monitor *m, const struct addr *a, uint16_t port);

#endif
