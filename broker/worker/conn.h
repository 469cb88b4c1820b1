/* SPDX-License-Identifier: ISC */
/* broker/worker/conn.h - one client connection: made, armed, refused, reset, closed */
#ifndef WEIR_BROKER_WORKER_CONN_H
#define WEIR_BROKER_WORKER_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/worker/state.h"

/** conns_init() - pools and tables for as many clients as the descriptor limit allows.
 * Return: 0, or -errno */
int conns_init(struct worker *w);

/** conn_open() - a new client; @fd becomes the connection's. Return: NULL when there is no room:
 * then @fd stays the caller's */
struct conn *conn_open(struct worker *w, int fd);
/** conn_close() - close both sockets and forget the connection; DONE or GONE is sent if owed */
void conn_close(struct conn *c, enum reason reason);
/** conn_reset() - the same, but both peers see RST */
void conn_reset(struct conn *c, enum reason reason);
/** conn_finish() - nothing more to say: FIN to the client, drop what it still sends, close */
void conn_finish(struct conn *c, enum reason reason);

/** conn_number() - take the next conn number and enter it in the table */
void conn_number(struct conn *c);
/** conn_find() - by the number the monitor used. Return: NULL for one that is over */
struct conn *conn_find(struct worker *w, uint32_t num);
/** conn_end() - the number is over: send DONE when it was allowed, GONE when it was only asked */
void conn_end(struct conn *c, enum reason reason);
/** conn_hard() - should this process die, the peer of @fd sees a reset and no orderly end. Set on each
 * socket of a connection (clients inherit it from the listener) until conn_close() ends it */
void conn_hard(int fd);
/** conn_soft() - take that back: the end is an orderly one */
void conn_soft(int fd);
/** conn_over() - the number is over and the monitor knows: a refusal */
void conn_over(struct conn *c);

/** conn_origin_close() - end the number and close the origin's socket; the client stays */
void conn_origin_close(struct conn *c, enum reason reason, bool is_reset);

/** conn_arm() - wait for @events (EV_READ, EV_WRITE) on one side; 0: for nothing */
void conn_arm(struct conn *c, enum which which, int events);
/** conn_timer() - (re)start the connection's one timer; 0: stop it */
void conn_timer(struct conn *c, double after);
/** conn_state() - change state; the io watchers stay as they are */
void conn_state(struct conn *c, enum conn_state state);

/** conn_refuse() - answer with weir's own text and close gently
 * @what: first line of the body */
void conn_refuse(struct conn *c, enum reason reason, const char *what);
/** conn_refuse_text() - the same with the whole body. @status 0: the reason's own */
void conn_refuse_text(struct conn *c, unsigned status, enum reason reason, const char *text);

/** conn_say() - the last thing this connection hears: @len bytes (at most HEAD_MAX) at w->out, then it
 * is closed gently. Negative: reset it instead */
void conn_say(struct conn *c, ssize_t len, enum reason reason);

/** conn_park() - stop reading until buffers or deals come back */
void conn_park(struct conn *c);
/** conn_unpark() - something came back: go on with the ones that wait, in their order */
void conn_unpark(struct worker *w);

/** conn_deal_put() - give the deal back, attempts closed */
void conn_deal_put(struct conn *c);

#endif
