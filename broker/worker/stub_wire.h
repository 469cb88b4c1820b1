/* SPDX-License-Identifier: ISC */
/* broker/worker/stub_wire.h - DNS messages as the stub of the transparent route reads and writes them */
#ifndef WEIR_BROKER_WORKER_STUB_WIRE_H
#define WEIR_BROKER_WORKER_STUB_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/msg.h"

#define STUB_QUERY_MAX                                                                             \
	4096 /* bytes of a query; one of a single question needs 600, padding aside */
#define STUB_ANSWER_MAX 600
#define STUB_QUESTION_MAX (255 + 4) /* RFC 1035 section 2.3.4: a name on the wire; type, class */
#define STUB_TTL 60 /* seconds: an address is never reused, so it may be kept for long */

enum stub_rcode {
	STUB_NOERROR = 0,
	STUB_FORMERR = 1,
	STUB_SERVFAIL = 2,
	STUB_NXDOMAIN = 3,
	STUB_NOTIMP = 4,
	STUB_REFUSED = 5,
	STUB_BADVERS = 16, /* RFC 6891 section 6.1.3 */
};

/** struct stub_query - one question, and what its answer repeats */
struct stub_query {
	uint16_t id, type;
	bool is_rd, is_cd, has_opt;
	bool is_bad;   /* the name holds a byte that no host name has */
	uint8_t kind;  /* enum msg_name_kind */
	uint8_t nname; /* bytes of @name */
	uint16_t nquestion;
	char name[HOST_MAX + 3]; /* labels with dots between, NUL at the end; for NAME_REVERSE the
				  * address. May hold any byte when @is_bad */
	uint8_t question
		[STUB_QUESTION_MAX]; /* byte for byte: whoever mixes cases wants them back */
};

/**
 * stub_parse() - read a query of exactly one question
 * @p: @n bytes, hostile. Compression in a question, trailing bytes, records where none belong: all
 *     refused. No byte is read twice, so that nothing can loop.
 *
 * Return: STUB_NOERROR with all of @q; another enum stub_rcode to answer at once, with @q's id and,
 *	   when nquestion is not 0, its question; -EINVAL: nothing that deserves an answer */
int stub_parse(struct stub_query *q, const uint8_t *p, size_t n);

/**
 * stub_answer() - write the answer to @q
 * @addr: for a question about addresses: host byte order; 0: no data
 * @host: for NAME_REVERSE: the name; NULL: none. Canonical
 *
 * Return: bytes in @out */
size_t stub_answer(uint8_t out[STUB_ANSWER_MAX], const struct stub_query *q, enum stub_rcode rcode,
		   uint32_t addr, const char *host);

#endif
