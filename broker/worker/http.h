/* SPDX-License-Identifier: ISC */
/* broker/worker/http.h - plain HTTP: one exchange after the other between a client and the origin
 * of the verdict in force */
#ifndef WEIR_BROKER_WORKER_HTTP_H
#define WEIR_BROKER_WORKER_HTTP_H

#include "broker/worker/state.h"

/** http_linked() - the origin that the waiting request asked for is connected */
void http_linked(struct conn *c);
/** http_begin() - pass the waiting request on to the origin, which is open for its target */
void http_begin(struct conn *c);
/** http_ready() - @revents on one side during an exchange */
void http_ready(struct conn *c, enum which which, int revents);

/** http_send() - send a head at w->out, then @n body bytes; what is left of the head waits in a buffer.
 * Return: body bytes taken, or -errno, -ENOBUFS when there is no buffer */
ssize_t http_send(struct conn *c, enum which to, size_t head, const char *body, size_t n);
/** http_waiting() - the waiting request's head, c->head_len bytes, in a buffer or peeked at anew.
 * Return: NULL when it is not there any more */
const char *http_waiting(struct conn *c);

#endif
