/* SPDX-License-Identifier: ISC */
/* broker/worker/head_read.c - take one head off a socket and not a byte more.
 * Every byte is hostile; memory: one pooled buffer while a head comes in pieces. */
#include "broker/worker/head_read.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "broker/worker/state.h"

ssize_t head_drop(int fd, size_t n)
{
	static char sink[4096];
	ssize_t got = recv(fd, NULL, n, MSG_TRUNC | MSG_DONTWAIT);

	/* a unix socket (weir proxy) cannot drop bytes unread; it took none */
	if (got < 0 && errno == EFAULT)
		got = recv(fd, sink, n < sizeof(sink) ? n : sizeof(sink), MSG_DONTWAIT);
	return got;
}

int head_consume(int fd, size_t n)
{
	while (n > 0) {
		ssize_t got = head_drop(fd, n);

		if (got <= 0)
			return -EIO;
		n -= (size_t)got;
	}
	return 0;
}

static ssize_t peek(struct worker *w, int fd, size_t n)
{
	ssize_t got = recv(fd, w->in, n, MSG_PEEK | MSG_DONTWAIT);

	if (got < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	return got == 0 ? -ENODATA : got;
}

/* The first piece: nothing was taken yet. */
static int read_first(struct worker *w, int fd, struct buf **buf, struct head_read *r, size_t got)
{
	size_t end = head_end(w->in, got, 0);

	r->is_begun = true;
	/* no method and no version starts otherwise: neither TLS nor SOCKS nor a blank line */
	if (!r->is_tail &&
	    !((w->in[0] >= 'A' && w->in[0] <= 'Z') || (w->in[0] >= 'a' && w->in[0] <= 'z')))
		return -EPROTO;
	if (end > HEAD_MAX || (end == 0 && got > HEAD_MAX))
		return -EMSGSIZE;
	if (end > 0) {
		r->p = w->in;
		r->n = end;
		r->peeked = got;
		return 1;
	}
	r->need = got;
	*buf = buf_get(&w->bufs, got);
	if (!*buf)
		return -ENOBUFS;
	if (recv(fd, (*buf)->data, got, MSG_DONTWAIT) != (ssize_t)got) {
		buf_put(&w->bufs, buf);
		return -EIO;
	}
	(*buf)->end = (uint32_t)got;
	return 0;
}

/* A further piece: as much of it as belongs to the head. */
static int read_next(struct worker *w, int fd, struct buf **buf, struct head_read *r, size_t got)
{
	size_t have = (*buf)->end, end, take;
	struct buf *b;
	int room;

	r->is_begun = true;
	r->need = have + got <= HEAD_MAX + 1 ? have + got : HEAD_MAX + 1;
	room = buf_grow(&w->bufs, buf, r->need);
	b = *buf;
	if (room < 0)
		return room;
	if (got > b->room - have)
		got = b->room - have;
	memcpy(b->data + have, w->in, got);
	end = head_end(b->data, have + got, have);
	take = end ? end - have : got;
	if (recv(fd, b->data + have, take, MSG_DONTWAIT) != (ssize_t)take)
		return -EIO;
	b->end = (uint32_t)(have + take);
	if (b->end > HEAD_MAX)
		return -EMSGSIZE;
	if (end == 0)
		return 0;
	r->p = b->data;
	r->n = r->peeked = end;
	return 1;
}

int head_read(struct worker *w, int fd, struct buf **buf, struct head_read *r)
{
	size_t room = *buf ? HEAD_MAX + 1 - (*buf)->end : PEEK_MAX;
	ssize_t got;

	r->is_begun = *buf != NULL;
	if (*buf && (*buf)->end > 0 && head_end((*buf)->data, (*buf)->end, 0)) {
		r->p = (*buf)->data; /* complete since an earlier call */
		r->n = r->peeked = (*buf)->end;
		return 1;
	}
	got = peek(w, fd, room);
	if (got < 0)
		return got == -EAGAIN ? 0 : (int)got;
	return *buf ? read_next(w, fd, buf, r, (size_t)got)
		    : read_first(w, fd, buf, r, (size_t)got);
}
