/* SPDX-License-Identifier: ISC */
/* broker/monitor/receive.h - the receive table: who may say what, when, how long, with what */
#ifndef WEIR_BROKER_MONITOR_RECEIVE_H
#define WEIR_BROKER_MONITOR_RECEIVE_H

#include <stddef.h>
#include <stdint.h>

#include "common/fd.h"
#include "common/msg.h"

struct conn;
struct monitor;

#define IN(state) (1u << (state))

/** struct rx - one message that the table has let through
 * @fds:  what came with it; a handler keeps one by take_fd(), the rest is closed after it
 * @conn: the connection it is about, NULL for NONE, NEW and OVER */
struct rx {
	struct msg_head head;
	struct msg_rd body;
	int fds[FD_PASS_MAX];
	size_t nfds;
	struct conn *conn;
};

/** struct msg_rule - one row
 * @peers:    states of the sender, IN(...) of its enum
 * @conns:    states of the connection, IN(...) of enum conn_state; IN(CONN_NONE): about none
 * @min, @max: bytes after the head
 * @fds_min, @fds_max: descriptors
 * @handler:  0, or -EBADMSG: the sender broke the protocol and is ended */
struct msg_rule {
	uint8_t type;
	unsigned peers, conns;
	uint16_t min, max;
	uint8_t fds_min, fds_max;
	int (*handler)(struct monitor *m, struct rx *rx);
};

/** msg_name() - "ASK"; "unknown" for what is no type. For the audit and messages */
const char *msg_name(unsigned type);

/**
 * receive_one() - judge one received message by @rules and hand it to its handler
 * @peer: the sender's state
 * @fds:  @nfds descriptors that came with it; closed here unless a handler takes them
 * On -EBADMSG m->bad names the message.
 *
 * Return: 0, or -EBADMSG */
int receive_one(struct monitor *m, const struct msg_rule *rules, size_t nrules, unsigned peer,
		const void *buf, size_t len, const int *fds, size_t nfds);

#define RECEIVE_BATCH 64 /* messages handled before the loop looks at anybody else */

/**
 * receive_some() - receive from @sock what is there, until RECEIVE_BATCH messages were handled: beyond
 * them, the rest of the packet that the last one came in
 * @each: what to do with one; stops at the first that does not return 0
 *
 * Return: 0, -EPIPE when the peer is gone, -EBADMSG when it broke the protocol */
int receive_some(struct monitor *m, int sock,
		 int (*each)(struct monitor *m, const void *buf, size_t len, const int *fds,
			     size_t nfds));

#endif
