/* SPDX-License-Identifier: ISC */
/* broker/worker/stub_wire.c - DNS messages as the stub of the transparent route reads and writes them.
 * Every byte of a query is hostile. Only what one stub resolver may send is taken: one question, at
 * most a few additional records behind it, among them one OPT. Pure: no socket, no clock. */
#include "broker/worker/stub_wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/addr.h"
#include "common/num.h"
#include "common/scope.h"

/* RFC 1035 section 3.2.2, 4.1.1; OPT RFC 6891; RFC 4034 has none of these */
#define HEAD_LEN 12
#define FLAG_QR 0x8000u
#define FLAG_OPCODE 0x7800u
#define FLAG_RD 0x0100u
#define FLAG_RA 0x0080u
#define FLAG_CD 0x0010u
#define TYPE_A 1
#define TYPE_PTR 12
#define TYPE_OPT 41
#define TYPE_ANY 255
#define CLASS_IN 1
#define LABEL_MAX 63
#define WIRE_NAME_MAX 255
#define ADDITIONAL_MAX 4
#define UDP_SIZE 1232 /* what we could take; answers are far below 512 */

/** struct cur - a cursor: after the first failure every read gives zero */
struct cur {
	const uint8_t *p, *end;
	bool bad;
};

static const uint8_t *take(struct cur *c, size_t n)
{
	const uint8_t *at = c->p;

	if (c->bad || (size_t)(c->end - c->p) < n) {
		c->bad = true;
		return NULL;
	}
	c->p += n;
	return at;
}

static uint8_t take8(struct cur *c)
{
	const uint8_t *p = take(c, 1);

	return p ? *p : 0;
}

static uint16_t take16(struct cur *c)
{
	const uint8_t *p = take(c, 2);

	if (!p)
		return 0;
	return (uint16_t)(p[0] << 8 | p[1]);
}

/* Any byte of a printable host name but the dot, which would hide where a label ends */
static bool label_byte(uint8_t b)
{
	return b > ' ' && b <= '~' && b != '.';
}

/* One name without compression, which no question has. @q: NULL: only passed over */
static void take_name(struct cur *c, struct stub_query *q)
{
	size_t at = 0, wire = 0;

	for (;;) {
		uint8_t len = take8(c);
		const uint8_t *label;

		wire += 1u + len;
		if (len > LABEL_MAX || wire > WIRE_NAME_MAX)
			c->bad = true;
		if (c->bad || len == 0)
			break;
		label = take(c, len);
		if (!q || !label)
			continue;
		if (at > 0)
			q->name[at++] = '.';
		memcpy(q->name + at, label, len);
		at += len;
		for (size_t i = 0; i < len; i++)
			q->is_bad |= !label_byte(label[i]);
	}
	if (!q)
		return;
	q->nname = (uint8_t)at; /* at most 253: each label counts one byte more on the wire */
	q->name[at] = '\0';
}

/* ---- names that are addresses ---- */

static bool ends_with(const char *s, size_t n, const char *end)
{
	size_t m = strlen(end);

	return n > m && strcasecmp(s + n - m, end) == 0;
}

/* "4.3.18.198.in-addr.arpa": the last byte comes first. Return: 0, or -EINVAL */
static int reverse4(const char *s, struct addr *a)
{
	*a = (struct addr){ .family = 4 };
	for (int i = 3; i >= 0; i--) {
		size_t n = strcspn(s, ".");
		uint64_t v;

		if (s[n] != '.' || num_u64_n(s, n, 0, 255, &v) < 0)
			return -EINVAL;
		a->b[i] = (uint8_t)v;
		s += n + 1;
	}
	return strcasecmp(s, "in-addr.arpa") == 0 ? 0 : -EINVAL;
}

/* "8.b.d.0. … .ip6.arpa": 32 digits, the last comes first */
static int reverse6(const char *s, struct addr *a)
{
	static const char digits[] = "0123456789abcdef";

	*a = (struct addr){ .family = 6 };
	for (size_t i = 32; i-- > 0; s += 2) {
		const char *d = *s ? strchr(digits, *s | 0x20) : NULL;

		if (!d || s[1] != '.')
			return -EINVAL;
		a->b[i / 2] |= (uint8_t)((d - digits) << (i % 2 ? 0 : 4));
	}
	return strcasecmp(s, "ip6.arpa") == 0 ? 0 : -EINVAL;
}

static void kind_find(struct stub_query *q)
{
	struct addr a;
	char text[ADDR_TEXT_MAX];
	int r;

	q->kind = q->type == TYPE_A || q->type == TYPE_ANY ? NAME_ADDR : NAME_OTHER;
	if (q->type != TYPE_PTR || q->is_bad)
		return;
	if (ends_with(q->name, q->nname, ".in-addr.arpa"))
		r = reverse4(q->name, &a);
	else
		r = ends_with(q->name, q->nname, ".ip6.arpa") ? reverse6(q->name, &a) : -EINVAL;
	if (r < 0)
		return;
	q->kind = NAME_REVERSE;
	(void)snprintf(q->name, sizeof(q->name), "%s", addr_format(&a, text));
	q->nname = (uint8_t)strlen(q->name);
}

/* ---- reading ---- */

/* What may stand behind the question. Return: an enum stub_rcode */
static int additional(struct cur *c, struct stub_query *q, unsigned n)
{
	int rcode = STUB_NOERROR;

	for (unsigned i = 0; i < n; i++) {
		bool is_root = c->p < c->end && *c->p == 0;
		uint16_t type;
		const uint8_t *ttl;

		take_name(c, NULL);
		type = take16(c);
		(void)take16(c);
		ttl = take(c, 4);
		(void)take(c, take16(c));
		if (type != TYPE_OPT || !ttl)
			continue;
		if (!is_root || q->has_opt)
			return STUB_FORMERR; /* RFC 6891 section 6.1.1 */
		q->has_opt = true;
		if (ttl[1] != 0)
			rcode = STUB_BADVERS;
	}
	return rcode;
}

int stub_parse(struct stub_query *q, const uint8_t *p, size_t n)
{
	struct cur c = { p, p + n, false };
	unsigned flags, counts[4];
	const uint8_t *question;
	uint16_t class;
	int rcode;

	memset(q, 0, offsetof(struct stub_query, name));
	q->name[0] = '\0';
	if (n < HEAD_LEN)
		return -EINVAL;
	q->id = take16(&c);
	flags = take16(&c);
	for (size_t i = 0; i < 4; i++)
		counts[i] = take16(&c);
	if (flags & FLAG_QR)
		return -EINVAL; /* an answer to an answer would be answered */
	q->is_rd = flags & FLAG_RD;
	q->is_cd = flags & FLAG_CD;
	if (flags & FLAG_OPCODE)
		return STUB_NOTIMP;
	/* several questions: RFC 9619 */
	if (counts[0] != 1 || counts[1] || counts[2] || counts[3] > ADDITIONAL_MAX)
		return STUB_FORMERR;
	question = c.p;
	take_name(&c, q);
	q->type = take16(&c);
	class = take16(&c);
	if (c.bad)
		return STUB_FORMERR;
	q->nquestion = (uint16_t)(c.p - question);
	memcpy(q->question, question, q->nquestion);
	rcode = additional(&c, q, counts[3]);
	if (c.bad || c.p != c.end)
		return STUB_FORMERR;
	if (rcode != STUB_NOERROR)
		return rcode;
	if (class != CLASS_IN)
		return STUB_REFUSED;
	kind_find(q);
	return STUB_NOERROR;
}

/* ---- writing ---- */

struct out {
	uint8_t *p;
	size_t n;
};

static void put8(struct out *o, unsigned v)
{
	o->p[o->n++] = (uint8_t)v;
}

static void put16(struct out *o, unsigned v)
{
	put8(o, v >> 8 & 0xff);
	put8(o, v & 0xff);
}

static void put32(struct out *o, uint32_t v)
{
	put16(o, v >> 16);
	put16(o, v & 0xffff);
}

/* A canonical name: labels of 1 to 63 bytes, 253 in all */
static void put_name(struct out *o, const char *host)
{
	while (*host) {
		size_t len = strcspn(host, ".");

		put8(o, (unsigned)len);
		memcpy(o->p + o->n, host, len);
		o->n += len;
		host += len + (host[len] == '.');
	}
	put8(o, 0);
}

static void put_record(struct out *o, unsigned type)
{
	put16(o, 0xc000 | HEAD_LEN); /* the question's own name, in its own case */
	put16(o, type);
	put16(o, CLASS_IN);
	put32(o, STUB_TTL);
}

static void put_opt(struct out *o, unsigned rcode)
{
	put8(o, 0);
	put16(o, TYPE_OPT);
	put16(o, UDP_SIZE);
	put32(o, (uint32_t)(rcode >> 4) << 24);
	put16(o, 0);
}

size_t stub_answer(uint8_t out[STUB_ANSWER_MAX], const struct stub_query *q, enum stub_rcode rcode,
		   uint32_t addr, const char *host)
{
	struct out o = { .p = out };
	const bool has_addr = rcode == STUB_NOERROR && addr && q->kind == NAME_ADDR;
	const bool has_host = rcode == STUB_NOERROR && host && q->kind == NAME_REVERSE;

	put16(&o, q->id);
	put16(&o, FLAG_QR | FLAG_RA | (q->is_rd ? FLAG_RD : 0) | (q->is_cd ? FLAG_CD : 0) |
			  ((unsigned)rcode & 0xf));
	put16(&o, q->nquestion > 0);
	put16(&o, has_addr || has_host);
	put16(&o, 0);
	put16(&o, q->has_opt);
	memcpy(o.p + o.n, q->question, q->nquestion);
	o.n += q->nquestion;
	if (has_addr) {
		put_record(&o, TYPE_A);
		put16(&o, 4);
		put32(&o, addr);
	} else if (has_host) {
		put_record(&o, TYPE_PTR);
		put16(&o, (unsigned)strlen(host) + 2);
		put_name(&o, host);
	}
	if (q->has_opt)
		put_opt(&o, rcode);
	return o.n;
}
