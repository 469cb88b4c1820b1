/* SPDX-License-Identifier: ISC */
/* broker/worker/framing.c - where a message ends: http-parser, with a strict judge of chunks in
 * front of it. Every byte is hostile; when the two disagree on the end, the message is refused.
 *   chunks: SIZE -> [EXT ->] SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE … 0: LAST -> END_LF -> OVER
 *           LAST, and no empty line: TRAILERS, which are waited for as a whole, like a head -> OVER */
#include "broker/worker/framing.h"

#include <errno.h>
#include <string.h>

enum chunk_state {
	CHUNK_SIZE,
	CHUNK_EXT,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	CHUNK_LAST,
	CHUNK_END_LF,
	CHUNK_TRAILERS,
	CHUNK_OVER,
};

#define SIZE_DIGITS_MAX 15 /* below 2^60 */

static int hex_value(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_text(unsigned char c)
{
	return (c >= ' ' && c != 0x7f) || c == '\t';
}

static int extra_byte(struct chunks *c, unsigned char b)
{
	return is_text(b) && ++c->extra <= CHUNK_EXTRA_MAX ? 0 : -EBADMSG;
}

static int size_byte(struct chunks *c, unsigned char b)
{
	int v = hex_value(b);

	if (v >= 0) {
		if (++c->digits > SIZE_DIGITS_MAX)
			return -EBADMSG;
		c->left = c->left << 4 | (unsigned)v;
		return 0;
	}
	if (c->digits == 0 || (b != '\r' && b != ';' && b != ' ' && b != '\t'))
		return -EBADMSG;
	c->state = b == '\r' ? CHUNK_SIZE_LF : CHUNK_EXT;
	return 0;
}

/* a byte that must be exactly @want */
static int expect(struct chunks *c, unsigned char b, char want, enum chunk_state next)
{
	if (b != (unsigned char)want)
		return -EBADMSG;
	c->state = (uint8_t)next;
	return 0;
}

/* The first byte behind the last chunk. A trailer's first one is looked at and not taken. */
static int last_byte(struct chunks *c, unsigned char b)
{
	if (b == '\r')
		c->state = CHUNK_END_LF;
	else if (b <= ' ' || b == ':' || b >= 0x7f)
		return -EBADMSG; /* a bare LF, folded, or a field without a name */
	else
		c->state = CHUNK_TRAILERS;
	return 0;
}

static int chunk_byte(struct chunks *c, unsigned char b)
{
	switch ((enum chunk_state)c->state) {
	case CHUNK_SIZE:
		return size_byte(c, b);
	case CHUNK_EXT:
		if (b != '\r')
			return extra_byte(c, b);
		c->state = CHUNK_SIZE_LF;
		return 0;
	case CHUNK_SIZE_LF:
		return expect(c, b, '\n', c->left ? CHUNK_DATA : CHUNK_LAST);
	case CHUNK_DATA_CR:
		return expect(c, b, '\r', CHUNK_DATA_LF);
	case CHUNK_DATA_LF:
		c->digits = 0;
		return expect(c, b, '\n', CHUNK_SIZE);
	case CHUNK_LAST:
		return last_byte(c, b);
	case CHUNK_END_LF:
		return expect(c, b, '\n', CHUNK_OVER);
	case CHUNK_DATA:
	case CHUNK_TRAILERS:
	case CHUNK_OVER:
		break;
	}
	return -EBADMSG;
}

/* Return: bytes of the body among @n, or -EBADMSG */
static ssize_t chunks_scan(struct chunks *c, const char *p, size_t n)
{
	size_t at = 0;

	while (at < n && c->state != CHUNK_OVER) {
		if (c->state == CHUNK_DATA) {
			size_t take = c->left < n - at ? (size_t)c->left : n - at;

			at += take;
			c->left -= take;
			if (c->left == 0)
				c->state = CHUNK_DATA_CR;
		} else if (chunk_byte(c, (unsigned char)p[at]) < 0) {
			return -EBADMSG;
		} else if (c->state == CHUNK_TRAILERS) {
			break;
		} else {
			at++;
		}
	}
	return (ssize_t)at;
}

/* RFC 9112 section 6.3: whatever their fields say, these have no body. */
static bool never_has_body(const http_parser *p)
{
	return p->type == HTTP_RESPONSE &&
	       (p->status_code < 200 || p->status_code == 204 || p->status_code == 304);
}

static int on_headers_complete(http_parser *p)
{
	struct frame *f = p->data;

	f->is_head_seen = true;
	f->is_kept = http_should_keep_alive(p) != 0;
	return f->is_no_body || never_has_body(p) ? 1 : 0;
}

static int on_message_complete(http_parser *p)
{
	struct frame *f = p->data;

	f->is_done = true;
	http_parser_pause(p, 1);
	return 0;
}

static const http_parser_settings settings = {
	.on_headers_complete = on_headers_complete,
	.on_message_complete = on_message_complete,
};

/* Return: bytes the parser took, or -EBADMSG */
static ssize_t execute(struct frame *f, const char *p, size_t n)
{
	size_t took;
	enum http_errno e;

	f->parser.data = f;
	took = http_parser_execute(&f->parser, &settings, p, n);
	f->parser.data = NULL; /* a copy of this frame must not point back here */
	e = HTTP_PARSER_ERRNO(&f->parser);
	if (e != HPE_OK && !(e == HPE_PAUSED && f->is_done))
		return -EBADMSG;
	return (ssize_t)took;
}

static int begin(struct frame *f, enum http_parser_type type, const char *head, size_t n)
{
	http_parser_init(&f->parser, type);
	if (execute(f, head, n) != (ssize_t)n || !f->is_head_seen)
		return -EBADMSG;
	return 0;
}

int frame_request(struct frame *f, const char *head, size_t n)
{
	*f = (struct frame){ 0 };
	return begin(f, HTTP_REQUEST, head, n);
}

int frame_response(struct frame *f, const char *head, size_t n, bool is_no_body)
{
	*f = (struct frame){ .is_no_body = is_no_body };
	if (begin(f, HTTP_RESPONSE, head, n) < 0)
		return -EBADMSG;
	f->is_to_eof = !f->is_done && !(f->parser.flags & (F_CHUNKED | F_CONTENTLENGTH));
	return 0;
}

/* The judge saw where these @n bytes end; http-parser must see the same. */
static int agree(struct frame *f, const char *p, size_t n)
{
	return execute(f, p, n) == (ssize_t)n && f->is_done == (f->chunks.state == CHUNK_OVER)
		       ? 0
		       : -EBADMSG;
}

ssize_t frame_body(struct frame *f, const char *p, size_t n)
{
	ssize_t took;

	if (f->is_done || f->is_trailing || n == 0)
		return 0;
	if (f->is_to_eof)
		return (ssize_t)n;
	if (!(f->parser.flags & F_CHUNKED))
		return execute(f, p, n);
	took = chunks_scan(&f->chunks, p, n);
	if (took < 0 || (took > 0 && agree(f, p, (size_t)took) < 0)) /* 0 bytes would be the end */
		return -EBADMSG;
	f->is_trailing = f->chunks.state == CHUNK_TRAILERS;
	return took;
}

int frame_trailers(struct frame *f, const char *p, size_t n)
{
	if (!f->is_trailing || n < 2)
		return -EBADMSG;
	f->is_trailing = false;
	f->chunks.state = CHUNK_OVER;
	/* the empty line alone: http-parser would take a trailer for what frames the message */
	return agree(f, p + n - 2, 2);
}
