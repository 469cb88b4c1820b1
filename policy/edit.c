/* SPDX-License-Identifier: ISC */
/* policy/edit.c - one rule more or less in the text of a policy file, every other byte as it was.
 * Pure: the caller reads, locks and writes. The text is the user's own and must parse: nobody's
 * mistake is built upon. Bounded by the text and one line. */
#include "policy/policy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/escape.h"
#include "common/scope.h"
#include "policy/internal.h"

struct edit {
	const struct policy_edit *how;
	struct arena arena;
	struct policy_pattern *want;
	enum policy_verdict verdict; /* of the wanted rule */
	bool is_private, is_no_sni, ports_given;
	char line[POLICY_WORDS_TEXT_MAX + 8]; /* to put in */
	char *out;
	size_t len;
	unsigned nlines, removed, vanished; /* taken out; and nothing is left of the line */
	bool there;			    /* the rule stands already */
	struct err *e;
};

static const char *const verbs[] = {
	[EDIT_ALLOW] = "allow", [EDIT_DENY] = "deny", [EDIT_ASK] = "ask", [EDIT_FORGET] = "forget"
};

/* What a line with one of the three keywords decides. Return: 0, or -EINVAL for another keyword */
static int verdict_of(const char *keyword, enum policy_verdict *v)
{
	for (enum policy_edit_verb k = EDIT_ALLOW; k < EDIT_FORGET; k++) {
		if (!str_eq(keyword, verbs[k]))
			continue;
		*v = k == EDIT_DENY ? POLICY_DENY : k == EDIT_ASK ? POLICY_ASK : POLICY_ALLOW;
		return 0;
	}
	return -EINVAL;
}

/* The wanted rule is parsed as the line that it will be, by the parser of all lines. */
/* Among the suffix words of a rule */
static bool words_have(const struct words *w, const char *word)
{
	for (size_t i = 2; i < w->n; i++) {
		if (str_eq(w->w[i].s, word))
			return true;
	}
	return false;
}

/* Behind the target: the words that a line of that kind ends with. */
static bool suffixes_alone(const struct words *w)
{
	for (size_t i = 2; i < w->n; i++)
		if (!str_eq(w->w[i].s, "private") && !str_eq(w->w[i].s, "no-sni"))
			return false;
	return true;
}

static int want_parse(struct edit *d)
{
	const char *keyword = verbs[d->how->verb == EDIT_FORGET ? EDIT_ALLOW : d->how->verb];
	const struct place at = { .file = verbs[d->how->verb] };
	struct policy_context none = { .home = NULL };
	struct policy *p = policy_new(&none);
	struct words words = { .n = 0 };
	int r = p ? 0 : err_set(d->e, ENOMEM, "%s", keyword);

	(void)snprintf(d->line, sizeof(d->line), "%s %s", keyword, d->how->words);
	if (r == 0 && strpbrk(d->how->words, "#\n"))
		r = err_set(d->e, 0, "%s: '%s': expected a target", keyword, d->how->words);
	if (r == 0 && d->how->verb != EDIT_FORGET)
		r = policy_add_flag(p, verbs[d->how->verb], keyword, d->how->words, d->e);
	policy_free(p);
	if (r == 0)
		r = lex_line(&at, d->line, strlen(d->line), &words, d->e);
	if (r < 0)
		return r;
	if (words.n < 2 || (d->how->verb == EDIT_FORGET && !suffixes_alone(&words)))
		return err_set(d->e, 0, "%s: '%s': expected one target", verbs[d->how->verb],
			       d->how->words);
	(void)verdict_of(keyword, &d->verdict);
	d->is_private = words_have(&words, "private");
	d->is_no_sni = words_have(&words, "no-sni");
	d->ports_given = strrchr(words.w[1].s, ':') && words.w[1].s[words.w[1].len - 1] != ']';
	memcpy(d->line, words.text, strlen(words.text) + 1); /* no longer than it was */
	return pattern_parse(&d->arena, &at, &words.w[1], d->verdict, false, &d->want, d->e);
}

/* Deny beats allow beats ask. */
static bool outweighs(enum policy_verdict a, enum policy_verdict b)
{
	return a != b && (a == POLICY_DENY || b == POLICY_ASK);
}

/* Is this line to go? Sets d->there when it is the wanted one. */
static bool line_goes(struct edit *d, const struct words *w)
{
	const struct place at = { .file = d->how->file, .line = d->nlines };
	struct policy_pattern *p = NULL;
	enum policy_verdict verdict;
	enum ports_relation ports;

	if (w->n < 2 || verdict_of(w->w[0].s, &verdict) < 0)
		return false;
	if (pattern_parse(&d->arena, &at, &w->w[1], verdict, false, &p, NULL) < 0 ||
	    !pattern_same(p, d->want))
		return false;
	ports = pattern_ports(p, d->want);
	if (d->how->verb == EDIT_FORGET)
		return (!d->ports_given || ports == PORTS_SAME) &&
		       (!d->is_private || words_have(w, "private")) &&
		       (!d->is_no_sni || words_have(w, "no-sni"));
	if (verdict == d->verdict) {
		d->there |= pattern_ports(d->want, p) >= PORTS_COVERED &&
			    (!d->is_private || words_have(w, "private")) &&
			    (!d->is_no_sni || words_have(w, "no-sni"));
		return false;
	}
	return outweighs(verdict, d->verdict) ? ports != PORTS_APART : ports >= PORTS_COVERED;
}

static void tell(const struct edit *d, unsigned line, const char *what, const char *text)
{
	char all[POLICY_LINE_MAX + 1200];

	if (!d->how->tell)
		return;
	(void)snprintf(all, sizeof(all), "%s:%u: %s: %s", d->how->file, line, what, text);
	d->how->tell(d->how->arg, all);
}

/* What the user wrote beside a line outlives it; what weir wrote there goes with it. */
static void comment_keep(struct edit *d, const char *line, size_t whole, const struct words *w)
{
	size_t n = whole - w->comment, own = sizeof(POLICY_EDIT_COMMENT) - 1;

	if (line[w->comment] != '#' ||
	    (n >= own && memcmp(line + w->comment, POLICY_EDIT_COMMENT, own) == 0)) {
		d->vanished++;
		return;
	}
	memcpy(d->out + d->len, line + w->comment, n);
	d->len += n;
}

static int lines_copy(struct edit *d, const char *text, size_t len)
{
	struct words words;

	while (len > 0) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) : len, whole = n + (end != NULL);
		const struct place at = { .file = d->how->file, .line = ++d->nlines };
		int r = lex_line(&at, text, n, &words, d->e);

		if (r < 0)
			return r;
		if (line_goes(d, &words)) {
			d->removed++;
			tell(d, d->nlines, "taken out", words.text);
			comment_keep(d, text, whole, &words);
		} else {
			memcpy(d->out + d->len, text, whole);
			d->len += whole;
		}
		text += whole;
		len -= whole;
	}
	return 0;
}

/* Other people's words may be in it: one line, and nothing that a terminal would take. */
static void comment_put(struct edit *d)
{
	static const char front[] = " " POLICY_EDIT_COMMENT;

	memcpy(d->out + d->len, front, sizeof(front) - 1);
	d->len += sizeof(front) - 1;
	d->len += escape_text(d->out + d->len, POLICY_EDIT_COMMENT_MAX, d->how->comment,
			      strlen(d->how->comment));
}

static void line_put(struct edit *d)
{
	size_t n = strlen(d->line);

	if (d->len > 0 && d->out[d->len - 1] != '\n')
		d->out[d->len++] = '\n';
	memcpy(d->out + d->len, d->line, n);
	d->len += n;
	if (d->how->comment)
		comment_put(d);
	d->out[d->len++] = '\n';
	tell(d, d->nlines - d->vanished + 1, "added", d->line);
}

/* Is it a policy file, as the user's layer? */
static int text_check(const struct edit *d, const char *text, size_t len)
{
	static char *const none[] = { NULL };
	const struct policy_context ctx = {
		.home = "/", .cwd = "/", .project = "/", .environ = none
	};
	struct policy *p = policy_new(&ctx);
	int r = p ? policy_add_text(p, LAYER_USER, d->how->file, text, len, d->e)
		  : err_set(d->e, ENOMEM, "%s", d->how->file);

	policy_free(p);
	return r;
}

static int edit(struct edit *d, const char *text, size_t len)
{
	int r = want_parse(d);

	if (r == 0)
		r = text_check(d, text, len);
	if (r < 0)
		return r;
	d->out = malloc(len + sizeof(d->line) + POLICY_EDIT_COMMENT_MAX + 32);
	if (!d->out)
		return err_set(d->e, ENOMEM, "%s", d->how->file);
	r = lines_copy(d, text, len);
	if (r < 0)
		return r;
	if (d->how->verb == EDIT_FORGET)
		return d->removed > 0;
	if (!d->there)
		line_put(d);
	if (d->there && d->removed == 0)
		return 0;
	r = text_check(d, d->out, d->len);
	return r < 0 ? r : 1;
}

int policy_edit_text(const struct policy_edit *how, const char *text, size_t len, char **out,
		     size_t *out_len, struct err *e)
{
	struct err unused = { .num = 0 };
	struct edit d = { .how = how, .e = e ? e : &unused };
	int r = edit(&d, text, len);

	arena_free(&d.arena);
	if (r <= 0) {
		free(d.out);
		return r;
	}
	*out = d.out;
	*out_len = d.len;
	return 1;
}
