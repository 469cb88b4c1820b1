/* SPDX-License-Identifier: ISC */
/* common/escape.c - text that a stranger chose, made fit for a terminal or a log.
 * Every byte is hostile; the output is bounded by the caller's room. */
#include "common/escape.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static const char hex[] = "0123456789abcdef";

/* Bytes of the well-formed UTF-8 character at @p, its code point in *@cp; 0: none there. */
static size_t utf8_read(const uint8_t *p, size_t len, uint32_t *cp)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	uint32_t c;

	if (n == 0 || n > len || p[0] > 0xf4)
		return 0;
	c = n == 1 ? p[0] : p[0] & (0x7fU >> n);
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3fU);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*cp = c;
	return n;
}

/* Does a terminal show this character as itself, at its place? */
static bool is_plain(uint32_t c)
{
	if (c < 0x20 || (c >= 0x7f && c < 0xa0))
		return false;
	if (c == 0xad || c == 0x61c || c == 0xfeff || (c >= 0x2028 && c <= 0x202e))
		return false;
	return !(c >= 0x200b && c <= 0x200f) && !(c >= 0x2060 && c <= 0x206f) &&
	       !(c >= 0xfff0 && c <= 0xfffb) && c < 0xe0000;
}

static size_t escape(char *out, size_t room, const uint8_t *p, size_t len, bool utf8)
{
	size_t n = 0;

	for (size_t i = 0; i < len && room > 0;) {
		uint32_t c = p[i];
		size_t take = utf8 ? utf8_read(p + i, len - i, &c) : (size_t)(c < 0x80);

		if (take > 0 && is_plain(c)) {
			if (n + take >= room)
				break;
			memcpy(out + n, p + i, take);
			n += take;
			i += take;
			continue;
		}
		if (n + 4 >= room)
			break;
		out[n++] = '\\';
		out[n++] = 'x';
		out[n++] = hex[p[i] >> 4];
		out[n++] = hex[p[i] & 15];
		i++;
	}
	if (room > 0)
		out[n] = '\0';
	return n;
}

size_t escape_text(char *out, size_t room, const void *in, size_t len)
{
	return escape(out, room, in, len, false);
}

size_t escape_line(char *out, size_t room, const void *in, size_t len)
{
	return escape(out, room, in, len, true);
}

bool escape_shell(char *out, size_t room, const char *in)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "@%+=:,./_-";
	const bool quote = !*in || in[strspn(in, plain)];
	size_t n = 0;

	if (quote && room > 1)
		out[n++] = '\'';
	for (; *in && n + 6 < room; in++) {
		if (*in == '\'') {
			memcpy(out + n, "'\\'", 3);
			n += 3;
		}
		out[n++] = *in;
	}
	if (*in || room < 3) {
		out[0] = '\0';
		return false;
	}
	if (quote)
		out[n++] = '\'';
	out[n] = '\0';
	return true;
}
