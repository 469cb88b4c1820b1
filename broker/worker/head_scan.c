/* SPDX-License-Identifier: ISC */
/* broker/worker/head_scan.c - judge a raw HTTP/1 head before any parser sees a byte of it.
 * Every byte is hostile; nothing behind p + n is read and nothing is kept. */
#include "broker/worker/head_scan.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define LENGTH_DIGITS_MAX 18 /* below 2^63 whatever the digits */

static const char *const fault_texts[] = {
	[HEAD_OK] = "no fault",
	[HEAD_BAD_LINE] = "a first line that is not METHOD TARGET VERSION",
	[HEAD_BAD_VERSION] = "a version that is neither HTTP/1.0 nor HTTP/1.1",
	[HEAD_BARE_LF] = "a bare LF",
	[HEAD_BARE_CR] = "a bare CR",
	[HEAD_CONTROL] = "a byte that may not be there",
	[HEAD_FOLDED] = "a folded header",
	[HEAD_BAD_FIELD] = "a header without a proper name",
	[HEAD_TWO_HOSTS] = "more than one Host",
	[HEAD_BAD_LENGTH] = "a bad Content-Length, or more than one",
	[HEAD_BAD_CODING] = "a Transfer-Encoding other than chunked",
	[HEAD_LENGTH_AND_CODING] = "both Content-Length and Transfer-Encoding",
	[HEAD_MANY_NAMED] = "a Connection header that names too many fields",
};
_Static_assert(sizeof(fault_texts) / sizeof(fault_texts[0]) == HEAD_FAULT_COUNT, "one text each");

const char *head_fault_text(enum head_fault f)
{
	return f < HEAD_FAULT_COUNT ? fault_texts[f] : "a fault";
}

size_t head_end(const char *p, size_t n, size_t from)
{
	size_t at = from > 3 ? from - 3 : 0;

	while (at < n) {
		const char *lf = memchr(p + at, '\n', n - at);

		if (!lf)
			return 0;
		at = (size_t)(lf - p) + 1;
		if (at < n && p[at] == '\n')
			return at + 1;
		if (at + 1 < n && p[at] == '\r' && p[at + 1] == '\n')
			return at + 2;
	}
	return 0;
}

/* RFC 9110 section 5.6.2 tchar */
static bool is_token_byte(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(struct slice s)
{
	if (s.n == 0)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		if (!is_token_byte((unsigned char)s.p[i]))
			return false;
	}
	return true;
}

bool slice_is(struct slice s, const char *text)
{
	return strlen(text) == s.n && strncasecmp(s.p, text, s.n) == 0;
}

static struct slice trim(struct slice s)
{
	while (s.n > 0 && (*s.p == ' ' || *s.p == '\t'))
		s = (struct slice){ s.p + 1, s.n - 1 };
	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

bool slice_next_token(struct slice *list, struct slice *token)
{
	while (list->n > 0) {
		const char *comma = memchr(list->p, ',', list->n);
		size_t n = comma ? (size_t)(comma - list->p) : list->n;

		*token = trim((struct slice){ list->p, n });
		n += comma != NULL;
		*list = (struct slice){ list->p + n, list->n - n };
		if (token->n > 0)
			return true;
	}
	return false;
}

/* Every CR before an LF, every LF after a CR, no control byte but HTAB. @is_high: are 0x80-0xff
 * fit to be there? Field values may hold them (RFC 9110 section 5.5 obs-text). */
static enum head_fault scan_line(const char *p, size_t n, bool is_high, struct slice *line)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c == '\r') {
			if (i + 1 >= n || p[i + 1] != '\n')
				return HEAD_BARE_CR;
			*line = (struct slice){ p, i };
			return HEAD_OK;
		}
		if (c == '\n')
			return HEAD_BARE_LF;
		if ((c < ' ' && c != '\t') || c == 0x7f || (c >= 0x80 && !is_high))
			return HEAD_CONTROL;
	}
	return HEAD_BARE_LF;
}

static enum head_fault scan_version(struct slice s, unsigned *minor)
{
	if (s.n != 8 || memcmp(s.p, "HTTP/1.", 7) != 0 || (s.p[7] != '0' && s.p[7] != '1'))
		return HEAD_BAD_VERSION;
	*minor = (unsigned)(s.p[7] - '0');
	return HEAD_OK;
}

static enum head_fault scan_request_line(struct head *h)
{
	struct slice l = h->line, version;
	const char *sp = memchr(l.p, ' ', l.n);

	if (!sp)
		return HEAD_BAD_LINE;
	h->method = (struct slice){ l.p, (size_t)(sp - l.p) };
	l = (struct slice){ sp + 1, l.n - h->method.n - 1 };
	sp = memchr(l.p, ' ', l.n);
	if (!is_token(h->method) || !sp || sp == l.p)
		return HEAD_BAD_LINE;
	h->target = (struct slice){ l.p, (size_t)(sp - l.p) };
	version = (struct slice){ sp + 1, l.n - h->target.n - 1 };
	if (memchr(h->target.p, '\t', h->target.n) || memchr(version.p, ' ', version.n))
		return HEAD_BAD_LINE;
	return scan_version(version, &h->minor);
}

static enum head_fault scan_status_line(struct head *h)
{
	struct slice l = h->line;

	if (l.n < 12 || l.p[8] != ' ')
		return HEAD_BAD_LINE;
	h->status = 0;
	for (size_t i = 9; i < 12; i++) {
		if (l.p[i] < '0' || l.p[i] > '9')
			return HEAD_BAD_LINE;
		h->status = h->status * 10 + (unsigned)(l.p[i] - '0');
	}
	if (h->status < 100 || (l.n > 12 && l.p[12] != ' '))
		return HEAD_BAD_LINE;
	return scan_version((struct slice){ l.p, 8 }, &h->minor);
}

static enum head_fault scan_connection(struct head *h, struct slice value)
{
	struct slice t;

	while (slice_next_token(&value, &t)) {
		if (slice_is(t, "close") || slice_is(t, "keep-alive"))
			continue;
		if (h->nnamed == HEAD_NAMED_MAX)
			return HEAD_MANY_NAMED;
		h->named[h->nnamed++] = t;
	}
	return HEAD_OK;
}

enum part { PART_REQUEST, PART_RESPONSE, PART_TRAILERS };

/* What decides where the message ends, and whom it is for, may be said once only; behind its body it
 * decides nothing, and goes no further. */
static enum head_fault scan_meaning(struct head *h, struct slice name, struct slice value,
				    enum part part, bool *has_host)
{
	bool is_request = part == PART_REQUEST;

	if (part == PART_TRAILERS)
		return HEAD_OK;
	if (slice_is(name, "content-length")) {
		if (h->has_length || value.n == 0 || value.n > LENGTH_DIGITS_MAX)
			return HEAD_BAD_LENGTH;
		for (size_t i = 0; i < value.n; i++) {
			if (value.p[i] < '0' || value.p[i] > '9')
				return HEAD_BAD_LENGTH;
		}
		h->has_length = true;
	} else if (slice_is(name, "transfer-encoding")) {
		h->is_chunked = slice_is(value, "chunked");
		if (h->has_coding || (is_request && (!h->is_chunked || h->minor == 0)))
			return HEAD_BAD_CODING;
		h->has_coding = true;
	} else if (slice_is(name, "host") && is_request) {
		if (*has_host)
			return HEAD_TWO_HOSTS;
		*has_host = true;
	} else if (slice_is(name, "connection") || slice_is(name, "proxy-connection")) {
		return scan_connection(h, value);
	}
	return h->has_length && h->has_coding ? HEAD_LENGTH_AND_CODING : HEAD_OK;
}

static enum head_fault scan_fields(const char *p, const char *stop, struct head *h, enum part part)
{
	bool has_host = false;

	h->fields = p;
	for (;;) {
		struct slice line = { NULL, 0 }, name;
		enum head_fault f = scan_line(p, (size_t)(stop - p), true, &line);
		const char *colon;

		if (f != HEAD_OK)
			return f;
		if (line.n == 0)
			break;
		if (*line.p == ' ' || *line.p == '\t')
			return HEAD_FOLDED;
		colon = memchr(line.p, ':', line.n);
		if (!colon)
			return HEAD_BAD_FIELD;
		name = (struct slice){ line.p, (size_t)(colon - line.p) };
		if (!is_token(name))
			return HEAD_BAD_FIELD;
		f = scan_meaning(h, name, trim((struct slice){ colon + 1, line.n - name.n - 1 }),
				 part, &has_host);
		if (f != HEAD_OK)
			return f;
		p = line.p + line.n + 2;
	}
	h->end = p;
	return p + 2 == stop ? HEAD_OK : HEAD_BAD_FIELD;
}

static enum head_fault scan(const char *p, size_t n, struct head *h, enum part part)
{
	bool is_request = part == PART_REQUEST;
	enum head_fault f;

	*h = (struct head){ 0 };
	f = scan_line(p, n, !is_request, &h->line);
	if (f == HEAD_OK && h->line.n == 0)
		f = HEAD_BAD_LINE;
	if (f == HEAD_OK)
		f = is_request ? scan_request_line(h) : scan_status_line(h);
	return f == HEAD_OK ? scan_fields(p + h->line.n + 2, p + n, h, part) : f;
}

enum head_fault head_scan_request(const char *p, size_t n, struct head *h)
{
	return scan(p, n, h, PART_REQUEST);
}

enum head_fault head_scan_response(const char *p, size_t n, struct head *h)
{
	return scan(p, n, h, PART_RESPONSE);
}

enum head_fault head_scan_trailers(const char *p, size_t n, struct head *h)
{
	*h = (struct head){ 0 };
	return scan_fields(p, p + n, h, PART_TRAILERS);
}

bool head_next(const struct head *h, const char **at, struct slice *name, struct slice *value,
	       struct slice *whole)
{
	const char *p = *at, *colon, *lf;

	if (p >= h->end)
		return false;
	colon = memchr(p, ':', (size_t)(h->end - p));
	lf = memchr(p, '\n', (size_t)(h->end - p));
	if (!colon || !lf || colon > lf)
		return false; /* cannot be: head_scan_*() saw it */
	*name = (struct slice){ p, (size_t)(colon - p) };
	*value = trim((struct slice){ colon + 1, (size_t)(lf - 1 - (colon + 1)) });
	if (whole)
		*whole = (struct slice){ p, (size_t)(lf + 1 - p) };
	*at = lf + 1;
	return true;
}

bool head_has_token(const struct head *h, const char *field, const char *token)
{
	const char *at = h->fields;
	struct slice name, value, t;

	while (head_next(h, &at, &name, &value, NULL)) {
		if (!slice_is(name, field))
			continue;
		while (slice_next_token(&value, &t)) {
			if (slice_is(t, token))
				return true;
		}
	}
	return false;
}

bool head_is_upgrade(const struct head *h)
{
	return h->minor == 1 && head_has_token(h, "connection", "upgrade") && !h->is_chunked &&
	       !h->has_length;
}

/* RFC 9110 section 7.6.2: 1*DIGIT */
static int forwards_of(struct slice value)
{
	int n = 0;

	if (value.n == 0)
		return -EINVAL;
	for (size_t i = 0; i < value.n; i++) {
		if (value.p[i] < '0' || value.p[i] > '9')
			return -EINVAL;
		n = n > HEAD_FORWARDS_MAX / 10 ? HEAD_FORWARDS_MAX : n * 10 + (value.p[i] - '0');
	}
	return n < HEAD_FORWARDS_MAX ? n : HEAD_FORWARDS_MAX;
}

int head_max_forwards(const struct head *h)
{
	const char *at = h->fields;
	struct slice name, value;
	int n = -ENOENT;

	if (!slice_is(h->method, "TRACE") && !slice_is(h->method, "OPTIONS"))
		return n;
	while (n != -EINVAL && head_next(h, &at, &name, &value, NULL)) {
		if (slice_is(name, "max-forwards"))
			n = n == -ENOENT ? forwards_of(value) : -EINVAL;
	}
	return n;
}
