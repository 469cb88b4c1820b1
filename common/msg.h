/* SPDX-License-Identifier: ISC */
/* common/msg.h - every message between weir's processes (DESIGN section 4; docs/PROTOCOL.md).
 * One SOCK_SEQPACKET packet each (from the worker, one or more): struct msg_head, then the fields in
 * the order declared here, packed, host byte order; a string is a u16 length and its bytes, no NUL,
 * none inside.
 * Readers never believe a length; after the first failure each read gives zero, so that the end
 * is the only check. A body is encoded and decoded by msg_put_X() / msg_get_X(). */
#ifndef WEIR_COMMON_MSG_H
#define WEIR_COMMON_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "addr.h"

#define MSG_VERSION 1
#define MSG_MAX 16384	 /* bytes of a whole message */
#define HOST_MAX 253	 /* bytes of a host name, RFC 1035 section 2.3.4 */
#define MSG_ADDRS_MAX 64 /* addresses in VERDICT, CANDIDATES, DIAL */
#define MSG_OWN_MAX 64	 /* own addresses in CONFIG */
#define MSG_SERVERS_MAX 512
#define MSG_TEXT_MAX 1024  /* refusal text */
#define MSG_ENDS_MAX 38	   /* bytes of the ends of a connection */
#define MSG_REJECT_MAX 128 /* escaped bytes of a bad authority */
#define MSG_AUTH_MAX 700   /* "USER:PASSWORD", 510 bytes at most, in base64 */
#define MSG_SECRET_MAX 64
#define MSG_FORWARDS_MAX 16 /* publish and reach lines of one sandbox */

enum msg_type {
	MSG_NONE,
	/* worker -> monitor */
	MSG_READY,
	MSG_ASK,
	MSG_REJECT,
	MSG_CANDIDATES,
	MSG_DIALED,
	MSG_DONE,
	MSG_STATS,
	MSG_GONE,
	MSG_NAME,
	/* monitor -> worker */
	MSG_CONFIG,
	MSG_VERDICT,
	MSG_DIAL,
	MSG_CUT,
	MSG_LISTEN, /* 1-2 descriptors */
	MSG_STOP,
	MSG_NAMED,
	/* monitor -> nursery */
	MSG_START, /* 1-3 descriptors: see struct msg_start; a worker still alive is killed first */
	MSG_ENTRY, /* 1 descriptor: the directory of the runtime entries. MSG_STOP: kill the worker */
	/* nursery -> monitor */
	MSG_STARTED,
	MSG_ENDED,
	/* shim -> monitor */
	MSG_LISTENERS, /* 0-2 listeners, sock_diag, /proc, the pty: see struct msg_listeners */
	MSG_FORWARD,   /* 1-2 descriptors: listeners for a reach line */
	MSG_TREES,     /* 1-8 descriptors: overlays that the monitor makes look at the host anew */
	MSG_SPAWNED,
	MSG_EXECFAIL,
	MSG_SOCKETS, /* 0-2 descriptors: unconnected sockets, IPv4 first. Monitor -> worker too */
	MSG_EXITED,
	MSG_ROUTE, /* 1-8 descriptors; passed on to the worker as it is */
	/* monitor -> shim */
	MSG_SIGNAL,
	/* worker -> monitor, monitor -> worker */
	MSG_HALF,
	MSG_ORPHAN,
	MSG_WANT,
	/* shim -> monitor */
	MSG_STOPPED,
	/* monitor -> shim */
	MSG_RESUME,
	/* monitor -> nursery */
	MSG_CGROUP, /* 2 descriptors: the directory it lies in, and its cgroup.events */
	MSG_TYPE_COUNT
};

enum msg_proto {
	PROTO_CONNECT, /* HTTP CONNECT */
	PROTO_HTTP,    /* absolute-form request */
	PROTO_SOCKS5,
	PROTO_PUBLISH,	   /* a client outside, for a port of the sandbox */
	PROTO_REACH,	   /* a client inside, for a port of the host's loopback */
	PROTO_TRANSPARENT, /* a plain connection, redirected */
	PROTO_DNS,	   /* a name was looked up: in records alone */
	PROTO_COUNT
};

struct msg_head {
	uint8_t type;	 /* enum msg_type */
	uint8_t version; /* MSG_VERSION */
	uint16_t length; /* of the whole message, head included */
	uint32_t conn; /* the worker's name of a connection: never reused by one worker; 0: none */
};

/* A cursor over a received message. */
struct msg_rd {
	const uint8_t *p, *end;
	bool bad;
};
/* A message being written; @bad once anything did not fit. */
struct msg_wr {
	uint8_t buf[MSG_MAX];
	size_t len;
	bool bad;
};

/** msg_first() - of a packet that holds messages one behind the other: bytes of the first. Return: @len
 * too where its head makes no sense: then msg_open() refuses it */
size_t msg_first(const void *buf, size_t len);
/** msg_open() - check the head of @len received bytes and set @r on the body.
 * Return: 0, or -EBADMSG (short, wrong version or length, unknown type) */
int msg_open(struct msg_head *h, struct msg_rd *r, const void *buf, size_t len);
uint8_t rd_u8(struct msg_rd *r);
uint16_t rd_u16(struct msg_rd *r);
uint32_t rd_u32(struct msg_rd *r);
uint64_t rd_u64(struct msg_rd *r);
/** rd_str() - @room includes the NUL that is added; too long or a NUL inside is bad; @out is always
 * a string */
void rd_str(struct msg_rd *r, char *out, size_t room);
void rd_addr(struct msg_rd *r, struct addr *a); /* family 4 or 6 with its bytes; else bad */
/** rd_end() - Return: 0 when everything was read and nothing was bad, else -EBADMSG */
int rd_end(struct msg_rd *r);

void wr_open(struct msg_wr *w, enum msg_type type, uint32_t conn);
void wr_u8(struct msg_wr *w, uint8_t v);
void wr_u16(struct msg_wr *w, uint16_t v);
void wr_u32(struct msg_wr *w, uint32_t v);
void wr_u64(struct msg_wr *w, uint64_t v);
void wr_str(struct msg_wr *w, const char *s);
void wr_addr(struct msg_wr *w, const struct addr *a);
/** wr_close() - finish: the bytes of the message are in @w, to be sent later. Return: 0, or -EMSGSIZE
 * when it did not fit */
int wr_close(struct msg_wr *w);
/** wr_send() - finish and send with descriptors. Return: 0, -errno, -EMSGSIZE when it did not fit */
int wr_send(struct msg_wr *w, int sock, const int *fds, size_t nfds);

/* ---- worker -> monitor ---- */

/* HALF: FIN came from a client that waits for its answer: does a process still hold its socket?
 * Answered by ORPHAN when none does, else not at all. */
struct msg_half {
	struct addr client, proxy; /* the two ends, as the worker sees them */
	uint16_t client_port, proxy_port;
};
/* ASK: may this connection go out? Answered by VERDICT, once. For PROTO_PUBLISH and PROTO_REACH @port
 * is the number that LISTEN gave and @host the client's address, for the record only. */
struct msg_ask {
	uint8_t proto; /* enum msg_proto */
	uint16_t port; /* host byte order, 1-65535 */
	char host[HOST_MAX +
		  1];	      /* the client's spelling (an IPv6 literal without brackets): printable
				  * ASCII, not canonical, not trusted */
	uint8_t literal6;     /* 1: it was in brackets */
	struct msg_half ends; /* of the client's connection, by which the monitor finds who asks;
			       * its family 0: a unix socket, or a client outside. Then absent */
};
/* REJECT: refused by the worker before anything could be asked; only for the record. */
struct msg_reject {
	uint8_t proto;
	uint8_t reason;		       /* enum reason */
	char text[MSG_REJECT_MAX + 1]; /* escaped excerpt of what was bad, printable ASCII */
	struct msg_half ends;	       /* as in ASK */
};
/* CANDIDATES: what the name resolved to, unfiltered; only after VERDICT_CANDIDATES. */
struct msg_candidates {
	uint8_t n; /* 1-MSG_ADDRS_MAX */
	struct addr addr[MSG_ADDRS_MAX];
};
/* DIALED: connected. The monitor checks @addr against what it allowed. */
struct msg_dialed {
	struct addr addr;
};
/* DONE: a conn that was allowed ended (or could not be dialled: up and down 0, @reason says why);
 * the conn number is over. A refused conn is over with its VERDICT (or empty DIAL) and sends none.
 * A client connection that goes on to another target opens a new conn number. */
struct msg_done {
	uint64_t up, down; /* payload bytes client->origin, origin->client */
	uint32_t requests; /* plain HTTP requests that rode on the verdict; 1 for a tunnel */
	uint8_t reason;	   /* enum reason */
	uint8_t sni_host;  /* 1: the tunnel's ClientHello named the verdict's host */
	char sni[MSG_REJECT_MAX + 1]; /* what it named instead, escaped printable ASCII; with
		      * REASON_SNI_MISMATCH alone, empty when it named nothing */
};
/* STATS: sent on STOP and at most once a second while serving. */
enum msg_count {		     /* how often each limit was met, by this worker */
		 COUNT_CONNECTIONS,  /* 503: connection limit, descriptors, buffers */
		 COUNT_DESCRIPTORS,  /* accepted with the last descriptor, only to say 503 */
		 COUNT_FULL,	     /* accepting paused: no buffer or no deal was free */
		 COUNT_HEAD_TIMEOUT, /* 408 */
		 COUNT_HEAD_SIZE,    /* 431 */
		 COUNT_IDLE, /* closed: no byte, nothing between two requests, `limit idle` */
		 COUNT_DNS_TIMEOUT,  /* 504 */
		 COUNT_DIAL_TIMEOUT, /* 504 */
		 COUNT_SECRET,	     /* 407 */
		 COUNT_PEER,	     /* unix listener: another user's client */
		 COUNT_COUNT
};
struct msg_stats {
	uint32_t open, accepted;
	uint32_t count[COUNT_COUNT];
};
/* NAME: may this name be known inside, and by which address? Answered by NAMED, once. About no
 * connection: @query is the worker's number for it. */
enum msg_name_kind {
	NAME_ADDR,    /* its IPv4 address is wanted: a refusal is recorded */
	NAME_OTHER,   /* something else: only whether the name exists */
	NAME_REVERSE, /* @host is an address: which name was it given out for? */
	NAME_KIND_COUNT
};
struct msg_name {
	uint32_t query;
	uint8_t kind;		 /* enum msg_name_kind */
	char host[HOST_MAX + 1]; /* printable ASCII, not canonical, not trusted */
	uint16_t port;		 /* the UDP port inside that the query came from; 0: none */
};
/* GONE {}: the client left before VERDICT or DIALED; the conn is over. READY {}: locked. */

/* ---- monitor -> worker ---- */

struct msg_config {
	uint32_t connections;		   /* limit */
	uint32_t idle_ms;		   /* of tunnels; 0: never */
	char servers[MSG_SERVERS_MAX + 1]; /* c-ares csv "127.0.0.1:53,[::1]:53"; may be empty */
	uint8_t nown;
	struct addr own[MSG_OWN_MAX]; /* this machine's addresses, classed as loopback */
	char upstream[HOST_MAX + 1];  /* the proxy that VERDICT_UPSTREAM means; empty: none */
	uint16_t upstream_port;
	char upstream_auth[MSG_AUTH_MAX + 1]; /* base64 of its Basic credentials; empty: none */
	char secret[MSG_SECRET_MAX + 1]; /* what each client must prove (407); empty: nothing */
};

enum msg_verdict_flag {
	VERDICT_PRIVATE = 1, /* the rule has "private" */
	VERDICT_NO_SNI = 2,  /* do not compare SNI */
	VERDICT_CANDIDATES =
		4, /* send CANDIDATES and wait for DIAL; else the worker keeps public ones */
	VERDICT_FIXED = 8,     /* addr[] is what to dial, checked by the monitor; no DNS */
	VERDICT_LITERAL = 16,  /* the target is an address */
	VERDICT_SOCKETS = 64,  /* wait for SOCKETS and connect these to addr[], by family */
	VERDICT_UPSTREAM = 32, /* dial CONFIG's upstream instead and let it go on to the target;
				* addr[], CANDIDATES and DIAL are then about the upstream */
};
struct msg_verdict {
	uint8_t allow;	 /* 0 or 1 */
	uint16_t status; /* HTTP status of a refusal, 0 when allowed */
	uint8_t reason;	 /* enum reason */
	uint32_t flags;	 /* enum msg_verdict_flag */
	uint16_t port;
	uint16_t gate; /* 1-GATES_MAX: with VERDICT_FIXED, where one of addr[] and its port lie for
			* connect(); 0: nowhere */
	char host[HOST_MAX + 1]; /* canonical; the only spelling used from here on */
	char text[MSG_TEXT_MAX +
		  1]; /* refused: the body, three lines, each ended by LF; allowed: one
				      * line "allowed by FILE:LINE: TEXT" LF, the second line of the
				      * 502 and 504 bodies */
	char private_text[MSG_TEXT_MAX +
			  1]; /* allowed: the body should only private addresses be left */
	uint8_t naddr;
	struct addr addr[MSG_ADDRS_MAX];
};
/* DIAL: which candidates may be dialled, in the order of CANDIDATES. None: 403 private_address. */
struct msg_dial {
	uint64_t mask;		     /* bit i: candidate i */
	uint8_t reason;		     /* when the mask is 0 */
	char text[MSG_TEXT_MAX + 1]; /* refusal text when the mask is 0 */
};
/* NAMED: the answer to NAME. */
enum msg_named_answer {
	NAMED_NO,   /* nothing inside may know it */
	NAMED_YES,  /* @addr; for NAME_REVERSE @host */
	NAMED_FULL, /* it may, but no address is left for it */
	NAMED_ANSWER_COUNT
};
struct msg_named {
	uint32_t query;
	uint8_t answer;		 /* enum msg_named_answer */
	uint32_t addr;		 /* IPv4 in host byte order */
	char host[HOST_MAX + 1]; /* canonical */
};
/* LISTEN + 1-2 listening descriptors, non-blocking, for one thing. */
struct msg_listen {
	uint8_t proto;	  /* PROTO_CONNECT: the proxy; PROTO_PUBLISH, PROTO_REACH */
	uint16_t forward; /* number of the publish or reach line, from 1; 0: the proxy */
};
/* CUT {}: reset this connection to both sides. ORPHAN {}: no process holds its client's socket.
 * STOP {}: finish: send what is left to say, exit.
 * SOCKETS {} + 0-2 unconnected sockets born inside the sandbox, IPv4 first: after a VERDICT with
 * VERDICT_SOCKETS, once. None: they could not be made. */

/* ---- monitor <-> nursery ---- */

/* ENTRY + the directory, O_PATH: what to remove there when the monitor is gone without a word */
#define MSG_ENTRY_MAX 32
struct msg_entry {
	char name[MSG_ENTRY_MAX + 1]; /* lower-case letters and digits; ".NAME" is removed too */
};
/* CGROUP, the same body: the directory CGROUP_FRONT and the name, which can be removed when the sandbox
 * has left it. */
#define CGROUP_FRONT "weir-"
/* START + the worker's end of its socket, then as it says: the page of gates, the socket at which names
 * are asked for. STOP {}. STARTED, ENDED: */
struct msg_start {
	uint8_t has_gates, has_names;
};
struct msg_started {
	uint32_t pid; /* in the nursery's pid namespace: information only */
};
struct msg_ended {
	uint32_t status; /* as wait(2) gave it */
};

/* ---- shim <-> monitor ---- */

/* LISTENERS + descriptors in this order: @nlisten listeners, sock_diag when @has_diag, a directory
 * descriptor of the sandbox's /proc when @has_proc, the master of its terminal when @has_tty. Sent
 * once, before anything runs inside. */
struct msg_listeners {
	uint8_t nlisten; /* 0-2: IPv4, IPv6 */
	uint8_t has_diag, has_proc, has_tty;
	uint16_t no_route; /* errno: why the transparent route is not there, which may be absent */
};
/* TREES + @n descriptors of fspick(2), each an overlay over a tree of the host: any time before the end,
 * as often as it takes, TREES_MAX in all. */
#define TREES_MAX 64
struct msg_trees {
	uint8_t n;
};
void msg_put_trees(struct msg_wr *w, const struct msg_trees *m);
int msg_get_trees(struct msg_rd *r, struct msg_trees *m);

/* FORWARD + 1-2 listeners born inside: before LISTENERS, once for each reach line. */
struct msg_forward {
	uint8_t index; /* of the plan's reach ports */
};
/* WANT {}, monitor to shim: two unconnected TCP sockets, please. Answered in order, each by one
 * SOCKETS {} + 0-2 descriptors, IPv4 first. */
/* ROUTE + sockets of one kind, born inside: of the transparent route. From the shim after LISTENERS, and
 * from the monitor to each worker after LISTEN. */
enum msg_route_kind {
	SOCK_REDIRECT,	/* listener: SO_ORIGINAL_DST says where the client wanted to go */
	SOCK_PORT,	/* listener on a port of the policy: its own address says so */
	SOCK_NAMES,	/* UDP socket at which names are asked for; goes to the worker with START */
	SOCK_NAMES_TCP, /* listener, the same */
	SOCK_KIND_COUNT
};
struct msg_route {
	uint8_t kind; /* enum msg_route_kind */
};
struct msg_spawned {
	uint32_t pid; /* CMD, in the sandbox's pid namespace */
};
enum exec_stage {
	STAGE_SETUP, /* namespaces, mounts, lock: weir's own failure, 125 */
	STAGE_EXEC,  /* execve of CMD: 126 or 127 by errno */
	STAGE_CHDIR,
	STAGE_COUNT
};
struct msg_execfail {
	uint8_t stage;	     /* enum exec_stage */
	uint8_t unavailable; /* this machine cannot make a sandbox */
	uint32_t num;	     /* errno, 0 when none */
	char what[512], why[256], fix[256];
};
struct msg_exited {
	uint32_t status; /* as wait(2) gave it for CMD */
};
struct msg_signal {
	uint8_t signo; /* to CMD's process group */
};
/* STOPPED: CMD itself was stopped, as a shell's job is. */
struct msg_stopped {
	uint32_t signo;
	uint32_t turn; /* of the last RESUME that came before: tells what is stale */
};
enum msg_hold {
	HOLD_AWAY,  /* no process group of the command has the terminal: who reads it is stopped */
	HOLD_AGAIN, /* the one that had it has it again */
	HOLD_CMD,   /* CMD's own */
	HOLD_COUNT
};
/* RESUME: who has the sandbox's terminal; then SIGCONT to CMD's process group. */
struct msg_resume {
	uint32_t turn; /* grows */
	uint8_t hold;  /* enum msg_hold */
};

#define MSG_PAIR(name)                                                                             \
	void msg_put_##name(struct msg_wr *, const struct msg_##name *);                           \
	int msg_get_##name(struct msg_rd *, struct msg_##name *) /* 0 or -EBADMSG */
MSG_PAIR(ask);
MSG_PAIR(reject);
MSG_PAIR(candidates);
MSG_PAIR(dialed);
MSG_PAIR(done);
MSG_PAIR(half);
MSG_PAIR(stats);
MSG_PAIR(name);
MSG_PAIR(config);
MSG_PAIR(verdict);
MSG_PAIR(dial);
MSG_PAIR(named);
MSG_PAIR(entry);
MSG_PAIR(start);
MSG_PAIR(started);
MSG_PAIR(ended);
MSG_PAIR(listeners);
MSG_PAIR(listen);
MSG_PAIR(forward);
MSG_PAIR(route);
MSG_PAIR(spawned);
MSG_PAIR(execfail);
MSG_PAIR(exited);
MSG_PAIR(signal);
MSG_PAIR(stopped);
MSG_PAIR(resume);
#undef MSG_PAIR

#endif
