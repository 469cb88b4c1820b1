/* SPDX-License-Identifier: ISC */
/* broker/monitor/conn_table.c - the connections of one worker, by the worker's number for each.
 * Numbers come from the worker and only grow; a number seen once never means anything else.
 * Memory: at most max connections, each as large as struct conn and sixteen addresses. */
#include "conn_table.h"

#include <assert.h>
#include <stdlib.h>

#include "broker/monitor/gates.h"

void conn_table_init(struct conn_table *t, size_t max)
{
	*t = (struct conn_table){ .max = max };
	TAILQ_INIT(&t->undialed);
}

enum conn_state conn_table_state(const struct conn_table *t, uint32_t num, struct conn **c)
{
	*c = NULL;
	if (num == 0)
		return CONN_NONE;
	if (num > t->last)
		return CONN_NEW;
	for (struct conn *i = t->bucket[num % CONN_TABLE_BUCKETS]; i; i = i->next) {
		if (i->num == num) {
			*c = i;
			return i->state;
		}
	}
	return CONN_OVER;
}

uint64_t conn_table_use(struct conn_table *t, uint32_t num)
{
	t->last = num;
	return ++t->serial;
}

struct conn *conn_table_add(struct conn_table *t, uint32_t num, uint64_t serial)
{
	struct conn *c;

	if (t->n >= t->max)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->num = num;
	c->serial = serial;
	c->next = t->bucket[num % CONN_TABLE_BUCKETS];
	t->bucket[num % CONN_TABLE_BUCKETS] = c;
	t->n++;
	TAILQ_INSERT_TAIL(&t->undialed, c, undialed);
	c->is_undialed = true;
	return c;
}

void conn_table_dialed(struct conn_table *t, struct conn *c)
{
	if (c->is_undialed)
		TAILQ_REMOVE(&t->undialed, c, undialed);
	c->is_undialed = false;
	gates_shut(t->gates, &c->gate);
}

static void conn_free(struct conn *c)
{
	assert(!c->question); /* whoever takes it out has it leave first */
	free(c->allowed);
	free(c->cand);
	free(c);
}

void conn_table_del(struct conn_table *t, struct conn *c)
{
	struct conn **at = &t->bucket[c->num % CONN_TABLE_BUCKETS];

	while (*at && *at != c)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = c->next;
	conn_table_dialed(t, c);
	t->n--;
	conn_free(c);
}

void conn_table_each(struct conn_table *t, void (*each)(void *arg, struct conn *c), void *arg)
{
	for (size_t i = 0; i < CONN_TABLE_BUCKETS; i++) {
		for (struct conn *c = t->bucket[i]; c; c = c->next)
			each(arg, c);
	}
}

size_t conn_table_drain(struct conn_table *t, void (*end)(void *arg, struct conn *c), void *arg)
{
	size_t n = t->n;

	for (size_t i = 0; i < CONN_TABLE_BUCKETS; i++) {
		while (t->bucket[i]) {
			struct conn *c = t->bucket[i];

			if (end)
				end(arg, c);
			t->bucket[i] = c->next;
			conn_table_dialed(t, c);
			conn_free(c);
		}
	}
	t->n = 0;
	t->last = 0;
	return n;
}
