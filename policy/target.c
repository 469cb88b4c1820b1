/* SPDX-License-Identifier: ISC */
/* policy/target.c - host bytes to the one canonical object that is matched, dialled and logged.
 * Every byte is hostile: the worker passes on what a client typed. Pure, no allocation. */
#include "policy/target.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/scope.h"
#include "policy/internal.h"

#define LABEL_MAX 63 /* RFC 1035 section 2.3.4 */

static const char *const fault_texts[] = {
	[NAME_OK] = "is a host name",
	[NAME_EMPTY] = "is empty",
	[NAME_TOO_LONG] = "is longer than 253 bytes",
	[NAME_LABEL_EMPTY] = "has an empty label",
	[NAME_LABEL_TOO_LONG] = "has a label longer than 63 bytes",
	[NAME_HYPHEN] = "has a label that begins or ends with '-'",
	[NAME_BYTE] = "has a byte that no host name has",
	[NAME_NUMERIC] = "ends in a number but is not an IPv4 address in its usual spelling",
};
static_assert(sizeof(fault_texts) / sizeof(fault_texts[0]) == NAME_FAULT_COUNT,
	      "each fault has its text");

const char *name_fault_text(enum name_fault f)
{
	return fault_texts[f];
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Would some resolver take a name with this last label for an IPv4 address? WHATWG URL, "ends in a
 * number": all digits, or 0x and hexadecimal digits, of which there may be none. */
static bool label_is_number(const char *label, size_t len)
{
	size_t i = 0;
	bool hex = len >= 2 && label[0] == '0' && label[1] == 'x';

	for (i = hex ? 2 : 0; i < len; i++)
		if (!is_digit(label[i]) && !(hex && label[i] >= 'a' && label[i] <= 'f'))
			return false;
	return true;
}

static enum name_fault label_check(const char *label, size_t len)
{
	if (len == 0)
		return NAME_LABEL_EMPTY;
	if (len > LABEL_MAX)
		return NAME_LABEL_TOO_LONG;
	if (label[0] == '-' || label[len - 1] == '-')
		return NAME_HYPHEN;
	return NAME_OK;
}

static bool name_byte(char *c)
{
	if (*c >= 'A' && *c <= 'Z')
		*c = (char)(*c - 'A' + 'a');
	return (*c >= 'a' && *c <= 'z') || is_digit(*c) || *c == '-' || *c == '_';
}

enum name_fault name_canon(const char *in, size_t len, char out[HOST_MAX + 1])
{
	char name[HOST_MAX + 1];
	size_t start = 0;
	enum name_fault f;

	if (len == 0)
		return NAME_EMPTY;
	if (in[len - 1] == '.' && --len == 0)
		return NAME_LABEL_EMPTY;
	if (len > HOST_MAX)
		return NAME_TOO_LONG;
	memcpy(name, in, len);
	name[len] = '\0';
	for (size_t i = 0; i <= len; i++) {
		if (i < len && name[i] != '.') {
			if (!name_byte(&name[i]))
				return NAME_BYTE;
			continue;
		}
		f = label_check(name + start, i - start);
		if (f != NAME_OK)
			return f;
		if (i == len && label_is_number(name + start, i - start))
			return NAME_NUMERIC;
		start = i + 1;
	}
	memcpy(out, name, len + 1);
	return NAME_OK;
}

static void target_set(struct target *t, const struct target *from)
{
	memcpy(t, from, sizeof(*t));
}

static int addr_target(struct target *t, const char *host, uint16_t port)
{
	struct target n = { .is_addr = true, .port = port };
	char text[ADDR_TEXT_MAX];

	if (addr_parse(&n.addr, host) < 0)
		return -EINVAL;
	(void)addr_format(&n.addr, text);
	memcpy(n.host, text, strlen(text) + 1);
	target_set(t, &n);
	return 0;
}

int target_parse_wire(struct target *t, const char *host, uint16_t port, bool literal6)
{
	struct target n = { .port = port };
	bool colon = strchr(host, ':') != NULL;

	if (port == 0 || literal6 != colon)
		return -EINVAL;
	if (literal6)
		return addr_target(t, host, port);
	if (addr_target(t, host, port) == 0)
		return 0;
	if (name_canon(host, strlen(host), n.host) != NAME_OK)
		return -EINVAL;
	target_set(t, &n);
	return 0;
}

int target_parse(struct target *t, const char *host, uint16_t port)
{
	return target_parse_wire(t, host, port, strchr(host, ':') != NULL);
}

bool target_is_localhost(const struct target *t)
{
	static const char local[] = ".localhost";
	size_t n = strlen(t->host);

	return !t->is_addr &&
	       (str_eq(t->host, local + 1) ||
		(n >= sizeof(local) && str_eq(t->host + n - (sizeof(local) - 1), local)));
}
