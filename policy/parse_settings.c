/* SPDX-License-Identifier: ISC */
/* policy/parse_settings.c - the keywords with one value each, of which the last one counts: network,
 * route, limit, audit and their like, and what they take for a number. */
#include "policy/parser.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "common/err.h"
#include "common/num.h"
#include "common/scope.h"

/* ---- settings ---- */

static int set_to(struct line *l, enum setting what, unsigned number)
{
	l->u.set.what = what;
	l->u.set.number = number;
	return 0;
}

static int set_choice(struct parser *ps, struct line *l, enum setting what,
		      const char *const *words, const char *expected)
{
	int r = parser_words(ps, 2, 2, expected);

	if (r < 0)
		return r;
	r = parser_choose(ps, 1, words, expected);
	if (r < 0)
		return r;
	l->u.set.word = words[r];
	return set_to(l, what, (unsigned)r);
}

int parse_network(struct parser *ps, struct line *l)
{
	static const char *const words[] = { [NETWORK_DENY] = "deny",
					     [NETWORK_ALLOWLIST] = "allowlist",
					     [NETWORK_ALLOW] = "allow",
					     NULL };

	if (ps->at.layer == LAYER_PROJECT && ps->n > 1 && str_eq(ps->w[1].s, words[NETWORK_ALLOW]))
		return place_error(
			&ps->at, ps->w[1].column, ps->e,
			"'allow': a project's file may not take the network's bounds away");
	return set_choice(ps, l, SET_NETWORK, words, "deny, allowlist or allow");
}

int parse_route(struct parser *ps, struct line *l)
{
	static const char *const words[] = { [ROUTE_PROXY] = "proxy",
					     [ROUTE_TRANSPARENT] = "transparent",
					     [ROUTE_BOTH] = "both",
					     NULL };

	return set_choice(ps, l, SET_ROUTE, words, "proxy, transparent or both");
}

int parse_view(struct parser *ps, struct line *l)
{
	static const char *const words[] = {
		[VIEW_PROJECT] = "project", [VIEW_HOST] = "host", NULL
	};

	if (ps->at.layer == LAYER_PROJECT && ps->n > 1 && str_eq(ps->w[1].s, words[VIEW_HOST]))
		return place_error(&ps->at, ps->w[1].column, ps->e,
				   "'host': a project's file may not show more of the machine");
	return set_choice(ps, l, SET_VIEW, words, "project or host");
}

int parse_home(struct parser *ps, struct line *l)
{
	static const char *const words[] = {
		[HOME_PRIVATE] = "private", [HOME_KEEP] = "keep", NULL
	};

	return set_choice(ps, l, SET_HOME, words, "private or keep");
}

int parse_cache(struct parser *ps, struct line *l)
{
	static const char *const words[] = { [CACHE_KEEP] = "keep", [CACHE_OFF] = "off", NULL };

	return set_choice(ps, l, SET_CACHE, words, "keep or off");
}

int parse_nested(struct parser *ps, struct line *l)
{
	static const char *const words[] = { "no", "yes", NULL };

	return set_choice(ps, l, SET_NESTED, words, "yes or no");
}

int parse_unavailable(struct parser *ps, struct line *l)
{
	static const char *const words[] = { [UNAVAILABLE_ERROR] = "error",
					     [UNAVAILABLE_WARN] = "warn",
					     [UNAVAILABLE_ALLOW] = "allow",
					     NULL };

	if (ps->at.layer == LAYER_PROJECT)
		return place_error(&ps->at, ps->w[0].column, ps->e,
				   "'%s' may not stand in a project's file", ps->w[0].s);
	return set_choice(ps, l, SET_ON_UNAVAILABLE, words, "error, warn or allow");
}

/* "512M", "2G", "1T": mebibytes. Return: 0, or -EINVAL */
static int size_mib(const struct word *w, uint64_t *mib)
{
	static const char units[] = "MGT";
	const char *unit = w->len > 1 ? strchr(units, w->s[w->len - 1]) : NULL;
	uint64_t n;

	if (!unit || !*unit || num_u64_n(w->s, w->len - 1, 1, 1 << 20, &n) < 0)
		return str_eq(w->s, "0") ? (*mib = 0, 0) : -EINVAL;
	*mib = n << (10 * (unit - units));
	return *mib <= UINT_MAX ? 0 : -EINVAL;
}

/* "2", "0.5", "1.25": hundredths of a processor. Return: 0, or -EINVAL */
static int cpu_percent(const struct word *w, uint64_t *percent)
{
	size_t whole = strcspn(w->s, "."), part = w->len > whole ? w->len - whole - 1 : 0;
	uint64_t n, tenths = 0;

	if (num_u64_n(w->s, whole, 0, 4096, &n) < 0 || (w->len > whole && part == 0) || part > 2)
		return -EINVAL;
	for (size_t i = 0; i < 2; i++) {
		char c = i < part ? w->s[whole + 1 + i] : '0';

		if (c < '0' || c > '9')
			return -EINVAL;
		tenths = tenths * 10 + (uint64_t)(c - '0');
	}
	*percent = n * 100 + tenths;
	return 0;
}

static int limit_value(const struct word *w, enum setting what, uint64_t *v)
{
	if (what == SET_MEMORY)
		return size_mib(w, v);
	if (what == SET_CPU)
		return cpu_percent(w, v);
	if (what == SET_CONNECTIONS)
		return num_u64(w->s, 1, 65536, v);
	return num_u64(w->s, 0, what == SET_IDLE ? 604800 : 4194304 /* PID_MAX_LIMIT */, v);
}

int parse_limit(struct parser *ps, struct line *l)
{
	static const char *const words[] = { "connections", "idle", "pids", "memory", "cpu", NULL };
	static const struct {
		enum setting what;
		const char *expected;
	} values[] = {
		{ SET_CONNECTIONS, "a number of connections from 1 to 65536" },
		{ SET_IDLE, "a number of seconds from 1 to 604800, or 0 for no limit" },
		{ SET_PIDS, "a number of processes from 1 to 4194304, or 0 for no limit" },
		{ SET_MEMORY, "a size such as 512M or 2G, or 0 for no limit" },
		{ SET_CPU, "a number of processors such as 2 or 0.5, or 0 for no limit" },
	};
	static const char expected[] = "connections, idle, pids, memory or cpu, and a number";
	uint64_t v = 0;
	int r = parser_words(ps, 2, 3, expected);

	if (r < 0 || (r = parser_choose(ps, 1, words, expected)) < 0)
		return r;
	if (parser_words(ps, 3, 3, values[r].expected) < 0)
		return -EINVAL;
	if (limit_value(&ps->w[2], values[r].what, &v) < 0)
		return parser_say(ps, 2, values[r].expected);
	return set_to(l, values[r].what, (unsigned)v);
}

int parse_ask_timeout(struct parser *ps, struct line *l)
{
	uint64_t v = 0;
	int r = parser_words(ps, 2, 2, "a number of seconds from 1 to 3600");

	if (r < 0)
		return r;
	if (num_u64(ps->w[1].s, 1, 3600, &v) < 0)
		return parser_say(ps, 1, "a number of seconds from 1 to 3600");
	return set_to(l, SET_ASK_TIMEOUT, (unsigned)v);
}

/* A word that is meant as a path shows it; any other is a typing error, not a file of that name. */
static bool looks_like_path(const char *s)
{
	return strpbrk(s, "/.") || *s == '~' || *s == '$';
}

static int parse_audit_file(struct parser *ps, struct line *l)
{
	char *path = NULL;
	int r = parser_path(ps, 1, &path);

	if (r == 0)
		return parser_say(ps, 1, "a path whose variable is set");
	if (r < 0)
		return r;
	l->u.set.word = path;
	return set_to(l, SET_AUDIT_SINK, AUDIT_FILE);
}

int parse_audit(struct parser *ps, struct line *l)
{
	static const char *const words[] = { "off",	 "syslog", "journal",  "required",
					     "optional", "client", "noclient", NULL };
	static const enum policy_audit_sink sinks[] = { AUDIT_OFF, AUDIT_SYSLOG, AUDIT_JOURNAL };
	static const char expected[] =
		"off, syslog, journal, required, optional, client, noclient or the path of a file";
	int r = parser_words(ps, 2, 2, expected);

	if (r < 0)
		return r;
	if (looks_like_path(ps->w[1].s))
		return parse_audit_file(ps, l);
	r = parser_choose(ps, 1, words, expected);
	if (r < 0)
		return r;
	l->u.set.word = words[r];
	if (r < (int)ARRAY_LEN(sinks))
		return set_to(l, SET_AUDIT_SINK, sinks[r]);
	if (r < (int)ARRAY_LEN(sinks) + 2)
		return set_to(l, SET_AUDIT_REQUIRED, r == ARRAY_LEN(sinks));
	return set_to(l, SET_AUDIT_CLIENT, str_eq(words[r], "client"));
}

int parse_upstream(struct parser *ps, struct line *l)
{
	int r = upstream_parse(ps->p, &ps->at, ps->w, ps->n, &l->u.set.upstream, ps->e);

	if (r < 0)
		return r;
	l->origin.text = upstream_redact(&ps->p->arena, l->origin.text);
	return l->origin.text ? set_to(l, SET_UPSTREAM, l->u.set.upstream->host != NULL) : -ENOMEM;
}

int parse_forward(struct parser *ps, struct line *l)
{
	struct policy_forward *f = &l->u.forward;

	f->kind = l->key == KEY_REACH ? FORWARD_REACH : FORWARD_PUBLISH;
	f->rule = (struct policy_rule){ .verdict = POLICY_ALLOW, .origin = &l->origin };
	return forward_parse(&ps->at, ps->w, ps->n, f, ps->e);
}
