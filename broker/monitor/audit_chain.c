/* SPDX-License-Identifier: ISC */
/* broker/monitor/audit_chain.c - the links of the audit log.
 * Pure. What is read may be anything: a line is a link only when it ends exactly as one. */
#include "broker/monitor/audit_chain.h"

#include <sodium.h>
#include <string.h>

#define PREV ",\"prev\":\""
#define HASH "\",\"hash\":\""
#define END "\"}"
#define HASHED (sizeof(HASH) - 2 + CHAIN_HEX + sizeof(END) - 1) /* bytes from ,"hash" to the end */

_Static_assert(sizeof(PREV HASH END) - 1 + 2 * CHAIN_HEX == CHAIN_BYTES, "as the header says");

static void hash_hex(const char *line, size_t len, char hex[CHAIN_HEX + 1])
{
	unsigned char hash[CHAIN_HEX / 2];

	(void)crypto_generichash(hash, sizeof(hash), (const unsigned char *)line, len, NULL, 0);
	(void)sodium_bin2hex(hex, CHAIN_HEX + 1, hash, sizeof(hash));
}

size_t chain_close(char *line, size_t len, char link[CHAIN_HEX + 1])
{
	char *p = line + len;

	p = mempcpy(p, PREV, sizeof(PREV) - 1);
	p = mempcpy(p, link, CHAIN_HEX);
	*p++ = '"';
	hash_hex(line, (size_t)(p - line), link);
	p = mempcpy(p, &HASH[1], sizeof(HASH) - 2);
	p = mempcpy(p, link, CHAIN_HEX);
	p = mempcpy(p, END, sizeof(END) - 1);
	return (size_t)(p - line);
}

static bool is_hex(const char *s)
{
	for (size_t i = 0; i < CHAIN_HEX; i++) {
		if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f')))
			return false;
	}
	return true;
}

bool chain_find(const char *line, size_t len, const char **prev, const char **hash)
{
	const char *p = line + len - CHAIN_BYTES;

	if (len <= CHAIN_BYTES || *line != '{' || memcmp(p, PREV, sizeof(PREV) - 1) != 0)
		return false;
	p += sizeof(PREV) - 1;
	if (!is_hex(p) || memcmp(p + CHAIN_HEX, HASH, sizeof(HASH) - 1) != 0)
		return false;
	if (!is_hex(p + CHAIN_HEX + sizeof(HASH) - 1) ||
	    memcmp(line + len - (sizeof(END) - 1), END, sizeof(END) - 1) != 0)
		return false;
	*prev = p;
	*hash = p + CHAIN_HEX + sizeof(HASH) - 1;
	return true;
}

bool chain_holds(const char *line, size_t len)
{
	char hex[CHAIN_HEX + 1];
	const char *prev, *hash;

	if (!chain_find(line, len, &prev, &hash))
		return false;
	hash_hex(line, len - HASHED, hex);
	return memcmp(hex, hash, CHAIN_HEX) == 0;
}
