/* SPDX-License-Identifier: ISC */
/* broker/worker/pool.h - objects of one size out of address space reserved at start.
 * A page costs memory only once it was used, and none any more when a pool that had grown is empty
 * again; nothing is allocated while the worker serves. */
#ifndef WEIR_BROKER_WORKER_POOL_H
#define WEIR_BROKER_WORKER_POOL_H

#include <stddef.h>
#include <stdint.h>

struct pool {
	unsigned char *base;
	size_t size;   /* of one object, a multiple of 16 */
	uint32_t max;  /* objects, at most */
	uint32_t made; /* objects handed out since the pool was last empty */
	uint32_t used; /* objects handed out now */
	void *free;    /* the last one given back comes first: it is in the cache */
};

/** pool_init() - reserve room for @max objects of @size bytes. Return: 0, or -errno */
int pool_init(struct pool *p, size_t size, uint32_t max);
/** pool_get() - Return: an object with unspecified contents, or NULL when all are in use */
void *pool_get(struct pool *p);
/** pool_put() - give back what pool_get() gave; NULL is accepted */
void pool_put(struct pool *p, void *obj);
/** pool_index() / pool_at() - an object's number, 0 to max - 1, and back; NULL when @i was never
 * handed out */
uint32_t pool_index(const struct pool *p, const void *obj);
void *pool_at(const struct pool *p, uint32_t i);
/** pool_free() - unmap everything; for tests */
void pool_free(struct pool *p);

#define BUF_TINY 1024
#define BUF_SMALL 4096
#define BUF_LARGE (65536 + 64)

/** struct buf - pooled room for a partial head, or for text that the peer would not take at once */
struct buf {
	uint32_t start, end; /* bytes held: data[start] to data[end - 1] */
	uint32_t room;
	char data[];
};

/* Most heads and SOCKS messages are tiny: what waits for the rest of one must not cost a page. */
struct bufs {
	struct pool tiny, small, large;
};

/** bufs_init() - 512 buffers of 1 KiB, 512 of 4 KiB and 32 of 64 KiB: 4.5 MiB at most.
 * Return: 0, or -errno */
int bufs_init(struct bufs *b);
/** bufs_pool() - the pool that buf_get() takes @need bytes from */
struct pool *bufs_pool(struct bufs *b, size_t need);
/** bufs_pool_of() - the pool that @buf came from */
struct pool *bufs_pool_of(struct bufs *b, const struct buf *buf);
/** buf_get() - an empty buffer with @need bytes of room (at most 65536). Return: NULL when the pool
 * is empty */
struct buf *buf_get(struct bufs *b, size_t need);
/** buf_grow() - exchange *@buf for one with @need bytes of room, contents kept at data[0].
 * Return: 0, or -ENOBUFS with *@buf untouched */
int buf_grow(struct bufs *b, struct buf **buf, size_t need);
/** buf_put() - give *@buf back and set it to NULL */
void buf_put(struct bufs *b, struct buf **buf);

#endif
