/* SPDX-License-Identifier: ISC */
/* broker/monitor/hosts.h - what /etc/hosts says about a name; read again when the file changes */
#ifndef WEIR_BROKER_MONITOR_HOSTS_H
#define WEIR_BROKER_MONITOR_HOSTS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "common/addr.h"

#define HOSTS_FILE_MAX (16u << 20) /* bytes read; the rest of a larger file is not seen */
#define HOSTS_NAMES_MAX (1u << 19) /* names remembered */

struct hosts_name {
	uint32_t off;  /* into text: folded, NUL-terminated */
	uint32_t next; /* in its bucket, 1-; 0: end */
	struct addr addr;
};

struct hosts {
	const char *path;
	char *text;
	struct hosts_name *name;
	uint32_t *bucket; /* head and, at nbuckets + i, tail of each chain: file order is kept */
	size_t nnames, room, nbuckets;
	/* the file as it was when it was read */
	int have;
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime, ctime;
};

/** hosts_init() - nothing is read before the first lookup. @path must outlive @h */
void hosts_init(struct hosts *h, const char *path);
void hosts_free(struct hosts *h);
/** hosts_load() - replace what is known by @len bytes of @text. Bad lines are passed over, as
 * every reader of that file does. Return: 0, or -ENOMEM with nothing known */
int hosts_load(struct hosts *h, const char *text, size_t len);
/**
 * hosts_lookup() - the addresses of @name, in file order, without repetition
 * Looks at the file first and reads it again when it has changed. "localhost" and what is below
 * it are 127.0.0.1 and ::1 whatever the file says.
 * @name: canonical: lower case, no trailing dot
 * Return: how many (0-@max); 0 means the file does not know the name
 * Source: hosts(5), RFC 6761 section 6.3 */
size_t hosts_lookup(struct hosts *h, const char *name, struct addr *out, size_t max);

#endif
