/* SPDX-License-Identifier: ISC */
/* policy/explain.c - the three lines of a refusal: what happened, which rule, what to type.
 * They go to the sandboxed program, the terminal and the audit alike, so whatever a file name or a
 * rule's text holds is escaped and cut here. */
#include "policy/policy.h"

#include <stdio.h>
#include <string.h>

#include "common/escape.h"
#include "policy/internal.h"
#include "policy/target.h"

#define QUOTE_MAX 240 /* bytes of a rule or file name in a refusal */
#define PLACE_MAX (HOST_MAX + 16)
#define REMEDY_MAX 120 /* bytes of a rule that a person can be asked to type */

const char *policy_origin_where(const struct policy_origin *o, char *buf, size_t room)
{
	char file[QUOTE_MAX + 1];

	(void)escape_line(file, sizeof(file), o->file, strlen(o->file));
	if (room == 0)
		return buf;
	if (o->line == 0 || (o->layer == LAYER_BUILTIN && strcmp(o->file, "builtin") == 0))
		(void)snprintf(buf, room, "%s", file);
	else
		(void)snprintf(buf, room, "%s:%u", file, o->line);
	return buf;
}

const char *policy_rule_where(const struct policy_rule *r, char *buf, size_t room)
{
	return policy_origin_where(r->origin, buf, room);
}

/* HOST:PORT as it is typed; port 0: a name that was looked up and no more */
static const char *place_text(const struct target *t, char buf[PLACE_MAX])
{
	bool six = t->is_addr && t->addr.family == 6;

	if (t->port == 0)
		(void)snprintf(buf, PLACE_MAX, "%s", t->host);
	else
		(void)snprintf(buf, PLACE_MAX, "%s%s%s:%u", six ? "[" : "", t->host, six ? "]" : "",
			       t->port);
	return buf;
}

static const char *what_happened(enum reason reason)
{
	switch (reason) {
	case REASON_NO_RULE:
		return "is not allowed";
	case REASON_ASK:
		return "is only allowed when a person says so";
	case REASON_DECLINED:
		return "is not allowed: a person was asked and said no";
	case REASON_UNANSWERED:
		return "is not allowed: a person was to be asked, and nobody answered";
	case REASON_DENIED:
		return "is denied";
	case REASON_PORT:
		return "is not allowed on this port";
	case REASON_PRIVATE_ADDRESS:
		return "leads only to addresses that are not public";
	case REASON_AUDIT_UNAVAILABLE:
		return "was not tried: the audit log cannot be written and the policy requires it";
	case REASON_CONNECTION_LIMIT:
		return "was not tried: too many connections are open";
	case REASON_DNS_ERROR:
		return "was not reached: its name does not resolve";
	case REASON_DNS_TIMEOUT:
		return "was not reached: no answer about its name in time";
	case REASON_CONNECT_REFUSED:
		return "was not reached: connection refused";
	case REASON_CONNECT_UNREACHABLE:
		return "was not reached: no route to it";
	case REASON_CONNECT_TIMEOUT:
		return "was not reached: no answer in time";
	case REASON_UPSTREAM:
		return "was not reached: the upstream proxy refused";
	case REASON_CUT:
		return "was cut: the policy changed";
	case REASON_NONE:
	case REASON_RULE:
	case REASON_APPROVED:
	case REASON_BAD_NAME:
	case REASON_BAD_REQUEST:
	case REASON_ORIGIN_FORM:
	case REASON_HEAD_TIMEOUT:
	case REASON_HEAD_TOO_LARGE:
	case REASON_PROXY_AUTH:
	case REASON_CONNECT_FAILED:
	case REASON_BAD_RESPONSE:
	case REASON_NOT_TLS:
	case REASON_SNI_MISMATCH:
	case REASON_CLOSED:
	case REASON_CLIENT_GONE:
	case REASON_CLIENT_RESET:
	case REASON_ORIGIN_RESET:
	case REASON_IDLE:
	case REASON_SHUTDOWN:
	case REASON_WORKER_DIED:
	case REASON_INTERNAL:
	case REASON_COUNT:
		break;
	}
	return "was not reached";
}

/* Which rule */
static size_t rule_line(char *buf, size_t room, size_t n, enum reason reason,
			const struct policy_rule *r)
{
	char where[QUOTE_MAX + 16], text[QUOTE_MAX + 1];

	if (!r)
		return text_add(buf, room, n, "no rule of the policy matches\n");
	(void)policy_rule_where(r, where, sizeof(where));
	(void)escape_line(text, sizeof(text), r->origin->text, strlen(r->origin->text));
	n = text_add(buf, room, n, "%s: %s", where, text);
	if (reason == REASON_PORT)
		n = text_add(buf, room, n, " (other ports)");
	if (reason == REASON_PRIVATE_ADDRESS)
		n = text_add(buf, room, n, " (does not cover such an address)");
	return text_add(buf, room, n, "\n");
}

/* What the shell must not read itself stands in quotes. */
static const char *quote(const char *word)
{
	return strpbrk(word, "*[]? ") ? "'" : "";
}

/* The command that adds allow lines, where the user's file counts; else the options that stand for
 * them. @second may be NULL */
static size_t allow_line(char *buf, size_t room, size_t n, const struct policy *p,
			 const char *first, const char *second)
{
	const char *one = quote(first), *two = second ? quote(second) : "";

	if (p && p->no_user_file)
		return text_add(buf, room, n, "to allow it: weir run --allow %s%s%s%s%s%s%s ...\n",
				one, first, one, second ? " --allow " : "", two,
				second ? second : "", two);
	return text_add(buf, room, n, "to allow it: weir allow %s%s%s%s%s%s%s\n", one, first, one,
			second ? " " : "", two, second ? second : "", two);
}

/* A name needs "private" on its own rule, and an address rule beside it where that is not enough. */
static size_t private_line(char *buf, size_t room, size_t n, const struct policy *p,
			   const struct target *t, const struct addr *addr)
{
	char place[PLACE_MAX], text[ADDR_TEXT_MAX], other[PLACE_MAX], words[PLACE_MAX + 16];
	enum addr_class class = addr ? addr_class_of(addr) : ADDR_PRIVATE;
	bool six = addr && addr->family == 6;

	(void)place_text(t, place);
	if (t->is_addr)
		return allow_line(buf, room, n, p, place, NULL);
	if (addr_class_is_private(class) || class == ADDR_PUBLIC) {
		(void)snprintf(words, sizeof(words), "%s private", place);
		return allow_line(buf, room, n, p, words, NULL);
	}
	(void)snprintf(other, sizeof(other), "%s%s%s:%u", six ? "[" : "", addr_format(addr, text),
		       six ? "]" : "", t->port);
	return allow_line(buf, room, n, p, place, other);
}

/* No allow line outweighs a deny line: it has to go, and whose it is says how. */
static size_t denied_line(char *buf, size_t room, size_t n, const struct policy_rule *r)
{
	char name[PATTERN_TEXT_MAX], ports[PORTS_TEXT_MAX], what[PATTERN_TEXT_MAX + PORTS_TEXT_MAX];
	const char *q;

	if (!r)
		return text_add(buf, room, n, "to allow it: take out the rule that denies it\n");
	(void)snprintf(what, sizeof(what), "%s%s", pattern_format(r->pattern, name),
		       pattern_ports_format(r->pattern, r->verdict, ports));
	q = quote(what);
	if (r->origin->layer == LAYER_USER && strlen(what) <= REMEDY_MAX)
		return text_add(buf, room, n, "to allow it: weir forget %s%s%s\n", q, what, q);
	if (r->origin->layer == LAYER_FLAG && strlen(what) <= REMEDY_MAX)
		return text_add(buf, room, n,
				"to allow it: leave %s %s out; no allow rule outweighs it\n",
				r->origin->file, what);
	return text_add(buf, room, n,
			"to allow it: take out the rule; no allow rule outweighs it\n");
}

/* A plain rule would not do: the name means this machine, or its rule for other ports is private. */
static bool wants_private(const struct target *t, const struct policy_rule *r)
{
	return !t->is_addr && (target_is_localhost(t) || (r && r->is_private));
}

static size_t remedy_line(char *buf, size_t room, size_t n, const struct policy *p,
			  const struct target *t, enum reason reason, const struct policy_rule *r,
			  const struct addr *addr)
{
	const struct policy_origin *lock = p ? policy_locked(p, "allow") : NULL;
	char place[PLACE_MAX], words[PLACE_MAX + 16], where[QUOTE_MAX + 16];

	switch (reason_status(reason)) {
	case 403:
		break;
	case 503:
		return text_add(buf, room, n, "try again later\n");
	default:
		return text_add(buf, room, n,
				"the policy is not the cause: look at the host or the network\n");
	}
	if (reason == REASON_DENIED)
		return denied_line(buf, room, n, r);
	if (lock)
		return text_add(buf, room, n, "only the administrator can allow it: locked by %s\n",
				policy_origin_where(lock, where, sizeof(where)));
	if (reason == REASON_PRIVATE_ADDRESS)
		return private_line(buf, room, n, p, t, addr);
	(void)snprintf(words, sizeof(words), "%s%s", place_text(t, place),
		       wants_private(t, r) ? " private" : "");
	return allow_line(buf, room, n, p, words, NULL);
}

/* No target came of what was asked for */
static size_t bad_name(char *buf, size_t room)
{
	return text_add(
		buf, room, 0,
		"this is not a host name or address that weir takes\n"
		"no rule of the policy was asked\n"
		"write the host as it is known in DNS, or an address in its usual spelling\n");
}

size_t policy_refusal(const struct policy *p, const struct target *t, enum reason reason,
		      const struct policy_rule *rule, const struct addr *addr, char *buf,
		      size_t room)
{
	char place[PLACE_MAX], text[ADDR_TEXT_MAX];
	size_t n = 0;

	if (!t || reason == REASON_BAD_NAME)
		return bad_name(buf, room);
	n = text_add(buf, room, n, "weir: %s %s", place_text(t, place), what_happened(reason));
	if (addr && !t->is_addr && (reason == REASON_PRIVATE_ADDRESS || reason == REASON_DENIED))
		n = text_add(buf, room, n, " (%s: %s)", addr_format(addr, text),
			     addr_class_name(addr_class_of(addr)));
	n = text_add(buf, room, n, "\n");
	n = rule_line(buf, room, n, reason, rule);
	return remedy_line(buf, room, n, p, t, reason, rule, addr);
}

/* Under network deny and allow no rule counts, whatever it says. */
static size_t network_line(char *buf, size_t room, const struct policy *p)
{
	const struct policy_origin *o = &p->set[SET_NETWORK]->origin;
	char where[QUOTE_MAX + 16];

	(void)policy_origin_where(o, where, sizeof(where));
	if (o->layer == LAYER_FLAG)
		return text_add(buf, room, 0,
				"to change it: leave %s out; rules count under "
				"'network allowlist' alone",
				where);
	return text_add(buf, room, 0,
			"to change it: %s: '%s' has to say 'network allowlist'; no "
			"rule counts before",
			where, o->text);
}

size_t policy_change(const struct policy *p, const struct target *t, enum reason reason,
		     const struct policy_rule *rule, const struct addr *addr, char *buf,
		     size_t room)
{
	const struct policy_origin *lock = policy_locked(p, "deny");
	char place[PLACE_MAX], where[QUOTE_MAX + 16];
	const char *q = quote(place_text(t, place));
	size_t n;

	if (!buf || room == 0)
		return 0;
	*buf = '\0';
	if (policy_network(p) != NETWORK_ALLOWLIST)
		return network_line(buf, room, p);
	if (reason == REASON_RULE || reason == REASON_NONE) {
		if (lock)
			return text_add(buf, room, 0, "the administrator locks deny: %s",
					policy_origin_where(lock, where, sizeof(where)));
		if (p->no_user_file)
			return text_add(buf, room, 0, "to deny it: weir run --deny %s%s%s ...", q,
					place, q);
		return text_add(buf, room, 0, "to deny it: weir deny %s%s%s", q, place, q);
	}
	n = remedy_line(buf, room, 0, p, t, reason, rule, addr);
	if (n > 0 && buf[n - 1] == '\n')
		buf[--n] = '\0';
	return n;
}
