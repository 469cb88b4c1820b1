/* SPDX-License-Identifier: ISC */
/* broker/worker/to_monitor.h - what the worker says; never waits, never loses a message: what the
 * socket does not take is queued, and a queue that is full ends the worker */
#ifndef WEIR_BROKER_WORKER_TO_MONITOR_H
#define WEIR_BROKER_WORKER_TO_MONITOR_H

#include "broker/worker/state.h"

/** to_monitor_init() - room for what must wait. Return: 0, or -errno */
int to_monitor_init(struct worker *w);
/** to_monitor_turn() - before each wait of the loop: send what was said since the last one, in as few
 * packets as hold it */
void to_monitor_turn(struct worker *w);
/** to_monitor_flush() - send what waits, @wait_ms at most. Return: true when nothing is left */
bool to_monitor_flush(struct worker *w, int wait_ms);

/** ready_send() - the first message. @listener answers this process's connect() calls; -1: none */
void ready_send(struct worker *w, int listener);
void ask_send(struct conn *c, const struct msg_ask *m);
void reject_send(struct conn *c, const struct msg_reject *m);
void candidates_send(struct conn *c, const struct msg_candidates *m);
void dialed_send(struct conn *c, const struct addr *addr);
void done_send(struct conn *c, enum reason reason);
void gone_send(struct conn *c);
void half_send(struct conn *c, const struct msg_half *m);
void name_send(struct worker *w, const struct msg_name *m);
/** reject_name_send() - about a query: no connection has a part in it */
void reject_name_send(struct worker *w, const struct msg_reject *m);
void stats_send(struct worker *w);
/** stats_count() - a limit was met once more */
void stats_count(struct worker *w, enum msg_count what);
/** stats_later() - STATS within a second, however often something changes */
void stats_later(struct worker *w);

#endif
