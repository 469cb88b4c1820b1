/* SPDX-License-Identifier: ISC */
/* broker/cli/audit_verify.c - does the chain of an audit log hold, and if not, where and how.
 * Two passes: the first reads every line and keeps what chains it, the second says what became of the
 * records that do not follow the one before. Lines may be anything.
 * Memory: 48 bytes a record. At most PROBLEMS_MAX lines of complaint. */
#include "audit_verify.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_log.h"
#include "broker/monitor/audit_chain.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/scope.h"

#define SHORT 16 /* of the 64 digits' 32 bytes: more than enough to tell records apart */
#define PROBLEMS_MAX 100

/** struct seen - one record; @skipped: bytes between it and the record before that are none */
struct seen {
	char prev[SHORT], hash[SHORT];
	uint32_t number, skipped;
	uint8_t log;
	bool is_changed, is_start, is_torn, is_missing, is_moved;
};

struct verify {
	struct audit_logs *l;
	struct seen *all;
	size_t n, room;
	unsigned problems, tears;
	uint64_t tail; /* bytes after the last record */
	char last[CHAIN_HEX + 1], last_ts[40], last_id[40];
	json_int_t last_seq;
	const char *head;
	size_t head_at; /* index + 1 */
};

static const char *name_of(const struct verify *v, const struct seen *s)
{
	return v->l->log[s->log].name;
}

static void problem(struct verify *v, const struct seen *s, const char *what)
{
	v->problems++;
	if (v->problems <= PROBLEMS_MAX)
		(void)printf("%s:%u: %s\n", name_of(v, s), s->number, what);
	else if (v->problems == PROBLEMS_MAX + 1)
		(void)printf("and more\n");
}

/* ---- the first pass ---- */

static void text_take(const json_t *o, const char *key, char *out, size_t room)
{
	const char *s = json_string_value(json_object_get(o, key));

	(void)escape_text(out, room, s ? s : "?", strlen(s ? s : "?"));
}

/* What the line says beyond the chain: only where it matters, because it has to be parsed. */
static void special(const struct audit_reader *r, struct seen *s, uint64_t skipped)
{
	json_t *o = audit_line_parse(r->line, r->len);
	const char *event = json_string_value(json_object_get(o, "event"));

	s->is_missing = event && str_eq(event, "missing");
	s->is_torn = event && str_eq(event, "torn") &&
		     (uint64_t)json_integer_value(json_object_get(o, "bytes")) == skipped;
	json_decref(o);
}

static bool grow(struct verify *v)
{
	size_t room = v->room ? v->room * 2 : 4096;
	struct seen *more;

	if (v->n < v->room)
		return true;
	more = reallocarray(v->all, room, sizeof(*more));
	if (!more)
		return false;
	v->all = more;
	v->room = room;
	return true;
}

static bool has_word(const struct audit_reader *r, const char *word)
{
	return memmem(r->line, r->len, word, strlen(word)) != NULL;
}

static int take(struct verify *v, size_t log, const struct audit_reader *r)
{
	const char *prev, *hash;
	struct seen *s;

	if (!r->whole || !chain_find(r->line, r->len, &prev, &hash)) {
		v->tail += r->len + 1;
		return 0;
	}
	if (!grow(v))
		return -ENOMEM;
	s = &v->all[v->n++];
	*s = (struct seen){ .number = (uint32_t)r->number, .log = (uint8_t)log };
	memcpy(s->prev, prev, SHORT);
	memcpy(s->hash, hash, SHORT);
	s->skipped = v->tail > UINT32_MAX ? UINT32_MAX : (uint32_t)v->tail;
	s->is_changed = !chain_holds(r->line, r->len);
	s->is_start = memcmp(prev, CHAIN_START, CHAIN_HEX) == 0;
	if (has_word(r, "\"event\":\"missing\"") || (v->tail && has_word(r, "\"event\":\"torn\"")))
		special(r, s, v->tail);
	v->tail = 0;
	memcpy(v->last, hash, CHAIN_HEX);
	if (v->head && memcmp(v->head, hash, CHAIN_HEX) == 0)
		v->head_at = v->n;
	return 0;
}

static void last_take(struct verify *v, const char *line, size_t len)
{
	json_t *o = audit_line_parse(line, len);

	text_take(o, "ts", v->last_ts, sizeof(v->last_ts));
	text_take(o, "sandbox", v->last_id, sizeof(v->last_id));
	v->last_seq = json_integer_value(json_object_get(o, "seq"));
	json_decref(o);
}

static int read_one(struct verify *v, size_t log, struct audit_reader *r, char *line, size_t *len)
{
	int e;

	audit_reader_init(r, v->l->log[log].fd, 0, v->l->log[log].size);
	while ((e = audit_reader_next(r, true)) > 0) {
		size_t before = v->n;

		e = take(v, log, r);
		if (e < 0)
			break;
		if (v->n > before) {
			memcpy(line, r->line, r->len);
			*len = r->len;
		}
	}
	return e;
}

static int read_all(struct verify *v, struct err *e)
{
	struct audit_reader *r = malloc(sizeof(*r));
	char line[AUDIT_RECORD_MAX];
	size_t len = 0;
	int n = r ? 0 : -ENOMEM;

	for (size_t i = 0; n == 0 && i < v->l->n; i++) {
		n = read_one(v, i, r, line, &len);
		if (n < 0)
			(void)err_set(e, -n, "read '%s'", v->l->log[i].name);
	}
	free(r);
	last_take(v, line, len);
	return n;
}

/* ---- the second pass ---- */

/* Return: index + 1 of the record with that hash, 0 when there is none */
static size_t find(const struct verify *v, const char hash[SHORT])
{
	for (size_t i = 0; i < v->n; i++) {
		if (memcmp(v->all[i].hash, hash, SHORT) == 0)
			return i + 1;
	}
	return 0;
}

static void follows_not(struct verify *v, size_t i)
{
	struct seen *s = &v->all[i];
	size_t at = v->problems > PROBLEMS_MAX ? 0 : find(v, s->prev);
	char what[256];

	if (at == 0) {
		problem(v, s,
			s->is_start ? "the chain begins anew: what stood before is not linked"
				    : "records before this one were removed, or the one before was "
				      "rewritten");
		return;
	}
	if (at - 1 > i) {
		s->is_moved = true;
		(void)snprintf(what, sizeof(what),
			       "the record was moved: it follows line %u of %.150s",
			       v->all[at - 1].number, name_of(v, &v->all[at - 1]));
		problem(v, s, what);
		return;
	}
	/* which of the two is out of place: what comes next knows */
	if (i + 1 < v->n && memcmp(v->all[i + 1].prev, v->all[i - 1].hash, SHORT) == 0) {
		s->is_moved = true;
		problem(v, s, "the record was inserted, or moved here");
		return;
	}
	for (size_t k = at; k < i; k++) {
		if (!v->all[k].is_moved)
			problem(v, &v->all[k], "the record was inserted, or moved here");
		v->all[k].is_moved = true;
	}
}

static void judge(struct verify *v, size_t i)
{
	struct seen *s = &v->all[i];
	bool is_first = i == 0,
	     follows = !is_first && memcmp(s->prev, v->all[i - 1].hash, SHORT) == 0;

	if (s->is_changed)
		problem(v, s, "the record was changed");
	if (s->is_missing)
		problem(v, s, "the file was removed or shortened before this record");
	if (s->skipped > 0 && s->is_torn)
		v->tears++;
	else if (s->skipped > 0)
		problem(v, s, "what stands before this record is no record, and none tells of it");
	if (is_first && !s->is_start && !s->is_missing && s->number == 1 && v->l->n <= AUDIT_KEPT)
		problem(v, s, "records before this one were removed");
	if (!is_first && !follows && !(s->is_missing && s->number == 1))
		follows_not(v, i);
}

static void head_judge(struct verify *v)
{
	struct seen *s = v->n ? &v->all[v->n - 1] : NULL;

	if (!v->head || v->head_at)
		return;
	v->problems++;
	if (s)
		(void)printf(
			"%s:%u: the tail was cut off or rewritten: the head %.16s... that was kept "
			"is not in the log, which ends here at %s\n",
			name_of(v, s), s->number, v->head, v->last_ts);
	else
		(void)printf("the head %.16s... that was kept is not in the log, which is empty\n",
			     v->head);
}

int audit_verify(struct audit_logs *l, const char *head, struct err *e)
{
	struct verify v = { .l = l, .head = head };
	int r = read_all(&v, e);

	for (size_t i = 0; r == 0 && i < v.n; i++)
		judge(&v, i);
	if (r == 0)
		head_judge(&v);
	if (r == 0 && v.tears > 0)
		(void)printf("%u torn line%s: the record after each tells of it\n", v.tears,
			     v.tears == 1 ? "" : "s");
	if (r == 0 && v.tail > 0)
		(void)printf(
			"%llu bytes at the end are no record: a writer is at work, or was killed\n",
			(unsigned long long)v.tail);
	if (r == 0 && v.head_at)
		(void)printf("%zu records since the head that was kept\n", v.n - v.head_at);
	if (r == 0)
		(void)printf("%zu records in %zu file%s: %s\n", v.n, l->n, l->n == 1 ? "" : "s",
			     v.problems ? "the chain does not hold" : "the chain holds");
	free(v.all);
	return r < 0 ? r : v.problems > 0;
}

int audit_head(struct audit_logs *l, struct err *e)
{
	struct verify v = { .l = l };
	int r = read_all(&v, e);

	if (r == 0 && v.n > 0)
		(void)printf("%s  %s  %s  %lld\n", v.last, v.last_ts, v.last_id, v.last_seq);
	free(v.all);
	return r < 0 ? r : v.n == 0;
}
