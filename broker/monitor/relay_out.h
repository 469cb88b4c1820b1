/* SPDX-License-Identifier: ISC */
/* broker/monitor/relay_out.h - no descriptor of the user's terminal enters the sandbox: output
 * goes through a pipe that the monitor copies to the terminal, input is /dev/null */
#ifndef WEIR_BROKER_MONITOR_RELAY_OUT_H
#define WEIR_BROKER_MONITOR_RELAY_OUT_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

#define RELAY_OUT_BYTES 16384

struct relay_one {
	int from, to; /* the pipe, the terminal; -1: not in use */
	bool own_to;  /* to was opened here */
	bool copied;  /* to shares the terminal's file description: write little, only when told */
	ev_io in, out;
	size_t off, len;
	struct relay_out *all;
	char buf[RELAY_OUT_BYTES];
};

struct relay_out {
	struct relay_one *one[2]; /* at most two terminals: stdout's and stderr's */
	struct ev_loop *loop;
	void (*ended)(void *arg); /* the last one has ended */
	void *arg;
	int inside[3]; /* ends for the sandbox, the relay's until relay_out_started(); -1: none */
	bool any;      /* something was a terminal */
};

/**
 * relay_out_open() - replace each of @stdio that is a terminal
 * @other: but for these, of which somebody else takes care
 * stdout and stderr on the same terminal share one pipe, so that their order stays.
 * Return: 0, or -errno with @e and @stdio untouched */
int relay_out_open(struct relay_out *r, int stdio[3], const bool other[3], struct err *e);
/** relay_out_started() - the sandbox has its copies: close ours and begin to copy */
void relay_out_started(struct relay_out *r, struct ev_loop *loop, void (*ended)(void *arg),
		       void *arg);
/** relay_out_done() - has every output ended and been written? */
bool relay_out_done(const struct relay_out *r);
void relay_out_free(struct relay_out *r);

#endif
