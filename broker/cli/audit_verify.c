/* SPDX-License-Identifier: ISC */
/* broker/cli/audit_verify.c - does the chain of an audit log hold, and if not, where and how.
 * The first pass judges each record by the one before it and keeps nothing but what is wrong. Only
 * where a record does not follow the one before is there a second, which looks for the one that it
 * names. Lines may be anything.
 * Memory: FAULTS_MAX faults, however many records there are. At most PROBLEMS_MAX lines of complaint. */
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

#define PROBLEMS_MAX 100
#define FAULTS_MAX 256 /* more than PROBLEMS_MAX: one may be what explains another */

/** struct place - of a record: its number among all of them, from 0; its line in the file @log */
struct place {
	uint64_t at, line;
	size_t log;
};

struct link {
	char hex[CHAIN_HEX];
};

/** struct seen - one record; @skipped: bytes between it and the record before that are none */
struct seen {
	struct place place;
	struct link prev, hash;
	uint64_t skipped;
	bool is_changed, is_start, is_torn, is_missing;
};

/** struct fault - something that is wrong with a record
 * @what: said as it is; NULL: the record does not follow the one that stands before it, @last, but
 * @names another: @named, and @after stands behind that one, as the second pass finds
 * @moved: so many records from this one on were told to be out of place
 * @is_told: another fault has explained it */
struct fault {
	struct place place, last, named, after;
	const char *what;
	struct link names;
	uint64_t moved;
	bool is_start, is_found, has_after, is_told;
};

struct verify {
	struct audit_logs *l;
	const char *head;
	bool judges;
	uint64_t n;	  /* records so far */
	struct seen last; /* the one before */
	uint64_t head_at; /* number + 1 */
	uint64_t tail;	  /* bytes after the last record */
	uint64_t tears;
	struct fault *faults;
	size_t nfaults;
	bool is_full; /* there are more */
	unsigned problems;
	char line[AUDIT_RECORD_MAX]; /* of the last record */
	size_t len;
};

static bool is_link(const struct link *a, const struct link *b)
{
	return memcmp(a->hex, b->hex, CHAIN_HEX) == 0;
}

/* ---- every record ---- */

typedef void on_record(struct verify *v, const struct audit_reader *r, const struct seen *s);

static int read_one(struct verify *v, size_t log, struct audit_reader *r, on_record *take)
{
	int n;

	audit_reader_init(r, v->l->log[log].fd, 0, v->l->log[log].size);
	while ((n = audit_reader_next(r, true)) > 0) {
		struct seen s = { .place = { v->n, r->number, log }, .skipped = v->tail };
		const char *prev, *hash;

		if (!r->whole || !chain_find(r->line, r->len, &prev, &hash)) {
			v->tail += r->len + 1;
			continue;
		}
		memcpy(s.prev.hex, prev, CHAIN_HEX);
		memcpy(s.hash.hex, hash, CHAIN_HEX);
		take(v, r, &s);
		v->tail = 0;
		v->n++;
	}
	return n;
}

static int read_all(struct verify *v, on_record *take, struct err *e)
{
	struct audit_reader *r = malloc(sizeof(*r));
	int n = 0;

	if (!r)
		return err_set(e, ENOMEM, "read the audit log");
	v->n = v->tail = 0;
	for (size_t i = 0; n == 0 && i < v->l->n; i++) {
		n = read_one(v, i, r, take);
		if (n < 0)
			(void)err_set(e, -n, "read '%s'", v->l->log[i].name);
	}
	free(r);
	return n;
}

/* ---- the first pass ---- */

static struct fault *fault_new(struct verify *v, const struct seen *s, const char *what)
{
	struct fault *f = &v->faults[v->nfaults];

	if (v->nfaults == FAULTS_MAX) {
		v->is_full = true;
		return NULL;
	}
	*f = (struct fault){ .place = s->place, .what = what };
	v->nfaults++;
	return f;
}

static void fault_add(struct verify *v, const struct seen *s, const char *what)
{
	(void)fault_new(v, s, what);
}

static void follows_not(struct verify *v, const struct seen *s)
{
	struct fault *f = fault_new(v, s, NULL);

	if (!f)
		return;
	f->names = s->prev;
	f->last = v->last.place;
	f->is_start = s->is_start;
}

static void judge(struct verify *v, const struct seen *s)
{
	bool is_first = v->n == 0;

	if (s->is_changed)
		fault_add(v, s, "the record was changed");
	if (s->is_missing)
		fault_add(v, s, "the file was removed or shortened before this record");
	if (s->skipped > 0 && s->is_torn)
		v->tears++;
	else if (s->skipped > 0)
		fault_add(v, s,
			  "what stands before this record is no record, and none tells of it");
	if (is_first && !s->is_start && !s->is_missing && s->place.line == 1 &&
	    v->l->n <= AUDIT_KEPT)
		fault_add(v, s, "records before this one were removed");
	if (!is_first && !is_link(&s->prev, &v->last.hash) &&
	    !(s->is_missing && s->place.line == 1))
		follows_not(v, s);
}

/* What the line says beyond the chain: only where it matters, because it has to be parsed. */
static void special(const struct audit_reader *r, struct seen *s)
{
	json_t *o = audit_line_parse(r->line, r->len);
	const char *event = json_string_value(json_object_get(o, "event"));

	s->is_missing = event && str_eq(event, "missing");
	s->is_torn = event && str_eq(event, "torn") &&
		     (uint64_t)json_integer_value(json_object_get(o, "bytes")) == s->skipped;
	json_decref(o);
}

static bool has_word(const struct audit_reader *r, const char *word)
{
	return memmem(r->line, r->len, word, strlen(word)) != NULL;
}

static void on_first(struct verify *v, const struct audit_reader *r, const struct seen *given)
{
	struct seen s = *given;

	memcpy(v->line, r->line, r->len);
	v->len = r->len;
	if (v->judges) {
		s.is_changed = !chain_holds(r->line, r->len);
		s.is_start = memcmp(s.prev.hex, CHAIN_START, CHAIN_HEX) == 0;
		if (has_word(r, "\"event\":\"missing\"") ||
		    (s.skipped && has_word(r, "\"event\":\"torn\"")))
			special(r, &s);
		judge(v, &s);
	}
	if (v->head && memcmp(v->head, s.hash.hex, CHAIN_HEX) == 0)
		v->head_at = v->n + 1;
	v->last = s;
}

/* ---- the second pass ---- */

static void on_second(struct verify *v, const struct audit_reader *r, const struct seen *s)
{
	(void)r;
	for (size_t i = 0; i < v->nfaults; i++) {
		struct fault *f = &v->faults[i];

		if (f->what)
			continue;
		if (f->is_found && !f->has_after) {
			f->after = s->place;
			f->has_after = true;
		}
		if (!f->is_found && is_link(&f->names, &s->hash)) {
			f->named = s->place;
			f->is_found = true;
		}
	}
}

static int names_find(struct verify *v, struct err *e)
{
	bool is_wanted = false;

	for (size_t i = 0; i < v->nfaults; i++)
		is_wanted |= !v->faults[i].what;
	return is_wanted ? read_all(v, on_second, e) : 0;
}

/* ---- what is said ---- */

static void problem(struct verify *v, const struct place *p, const char *what)
{
	v->problems++;
	if (v->problems <= PROBLEMS_MAX)
		(void)printf("%s:%llu: %s\n", v->l->log[p->log].name, (unsigned long long)p->line,
			     what);
}

/* How many of the records between the one that is named and this one were told to be out of place. */
static uint64_t moved_between(const struct verify *v, const struct fault *f)
{
	uint64_t n = 0;

	for (size_t i = 0; i < v->nfaults; i++) {
		const struct fault *o = &v->faults[i];

		n += o->place.at > f->named.at && o->place.at < f->place.at ? o->moved : 0;
	}
	return n;
}

/* Where the chain goes on behind @f as if @f and what follows it were not there. */
static struct fault *going_on(const struct verify *v, const struct fault *f)
{
	for (size_t i = 0; i < v->nfaults; i++) {
		struct fault *o = &v->faults[i];

		if (!o->what && o->is_found && o->place.at > f->place.at &&
		    o->named.at == f->last.at)
			return o;
	}
	return NULL;
}

static void say_inserted(struct verify *v, const struct place *from, const struct place *to)
{
	char what[256];

	(void)snprintf(what, sizeof(what),
		       "the records from here to line %llu of %.150s were inserted, or moved here",
		       (unsigned long long)to->line, v->l->log[to->log].name);
	problem(v, from, from->at == to->at ? "the record was inserted, or moved here" : what);
}

/* It names an earlier record than the one before it: those between are out of place, or it is, with
 * what follows it. */
static void say_earlier(struct verify *v, struct fault *f)
{
	struct fault *on = going_on(v, f);

	if (on) {
		f->moved = on->place.at - f->place.at;
		on->is_told = true;
		say_inserted(v, &f->place, &on->last);
	} else if (moved_between(v, f) < f->place.at - f->named.at - 1) {
		say_inserted(v, &f->after, &f->last);
	}
}

static void say_follows_not(struct verify *v, struct fault *f)
{
	char what[256];

	if (!f->is_found) {
		problem(v, &f->place,
			f->is_start ? "the chain begins anew: what stood before is not linked"
				    : "records before this one were removed, or the one before was "
				      "rewritten");
	} else if (f->named.at > f->place.at) {
		f->moved = 1;
		(void)snprintf(what, sizeof(what),
			       "the record was moved: it follows line %llu of %.150s",
			       (unsigned long long)f->named.line, v->l->log[f->named.log].name);
		problem(v, &f->place, what);
	} else {
		say_earlier(v, f);
	}
}

static void faults_say(struct verify *v)
{
	for (size_t i = 0; i < v->nfaults; i++) {
		struct fault *f = &v->faults[i];

		if (f->what)
			problem(v, &f->place, f->what);
		else if (!f->is_told)
			say_follows_not(v, f);
	}
	if (v->is_full || v->problems > PROBLEMS_MAX)
		(void)printf("and more\n");
}

/** struct told - of the last record, escaped */
struct told {
	char ts[40], id[40];
	json_int_t seq;
};

static void text_take(const json_t *o, const char *key, char *out, size_t room)
{
	const char *s = json_string_value(json_object_get(o, key));

	(void)escape_text(out, room, s ? s : "?", strlen(s ? s : "?"));
}

static void last_take(const struct verify *v, struct told *t)
{
	json_t *o = audit_line_parse(v->line, v->len);

	text_take(o, "ts", t->ts, sizeof(t->ts));
	text_take(o, "sandbox", t->id, sizeof(t->id));
	t->seq = json_integer_value(json_object_get(o, "seq"));
	json_decref(o);
}

static void head_judge(struct verify *v)
{
	const struct place *p = &v->last.place;
	struct told last;

	if (!v->head || v->head_at)
		return;
	v->problems++;
	last_take(v, &last);
	if (v->n)
		(void)printf(
			"%s:%llu: the tail was cut off or rewritten: the head %.16s... that was "
			"kept is not in the log, which ends here at %s\n",
			v->l->log[p->log].name, (unsigned long long)p->line, v->head, last.ts);
	else
		(void)printf("the head %.16s... that was kept is not in the log, which is empty\n",
			     v->head);
}

static void sum_up(const struct verify *v, uint64_t tail)
{
	const unsigned long long n = v->n;

	if (v->tears > 0)
		(void)printf("%llu torn line%s: the record after each tells of it\n",
			     (unsigned long long)v->tears, v->tears == 1 ? "" : "s");
	if (tail > 0)
		(void)printf(
			"%llu bytes at the end are no record: a writer is at work, or was killed\n",
			(unsigned long long)tail);
	if (v->head_at)
		(void)printf("%llu records since the head that was kept\n",
			     n - (unsigned long long)v->head_at);
	(void)printf("%llu records in %zu file%s: %s\n", n, v->l->n, v->l->n == 1 ? "" : "s",
		     v->problems ? "the chain does not hold" : "the chain holds");
}

/* ---- the two commands ---- */

static void verify_free(struct verify *v)
{
	if (v)
		free(v->faults);
	free(v);
}

static struct verify *verify_new(struct audit_logs *l, const char *head, bool judges, struct err *e)
{
	struct verify *v = calloc(1, sizeof(*v));

	if (v)
		v->faults = calloc(judges ? FAULTS_MAX : 1, sizeof(*v->faults));
	if (!v || !v->faults) {
		verify_free(v);
		(void)err_set(e, ENOMEM, "read the audit log");
		return NULL;
	}
	v->l = l;
	v->head = head;
	v->judges = judges;
	return v;
}

int audit_verify(struct audit_logs *l, const char *head, struct err *e)
{
	struct verify *v = verify_new(l, head, true, e);
	uint64_t tail = 0;
	int r = v ? read_all(v, on_first, e) : -ENOMEM;

	if (r == 0) {
		tail = v->tail;
		r = names_find(v, e);
	}
	if (r == 0) {
		faults_say(v);
		head_judge(v);
		sum_up(v, tail);
		r = v->problems > 0;
	}
	verify_free(v);
	return r;
}

int audit_head(struct audit_logs *l, struct err *e)
{
	struct verify *v = verify_new(l, NULL, false, e);
	int r = v ? read_all(v, on_first, e) : -ENOMEM;
	struct told last;

	if (r == 0 && v->n > 0) {
		last_take(v, &last);
		(void)printf("%.*s  %s  %s  %lld\n", CHAIN_HEX, v->last.hash.hex, last.ts, last.id,
			     (long long)last.seq);
	}
	r = r < 0 ? r : v->n == 0;
	verify_free(v);
	return r;
}
