/* SPDX-License-Identifier: ISC */
/* broker/monitor/pty_relay.h - bytes between the user's terminal and the one inside, unparsed */
#ifndef WEIR_BROKER_MONITOR_PTY_RELAY_H
#define WEIR_BROKER_MONITOR_PTY_RELAY_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "broker/monitor/ground.h"

#define PTY_OUT_BYTES 65536
#define PTY_IN_BYTES 4096 /* what a line discipline holds: N_TTY_BUF_SIZE */
#define PTY_HOLD_S 0.2	  /* for the output to come to rest */

struct pty_end {
	int fd;	      /* -1: none. The caller's: never closed here */
	bool patient; /* it may block: little at a time, and only when it says so */
	bool tty;     /* a terminal: at its end it is hung up */
};

struct pty_relay {
	struct ev_loop *loop;
	int master; /* -1: none any more */
	struct pty_end in, out;
	ev_io master_in, master_out, keys, screen;
	bool idle;		     /* nothing was there to read */
	bool ending;		     /* pty_relay_ending() */
	bool reads;		     /* keys are wanted */
	bool (*may_read)(void *arg); /* asked before each read of keys */
	double typed_at;	     /* when a key was last read for the command, as ev_now() */
	bool at_line_start;	     /* the last key was the end of a line, or there was none */
	size_t out_off, out_len, in_off, in_len;
	struct ground ground; /* of the terminal, after what was written to it */
	/* pty_relay_hold() */
	bool held, ready;
	void (*on_ready)(void *arg);
	void (*on_keys)(void *arg, const char *buf, size_t len);
	void *hold_arg;
	ev_timer hold_timer;
	void (*ended)(void *arg); /* the terminal inside has ended and all of it is written */
	void (*gone)(void *arg);  /* the user's terminal was hung up */
	void (*eof)(void *arg);	  /* input that is no terminal has ended */
	void *arg;
	char out_buf[PTY_OUT_BYTES], in_buf[PTY_IN_BYTES];
};

/**
 * pty_relay_start() - begin to copy the output
 * @r:	    zeroed but for @in, @out, @may_read, @ended, @gone, @eof and @arg
 * @master: of the terminal inside, non-blocking; the relay closes it */
void pty_relay_start(struct pty_relay *r, struct ev_loop *loop, int master);
/** pty_relay_stop() - close the master: whoever still runs inside is hung up */
void pty_relay_stop(struct pty_relay *r);
/** pty_relay_ending() - the command has ended: what it wrote is there now, and no more is waited for */
void pty_relay_ending(struct pty_relay *r);
/** pty_relay_keys() - read the keys from now on, or no longer */
void pty_relay_keys(struct pty_relay *r, bool on);
/** pty_relay_type() - as if typed. What there is no room for is dropped */
void pty_relay_type(struct pty_relay *r, const char *buf, size_t len);
/** pty_relay_drain() - copy what the terminal inside holds now, for as long as the user's takes it, at most
 * @ms milliseconds and 256 writes */
void pty_relay_drain(struct pty_relay *r, int ms);
/** pty_relay_done() - is there nothing that could still be written? */
bool pty_relay_done(const struct pty_relay *r);

/**
 * pty_relay_hold() - stop the output where the terminal is in no sequence and no character, and take the
 * keys away from the command; after PTY_HOLD_S what is unfinished is broken off by CAN
 * @ready: called once, perhaps before this returns: now the terminal is the caller's to write to
 * @keys:  called with each batch of keys until pty_relay_release(), from the start: what came before
 *	   @ready was typed without seeing a question; NULL: the output alone is held, no key is read for it
 * Return: 0; -EBUSY: held already; -ENOTTY: no terminal whose keys are weir's now */
int pty_relay_hold(struct pty_relay *r, void (*ready)(void *arg),
		   void (*keys)(void *arg, const char *buf, size_t len), void *arg);
/** pty_relay_write() - to the user's terminal, while it is held and ready. Blocks for 100 ms at most.
 * Return: 0, or -errno */
int pty_relay_write(struct pty_relay *r, const char *buf, size_t len);
/** pty_relay_release() - the keys are the command's again and the output goes on; also before ready */
void pty_relay_release(struct pty_relay *r);

#endif
