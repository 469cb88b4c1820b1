/* SPDX-License-Identifier: ISC */
/* broker/worker/state.h - what the worker remembers: one struct worker, one struct conn for each
 * client, and what a connection holds only for a while (a deal, an exchange, a pipe, a buffer). */
#ifndef WEIR_BROKER_WORKER_STATE_H
#define WEIR_BROKER_WORKER_STATE_H

#include <ares.h>
#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "broker/worker/framing.h"
#include "broker/worker/head_scan.h"
#include "broker/worker/pool.h"
#include "broker/worker/rewrite.h"
#include "broker/worker/target.h"
#include "broker/worker/transparent.h"
#include "common/msg.h"
#include "common/reason.h"

#define CONNS_MAX 65536 /* clients, whatever CONFIG says */
#define CONNS_OVER 16	/* more, only to be told 503 */
#define DEALS_MAX 1024	/* questions and dials under way; more wait unread */
#define SHARES 1024	/* targets that are told apart, by a hash */
#define PIPES_MAX 64	/* pooled pipes for splice */
#define INTERIM_MAX 64	/* 1xx heads before the final one: an origin that sends more is none */
/* proxies, forwards; redirected to, or one a port; names by TCP */
#define LISTENERS_MAX (2 + 2 * MSG_FORWARDS_MAX + 2 + 24 + 1)
#define PEEK_MAX (HEAD_MAX + 1)
#define REWRITE_ROOM 2048 /* Host; http://HOST:PORT and credentials for an upstream */
#ifdef WEIR_TEST
extern double clock_scale; /* WEIR_TEST_CLOCK: a test need not wait for a minute */
#else
#define clock_scale 1.
#endif
#define HEAD_S (10. * clock_scale) /* a head, from its first byte */
#define IDLE_S (60. * clock_scale) /* no byte yet, or nothing between two requests */
#define DIAL_S (30. * clock_scale) /* from the verdict to the connection, DNS included */
#define SWEEP_S 0.1		   /* a client that is not read for longer is watched for its end */
#define LINGER_S 2.		   /* after a refusal */
#define LINGER_BYTES 262144
#define STOP_S 0.3 /* STOP: what is under way may still be said */

#define container_of(p, type, member) ((type *)(void *)((char *)(p)-offsetof(type, member)))

enum which { CLIENT, ORIGIN };

/* A conn number lives from ASK to VERDICT (refused), GONE or DONE. @is_asked, @is_allowed and
 * @is_dialed say what the monitor was told or told us:
 *   HEAD <-> PARKED --ASK--> ASKED --VERDICT--> RESOLVING --CANDIDATES--> WAITING --DIAL--> DIALING
 *   --DIALED--> [UPSTREAM -->] TUNNEL or HTTP (which goes back to HEAD after each exchange)
 *   any --refusal--> REPLY -> LINGER -> closed */
enum conn_state {
	CONN_HEAD,   /* waiting for a request head or reading one */
	CONN_PARKED, /* the same, not read: no buffer or no deal is free */
	CONN_ASKED,
	CONN_RESOLVING,
	CONN_WAITING,
	CONN_DIALING,
	CONN_UPSTREAM, /* connected to the upstream proxy, which was asked to go on */
	CONN_HTTP,
	CONN_TUNNEL,
	CONN_REPLY,  /* the refusal did not fit into the socket at once */
	CONN_LINGER, /* it did: drop what the client still sends */
	CONN_STATE_COUNT
};

struct pipe {
	int fd[2];
	uint32_t held; /* bytes in it */
};

/** struct side - one socket of a connection, and the bytes that come from it */
struct side {
	ev_io io;	   /* io.fd is the socket, -1: none */
	struct pipe *pipe; /* bytes read here and not yet written to the other side */
	uint64_t moved;	   /* bytes read here and written there */
	uint8_t full;	   /* reads in a row that filled the buffer */
	uint8_t wait; /* EV_READ here, EV_WRITE on the other side, or 0: this direction is over */
	bool is_eof;  /* the peer sent FIN */
	bool is_shut; /* and the other side was told */
};

#define ATTEMPTS_MAX 4
struct attempt {
	ev_io io; /* io.fd -1: unused */
	struct conn *conn;
	ev_tstamp since;
	uint8_t index; /* into deal.addr */
};

/** struct deal - a question, its verdict and the dial; given back when the origin is linked */
struct deal {
	char host[HOST_MAX + 1];
	uint16_t port;
	uint32_t flags;
	struct buf *answer; /* the upstream proxy's, when it came in pieces */
	char text[MSG_TEXT_MAX + 1], private_text[MSG_TEXT_MAX + 1];
	struct addr addr[MSG_ADDRS_MAX];
	int born[2]; /* VERDICT_SOCKETS: nborn sockets to connect, the first one to addr[0] */
	uint8_t naddr, next, nborn;
	uint8_t interim; /* 1xx heads of the upstream proxy */
	uint16_t share;	 /* 0 to SHARES - 1 */
	bool is_set_up;	 /* the attempts are set up */
	int last_errno;	 /* of an attempt that failed */
	uint16_t gate;	 /* of the VERDICT */
	ev_timer stagger;
	struct conn *conn;
	struct attempt attempt[ATTEMPTS_MAX];
};

/** struct http - plain HTTP on this client connection: lives as long as it does */
struct http {
	char host[HOST_MAX + 1]; /* canonical: the verdict under which the origin is open */
	uint16_t port;
	struct frame req, resp;
	struct buf *out[2];  /* by destination: the end of a head that was not taken at once */
	struct buf *part[2]; /* by source: a response head or trailers that came in pieces */
	struct rewrite_named named[2]; /* by source: what its trailers may not hold */
	uint32_t requests;	       /* that rode on this verdict */
	uint8_t interim;	       /* 1xx heads of this answer */
	bool is_upgrade;
	bool is_broken;	      /* the origin takes no more of the request */
	bool is_resp_started; /* something was passed on: no refusal can follow */
	bool is_resp_head_done, is_client_kept, is_reused;
	bool is_switched; /* 101 was passed on */
	bool is_upstream; /* the origin is the upstream proxy: absolute form */
};

/** struct first - a tunnel to a name until its client's first bytes were judged */
struct first {
	char host[HOST_MAX + 1];      /* canonical: what a ClientHello must name */
	char sni[MSG_REJECT_MAX + 1]; /* what it did name, escaped; only when it is refused */
	uint16_t port;
	bool is_begun;	/* the first byte of a hello came */
	bool is_passed; /* its rest in conn.head goes out, then all is over here */
};

/* SOCKS5: which of the client's two messages is awaited */
enum socks_step { SOCKS_NONE, SOCKS_GREETING, SOCKS_REQUEST };

struct conn {
	struct worker *w;
	TAILQ_ENTRY(conn) all, wait, pending, turn;
	struct conn *next_num; /* in the table of conn numbers */
	struct side side[2];
	ev_timer timer;
	struct buf *head; /* a head or a hello that came in pieces, or a refusal that waits */
	struct deal *deal;
	struct http *http;
	struct first *first;
	struct dns_entry *dns; /* whose answer is awaited */
	double active;	       /* ev_now() of the last byte, for `limit idle` */
	uint32_t num, serial;
	uint32_t head_len; /* of the head under way; it is in @head, or else still in the socket */
			   /* of a hello: bytes without which it need not be looked at again */
	uint32_t dropped;
	uint8_t state, proto;
	uint8_t forward;  /* number of the publish or reach line; 0: a client of the proxy */
	struct addr peer; /* the client's end; family 0: a unix socket */
	uint16_t peer_port;
	const struct listener *from; /* where it was accepted */
	uint8_t socks;		     /* enum socks_step */
	uint8_t bound;	 /* enum bound: not BOUND_NOWHERE: a connection of the transparent route */
	bool is_started; /* the head's first byte came */
	bool is_asked, is_allowed, is_dialed;
	bool is_over; /* one of the CONNS_OVER */
	bool is_counted;
	uint8_t leave;	     /* enum leave_state, see leave.c */
	uint8_t turn_in;     /* enum turn, see turn.c */
	uint16_t share;	     /* PARKED: 1 + the share that is used up, 0: none is */
	bool is_head_method; /* HEAD: a refusal has no body */
	bool is_upgrade;     /* the request asks for another protocol */
	bool is_last;	     /* Max-Forwards is 0: it goes no further than here */
	bool is_sni_host;    /* the tunnel's ClientHello names the verdict's host */
};
_Static_assert(sizeof(struct conn) <= 512, "an idle tunnel costs at most 512 bytes");

TAILQ_HEAD(conn_list, conn);
_Static_assert(MSG_FORWARDS_MAX <= UINT8_MAX, "the number of a line fits");

struct dns;  /* dns.c */
struct stub; /* stub.c */

enum listener_kind {
	LISTENER_PROXY,
	LISTENER_UNIX,	/* weir proxy: its clients must be the user's own */
	LISTENER_NAMES, /* DNS by TCP */
	LISTENER_ROUTE, /* the transparent route */
};

/** struct listener - io.fd -1: unused */
struct listener {
	ev_io io;
	uint8_t kind;		/* enum listener_kind */
	uint8_t bound;		/* enum bound, of LISTENER_ROUTE */
	uint8_t proto, forward; /* of LISTENER_PROXY, as LISTEN said */
	struct addr at;		/* the clients' other end where all have the same; else family 0 */
	uint16_t at_port;
};

struct worker {
	struct ev_loop *loop;
	int monitor;
	ev_io monitor_in, monitor_out;
	struct msg_wr wr;
	struct msg_config config;
	struct dns *dns;
	struct stub *stub; /* NULL: no names are asked for here */

	struct listener listener[LISTENERS_MAX];
	const struct sockaddr_in *gates; /* what may be connected to unasked; NULL: nothing */
	uid_t uid;			 /* the user, as this process sees it */
	int spare;			 /* given up for a moment when no descriptor is left */
	ev_timer pause;
	bool is_ready, is_paused_full, is_paused_fds, is_stopping, is_exiting;

	struct pool conns, deals, https, firsts;
	struct pipe pipe[PIPES_MAX], *pipe_free[PIPES_MAX];
	uint32_t npipe_free;
	struct bufs bufs;
	struct conn_list all, parked, pending, halves;
	struct conn_list fresh, heads; /* see turn.c */
	uint16_t share[SHARES];	       /* deals that each target has */
	struct conn **by_num;	       /* num_mask + 1 buckets */
	uint32_t num_mask, next_num, next_serial;
	uint32_t conns_cap; /* what the descriptor limit allows */
	uint32_t open, over, accepted;
	uint32_t count[COUNT_COUNT];

	ev_timer sweep, half_timer;
	ev_io hup_io; /* an epoll set that reports the ends of sockets that are not read */
	int hup;

	ev_timer stats_timer, stop_timer;
	char *queue; /* messages the monitor has not taken yet */
	size_t queue_start, queue_end;

	const char *rcode; /* DNS, for the refusal being written; NULL: none */
	char in[PEEK_MAX];
	char out[HEAD_MAX + REWRITE_ROOM];
};

/** worker_exit() - end this process; what the monitor was not told, it learns from the death */
__attribute__((noreturn)) void worker_exit(struct worker *w, int status);

#endif
