/* SPDX-License-Identifier: ISC */
/* broker/monitor/names.c - the synthetic addresses of the transparent route and what they stand for.
 * A name in NAME is what a program inside typed: only what the policy allows on some port becomes an
 * entry, in its canonical spelling. What its connections may do is asked when they come. */
#include "broker/monitor/names.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/monitor/monitor.h"
#include "broker/monitor/notices.h"
#include "broker/monitor/record.h"
#include "broker/monitor/state.h"
#include "broker/monitor/verdict.h"
#include "broker/monitor/who.h"
#include "broker/monitor/workers.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/scope.h"
#include "common/synthetic.h"
#include "policy/policy.h"
#include "policy/target.h"

#define ROOM_FIRST 64

static uint32_t *slot_of(const struct name_table *n, const char *host)
{
	uint32_t v = 2166136261u; /* FNV-1a */

	for (; *host; host++)
		v = (v ^ (uint8_t)*host) * 16777619u;
	return &n->bucket[v % NAMES_BUCKETS];
}

static int grow(struct name_table *n)
{
	size_t room = n->room ? 2 * n->room : ROOM_FIRST;
	char **host;
	uint32_t *next;

	if (n->n >= NAMES_MAX)
		return -ENOSPC;
	if (!n->bucket && !(n->bucket = calloc(NAMES_BUCKETS, sizeof(n->bucket[0]))))
		return -ENOMEM;
	if (n->n < n->room)
		return 0;
	if (!(host = reallocarray(n->host, room, sizeof(host[0]))))
		return -ENOMEM;
	n->host = host;
	if (!(next = reallocarray(n->next, room, sizeof(next[0]))))
		return -ENOMEM;
	n->next = next;
	n->room = room;
	return 0;
}

static bool find(const struct name_table *n, const char *host, uint32_t *addr)
{
	if (!n->bucket)
		return false;
	for (uint32_t i = *slot_of(n, host); i > 0; i = n->next[i - 1]) {
		if (!str_eq(n->host[i - 1], host))
			continue;
		*addr = SYNTHETIC_FIRST + i - 1;
		return true;
	}
	return false;
}

int names_give(struct name_table *n, const char *host, uint32_t *addr)
{
	uint32_t *slot;
	char *copy;
	int r;

	if (find(n, host, addr))
		return 0;
	r = grow(n);
	if (r < 0)
		return r;
	if (!(copy = strdup(host)))
		return -ENOMEM;
	slot = slot_of(n, host);
	n->host[n->n] = copy;
	n->next[n->n] = *slot;
	*addr = SYNTHETIC_FIRST + (uint32_t)n->n;
	*slot = (uint32_t)++n->n;
	return 0;
}

const char *names_host(const struct name_table *n, uint32_t addr)
{
	return addr >= SYNTHETIC_FIRST && addr - SYNTHETIC_FIRST < n->n
		       ? n->host[addr - SYNTHETIC_FIRST]
		       : NULL;
}

void names_free(struct name_table *n)
{
	for (size_t i = 0; i < n->n; i++)
		free(n->host[i]);
	free(n->host);
	free(n->next);
	free(n->bucket);
	*n = (struct name_table){ 0 };
}

/* ---- answers ---- */

static int named_send(struct monitor *m, const struct msg_named *answer)
{
	wr_open(&m->wr, MSG_NAMED, 0);
	msg_put_named(&m->wr, answer);
	return worker_send(m);
}

static void full_tell(struct monitor *m)
{
	if (m->names.told)
		return;
	m->names.told = true;
	record_event(m, "names_full", json_pack("{s:i}", "names", NAMES_MAX));
	note("the command has looked up %d names: further ones have no address in this sandbox",
	     NAMES_MAX);
}

/* The answer, then the record: who asked is known by its socket, which it may close now. */
static int no_send(struct monitor *m, const struct msg_name *name, struct refused *r)
{
	const struct msg_named no = { .query = name->query, .answer = NAMED_NO };
	int sent;

	r->proto = PROTO_DNS;
	r->socket = who_udp(m, name->port);
	sent = named_send(m, &no);
	record_deny(m, r);
	return sent;
}

static int refused(struct monitor *m, const struct msg_name *name, struct target *t)
{
	struct policy_match match;
	char text[MSG_TEXT_MAX + 1];
	int r;

	t->port = 443; /* for a rule that says why not: no port is known yet */
	policy_match(m->policy, t, &match);
	if (match.reason == REASON_PORT) /* what opens the name is denied on the very ports */
		match.reason = REASON_DENIED;
	t->port = 0;
	(void)policy_refusal(m->policy, t, match.reason, match.rule, NULL, text, sizeof(text));
	r = no_send(
		m, name,
		&(struct refused){ .host = t->host, .reason = match.reason, .rule = match.rule });
	notices_refused(&m->notices, t->host, 0, text);
	return r;
}

static int refused_bad(struct monitor *m, const struct msg_name *name)
{
	char text[HOST_MAX * 4 + 1];

	(void)escape_text(text, sizeof(text), name->host, strlen(name->host));
	return no_send(m, name, &(struct refused){ .host = text, .reason = REASON_BAD_NAME });
}

/* On some port it is more than denied; where that is not the rule's alone to say, as for localhost, the
 * verdict says it. */
static bool is_named(struct monitor *m, struct target *t)
{
	struct policy_match match;

	if (!policy_any_port(m->policy, t))
		return false;
	policy_match(m->policy, t, &match);
	return match.verdict != POLICY_DENY;
}

static int answer_addr(struct monitor *m, const struct msg_name *name, struct msg_named *answer)
{
	struct target t;
	int r = target_parse_wire(&t, name->host, 443, 0);

	if (r < 0 || t.is_addr)
		return name->kind == NAME_ADDR ? refused_bad(m, name) : named_send(m, answer);
	verdict_search(m, &t, true);
	if (!is_named(m, &t))
		return name->kind == NAME_ADDR ? refused(m, name, &t) : named_send(m, answer);
	r = names_give(&m->names, t.host, &answer->addr);
	answer->answer = r < 0 ? NAMED_FULL : NAMED_YES;
	if (r < 0)
		full_tell(m);
	return named_send(m, answer);
}

static void answer_reverse(struct monitor *m, const struct msg_name *name, struct msg_named *answer)
{
	const char *host;
	struct addr a;

	if (addr_parse(&a, name->host) < 0 || !(host = names_host(&m->names, synthetic_of(&a))))
		return;
	answer->answer = NAMED_YES;
	(void)snprintf(answer->host, sizeof(answer->host), "%s", host);
}

int names_ask(struct monitor *m, const struct msg_name *name)
{
	struct msg_named answer = { .query = name->query, .answer = NAMED_NO };

	if (name->kind != NAME_REVERSE)
		return answer_addr(m, name, &answer);
	answer_reverse(m, name, &answer);
	return named_send(m, &answer);
}
