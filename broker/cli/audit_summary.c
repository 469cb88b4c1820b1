/* SPDX-License-Identifier: ISC */
/* broker/cli/audit_summary.c - counts by host and port.
 * Memory: HOSTS_MAX rows; what a log names beyond them is counted in one. */
#include <errno.h>
#include <jansson.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_show.h"
#include "common/escape.h"
#include "common/scope.h"

#define HOSTS_MAX 65536
#define KEY_MAX 320

struct total {
	char *key; /* HOST:PORT, escaped */
	uint64_t allowed, denied, up, down;
	char first[32], last[32];
	char *rule; /* that decided last */
};

struct audit_summary {
	void *tree;
	struct total **all;
	size_t n;
	struct total rest;
};

struct audit_summary *audit_summary_new(void)
{
	struct audit_summary *s = calloc(1, sizeof(*s));

	if (s)
		s->all = calloc(HOSTS_MAX, sizeof(struct total *));
	if (s && !s->all) {
		free(s);
		s = NULL;
	}
	return s;
}

static int by_key(const void *a, const void *b)
{
	const struct total *x = a, *y = b;

	return strcmp(x->key, y->key);
}

static struct total *total_of(struct audit_summary *s, char *key)
{
	struct total want = { .key = key }, **found = tfind(&want, &s->tree, by_key), *t;

	if (found)
		return *found;
	t = s->n < HOSTS_MAX ? calloc(1, sizeof(*t)) : NULL;
	if (!t)
		return &s->rest;
	t->key = strdup(key);
	if (!t->key || !tsearch(t, &s->tree, by_key)) {
		free(t->key);
		free(t);
		return &s->rest;
	}
	s->all[s->n++] = t;
	return t;
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static uint64_t number_of(const json_t *o, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(o, key));

	return n > 0 ? (uint64_t)n : 0;
}

void audit_summary_add(struct audit_summary *s, const json_t *o)
{
	const char *verdict = text_of(o, "verdict"), *rule, *ts = text_of(o, "ts");
	char host[KEY_MAX - 16], key[KEY_MAX];
	struct total *t;

	if (!text_of(o, "host")[0] || (!*verdict && !str_eq(text_of(o, "event"), "end")))
		return;
	(void)escape_line(host, sizeof(host), text_of(o, "host"), strlen(text_of(o, "host")));
	(void)snprintf(key, sizeof(key), strchr(host, ':') ? "[%s]:%llu" : "%s:%llu", host,
		       (unsigned long long)number_of(o, "port"));
	t = total_of(s, key);
	t->allowed += str_eq(verdict, "allow");
	t->denied += str_eq(verdict, "deny");
	t->up += number_of(o, "up");
	t->down += number_of(o, "down");
	if (!t->first[0])
		(void)snprintf(t->first, sizeof(t->first), "%.31s", ts);
	(void)snprintf(t->last, sizeof(t->last), "%.31s", ts);
	rule = text_of(json_object_get(o, "rule"), "text");
	if (*rule && !(t->rule && str_eq(t->rule, rule))) {
		free(t->rule);
		t->rule = strdup(rule);
	}
}

static int by_size(const void *a, const void *b)
{
	const struct total *x = *(struct total *const *)a, *y = *(struct total *const *)b;
	uint64_t p = x->up + x->down, q = y->up + y->down;

	return p != q ? (p < q ? 1 : -1) : strcmp(x->key, y->key);
}

static void print_row(const struct total *t)
{
	char rule[256], first[32], last[32];

	(void)escape_line(rule, sizeof(rule), t->rule ? t->rule : "-",
			  strlen(t->rule ? t->rule : "-"));
	(void)escape_line(first, sizeof(first), t->first, strlen(t->first));
	(void)escape_line(last, sizeof(last), t->last, strlen(t->last));
	(void)printf("%-32s  %7llu  %6llu  %12llu  %12llu  %-19.19s  %-19.19s  %s\n", t->key,
		     (unsigned long long)t->allowed, (unsigned long long)t->denied,
		     (unsigned long long)t->up, (unsigned long long)t->down, first, last, rule);
}

static json_t *row_json(const struct total *t)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:s*, s:s*, s:s*}", "target", t->key, "allowed",
			 (json_int_t)t->allowed, "denied", (json_int_t)t->denied, "up",
			 (json_int_t)t->up, "down", (json_int_t)t->down, "first", t->first, "last",
			 t->last, "rule", t->rule);
}

static bool is_empty(const struct total *t)
{
	return t->allowed + t->denied + t->up + t->down == 0;
}

static int print_json(const struct audit_summary *s)
{
	json_t *list = json_array();
	int r;

	for (size_t i = 0; i < s->n; i++)
		(void)json_array_append_new(list, row_json(s->all[i]));
	if (!is_empty(&s->rest))
		(void)json_array_append_new(list, row_json(&s->rest));
	r = json_dumpf(list, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	(void)putchar('\n');
	json_decref(list);
	return r < 0 ? -EIO : 0;
}

int audit_summary_print(struct audit_summary *s, bool json)
{
	s->rest.key = (char[]){ "(others)" };
	qsort(s->all, s->n, sizeof(struct total *), by_size);
	if (json)
		return print_json(s);
	(void)printf("%-32s  %7s  %6s  %12s  %12s  %-19s  %-19s  %s\n", "TARGET", "ALLOWED",
		     "DENIED", "UP", "DOWN", "FIRST (UTC)", "LAST (UTC)", "RULE");
	for (size_t i = 0; i < s->n; i++)
		print_row(s->all[i]);
	if (!is_empty(&s->rest))
		print_row(&s->rest);
	return 0;
}

static void leave(void *arg)
{
	(void)arg; /* the nodes' own memory is in the list */
}

void audit_summary_free(struct audit_summary *s)
{
	if (!s)
		return;
	tdestroy(s->tree, leave);
	for (size_t i = 0; i < s->n; i++) {
		free(s->all[i]->key);
		free(s->all[i]->rule);
		free(s->all[i]);
	}
	free(s->rest.rule);
	free(s->all);
	free(s);
}
