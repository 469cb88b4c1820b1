/* SPDX-License-Identifier: ISC */
/* broker/monitor/workers.h - the worker's life as the monitor steers it: begin, replace, stop */
#ifndef WEIR_BROKER_MONITOR_WORKERS_H
#define WEIR_BROKER_MONITOR_WORKERS_H

#include <stdbool.h>

#include <stddef.h>

struct monitor;

/** worker_start() - a fresh socket pair; START to the nursery, CONFIG and, once there are
 * listeners, LISTEN to the new worker; then read what it says. Not before the monitor is locked: until
 * then it may still find that this machine has no sandbox and run the command without one.
 * Return: 0, or -errno */
int worker_start(struct monitor *m);
/** worker_listen() - pass the listeners on. Return: 0, or -errno */
int worker_listen(struct monitor *m);
/** worker_config() - limits, DNS servers and own addresses as they are now. Return: 0, or -EBADMSG */
int worker_config(struct monitor *m);
/** worker_send() - send m->wr, or keep it until the worker takes it; at most queue_max are kept.
 * Return: 0 (also when the worker is gone: its end is seen elsewhere), or -EBADMSG when it does not
 * read what it asked for */
int worker_send(struct monitor *m);
/** worker_send_fds() - the same with @nfds descriptors (0-2); where the message must wait they are
 * taken and left as -1 */
int worker_send_fds(struct monitor *m, int *fds, size_t nfds);
/**
 * worker_lost() - the worker is gone, or must go: its connections are over, another one starts
 * The fifth time within a minute the listeners are shut instead, for good.
 * @bad: name of the message by which it broke the protocol, or NULL */
void worker_lost(struct monitor *m, const char *bad);
/** worker_stop() - STOP: the command has ended; wait for what the worker still has to say */
void worker_stop(struct monitor *m);
/** worker_gone() - is there no worker whose end must be awaited? */
bool worker_gone(const struct monitor *m);

#endif
