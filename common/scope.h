/* SPDX-License-Identifier: ISC */
/* common/scope.h - local resources that close themselves at the end of their scope */
#ifndef WEIR_COMMON_SCOPE_H
#define WEIR_COMMON_SCOPE_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void scope_close(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
}

static inline void scope_free(void *p)
{
	free(*(void **)p);
}

#define SCOPED_FD __attribute__((cleanup(scope_close)))	 /* always initialised; -1 means none */
#define SCOPED_FREE __attribute__((cleanup(scope_free))) /* always initialised; NULL means none */

/** take_fd() - ownership leaves by name: returns *@fd and leaves -1 */
static inline int take_fd(int *fd)
{
	int f = *fd;

	*fd = -1;
	return f;
}

static inline void *take_ptr(void *pp)
{
	void *p = *(void **)pp;

	*(void **)pp = NULL;
	return p;
}

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static inline int str_eq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

#endif
