/* SPDX-License-Identifier: ISC */
/* broker/worker/reply.h - the text of a refusal: status line, Proxy-Status (RFC 9209), three lines.
 * Pure; what it is given was escaped or written by the monitor. */
#ifndef WEIR_BROKER_WORKER_REPLY_H
#define WEIR_BROKER_WORKER_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/reason.h"

#define REPLY_MAX 4000 /* bytes of a whole refusal: fits a small buffer */

struct reply {
	unsigned status; /* 400-599; 0: the one that belongs to @reason */
	enum reason reason;
	const char *text;  /* the body: three lines, each ended by LF; at most MSG_TEXT_MAX */
	const char *rcode; /* of a DNS answer, or NULL */
	bool is_no_body;   /* the answer to HEAD: the length without the body */
};

/** reply_write() - Return: bytes written to @out, or -EMSGSIZE */
ssize_t reply_write(char *out, size_t room, const struct reply *r);

/** reply_text() - make a body out of three parts; each loses its control bytes and gets its LF
 * @rule: the line from VERDICT, or NULL: no rule was asked */
void reply_text(char *out, size_t room, const char *what, const char *rule, const char *todo);

/** reply_todo() - what to type or look at for @reason: the third line */
const char *reply_todo(enum reason reason);

#endif
