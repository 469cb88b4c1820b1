/* SPDX-License-Identifier: ISC */
/* policy/parse_inside.c - the keywords of what the command finds inside: paths, devices, dotfiles and
 * the environment. A path becomes absolute here, and no file is looked at. */
#include "policy/parser.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/err.h"
#include "common/scope.h"

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
		return parser_say(ps, i, "$NAME or ${NAME} at the start of a path");
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
		(void)parser_say(ps, i, "a path that begins with /, ~ or $NAME");
		return NULL;
	}
	return base;
}

int parser_path(struct parser *ps, size_t i, char **out)
{
	const char *front = "", *mid = "", *s = ps->w[i].s;
	char path[PATH_MAX];
	int n, r;

	if (*s == '\0')
		return parser_say(ps, i, "a path");
	if (*s == '~') {
		if (s[1] != '\0' && s[1] != '/')
			return parser_say(ps, i, "~ or ~/PATH: the homes of others are not known");
		front = ps->p->ctx.home;
		if (!front)
			return parser_say(ps, i,
					  "a path without ~: your home directory is not known");
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

int parse_grant(struct parser *ps, struct line *l)
{
	struct policy_grant *g = &l->u.grant;
	int r = l->key == KEY_HIDE ? parser_words(ps, 2, 3, "a path, then strict or nothing")
				   : parser_words(ps, 2, 2, "a path");

	if (r < 0)
		return r;
	if (ps->n == 3 && !str_eq(ps->w[2].s, "strict"))
		return parser_say(ps, 2, "strict, or the end of the line");
	g->strict = ps->n == 3;
	g->kind = grant_kinds[l->key];
	g->force = str_eq(ps->w[0].s, "write!");
	g->origin = &l->origin;
	r = parser_path(ps, 1, &g->path);
	if (r < 0)
		return r;
	g->inactive = r == 0;
	if (g->inactive)
		g->path = arena_str(&ps->p->arena, ps->w[1].s, ps->w[1].len);
	return g->path ? 0 : -ENOMEM;
}

int parse_device(struct parser *ps, struct line *l)
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
int parse_dotfile(struct parser *ps, struct line *l)
{
	static const char expected[] = "a file below the home directory, such as .config/tool.toml";
	struct policy_grant *g = &l->u.grant;
	const char *s;
	int r = parser_words(ps, 2, 2, expected);

	if (r < 0)
		return r;
	s = ps->w[1].s;
	if (s[0] == '~' && s[1] == '/')
		s += 2;
	if (*s == '\0' || *s == '/' || *s == '~' || *s == '$')
		return parser_say(ps, 1, expected);
	for (const char *c = s; c; c = strchr(c, '/') ? strchr(c, '/') + 1 : NULL) {
		size_t n = strcspn(c, "/");

		if (n == 0 || (n == 1 && c[0] == '.') || (n == 2 && c[0] == '.' && c[1] == '.'))
			return parser_say(ps, 1, expected);
	}
	g->kind = GRANT_DOTFILE;
	g->origin = &l->origin;
	g->path = arena_str(&ps->p->arena, s, strlen(s));
	return g->path ? 0 : -ENOMEM;
}

/* ---- environment ---- */

int parse_env(struct parser *ps, struct line *l)
{
	static const char *const words[] = { "keep", "set", NULL };
	struct policy_env *v = &l->u.env;
	const char *s;
	size_t n;
	int r = parser_words(ps, 3, 3, "keep NAME or set NAME=VALUE");

	if (r < 0)
		return r;
	r = parser_choose(ps, 1, words, "keep NAME or set NAME=VALUE");
	if (r < 0)
		return r;
	v->set = r == 1;
	v->origin = &l->origin;
	s = ps->w[2].s;
	n = name_length(s);
	if (n == 0 || s[n] != (v->set ? '=' : '\0'))
		return parser_say(ps, 2, v->set ? "NAME=VALUE" : "the name of a variable");
	v->name = arena_str(&ps->p->arena, s, n);
	if (v->set)
		v->value = arena_str(&ps->p->arena, s + n + 1, ps->w[2].len - n - 1);
	return v->name && (v->value || !v->set) ? 0 : -ENOMEM;
}
