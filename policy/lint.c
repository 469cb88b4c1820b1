/* SPDX-License-Identifier: ISC */
/* policy/lint.c - lines that say nothing: repeated, or denied whatever they say.
 * Tells, changes no verdict. Bounded by CHAIN_MAX a slot of the index. */
#include "policy/policy.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/escape.h"
#include "common/scope.h"
#include "policy/internal.h"

#define CHAIN_MAX 256 /* rules of one slot looked at */
#define TEXT_MAX 1024

static const struct line *line_of(const struct policy_rule *r)
{
	return (const struct line *)((const char *)r - offsetof(struct line, u.rule));
}

/* Do the words of @r add nothing to what @old says? */
static bool words_in(const struct policy_rule *r, const struct policy_rule *old)
{
	return (!r->is_private || old->is_private) && (!r->no_sni || old->no_sni);
}

static const struct policy_rule *chain_of(const struct policy *p, const struct policy_pattern *t)
{
	return t->kind == PATTERN_ANY ? p->any : p->index[t->hash & p->index_mask];
}

/* An earlier rule for the same hosts that has all of @r's ports and words */
static const struct policy_rule *rule_repeated(const struct policy *p, const struct policy_rule *r)
{
	const struct policy_rule *best = NULL;
	size_t n = 0;

	for (const struct policy_rule *o = chain_of(p, r->pattern); o && n < CHAIN_MAX;
	     o = o->pattern->same, n++)
		if (o->verdict == r->verdict && o->pattern->order < r->pattern->order &&
		    !line_of(o)->from && pattern_same(o->pattern, r->pattern) && words_in(r, o) &&
		    pattern_ports(r->pattern, o->pattern) >= PORTS_COVERED)
			best = o;
	return best;
}

/* A deny rule in the slot of @name that covers every host of @r. @above: @name is a parent of @r's */
static const struct policy_rule *chain_denies(const struct policy *p, const struct policy_rule *r,
					      uint32_t hash, const char *name, size_t len,
					      bool above)
{
	size_t n = 0;

	for (const struct policy_rule *o = p->index[hash & p->index_mask]; o && n < CHAIN_MAX;
	     o = o->pattern->same, n++) {
		const struct policy_pattern *t = o->pattern;

		if (o->verdict != POLICY_DENY || t->hash != hash || t->kind == PATTERN_NET ||
		    t->name_len != len || memcmp(t->name, name, len) != 0)
			continue;
		if (above ? t->kind == PATTERN_EXACT
			  : t->kind != r->pattern->kind && t->kind != PATTERN_SUFFIX)
			continue;
		if (pattern_ports(r->pattern, t) >= PORTS_COVERED)
			return o;
	}
	return NULL;
}

static const struct policy_rule *name_denied(const struct policy *p, const struct policy_rule *r)
{
	const struct policy_pattern *t = r->pattern;
	uint32_t hash = NAME_HASH_START;
	const struct policy_rule *o;

	for (size_t i = t->name_len; i > 0; i--) {
		if (t->name[i - 1] == '.' &&
		    (o = chain_denies(p, r, hash, t->name + i, t->name_len - i, true)) != NULL)
			return o;
		hash = name_hash_step(hash, t->name[i - 1]);
	}
	return chain_denies(p, r, hash, t->name, t->name_len, false);
}

/* A deny rule after which nothing of the allow or ask rule @r is left */
static const struct policy_rule *rule_dead(const struct policy *p, const struct policy_rule *r)
{
	const struct policy_pattern *t = r->pattern;
	const struct policy_rule *o = NULL;
	size_t n = 0;

	if (t->kind == PATTERN_NET) {
		for (o = chain_of(p, t); o && n < CHAIN_MAX; o = o->pattern->same, n++)
			if (o->verdict == POLICY_DENY && pattern_same(o->pattern, t) &&
			    pattern_ports(t, o->pattern) >= PORTS_COVERED)
				return o;
	} else if (t->kind != PATTERN_ANY) {
		o = name_denied(p, r);
		if (o)
			return o;
	}
	n = 0;
	for (o = p->any; o && n < CHAIN_MAX; o = o->pattern->same, n++)
		if (o->verdict == POLICY_DENY && pattern_ports(t, o->pattern) >= PORTS_COVERED)
			return o;
	return NULL;
}

static const char *line_text(const struct line *l, char buf[TEXT_MAX])
{
	(void)escape_line(buf, TEXT_MAX, l->origin.text, strlen(l->origin.text));
	return buf;
}

static void tell_pair(const struct line *l, const struct line *by, const char *how,
		      void (*tell)(void *arg, const char *text), void *arg)
{
	char where[1100], other[1100], text[TEXT_MAX], all[4 * TEXT_MAX];

	if (!tell)
		return;
	(void)snprintf(all, sizeof(all), "%s: '%s' %s %s",
		       policy_origin_where(&l->origin, where, sizeof(where)), line_text(l, text),
		       how, policy_origin_where(&by->origin, other, sizeof(other)));
	tell(arg, all);
}

static size_t lint_rule(const struct policy *p, struct line *l,
			void (*tell)(void *arg, const char *text), void *arg)
{
	const struct policy_rule *r = &l->u.rule, *o = rule_repeated(p, r);

	if (o) {
		l->repeats = line_of(o);
		tell_pair(l, l->repeats, "says no more than", tell, arg);
		return 1;
	}
	o = l->key != KEY_DENY ? rule_dead(p, r) : NULL;
	if (!o)
		return 0;
	l->dead_by = line_of(o);
	tell_pair(l, l->dead_by,
		  l->key == KEY_ASK ? "never applies: it is denied by"
				    : "never applies: deny beats allow, and it is denied by",
		  tell, arg);
	return 1;
}

/* The same setting said twice in one file: only the later one counts. */
static size_t lint_setting(const struct policy *p, struct line *l,
			   void (*tell)(void *arg, const char *text), void *arg)
{
	for (const struct line *o = l->next; o; o = o->next) {
		if (o->key != l->key || o->u.set.what != l->u.set.what || o->locked_by ||
		    !str_eq(o->origin.file, l->origin.file))
			continue;
		tell_pair(l, o, "does not count: the same setting again in", tell, arg);
		return 1;
	}
	(void)p;
	return 0;
}

static size_t lint_grant(const struct policy *p, struct line *l,
			 void (*tell)(void *arg, const char *text), void *arg)
{
	size_t n = 0;

	for (const struct policy_grant *g = p->grants; g && g != &l->u.grant && n < CHAIN_MAX;
	     g = g->next, n++) {
		if (g->kind != l->u.grant.kind || g->force != l->u.grant.force ||
		    g->strict != l->u.grant.strict || !str_eq(g->path, l->u.grant.path))
			continue;
		l->repeats =
			(const struct line *)((const char *)g - offsetof(struct line, u.grant));
		tell_pair(l, l->repeats, "says no more than", tell, arg);
		return 1;
	}
	return 0;
}

size_t policy_lint(struct policy *p, void (*tell)(void *arg, const char *text), void *arg)
{
	size_t n = 0;

	assert(p->sealed);
	for (size_t k = LAYER_ADMIN; k < LAYER_COUNT; k++)
		for (struct line *l = p->lines[k].first; l; l = l->next) {
			if (l->locked_by || l->from)
				continue;
			switch (l->key) {
			case KEY_ALLOW:
			case KEY_DENY:
			case KEY_ASK:
				n += lint_rule(p, l, tell, arg);
				break;
			case KEY_READ:
			case KEY_WRITE:
			case KEY_HIDE:
			case KEY_SOCKET:
			case KEY_DEVICE:
				n += lint_grant(p, l, tell, arg);
				break;
			case KEY_NETWORK:
			case KEY_LIMIT:
			case KEY_ASK_TIMEOUT:
			case KEY_AUDIT:
			case KEY_ON_UNAVAILABLE:
			case KEY_ROUTE:
			case KEY_UPSTREAM:
			case KEY_VIEW:
			case KEY_HOME:
			case KEY_NESTED:
			case KEY_CACHE:
				n += lint_setting(p, l, tell, arg);
				break;
			case KEY_ENV:
			case KEY_DOTFILE:
			case KEY_PUBLISH:
			case KEY_REACH:
			case KEY_INCLUDE:
			case KEY_LOCK:
			case KEY_COUNT:
				break;
			}
		}
	return n;
}
