/* SPDX-License-Identifier: ISC */
/* broker/monitor/status.c - --status-fd: JSON lines for the program that started weir.
 * The descriptor is the caller's; one that does not take a line loses it. */
#include "broker/monitor/status.h"

#include <jansson.h>
#include <unistd.h>

#include "broker/monitor/monitor.h"
#include "broker/monitor/state.h"
#include "common/escape.h"
#include "common/fd.h"

#define STATUS_LINE_MAX 2048

static void line_write(const struct monitor *m, json_t *o)
{
	char buf[STATUS_LINE_MAX];
	size_t len;

	if (!o)
		return;
	len = json_dumpb(o, buf, sizeof(buf) - 1, JSON_COMPACT | JSON_ENSURE_ASCII);
	json_decref(o);
	if (len == 0 || len > sizeof(buf) - 1)
		return;
	buf[len++] = '\n';
	(void)fd_write_all(m->run->status_fd, buf, len);
}

void status_started(const struct monitor *m)
{
	char safe[512];
	const char *name = m->run->name;

	if (m->run->status_fd < 0)
		return;
	if (name) {
		(void)escape_text(safe, sizeof(safe), name, strlen(name));
		name = safe;
	}
	line_write(m, json_pack("{s:s, s:s, s:i, s:s?}", "event", "started", "id", m->run->id,
				"pid", (int)m->shim_pid, "name", name));
}

void status_exited(const struct monitor *m, int status)
{
	if (m->run->status_fd >= 0)
		line_write(m, json_pack("{s:s, s:i}", "event", "exited", "status", status));
}
