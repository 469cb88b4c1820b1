/* SPDX-License-Identifier: ISC */
/* broker/monitor/orphan.h - is a client that sent FIN still there? */
#ifndef WEIR_BROKER_MONITOR_ORPHAN_H
#define WEIR_BROKER_MONITOR_ORPHAN_H

#include <stdbool.h>
#include <stdint.h>

struct monitor;
struct msg_half;

#define ORPHAN_PER_S 4096 /* questions to the kernel in a second; an honest worker asks 1,280 */

struct orphan {
	double since; /* when the second began */
	unsigned n;   /* asked since then */
	bool is_told; /* this kernel has told of a socket before: what it does not know is not there */
};

/**
 * orphan_ask() - ask the kernel about the client's socket; ORPHAN when no process holds it
 * @num:  the connection, which may be over by now
 * @half: the worker's word for its two ends: only sockets of this machine are asked about
 * Return: 0, or -EBADMSG as worker_send() */
int orphan_ask(struct monitor *m, uint32_t num, const struct msg_half *half);

#endif
