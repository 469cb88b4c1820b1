/* SPDX-License-Identifier: ISC */
/* broker/cli/resolve.h - the addresses that a name has now, as the broker would find them */
#ifndef WEIR_BROKER_CLI_RESOLVE_H
#define WEIR_BROKER_CLI_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/addr.h"

struct err;

#define RESOLVE_MAX 64 /* addresses of one name */
#define RESOLVE_S 10

/**
 * resolve_name() - /etc/hosts first, then DNS by the servers of resolv.conf; no search domains
 * @name: canonical. @hosts: set when the hosts file knew it
 * Return: how many addresses, or -errno with @e. Source: ares_getaddrinfo(3) */
int resolve_name(const char *name, struct addr out[RESOLVE_MAX], bool *hosts, struct err *e);

#endif
