/* SPDX-License-Identifier: ISC */
/* broker/cli/audit_show.h - which records are wanted, and how a person sees them */
#ifndef WEIR_BROKER_CLI_AUDIT_SHOW_H
#define WEIR_BROKER_CLI_AUDIT_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct audit_members;
struct err;
struct json_t;

#define AUDIT_ROW_MAX 4096

/** struct audit_wanted - @since, @until: as "ts" is written, empty for none; @host, @sandbox: NULL */
struct audit_wanted {
	char since[32], until[32];
	bool denied;
	const char *host, *sandbox;
};

/**
 * audit_when() - a point in time as "ts" spells it: a span before now (90s, 15m, 1h, 2d, 1w), or
 * YYYY-MM-DD[THH:MM[:SS[.…]]][Z], which is local time without Z
 * Return: 0, or -EINVAL with @e */
int audit_when(const char *text, char out[32], struct err *e);
/** audit_host_matches() - PATTERN as in a policy: NAME, .NAME (below it too), *.NAME (only below), * */
bool audit_host_matches(const char *pattern, const char *host, size_t len);
bool audit_is_wanted(const struct audit_wanted *w, const struct audit_members *m);
/** audit_row() - one line for people, of printable ASCII and the person's own UTF-8; no LF.
 * @columns: it is cut there; 0: it is not. Return: @buf */
const char *audit_row(const struct json_t *o, size_t columns, char buf[AUDIT_ROW_MAX]);

struct audit_summary;
/** audit_summary_new() - counts by host and port. NULL without memory */
struct audit_summary *audit_summary_new(void);
void audit_summary_add(struct audit_summary *s, const struct json_t *o);
/** audit_summary_print() - on stdout. Return: 0 or -errno */
int audit_summary_print(struct audit_summary *s, bool json);
void audit_summary_free(struct audit_summary *s);

#endif
