/* SPDX-License-Identifier: ISC */
/* common/feature.c - optional kernel features that a test may switch off.
 * Empty but in build/test/weir: the shipped program reads no such variable. */
#include "common/feature.h"

#ifdef WEIR_TEST

#include <stdlib.h>
#include <string.h>

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

#endif
