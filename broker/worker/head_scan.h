/* SPDX-License-Identifier: ISC */
/* broker/worker/head_scan.h - judge a raw HTTP/1 head before any parser sees a byte of it.
 * http-parser forgives bare LF, folding, blank lines in front and odd versions without a trace in
 * its callbacks; what is read two ways by two programs is refused here.
 * Pure: no state, no system call; fuzzed. Source: RFC 9112 sections 2-6. */
#ifndef WEIR_BROKER_WORKER_HEAD_SCAN_H
#define WEIR_BROKER_WORKER_HEAD_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAD_MAX 65536 /* bytes of a head, blank line included */

struct slice {
	const char *p;
	size_t n;
};

/* Real clients name two or three. Each field is held against each name: unbounded, one head could
 * keep the worker busy for seconds. */
#define HEAD_NAMED_MAX 32
#define HEAD_FORWARDS_MAX 999999999

/** struct head - a head that was found well formed; points into the scanned bytes */
struct head {
	struct slice method, target; /* of a request */
	struct slice line;	     /* the first line without its CRLF */
	unsigned status;	     /* of a response, 100-999 */
	unsigned minor;		     /* HTTP/1.minor, 0 or 1 */
	bool has_length;	     /* one Content-Length of 1-18 digits */
	bool has_coding;	     /* a Transfer-Encoding */
	bool is_chunked;	     /* and it is chunked, no other before it */
	const char *fields, *end;    /* first field line; the blank line */
	/* what Connection and Proxy-Connection name besides close and keep-alive */
	struct slice named[HEAD_NAMED_MAX];
	size_t nnamed;
};

enum head_fault {
	HEAD_OK,
	HEAD_BAD_LINE, /* not METHOD SP TARGET SP VERSION, or not a status line */
	HEAD_BAD_VERSION,
	HEAD_BARE_LF,
	HEAD_BARE_CR,
	HEAD_CONTROL, /* a byte that no head may hold */
	HEAD_FOLDED,
	HEAD_BAD_FIELD, /* no colon, an empty name, a space before the colon */
	HEAD_TWO_HOSTS,
	HEAD_BAD_LENGTH, /* more than one Content-Length, or not a number */
	HEAD_BAD_CODING, /* of a request: not "chunked", or two of them, or in HTTP/1.0 */
	HEAD_LENGTH_AND_CODING,
	HEAD_MANY_NAMED, /* more than HEAD_NAMED_MAX */
	HEAD_FAULT_COUNT
};

/** head_fault_text() - "a bare LF", …: completes "the head has …" */
const char *head_fault_text(enum head_fault f);

/** head_end() - where the head that starts at @p ends: behind its first blank line, however that
 * line is spelled (LF LF too, so that a malformed head is judged and not waited for)
 * @from: bytes already looked at by an earlier call with the same @p
 * Return: the length of the head, 0 while it is incomplete */
size_t head_end(const char *p, size_t n, size_t from);

/** head_scan_request() / head_scan_response() - judge the @n bytes that head_end() measured
 * Return: HEAD_OK with @h filled in, or the first fault with @h unspecified */
enum head_fault head_scan_request(const char *p, size_t n, struct head *h);
enum head_fault head_scan_response(const char *p, size_t n, struct head *h);
/** head_scan_trailers() - judge the fields behind the last chunk, blank line included, by the same
 * rules. Only @h's fields and end are filled in: none of them says anything about the message.
 * Source: RFC 9112 section 7.1.2 */
enum head_fault head_scan_trailers(const char *p, size_t n, struct head *h);

/** head_max_forwards() - how far a TRACE or OPTIONS request may still go (RFC 9110 section 7.6.2)
 * Return: 0 to HEAD_FORWARDS_MAX, larger values as that; -ENOENT: it says nothing, or another method;
 *	   -EINVAL: not a number, or said twice */
int head_max_forwards(const struct head *h);

/** head_next() - the field line at *@at (start with h->fields); value without outer blanks
 * @whole: the line with its CRLF; may be NULL
 * Return: false behind the last one */
bool head_next(const struct head *h, const char **at, struct slice *name, struct slice *value,
	       struct slice *whole);

/** slice_is() - compare without case. @text: lower case or not, a C string */
bool slice_is(struct slice s, const char *text);
/** slice_next_token() - take the next element off a comma-separated list, blanks and empty elements
 * skipped. Return: false when there is none */
bool slice_next_token(struct slice *list, struct slice *token);
/** head_has_token() - is @token in any field called @name? */
bool head_has_token(const struct head *h, const char *name, const char *token);
/** head_is_upgrade() - does a request ask for another protocol, in a way that is passed on? */
bool head_is_upgrade(const struct head *h);

#endif
