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

#define CHUNK_EXTRA_MAX 65536 /* bytes of chunk extensions and trailers in one message */

/** struct chunks - http-parser as Debian builds it takes any byte after a CR for the LF */
struct chunks {
	uint64_t left;	/* of the chunk's data */
	uint32_t extra; /* bytes of extensions and trailers so far */
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
};

/** frame_request() - begin with the head as the origin will see it. Return: 0, or -EBADMSG */
int frame_request(struct frame *f, const char *head, size_t n);
/** frame_response() - begin with the origin's head. @is_no_body: the request was HEAD.
 * Return: 0, or -EBADMSG */
int frame_response(struct frame *f, const char *head, size_t n, bool is_no_body);
/** frame_body() - go on with body bytes
 * Return: how many of the @n belong to this message (then f->is_done may be set), or -EBADMSG */
ssize_t frame_body(struct frame *f, const char *p, size_t n);

/** chunks_scan() - the judge alone, for tests. Return: bytes of the body among @n, or -EBADMSG;
 * @done is set when the last one was among them */
ssize_t chunks_scan(struct chunks *c, const char *p, size_t n, bool *done);

#endif
