/* SPDX-License-Identifier: ISC */
/* broker/monitor/audit_socket.c - records to the system's log: syslog by RFC 5424, or the journal by
 * its native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL). The record goes whole, and its plain
 * members once more as structured data, escaped to printable ASCII and then for where they stand. */
#include "broker/monitor/audit_socket.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker/monitor/audit.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/scope.h"

#define SEND_MAX (3 * AUDIT_RECORD_MAX)
#define SD_ID "weir@32473" /* RFC 5612: the number for what has none of its own */
#define FACILITY 10	   /* authpriv */

void audit_socket_init(struct audit_socket *s)
{
	*s = (struct audit_socket){ .fd = -1 };
}

static struct sockaddr_un address(const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	return at;
}

static int ask(bool journal, const char *path, struct err *e)
{
	SCOPED_FD int probe = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const struct sockaddr_un at = address(path);

	if (probe < 0)
		return err_set(e, errno, "make a socket for the audit log");
	if (connect(probe, (const struct sockaddr *)&at, sizeof(at)) == 0)
		return 0;
	(void)err_set(e, errno, "audit %s: reach '%s'", journal ? "journal" : "syslog", path);
	(void)err_fix(e, journal ? "apt install systemd, or 'audit FILE'"
				 : "apt install rsyslog, or 'audit FILE'");
	return -e->num;
}

/* One of a pair, which is to be had behind the lock too: what is sent names where it goes. */
int audit_socket_open(struct audit_socket *s, bool journal, bool asks, struct err *e)
{
	const char *path = journal ? JOURNAL_PATH : SYSLOG_PATH;
	int pair[2], r = asks ? ask(journal, path, e) : 0;

	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_set(e, errno, "make a socket for the audit log");
	(void)close(pair[1]);
	if (gethostname(s->host, sizeof(s->host)) < 0 || s->host[0] == '\0')
		(void)snprintf(s->host, sizeof(s->host), "-");
	s->host[sizeof(s->host) - 1] = '\0';
	s->path = path;
	s->is_journal = journal;
	s->fd = pair[0];
	return 0;
}

void audit_socket_close(struct audit_socket *s)
{
	scope_close(&s->fd);
	audit_socket_init(s);
}

/* ---- what is sent ---- */

struct out {
	char *buf;
	size_t len, room;
	bool bad;
};

static void put(struct out *o, const char *s, size_t len)
{
	if (o->bad || len > o->room - o->len) {
		o->bad = true;
		return;
	}
	memcpy(o->buf + o->len, s, len);
	o->len += len;
}

static void put_text(struct out *o, const char *s)
{
	put(o, s, strlen(s));
}

/* The plain members; a number is its digits. */
static const char *value_of(const json_t *v, char *buf, size_t room)
{
	if (json_is_string(v))
		(void)escape_text(buf, room, json_string_value(v), json_string_length(v));
	else if (json_is_integer(v))
		(void)snprintf(buf, room, "%lld", json_integer_value(v));
	else
		return NULL;
	return buf;
}

static void syslog_member(struct out *o, const char *key, const char *value)
{
	put_text(o, " ");
	put_text(o, key);
	put_text(o, "=\"");
	for (; *value; value++) {
		if (strchr("\"\\]", *value))
			put_text(o, "\\");
		put(o, value, 1);
	}
	put_text(o, "\"");
}

static void journal_member(struct out *o, const char *key, const char *value)
{
	put_text(o, "WEIR_");
	for (; *key; key++)
		put(o, &(char){ (char)toupper((unsigned char)*key) }, 1);
	put_text(o, "=");
	put_text(o, value);
	put_text(o, "\n");
}

static void members(struct out *o, json_t *record,
		    void (*member)(struct out *, const char *, const char *))
{
	char text[1024];
	const char *key;
	json_t *v;

	json_object_foreach(record, key, v)
	{
		const char *value = value_of(v, text, sizeof(text));

		if (value && strlen(key) <= 32)
			member(o, key, value);
	}
}

static const char *text_of(const json_t *record, const char *key)
{
	const char *s = json_string_value(json_object_get(record, key));

	return s ? s : "-";
}

static void syslog_put(const struct audit_socket *s, struct out *o, json_t *record)
{
	char head[512], event[33];
	bool is_denied = str_eq(text_of(record, "verdict"), "deny");

	(void)snprintf(event, sizeof(event), "%.32s", text_of(record, "event"));
	(void)snprintf(head, sizeof(head), "<%d>1 %.32s %.255s weir %s %s [" SD_ID,
		       FACILITY * 8 + (is_denied ? 5 : 6), text_of(record, "ts"), s->host,
		       text_of(record, "sandbox"), event);
	put_text(o, head);
	members(o, record, syslog_member);
	put_text(o, "] ");
}

static void journal_put(struct out *o, json_t *record)
{
	bool is_denied = str_eq(text_of(record, "verdict"), "deny");

	put_text(o, is_denied ? "PRIORITY=5\n" : "PRIORITY=6\n");
	put_text(o, "SYSLOG_IDENTIFIER=weir\nSYSLOG_FACILITY=10\n");
	members(o, record, journal_member);
	put_text(o, "MESSAGE=");
}

size_t audit_socket_format(const struct audit_socket *s, const char *line, size_t len, char *buf,
			   size_t room)
{
	struct out o = { .buf = buf, .room = room };
	json_t *record = json_loadb(line, len, 0, NULL);

	if (!record)
		return 0;
	if (s->is_journal)
		journal_put(&o, record);
	else
		syslog_put(s, &o, record);
	json_decref(record);
	put(&o, line, len);
	if (s->is_journal)
		put_text(&o, "\n");
	return o.bad ? 0 : o.len;
}

int audit_socket_send(const struct audit_socket *s, const char *line, size_t len)
{
	const struct sockaddr_un at = address(s->path);
	char buf[SEND_MAX];
	size_t n = audit_socket_format(s, line, len, buf, sizeof(buf));

	if (n == 0)
		return -EMSGSIZE;
	return sendto(s->fd, buf, n, MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&at,
		      sizeof(at)) < 0
		       ? -errno
		       : 0;
}
