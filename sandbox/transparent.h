/* SPDX-License-Identifier: ISC */
/* sandbox/transparent.h - the transparent route, made inside the sandbox's own network namespace */
#ifndef WEIR_SANDBOX_TRANSPARENT_H
#define WEIR_SANDBOX_TRANSPARENT_H

#include <stddef.h>
#include <stdint.h>

#include "sandbox/plan.h"

struct err;

/* two that redirected connections come to, or one for each port; two at which names are asked for */
#define TRANSPARENT_SOCKS_MAX (2 + PLAN_PORTS_MAX + 2)

/** struct transparent - sockets and enum msg_route_kind of each, those of one kind side by side */
struct transparent {
	int fd[TRANSPARENT_SOCKS_MAX];
	uint8_t kind[TRANSPARENT_SOCKS_MAX];
	size_t n;
};

/**
 * transparent_make() - addresses, routes, packet rules and sockets
 * Needs the power over the current network namespace, whose loopback interface is up.
 * @p: route_optional: a kernel that redirects nothing is a failure, and no reason for listeners on the
 *     policy's ports, which a server inside may want
 * @t: filled with descriptors that the caller then owns; on failure none is left open, but addresses
 *     and routes may be there
 *
 * Return: 0, or -errno with @e */
int transparent_make(const struct sandbox_plan *p, struct transparent *t, struct err *e);

#endif
