/* SPDX-License-Identifier: ISC */
/* common/msg.c - encode and decode every message between weir's processes.
 * A reader believes nothing: after the first failure every read gives zero, so that the end is the
 * only check. Ranges and meaning are the handler's business; counts that index an array are ours. */
#include "common/msg.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/fd.h"

static_assert(sizeof(struct msg_head) == 8, "the head has no padding");
static_assert(MSG_MAX <= UINT16_MAX, "a length fits its field");

size_t msg_first(const void *buf, size_t len)
{
	struct msg_head head;

	if (len < sizeof(head))
		return len;
	memcpy(&head, buf, sizeof(head));
	return head.length >= sizeof(head) && head.length < len ? head.length : len;
}

int msg_open(struct msg_head *h, struct msg_rd *r, const void *buf, size_t len)
{
	struct msg_head head;

	if (len < sizeof(head) || len > MSG_MAX)
		return -EBADMSG;
	memcpy(&head, buf, sizeof(head));
	if (head.version != MSG_VERSION || head.length != len || head.type == MSG_NONE ||
	    head.type >= MSG_TYPE_COUNT)
		return -EBADMSG;
	*h = head;
	r->p = (const uint8_t *)buf + sizeof(head);
	r->end = (const uint8_t *)buf + len;
	r->bad = false;
	return 0;
}

/* The next @len bytes, or zeros once anything was bad. */
static void rd_bytes(struct msg_rd *r, void *out, size_t len)
{
	if (r->bad || (size_t)(r->end - r->p) < len) {
		r->bad = true;
		memset(out, 0, len);
		return;
	}
	memcpy(out, r->p, len);
	r->p += len;
}

uint8_t rd_u8(struct msg_rd *r)
{
	uint8_t v;

	rd_bytes(r, &v, sizeof(v));
	return v;
}

uint16_t rd_u16(struct msg_rd *r)
{
	uint16_t v;

	rd_bytes(r, &v, sizeof(v));
	return v;
}

uint32_t rd_u32(struct msg_rd *r)
{
	uint32_t v;

	rd_bytes(r, &v, sizeof(v));
	return v;
}

uint64_t rd_u64(struct msg_rd *r)
{
	uint64_t v;

	rd_bytes(r, &v, sizeof(v));
	return v;
}

void rd_str(struct msg_rd *r, char *out, size_t room)
{
	size_t len = rd_u16(r);

	assert(room > 0);
	if (len >= room) {
		r->bad = true;
		len = 0;
	}
	rd_bytes(r, out, len);
	if (r->bad || memchr(out, '\0', len)) {
		r->bad = true;
		len = 0;
	}
	out[len] = '\0';
}

void rd_addr(struct msg_rd *r, struct addr *a)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	memset(a, 0, sizeof(*a));
	a->family = rd_u8(r);
	if (a->family == 4)
		rd_bytes(r, a->b, 4);
	else if (a->family == 6)
		rd_bytes(r, a->b, 16);
	else
		r->bad = true;
	if (a->family == 6 && memcmp(a->b, mapped, sizeof(mapped)) == 0)
		r->bad = true; /* not canonical: an honest sender has unwrapped it */
	if (r->bad)
		memset(a, 0, sizeof(*a));
}

/* @max addresses at most; what is not sent is zero. Return: how many */
static uint8_t rd_addrs(struct msg_rd *r, struct addr *a, size_t max)
{
	uint8_t n = rd_u8(r);

	memset(a, 0, max * sizeof(*a));
	if (n > max) {
		r->bad = true;
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		rd_addr(r, &a[i]);
	return r->bad ? 0 : n;
}

int rd_end(struct msg_rd *r)
{
	if (r->p != r->end)
		r->bad = true;
	return r->bad ? -EBADMSG : 0;
}

static void wr_bytes(struct msg_wr *w, const void *p, size_t len)
{
	if (w->bad || sizeof(w->buf) - w->len < len) {
		w->bad = true;
		return;
	}
	memcpy(w->buf + w->len, p, len);
	w->len += len;
}

void wr_open(struct msg_wr *w, enum msg_type type, uint32_t conn)
{
	struct msg_head head = { .type = (uint8_t)type, .version = MSG_VERSION, .conn = conn };

	assert(type > MSG_NONE && type < MSG_TYPE_COUNT);
	w->len = 0;
	w->bad = false;
	wr_bytes(w, &head, sizeof(head));
}

void wr_u8(struct msg_wr *w, uint8_t v)
{
	wr_bytes(w, &v, sizeof(v));
}

void wr_u16(struct msg_wr *w, uint16_t v)
{
	wr_bytes(w, &v, sizeof(v));
}

void wr_u32(struct msg_wr *w, uint32_t v)
{
	wr_bytes(w, &v, sizeof(v));
}

void wr_u64(struct msg_wr *w, uint64_t v)
{
	wr_bytes(w, &v, sizeof(v));
}

void wr_str(struct msg_wr *w, const char *s)
{
	size_t len = strlen(s);

	if (len > MSG_MAX) {
		w->bad = true;
		return;
	}
	wr_u16(w, (uint16_t)len);
	wr_bytes(w, s, len);
}

void wr_addr(struct msg_wr *w, const struct addr *a)
{
	if (a->family != 4 && a->family != 6)
		w->bad = true;
	wr_u8(w, a->family);
	wr_bytes(w, a->b, a->family == 4 ? 4 : 16);
}

static void wr_addrs(struct msg_wr *w, const struct addr *a, size_t n, size_t max)
{
	if (n > max) {
		w->bad = true;
		return;
	}
	wr_u8(w, (uint8_t)n);
	for (size_t i = 0; i < n; i++)
		wr_addr(w, &a[i]);
}

int wr_close(struct msg_wr *w)
{
	uint16_t length = (uint16_t)w->len;

	if (w->bad)
		return -EMSGSIZE;
	memcpy(w->buf + offsetof(struct msg_head, length), &length, sizeof(length));
	return 0;
}

int wr_send(struct msg_wr *w, int sock, const int *fds, size_t nfds)
{
	int r = wr_close(w);

	return r < 0 ? r : fd_send(sock, w->buf, w->len, fds, nfds);
}

/* ---- worker -> monitor ---- */

static void wr_ends(struct msg_wr *w, const struct msg_half *m)
{
	wr_addr(w, &m->client);
	wr_u16(w, m->client_port);
	wr_addr(w, &m->proxy);
	wr_u16(w, m->proxy_port);
}

static void rd_ends(struct msg_rd *r, struct msg_half *m)
{
	rd_addr(r, &m->client);
	m->client_port = rd_u16(r);
	rd_addr(r, &m->proxy);
	m->proxy_port = rd_u16(r);
}

void msg_put_half(struct msg_wr *w, const struct msg_half *m)
{
	wr_ends(w, m);
}

int msg_get_half(struct msg_rd *r, struct msg_half *m)
{
	rd_ends(r, m);
	return rd_end(r);
}

/* The last field, where there is one. */
static void wr_ends_or_none(struct msg_wr *w, const struct msg_half *m)
{
	if (m->client.family)
		wr_ends(w, m);
}

static void rd_ends_or_none(struct msg_rd *r, struct msg_half *m)
{
	*m = (struct msg_half){ 0 };
	if (r->p < r->end)
		rd_ends(r, m);
}

void msg_put_ask(struct msg_wr *w, const struct msg_ask *m)
{
	wr_u8(w, m->proto);
	wr_u16(w, m->port);
	wr_str(w, m->host);
	wr_u8(w, m->literal6);
	wr_ends_or_none(w, &m->ends);
}

int msg_get_ask(struct msg_rd *r, struct msg_ask *m)
{
	m->proto = rd_u8(r);
	m->port = rd_u16(r);
	rd_str(r, m->host, sizeof(m->host));
	m->literal6 = rd_u8(r);
	rd_ends_or_none(r, &m->ends);
	return rd_end(r);
}

void msg_put_reject(struct msg_wr *w, const struct msg_reject *m)
{
	wr_u8(w, m->proto);
	wr_u8(w, m->reason);
	wr_str(w, m->text);
	wr_ends_or_none(w, &m->ends);
}

int msg_get_reject(struct msg_rd *r, struct msg_reject *m)
{
	m->proto = rd_u8(r);
	m->reason = rd_u8(r);
	rd_str(r, m->text, sizeof(m->text));
	rd_ends_or_none(r, &m->ends);
	return rd_end(r);
}

void msg_put_candidates(struct msg_wr *w, const struct msg_candidates *m)
{
	wr_addrs(w, m->addr, m->n, MSG_ADDRS_MAX);
}

int msg_get_candidates(struct msg_rd *r, struct msg_candidates *m)
{
	m->n = rd_addrs(r, m->addr, MSG_ADDRS_MAX);
	if (m->n == 0)
		r->bad = true;
	return rd_end(r);
}

void msg_put_dialed(struct msg_wr *w, const struct msg_dialed *m)
{
	wr_addr(w, &m->addr);
}

int msg_get_dialed(struct msg_rd *r, struct msg_dialed *m)
{
	rd_addr(r, &m->addr);
	return rd_end(r);
}

void msg_put_done(struct msg_wr *w, const struct msg_done *m)
{
	wr_u64(w, m->up);
	wr_u64(w, m->down);
	wr_u32(w, m->requests);
	wr_u8(w, m->reason);
	wr_u8(w, m->sni_host);
	wr_str(w, m->sni);
}

int msg_get_done(struct msg_rd *r, struct msg_done *m)
{
	m->up = rd_u64(r);
	m->down = rd_u64(r);
	m->requests = rd_u32(r);
	m->reason = rd_u8(r);
	m->sni_host = rd_u8(r);
	rd_str(r, m->sni, sizeof(m->sni));
	return rd_end(r);
}

void msg_put_stats(struct msg_wr *w, const struct msg_stats *m)
{
	wr_u32(w, m->open);
	wr_u32(w, m->accepted);
	for (size_t i = 0; i < COUNT_COUNT; i++)
		wr_u32(w, m->count[i]);
}

int msg_get_stats(struct msg_rd *r, struct msg_stats *m)
{
	m->open = rd_u32(r);
	m->accepted = rd_u32(r);
	for (size_t i = 0; i < COUNT_COUNT; i++)
		m->count[i] = rd_u32(r);
	return rd_end(r);
}

void msg_put_name(struct msg_wr *w, const struct msg_name *m)
{
	wr_u32(w, m->query);
	wr_u8(w, m->kind);
	wr_str(w, m->host);
	if (m->port)
		wr_u16(w, m->port);
}

int msg_get_name(struct msg_rd *r, struct msg_name *m)
{
	m->query = rd_u32(r);
	m->kind = rd_u8(r);
	rd_str(r, m->host, sizeof(m->host));
	m->port = r->p < r->end ? rd_u16(r) : 0;
	return rd_end(r);
}

/* ---- monitor -> worker ---- */

void msg_put_config(struct msg_wr *w, const struct msg_config *m)
{
	wr_u32(w, m->connections);
	wr_u32(w, m->idle_ms);
	wr_str(w, m->servers);
	wr_addrs(w, m->own, m->nown, MSG_OWN_MAX);
	wr_str(w, m->upstream);
	wr_u16(w, m->upstream_port);
	wr_str(w, m->upstream_auth);
	wr_str(w, m->secret);
}

int msg_get_config(struct msg_rd *r, struct msg_config *m)
{
	m->connections = rd_u32(r);
	m->idle_ms = rd_u32(r);
	rd_str(r, m->servers, sizeof(m->servers));
	m->nown = rd_addrs(r, m->own, MSG_OWN_MAX);
	rd_str(r, m->upstream, sizeof(m->upstream));
	m->upstream_port = rd_u16(r);
	rd_str(r, m->upstream_auth, sizeof(m->upstream_auth));
	rd_str(r, m->secret, sizeof(m->secret));
	return rd_end(r);
}

void msg_put_verdict(struct msg_wr *w, const struct msg_verdict *m)
{
	wr_u8(w, m->allow);
	wr_u16(w, m->status);
	wr_u8(w, m->reason);
	wr_u32(w, m->flags);
	wr_u16(w, m->port);
	wr_u16(w, m->gate);
	wr_str(w, m->host);
	wr_str(w, m->text);
	wr_str(w, m->private_text);
	wr_addrs(w, m->addr, m->naddr, MSG_ADDRS_MAX);
}

int msg_get_verdict(struct msg_rd *r, struct msg_verdict *m)
{
	m->allow = rd_u8(r);
	m->status = rd_u16(r);
	m->reason = rd_u8(r);
	m->flags = rd_u32(r);
	m->port = rd_u16(r);
	m->gate = rd_u16(r);
	rd_str(r, m->host, sizeof(m->host));
	rd_str(r, m->text, sizeof(m->text));
	rd_str(r, m->private_text, sizeof(m->private_text));
	m->naddr = rd_addrs(r, m->addr, MSG_ADDRS_MAX);
	return rd_end(r);
}

void msg_put_dial(struct msg_wr *w, const struct msg_dial *m)
{
	wr_u64(w, m->mask);
	wr_u8(w, m->reason);
	wr_str(w, m->text);
}

int msg_get_dial(struct msg_rd *r, struct msg_dial *m)
{
	m->mask = rd_u64(r);
	m->reason = rd_u8(r);
	rd_str(r, m->text, sizeof(m->text));
	return rd_end(r);
}

void msg_put_named(struct msg_wr *w, const struct msg_named *m)
{
	wr_u32(w, m->query);
	wr_u8(w, m->answer);
	wr_u32(w, m->addr);
	wr_str(w, m->host);
}

int msg_get_named(struct msg_rd *r, struct msg_named *m)
{
	m->query = rd_u32(r);
	m->answer = rd_u8(r);
	m->addr = rd_u32(r);
	rd_str(r, m->host, sizeof(m->host));
	return rd_end(r);
}

/* ---- monitor <-> nursery ---- */

void msg_put_entry(struct msg_wr *w, const struct msg_entry *m)
{
	wr_str(w, m->name);
}

int msg_get_entry(struct msg_rd *r, struct msg_entry *m)
{
	rd_str(r, m->name, sizeof(m->name));
	return rd_end(r);
}

void msg_put_start(struct msg_wr *w, const struct msg_start *m)
{
	wr_u8(w, m->has_gates);
	wr_u8(w, m->has_names);
}

int msg_get_start(struct msg_rd *r, struct msg_start *m)
{
	m->has_gates = rd_u8(r);
	m->has_names = rd_u8(r);
	return rd_end(r);
}

void msg_put_started(struct msg_wr *w, const struct msg_started *m)
{
	wr_u32(w, m->pid);
}

int msg_get_started(struct msg_rd *r, struct msg_started *m)
{
	m->pid = rd_u32(r);
	return rd_end(r);
}

void msg_put_ended(struct msg_wr *w, const struct msg_ended *m)
{
	wr_u32(w, m->status);
}

int msg_get_ended(struct msg_rd *r, struct msg_ended *m)
{
	m->status = rd_u32(r);
	return rd_end(r);
}

/* ---- shim <-> monitor ---- */

void msg_put_listeners(struct msg_wr *w, const struct msg_listeners *m)
{
	wr_u8(w, m->nlisten);
	wr_u8(w, m->has_diag);
	wr_u8(w, m->has_proc);
	wr_u8(w, m->has_tty);
	wr_u16(w, m->no_route);
}

int msg_get_listeners(struct msg_rd *r, struct msg_listeners *m)
{
	m->nlisten = rd_u8(r);
	m->has_diag = rd_u8(r);
	m->has_proc = rd_u8(r);
	m->has_tty = rd_u8(r);
	m->no_route = rd_u16(r);
	return rd_end(r);
}

void msg_put_listen(struct msg_wr *w, const struct msg_listen *m)
{
	wr_u8(w, m->proto);
	wr_u16(w, m->forward);
}

int msg_get_listen(struct msg_rd *r, struct msg_listen *m)
{
	m->proto = rd_u8(r);
	m->forward = rd_u16(r);
	return rd_end(r);
}

void msg_put_forward(struct msg_wr *w, const struct msg_forward *m)
{
	wr_u8(w, m->index);
}

int msg_get_forward(struct msg_rd *r, struct msg_forward *m)
{
	m->index = rd_u8(r);
	return rd_end(r);
}

void msg_put_trees(struct msg_wr *w, const struct msg_trees *m)
{
	wr_u8(w, m->n);
}

int msg_get_trees(struct msg_rd *r, struct msg_trees *m)
{
	m->n = rd_u8(r);
	return rd_end(r);
}

void msg_put_route(struct msg_wr *w, const struct msg_route *m)
{
	wr_u8(w, m->kind);
}

int msg_get_route(struct msg_rd *r, struct msg_route *m)
{
	m->kind = rd_u8(r);
	return rd_end(r);
}

void msg_put_spawned(struct msg_wr *w, const struct msg_spawned *m)
{
	wr_u32(w, m->pid);
}

int msg_get_spawned(struct msg_rd *r, struct msg_spawned *m)
{
	m->pid = rd_u32(r);
	return rd_end(r);
}

void msg_put_execfail(struct msg_wr *w, const struct msg_execfail *m)
{
	wr_u8(w, m->stage);
	wr_u8(w, m->unavailable);
	wr_u32(w, m->num);
	wr_str(w, m->what);
	wr_str(w, m->why);
	wr_str(w, m->fix);
}

int msg_get_execfail(struct msg_rd *r, struct msg_execfail *m)
{
	m->stage = rd_u8(r);
	m->unavailable = rd_u8(r);
	m->num = rd_u32(r);
	rd_str(r, m->what, sizeof(m->what));
	rd_str(r, m->why, sizeof(m->why));
	rd_str(r, m->fix, sizeof(m->fix));
	return rd_end(r);
}

void msg_put_exited(struct msg_wr *w, const struct msg_exited *m)
{
	wr_u32(w, m->status);
}

int msg_get_exited(struct msg_rd *r, struct msg_exited *m)
{
	m->status = rd_u32(r);
	return rd_end(r);
}

void msg_put_signal(struct msg_wr *w, const struct msg_signal *m)
{
	wr_u8(w, m->signo);
}

int msg_get_signal(struct msg_rd *r, struct msg_signal *m)
{
	m->signo = rd_u8(r);
	return rd_end(r);
}

void msg_put_stopped(struct msg_wr *w, const struct msg_stopped *m)
{
	wr_u32(w, m->signo);
	wr_u32(w, m->turn);
}

int msg_get_stopped(struct msg_rd *r, struct msg_stopped *m)
{
	m->signo = rd_u32(r);
	m->turn = rd_u32(r);
	return rd_end(r);
}

void msg_put_resume(struct msg_wr *w, const struct msg_resume *m)
{
	wr_u32(w, m->turn);
	wr_u8(w, m->hold);
}

int msg_get_resume(struct msg_rd *r, struct msg_resume *m)
{
	m->turn = rd_u32(r);
	m->hold = rd_u8(r);
	return rd_end(r);
}
