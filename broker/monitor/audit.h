/* SPDX-License-Identifier: ISC */
/* broker/monitor/audit.h - the audit log: JSON Lines, each chained to the one before, the records of
 * one turn of the loop by one write (SPEC section 7) */
#ifndef WEIR_BROKER_MONITOR_AUDIT_H
#define WEIR_BROKER_MONITOR_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/addr.h"
#include "common/reason.h"
#include "policy/policy.h"

struct audit;
struct err;
struct json_t;
struct policy_rule;
struct who;

#define AUDIT_VERSION 1
#define AUDIT_RECORD_MAX 8192 /* bytes of a line, its LF included */
#define AUDIT_QUEUE_MAX 1024  /* records that wait for the lock */
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
	const char *approval;	  /* what a person said */
	const struct who *client; /* who asked: its pid 0, it is not known */
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
/** audit_open() - audit_file_open(). Return: 0, or -errno with @e; the log then stays without a file */
int audit_open(struct audit *a, const char *path, struct err *e);
/** audit_open_sink() - the file at @path, or the system's log. @path NULL: no file.
 * Return: 0, or -errno with @e */
int audit_open_sink(struct audit *a, enum policy_audit_sink sink, const char *path, struct err *e);
/**
 * audit_write() - take one record
 * @must: the caller acts only when the record is on file: it is written now, and what cannot be
 *	  written is an error and is not kept. Otherwise it waits for audit_flush(), at most
 *	  AUDIT_QUEUE_MAX of them; what does not fit or cannot be written is counted as lost
 *
 * Return: 0 (taken, lost or off), or with @must -errno */
int audit_write(struct audit *a, const struct audit_record *rec, bool must);
/** audit_flush() - write what waits, by one write under one lock, which is waited for at most
 * AUDIT_LOCK_MS, and not at all when that was in vain the last time */
void audit_flush(struct audit *a);
/** audit_retry() - try the queue again without waiting. Return: records still queued */
size_t audit_retry(struct audit *a);
size_t audit_queued(const struct audit *a);
/** audit_switch() - @off: records go nowhere from now on and are not lost; else they are written again
 * to what is open */
void audit_switch(struct audit *a, bool off);
/**
 * audit_move() - records go elsewhere from now on: as audit_open_sink(), also behind the lock
 * What waits is written to where it went before, and last a record "audit_moved" with @to. Who listens
 * to the system's log is not asked: records are lost, and counted, until somebody does.
 * Return: 0, or -errno with @e: nothing has changed */
int audit_move(struct audit *a, enum policy_audit_sink sink, const char *path, const char *to,
	       struct err *e);
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
