/* SPDX-License-Identifier: ISC */
/* broker/cli/audit_log.h - read the audit log: its files, oldest first, and their lines */
#ifndef WEIR_BROKER_CLI_AUDIT_LOG_H
#define WEIR_BROKER_CLI_AUDIT_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/monitor/audit.h"
#include "broker/monitor/audit_file.h"

struct err;
struct json_t;

#define AUDIT_LOGS_MAX 64 /* files of one call */

/** struct audit_log - one file; @size: bytes that were there when it was opened, read no further */
struct audit_log {
	char *name;
	int fd;
	off_t size;
	ino_t ino;
};

struct audit_logs {
	struct audit_log log[AUDIT_LOGS_MAX];
	size_t n;
};

/** audit_logs_open() - @path and its old files, oldest first, as they are at one moment: the lock is
 * asked for, not insisted on. A file that is not there is left out. Return: 0, or -errno with @e */
int audit_logs_open(struct audit_logs *l, const char *path, struct err *e);
/** audit_logs_add() - one more file, the youngest so far. Return: 0, or -errno with @e */
int audit_logs_add(struct audit_logs *l, const char *path, struct err *e);
void audit_logs_close(struct audit_logs *l);

/** struct audit_reader - the lines of one descriptor; bytes may be anybody's
 * @line, @len: without LF; valid until the next call; not NUL-terminated
 * @whole: it ended with LF and is no longer than a record may be; one that is far too long comes in
 * pieces, of which none is
 * @at: of the line in the file; @number: from 1, of a piece that of its line
 * @is_rest: the piece is not the beginning of its line; @is_inside: nor its end */
struct audit_reader {
	int fd;
	off_t from, end; /* what may be read; @end -1: to the end of the file */
	char buf[1 << 16];
	size_t have, used;
	const char *line;
	size_t len;
	bool whole;
	off_t at;
	uint64_t number;
	bool is_rest, is_inside;
};

void audit_reader_init(struct audit_reader *r, int fd, off_t from, off_t end);
/** audit_reader_next() - @partial: a last line without LF counts, else it is left for later.
 * Return: 1 with a line, 0 at the end, -errno */
int audit_reader_next(struct audit_reader *r, bool partial);

/** audit_line_parse() - the object of a line that is a record. Return: a new reference, or NULL */
struct json_t *audit_line_parse(const char *line, size_t len);

#endif
