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

#endif
