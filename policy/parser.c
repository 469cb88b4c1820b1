/* SPDX-License-Identifier: ISC */
/* policy/parser.c - words to lines: one table that names all keywords; the rules and include here,
 * what is inside in parse_inside.c, settings in parse_settings.c.
 * Believes nothing about the text. What this version does not enforce is an error by name, never a
 * line that is passed over. Decides nothing between lines: that is merge.c. */
#include "policy/parser.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/err.h"
#include "common/scope.h"
#include "common/words.h"

int parser_say(const struct parser *ps, size_t i, const char *expected)
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
int parser_choose(const struct parser *ps, size_t i, const char *const *words, const char *expected)
{
	const char *near;

	for (int k = 0; words[k]; k++)
		if (str_eq(ps->w[i].s, words[k]))
			return k;
	near = nearest_word(ps->w[i].s, words);
	(void)parser_say(ps, i, expected);
	return near ? err_fix(ps->e, "did you mean '%s'?", near) : -EINVAL;
}

int parser_words(const struct parser *ps, size_t least, size_t most, const char *expected)
{
	if (ps->n < least)
		return place_error(&ps->at, ps->w[ps->n - 1].column, ps->e,
				   "'%s' ends too early: expected %s", ps->w[ps->n - 1].s,
				   expected);
	if (ps->n > most)
		return parser_say(ps, most, "the end of the line");
	return 0;
}
/* ---- rules ---- */

static int suffix_words(struct parser *ps, struct policy_rule *r)
{
	static const char *const words[] = { "private", "no-sni", NULL };

	for (size_t i = 2; i < ps->n; i++) {
		if (r->verdict == POLICY_DENY)
			return parser_say(ps, i, "the end of the line after the target of deny");
		switch (parser_choose(ps, i, words, "private, no-sni or the end of the line")) {
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
	int err = parser_words(ps, 2, POLICY_WORDS_MAX,
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
	int err = parser_words(ps, 2, 2, "the name of a preset");

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
	int k, r = parser_words(ps, 2, POLICY_WORDS_MAX, "a keyword to lock");

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
		return parser_say(ps, 1, "a keyword other than lock");
	l->u.lock.key = (enum keyword)k;
	if (ps->n == 2)
		return 0;
	if (!keywords[k].setting)
		return parser_say(ps, 2,
				  "the end of the line: this keyword has no single value to lock");
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
