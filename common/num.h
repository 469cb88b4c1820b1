/* SPDX-License-Identifier: ISC */
/* common/num.h - numbers from text: the whole string, decimal digits only, in a given range */
#ifndef WEIR_COMMON_NUM_H
#define WEIR_COMMON_NUM_H

#include <stddef.h>
#include <stdint.h>

/**
 * num_u64() - read @text (NUL-terminated) as a decimal number from @min to @max
 * No sign, no space, no leading "+", no 0x; leading zeros are refused ("0" itself is fine).
 * Return: 0, or -EINVAL with *@out untouched */
int num_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out);
/** num_u64_n() - the same for the first @len bytes of @text, which need no NUL */
int num_u64_n(const char *text, size_t len, uint64_t min, uint64_t max, uint64_t *out);
/** num_port() - a TCP port, 1-65535. Return: 0 or -EINVAL */
int num_port(const char *text, size_t len, uint16_t *out);

#endif
