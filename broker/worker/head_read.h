/* SPDX-License-Identifier: ISC */
/* broker/worker/head_read.h - take one head off a socket and not a byte more.
 * Bytes are peeked at first: a head that is there as a whole stays in the socket until it is used,
 * and what follows it (a body, the next request, a tunnel's first bytes) is never held here. */
#ifndef WEIR_BROKER_WORKER_HEAD_READ_H
#define WEIR_BROKER_WORKER_HEAD_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct buf;
struct worker;

struct head_read {
	const char *p; /* the head, complete */
	size_t n;
	size_t peeked; /* bytes at p when the head is still in the socket, else n */
	size_t need;   /* -ENOBUFS: bytes of room that were lacking */
	bool is_begun; /* at least one byte is there */
	bool is_tail;  /* in: trailers, which may begin with any byte */
};

/**
 * head_read() - look for a head
 * @buf: NULL, or what an earlier call has put there: the beginning of a head that came in pieces.
 *	 Filled as needed; the caller gives it back with buf_put()
 *
 * Return: 1 and @r: complete, in *@buf or else at w->in and still unread;
 *	   0: more is needed; -ENODATA: end of file; -EMSGSIZE: over HEAD_MAX; -ENOBUFS: no buffer
 *	   free, nothing was taken; -EPROTO: the first byte begins no head, it is at w->in;
 *	   else -errno of recv(2) */
int head_read(struct worker *w, int fd, struct buf **buf, struct head_read *r);

/** head_drop() - read up to @n bytes and forget them. Return: as recv(2) */
ssize_t head_drop(int fd, size_t n);
/** head_consume() - discard @n bytes that were peeked at. Return: 0, or -EIO */
int head_consume(int fd, size_t n);

#endif
