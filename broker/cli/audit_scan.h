/* SPDX-License-Identifier: ISC */
/* broker/cli/audit_scan.h - what decides whether a record is wanted, without a tree of it */
#ifndef WEIR_BROKER_CLI_AUDIT_SCAN_H
#define WEIR_BROKER_CLI_AUDIT_SCAN_H

#include <stdbool.h>
#include <stddef.h>

struct json_t;

/** struct audit_text - a string, not NUL-terminated; @at NULL: the record has none of that name */
struct audit_text {
	const char *at;
	size_t len;
};

/** struct audit_members - of one record: they point into its line or its tree */
struct audit_members {
	struct audit_text ts, host, sandbox, name, verdict;
};

/**
 * audit_scan() - read a line as weir writes it: one object of printable ASCII without white space, as
 * few levels deep as records are, with an integer "v" and a string "event"
 * Ten times as fast as a tree. It knows a part of JSON only: what it does not take may be a record
 * all the same, and audit_line_parse() says so; what it takes, that takes too, with the same members.
 * Return: true with @m */
bool audit_scan(const char *line, size_t len, struct audit_members *m);
/** audit_members_of() - the same of a tree */
void audit_members_of(const struct json_t *o, struct audit_members *m);
/** audit_text_is() - is there such a string, and is it @want? */
bool audit_text_is(struct audit_text t, const char *want);

#endif
