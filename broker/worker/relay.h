/* SPDX-License-Identifier: ISC */
/* broker/worker/relay.h - a tunnel: bytes both ways, exactly, half-close and reset kept */
#ifndef WEIR_BROKER_WORKER_RELAY_H
#define WEIR_BROKER_WORKER_RELAY_H

#include "broker/worker/state.h"

/** relay_linked() - the origin of a CONNECT is there: say 200 and open the tunnel */
void relay_linked(struct conn *c);
/** relay_open() - from now on everything passes */
void relay_open(struct conn *c);
/** relay_ready() - @revents on one side of a tunnel */
void relay_ready(struct conn *c, enum which which, int revents);
/** relay_idle() - `limit idle` may be over */
void relay_idle(struct conn *c);
/** relay_is_drained() - the client has sent its last byte and all of them were passed on */
bool relay_is_drained(const struct conn *c);

/** pipes_init() - the pool for splice; pipes are made when first needed */
void pipes_init(struct worker *w);
/** pipe_discard() - give *@pipe back and set it to NULL; bytes in it are lost */
void pipe_discard(struct worker *w, struct pipe **pipe);

#endif
