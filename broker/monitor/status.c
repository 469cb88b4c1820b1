/* SPDX-License-Identifier: ISC */
/* broker/monitor/status.c - --status-fd: JSON lines for the program that started weir.
 * The descriptor is the caller's; one that does not take a line loses it. */
#include "broker/monitor/status.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "broker/monitor/audit.h"
#include "broker/monitor/forward.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/state.h"
#include "common/fd.h"
#include "policy/policy.h"

static void line_write(const struct monitor *m, json_t *o)
{
	char *text = o ? json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	size_t len = text ? strlen(text) : 0;

	json_decref(o);
	if (text) {
		text[len++] =
			'\n'; /* in the place of its NUL: one write where it fits into a pipe */
		(void)fd_write_all(m->run->status_fd, text, len);
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
	const struct policy *p = m->run->policy;
	json_t *list = json_array();

	for (const struct policy_grant *g = policy_grants(p); g; g = g->next) {
		if (!g->inactive && g->kind != GRANT_HIDE)
			hole_add(list, g->kind == GRANT_WRITE ? "write" : "read", g->origin);
	}
	for (size_t i = 0; i < m->run->nforwards; i++) {
		const struct policy_forward *f = m->run->forwards[i].line;

		hole_add(list, f->kind == FORWARD_REACH ? "reach" : "publish", f->rule.origin);
	}
	return list;
}

void status_started(const struct monitor *m)
{
	if (m->run->status_fd < 0)
		return;
	line_write(m, json_pack("{s:s, s:s, s:i, s:o, s:o, s:o}", "event", "started", "id",
				m->run->id, "pid", (int)m->shim_pid, "name",
				m->run->name ? audit_text(m->run->name) : json_null(), "ports",
				forwards_json(m), "holes", holes(m)));
}

void status_exited(const struct monitor *m, int status)
{
	if (m->run->status_fd >= 0)
		line_write(m, json_pack("{s:s, s:i}", "event", "exited", "status", status));
}
