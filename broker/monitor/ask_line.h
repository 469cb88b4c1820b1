/* SPDX-License-Identifier: ISC */
/* broker/monitor/ask_line.h - one line on the user's terminal: a question and the keys that answer */
#ifndef WEIR_BROKER_MONITOR_ASK_LINE_H
#define WEIR_BROKER_MONITOR_ASK_LINE_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <termios.h>

struct monitor;

#define ASK_LINE_MAX 512 /* columns that are used of a terminal */

/** struct ask_line - what is shown, and where
 *   IDLE --ask_line_next()--> HELD (the command's output comes to rest) --> SHOWN --answer, Esc, end--> IDLE */
struct ask_line {
	enum ask_place { ASK_NOWHERE, ASK_RELAY, ASK_TTY } place;
	uint64_t question; /* 0: IDLE */
	bool shown;
	bool detailed; /* the line and the files are shown instead of the answers */
	int tty; /* the controlling terminal, for where the relay does not read its keys; -1: none */
	pid_t group;	/* weir's own process group */
	bool plain;	/* a terminal that knows no sequences */
	bool answering; /* a key that was typed here is being acted upon */
	char answered;	/* the key that answered the line before, a moment ago */
	bool rushed;	/* somebody was typing when the line came, and goes on */
	double key_at,
		gone_at; /* of the last key here; when a line went that no key here had ended */
	const char *style;
	struct termios before;
	ev_io keys;
};

void ask_line_init(struct ask_line *l);
/** ask_line_open() - find the terminal. Before the monitor is locked */
void ask_line_open(struct monitor *m);
/** ask_line_may() - is there a terminal that a question could be shown on now? */
bool ask_line_may(const struct monitor *m);
/** ask_line_next() - show the oldest question that somebody waits for, unless one is shown. What was
 * typed before it is drawn goes nowhere */
void ask_line_next(struct monitor *m);
/** ask_line_gone() - this question has ended; if it is shown, the terminal is the command's again */
void ask_line_gone(struct monitor *m, uint64_t question);
void ask_line_free(struct monitor *m);

/**
 * ask_line_text() - the line, in ASCII
 * @place: "HOST:PORT": cut at its front where there is no room, never at its end
 * @who:   what asks, escaped; may be empty
 * @keep:  answers that are kept are possible
 * @columns: of the terminal
 * Return: bytes written to @buf (ASK_LINE_MAX + 1), at most @columns - 1 */
size_t ask_line_text(char *buf, const char *place, const char *who, bool keep, unsigned columns);

#endif
