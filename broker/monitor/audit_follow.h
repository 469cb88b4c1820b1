/* SPDX-License-Identifier: ISC */
/* broker/monitor/audit_follow.h - where records go follows an edit of the policy */
#ifndef WEIR_BROKER_MONITOR_AUDIT_FOLLOW_H
#define WEIR_BROKER_MONITOR_AUDIT_FOLLOW_H

#include <stdbool.h>

#include "policy/policy.h"

struct err;
struct monitor;
struct sandbox_plan;

/** struct audit_place - what is open, as the policy that named it spelled it
 * @sink: AUDIT_OFF: nothing; @path: NULL: the default place */
struct audit_place {
	enum policy_audit_sink sink;
	char *path;
};

/** audit_follow_start() - what the run begins with is open, or could not be opened */
void audit_follow_start(struct monitor *m);
/**
 * audit_follow() - m->policy is in force from now on: records go where it says
 * Another place is opened behind the lock and begins with the next record; the old one ends with a
 * record that names the new one. A place that cannot be opened is told and recorded, and what is open
 * is written on; it is tried again with the next edit. "off" ends the recording. */
void audit_follow(struct monitor *m);
/** audit_place_check() - may the command of @plan (may be NULL) not write to where @path is?
 * Of the kernel it asks openat, readlink and close.
 * Return: 0, or -errno with @e */
int audit_place_check(const struct sandbox_plan *plan, const char *path, struct err *e);
void audit_follow_free(struct monitor *m);

#endif
