/* SPDX-License-Identifier: ISC */
/* broker/cli/audit_verify.h - does the chain of an audit log hold, and if not, where and how */
#ifndef WEIR_BROKER_CLI_AUDIT_VERIFY_H
#define WEIR_BROKER_CLI_AUDIT_VERIFY_H

struct audit_logs;
struct err;

/**
 * audit_verify() - judge the files, oldest first; what is wrong goes to stdout, a line each
 * @head: a hash that audit_head() printed earlier, or NULL: it must be there, else the tail was cut
 * Return: 0 it holds, 1 it does not, -errno with @e */
int audit_verify(struct audit_logs *l, const char *head, struct err *e);
/** audit_head() - print hash, time, sandbox and seq of the last record. Return: 0, 1 when there is none,
 * -errno with @e */
int audit_head(struct audit_logs *l, struct err *e);

#endif
