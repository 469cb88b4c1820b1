/* SPDX-License-Identifier: ISC */
/* broker/monitor/notices.c - one line on stderr the first time each host:port is refused.
 * Hosts are canonical or already escaped, and note() escapes again. A command that tries a
 * thousand names cannot flood the terminal: the table is bounded, and full means silent. */
#include "broker/monitor/notices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/msg.h"
#include "common/scope.h"

static size_t slot_of(const char *key)
{
	uint32_t v = 2166136261u; /* FNV-1a */

	for (; *key; key++)
		v = (v ^ (uint8_t)*key) * 16777619u;
	return v % NOTICES_MAX;
}

bool notices_first(struct notices *n, const char *host, uint16_t port)
{
	char key[4 * HOST_MAX + 16];
	size_t at;

	(void)snprintf(key, sizeof(key), "%s:%u", host, (unsigned)port);
	at = slot_of(key);
	for (size_t i = 0; i < NOTICES_MAX && n->seen[at]; i++) {
		if (str_eq(n->seen[at], key))
			return false;
		at = (at + 1) % NOTICES_MAX;
	}
	if (n->n >= NOTICES_MAX - 1 || n->seen[at] || !(n->seen[at] = strdup(key))) {
		n->full = true;
		return false;
	}
	n->n++;
	return true;
}

void notices_line(char *out, size_t room, const char *text)
{
	static const char lead[] = "weir: "; /* note() puts it there itself */
	size_t n = 0;

	if (strncmp(text, lead, sizeof(lead) - 1) == 0)
		text += sizeof(lead) - 1;
	for (; *text && n + 3 < room; text++) {
		if (*text != '\n') {
			out[n++] = *text;
		} else if (text[1]) {
			out[n++] = ';';
			out[n++] = ' ';
		}
	}
	out[n] = '\0';
}

void notices_refused(struct notices *n, const char *host, uint16_t port, const char *text)
{
	char line[MSG_TEXT_MAX + 64];
	bool was_full = n->full;

	if (n->quiet)
		return;
	if (!notices_first(n, host, port)) {
		if (n->full && !was_full)
			note("many hosts were refused: further ones are in the audit log only");
		return;
	}
	notices_line(line, sizeof(line), text);
	if (strncmp(text, "weir: ", 6) == 0)
		note("%s", line);
	else /* nothing canonical to name */
		note("'%s': %s", host, line);
}

void notices_free(struct notices *n)
{
	for (size_t i = 0; i < NOTICES_MAX; i++)
		free(n->seen[i]);
	*n = (struct notices){ .quiet = n->quiet };
}
