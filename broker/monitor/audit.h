/* SPDX-License-Identifier: ISC */
/* broker/monitor/audit.h - the audit log: JSON Lines, one write per record, shared by every
 * sandbox of the user under one lock (SPEC section 7) */
#ifndef WEIR_BROKER_MONITOR_AUDIT_H
#define WEIR_BROKER_MONITOR_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/addr.h"
#include "common/reason.h"

struct audit;
struct err;
struct json_t;
struct policy_rule;

#define AUDIT_VERSION 1
#define AUDIT_RECORD_MAX 8192 /* bytes of a line, its LF included */
#define AUDIT_QUEUE_MAX 1024  /* records that wait for the lock */
#define AUDIT_LOCK_MS 200     /* the longest wait for it */
#define AUDIT_LOCK_NAME "audit.lock"
#define AUDIT_TIME_MAX 64

/** struct audit_record - one line; a field that is NULL, 0 or false is left out
 * @event:  "start", "verdict", "end", "exit", …
 * @serial: number of the connection in this sandbox; "id" is SANDBOX.SERIAL
 * @verdict: "allow" or "deny"
 * @counts: up, down, requests and ms are written
 * @extra:  more fields of this event; the record takes the reference */
struct audit_record {
	const char *event;
	uint64_t serial;
	const char *proto, *host;
	uint16_t port;
	const struct addr *addr;
	const char *sni; /* what a tunnel's TLS named, escaped */
	const char *verdict;
	enum reason reason;
	const struct policy_rule *rule;
	const char *approval; /* what a person said */
	bool counts;
	uint64_t up, down, ms;
	uint32_t requests;
	struct json_t *extra;
};

/**
 * audit_new() - a log without a file: every record counts as lost, unless @off
 * @sandbox, @name: fields of every record; @name may be NULL. Must outlive the log
 * @off: the policy says "audit off": records go nowhere and are not lost
 *
 * Return: the log, or NULL without memory */
struct audit *audit_new(const char *sandbox, const char *name, bool off);
/**
 * audit_open() - open the file and its lock, creating both and the directories above
 * Files are regular, 0600, the user's own, not writable by others and have one name; the last
 * component is never followed; the directory is the user's or root's.
 * Return: 0, or -errno with @e; the log then stays without a file */
int audit_open(struct audit *a, const char *path, struct err *e);
/**
 * audit_write() - write one record
 * @must: the caller acts only when the record is on file: what cannot be written now is an error
 *	  and is not kept. Otherwise it is queued while the lock is held by another, or counted as lost
 *
 * Return: 0 (written, queued, lost or off), or with @must -errno */
int audit_write(struct audit *a, const struct audit_record *rec, bool must);
/** audit_retry() - try the queue again without waiting. Return: records still queued */
size_t audit_retry(struct audit *a);
size_t audit_queued(const struct audit *a);
/** audit_generation() - of the policy in force: a field of every record from now on. 0: none */
void audit_generation(struct audit *a, uint64_t generation);
/** audit_time() - now, RFC 3339 in UTC with microseconds. Return: @buf */
const char *audit_time(char buf[AUDIT_TIME_MAX]);
/** audit_text() - text as JSON: as it is when it is UTF-8, else with \xNN for the bytes that are not
 * ASCII. Return: a new reference, or NULL */
struct json_t *audit_text(const char *s);
/** audit_lost() - records lost so far; @why (may be NULL): errno value of the first loss */
uint64_t audit_lost(const struct audit *a, int *why);
/** audit_close() - write what is queued (waiting for the lock once), fsync, close. What is then
 * left is lost. Return: as audit_lost() */
uint64_t audit_close(struct audit *a, int *why);
void audit_free(struct audit *a);

#endif
