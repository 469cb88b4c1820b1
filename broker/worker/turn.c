/* SPDX-License-Identifier: ISC */
/* broker/worker/turn.c - who gets what is scarce: deals, head buffers, connections.
 * Each is bounded, and whoever takes many must not leave the others without: one host that never
 * answers cannot use up the deals, half heads cannot use up the buffers, and where a stranger may
 * connect (weir proxy on TCP) those who never proved the secret make room for those who come.
 * The spellings that a share is found by are the client's own: a collision costs speed, no right. */
#include "broker/worker/turn.h"

#include <ctype.h>
#include <string.h>

#include "broker/worker/client.h"
#include "broker/worker/conn.h"
#include "common/scope.h"

#define SMALL_KEPT 64 /* buffers of 1 and of 4 KiB that half heads leave to answers and responses */
#define LARGE_KEPT 4

enum turn { TURN_NONE, TURN_FRESH, TURN_HEAD };

void turn_init(struct worker *w)
{
	TAILQ_INIT(&w->fresh);
	TAILQ_INIT(&w->heads);
}

/* ---- deals ---- */

static uint16_t share_of(const struct asked *a)
{
	uint32_t v = (2166136261u ^ a->port) * 16777619u; /* FNV-1a */

	for (const char *p = a->host; *p && !(p[0] == '.' && p[1] == '\0'); p++)
		v = (v ^ (uint32_t)tolower((unsigned char)*p)) * 16777619u;
	return (uint16_t)((v ^ v >> 16) % SHARES);
}

bool turn_has_share(const struct worker *w, unsigned share)
{
	return w->share[share] < w->deals.max - w->deals.used;
}

bool turn_deal(struct conn *c, const struct asked *a)
{
	uint16_t share = share_of(a);
	struct worker *w = c->w;
	struct deal *d = NULL;

	if (turn_has_share(w, share))
		d = pool_get(&w->deals);
	c->share = !d && w->deals.used < w->deals.max ? (uint16_t)(share + 1) : 0;
	if (!d)
		return false;
	memset(d, 0, offsetof(struct deal, text));
	d->text[0] = d->private_text[0] = '\0';
	d->naddr = d->next = d->interim = d->nborn = 0;
	d->is_set_up = false;
	d->conn = c;
	d->share = share;
	w->share[share]++;
	c->deal = d;
	return true;
}

void turn_deal_put(struct conn *c)
{
	c->w->share[c->deal->share]--;
	pool_put(&c->w->deals, c->deal);
	c->deal = NULL;
}

/* ---- buffers and connections ---- */

static struct conn_list *list_of(struct worker *w, enum turn turn)
{
	return turn == TURN_FRESH ? &w->fresh : &w->heads;
}

static void enter(struct conn *c, enum turn turn)
{
	turn_leave(c);
	c->turn_in = (uint8_t)turn;
	TAILQ_INSERT_TAIL(list_of(c->w, turn), c, turn);
}

void turn_leave(struct conn *c)
{
	if (c->turn_in != TURN_NONE)
		TAILQ_REMOVE(list_of(c->w, c->turn_in), c, turn);
	c->turn_in = TURN_NONE;
}

void turn_fresh(struct conn *c)
{
	enter(c, TURN_FRESH);
}

void turn_head(struct conn *c)
{
	static const size_t needs[] = { 1, BUF_TINY, BUF_SMALL };
	static const uint32_t kept[] = { SMALL_KEPT, SMALL_KEPT, LARGE_KEPT };
	struct bufs *b = &c->w->bufs;

	if (!c->head || c->state != CONN_HEAD)
		return;
	if (c->turn_in != TURN_HEAD)
		enter(c, TURN_HEAD);
	for (size_t i = 0; i < ARRAY_LEN(needs); i++) {
		const struct pool *p = bufs_pool(b, needs[i]);

		if (p->max - p->used < kept[i])
			(void)turn_evict(c, needs[i]);
	}
}

static struct conn *oldest(struct worker *w, const struct conn *but, const struct pool *p,
			   bool is_new)
{
	struct conn *c;

	TAILQ_FOREACH (c, &w->heads, turn) {
		if (c != but && c->head && bufs_pool_of(&w->bufs, c->head) == p &&
		    (!is_new || c->num == 0))
			return c;
	}
	return NULL;
}

bool turn_evict(struct conn *c, size_t need)
{
	const struct pool *p = bufs_pool(&c->w->bufs, need);
	struct conn *victim = oldest(c->w, c, p, true);

	if (!victim)
		victim = oldest(c->w, c, p, false);
	if (!victim)
		return false;
	client_evict(victim);
	return true;
}

void turn_slot(struct worker *w)
{
	struct conn *c = TAILQ_FIRST(&w->fresh);

	if (c) {
		conn_close(c, REASON_IDLE);
		return;
	}
	TAILQ_FOREACH (c, &w->heads, turn) {
		if (c->num == 0)
			break;
	}
	if (!c)
		return;
	client_evict(c);
	if (c->w == w && c->state == CONN_LINGER) /* its place is wanted now */
		conn_close(c, REASON_CLOSED);
}
