/* SPDX-License-Identifier: ISC */
/* broker/monitor/forward.h - publish and reach lines in force: ports of the sandbox on the host, and
 * the other way (SPEC section 3) */
#ifndef WEIR_BROKER_MONITOR_FORWARD_H
#define WEIR_BROKER_MONITOR_FORWARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/addr.h"
#include "common/reason.h"

#define FORWARD_COUNT_S 60.0 /* of connections that led nowhere, in one record */

struct conn;
struct json_t;
struct monitor;
struct policy_forward;
struct policy_match;
struct rx;

/** struct forward - one of them; its number on the wire is its place in the list, from 1
 * @line: stays the policy's that the sandbox was started with
 * @addr, @port: publish: where this machine listens. reach: where it is dialled
 * @inner: the port inside
 * @is_shut: publish: nothing listened there when it was connected to last
 * @counted: how many connections since have led nowhere and are in no record yet; @counted_at:
 *	     monotonic seconds, when the first of them ended
 * @fds:  @nfds listeners. publish: made by the command line; reach: by the sandbox's keeper */
struct forward {
	const struct policy_forward *line;
	struct addr addr;
	uint16_t port, inner;
	int fds[2];
	size_t nfds;
	bool is_shut;
	uint64_t counted;
	double counted_at;
};

/** forward_find() - the line that ASK speaks of. Return: NULL when there is none */
const struct forward *forward_find(const struct monitor *m, unsigned proto, unsigned number);
/** forward_judge() - may what @f opens be used under the policy in force? A reach line may be denied
 * by a deny rule for 127.0.0.1. @match: filled; the rule is the one that decides */
bool forward_judge(const struct monitor *m, const struct forward *f, struct policy_match *match);

/** forward_taken() - FORWARD of the shim: the listeners of a reach line. Return: 0, or -EBADMSG */
int forward_taken(struct monitor *m, struct rx *rx);
/** forwards_complete() - has each line its listener? */
bool forwards_complete(const struct monitor *m);
/** forwards_listen() - hand the listeners to the worker. Return: 0, or -errno */
int forwards_listen(struct monitor *m);
/** forwards_shut() - nobody can connect any more, whoever holds copies */
void forwards_shut(struct monitor *m);
/** forwards_drop() - close the listeners, which the worker may serve all the same */
void forwards_drop(struct monitor *m);

/** forward_want() - @c needs sockets that were born inside: ask the shim */
void forward_want(struct monitor *m, struct conn *c);
/** forward_flush() - the shim's socket has room: say what waits */
void forward_flush(struct monitor *m);
/** forward_sockets() - SOCKETS of the shim: pass them on. Return: 0, or -EBADMSG */
int forward_sockets(struct monitor *m, struct rx *rx);

/**
 * forward_is_quiet() - does the verdict about a new connection wait for a record until it is connected?
 * Where nothing listens inside, a client outside tries again and again: the first that found nothing
 * has its records, the next have none of their own (FORWARD_COUNT_S). Under `audit required` all have. */
bool forward_is_quiet(const struct monitor *m, const struct forward *f);
/** forward_count() - a connection ended with @reason that never was one, and is only counted?
 * Return: true: then nothing else is recorded of it */
bool forward_count(struct monitor *m, const struct conn *c, enum reason reason);
/** forward_answers() - @c is connected: what was counted is told, and the verdict that waited */
void forward_answers(struct monitor *m, struct conn *c);
/** forwards_told() - tell what is counted and not told yet */
void forwards_told(struct monitor *m);

/** forwards_json() - for --status-fd and the control socket. Return: a new array, or NULL */
struct json_t *forwards_json(const struct monitor *m);

#endif
