/* SPDX-License-Identifier: ISC */
/* broker/monitor/audit.c - the audit log: records, and those that wait to be written.
 * Hosts were typed by strangers: what is not plainly safe is escaped by jansson, and only ASCII leaves
 * here. A record waits as an object whose brace is open; "seq", "prev" and "hash" are put when it is
 * written, because other sandboxes write the same chain.
 * Memory: one buffer for what waits, which grows to AUDIT_QUEUE_MAX records while the lock is held by
 * another, and one for a write. */
#include "broker/monitor/audit.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "broker/monitor/audit_file.h"
#include "broker/monitor/audit_socket.h"
#include "broker/monitor/json_line.h"
#include "broker/monitor/who.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/scope.h"
#include "policy/policy.h"

#define WAIT_BYTES (4 * AUDIT_RECORD_MAX) /* of what waits; more only while the lock is not had */
#define OUT_BYTES (8 * AUDIT_RECORD_MAX)  /* of one write */
#define TURN_MAX 64			  /* records that wait for the end of a turn */
#define SEQ_BYTES 28			  /* ,"seq": and its digits */
#define BODY_MAX (AUDIT_RECORD_MAX - CHAIN_BYTES - SEQ_BYTES - 1)

struct audit {
	const char *sandbox;
	bool off;
	bool decided; /* there is a record besides those of the start and the end of the run */
	struct audit_file file;
	struct audit_socket sock; /* instead of the file; its chain is this sandbox's alone */
	uint64_t seq, lost, lost_told, generation;
	int why;    /* errno of the first loss */
	char *wait; /* lines without their ends, each with a LF */
	size_t wait_len, wait_room, queued;
	char *out;
	size_t out_len, out_lines;
	struct json_line who; /* "sandbox" and "name", as every record has them */
	char who_text[256];
	time_t second;
	char second_text[32]; /* the same in words */
};

/* ---- life ---- */

struct audit *audit_new(const char *sandbox, const char *name, bool off)
{
	struct audit *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	audit_file_init(&a->file);
	audit_socket_init(&a->sock);
	a->sandbox = sandbox;
	a->off = off;
	a->who = (struct json_line){ .buf = a->who_text, .room = sizeof(a->who_text) };
	JL_TEXT(&a->who, "sandbox", sandbox);
	JL_TEXT(&a->who, "name", name);
	a->out = malloc(OUT_BYTES);
	a->wait = malloc(WAIT_BYTES);
	a->wait_room = WAIT_BYTES;
	if (a->out && a->wait && !a->who.bad)
		return a;
	audit_free(a);
	return NULL;
}

int audit_open_sink(struct audit *a, enum policy_audit_sink sink, const char *path, struct err *e)
{
	if (sink == AUDIT_SYSLOG || sink == AUDIT_JOURNAL)
		return audit_socket_open(&a->sock, sink == AUDIT_JOURNAL, true, e);
	return path ? audit_open(a, path, e) : 0;
}

int audit_open(struct audit *a, const char *path, struct err *e)
{
	int r = audit_file_open(&a->file, path, e);

	if (r < 0)
		audit_file_close(&a->file);
	return r;
}

void audit_switch(struct audit *a, bool off)
{
	if (off && !a->off)
		audit_flush(a);
	a->off = off;
}

void audit_generation(struct audit *a, uint64_t generation)
{
	a->generation = generation;
}

/* ---- a record ---- */

json_t *audit_text(const char *s)
{
	char safe[1024];
	json_t *j = json_string(s);

	if (j)
		return j;
	(void)escape_text(safe, sizeof(safe), s, strlen(s));
	return json_string(safe);
}

static void second_text(time_t now, char *buf, size_t room)
{
	struct tm tm;

	*buf = '\0';
	if (gmtime_r(&now, &tm))
		(void)strftime(buf, room, "%Y-%m-%dT%H:%M:%S", &tm);
}

const char *audit_time(char buf[AUDIT_TIME_MAX])
{
	struct timespec now;
	char second[32];

	(void)clock_gettime(CLOCK_REALTIME, &now);
	second_text(now.tv_sec, second, sizeof(second));
	(void)snprintf(buf, AUDIT_TIME_MAX, "%s.%06ldZ", second, now.tv_nsec / 1000);
	return buf;
}

/* The same; the words of a second are made once. */
static void time_put(struct audit *a, struct json_line *l)
{
	char us[] = ".000000Z\"";
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (now.tv_sec != a->second) {
		second_text(now.tv_sec, a->second_text, sizeof(a->second_text));
		a->second = now.tv_sec;
	}
	for (long n = now.tv_nsec / 1000, i = 6; i > 0; i--, n /= 10)
		us[i] = (char)('0' + n % 10);
	JL_PUT(l, ",\"ts\":\"");
	jl_put(l, a->second_text, strlen(a->second_text));
	JL_PUT(l, us);
}

static void rule_put(struct json_line *l, const struct policy_rule *r)
{
	JL_PUT(l, ",\"rule\":{\"file\":");
	jl_string(l, r->origin->file);
	if (r->origin->line > 0)
		JL_NUMBER(l, "line", r->origin->line);
	JL_TEXT(l, "text", r->origin->text);
	JL_PUT(l, "}");
}

static void id_put(const struct audit *a, struct json_line *l, uint64_t serial)
{
	JL_PUT(l, ",\"id\":\"");
	jl_put(l, a->sandbox, strlen(a->sandbox));
	JL_PUT(l, ".");
	jl_number(l, serial);
	JL_PUT(l, "\"");
}

static void client_put(struct json_line *l, const struct who *w)
{
	JL_PUT(l, ",\"client\":{\"pid\":");
	jl_number(l, w->pid);
	JL_TEXT(l, "exe", w->exe);
	JL_TEXT(l, "argv0", w->argv0);
	JL_PUT(l, "}");
}

static void counts_put(struct json_line *l, const struct audit_record *rec)
{
	JL_NUMBER(l, "up", rec->up);
	JL_NUMBER(l, "down", rec->down);
	JL_NUMBER(l, "requests", rec->requests);
	JL_NUMBER(l, "ms", rec->ms);
}

static void record_put(struct audit *a, struct json_line *l, const struct audit_record *rec)
{
	char text[ADDR_TEXT_MAX];

	JL_PUT(l, "{\"v\":");
	jl_number(l, AUDIT_VERSION);
	time_put(a, l);
	if (rec->serial > 0)
		id_put(a, l, rec->serial);
	jl_put(l, a->who.buf, a->who.len);
	JL_TEXT(l, "event", rec->event);
	JL_TEXT(l, "proto", rec->proto);
	JL_TEXT(l, "host", rec->host);
	if (rec->port > 0)
		JL_NUMBER(l, "port", rec->port);
	if (rec->addr && rec->addr->family)
		JL_TEXT(l, "addr", addr_format(rec->addr, text));
	JL_TEXT(l, "sni", rec->sni);
	JL_TEXT(l, "verdict", rec->verdict);
	if (rec->reason != REASON_NONE)
		JL_TEXT(l, "reason", reason_name(rec->reason));
	if (rec->rule)
		rule_put(l, rec->rule);
	if (rec->client && rec->client->pid)
		client_put(l, rec->client);
	JL_TEXT(l, "approval", rec->approval);
	if (rec->counts)
		counts_put(l, rec);
	jl_members(l, rec->extra);
	if (a->generation > 0)
		JL_NUMBER(l, "generation", a->generation);
}

/* ---- one write; the lock is held ---- */

static void lose(struct audit *a, uint64_t n, int why)
{
	if (a->lost == 0)
		a->why = why;
	a->lost += n;
}

/* The end of a line whose body stands in the buffer. */
static void out_close(struct audit *a, size_t body)
{
	struct json_line l = { .buf = a->out + a->out_len, .len = body, .room = AUDIT_RECORD_MAX };

	a->seq++;
	JL_NUMBER(&l, "seq", a->seq);
	a->out_len += chain_close(l.buf, l.len, a->file.link);
	a->out[a->out_len++] = '\n';
	a->out_lines++;
}

static void out_body(struct audit *a, const char *body, size_t len)
{
	memcpy(a->out + a->out_len, body, len);
	out_close(a, len);
}

static void out_event(struct audit *a, const char *event, const char *extra)
{
	const struct audit_record rec = { .event = event };
	struct json_line l = { .buf = a->out + a->out_len, .room = BODY_MAX };

	record_put(a, &l, &rec);
	jl_put(&l, extra, strlen(extra));
	if (!l.bad)
		out_close(a, l.len);
}

/* What this process did not leave so, before its own records. */
static void out_found(struct audit *a, const struct audit_found *found)
{
	char text[2 * NAME_MAX];

	if (found->rotated) {
		struct json_line l = { .buf = text, .room = sizeof(text) - 1 };
		char name[NAME_MAX + 1];

		audit_file_old(&a->file, 1, name);
		JL_TEXT(&l, "file", name);
		text[l.bad ? 0 : l.len] = '\0';
		out_event(a, "rotate", text);
	}
	if (found->missing) {
		(void)snprintf(text, sizeof(text), ",\"expected\":\"%s\"", found->expected);
		out_event(a, "missing", text);
	}
	if (found->torn > 0) {
		(void)snprintf(text, sizeof(text), ",\"bytes\":%llu",
			       (unsigned long long)found->torn);
		out_event(a, "torn", text);
	}
	if (a->lost > a->lost_told) {
		(void)snprintf(text, sizeof(text), ",\"count\":%llu,\"errno\":%d",
			       (unsigned long long)(a->lost - a->lost_told), a->why);
		out_event(a, "lost", text);
	}
}

static size_t count_lines(const char *text, size_t len)
{
	size_t n = 0;

	for (const char *p = text; (p = memchr(p, '\n', len - (size_t)(p - text))); p++)
		n++;
	return n;
}

/* A datagram a record. Return: 0, or -errno with @kept bytes of lines that were taken */
static int sock_put(struct audit *a, size_t *kept)
{
	const char *p = a->out, *end = a->out + a->out_len;
	int r = 0;

	for (*kept = 0; r == 0 && p < end; *kept = (size_t)(p - a->out)) {
		const char *lf = memchr(p, '\n', (size_t)(end - p));

		r = audit_socket_send(&a->sock, p, (size_t)(lf - p));
		if (r == 0)
			p = lf + 1;
	}
	return r;
}

/* What is in the buffer goes out; the link is that of the last line on file.
 * Return: 0, or -errno with @lines lines on file */
static int out_put(struct audit *a, const char before[CHAIN_HEX + 1], size_t *lines)
{
	const char *prev, *hash;
	size_t kept = 0;
	int r = a->sock.fd >= 0 ? sock_put(a, &kept)
				: audit_file_put(&a->file, a->out, a->out_len, &kept);

	*lines = a->out_lines;
	if (r < 0) {
		*lines = count_lines(a->out, kept);
		a->seq -= a->out_lines - *lines;
		memcpy(a->file.link, before, CHAIN_HEX + 1);
		if (kept > 0) {
			const char *lf = memrchr(a->out, '\n', kept - 1);
			const char *last = lf ? lf + 1 : a->out;

			if (chain_find(last, (size_t)(a->out + kept - last) - 1, &prev, &hash))
				memcpy(a->file.link, hash, CHAIN_HEX);
		}
	}
	a->out_len = a->out_lines = 0;
	return r;
}

/* All that waits. Return: 0, or -errno with @left: records that are not on file */
static int out_all(struct audit *a, const struct audit_found *found, size_t *left)
{
	char before[CHAIN_HEX + 1];
	const char *p = a->wait, *end = a->wait + a->wait_len;
	uint64_t lost = a->lost;
	size_t own, lines;
	int r = 0;

	memcpy(before, a->file.link, sizeof(before));
	out_found(a, found);
	own = a->out_lines;
	*left = a->queued;
	while (r == 0 && (p < end || a->out_len > 0)) {
		while (p < end && OUT_BYTES - a->out_len >= AUDIT_RECORD_MAX) {
			const char *lf = memchr(p, '\n', (size_t)(end - p));

			out_body(a, p, (size_t)(lf - p));
			p = lf + 1;
		}
		r = out_put(a, before, &lines);
		memcpy(before, a->file.link, sizeof(before));
		if (lines >= own)
			a->lost_told = lost;
		*left -= lines > own ? lines - own : 0;
		own = 0;
	}
	return r;
}

static void wait_clear(struct audit *a)
{
	a->wait_len = a->queued = 0;
	if (a->wait_room > WAIT_BYTES) {
		char *small = realloc(a->wait, WAIT_BYTES);

		if (!small)
			return; /* it stays large */
		a->wait = small;
		a->wait_room = WAIT_BYTES;
	}
}

static int begin(struct audit *a, long wait_ms, struct audit_found *found)
{
	*found = (struct audit_found){ 0 };
	if (a->sock.fd >= 0)
		return 0;
	return audit_file_begin(&a->file, wait_ms,
				a->wait_len + a->queued * (CHAIN_BYTES + SEQ_BYTES), found);
}

/* Return: 0; -EAGAIN when another holds the lock: all of it waits on; -errno: what is not on file is
 * lost, the last record uncounted when the caller hears of it (@must) */
static int wait_write(struct audit *a, long wait_ms, bool must)
{
	struct audit_found found;
	size_t left = a->queued;
	int r;

	if (a->queued == 0)
		return 0;
	r = begin(a, wait_ms, &found);
	if (r == -EAGAIN)
		return r;
	if (r == 0) {
		r = out_all(a, &found, &left);
		if (a->sock.fd < 0)
			audit_file_end(&a->file);
	}
	if (r < 0) {
		/* without a file the cause was told at the start */
		lose(a, left - (must && left > 0), a->file.fd < 0 && a->sock.fd < 0 ? 0 : -r);
		a->seq += left - (must && left > 0);
	}
	wait_clear(a);
	return r;
}

/* ---- what waits ---- */

size_t audit_queued(const struct audit *a)
{
	return a->queued;
}

size_t audit_retry(struct audit *a)
{
	(void)wait_write(a, 0, false);
	return a->queued;
}

void audit_flush(struct audit *a)
{
	(void)wait_write(a, AUDIT_LOCK_MS, false);
}

static bool wait_grow(struct audit *a)
{
	size_t room = a->wait_room * 2;
	char *more;

	if (a->wait_room - a->wait_len >= AUDIT_RECORD_MAX)
		return true;
	more = realloc(a->wait, room);
	if (!more)
		return false;
	a->wait = more;
	a->wait_room = room;
	return true;
}

/* Return: 0, or -errno: a line that does not fit is no line */
static int wait_add(struct audit *a, const struct audit_record *rec)
{
	struct json_line l;

	if (a->queued >= AUDIT_QUEUE_MAX)
		return -EAGAIN;
	if (!wait_grow(a))
		return -ENOMEM;
	l = (struct json_line){ .buf = a->wait + a->wait_len, .room = BODY_MAX };
	record_put(a, &l, rec);
	if (l.bad)
		return -EMSGSIZE;
	l.buf[l.len++] = '\n';
	a->wait_len += l.len;
	a->queued++;
	return 0;
}

static int must_write(struct audit *a, size_t before)
{
	int r = wait_write(a, AUDIT_LOCK_MS, true);

	if (r == -EAGAIN) {
		a->wait_len = before;
		a->queued--;
	}
	return r;
}

int audit_write(struct audit *a, const struct audit_record *rec, bool must)
{
	size_t before = a->wait_len;
	int r = a->off ? 0 : wait_add(a, rec);

	json_decref(rec->extra);
	if (a->off)
		return 0;
	a->decided |= !str_eq(rec->event, "start") && !str_eq(rec->event, "exit");
	if (r == 0 && must)
		return must_write(a, before);
	if (r < 0 && must)
		return r;
	if (r < 0) {
		lose(a, 1, -r);
		a->seq++;
	}
	if (a->queued >= TURN_MAX && !a->file.busy)
		audit_flush(a);
	return 0;
}

/* ---- another place ---- */

/* The old place, once what waits for it is written. */
static void place_leave(struct audit *a, const char *to)
{
	const struct audit_record last = { .event = "audit_moved",
					   .extra = json_pack("{s:o}", "to", audit_text(to)) };

	if (a->off || (a->file.fd < 0 && a->sock.fd < 0))
		json_decref(last.extra);
	else
		(void)audit_write(a, &last, false);
	audit_flush(a);
	if (audit_file_sync(&a->file) < 0)
		lose(a, 1, EIO);
	audit_file_close(&a->file);
	audit_socket_close(&a->sock);
}

int audit_move(struct audit *a, enum policy_audit_sink sink, const char *path, const char *to,
	       struct err *e)
{
	struct audit_socket sock;
	struct audit_file file;
	int r;

	audit_socket_init(&sock);
	audit_file_init(&file);
	if (sink == AUDIT_FILE)
		r = audit_file_open(&file, path, e);
	else
		r = audit_socket_open(&sock, sink == AUDIT_JOURNAL, false, e);
	if (r < 0) {
		audit_file_close(&file);
		return r;
	}
	place_leave(a, to);
	a->file = file;
	a->sock = sock;
	return 0;
}

/* ---- the end ---- */

uint64_t audit_lost(const struct audit *a, int *why)
{
	if (why)
		*why = a->why;
	return a->lost;
}

uint64_t audit_close(struct audit *a, int *why)
{
	int r;

	a->file.busy = false;
	audit_flush(a);
	if (a->queued > 0)
		lose(a, a->queued, EAGAIN);
	wait_clear(a);
	/* that nothing was asked for need not outlive a loss of power; waiting for the disk costs more
	 * than the rest of a launch */
	r = a->decided ? audit_file_sync(&a->file) : 0;
	if (r < 0)
		lose(a, 1, -r);
	audit_file_close(&a->file);
	audit_socket_close(&a->sock);
	return audit_lost(a, why);
}

void audit_free(struct audit *a)
{
	if (!a)
		return;
	if (a->wait && a->out)
		(void)audit_close(a, NULL);
	free(a->wait);
	free(a->out);
	free(a);
}
