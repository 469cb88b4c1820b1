/* SPDX-License-Identifier: ISC */
/* broker/monitor/status.c - --status-fd: JSON lines for the program that started weir.
 * The descriptor is the caller's, who may not read: what does not take a line in time gets no more, since
 * the rest of the line would be missing, and the monitor serves meanwhile nobody.
 *   OPEN --a line is not taken--> LOST */
#include "broker/monitor/status.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "broker/monitor/audit.h"
#include "broker/monitor/forward.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/repo.h"
#include "broker/monitor/state.h"
#include "common/fd.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

#define LINE_MS 1000 /* for whoever reads to take a line */
#define PATHS_MAX 16 /* of each kind, in the line */

void status_begin(struct monitor *m)
{
	m->status_fd = m->run->status_fd < 0 ? -1 : fd_detached(m->run->status_fd);
}

static void line_write(struct monitor *m, json_t *o)
{
	char *text = o ? json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	size_t len = text ? strlen(text) : 0;

	int fd = m->status_fd < 0 ? m->run->status_fd : m->status_fd;

	json_decref(o);
	if (text && !m->status_lost) {
		text[len++] =
			'\n'; /* in the place of its NUL: one write where it fits into a pipe */
		m->status_lost = fd_write_within(fd, text, len, LINE_MS) < 0;
	}
	free(text);
}

static void hole_add(json_t *list, const char *what, const struct policy_origin *at)
{
	char where[512];

	(void)json_array_append_new(
		list,
		json_pack("{s:s, s:o, s:o}", "what", what, "line", audit_text(at->text), "where",
			  audit_text(policy_origin_where(at, where, sizeof(where)))));
}

/* What the policy opens besides the hosts it allows, each by the line that does. */
static json_t *holes(const struct monitor *m)
{
	static const char *const kinds[] = { [GRANT_READ] = "read",
					     [GRANT_WRITE] = "write",
					     [GRANT_HIDE] = "hide",
					     [GRANT_SOCKET] = "socket",
					     [GRANT_DEVICE] = "device" };
	const struct policy *p = m->run->policy;
	json_t *list = json_array();

	for (const struct policy_grant *g = policy_grants(p); g; g = g->next) {
		if (!g->inactive && g->kind != GRANT_HIDE)
			hole_add(list, kinds[g->kind], g->origin);
	}
	for (size_t i = 0; i < m->run->nforwards; i++) {
		const struct policy_forward *f = m->run->forwards[i].line;

		hole_add(list, f->kind == FORWARD_REACH ? "reach" : "publish", f->rule.origin);
	}
	return list;
}

static void path_append(json_t *list, const char *path)
{
	if (json_array_size(list) < PATHS_MAX)
		(void)json_array_append_new(list, audit_text(path));
}

static json_t *devices_json(const struct monitor *m)
{
	const struct sandbox_plan *p = m->run->plan;
	json_t *list = json_array();

	for (size_t i = 0; i < p->ngrants; i++)
		if (p->grants[i].device)
			path_append(list, p->grants[i].path);
	return list;
}

/* What no kernel before Landlock ABI 9 closes. */
static json_t *sockets_json(const struct monitor *m)
{
	const char *v[REPO_SOCKETS_MAX];
	size_t n = m->unix_open ? repo_sockets(m->repo, v, ARRAY_LEN(v)) : 0;
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		path_append(list, v[i]);
	return list;
}

void status_started(struct monitor *m)
{
	if (m->run->status_fd < 0)
		return;
	line_write(m, json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o}", "event", "started",
				"id", m->run->id, "pid", (int)m->shim_pid, "name",
				m->run->name ? audit_text(m->run->name) : json_null(), "ports",
				forwards_json(m), "holes", holes(m), "devices", devices_json(m),
				"sockets_open", sockets_json(m)));
}

void status_exited(struct monitor *m, int status)
{
	if (m->run->status_fd >= 0)
		line_write(m, json_pack("{s:s, s:i}", "event", "exited", "status", status));
}
