/* SPDX-License-Identifier: ISC */
/* policy/arena.c - the memory of one policy: taken piece by piece, given back all at once.
 * Bounded by what is parsed: POLICY_RULES_MAX lines of POLICY_LINE_MAX bytes. */
#include "policy/internal.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 16384 /* the default presets fit in one */

struct arena_block {
	struct arena_block *below;
	size_t used, room;
	alignas(max_align_t) char bytes[];
};

static struct arena_block *block_add(struct arena *a, size_t bytes)
{
	size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
	struct arena_block *b;

	if (room > SIZE_MAX - sizeof(*b))
		return NULL;
	b = malloc(sizeof(*b) + room);
	if (!b)
		return NULL;
	*b = (struct arena_block){ .below = a->top, .room = room };
	a->top = b;
	return b;
}

void *arena_get(struct arena *a, size_t bytes)
{
	struct arena_block *b = a->top;
	void *p;

	if (bytes > SIZE_MAX - alignof(max_align_t))
		return NULL;
	bytes = (bytes + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	if (!b || b->room - b->used < bytes)
		b = block_add(a, bytes);
	if (!b)
		return NULL;
	p = b->bytes + b->used;
	b->used += bytes;
	memset(p, 0, bytes);
	return p;
}

char *arena_str(struct arena *a, const char *s, size_t len)
{
	char *p = arena_get(a, len + 1);

	if (p)
		memcpy(p, s, len);
	return p;
}

void arena_free(struct arena *a)
{
	while (a->top) {
		struct arena_block *b = a->top;

		a->top = b->below;
		free(b);
	}
}
