/* SPDX-License-Identifier: ISC */
/* broker/monitor/names.h - the synthetic addresses of the transparent route and what they stand for.
 * The table lives here and not in the worker: it decides what a connection goes to, and a worker that
 * is replaced changes nothing for a command that remembers an address. */
#ifndef WEIR_BROKER_MONITOR_NAMES_H
#define WEIR_BROKER_MONITOR_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct addr;
struct monitor;
struct msg_name;
struct target;

/* An address is never given to a second name while the sandbox lives, so a command that may look up
 * whatever it likes (allow *) can use them all up: then further names have no address. At most 5 MB. */
#define NAMES_MAX 16384
#define NAMES_BUCKETS 4096
#define NAMES_QUEUED 128 /* answers that may wait for the worker: it asks for no more at once */

/** struct name_table - empty when zeroed */
struct name_table {
	char **host;	/* canonical; the index and SYNTHETIC_FIRST are the address */
	uint32_t *next; /* of the same bucket: index + 1, 0: none */
	uint32_t *bucket;
	size_t n, room;
	bool told; /* that it is full */
};

void names_free(struct name_table *n);
/** names_give() - the address of @host, a new one unless it has one.
 * Return: 0 with @addr in host byte order, -ENOSPC (every address is given out), -ENOMEM */
int names_give(struct name_table *n, const char *host, uint32_t *addr);
/** names_host() - Return: what @addr (host byte order) was given out for, or NULL */
const char *names_host(const struct name_table *n, uint32_t addr);

/** names_ask() - answer one NAME: the policy decides, nothing is looked up anywhere. Return: 0, or
 * -EBADMSG */
int names_ask(struct monitor *m, const struct msg_name *name);

#endif
