/* SPDX-License-Identifier: ISC */
/* broker/monitor/live.c - a policy that is edited while the sandbox runs.
 * An event is a hint to look; the layers are read again by the very code that read them first, with
 * its checks of owner and mode, and only a policy that merges without error replaces the one in
 * force. A policy that was replaced is gone when the last connection has been judged anew. */
#include "broker/monitor/live.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "broker/monitor/audit.h"
#include "broker/monitor/audit_follow.h"
#include "broker/monitor/cgroup.h"
#include "broker/monitor/control.h"
#include "broker/monitor/entry.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/record.h"
#include "broker/monitor/state.h"
#include "broker/monitor/verdict.h"
#include "broker/monitor/workers.h"
#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"

#define PATHS_MAX 256
#define SLACK_S 2 /* clocks of file systems are coarse; a look too many costs nothing */

/* ---- is it the same? ---- */

static bool same_text(const char *a, const char *b)
{
	return a && b ? str_eq(a, b) : a == b;
}

static bool same_origin(const struct policy_origin *a, const struct policy_origin *b)
{
	return a->layer == b->layer && a->line == b->line && same_text(a->file, b->file) &&
	       same_text(a->text, b->text);
}

static bool same_rules(const struct policy *a, const struct policy *b)
{
	const struct policy_rule *x = policy_rules(a), *y = policy_rules(b);

	for (; x && y; x = x->next, y = y->next) {
		if (x->verdict != y->verdict || x->is_private != y->is_private ||
		    x->no_sni != y->no_sni || !same_origin(x->origin, y->origin))
			return false;
	}
	return x == y;
}

static bool same_limits(const struct policy *a, const struct policy *b)
{
	return policy_connections(a) == policy_connections(b) &&
	       policy_idle_s(a) == policy_idle_s(b) && policy_pids(a) == policy_pids(b) &&
	       policy_memory_mib(a) == policy_memory_mib(b) &&
	       policy_cpu_percent(a) == policy_cpu_percent(b);
}

static bool same_network(const struct policy *a, const struct policy *b)
{
	return policy_network(a) == policy_network(b);
}

static bool same_route(const struct policy *a, const struct policy *b)
{
	return policy_route(a) == policy_route(b);
}

static bool same_grants(const struct policy *a, const struct policy *b)
{
	const struct policy_grant *x = policy_grants(a), *y = policy_grants(b);

	for (; x && y; x = x->next, y = y->next) {
		if (x->kind != y->kind || x->force != y->force || x->strict != y->strict ||
		    !same_text(x->path, y->path))
			return false;
	}
	return x == y;
}

static bool same_view(const struct policy *a, const struct policy *b)
{
	return policy_view(a) == policy_view(b) && policy_home(a) == policy_home(b) &&
	       policy_cache(a) == policy_cache(b);
}

static bool same_envs(const struct policy *a, const struct policy *b)
{
	const struct policy_env *x = policy_envs(a), *y = policy_envs(b);

	for (; x && y; x = x->next, y = y->next) {
		if (x->set != y->set || !same_text(x->name, y->name) ||
		    !same_text(x->value, y->value))
			return false;
	}
	return x == y;
}

static bool same_forwards(const struct policy *a, const struct policy *b)
{
	const struct policy_forward *x = policy_forwards(a), *y = policy_forwards(b);

	for (; x && y; x = x->next, y = y->next) {
		if (x->kind != y->kind || x->port != y->port || x->to != y->to ||
		    !addr_eq(&x->addr, &y->addr))
			return false;
	}
	return x == y;
}

static bool same_audit(const struct policy *a, const struct policy *b)
{
	return policy_audit_sink(a) == policy_audit_sink(b) &&
	       same_text(policy_audit_file(a), policy_audit_file(b));
}

static bool same_upstream(const struct policy *a, const struct policy *b)
{
	const struct policy_upstream *x = policy_upstream(a), *y = policy_upstream(b);

	if (!x || !y)
		return x == y;
	return x->port == y->port && same_text(x->host, y->host) && same_text(x->auth, y->auth);
}

static bool same_required(const struct policy *a, const struct policy *b)
{
	return policy_audit_required(a) == policy_audit_required(b) &&
	       policy_audit_client(a) == policy_audit_client(b);
}

/* What a running sandbox cannot follow: it was made with it. */
static const struct {
	const char *what;
	bool (*same)(const struct policy *a, const struct policy *b);
} next_start[] = {
	{ "network", same_network },
	{ "route", same_route },
	{ "read, write and hide", same_grants },
	{ "env", same_envs },
	{ "view, home and cache", same_view },
	{ "publish and reach", same_forwards },
	{ "upstream", same_upstream },
};

static bool same_policy(const struct policy *a, const struct policy *b)
{
	for (size_t i = 0; i < ARRAY_LEN(next_start); i++) {
		if (!next_start[i].same(a, b))
			return false;
	}
	return same_limits(a, b) && same_audit(a, b) && same_required(a, b) && same_rules(a, b) &&
	       policy_ask_timeout_s(a) == policy_ask_timeout_s(b);
}

/* ---- telling ---- */

static void tell_broken(void *arg, const char *text)
{
	struct monitor *m = arg;

	note("%s", text);
	record_event(m, "policy_broken", json_pack("{s:o}", "error", audit_text(text)));
}

static void tell_failed(struct monitor *m, const struct err *e)
{
	char text[ERR_TEXT_MAX + 64], what[ERR_TEXT_MAX];

	(void)snprintf(text, sizeof(text), "%s; the last good policy stays in force",
		       err_text(e, what));
	if (m->live.told && str_eq(m->live.told, text))
		return;
	free(m->live.told);
	m->live.told = strdup(text);
	tell_broken(m, text);
}

/* Of @p against what was in force; what is as it was at the start needs no next one. */
static json_t *tell_next_start(struct monitor *m, const struct policy *p)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_LEN(next_start); i++) {
		if (next_start[i].same(m->policy, p) || next_start[i].same(m->run->policy, p))
			continue;
		(void)json_array_append_new(list, json_string(next_start[i].what));
		if (!m->run->quiet)
			note("the policy's %s changed: that takes effect at the next start",
			     next_start[i].what);
	}
	return list;
}

/* ---- putting it in force ---- */

/* Takes @p. */
static void put_in_force(struct monitor *m, struct policy *p)
{
	struct policy *old = m->policy;
	bool limits = !same_limits(old, p);
	size_t max = (size_t)policy_connections(p) * 2 + 16;
	json_t *next = tell_next_start(m, p);
	size_t cut;

	m->policy = p;
	m->live.generation++;
	m->epoch++;
	audit_generation(m->audit, m->live.generation);
	if (max > m->conns.max) { /* never lower: they may all be there */
		m->conns.max = max;
		m->queue_max = max + NAMES_QUEUED;
	}
	/* the record of the edit that ends the recording is its last, and of the one that begins it
	 * anew, or elsewhere, its first */
	if (policy_audit_sink(p) != AUDIT_OFF)
		audit_follow(m);
	cut = verdict_again(m);
	record_event(m, "policy_reloaded",
		     json_pack("{s:I, s:o}", "cut", (json_int_t)cut, "next_start", next));
	if (policy_audit_sink(p) == AUDIT_OFF)
		audit_follow(m);
	limits_change(m, old, p);
	control_reloaded(m);
	if (limits && worker_config(m) < 0)
		worker_lost(m, NULL);
	if (old != m->run->policy)
		policy_free(old);
	if (m->run->verbose && !m->run->quiet)
		note("the policy was read again: generation %llu, %zu connection%s cut",
		     (unsigned long long)m->live.generation, cut, cut == 1 ? "" : "s");
}

static void paths_free(struct live *l)
{
	for (size_t i = 0; i < l->npaths; i++)
		free(l->paths[i]);
	free(l->paths);
	l->paths = NULL;
	l->npaths = 0;
}

/* Which files there are may change with them: a symlink leads elsewhere. */
static void paths_ask(struct monitor *m)
{
	char **paths = m->run->files ? m->run->files(m->run->live) : NULL;

	if (!paths)
		return;
	paths_free(&m->live);
	m->live.paths = paths;
	for (size_t n = 0; paths[n]; n++) {
		if (n < PATHS_MAX)
			m->live.npaths++;
		else
			free(paths[n]);
	}
}

int live_reload(struct monitor *m, struct err *e)
{
	struct policy *p = NULL;
	struct err why = { 0 };
	int r;

	if (!m->run->reload)
		return err_set(e, 0, "the policy of this sandbox has no files");
	if (m->phase != PHASE_SERVE)
		return err_set(e, 0, "the sandbox is ending");
	r = m->run->reload(m->run->live, tell_broken, m, &p, &why);
	if (r < 0) {
		tell_failed(m, &why);
		if (e)
			*e = why;
		return r;
	}
	if (!m->live.told && same_policy(m->policy, p)) {
		policy_free(p);
		return 0;
	}
	free(m->live.told);
	m->live.told = NULL;
	put_in_force(m, p);
	return 0;
}

/* ---- hearing of it ---- */

static void arm(struct monitor *m)
{
	struct live *l = &m->live;

	paths_ask(m);
	if (l->watch.fd >= 0 && watch_arm(&l->watch, l->paths, l->npaths) == 0) {
		ev_timer_stop(m->loop, &l->poll);
		return;
	}
	l->print = watch_print(l->paths, l->npaths);
	if (!ev_is_active(&l->poll))
		ev_timer_again(m->loop, &l->poll);
}

/* Armed first, read then: what changes in between is heard. */
static void look(struct monitor *m)
{
	arm(m);
	(void)live_reload(m, NULL);
}

static void on_gathered(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct monitor *m = t->data;

	(void)loop;
	(void)revents;
	m->live.first = 0;
	look(m);
}

static void on_event(struct ev_loop *loop, ev_io *w, int revents)
{
	struct monitor *m = w->data;
	struct live *l = &m->live;
	double now = ev_now(loop), wait = LIVE_GATHER_S;

	(void)revents;
	if (!watch_read(&l->watch))
		return;
	if (l->first <= 0)
		l->first = now;
	if (now + wait > l->first + LIVE_LATEST_S)
		wait = l->first + LIVE_LATEST_S - now;
	ev_timer_stop(loop, &l->gather);
	ev_timer_set(&l->gather, wait > 0 ? wait : 0., 0.);
	ev_timer_start(loop, &l->gather);
}

static void on_poll(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct monitor *m = t->data;

	(void)loop;
	(void)revents;
	if (watch_print(m->live.paths, m->live.npaths) != m->live.print)
		look(m);
}

static void on_begin(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct monitor *m = t->data;
	struct live *l = &m->live;

	(void)revents;
	if (watch_open(&l->watch) == 0) {
		ev_io_init(&l->io, on_event, l->watch.fd, EV_READ);
		l->io.data = m;
		ev_io_start(loop, &l->io);
	}
	arm(m);
	if (watch_newer(l->paths, l->npaths, m->started_s - SLACK_S))
		(void)live_reload(m, NULL);
}

void live_init(struct monitor *m)
{
	struct live *l = &m->live;

	memset(l, 0, sizeof(*l));
	l->generation = 1;
	watch_init(&l->watch);
	ev_timer_init(&l->begin, on_begin, LIVE_BEGIN_S, 0.);
	ev_timer_init(&l->gather, on_gathered, LIVE_GATHER_S, 0.);
	ev_timer_init(&l->poll, on_poll, 0., LIVE_POLL_S);
	l->begin.data = l->gather.data = l->poll.data = m;
}

void live_start(struct monitor *m)
{
	if (!m->run->reload || !m->run->files)
		return;
	if (m->run->config)
		(void)entry_parents(m->run->config, NULL); /* else its parent is watched */
	if (m->run->keep_open)
		m->run->keep_open(m->run->live);
	ev_timer_start(m->loop, &m->live.begin);
}

void live_paths(struct monitor *m)
{
	if (!m->live.paths)
		paths_ask(m);
}

void live_free(struct monitor *m)
{
	struct live *l = &m->live;

	if (m->loop) {
		ev_timer_stop(m->loop, &l->begin);
		ev_timer_stop(m->loop, &l->gather);
		ev_timer_stop(m->loop, &l->poll);
		ev_io_stop(m->loop, &l->io);
	}
	watch_close(&l->watch);
	paths_free(l);
	free(l->told);
	l->told = NULL;
	if (m->policy != m->run->policy)
		policy_free(m->policy);
	m->policy = m->run->policy;
}
