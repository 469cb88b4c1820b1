/* SPDX-License-Identifier: ISC */
/* broker/worker/trailers.c - what stands behind the last chunk of a body, judged like a head.
 * Every byte is hostile. They are waited for as a whole: of a field that may not pass, not even the
 * name goes on.
 * Memory: none when they come in one piece, else a pooled buffer; a client has HEAD_S for the rest, and
 * half of the buffers are left to others. */
#include "broker/worker/trailers.h"

#include <errno.h>

#include "broker/worker/conn.h"
#include "broker/worker/head_read.h"
#include "broker/worker/http.h"
#include "broker/worker/rewrite.h"

/* Return: as trailers_pass() */
static int wait_for_rest(struct conn *c, enum which from, bool is_first)
{
	const struct buf *b = c->http->part[from];

	if (is_first && b) {
		const struct pool *p = bufs_pool_of(&c->w->bufs, b);

		if (p->used > p->max / 2)
			return -ENOBUFS;
		if (from == CLIENT)
			conn_timer(c, HEAD_S);
	}
	return 0;
}

static int read_failed(int error)
{
	switch (error) {
	case -EMSGSIZE:
		return -EBADMSG;
	case -ENODATA:
	case -ENOBUFS:
		return error;
	default:
		return -EIO;
	}
}

int trailers_pass(struct conn *c, enum which from, struct frame *f)
{
	struct worker *w = c->w;
	struct buf **part = &c->http->part[from];
	struct head_read r = { .is_tail = true };
	bool is_first = *part == NULL, is_peeked;
	int fd = c->side[from].io.fd, got = head_read(w, fd, part, &r);
	struct head head;
	ssize_t n;

	if (got <= 0)
		return got < 0 ? read_failed(got) : wait_for_rest(c, from, is_first);
	is_peeked = *part == NULL;
	if (head_scan_trailers(r.p, r.n, &head) != HEAD_OK || frame_trailers(f, r.p, r.n) < 0)
		return -EBADMSG;
	n = rewrite_trailers(w->out, sizeof(w->out), &head, &c->http->named[from]);
	n = n < 0 ? n : http_send(c, !from, (size_t)n, NULL, 0);
	if (n < 0)
		return (int)n;
	if (is_peeked && head_consume(fd, r.n) < 0)
		return -EIO;
	if (from == CLIENT && !is_first)
		conn_timer(c, 0);
	buf_put(&w->bufs, part);
	return 1;
}
