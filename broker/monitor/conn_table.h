/* SPDX-License-Identifier: ISC */
/* broker/monitor/conn_table.h - the connections of one worker, by the worker's number for each */
#ifndef WEIR_BROKER_MONITOR_CONN_TABLE_H
#define WEIR_BROKER_MONITOR_CONN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "common/msg.h"
#include "policy/policy.h"
#include "policy/target.h"

struct forward;

#define CONN_TABLE_BUCKETS 1024

/* NONE, NEW and OVER are answers of conn_table_state() about a number; no struct conn is in them.
 *   NEW --ASK, refused--> OVER
 *   NEW --ASK, a person decides--> ASKED --no--> OVER;  --yes--> as if it were allowed now
 *   NEW --ASK, allowed--> ALLOWED (worker resolves) --DIALED--> OPEN --DONE--> OVER
 *                         WAITING (for CANDIDATES) --DIAL--> DIALING --DIALED--> OPEN
 *                         DIALING (the verdict fixed the addresses) */
enum conn_state {
	CONN_NONE,  /* number 0: the message is about no connection */
	CONN_NEW,   /* a number above every one seen */
	CONN_OVER,  /* seen and gone, or skipped */
	CONN_ASKED, /* a person is asked before the VERDICT */
	CONN_ALLOWED,
	CONN_WAITING,
	CONN_DIALING,
	CONN_OPEN,
	CONN_STATE_COUNT
};

struct question;

struct conn {
	uint32_t num;	 /* the worker's */
	uint64_t serial; /* the audit's: one sequence for all workers of a sandbox */
	enum conn_state state;
	uint8_t proto;
	uint8_t nallowed;
	uint32_t flags; /* of its VERDICT */
	uint32_t epoch; /* the monitor's, when it was judged last */
	bool cut;	/* CUT is sent: DONE follows, whatever crosses it */
	struct target target;
	struct policy_match match;
	struct addr *allowed; /* nallowed addresses that may be dialled; NULL: any public one */
	struct addr addr;     /* dialled; family 0: not yet */
	double since;	      /* monotonic seconds */
	struct msg_half ends; /* of the client's connection, by the worker's word; may be none */
	/* what a person is asked, or was: questions.h */
	struct question *question; /* it waits for the answer; NULL: it waits for none */
	TAILQ_ENTRY(conn) waiting;
	uint8_t said;	   /* enum answer about the target */
	uint8_t said_addr; /* and about an address that it leads to: */
	struct addr asked_addr;
	struct msg_candidates *cand; /* what it leads to, while the answer decides about the DIAL */
	struct conn *next;
	TAILQ_ENTRY(conn) undialed; /* until DIALED */
	bool is_undialed;
	const struct forward *forward; /* publish or reach: which; NULL: through the proxy */
	bool is_quiet;		       /* publish: the verdict is in no record yet */
	struct addr peer;	       /* publish: the client, by the worker's word */
	uint64_t want;		       /* publish: the number of its WANT; 0: none */
	ino_t born[2];		       /* publish: the sockets that may be connected, IPv4 first */
	uint16_t gate;		       /* that is open for it; 0: none */
};

struct conn_table {
	struct conn *bucket[CONN_TABLE_BUCKETS];
	size_t n, max;
	uint32_t last;		     /* highest number this worker has used */
	uint64_t serial;	     /* last given out */
	TAILQ_HEAD(, conn) undialed; /* allowed, not connected: oldest first */
	struct gates *gates;	     /* NULL: there are none */
};

/** conn_table_init() - @max: how many may exist at once */
void conn_table_init(struct conn_table *t, size_t max);
/** conn_table_state() - state of @num; @c is set to the connection where there is one, else NULL */
enum conn_state conn_table_state(const struct conn_table *t, uint32_t num, struct conn **c);
/** conn_table_use() - a message used the new number @num; every number up to it is OVER from now on.
 * Return: the serial that the audit uses */
uint64_t conn_table_use(struct conn_table *t, uint32_t num);
/** conn_table_add() - remember @num, which conn_table_use() has just taken.
 * Return: the connection, or NULL when there are too many (a protocol error) or no memory */
struct conn *conn_table_add(struct conn_table *t, uint32_t num, uint64_t serial);
/** conn_table_dialed() - @c is connected, or will not be: nothing more may be dialled for it */
void conn_table_dialed(struct conn_table *t, struct conn *c);
/** conn_table_del() - forget and free */
void conn_table_del(struct conn_table *t, struct conn *c);
/** conn_table_each() - @each for every connection; it must not delete any */
void conn_table_each(struct conn_table *t, void (*each)(void *arg, struct conn *c), void *arg);
/** conn_table_drain() - @end each and forget it; numbers start anew (for the next worker).
 * Return: how many there were */
size_t conn_table_drain(struct conn_table *t, void (*end)(void *arg, struct conn *c), void *arg);

#endif
