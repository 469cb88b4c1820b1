/* SPDX-License-Identifier: ISC */
/* common/feature.h - optional kernel features that a test may switch off.
 * WEIR_TEST_WITHOUT=landlock,ipv6,… is read by build/test/weir only (compiled with WEIR_TEST). */
#ifndef WEIR_COMMON_FEATURE_H
#define WEIR_COMMON_FEATURE_H

#include <stdbool.h>

#ifdef WEIR_TEST
/** feature_off() - does WEIR_TEST_WITHOUT list @name? */
bool feature_off(const char *name);
#else
static inline bool feature_off(const char *name)
{
	(void)name;
	return false;
}
#endif

#endif
