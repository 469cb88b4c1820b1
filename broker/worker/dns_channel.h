/* SPDX-License-Identifier: ISC */
/* broker/worker/dns_channel.h - one c-ares channel that lives in the worker's loop */
#ifndef WEIR_BROKER_WORKER_DNS_CHANNEL_H
#define WEIR_BROKER_WORKER_DNS_CHANNEL_H

#include <ares.h>
#include <ev.h>

#define DNS_SOCKETS_MAX 256

/** struct dns_channel - starts as zeros, with both functions */
struct dns_channel {
	/* c-ares had its turn: answers may have been given */
	void (*on_processed)(struct dns_channel *ch);
	/* an answer to @name (its spelling) has the code @rcode, which is not 0 */
	void (*on_rcode)(struct dns_channel *ch, const char *name, unsigned rcode);
	ares_channel ares;
	struct ev_loop *loop;
	ev_io io[DNS_SOCKETS_MAX];
	ev_timer timer;
};

/** dns_channel_init() - without servers. Return: 0, or -ENOMEM */
int dns_channel_init(struct dns_channel *ch, struct ev_loop *loop);
/** dns_channel_wait() - wake when c-ares next wants to: after every call into it */
void dns_channel_wait(struct dns_channel *ch);
/** dns_rcode_word() - "NXDOMAIN", … for the code of an answer; NULL for 0 */
const char *dns_rcode_word(unsigned rcode);

#endif
