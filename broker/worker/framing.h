/* SPDX-License-Identifier: ISC */
/* broker/worker/framing.h - where a message ends: http-parser, with a strict judge of chunks in
 * front of it. A frame is a value: copy it, try it on bytes that were only peeked at, and keep the
 * copy when all of them were passed on. Source: RFC 9112 sections 6 and 7. */
#ifndef WEIR_BROKER_WORKER_FRAMING_H
#define WEIR_BROKER_WORKER_FRAMING_H

#include <http_parser.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CHUNK_EXTRA_MAX 65536 /* bytes of chunk extensions in one message */

/** struct chunks - http-parser as Debian builds it takes any byte after a CR for the LF */
struct chunks {
	uint64_t left;	/* of the chunk's data */
	uint32_t extra; /* bytes of extensions so far */
	uint8_t state, digits;
};

struct frame {
	http_parser parser;
	struct chunks chunks;
	bool is_done;	 /* the message's last byte was seen */
	bool is_to_eof;	 /* a response that ends when the connection does */
	bool is_no_body; /* the answer to HEAD */
	bool is_kept;	 /* the peer will take (or send) another message on this connection */
	bool is_head_seen;
	bool is_trailing; /* the next byte is a trailer's: frame_trailers() goes on, not frame_body() */
};

/** frame_request() - begin with the head as the origin will see it. Return: 0, or -EBADMSG */
int frame_request(struct frame *f, const char *head, size_t n);
/** frame_response() - begin with the origin's head. @is_no_body: the request was HEAD.
 * Return: 0, or -EBADMSG */
int frame_response(struct frame *f, const char *head, size_t n, bool is_no_body);
/** frame_body() - go on with body bytes
 * Return: how many of the @n belong to this message's body (then f->is_done or f->is_trailing may be
 * set), or -EBADMSG */
ssize_t frame_body(struct frame *f, const char *p, size_t n);
/** frame_trailers() - end with the @n bytes of all trailers, blank line included, in which
 * head_scan_trailers() found no fault. Return: 0, or -EBADMSG */
int frame_trailers(struct frame *f, const char *p, size_t n);

#endif
