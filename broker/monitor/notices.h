/* SPDX-License-Identifier: ISC */
/* broker/monitor/notices.h - one line on stderr the first time each host:port is refused */
#ifndef WEIR_BROKER_MONITOR_NOTICES_H
#define WEIR_BROKER_MONITOR_NOTICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NOTICES_MAX 256 /* different host:port told about; after that one line says so */

struct notices {
	bool quiet, full;
	size_t n;
	char *seen[NOTICES_MAX]; /* "host:port", by hash, open addressing */
};

/** notices_first() - is this the first time? Remembers it. Beyond NOTICES_MAX: false, and @full
 * becomes true. @host: canonical or escaped */
bool notices_first(struct notices *n, const char *host, uint16_t port);
/** notices_line() - the lines of a refusal as one, "; " between them, without the leading "weir: ".
 * @out: always a string; cut to @room */
void notices_line(char *out, size_t room, const char *text);
/** notices_refused() - print the line, once for each host:port, unless quiet.
 * @text: the refusal, all its lines: the person gets the same reason and remedy as the program */
void notices_refused(struct notices *n, const char *host, uint16_t port, const char *text);
void notices_free(struct notices *n);

#endif
