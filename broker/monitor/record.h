/* SPDX-License-Identifier: ISC */
/* broker/monitor/record.h - what of a run and its connections goes to the audit log */
#ifndef WEIR_BROKER_MONITOR_RECORD_H
#define WEIR_BROKER_MONITOR_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/reason.h"

#define STRANGERS_MAX 32
#define STRANGERS_S 60.0

struct audit_record;
struct conn;
struct json_t;
struct monitor;
struct msg_done;
struct msg_half;
struct policy_rule;

/** record_event() - an event that is about no connection; @extra (may be NULL) is taken */
void record_event(struct monitor *m, const char *event, struct json_t *extra);
/** record_allow() - the verdict that lets @c out. Return: 0, or -errno when the policy requires
 * the record and it is not on file: then the connection must be refused */
int record_allow(struct monitor *m, const struct conn *c);
/** record_names_client() - does the record of the allowed @c say who asked? That takes a while */
bool record_names_client(const struct monitor *m, const struct conn *c);
/** struct refused - a connection that was not let out
 * @host: canonical or escaped; @rule and @approval (what a person said) may be NULL
 * @ends: of the client's connection: who asked is looked for. NULL, or family 0: it has none
 * @socket: of the client, who_socket() or who_udp(), or 0 */
struct refused {
	uint64_t serial;
	unsigned proto;
	const char *host;
	uint16_t port;
	enum reason reason;
	const struct policy_rule *rule;
	const char *approval;
	const struct msg_half *ends;
	uint32_t socket;
};
/** record_deny() - when the answer is sent: who asked is looked for, as long as who_look() does */
void record_deny(struct monitor *m, const struct refused *r);
/** record_is_flood() - where strangers may connect (weir proxy on TCP), those who prove nothing get
 * STRANGERS_MAX records of refusals a minute; the rest is counted, and told by one record when the
 * minute is over. Return: true when this one is only counted */
bool record_is_flood(struct monitor *m, enum reason reason);
/** record_flood_end() - tell what was counted so far */
void record_flood_end(struct monitor *m);
/** record_end() - the end of an allowed connection; @done NULL: without counts of its own */
void record_end(struct monitor *m, const struct conn *c, const struct msg_done *done,
		enum reason reason);
/** record_limits() - how often limits were met, a new object of those that were; NULL: none was */
struct json_t *record_limits(const struct monitor *m);
/** record_flush() - a turn of the loop is over: write its records; what must wait for the lock is tried
 * again by and by */
void record_flush(struct monitor *m);
/** proto_name() - "connect", "http", "socks5" */
const char *proto_name(unsigned proto);

#endif
