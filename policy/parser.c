/* SPDX-License-Identifier: ISC */
/* policy/parser.c - words to lines: one function a keyword, one table that names them all.
 * Believes nothing about the text. What this version does not enforce is an error by name, never a
 * line that is passed over. Decides nothing between lines: that is merge.c. */
#include "policy/internal.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/err.h"
#include "common/num.h"
#include "common/scope.h"
#include "common/words.h"

struct parser {
	struct policy *p;
	struct place at;
	const struct word *w; /* w[0] is the keyword */
	size_t n;
	struct err *e;
};

static int say(const struct parser *ps, size_t i, const char *expected)
{
	return place_error(&ps->at, ps->w[i].column, ps->e, "'%s': expected %s", ps->w[i].s,
			   expected);
}

static int unsupported(const struct parser *ps, size_t i)
{
	return place_error(&ps->at, ps->w[i].column, ps->e,
			   "'%s' is not supported by this version of weir", ps->w[i].s);
}

/* @words: what stands here, NULL-terminated. Return: the index in @words, or -EINVAL */
static int choose(const struct parser *ps, size_t i, const char *const *words, const char *expected)
{
	const char *near;

	for (int k = 0; words[k]; k++)
		if (str_eq(ps->w[i].s, words[k]))
			return k;
	near = nearest_word(ps->w[i].s, words);
	(void)say(ps, i, expected);
	return near ? err_fix(ps->e, "did you mean '%s'?", near) : -EINVAL;
}

static int words_between(const struct parser *ps, size_t least, size_t most, const char *expected)
{
	if (ps->n < least)
		return place_error(&ps->at, ps->w[ps->n - 1].column, ps->e,
				   "'%s' ends too early: expected %s", ps->w[ps->n - 1].s,
				   expected);
	if (ps->n > most)
		return say(ps, most, "the end of the line");
	return 0;
}

/* ---- rules ---- */

static int suffix_words(struct parser *ps, struct policy_rule *r)
{
	static const char *const words[] = { "private", "no-sni", NULL };

	for (size_t i = 2; i < ps->n; i++) {
		if (r->verdict == POLICY_DENY)
			return say(ps, i, "the end of the line after the target of deny");
		switch (choose(ps, i, words, "private, no-sni or the end of the line")) {
		case 0:
			r->is_private = true;
			break;
		case 1:
			r->no_sni = true;
			break;
		default:
			return -EINVAL;
		}
	}
	return 0;
}

static int parse_rule(struct parser *ps, struct line *l)
{
	struct policy_rule *r = &l->u.rule;
	int err = words_between(ps, 2, POLICY_WORDS_MAX,
				"a target, such as pypi.org or .ebi.ac.uk:443");

	if (err < 0)
		return err;
	r->verdict = l->key == KEY_DENY	 ? POLICY_DENY
		     : l->key == KEY_ASK ? POLICY_ASK
					 : POLICY_ALLOW;
	r->origin = &l->origin;
	err = pattern_parse(&ps->p->arena, &ps->at, &ps->w[1], r->verdict, l->from == NULL,
			    &r->pattern, ps->e);
	return err < 0 ? err : suffix_words(ps, r);
}

static int parse_include(struct parser *ps, struct line *l)
{
	const char *names[32] = { NULL };
	size_t n = 0;
	const char *near;
	int err = words_between(ps, 2, 2, "the name of a preset");

	if (err < 0)
		return err;
	l->u.preset = preset_find(ps->w[1].s);
	if (l->u.preset)
		return 0;
	for (const struct policy_preset *k = policy_presets(); k->name && n + 1 < ARRAY_LEN(names);
	     k++)
		names[n++] = k->name;
	near = nearest_word(ps->w[1].s, names);
	(void)place_error(&ps->at, ps->w[1].column, ps->e,
			  "'%s' is not a preset: weir policy presets lists them", ps->w[1].s);
	return near ? err_fix(ps->e, "did you mean '%s'?", near) : -EINVAL;
}

/* ---- paths ---- */

static bool name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static size_t name_length(const char *s)
{
	size_t n = 0;

	while (name_start(s[n]) || (n > 0 && s[n] >= '0' && s[n] <= '9'))
		n++;
	return n;
}

static const char *env_value(const struct policy_context *c, const char *name, size_t len)
{
	for (char *const *v = c->environ; v && *v; v++)
		if (strncmp(*v, name, len) == 0 && (*v)[len] == '=')
			return *v + len + 1;
	return NULL;
}

/* "$NAME…" and "${NAME}…". Return: 1 with @value and @rest, 0 unset, -EINVAL */
static int variable(struct parser *ps, size_t i, const char **value, const char **rest)
{
	const char *s = ps->w[i].s + 1;
	bool brace = *s == '{';
	size_t n = name_length(s += brace);

	if (n == 0 || (brace && s[n] != '}'))
		return say(ps, i, "$NAME or ${NAME} at the start of a path");
	*value = env_value(&ps->p->ctx, s, n);
	*rest = s + n + brace;
	if (*value && **value)
		return 1;
	if (ps->at.line == 0)
		return place_error(&ps->at, 0, ps->e, "'%s': $%.*s is not set", ps->w[i].s, (int)n,
				   s);
	return 0;
}

/* What stands in front of a relative path. NULL with @e: there is nothing it may be relative to */
static const char *path_base(struct parser *ps, size_t i)
{
	const char *base = ps->at.layer == LAYER_PROJECT ? ps->p->ctx.project : ps->p->ctx.cwd;

	if (ps->at.layer == LAYER_ADMIN || ps->at.layer == LAYER_BUILTIN || !base) {
		(void)say(ps, i, "a path that begins with /, ~ or $NAME");
		return NULL;
	}
	return base;
}

/* Return: 1 with @out absolute, 0 when its variable is unset, or an error */
static int path_word(struct parser *ps, size_t i, char **out)
{
	const char *front = "", *mid = "", *s = ps->w[i].s;
	char path[PATH_MAX];
	int n, r;

	if (*s == '\0')
		return say(ps, i, "a path");
	if (*s == '~') {
		if (s[1] != '\0' && s[1] != '/')
			return say(ps, i, "~ or ~/PATH: the homes of others are not known");
		front = ps->p->ctx.home;
		if (!front)
			return say(ps, i, "a path without ~: your home directory is not known");
		s++;
	} else if (*s == '$') {
		r = variable(ps, i, &front, &s);
		if (r <= 0)
			return r;
	}
	if ((*front ? *front : *s) != '/') {
		mid = front;
		front = path_base(ps, i);
		if (!front)
			return -EINVAL;
		n = snprintf(path, sizeof(path), "%s/%s%s", front, mid, s);
	} else {
		n = snprintf(path, sizeof(path), "%s%s", front, s);
	}
	if (n < 0 || (size_t)n >= sizeof(path))
		return place_error(&ps->at, ps->w[i].column, ps->e,
				   "the path is longer than %u bytes", PATH_MAX - 1);
	*out = arena_str(&ps->p->arena, path, (size_t)n);
	return *out ? 1 : -ENOMEM;
}

static const enum policy_grant_kind grant_kinds[KEY_COUNT] = {
	[KEY_READ] = GRANT_READ,     [KEY_WRITE] = GRANT_WRITE,	  [KEY_HIDE] = GRANT_HIDE,
	[KEY_SOCKET] = GRANT_SOCKET, [KEY_DEVICE] = GRANT_DEVICE,
};

static int parse_grant(struct parser *ps, struct line *l)
{
	struct policy_grant *g = &l->u.grant;
	int r = l->key == KEY_HIDE ? words_between(ps, 2, 3, "a path, then strict or nothing")
				   : words_between(ps, 2, 2, "a path");

	if (r < 0)
		return r;
	if (ps->n == 3 && !str_eq(ps->w[2].s, "strict"))
		return say(ps, 2, "strict, or the end of the line");
	g->strict = ps->n == 3;
	g->kind = grant_kinds[l->key];
	g->force = str_eq(ps->w[0].s, "write!");
	g->origin = &l->origin;
	r = path_word(ps, 1, &g->path);
	if (r < 0)
		return r;
	g->inactive = r == 0;
	if (g->inactive)
		g->path = arena_str(&ps->p->arena, ps->w[1].s, ps->w[1].len);
	return g->path ? 0 : -ENOMEM;
}

static int parse_device(struct parser *ps, struct line *l)
{
	struct policy_grant *g = &l->u.grant;

	if (ps->n != 2 || !str_eq(ps->w[1].s, "gpu"))
		return parse_grant(ps, l);
	g->kind = GRANT_DEVICE;
	g->origin = &l->origin;
	g->path = arena_str(&ps->p->arena, ps->w[1].s, ps->w[1].len);
	return g->path ? 0 : -ENOMEM;
}

/* A name below the home directory: "~/" in front of it says nothing more. */
static int parse_dotfile(struct parser *ps, struct line *l)
{
	static const char expected[] = "a file below the home directory, such as .config/tool.toml";
	struct policy_grant *g = &l->u.grant;
	const char *s;
	int r = words_between(ps, 2, 2, expected);

	if (r < 0)
		return r;
	s = ps->w[1].s;
	if (s[0] == '~' && s[1] == '/')
		s += 2;
	if (*s == '\0' || *s == '/' || *s == '~' || *s == '$')
		return say(ps, 1, expected);
	for (const char *c = s; c; c = strchr(c, '/') ? strchr(c, '/') + 1 : NULL) {
		size_t n = strcspn(c, "/");

		if (n == 0 || (n == 1 && c[0] == '.') || (n == 2 && c[0] == '.' && c[1] == '.'))
			return say(ps, 1, expected);
	}
	g->kind = GRANT_DOTFILE;
	g->origin = &l->origin;
	g->path = arena_str(&ps->p->arena, s, strlen(s));
	return g->path ? 0 : -ENOMEM;
}

/* ---- environment ---- */

static int parse_env(struct parser *ps, struct line *l)
{
	static const char *const words[] = { "keep", "set", NULL };
	struct policy_env *v = &l->u.env;
	const char *s;
	size_t n;
	int r = words_between(ps, 3, 3, "keep NAME or set NAME=VALUE");

	if (r < 0)
		return r;
	r = choose(ps, 1, words, "keep NAME or set NAME=VALUE");
	if (r < 0)
		return r;
	v->set = r == 1;
	v->origin = &l->origin;
	s = ps->w[2].s;
	n = name_length(s);
	if (n == 0 || s[n] != (v->set ? '=' : '\0'))
		return say(ps, 2, v->set ? "NAME=VALUE" : "the name of a variable");
	v->name = arena_str(&ps->p->arena, s, n);
	if (v->set)
		v->value = arena_str(&ps->p->arena, s + n + 1, ps->w[2].len - n - 1);
	return v->name && (v->value || !v->set) ? 0 : -ENOMEM;
}

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
	int r = words_between(ps, 2, 2, expected);

	if (r < 0)
		return r;
	r = choose(ps, 1, words, expected);
	if (r < 0)
		return r;
	l->u.set.word = words[r];
	return set_to(l, what, (unsigned)r);
}

static int parse_network(struct parser *ps, struct line *l)
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

static int parse_route(struct parser *ps, struct line *l)
{
	static const char *const words[] = { [ROUTE_PROXY] = "proxy",
					     [ROUTE_TRANSPARENT] = "transparent",
					     [ROUTE_BOTH] = "both",
					     NULL };

	return set_choice(ps, l, SET_ROUTE, words, "proxy, transparent or both");
}

static int parse_view(struct parser *ps, struct line *l)
{
	static const char *const words[] = {
		[VIEW_PROJECT] = "project", [VIEW_HOST] = "host", NULL
	};

	if (ps->at.layer == LAYER_PROJECT && ps->n > 1 && str_eq(ps->w[1].s, words[VIEW_HOST]))
		return place_error(&ps->at, ps->w[1].column, ps->e,
				   "'host': a project's file may not show more of the machine");
	return set_choice(ps, l, SET_VIEW, words, "project or host");
}

static int parse_home(struct parser *ps, struct line *l)
{
	static const char *const words[] = {
		[HOME_PRIVATE] = "private", [HOME_KEEP] = "keep", NULL
	};

	return set_choice(ps, l, SET_HOME, words, "private or keep");
}

static int parse_cache(struct parser *ps, struct line *l)
{
	static const char *const words[] = { [CACHE_KEEP] = "keep", [CACHE_OFF] = "off", NULL };

	return set_choice(ps, l, SET_CACHE, words, "keep or off");
}

static int parse_nested(struct parser *ps, struct line *l)
{
	static const char *const words[] = { "no", "yes", NULL };

	return set_choice(ps, l, SET_NESTED, words, "yes or no");
}

static int parse_unavailable(struct parser *ps, struct line *l)
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

static int parse_limit(struct parser *ps, struct line *l)
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
	int r = words_between(ps, 2, 3, expected);

	if (r < 0 || (r = choose(ps, 1, words, expected)) < 0)
		return r;
	if (words_between(ps, 3, 3, values[r].expected) < 0)
		return -EINVAL;
	if (limit_value(&ps->w[2], values[r].what, &v) < 0)
		return say(ps, 2, values[r].expected);
	return set_to(l, values[r].what, (unsigned)v);
}

static int parse_ask_timeout(struct parser *ps, struct line *l)
{
	uint64_t v = 0;
	int r = words_between(ps, 2, 2, "a number of seconds from 1 to 3600");

	if (r < 0)
		return r;
	if (num_u64(ps->w[1].s, 1, 3600, &v) < 0)
		return say(ps, 1, "a number of seconds from 1 to 3600");
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
	int r = path_word(ps, 1, &path);

	if (r == 0)
		return say(ps, 1, "a path whose variable is set");
	if (r < 0)
		return r;
	l->u.set.word = path;
	return set_to(l, SET_AUDIT_SINK, AUDIT_FILE);
}

static int parse_audit(struct parser *ps, struct line *l)
{
	static const char *const words[] = { "off",	 "syslog", "journal",  "required",
					     "optional", "client", "noclient", NULL };
	static const enum policy_audit_sink sinks[] = { AUDIT_OFF, AUDIT_SYSLOG, AUDIT_JOURNAL };
	static const char expected[] =
		"off, syslog, journal, required, optional, client, noclient or the path of a file";
	int r = words_between(ps, 2, 2, expected);

	if (r < 0)
		return r;
	if (looks_like_path(ps->w[1].s))
		return parse_audit_file(ps, l);
	r = choose(ps, 1, words, expected);
	if (r < 0)
		return r;
	l->u.set.word = words[r];
	if (r < (int)ARRAY_LEN(sinks))
		return set_to(l, SET_AUDIT_SINK, sinks[r]);
	if (r < (int)ARRAY_LEN(sinks) + 2)
		return set_to(l, SET_AUDIT_REQUIRED, r == ARRAY_LEN(sinks));
	return set_to(l, SET_AUDIT_CLIENT, str_eq(words[r], "client"));
}

static int parse_upstream(struct parser *ps, struct line *l)
{
	int r = upstream_parse(ps->p, &ps->at, ps->w, ps->n, &l->u.set.upstream, ps->e);

	if (r < 0)
		return r;
	l->origin.text = upstream_redact(&ps->p->arena, l->origin.text);
	return l->origin.text ? set_to(l, SET_UPSTREAM, l->u.set.upstream->host != NULL) : -ENOMEM;
}

static int parse_forward(struct parser *ps, struct line *l)
{
	struct policy_forward *f = &l->u.forward;

	f->kind = l->key == KEY_REACH ? FORWARD_REACH : FORWARD_PUBLISH;
	f->rule = (struct policy_rule){ .verdict = POLICY_ALLOW, .origin = &l->origin };
	return forward_parse(&ps->at, ps->w, ps->n, f, ps->e);
}

/* ---- the table ---- */

static int parse_lock(struct parser *ps, struct line *l);

static const struct {
	const char *name;
	int (*parse)(struct parser *ps, struct line *l);
	bool setting; /* "lock K VALUE" makes sense */
} keywords[] = {
	[KEY_ALLOW] = { "allow", parse_rule, false },
	[KEY_DENY] = { "deny", parse_rule, false },
	[KEY_ASK] = { "ask", parse_rule, false },
	[KEY_INCLUDE] = { "include", parse_include, false },
	[KEY_NETWORK] = { "network", parse_network, true },
	[KEY_READ] = { "read", parse_grant, false },
	[KEY_WRITE] = { "write", parse_grant, false },
	[KEY_HIDE] = { "hide", parse_grant, false },
	[KEY_DOTFILE] = { "dotfile", parse_dotfile, false },
	[KEY_SOCKET] = { "socket", parse_grant, false },
	[KEY_DEVICE] = { "device", parse_device, false },
	[KEY_ENV] = { "env", parse_env, false },
	[KEY_LIMIT] = { "limit", parse_limit, true },
	[KEY_ASK_TIMEOUT] = { "ask-timeout", parse_ask_timeout, true },
	[KEY_AUDIT] = { "audit", parse_audit, true },
	[KEY_ON_UNAVAILABLE] = { "on-unavailable", parse_unavailable, true },
	[KEY_ROUTE] = { "route", parse_route, true },
	[KEY_VIEW] = { "view", parse_view, true },
	[KEY_HOME] = { "home", parse_home, true },
	[KEY_NESTED] = { "nested", parse_nested, true },
	[KEY_CACHE] = { "cache", parse_cache, true },
	[KEY_UPSTREAM] = { "upstream", parse_upstream, true },
	[KEY_PUBLISH] = { "publish", parse_forward, false },
	[KEY_REACH] = { "reach", parse_forward, false },
	[KEY_LOCK] = { "lock", parse_lock, false },
};
static_assert(ARRAY_LEN(keywords) == KEY_COUNT, "each keyword has its row");

/* Keywords of later versions: an error by name until they are enforced. */
static const char *const later_keywords[] = { NULL };

static const char *const setting_names[] = {
	[SET_NETWORK] = "network",
	[SET_ROUTE] = "route",
	[SET_VIEW] = "view",
	[SET_HOME] = "home",
	[SET_NESTED] = "nested",
	[SET_CACHE] = "cache",
	[SET_ON_UNAVAILABLE] = "on-unavailable",
	[SET_CONNECTIONS] = "limit connections",
	[SET_IDLE] = "limit idle",
	[SET_ASK_TIMEOUT] = "ask-timeout",
	[SET_PIDS] = "limit pids",
	[SET_MEMORY] = "limit memory",
	[SET_CPU] = "limit cpu",
	[SET_AUDIT_SINK] = "audit",
	[SET_AUDIT_REQUIRED] = "audit",
	[SET_AUDIT_CLIENT] = "audit",
	[SET_UPSTREAM] = "upstream",
};
static_assert(ARRAY_LEN(setting_names) == SET_COUNT, "each setting has its name");

const char *keyword_name(enum keyword k)
{
	return keywords[k].name;
}

const char *setting_name(enum setting s)
{
	return setting_names[s];
}

/* Return: enum keyword, or -EINVAL with @e */
static int keyword_find(const struct parser *ps, size_t i)
{
	const char *names[KEY_COUNT + 2] = { NULL };
	const char *near;

	if (str_eq(ps->w[i].s, "write!"))
		return KEY_WRITE;
	for (int k = 0; k < KEY_COUNT; k++) {
		names[k] = keywords[k].name;
		if (str_eq(ps->w[i].s, names[k]))
			return k;
	}
	for (const char *const *l = later_keywords; *l; l++)
		if (str_eq(ps->w[i].s, *l))
			return unsupported(ps, i);
	names[KEY_COUNT] = "write!";
	near = nearest_word(ps->w[i].s, names);
	(void)place_error(
		&ps->at, ps->w[i].column, ps->e,
		"'%s' is not a keyword: expected allow, deny, ask, include, network, read, write, "
		"env, limit, audit or another of weir(1)",
		ps->w[i].s);
	return near ? err_fix(ps->e, "did you mean '%s'?", near) : -EINVAL;
}

/* Return: NULL with the error in @r */
static struct line *line_new(struct parser *ps, enum keyword key, const char *text, int *r)
{
	struct line *l;

	if (ps->p->nlines >= POLICY_RULES_MAX) {
		*r = place_error(&ps->at, 1, ps->e,
				 "more than %u lines in all policy files together",
				 POLICY_RULES_MAX);
		return NULL;
	}
	*r = -ENOMEM;
	l = arena_get(&ps->p->arena, sizeof(*l));
	if (!l)
		return NULL;
	l->key = key;
	l->column = ps->w[ps->n > 1 ? 1 : 0].column;
	l->from = ps->at.preset;
	l->origin.layer = ps->at.layer;
	l->origin.line = ps->at.line;
	l->origin.file = ps->at.shared_file;
	l->origin.text = arena_str(&ps->p->arena, text, strlen(text));
	ps->p->nlines++;
	return l->origin.text ? l : NULL;
}

/* Parse the words of @ps as one line. Return: 0 with *@out, or an error */
static int parse_words(struct parser *ps, const char *text, struct line **out)
{
	struct line *l;
	int r = keyword_find(ps, 0);

	if (r < 0)
		return r;
	l = line_new(ps, (enum keyword)r, text, &r);
	if (!l)
		return r;
	*out = l;
	return keywords[l->key].parse(ps, l);
}

static int parse_lock(struct parser *ps, struct line *l)
{
	struct parser value = *ps;
	int k, r = words_between(ps, 2, POLICY_WORDS_MAX, "a keyword to lock");

	if (r < 0)
		return r;
	if (ps->at.layer != LAYER_ADMIN)
		return place_error(
			&ps->at, ps->w[0].column, ps->e,
			"'lock' may only stand in the administrator's file, /etc/weir/policy");
	k = keyword_find(ps, 1);
	if (k < 0)
		return k;
	if (k == KEY_LOCK)
		return say(ps, 1, "a keyword other than lock");
	l->u.lock.key = (enum keyword)k;
	if (ps->n == 2)
		return 0;
	if (!keywords[k].setting)
		return say(ps, 2, "the end of the line: this keyword has no single value to lock");
	value.w++;
	value.n--;
	k = parse_words(&value, l->origin.text + strlen("lock "), &l->u.lock.value);
	if (k == 0 && l->u.lock.key == KEY_UPSTREAM)
		l->origin.text = upstream_redact(&ps->p->arena, l->origin.text);
	return k < 0 || l->origin.text ? k : -ENOMEM;
}

static int add_words(struct parser *ps, const char *text, struct line_list *to)
{
	struct line *l = NULL;
	int r = parse_words(ps, text, &l);

	if (r == -ENOMEM)
		return err_set(ps->e, ENOMEM, "%s", ps->at.file);
	if (r < 0)
		return r;
	assert(to->last);
	*to->last = l;
	to->last = &l->next;
	return 0;
}

int parse_text(struct policy *p, const struct place *at, const char *text, size_t len,
	       struct line_list *to, struct err *e)
{
	struct parser ps = { .p = p, .at = *at, .e = e };
	struct words words;

	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		ps.at.line = 1;
		(void)place_error(&ps.at, 1, e, "a byte order mark: expected a policy line");
		return err_fix(e, "save the file as UTF-8 without a byte order mark");
	}
	ps.at.line = 0;
	while (len > 0) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) : len;
		int r;

		ps.at.line++;
		r = lex_line(&ps.at, text, n, &words, e);
		if (r < 0)
			return r;
		ps.w = words.w;
		ps.n = words.n;
		r = words.n > 0 ? add_words(&ps, words.text, to) : 0;
		if (r < 0)
			return r;
		text += n + (end != NULL);
		len -= n + (end != NULL);
	}
	return 0;
}

/* Flags whose value is one word whatever is in it: a path may hold spaces and quotes. */
static bool flag_is_lexed(const char *keyword)
{
	static const char *const lexed[] = { "allow", "deny", "ask", "limit" };

	for (size_t i = 0; i < ARRAY_LEN(lexed); i++)
		if (str_eq(keyword, lexed[i]))
			return true;
	return false;
}

static int flag_bytes(const struct place *at, const char *value, struct err *e)
{
	for (const char *s = value; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return place_error(at, 0, e, "control byte 0x%02x: expected printable text",
					   (unsigned char)*s);
	return 0;
}

/* "keep NAME", "set NAME=VALUE": the value may be any bytes at all */
static void env_words(struct word *w, char *verb, size_t room, const char *value, size_t *n)
{
	size_t first = strcspn(value, " ");

	if (first >= room || value[first] == '\0') {
		w[(*n)++] = (struct word){ .s = value, .len = strlen(value) };
		return;
	}
	memcpy(verb, value, first);
	verb[first] = '\0';
	w[(*n)++] = (struct word){ .s = verb, .len = first };
	value += first + 1;
	w[(*n)++] = (struct word){ .s = value, .len = strlen(value) };
}

int parse_flag(struct policy *p, const struct place *at, const char *keyword, const char *value,
	       struct line_list *to, struct err *e)
{
	struct parser ps = { .p = p, .at = *at, .e = e };
	struct words words = { .n = 0 };
	char text[POLICY_LINE_MAX + 1], verb[8];
	size_t n = text_add(text, sizeof(text), 0, "%s %s", keyword, value);
	int r = 0;

	ps.at.line = 0;
	words.w[words.n++] = (struct word){ .s = keyword, .len = strlen(keyword) };
	if (flag_is_lexed(keyword)) {
		if (*value == '\0')
			return place_error(&ps.at, 0, e, "'' is empty: expected a target");
		if (strlen(keyword) + 1 + strlen(value) > n)
			return place_error(&ps.at, 0, e, "the value is longer than %u bytes",
					   POLICY_LINE_MAX);
		r = lex_line(&ps.at, text, n, &words, e);
	} else if (str_eq(keyword, "env")) {
		env_words(words.w, verb, sizeof(verb), value, &words.n);
	} else {
		words.w[words.n++] = (struct word){ .s = value, .len = strlen(value) };
		r = flag_bytes(&ps.at, value, e);
	}
	if (r < 0)
		return r;
	ps.w = words.w;
	ps.n = words.n;
	return add_words(&ps, text, to);
}
