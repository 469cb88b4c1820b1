/* SPDX-License-Identifier: ISC */
/* broker/monitor/resolv.h - which DNS servers the worker asks: resolv.conf, read and followed */
#ifndef WEIR_BROKER_MONITOR_RESOLV_H
#define WEIR_BROKER_MONITOR_RESOLV_H

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "common/msg.h"

#define RESOLV_PLACES_MAX 32
#define RESOLV_SEARCH_MAX 6 /* as the C library: MAXDNSRCH */

struct resolv {
	const char *path;
	char servers[MSG_SERVERS_MAX + 1]; /* "127.0.0.1:53,[::1]:53" */
	struct resolv_place {
		struct addr addr;
		uint16_t port;
	} place[RESOLV_PLACES_MAX]; /* of the servers now, then of earlier ones: the worker's
				     * queries under way go on with those */
	size_t nplaces;
	char search[RESOLV_SEARCH_MAX][HOST_MAX + 1]; /* search domains, in their order */
	size_t nsearch;
	bool have; /* the file as it was when it was read: */
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime;
};

/** resolv_init() - nothing is read yet. @path must outlive @r */
void resolv_init(struct resolv *r, const char *path);
/** resolv_has() - is this a name server that the worker was told of, now or not long ago? */
bool resolv_has(const struct resolv *r, const struct addr *a, uint16_t port);
/** resolv_follow() - read the file when it has changed since the last time (or never was read);
 * a file that cannot be read gives what c-ares takes then, 127.0.0.1.
 * Return: true when the servers changed. Source: resolv.conf(5), ares_init_options(3) */
bool resolv_follow(struct resolv *r);

#endif
