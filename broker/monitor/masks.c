/* SPDX-License-Identifier: ISC */
/* broker/monitor/masks.c - is what a hide line names in a writable tree still hidden?
 * A mask is a mount on the file that was there: when the host replaces or makes the name, the command
 * sees the new one. Believes nothing but lstat(2); an event is a hint to look. Told once for each
 * file that appears; `hide … strict` ends the command. */
#include "broker/monitor/masks.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "broker/monitor/monitor.h"
#include "broker/monitor/record.h"
#include "broker/monitor/state.h"
#include "common/err.h"
#include "common/scope.h"
#include "sandbox/plan.h"

#define EXIT_WEIR 125

static void broken(struct monitor *m, const struct plan_mask *k)
{
	record_event(m, "hide_broken",
		     json_pack("{s:s, s:b}", "path", k->path, "strict", k->strict));
	if (k->strict) {
		note("'%s' was made or replaced while the command ran, so it was no longer hidden: "
		     "the command was ended",
		     k->path);
		monitor_end(m, EXIT_WEIR);
		monitor_kill_sandbox(m);
		return;
	}
	note("'%s' was made or replaced: the command can see it now, whatever 'hide' says",
	     k->path);
}

/* A directory above was moved away and back: the mask moved along. What was removed and made again can
 * have the number of the old, but not its time. */
static bool is_the_same(const struct plan_mask *k, const struct stat *st)
{
	return st->st_dev == k->dev && st->st_ino == k->ino &&
	       (k->there || (st->st_ctim.tv_sec == k->changed.tv_sec &&
			     st->st_ctim.tv_nsec == k->changed.tv_nsec));
}

static void look(struct monitor *m)
{
	struct sandbox_plan *p = m->run->plan;

	for (size_t i = 0; i < p->nmasks; i++) {
		struct plan_mask *k = &p->masks[i];
		struct stat st;
		bool same;

		if (lstat(k->path, &st) < 0) {
			k->there = false;
			continue;
		}
		same = is_the_same(k, &st);
		k->there = true;
		k->dev = st.st_dev;
		k->ino = st.st_ino;
		k->changed = st.st_ctim;
		if (!same)
			broken(m, k);
	}
}

/* A directory on the way may have been made: everything is watched anew, and looked at then. */
static void on_event(struct ev_loop *loop, ev_io *io, int revents)
{
	struct monitor *m = io->data;

	(void)loop;
	(void)revents;
	if (!watch_read(&m->masks.watch))
		return;
	(void)watch_arm(&m->masks.watch, m->masks.paths, m->run->plan->nmasks);
	look(m);
}

void masks_init(struct monitor *m)
{
	watch_init(&m->masks.watch);
}

int masks_start(struct monitor *m, struct err *e)
{
	const struct sandbox_plan *p = m->run->plan;
	bool strict = false;
	int r;

	if (!p || p->nmasks == 0)
		return 0;
	if (!(m->masks.paths = calloc(p->nmasks, sizeof(m->masks.paths[0]))))
		return err_set(e, ENOMEM, "watch what is hidden");
	for (size_t i = 0; i < p->nmasks; i++) {
		m->masks.paths[i] = p->masks[i].path;
		strict = strict || p->masks[i].strict;
	}
	r = watch_open(&m->masks.watch);
	if (r == 0)
		r = watch_arm(&m->masks.watch, m->masks.paths, p->nmasks);
	if (r < 0 && strict)
		return err_set(e, -r, "watch what 'hide … strict' names");
	if (r < 0) {
		note("what is hidden cannot be watched: %s", strerror(-r));
		return 0;
	}
	ev_io_init(&m->masks.io, on_event, m->masks.watch.fd, EV_READ);
	m->masks.io.data = m;
	ev_io_start(m->loop, &m->masks.io);
	return 0;
}

void masks_stop(struct monitor *m)
{
	if (m->masks.watch.fd >= 0 && m->loop)
		ev_io_stop(m->loop, &m->masks.io);
	watch_close(&m->masks.watch);
	free(m->masks.paths);
	m->masks.paths = NULL;
}
