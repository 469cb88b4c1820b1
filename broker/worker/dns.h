/* SPDX-License-Identifier: ISC */
/* broker/worker/dns.h - names to addresses: one c-ares channel, a small cache, one query a name */
#ifndef WEIR_BROKER_WORKER_DNS_H
#define WEIR_BROKER_WORKER_DNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/msg.h"

struct conn;
struct worker;

/** dns_init() - make the channel: after fork, so that no two workers share query ids, and before
 * the lock, because it reads /dev/urandom. Return: 0, or -errno */
int dns_init(struct worker *w);
/** dns_servers() - the servers of CONFIG, from the next query on.
 * Return: 0, or -EBADMSG when c-ares cannot read them */
int dns_servers(struct worker *w, const char *csv);
/** dns_resolve() - look c->deal->host up; ends in dial_candidates() or in a refusal, perhaps before
 * it returns */
void dns_resolve(struct conn *c);
/** dns_forget() - the connection no longer waits for an answer */
void dns_forget(struct conn *c);
/** dns_timeout() - DIAL_S is over: 504 */
void dns_timeout(struct conn *c);
/** dns_question() - the name that a DNS message asks or answers for, as text, without its last dot.
 * Return: false when there is none. Source: RFC 1035 section 4.1.2 */
bool dns_question(const uint8_t *p, size_t n, char out[HOST_MAX + 1]);
/** dns_word() - "NXDOMAIN", … for a c-ares status */
const char *dns_word(int status);

#endif
