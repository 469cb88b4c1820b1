/* SPDX-License-Identifier: ISC */
/* broker/cli/trust.c - the trust store: one line a project, the hash of what was accepted, its path.
 * The store is the user's own file and read by the rules for one; a line that is no such line is
 * passed over, so it trusts nothing. */
#include "broker/cli/trust.h"

#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "broker/cli/layers_file.h"
#include "common/err.h"
#include "common/scope.h"

static void hash_hex(const void *bytes, size_t len, char *hex, size_t hex_len)
{
	unsigned char hash[TRUST_HASH_LEN / 2];
	char all[TRUST_HASH_LEN + 1];

	(void)crypto_generichash(hash, sizeof(hash), bytes, len, NULL, 0);
	(void)sodium_bin2hex(all, sizeof(all), hash, sizeof(hash));
	memcpy(hex, all, hex_len);
	hex[hex_len] = '\0';
}

void trust_hash(const char *text, size_t len, char hex[TRUST_HASH_LEN + 1])
{
	hash_hex(text, len, hex, TRUST_HASH_LEN);
}

void project_key(const char *project, char key[PROJECT_KEY_LEN + 1])
{
	hash_hex(project, strlen(project), key, PROJECT_KEY_LEN);
}

/* Is the line of @len bytes about @project? */
static bool is_about(const char *line, size_t len, const char *project)
{
	size_t n = strlen(project);

	return len == TRUST_HASH_LEN + 1 + n && line[TRUST_HASH_LEN] == ' ' &&
	       memcmp(line + TRUST_HASH_LEN + 1, project, n) == 0;
}

static size_t line_length(const char *text, size_t len)
{
	const char *end = memchr(text, '\n', len);

	return end ? (size_t)(end - text) : len;
}

int trust_find(const char *store, uid_t uid, const char *project, char hex[TRUST_HASH_LEN + 1],
	       struct err *e)
{
	SCOPED_FREE char *text = NULL;
	size_t len = 0;
	int r = layers_read_guarded(store, uid, &text, &len, e), found = 0;

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	for (size_t i = 0; i < len;) {
		size_t n = line_length(text + i, len - i);

		if (is_about(text + i, n, project)) {
			memcpy(hex, text + i, TRUST_HASH_LEN);
			hex[TRUST_HASH_LEN] = '\0';
			found = 1;
		}
		i += n + 1;
	}
	return found;
}

int trust_change(const char *text, size_t len, const char *project, const char *hex, char **out,
		 size_t *out_len)
{
	size_t n = 0;
	char *to = malloc(len + TRUST_HASH_LEN + strlen(project) + 4);

	if (!to)
		return -ENOMEM;
	for (size_t i = 0; i < len;) {
		size_t line = line_length(text + i, len - i), whole = line + (i + line < len);

		if (!is_about(text + i, line, project)) {
			memcpy(to + n, text + i, whole);
			n += whole;
		}
		i += whole;
	}
	if (hex) {
		if (n > 0 && to[n - 1] != '\n')
			to[n++] = '\n';
		memcpy(to + n, hex, TRUST_HASH_LEN);
		n += TRUST_HASH_LEN;
		to[n++] = ' ';
		memcpy(to + n, project, strlen(project));
		n += strlen(project);
		to[n++] = '\n';
	}
	*out = to;
	*out_len = n;
	return n != len || memcmp(to, text, n) != 0;
}
