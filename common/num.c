/* SPDX-License-Identifier: ISC */
/* common/num.c - numbers from text. Every byte may be hostile; nothing but digits passes. */
#include "common/num.h"

#include <errno.h>
#include <string.h>

int num_u64_n(const char *text, size_t len, uint64_t min, uint64_t max, uint64_t *out)
{
	uint64_t v = 0;

	if (len == 0 || (text[0] == '0' && len > 1))
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(text[i] - '0'), &v))
			return -EINVAL;
	}
	if (v < min || v > max)
		return -EINVAL;
	*out = v;
	return 0;
}

int num_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	return num_u64_n(text, strlen(text), min, max, out);
}

int num_port(const char *text, size_t len, uint16_t *out)
{
	uint64_t v;

	if (num_u64_n(text, len, 1, UINT16_MAX, &v) < 0)
		return -EINVAL;
	*out = (uint16_t)v;
	return 0;
}
