/* SPDX-License-Identifier: ISC */
/* broker/monitor/typed.h - hear that somebody types while the keys are not the command's.
 * A shell that brings a job to the foreground which was never stopped sends no signal: what is typed next
 * is the first that can be heard of it. */
#ifndef WEIR_BROKER_MONITOR_TYPED_H
#define WEIR_BROKER_MONITOR_TYPED_H

#include <ev.h>
#include <stdbool.h>

struct typed {
	struct ev_loop *loop;
	int fd; /* an epoll set of the terminal alone, -1 until it is wanted */
	ev_io io;
	ev_timer again;
	unsigned looks; /* left, until somebody types again */
	bool (*fn)(void *arg);
	void *arg;
};

/** typed_init() - @fn: called for what was typed, whoever reads it; true: there is no more to wait for. A
 * few times more else, in the second that follows: typed ahead, while the shell hands the terminal over */
void typed_init(struct typed *t, struct ev_loop *loop, bool (*fn)(void *arg), void *arg);
/** typed_watch() - begin or end to listen
 * @tty: the terminal; what waits there already counts. Best effort: without descriptors nothing is heard */
void typed_watch(struct typed *t, int tty, bool on);
/** typed_end() - harmless on what was only typed_init()ed */
void typed_end(struct typed *t);

#endif
