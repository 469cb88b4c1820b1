/* SPDX-License-Identifier: ISC */
/* broker/monitor/control.h - the control socket: other weir commands of the same user ask one
 * running sandbox (weir-control(7)) */
#ifndef WEIR_BROKER_MONITOR_CONTROL_H
#define WEIR_BROKER_MONITOR_CONTROL_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

struct monitor;
struct question;

#define CONTROL_VERSION 1
#define CONTROL_LINE_MAX 4096	/* bytes of a request, its LF included */
#define CONTROL_REPLY_MAX 65536 /* bytes of a reply, its LF included */
#define CONTROL_CLIENTS_MAX 128 /* one more, and the one that has been silent longest is closed */
#define CONTROL_WORDS_MAX 64	/* words of the command in a reply */
#define CONTROL_WORD_MAX 1024	/* bytes of a word */
#define CONTROL_LIST_MAX 20480	/* bytes of all of them in the reply, and of the policy's files */

/** struct control_client - one connection; @buf holds what came and is no line yet */
struct control_client {
	TAILQ_ENTRY(control_client) link;
	struct monitor *m;
	ev_io io;
	bool is_listening; /* has subscribed */
	bool is_late;	   /* did not take an event: to be closed */
	size_t len;
	char buf[CONTROL_LINE_MAX];
};

struct control {
	ev_io io;
	ev_timer pause;					 /* no descriptor was left */
	TAILQ_HEAD(control_clients, control_client) all; /* longest silent first */
	size_t n, listening;
	bool on;
};

/** control_init() - nothing is served */
void control_init(struct control *c);
/** control_start() - serve @m->entry.sock, which stays the entry's */
void control_start(struct monitor *m);
/** control_stop() - close every client */
void control_stop(struct monitor *m);

/** control_listen() - @c hears of everything from now on */
void control_listen(struct control_client *c);
/** control_question() - who listens hears that @q is open or has changed (@answer NULL), or how it
 * ended */
void control_question(struct monitor *m, const struct question *q, const char *answer);
/** control_reloaded() - who listens hears that another policy is in force */
void control_reloaded(struct monitor *m);

#endif
