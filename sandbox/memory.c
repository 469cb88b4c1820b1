/* SPDX-License-Identifier: ISC */
/* sandbox/memory.c - forget everything the process was told before it became pid 1 or the keeper.
 * Both are copies of the `weir` command, whose memory holds the user's whole environment. Instead of
 * following each string, everything that can hold one goes: the heap (malloc is kept from using
 * anything else, from before main) and the stack the kernel made. Both keep their addresses and read
 * as zeros; of the stack in use goes what earlier calls left behind. Nothing here trusts a length:
 * the kernel's own map says where they lie. */
#include "sandbox/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/scope.h"

#define HEAP_ELSEWHERE                                                                             \
	65536 /* libc takes 1 MiB at once. Source: glibc malloc.c, MMAP_AS_MORECORE_SIZE */
#define BELOW ((uintptr_t)16384) /* of this stack, kept: the frames of what is called from here */

extern char **environ;

/* The heap's lowest byte that malloc() can hand out after start-up. What lies below belongs to libc:
 * a static program keeps its thread control block there. */
static uintptr_t heap_floor;

__attribute__((constructor)) static void heap_mark(void)
{
	void *p;

	/* Large blocks must come from the heap too, or they would outlive it. */
	(void)mallopt(M_MMAP_MAX, 0);
	p = malloc(16);
	heap_floor = (uintptr_t)p;
	free(p);
}

/* What malloc() counts as its own is never more than what there is of the heap above its first block,
 * unless some of it is elsewhere: then it took HEAP_ELSEWHERE at least. */
int memory_check(void)
{
	intptr_t top = (intptr_t)sbrk(0), floor = (intptr_t)heap_floor;

	if (MEMORY_SANITIZED)
		return 0;
	if (floor == 0 || floor >= top ||
	    mallinfo2().arena >= (size_t)(top - floor) + HEAP_ELSEWHERE)
		return -ENOMEM;
	return 0;
}

static bool hex_read(const char **p, uintptr_t *out)
{
	const char *start = *p;
	uintptr_t v = 0;

	for (; **p; (*p)++) {
		unsigned c = (unsigned char)**p;

		if (c >= '0' && c <= '9')
			v = v << 4 | (c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (c - 'a' + 10);
		else
			break;
	}
	*out = v;
	return *p != start;
}

/* Zero [from, to): whole pages are given back, the first part of one is overwritten. */
static int range_drop(uintptr_t from, uintptr_t to)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t up = (from + page - 1) & ~(page - 1);

	if (up > to)
		up = to;
	if (up > from)
		explicit_bzero((void *)from, up - from);
	if (to > up && madvise((void *)up, to - up, MADV_DONTNEED) < 0)
		return -errno;
	return 0;
}

static int line_drop(const char *line)
{
	uintptr_t from, to, here = (uintptr_t)&line;
	bool heap = strstr(line, "[heap]") != NULL, stack = strstr(line, "[stack]") != NULL;

	if (!hex_read(&line, &from) || *line++ != '-' || !hex_read(&line, &to) || to <= from)
		return 0;
	if (here >= from && here < to) {
		if (stack || to - from < 4 * BELOW)
			return -EINVAL; /* still on the stack that must go */
		return here - from > BELOW ? range_drop(from, (here - BELOW) & ~(BELOW - 1)) : 0;
	}
	if (!heap && !stack)
		return 0;
	if (heap && heap_floor > from && heap_floor < to)
		from = heap_floor;
	return range_drop(from, to);
}

/* The map is read whole before anything goes: a line is no longer than a path and 80 bytes. */
static ssize_t maps_read(const char *maps, char *buf, size_t room)
{
	SCOPED_FD int fd = open(maps, O_RDONLY | O_CLOEXEC);
	size_t len = 0;

	if (fd < 0)
		return -errno;
	while (len < room - 1) {
		ssize_t n = read(fd, buf + len, room - 1 - len);

		if (n < 0)
			return -errno;
		if (n == 0) {
			buf[len] = '\0';
			return (ssize_t)len;
		}
		len += (size_t)n;
	}
	return -EFBIG;
}

/* The pages of this stack that are kept: overwrite what no frame uses any more. */
__attribute__((noinline)) static void stack_scrub(void)
{
	char below[BELOW - 2048];

	explicit_bzero(below, sizeof(below));
}

int memory_forget(const char *maps)
{
	static char buf[32768];
	static char *nothing[] = { NULL };
	ssize_t n;

	if (MEMORY_SANITIZED)
		return 0;
	if (memory_check() < 0)
		return -ENOMEM;
	if ((n = maps_read(maps, buf, sizeof(buf))) < 0)
		return (int)n;
	environ = nothing;
	for (char *line = buf; *line;) {
		char *end = strchr(line, '\n');
		int r;

		if (end)
			*end = '\0';
		if ((r = line_drop(line)) < 0)
			return r;
		if (!end)
			break;
		line = end + 1;
	}
	stack_scrub();
	return 0;
}
