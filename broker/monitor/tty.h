/* SPDX-License-Identifier: ISC */
/* broker/monitor/tty.h - the user's terminal: which it is, its modes and its size */
#ifndef WEIR_BROKER_MONITOR_TTY_H
#define WEIR_BROKER_MONITOR_TTY_H

#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <termios.h>

struct err;
struct plan_tty;

/** struct tty - one terminal, the first of 0, 1, 2 that is one */
struct tty {
	int fd;	     /* opened anew and non-blocking, or a copy of the user's; -1: no terminal */
	bool copied; /* a copy: blocking, and O_NONBLOCK on it would reach the user's shell */
	bool on[3];  /* which of 0, 1, 2 are this terminal */
	bool is_own; /* standard input is this terminal and it is weir's controlling terminal: only then
		      * are its keys read and its modes set */
	bool screen;	       /* standard output is this terminal too: it is the command's alone */
	bool raw;	       /* modes are set by tty_raw() */
	pid_t group;	       /* weir's own process group */
	struct termios before; /* what tty_restore() puts back */
};

/**
 * tty_open() - look at the descriptors that become the command's 0, 1, 2
 * @t: filled in; fd -1 where none is a terminal. Closed by tty_close() whatever comes back
 * Return: 0, or -errno with @e */
int tty_open(struct tty *t, const int stdio[3], struct err *e);
/** tty_close() - modes back, descriptor closed; harmless on what was never opened */
void tty_close(struct tty *t);
/** tty_plan() - what the terminal inside looks like at the start
 * @foreground: the command has it at once, so that its modes are the user's */
void tty_plan(const struct tty *t, bool foreground, struct plan_tty *p);
/** tty_is_foreground() - is weir in the terminal's foreground process group? False where it is not
 * weir's controlling terminal */
bool tty_is_foreground(const struct tty *t);
/** tty_is_gone() - was the terminal hung up? */
bool tty_is_gone(const struct tty *t);
/** tty_raw() - every key is the command's; only in the foreground. What the terminal does to output
 * stays where others write to it too. Return: 0, or -errno */
int tty_raw(struct tty *t);
/** tty_restore() - the modes as they were before tty_raw(), unless weir is in the background, where they
 * are somebody else's */
void tty_restore(struct tty *t);
/** tty_size() - give the terminal inside the size of this one
 * @master: of the terminal inside
 * Return: true when it has changed: the kernel then signals those who run there */
bool tty_size(const struct tty *t, int master);
/** tty_inner_modes() - give the terminal inside the modes that this one had before tty_raw() */
void tty_inner_modes(const struct tty *t, int master);
/** tty_inner_output() - switch what the terminal inside does to output: off while this one does it
 * too. Return: what it was */
bool tty_inner_output(int master, bool on);

#endif
