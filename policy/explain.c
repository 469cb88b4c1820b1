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

const char *policy_rule_where(const struct policy_rule *r, char *buf, size_t room)
{
	char file[QUOTE_MAX + 1];

	(void)escape_line(file, sizeof(file), r->origin->file, strlen(r->origin->file));
	if (room == 0)
		return buf;
	if (r->origin->line == 0)
		(void)snprintf(buf, room, "%s", file);
	else
		(void)snprintf(buf, room, "%s:%u", file, r->origin->line);
	return buf;
}

/* HOST:PORT as it is typed */
static const char *place_text(const struct target *t, char buf[PLACE_MAX])
{
	bool six = t->is_addr && t->addr.family == 6;

	(void)snprintf(buf, PLACE_MAX, "%s%s%s:%u", six ? "[" : "", t->host, six ? "]" : "",
		       t->port);
	return buf;
}

static const char *what_happened(enum reason reason)
{
	switch (reason) {
	case REASON_NO_RULE:
		return "is not allowed";
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

/* A name needs "private" on its own rule, and an address rule beside it where that is not enough. */
static size_t private_line(char *buf, size_t room, size_t n, const struct target *t,
			   const struct addr *addr)
{
	char place[PLACE_MAX], text[ADDR_TEXT_MAX];
	enum addr_class class = addr ? addr_class_of(addr) : ADDR_PRIVATE;
	bool six = addr && addr->family == 6;

	(void)place_text(t, place);
	if (t->is_addr)
		return text_add(buf, room, n, "to allow it: weir run --allow %s ...\n", place);
	if (addr_class_is_private(class) || class == ADDR_PUBLIC)
		return text_add(buf, room, n, "to allow it: weir run --allow '%s private' ...\n",
				place);
	return text_add(buf, room, n, "to allow it: weir run --allow %s --allow %s%s%s:%u ...\n",
			place, six ? "[" : "", addr_format(addr, text), six ? "]" : "", t->port);
}

static size_t remedy_line(char *buf, size_t room, size_t n, const struct target *t,
			  enum reason reason, const struct policy_rule *r, const struct addr *addr)
{
	char place[PLACE_MAX];

	switch (reason_status(reason)) {
	case 403:
		break;
	case 503:
		return text_add(buf, room, n, "try again later\n");
	default:
		return text_add(buf, room, n,
				"the policy is not the cause: look at the host or the network\n");
	}
	if (reason == REASON_PRIVATE_ADDRESS)
		return private_line(buf, room, n, t, addr);
	if (reason == REASON_DENIED)
		return text_add(buf, room, n,
				"to allow it: take out the rule%s%s; no allow rule outweighs it\n",
				r && r->origin->line == 0 ? " given as " : "",
				r && r->origin->line == 0 ? r->origin->file : "");
	return text_add(buf, room, n, "to allow it: weir run --allow %s ...\n",
			place_text(t, place));
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

size_t policy_refusal(const struct target *t, enum reason reason, const struct policy_rule *rule,
		      const struct addr *addr, char *buf, size_t room)
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
	return remedy_line(buf, room, n, t, reason, rule, addr);
}
