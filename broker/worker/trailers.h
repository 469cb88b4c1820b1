/* SPDX-License-Identifier: ISC */
/* broker/worker/trailers.h - what stands behind the last chunk of a body, judged like a head */
#ifndef WEIR_BROKER_WORKER_TRAILERS_H
#define WEIR_BROKER_WORKER_TRAILERS_H

#include "broker/worker/state.h"

/**
 * trailers_pass() - pass on the trailers of the message that comes from @from, once all are there
 * @f: of that message; f->is_trailing
 *
 * Return: 1 when the message is over; what the other side did not take of it waits in http->out;
 *	   0: more is needed; -EBADMSG: malformed, or over HEAD_MAX; -ENODATA: @from ended; -EIO: it
 *	   broke; -ENOBUFS: no buffer for a part of it; else -errno of sending */
int trailers_pass(struct conn *c, enum which from, struct frame *f);

#endif
