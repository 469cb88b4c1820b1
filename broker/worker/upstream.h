/* SPDX-License-Identifier: ISC */
/* broker/worker/upstream.h - the policy's upstream proxy: asked to go on to the target */
#ifndef WEIR_BROKER_WORKER_UPSTREAM_H
#define WEIR_BROKER_WORKER_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct conn;

/** upstream_is() - does this connection's verdict go through the upstream proxy? */
bool upstream_is(const struct conn *c);
/** upstream_linked() - connected to it: send CONNECT for the verdict's target and wait for the
 * answer within what is left of DIAL_S; ends in relay_linked() or in a refusal.
 * Source: RFC 9110 section 9.3.6 */
void upstream_linked(struct conn *c);
/** upstream_ready() - bytes of its answer */
void upstream_ready(struct conn *c);
/**
 * upstream_head() - make the origin-form head at w->out (@len bytes) one for the upstream:
 * absolute form and, where there are any, the credentials. Source: RFC 9112 section 3.2.2
 * Return: its length now, or -EMSGSIZE */
ssize_t upstream_head(struct conn *c, size_t len);

#endif
