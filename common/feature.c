/* SPDX-License-Identifier: ISC */
/* common/feature.c - optional kernel features that a test may switch off.
 * Empty but in build/test/weir: the shipped program reads no such variable. */
#include "common/feature.h"

#ifdef WEIR_TEST

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool feature_off(const char *name)
{
	const char *list = getenv("WEIR_TEST_WITHOUT");
	size_t len = strlen(name);

	while (list && *list) {
		size_t word = strcspn(list, ",");

		if (word == len && strncmp(list, name, len) == 0)
			return true;
		list += word;
		list += *list == ',';
	}
	return false;
}

const char *feature_path(const char *path, char *buf, size_t room)
{
	const char *root = getenv("WEIR_TEST_SYSROOT");
	int n = root ? snprintf(buf, room, "%s%s", root, path) : -1;

	return n > 0 && (size_t)n < room && access(buf, F_OK) == 0 ? buf : path;
}

#endif
