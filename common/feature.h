/* SPDX-License-Identifier: ISC */
/* common/feature.h - optional kernel features that a test may switch off.
 * WEIR_TEST_WITHOUT=landlock,ipv6,… and WEIR_TEST_SYSROOT, files in which a machine tells of itself,
 * are read by build/test/weir only (compiled with WEIR_TEST). */
#ifndef WEIR_COMMON_FEATURE_H
#define WEIR_COMMON_FEATURE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef WEIR_TEST
/** feature_off() - does WEIR_TEST_WITHOUT list @name? */
bool feature_off(const char *name);
/** feature_path() - @path as a test has it: below $WEIR_TEST_SYSROOT where a file is there
 * @room: of @buf, at least 256. Return: @path or @buf */
const char *feature_path(const char *path, char *buf, size_t room);
#else
static inline bool feature_off(const char *name)
{
	(void)name;
	return false;
}
static inline const char *feature_path(const char *path, char *buf, size_t room)
{
	(void)buf;
	(void)room;
	return path;
}
#endif

#endif
