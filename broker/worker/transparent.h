/* SPDX-License-Identifier: ISC */
/* broker/worker/transparent.h - a connection that was redirected: where was it going? */
#ifndef WEIR_BROKER_WORKER_TRANSPARENT_H
#define WEIR_BROKER_WORKER_TRANSPARENT_H

#include <stdint.h>

struct addr;

/** enum bound - what a client's socket says about where it was going */
enum bound {
	BOUND_NOWHERE, /* a proxy's client: it says so itself */
	BOUND_V4,      /* SO_ORIGINAL_DST */
	BOUND_V6,
	BOUND_HERE, /* its own address and port */
};

/** transparent_target() - the address and port; what they stand for the monitor knows.
 * Return: 0, or -errno: the kernel does not know either */
int transparent_target(int fd, enum bound bound, struct addr *a, uint16_t *port);

#endif
