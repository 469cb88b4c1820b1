/* SPDX-License-Identifier: ISC */
/* broker/worker/pool.c - objects of one size out of address space reserved at start.
 * Sizes and counts are the worker's own; no byte of a stranger is looked at here. */
#include "broker/worker/pool.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define TINY_MAX 512
#define SMALL_MAX 512
#define LARGE_MAX 32
#define KEPT_BYTES 131072 /* of an empty pool: what it needs day by day */

int pool_init(struct pool *p, size_t size, uint32_t max)
{
	void *base;

	size = (size + 15) & ~(size_t)15;
	base = mmap(NULL, size * max, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return -errno;
	*p = (struct pool){ .base = base, .size = size, .max = max };
	return 0;
}

void *pool_get(struct pool *p)
{
	void *obj = p->free;

	if (obj) {
		memcpy(&p->free, obj, sizeof(p->free));
	} else {
		if (p->made >= p->max)
			return NULL;
		obj = p->base + p->size * p->made++;
	}
	p->used++;
	return obj;
}

void pool_put(struct pool *p, void *obj)
{
	if (!obj)
		return;
	assert(p->used > 0);
	memcpy(obj, &p->free, sizeof(p->free));
	p->free = obj;
	p->used--;
	if (p->used == 0 && p->size * p->made > KEPT_BYTES) {
		/* should it fail, the pages stay: no object is in them */
		(void)madvise(p->base, p->size * p->made, MADV_DONTNEED);
		p->made = 0;
		p->free = NULL;
	}
}

uint32_t pool_index(const struct pool *p, const void *obj)
{
	size_t off = (size_t)((const unsigned char *)obj - p->base);

	assert(off / p->size < p->made && off % p->size == 0);
	return (uint32_t)(off / p->size);
}

void *pool_at(const struct pool *p, uint32_t i)
{
	return i < p->made ? p->base + p->size * i : NULL;
}

void pool_free(struct pool *p)
{
	if (p->base)
		(void)munmap(p->base, p->size * p->max);
	*p = (struct pool){ 0 };
}

int bufs_init(struct bufs *b)
{
	int r = pool_init(&b->tiny, BUF_TINY, TINY_MAX);

	r = r < 0 ? r : pool_init(&b->small, BUF_SMALL, SMALL_MAX);
	return r < 0 ? r : pool_init(&b->large, BUF_LARGE, LARGE_MAX);
}

struct pool *bufs_pool(struct bufs *b, size_t need)
{
	if (need <= BUF_TINY - sizeof(struct buf))
		return &b->tiny;
	return need <= BUF_SMALL - sizeof(struct buf) ? &b->small : &b->large;
}

struct pool *bufs_pool_of(struct bufs *b, const struct buf *buf)
{
	return bufs_pool(b, buf->room);
}

struct buf *buf_get(struct bufs *b, size_t need)
{
	struct pool *p = bufs_pool(b, need);
	struct buf *buf = pool_get(p);

	if (!buf)
		return NULL;
	buf->start = buf->end = 0;
	buf->room = (uint32_t)(p->size - sizeof(*buf));
	assert(need <= buf->room);
	return buf;
}

int buf_grow(struct bufs *b, struct buf **buf, size_t need)
{
	struct buf *old = *buf, *big;

	if (need <= old->room)
		return 0;
	big = buf_get(b, need);
	if (!big)
		return -ENOBUFS;
	big->end = old->end - old->start;
	memcpy(big->data, old->data + old->start, big->end);
	buf_put(b, buf);
	*buf = big;
	return 0;
}

void buf_put(struct bufs *b, struct buf **buf)
{
	struct buf *old = *buf;

	if (!old)
		return;
	*buf = NULL;
	pool_put(bufs_pool_of(b, old), old);
}
