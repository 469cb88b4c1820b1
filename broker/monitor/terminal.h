/* SPDX-License-Identifier: ISC */
/* broker/monitor/terminal.h - the command's terminal: who has it, stopping and going on, its end */
#ifndef WEIR_BROKER_MONITOR_TERMINAL_H
#define WEIR_BROKER_MONITOR_TERMINAL_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/monitor/pty_relay.h"
#include "broker/monitor/tty.h"
#include "broker/monitor/typed.h"

struct err;
struct monitor;

struct terminal {
	struct tty tty;
	struct pty_relay *relay; /* NULL: nothing inside is a terminal */
	bool always;		 /* --tty always: 0 and 1 are copied whatever they are */
	bool expected;		 /* the command was started with the terminal in hand */
	bool given;		 /* the command has it: keys are relayed, the modes are set */
	bool wants;		 /* it had it, or was stopped for want of it */
	bool hung_up;		 /* the user's terminal is gone */
	bool seen;		 /* it has had it: the modes inside are its own */
	bool output;		 /* what it had set for output when the terminal was taken away */
	bool needs;		 /* stopped for want of it: goes on only with it */
	uint32_t turn;		 /* of the last RESUME: a STOPPED with another one is stale */
	int stop;		 /* the signal by which weir stops itself soon; 0: none */
	bool stop_alone;	 /* it was sent to weir alone, not by a key */
	ev_timer stop_timer;
	struct typed typed; /* while the command has it not */
};

/**
 * terminal_open() - decide what the command's 0, 1, 2 are
 * Fills in the plan's tty. Nothing is changed outside yet.
 * Return: 0, or -errno with @e */
int terminal_open(struct monitor *m, struct err *e);
/** terminal_begin() - the terminal inside is there
 * @master: the monitor's from now on */
void terminal_begin(struct monitor *m, int master);
/** terminal_running() - the command runs */
void terminal_running(struct monitor *m);
/** terminal_ending() - the command has ended: write what is there, wait for no more */
void terminal_ending(struct monitor *m);
/** terminal_done() - is all output written? */
bool terminal_done(const struct monitor *m);
/** terminal_end() - modes back, for what is printed next and for whoever has the terminal next */
void terminal_end(struct monitor *m);
/** terminal_free() - the same, and everything closed */
void terminal_free(struct monitor *m);

/** terminal_stopped() - CMD was stopped by @signo after the RESUME @turn */
void terminal_stopped(struct monitor *m, int signo, uint32_t turn);
/** terminal_stop() - weir was sent SIGTSTP, which CMD has been sent: stop too, when CMD has or in a moment */
void terminal_stop(struct monitor *m);
/** terminal_continue() - weir was sent SIGCONT: take the terminal again if it is weir's turn, and let the
 * command go on */
void terminal_continue(struct monitor *m);
/** terminal_resized() - weir was sent SIGWINCH. Return: true when the kernel tells the command */
bool terminal_resized(struct monitor *m);
/** terminal_hangup() - weir was sent SIGHUP: was it because the terminal is gone? */
void terminal_hangup(struct monitor *m);

/* ---- for a question drawn on the terminal ---- */

/** terminal_hold() - as pty_relay_hold(); -ENOTTY where there is no terminal whose keys are weir's now */
int terminal_hold(struct monitor *m, void (*ready)(void *arg),
		  void (*keys)(void *arg, const char *buf, size_t len), void *arg);
/** terminal_rest() - the same without the keys, which somebody else reads: the output alone is held */
int terminal_rest(struct monitor *m, void (*ready)(void *arg), void *arg);
/** terminal_write() - to the user's terminal, while it is held and ready. Return: 0, or -errno */
int terminal_write(struct monitor *m, const char *buf, size_t len);
/** terminal_size() - of the user's terminal; 24 x 80 where it does not know. Return: false: no terminal */
bool terminal_size(const struct monitor *m, unsigned *rows, unsigned *columns);
/** terminal_typed_at() - when the command was last given a key that did not end a line, as ev_now(); 0: it
 * is at the beginning of one */
double terminal_typed_at(const struct monitor *m);
/** terminal_release() - keys and output are the command's again; who draws on the whole screen is made to
 * draw it anew, by two changes of size */
void terminal_release(struct monitor *m);

#endif
