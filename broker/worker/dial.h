/* SPDX-License-Identifier: ISC */
/* broker/worker/dial.h - connect to what the verdict allows, RFC 8305 */
#ifndef WEIR_BROKER_WORKER_DIAL_H
#define WEIR_BROKER_WORKER_DIAL_H

#include <stddef.h>
#include <stdint.h>

struct addr;
struct conn;
struct deal;

/** dial_candidates() - what the name resolved to (1-MSG_ADDRS_MAX addresses): keep what is public,
 * or let the monitor choose. May end the connection */
void dial_candidates(struct conn *c, const struct addr *addr, size_t n);
/** dial_mask() - the monitor's choice among the candidates, not empty */
void dial_mask(struct conn *c, uint64_t mask);
/** dial_start() - try c->deal->addr in turn. May end the connection */
void dial_start(struct conn *c);
/** dial_timeout() - DIAL_S is over: 504 */
void dial_timeout(struct conn *c);
/** dial_stop() - close what is under way */
void dial_stop(struct deal *d);

#endif
