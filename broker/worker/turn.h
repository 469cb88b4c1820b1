/* SPDX-License-Identifier: ISC */
/* broker/worker/turn.h - who gets what is scarce: deals, head buffers, connections */
#ifndef WEIR_BROKER_WORKER_TURN_H
#define WEIR_BROKER_WORKER_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct asked;
struct conn;
struct worker;

/** turn_init() - before the first connection */
void turn_init(struct worker *w);

/** turn_deal() - a deal for @c about @a, set up but for its verdict. A target has one more only while
 * it has fewer than are free: alone half of them, and never the last one.
 * Return: false when there is none; c->share says whether others may have one */
bool turn_deal(struct conn *c, const struct asked *a);
/** turn_deal_put() - give it back; its attempts are closed */
void turn_deal_put(struct conn *c);
/** turn_has_share() - would turn_deal() give one for this share of w->share[]? */
bool turn_has_share(const struct worker *w, unsigned share);

/** turn_fresh() - @c is new: it has asked for nothing and proved nothing */
void turn_fresh(struct conn *c);
/** turn_head() - @c waits for the rest of a head; if that lies in a buffer, it may lose it */
void turn_head(struct conn *c);
/** turn_leave() - @c waits for no head any more */
void turn_leave(struct conn *c);
/** turn_evict() - make room for a buffer of @need bytes: whoever waits longest for the rest of a head
 * in one of that size is told 408, those first that never asked for anything. Never @c itself.
 * Return: true when a buffer came back */
bool turn_evict(struct conn *c, size_t need);
/** turn_slot() - close the connection that has been silent longest since it was accepted, or else
 * the one whose first head is longest under way */
void turn_slot(struct worker *w);

#endif
