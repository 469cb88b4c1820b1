/* SPDX-License-Identifier: ISC */
/* broker/cli/why.c - explain one verdict with the functions that give it: policy_match() and
 * policy_judge_addr(), as the monitor calls them. No query leaves for a name that is denied unless
 * it was asked for. */
#include "broker/cli/why.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "broker/cli/resolve.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/netlink.h"
#include "common/reason.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "policy/target.h"

#define SAID_MAX 64
#define OWN_MAX 1024
#define WHERE_MAX 600

/** struct found - one address and whether it may be dialled */
struct found {
	struct addr addr;
	bool own;
	enum reason reason; /* REASON_NONE: it may */
	const struct policy_rule *by;
};

struct why {
	const struct policy *p;
	struct target t;
	struct policy_match match;
	struct policy_said said[SAID_MAX];
	size_t nsaid;
	struct found addr[RESOLVE_MAX];
	size_t naddr;
	bool asked, hosts;  /* addresses were looked for; the hosts file knew them */
	struct err trouble; /* why there are none */
	/* the outcome, addresses included */
	enum reason reason;
	const struct policy_rule *rule;
	const struct addr *about;
	char change[1024];
};

static const char *const standings[] = { [SAID_DECIDES] = "decides",
					 [SAID_BEATEN] = "beaten",
					 [SAID_OTHER_PORT] = "other ports",
					 [SAID_LOCKED] = "locked" };

/* ---- finding out ---- */

static void addresses_find(struct why *w)
{
	struct addr a[RESOLVE_MAX], own[OWN_MAX];
	int n = 1, nown = netlink_own_addrs(own, OWN_MAX);

	w->asked = true;
	a[0] = w->t.addr;
	if (!w->t.is_addr)
		n = resolve_name(w->t.host, a, &w->hosts, &w->trouble);
	for (int i = 0; i < n; i++) {
		struct found *f = &w->addr[w->naddr++];

		f->addr = a[i];
		for (int k = 0; k < nown && k < OWN_MAX; k++)
			f->own |= addr_eq(&own[k], &a[i]);
		f->by = w->match.rule;
		f->reason = policy_judge_addr(w->p, &w->t, &w->match, &f->addr, f->own, &f->by);
	}
}

/* As the monitor does: one address that may be dialled is enough, then one that is asked about; else
 * the first one says why not. */
static void outcome(struct why *w)
{
	const struct found *f = NULL;

	w->reason = w->match.reason;
	w->rule = w->match.rule;
	if (w->match.verdict == POLICY_DENY || w->naddr == 0)
		return;
	for (size_t i = 0; i < w->naddr; i++)
		if (w->addr[i].reason == REASON_NONE)
			return;
	for (size_t i = 0; i < w->naddr && !f; i++)
		if (w->addr[i].reason == REASON_ASK)
			f = &w->addr[i];
	if (!f)
		f = &w->addr[0];
	w->reason = f->reason;
	w->rule = f->by;
	w->about = &f->addr;
}

static int find(struct why *w, const char *typed, bool resolve, struct err *e)
{
	int r = policy_target_parse(typed, &w->t, e);

	if (r < 0)
		return r;
	policy_match(w->p, &w->t, &w->match);
	w->nsaid = policy_matching(w->p, &w->t, w->said, SAID_MAX);
	if (w->match.verdict != POLICY_DENY || resolve)
		addresses_find(w);
	outcome(w);
	(void)policy_change(w->p, &w->t, w->reason, w->rule, w->about, w->change,
			    sizeof(w->change));
	return 0;
}

static const char *network_word(const struct policy *p)
{
	static const char *const words[] = { [NETWORK_DENY] = "deny",
					     [NETWORK_ALLOWLIST] = "allowlist",
					     [NETWORK_ALLOW] = "allow" };

	return words[policy_network(p)];
}

static const char *verdict_word(const struct why *w)
{
	return w->reason == REASON_RULE ? "allow" : w->reason == REASON_ASK ? "ask" : "deny";
}

/* ---- text ---- */

static void print_rule(const char *front, const struct policy_rule *r, const char *behind)
{
	char where[WHERE_MAX], text[1024];

	(void)escape_line(text, sizeof(text), r->origin->text, strlen(r->origin->text));
	(void)printf("  %-10s %s: %s%s%s\n", front, policy_rule_where(r, where, sizeof(where)),
		     text, *behind ? ", " : "", behind);
}

static const char *how_beaten(const struct why *w, const struct policy_rule *r)
{
	enum policy_verdict by = w->match.rule ? w->match.rule->verdict : r->verdict;

	if (by != r->verdict)
		return by == POLICY_ALLOW	  ? "allow beats ask"
		       : r->verdict == POLICY_ASK ? "deny beats ask"
						  : "deny beats allow";
	return r->is_private ? "less specific; its 'private' counts" : "less specific";
}

static const char *what_of(const struct why *w, const struct found *f)
{
	if (w->match.verdict == POLICY_DENY)
		return "";
	if (f->reason == REASON_ASK)
		return ": asked about";
	if (f->reason != REASON_NONE)
		return ": refused";
	return w->match.verdict == POLICY_ASK ? ": may be dialled when it is allowed"
					      : ": may be dialled";
}

static void print_said(const struct why *w)
{
	for (size_t i = 0; i < w->nsaid; i++) {
		const struct policy_said *s = &w->said[i];
		char where[WHERE_MAX], note[WHERE_MAX + 64];

		switch (s->standing) {
		case SAID_DECIDES:
			continue;
		case SAID_BEATEN:
			print_rule("beats", s->rule, how_beaten(w, s->rule));
			break;
		case SAID_OTHER_PORT:
			print_rule("not", s->rule, "other ports");
			break;
		case SAID_LOCKED:
			(void)snprintf(note, sizeof(note), "locked by %s",
				       policy_origin_where(s->lock, where, sizeof(where)));
			print_rule("struck", s->rule, note);
			break;
		}
	}
}

static void print_addresses(const struct why *w)
{
	for (size_t i = 0; i < w->naddr; i++) {
		const struct found *f = &w->addr[i];
		char text[ADDR_TEXT_MAX], where[WHERE_MAX];

		(void)printf("  %-10s %s, %s%s%s", i == 0 ? "addresses" : "",
			     addr_format(&f->addr, text),
			     f->own ? "this machine's own"
				    : addr_class_name(addr_class_of(&f->addr)),
			     w->hosts ? ", from /etc/hosts" : "", what_of(w, f));
		if ((f->reason == REASON_DENIED || f->reason == REASON_ASK) && f->by &&
		    w->match.verdict != POLICY_DENY)
			(void)printf(" by %s", policy_rule_where(f->by, where, sizeof(where)));
		(void)putchar('\n');
	}
	if (w->asked && w->naddr == 0)
		(void)printf("  %-10s none: %s\n", "addresses", w->trouble.what);
}

static void print_text(const struct why *w)
{
	bool six = w->t.is_addr && w->t.addr.family == 6;

	(void)printf("%s%s%s:%u: %s (%s)\n", six ? "[" : "", w->t.host, six ? "]" : "", w->t.port,
		     verdict_word(w), reason_name(w->reason));
	if (policy_network(w->p) != NETWORK_ALLOWLIST)
		(void)printf("  %-10s the network state is %s: %s\n", "but", network_word(w->p),
			     policy_network(w->p) == NETWORK_DENY
				     ? "nothing is reached, whatever the rules say"
				     : "everything is reached, whatever the rules say");
	if (w->match.rule && w->match.reason != REASON_PORT)
		print_rule("rule", w->match.rule, "");
	else
		(void)printf("  %-10s none matches\n", "rule");
	print_said(w);
	print_addresses(w);
	(void)printf("  %s\n", w->change);
}

/* ---- JSON ---- */

static json_t *json_text(const char *s)
{
	char text[4096];
	json_t *j = json_string(s);

	if (j)
		return j;
	(void)escape_line(text, sizeof(text), s, strlen(s));
	return json_string(text);
}

static json_t *json_rule(const struct policy_rule *r)
{
	if (!r)
		return json_null();
	return json_pack("{s:o,s:i,s:o,s:s}", "file", json_text(r->origin->file), "line",
			 (int)r->origin->line, "text", json_text(r->origin->text), "layer",
			 policy_layer_name(r->origin->layer));
}

static json_t *json_said(const struct policy_said *s)
{
	json_t *o = json_rule(s->rule);

	(void)json_object_set_new(o, "standing", json_string(standings[s->standing]));
	if (s->lock) {
		(void)json_object_set_new(o, "locked_by", json_text(s->lock->file));
		(void)json_object_set_new(o, "locked_by_line", json_integer(s->lock->line));
	}
	return o;
}

static json_t *json_found(const struct why *w, const struct found *f)
{
	char text[ADDR_TEXT_MAX];
	bool may = f->reason == REASON_NONE;

	return json_pack("{s:s,s:s,s:b,s:b,s:s?,s:o}", "addr", addr_format(&f->addr, text), "class",
			 addr_class_name(f->own ? ADDR_LOOPBACK : addr_class_of(&f->addr)), "own",
			 f->own, "dialled", may, "reason", may ? NULL : reason_name(f->reason),
			 "rule",
			 json_rule((f->reason == REASON_DENIED || f->reason == REASON_ASK) &&
						   w->match.verdict != POLICY_DENY
					   ? f->by
					   : NULL));
}

static int print_json(const struct why *w, struct err *e)
{
	json_t *said = json_array(), *addrs = w->asked ? json_array() : json_null(), *o;
	int r;

	for (size_t i = 0; i < w->nsaid; i++)
		(void)json_array_append_new(said, json_said(&w->said[i]));
	for (size_t i = 0; i < w->naddr; i++)
		(void)json_array_append_new(addrs, json_found(w, &w->addr[i]));
	o = json_pack("{s:s,s:i,s:b,s:s,s:s,s:s,s:o,s:o,s:o,s:s?,s:o,s:s}", "host", w->t.host,
		      "port", (int)w->t.port, "is_address", w->t.is_addr, "network",
		      network_word(w->p), "verdict", verdict_word(w), "reason",
		      reason_name(w->reason), "rule",
		      json_rule(w->reason == REASON_PORT ? NULL : w->rule), "matching", said,
		      "addresses", addrs, "trouble",
		      w->asked && w->naddr == 0 ? w->trouble.what : NULL, "private",
		      json_boolean(w->match.is_private), "change", w->change);
	if (!o)
		return err_set(e, ENOMEM, "policy why");
	r = json_dumpf(o, stdout, JSON_INDENT(2));
	json_decref(o);
	(void)putchar('\n');
	return r < 0 ? err_set(e, errno, "write to standard output") : 0;
}

int why_print(const struct policy *p, const char *typed, bool json, bool resolve, struct err *e)
{
	struct why *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return err_set(e, ENOMEM, "policy why");
	w->p = p;
	r = find(w, typed, resolve, e);
	if (r == 0 && json)
		r = print_json(w, e);
	else if (r == 0)
		print_text(w);
	free(w);
	return r;
}
