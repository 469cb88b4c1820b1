/* SPDX-License-Identifier: ISC */
/* broker/worker/accept.h - take clients off the listeners, never more than there is room for */
#ifndef WEIR_BROKER_WORKER_ACCEPT_H
#define WEIR_BROKER_WORKER_ACCEPT_H

#include "broker/worker/state.h"

/** accept_init() - take the spare descriptor. Return: 0, or -errno */
int accept_init(struct worker *w);
/** accept_listen() - serve @fd, which becomes the worker's, for what @m says.
 * Return: 0, or -EBADMSG: one too many */
int accept_listen(struct worker *w, const struct msg_listen *m, int fd);
/** accept_route() - the same for a listener of the transparent route. Return: 0, or -EBADMSG: one too
 * many, or not one of TCP */
int accept_route(struct worker *w, int fd, enum msg_route_kind kind);
/** accept_stop() - no more clients, ever */
void accept_stop(struct worker *w);
/** accept_pause_full() / accept_resume_full() - while connections wait for buffers or deals */
void accept_pause_full(struct worker *w);
void accept_resume_full(struct worker *w);
/** accept_room() - a connection has ended: the listeners may have waited for that */
void accept_room(struct worker *w);
/** accept_limit() - connections at once, as CONFIG says and the descriptors allow */
uint32_t accept_limit(const struct worker *w);

#endif
