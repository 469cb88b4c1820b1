/* SPDX-License-Identifier: ISC */
/* common/stage.c - where the time of a launch goes, written down by the processes themselves.
 * One page shared by fork: a counter and rows of (time, name). The name is a pointer into the
 * program, the same in each copy of it; a program executed anew has no page and notes nothing.
 * No system call: the time comes from the vDSO, so that a filter has nothing to say about it. */
#include "common/stage.h"

#ifdef WEIR_TEST
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define ROWS_MAX 160

struct page {
	atomic_uint n;
	struct row {
		int64_t ns;
		const char *name;
	} rows[ROWS_MAX];
};

static struct page *page;

void stage_begin(void)
{
	void *p;

	if (!getenv("WEIR_TEST_STAGES"))
		return;
	p = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p != MAP_FAILED)
		page = p;
	stage_note("main");
}

void stage_note(const char *name)
{
	struct timespec now;
	unsigned i;

	if (!page)
		return;
	i = atomic_fetch_add(&page->n, 1);
	if (i >= ROWS_MAX)
		return;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	page->rows[i].name = name;
	page->rows[i].ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void stage_print(void)
{
	unsigned n;

	if (!page)
		return;
	n = atomic_load(&page->n);
	for (unsigned i = 0; i < n && i < ROWS_MAX; i++)
		if (page->rows[i].name)
			(void)fprintf(stderr, "stage %7ld us  %s\n",
				      (long)((page->rows[i].ns - page->rows[0].ns) / 1000),
				      page->rows[i].name);
}
#endif
