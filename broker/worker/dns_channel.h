/* SPDX-License-Identifier: ISC */
/* broker/worker/dns_channel.h - one c-ares channel that lives in the worker's loop */
#ifndef WEIR_BROKER_WORKER_DNS_CHANNEL_H
#define WEIR_BROKER_WORKER_DNS_CHANNEL_H

#include <ares.h>
#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DNS_SOCKETS_MAX 256
#define DNS_STREAMS_MAX 64

/** struct dns_stream - how far the answers of one TCP connection were read; starts as zeros */
struct dns_stream {
	int fd;		 /* with @is_used */
	uint32_t at;	 /* bytes of this message and of the length before it */
	uint16_t length; /* of this message */
	bool is_used;
};

/** struct dns_channel - starts as zeros, with both functions */
struct dns_channel {
	/* c-ares had its turn: answers may have been given */
	void (*on_processed)(struct dns_channel *ch);
	/* an answer to @name (its spelling) has the code @rcode, which is not 0 */
	void (*on_rcode)(struct dns_channel *ch, const char *name, unsigned rcode);
	ares_channel ares;
	struct ev_loop *loop;
	ev_io io[DNS_SOCKETS_MAX];
	struct dns_stream stream[DNS_STREAMS_MAX];
	ev_timer timer;
};

/** dns_channel_init() - without servers. Return: 0, or -ENOMEM */
int dns_channel_init(struct dns_channel *ch, struct ev_loop *loop);
/** dns_channel_wait() - wake when c-ares next wants to: after every call into it */
void dns_channel_wait(struct dns_channel *ch);
/** dns_is_answer() - does a datagram say that it answers a query? c-ares 1.18 asks for the id, the question
 * and the sender only: a query that is sent back would count as "no address".
 * Source: RFC 1035 section 4.1.1: QR is 1, the opcode that of a query */
bool dns_is_answer(const uint8_t *p, size_t n);
/** dns_stream_feed() - the next @n bytes of a TCP connection. Return: false when one of its messages is no
 * answer, or too short to be one */
bool dns_stream_feed(struct dns_stream *s, const uint8_t *p, size_t n);
/** dns_rcode_word() - "NXDOMAIN", … for the code of an answer; NULL for 0 */
const char *dns_rcode_word(unsigned rcode);

#endif
