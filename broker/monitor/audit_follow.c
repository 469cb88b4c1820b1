/* SPDX-License-Identifier: ISC */
/* broker/monitor/audit_follow.c - where records go follows an edit of the policy.
 * Behind the lock. The policy is the user's or the administrator's word; the file that it names is
 * opened with the same checks as at the start, and must not lie where the command may write. */
#include "broker/monitor/audit_follow.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/monitor/audit.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/record.h"
#include "broker/monitor/state.h"
#include "common/err.h"
#include "common/scope.h"
#include "sandbox/plan.h"

static bool same_path(const char *a, const char *b)
{
	return a && b ? str_eq(a, b) : a == b;
}

static bool is_within(const char *path, const char *top)
{
	size_t n = strlen(top);

	return strncmp(path, top, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* Where the nearest directory above @path that exists really is. */
static int parent_real(const char *path, char real[PATH_MAX])
{
	char dir[PATH_MAX], link[64];
	SCOPED_FD int fd = -1;
	ssize_t n;

	if (path[0] != '/' || strlen(path) >= sizeof(dir))
		return -EINVAL;
	(void)snprintf(dir, sizeof(dir), "%s", path);
	for (char *slash; fd < 0 && (slash = strrchr(dir, '/'));) {
		bool is_root = slash == dir;

		slash[is_root] = '\0';
		fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 && (is_root || errno != ENOENT))
			return -errno;
	}
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, real, PATH_MAX - 1);
	if (n < 0)
		return -errno;
	real[n] = '\0';
	return 0;
}

int audit_place_check(const struct sandbox_plan *plan, const char *path, struct err *e)
{
	char real[PATH_MAX];
	const char *top = NULL;
	int r = plan ? parent_real(path, real) : 0;

	if (r < 0)
		return err_set(e, -r, "find the directory of '%s'", path);
	if (!plan)
		return 0;
	if (plan->project && plan->project_write && is_within(real, plan->project))
		top = plan->project;
	for (size_t i = 0; i < plan->ngrants; i++) {
		if (plan->grants[i].write && is_within(real, plan->grants[i].path))
			top = plan->grants[i].path;
	}
	if (!top)
		return 0;
	(void)err_set(e, 0, "the audit log '%s' lies where the command may write", path);
	return err_fix(e, "name a place outside '%s'", top);
}

/* ---- another place ---- */

static const char *place_text(enum policy_audit_sink sink, const char *path)
{
	return sink == AUDIT_SYSLOG ? "syslog" : sink == AUDIT_JOURNAL ? "journal" : path;
}

static void stays(struct monitor *m, const char *to, const struct err *e)
{
	char what[ERR_TEXT_MAX];

	(void)err_text(e, what);
	note("audit '%s': %s; %s", to, what,
	     m->place.sink == AUDIT_OFF ? "there is no audit log"
					: "records go where they went before");
	record_event(m, "audit_stays",
		     json_pack("{s:o, s:o}", "to", audit_text(to), "error", audit_text(what)));
}

static void move(struct monitor *m, enum policy_audit_sink sink, const char *named)
{
	const char *path = sink != AUDIT_FILE ? NULL : named ? named : m->run->audit_default;
	const char *to = place_text(sink, path ? path : "");
	char *copy = named ? strdup(named) : NULL;
	struct err e = { 0 };
	int r = named && !copy ? err_set(&e, ENOMEM, "open the audit log") : 0;

	if (r == 0 && sink == AUDIT_FILE)
		r = path ? audit_place_check(m->run->plan, path, &e)
			 : err_set(&e, 0, "no place is known for it");
	if (r == 0)
		r = audit_move(m->audit, sink, path, to, &e);
	if (r < 0) {
		free(copy);
		stays(m, to, &e);
		return;
	}
	free(m->place.path);
	m->place = (struct audit_place){ .sink = sink, .path = copy };
}

void audit_follow_start(struct monitor *m)
{
	const char *path = policy_audit_file(m->run->policy);

	m->place.sink = policy_audit_sink(m->run->policy);
	m->place.path = path ? strdup(path) : NULL;
}

void audit_follow(struct monitor *m)
{
	const enum policy_audit_sink sink = policy_audit_sink(m->policy);
	const char *path = policy_audit_file(m->policy);

	if (sink != AUDIT_OFF && (sink != m->place.sink || !same_path(path, m->place.path)))
		move(m, sink, path);
	audit_switch(m->audit, sink == AUDIT_OFF);
}

void audit_follow_free(struct monitor *m)
{
	free(m->place.path);
	m->place.path = NULL;
}
