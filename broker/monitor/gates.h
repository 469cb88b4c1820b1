/* SPDX-License-Identifier: ISC */
/* broker/monitor/gates.h - addresses that a worker may connect to unasked, while a verdict names them */
#ifndef WEIR_BROKER_MONITOR_GATES_H
#define WEIR_BROKER_MONITOR_GATES_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/addr.h"
#include "common/gates.h"

/** struct gates - @at NULL: this machine has none, and each connect() is asked about
 * @fd:    what a worker maps, for reading alone; -1: none
 * @users: verdicts that a gate is open for
 * @since: when it was written, by the loop's clock */
struct gates {
	int fd;
	struct sockaddr_in *at;
	uint16_t users[GATES_MAX];
	double since[GATES_MAX];
};

/** gates_init() - none yet */
void gates_init(struct gates *g);
/** gates_make() - the page; without one where the kernel, or a limit, refuses it */
void gates_make(struct gates *g);
void gates_close(struct gates *g);
/**
 * gates_open() - one more verdict names @a and @port
 * @now: the loop's clock
 *
 * Return: the number of the gate, 1 to GATES_MAX, to be given back by gates_shut(); 0: none: an address
 *	   that is new, or no IPv4 address, or there is no room */
uint16_t gates_open(struct gates *g, const struct addr *a, uint16_t port, double now);
/** gates_is() - is @gate, which is open, the one of @a? */
bool gates_is(const struct gates *g, uint16_t gate, const struct addr *a);
/** gates_shut() - a verdict is over; @gate becomes 0. The last one shuts it */
void gates_shut(struct gates *g, uint16_t *gate);

#endif
