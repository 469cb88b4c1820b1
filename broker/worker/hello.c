/* SPDX-License-Identifier: ISC */
/* broker/worker/hello.c - which server a TLS ClientHello names.
 * Every byte is hostile. Two passes: records() finds where the message ends and judges each record
 * on the way, then a cursor reads the complete message across them. Cost: no byte is looked at anew
 * before those that were missing are there.
 * A hello that breaks a rule is refused, whatever the server might make of it: two readers that see
 * two names are the one thing that must not be. */
#include "broker/worker/hello.h"

#include <string.h>
#include <strings.h>

#define RECORD_HEAD 5
#define RECORD_MAX 16384 /* RFC 8446 section 5.1 */
#define MESSAGE_HEAD 4
#define CLIENT_HELLO 1
#define EXT_SERVER_NAME 0
#define NAME_TYPE_HOST 0
#define RANDOM_LEN 32
#define SESSION_ID_MAX 32

static enum hello_verdict more(struct hello *h, size_t need)
{
	h->need = need;
	return need > HELLO_WIRE_MAX ? HELLO_BAD : HELLO_MORE;
}

/** struct message - the handshake message while its records are walked */
struct message {
	uint8_t head[MESSAGE_HEAD];
	size_t have; /* bytes of it in the records so far */
	size_t want; /* its length; MESSAGE_HEAD until that is known */
};

static enum hello_verdict message_head(struct message *m)
{
	if (m->head[0] != CLIENT_HELLO)
		return HELLO_BAD;
	m->want = MESSAGE_HEAD + ((size_t)m->head[1] << 16 | (size_t)m->head[2] << 8 | m->head[3]);
	return m->want > HELLO_MAX ? HELLO_BAD : HELLO_OK;
}

/* One record of @len bytes whose first @n are at @p. Return: HELLO_MORE: the message goes on */
static enum hello_verdict message_add(struct message *m, const uint8_t *p, size_t n, size_t len)
{
	bool is_head_done = m->have >= MESSAGE_HEAD;

	if (m->have == 0 && n > 0 && p[0] != CLIENT_HELLO)
		return HELLO_BAD;
	for (size_t i = 0; m->have + i < MESSAGE_HEAD && i < n; i++)
		m->head[m->have + i] = p[i];
	if (!is_head_done && m->have + n >= MESSAGE_HEAD && message_head(m) != HELLO_OK)
		return HELLO_BAD;
	return m->have + len >= m->want ? HELLO_OK : HELLO_MORE;
}

/* Return: HELLO_OK with @len: the message is complete and this long, head included */
static enum hello_verdict records(const uint8_t *p, size_t n, struct hello *h, size_t *len)
{
	struct message m = { .want = MESSAGE_HEAD };
	enum hello_verdict v;
	size_t at = 0, size, there;

	for (;;) {
		const uint8_t *r = p + at;

		if ((n > at && r[0] != HELLO_FIRST_BYTE) || (n > at + 1 && r[1] != 3))
			return HELLO_BAD;
		if (n < at + RECORD_HEAD)
			return more(h, at + RECORD_HEAD);
		size = (size_t)r[3] << 8 | r[4];
		if (size == 0 || size > RECORD_MAX)
			return HELLO_BAD;
		there = n - at - RECORD_HEAD < size ? n - at - RECORD_HEAD : size;
		v = message_add(&m, r + RECORD_HEAD, there, size);
		if (v == HELLO_BAD)
			return v;
		if (v == HELLO_OK) { /* it ends in this record, as far as is known */
			size = m.want - m.have;
			if (there < size)
				return more(h, at + RECORD_HEAD + size);
			*len = m.want;
			return HELLO_OK;
		}
		at += RECORD_HEAD + size;
		if (n < at)
			return more(h, at);
		m.have += size;
	}
}

/** struct cursor - reads a complete message; after the first failure every read gives zero */
struct cursor {
	const uint8_t *p;
	size_t record; /* bytes left in this record */
	size_t left;   /* in the message */
	bool is_bad;
};

static size_t cursor_span(struct cursor *c)
{
	if (c->record == 0) {
		c->record = (size_t)c->p[3] << 8 | c->p[4];
		c->p += RECORD_HEAD;
	}
	return c->record < c->left ? c->record : c->left;
}

/* @out may be NULL */
static void cursor_take(struct cursor *c, uint8_t *out, size_t n)
{
	if (n > c->left)
		c->is_bad = true;
	if (c->is_bad) {
		if (out)
			memset(out, 0, n);
		return;
	}
	while (n > 0) {
		size_t k = cursor_span(c);

		if (k > n)
			k = n;
		if (out) {
			memcpy(out, c->p, k);
			out += k;
		}
		c->p += k;
		c->record -= k;
		c->left -= k;
		n -= k;
	}
}

static unsigned cursor_u8(struct cursor *c)
{
	uint8_t v;

	cursor_take(c, &v, 1);
	return v;
}

static unsigned cursor_u16(struct cursor *c)
{
	uint8_t v[2];

	cursor_take(c, v, 2);
	return (unsigned)v[0] << 8 | v[1];
}

/* The extension's @len bytes: a list with exactly one name. */
static void server_name(struct cursor *c, unsigned len, struct hello *h)
{
	unsigned list = cursor_u16(c), type = cursor_u8(c), n = cursor_u16(c);

	if (len < 5 || list != len - 2 || n != list - 3 || type != NAME_TYPE_HOST || n == 0 ||
	    n > HELLO_NAME_MAX || h->name_len > 0) {
		c->is_bad = true;
		return;
	}
	cursor_take(c, (uint8_t *)h->name, n);
	h->name_len = (uint8_t)n;
	if (memchr(h->name, '\0', n))
		c->is_bad = true;
}

static void extensions(struct cursor *c, struct hello *h)
{
	if (cursor_u16(c) != c->left)
		c->is_bad = true;
	while (!c->is_bad && c->left > 0) {
		unsigned type = cursor_u16(c), len = cursor_u16(c);

		if (type == EXT_SERVER_NAME)
			server_name(c, len, h);
		else
			cursor_take(c, NULL, len);
	}
}

enum hello_verdict hello_scan(const uint8_t *p, size_t n, struct hello *h)
{
	struct cursor c = { .p = p };
	enum hello_verdict v;
	unsigned len;

	h->need = 0;
	h->name_len = 0;
	v = records(p, n, h, &c.left);
	if (v != HELLO_OK)
		return v;
	cursor_take(&c, NULL, MESSAGE_HEAD + 2 + RANDOM_LEN);
	len = cursor_u8(&c);
	if (len > SESSION_ID_MAX)
		return HELLO_BAD;
	cursor_take(&c, NULL, len);
	len = cursor_u16(&c);
	if (len < 2 || len % 2 != 0)
		return HELLO_BAD;
	cursor_take(&c, NULL, len);
	len = cursor_u8(&c);
	if (len == 0)
		return HELLO_BAD;
	cursor_take(&c, NULL, len);
	if (!c.is_bad && c.left > 0) /* TLS 1.2 and older may have none */
		extensions(&c, h);
	return c.is_bad ? HELLO_BAD : HELLO_OK;
}

bool hello_names(const struct hello *h, const char *host)
{
	size_t n = h->name_len;

	if (n > 1 && h->name[n - 1] == '.')
		n--;
	return n > 0 && strlen(host) == n && strncasecmp(h->name, host, n) == 0;
}
