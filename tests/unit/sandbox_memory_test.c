/* SPDX-License-Identifier: ISC */
/* tests/unit/sandbox_memory_test.c - memory that pid 1 and the keeper could not forget is noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox/memory.h"

#define MUCH (4u << 20)

/* Something that lies above the heap: then it cannot grow, and libc takes memory elsewhere. */
static int heap_block(void)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t top = ((uintptr_t)sbrk(0) + page - 1) & ~(page - 1);
	void *p = mmap((void *)top, page, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	return p == (void *)top ? 0 : -1;
}

/* In a child: what is done to the heap stays done. Return: which step failed, 0 for none */
static int steps(void)
{
	static char *first, *second;

	if (memory_check() != 0)
		return 1;
	first = malloc(MUCH);
	if (!first || memory_check() != 0)
		return 2; /* a heap that grows is no reason */
	memset(first, 1, MUCH);
	if (heap_block() < 0)
		return 3;
	second = malloc(MUCH);
	if (!second)
		return 4;
	memset(second, 1, MUCH);
	return memory_check() < 0 ? 0 : 5;
}

static void memory_elsewhere_is_noticed(void **state)
{
	int status = 0;
	pid_t pid;

	(void)state;
	if (MEMORY_SANITIZED)
		skip(); /* forgets nothing */
	pid = fork();
	if (pid == 0)
		_exit(steps());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(memory_elsewhere_is_noticed) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
