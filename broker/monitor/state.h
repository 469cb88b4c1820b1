/* SPDX-License-Identifier: ISC */
/* broker/monitor/state.h - everything the monitor remembers about one sandbox.
 * One loop, one thread. What stands here was decided by the monitor or has passed the receive
 * table: no field holds a byte that a peer sent and nobody checked.
 *   START --SPAWNED--> SERVE --EXITED--> DRAIN --all gone or 2 s--> OVER
 *   START --EXECFAIL or a death--> OVER */
#ifndef WEIR_BROKER_MONITOR_STATE_H
#define WEIR_BROKER_MONITOR_STATE_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <time.h>

#include "ask_line.h"
#include "audit.h"
#include "audit_follow.h"
#include "cgroup.h"
#include "common/msg.h"
#include "conn_table.h"
#include "control.h"
#include "entry.h"
#include "forward.h"
#include "gates.h"
#include "hosts.h"
#include "live.h"
#include "names.h"
#include "notices.h"
#include "orphan.h"
#include "questions.h"
#include "relay_out.h"
#include "remains.h"
#include "resolv.h"
#include "sandbox/plan.h"
#include "terminal.h"
#include "watch.h"

struct err;
struct policy;
struct repo;
struct run;

#define OWN_MAX 4096 /* own addresses remembered, public ones first; CONFIG carries MSG_OWN_MAX */
#define DEATHS_MAX 5 /* worker deaths within DEATHS_S that end the network */
#define DEATHS_S 60.0
#define DRAIN_S 2.0	 /* from EXITED to the end, whatever the others do */
#define TERM_S 10.0	 /* from the first TERM to the end of the sandbox */
#define TERM_START_S 1.0 /* the same where the command does not run yet */
#define READY_S 10.0	 /* a worker that is not ready by then counts as dead */
#define ROUTE_SOCKS_MAX (2 + PLAN_PORTS_MAX + 1)
#define AUDIT_RETRY_S 0.1
#define OWN_REFRESH_S 1.0

enum phase { PHASE_START, PHASE_SERVE, PHASE_DRAIN, PHASE_OVER, PHASE_COUNT };

enum shim_state { SHIM_NEW, SHIM_LISTENING, SHIM_RUNNING, SHIM_DONE, SHIM_GONE, SHIM_STATE_COUNT };

enum nursery_state { NURSERY_NONE, NURSERY_UP, NURSERY_STATE_COUNT };

enum worker_state {
	WORKER_NONE,	 /* deny, allow, or before the first START */
	WORKER_STARTING, /* START is sent; READY has not come */
	WORKER_READY,
	WORKER_STOPPING, /* STOP is sent */
	WORKER_OFF,	 /* none any more: the listeners are shut */
	WORKER_STATE_COUNT
};

/** struct msg_queued - a message that the worker had no room for yet */
struct msg_queued {
	STAILQ_ENTRY(msg_queued) link;
	int fds[2]; /* that go with it; the queue's */
	size_t nfds, len;
	uint8_t buf[];
};

/** struct masks - what is watched of the plan's masks; masks.c */
struct masks {
	struct watch watch;
	ev_io io;
	char **paths; /* the plan's own strings */
};

/** struct trees - overlays that are made to look anew; trees.c */
struct trees {
	int fd[TREES_MAX];
	size_t n;
	ev_timer timer;
};

struct monitor {
	struct run *run;
	struct ev_loop *loop;
	struct audit *audit; /* never NULL while serving */
	struct audit_place place;
	enum phase phase;
	pid_t self;
	uid_t uid;
	int64_t started_s; /* seconds since 1970 */
	char started_at[AUDIT_TIME_MAX];

	struct policy *policy; /* in force; run->policy until an edit */
	uint32_t epoch;	       /* grows when a verdict given before may no longer hold */
	struct live live;
	struct masks masks;
	struct trees trees;
	struct remains remains;
	struct entry entry;
	struct control control;

	/* the sandbox */
	int shim_sock, shim_pidfd, proc_fd, diag_fd;
	struct orphan orphan;
	struct who_budget looks;
	double strangers_at; /* record_is_flood(): when the minute began */
	uint64_t strangers;  /* refused since then */
	pid_t shim_pid;
	enum shim_state shim;
	ev_io shim_io, shim_out, shim_exit_io;
	uint64_t wants, wants_served; /* forward.c: asked of the shim, answered */
	unsigned wants_unsent;
	uint64_t signals; /* bit N: signal N waits to be passed on */
	unsigned terms;	  /* SIGTERMs seen */
	bool term_early;  /* the first one came before the command ran */
	bool killed;	  /* the monitor killed the sandbox */
	struct cgroup cgroup;
	struct repo *repo;	    /* what git would run of P, before; NULL: not looked at */
	struct timespec repo_since; /* by the clock of files, before the sandbox is made */
	bool unix_open;	  /* the kernel does not close the sockets in what may be written */
	int status;	  /* what monitor_main() will return */
	int status_fd;	  /* --status-fd opened anew, or -1: as it is */
	bool status_lost; /* it did not take a line */
	bool have_status;
	struct err *err; /* why the command did not run */
	/* once the command runs: start the nursery, then give up power; NULL: done */
	int (*lock)(struct monitor *m, struct err *e);

	/* the exposed side */
	int nursery_sock, nursery_pidfd;
	enum nursery_state nursery;
	ev_io nursery_io, nursery_exit_io;
	unsigned starts, started, ended; /* workers asked for, reported begun, reported ended */
	unsigned received;		 /* messages of all peers */
	int listeners[2];		 /* copies, for a replacement only */
	struct addr listen_addr;	 /* of weir proxy on TCP; family 0: there is none */
	uint16_t listen_port;
	size_t nlisteners;
	int route[ROUTE_SOCKS_MAX]; /* the same for the transparent route, @names_fd apart */
	uint8_t route_kind[ROUTE_SOCKS_MAX];
	size_t nroute;
	int names_fd;	   /* SOCK_NAMES; -1: none */
	uint16_t no_route; /* errno: why the route that nobody asked for is not there */
	struct name_table names;

	int worker_sock;
	enum worker_state worker;
	ev_io worker_io, worker_out;
	ev_timer ready_timer;
	struct gates gates;
	ev_io connects; /* connects.c: the listener of the worker's filter */
	int connects_fd;
	ev_io launcher_io;
	int launcher_fd; /* launcher.c: pidfd; -1: none */
	unsigned connects_refused;
	bool is_unjudged;
	STAILQ_HEAD(, msg_queued) queue;
	size_t queued, queue_max;
	double deaths[DEATHS_MAX]; /* the last ones, oldest first; 0: none */
	struct conn_table conns;
	struct questions questions;
	struct ask_line line;
	uint32_t counts[COUNT_COUNT],
		counts_before[COUNT_COUNT]; /* this worker's, and earlier ones' */
	uint64_t up, down;		    /* bytes of the connections that have ended */
	const char *bad;		    /* name of the message that broke the protocol */

	/* what a verdict needs besides the policy */
	struct hosts hosts;
	struct resolv resolv;
	struct addr own[OWN_MAX];
	size_t nown, nown_public;
	double own_at; /* when the list was made */

	ev_signal sig[9];
	void (*old_pipe)(int), (*old_xfsz)(int); /* SIGPIPE and SIGXFSZ as they were */
	bool pipe_ignored;
	ev_timer term_timer, drain_timer, audit_timer;
	ev_prepare audit_turn; /* the records of a turn are written before the next wait */
	ev_idle late;	       /* steps that wait until nothing else is to be done */
	size_t late_at;
	struct relay_out out;
	struct terminal terminal;
	struct notices notices;
	struct msg_wr wr; /* the message being written */
};

/** monitor_init() - an empty monitor with a loop and no descriptor. @m: zeros. Return: 0, or -ENOMEM */
int monitor_init(struct monitor *m, struct run *run);
/** monitor_free() - close and free everything; the audit log too */
void monitor_free(struct monitor *m);
/** monitor_end() - the result is known: leave the loop as soon as the others are done.
 * @status: exit status; the first one given stays */
void monitor_end(struct monitor *m, int status);
/** monitor_kill_sandbox() - SIGKILL to its pid 1 by pidfd; the kernel kills the rest */
void monitor_kill_sandbox(struct monitor *m);
/** monitor_check_done() - in DRAIN: is there nothing left to wait for? Then the loop ends */
void monitor_check_done(struct monitor *m);
/** monitor_network_name() - "deny", "allowlist", "allow": what this sandbox was started with */
const char *monitor_network_name(const struct monitor *m);
/** monitor_is_transparent() - is the transparent route in force? Of weir proxy, which has no plan, never */
bool monitor_is_transparent(const struct monitor *m);
/** monitor_is_own() - is @a an address of this machine, or does it hold one? */
bool monitor_is_own(const struct monitor *m, const struct addr *a);
/** monitor_own_refresh() - list the machine's addresses anew, at most once in OWN_REFRESH_S.
 * Return: true when the list changed */
bool monitor_own_refresh(struct monitor *m);

#endif
