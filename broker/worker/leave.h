/* SPDX-License-Identifier: ISC */
/* broker/worker/leave.h - hear of a client that leaves while nothing is read from it */
#ifndef WEIR_BROKER_WORKER_LEAVE_H
#define WEIR_BROKER_WORKER_LEAVE_H

struct conn;
struct ev_io;
struct ev_loop;
struct msg_half;
struct worker;

/** leave_init() - before the first connection */
void leave_init(struct worker *w);
/** leave_watch() - the client is not read any more: hear of its end within SWEEP_S, so that what is
 * answered at once costs nothing */
void leave_watch(struct conn *c);
/** leave_forget() - the client is read again, or gone */
void leave_forget(struct conn *c);
/** leave_on_event() - of the worker's set of watched sockets */
void leave_on_event(struct ev_loop *loop, struct ev_io *io, int revents);
/** leave_orphaned() - the monitor found that no process holds the client's socket any more: whoever
 * waits for an answer on it is gone */
void leave_orphaned(struct conn *c);
/** leave_ends_of() - the two ends of a connection of a client inside; family 0: it has none */
void leave_ends_of(const struct conn *c, struct msg_half *m);

#endif
