/* SPDX-License-Identifier: ISC */
/* broker/cli/forwards.c - publish and reach lines: from the policy to listeners and a plan.
 * Runs as the user before anything is inside: a port that is taken is an error of the launch. */
#include "broker/cli/forwards.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/cli/sandboxes.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/plan.h"
#include "shim/shim.h"

static_assert(PLAN_REACH_MAX == MSG_FORWARDS_MAX, "a plan has room for each");

static const char *spelled(const struct forward *f, char *buf, size_t room)
{
	char text[ADDR_TEXT_MAX];

	(void)addr_format(&f->addr, text);
	(void)snprintf(buf, room, f->addr.family == 6 ? "[%s]:%u" : "%s:%u", text, f->port);
	return buf;
}

static const char *where(const struct policy_forward *line, char *buf, size_t room)
{
	return policy_rule_where(&line->rule, buf, room);
}

/* ---- who has the port ---- */

/** struct asked - which sandbox publishes a port */
struct asked {
	uint16_t port;
	char *buf;
	size_t room;
	bool found;
};

static void sandbox_compare(void *arg, const char *id, const json_t *info)
{
	const json_t *list = json_object_get(info, "ports"), *one;
	const char *name = json_string_value(json_object_get(info, "name"));
	struct asked *a = arg;
	char safe[80];
	size_t i;

	json_array_foreach(list, i, one)
	{
		const char *kind = json_string_value(json_object_get(one, "kind"));

		if (a->found || !kind || !str_eq(kind, "publish") ||
		    json_integer_value(json_object_get(one, "port")) != a->port)
			continue;
		(void)escape_line(safe, sizeof(safe), name ? name : "", strlen(name ? name : ""));
		(void)snprintf(a->buf, a->room, "sandbox %s%s%s", id, name ? " " : "", safe);
		a->found = true;
	}
}

static int in_use(const struct forward *f, const char *runtime, uid_t uid, struct err *e)
{
	char owner[160], at[64], line[512];
	struct asked a = { .port = f->port, .buf = owner, .room = sizeof(owner) };

	if (runtime)
		(void)sandboxes_each(runtime, uid, "info", sandbox_compare, &a);
	if (!a.found)
		a.found = port_owner(f->port, owner, sizeof(owner));
	(void)err_set(e, 0, "%s: %s is in use%s%s", where(f->line, line, sizeof(line)),
		      spelled(f, at, sizeof(at)), a.found ? " by " : "", a.found ? owner : "");
	return err_fix(e, "publish another port of this machine: %u:%u, or 0:%u for any",
		       f->port < 65535 ? f->port + 1 : f->port - 1, f->inner, f->inner);
}

static int publish_failed(int num, const struct forward *f, const char *runtime, uid_t uid,
			  struct err *e)
{
	char at[64], line[512];

	if (num == EADDRINUSE)
		return in_use(f, runtime, uid, e);
	(void)err_set(e, num, "%s: listen on %s", where(f->line, line, sizeof(line)),
		      spelled(f, at, sizeof(at)));
	if (num == EACCES)
		return err_fix(e, "publish a port from 1024 up: %u:%u", 8000 + f->port % 1000,
			       f->inner);
	if (num == EADDRNOTAVAIL)
		return err_fix(e, "ip addr lists this machine's addresses");
	return -num;
}

static int publish_open(struct forward *f, const char *runtime, uid_t uid, struct err *e)
{
	struct sockaddr_storage ss;
	socklen_t len = addr_to_sockaddr(&f->addr, f->port, &ss);
	int fd = shim_listener((const struct sockaddr *)&ss, len, true);

	if (fd < 0)
		return publish_failed(-fd, f, runtime, uid, e);
	f->fds[f->nfds++] = fd;
	if (getsockname(fd, (struct sockaddr *)&ss, &len) < 0 ||
	    addr_from_sockaddr(&f->addr, &f->port, (const struct sockaddr *)&ss) < 0)
		return err_set(e, errno, "find out the port that was picked");
	return 0;
}

/* ---- lines ---- */

/* The same line in two files is one. Return: 1 it is there already, 0, or -EINVAL */
static int repeated(const struct forwards *all, const struct policy_forward *line, struct err *e)
{
	const bool is_reach = line->kind == FORWARD_REACH;
	char here[512], there[512];

	for (size_t i = 0; i < all->n; i++) {
		const struct policy_forward *l = all->list[i].line;

		if (l->kind != line->kind || l->port != line->port || line->port == 0 ||
		    !addr_eq(&l->addr, &line->addr))
			continue;
		if (l->to == line->to)
			return 1;
		(void)err_set(e, 0, "%s: port %u is taken by %s", where(line, here, sizeof(here)),
			      line->port, where(l, there, sizeof(there)));
		return err_fix(e,
			       is_reach ? "reach it through another port: %u:%u"
					: "publish it on another port: %u:%u",
			       line->port < 65535 ? line->port + 1 : line->port - 1, line->to);
	}
	return 0;
}

static int add(struct forwards *all, const struct policy_forward *line, const char *runtime,
	       uid_t uid, struct sandbox_plan *plan, struct err *e)
{
	const bool is_reach = line->kind == FORWARD_REACH;
	char text[512];
	struct forward *f;
	int r = repeated(all, line, e);

	if (r != 0)
		return r < 0 ? r : 0;
	if (all->n == MSG_FORWARDS_MAX)
		return err_set(e, 0, "%s: more than %u publish and reach lines",
			       where(line, text, sizeof(text)), MSG_FORWARDS_MAX);
	f = &all->list[all->n];
	*f = (struct forward){ .line = line,
			       .addr = line->addr,
			       .port = is_reach ? line->to : line->port,
			       .inner = is_reach ? line->port : line->to,
			       .fds = { -1, -1 } };
	if (is_reach)
		plan->reach[plan->nreach++] = f->inner;
	else
		r = publish_open(f, runtime, uid, e);
	all->n++;
	return r;
}

/* In `allow` the command listens on this machine itself and reaches all of it; in `deny` nothing is
 * brokered at all. */
static int inactive(const struct policy *policy, const struct policy_forward *line, bool verbose,
		    struct err *e)
{
	const char *word = policy_network(policy) == NETWORK_DENY ? "deny" : "allow";
	char text[512];

	(void)where(line, text, sizeof(text));
	if (line->rule.origin->layer == LAYER_FLAG) {
		(void)err_set(e, 0, "%s: not with network %s", text, word);
		return err_fix(e, policy_network(policy) == NETWORK_DENY
					  ? "weir run -n allowlist -d '*:*' denies every host "
					    "and has it"
					  : "leave it out: the command shares this machine's "
					    "network");
	}
	if (verbose)
		note("%s: inactive with network %s", text, word);
	return 0;
}

int forwards_open(struct forwards *f, const struct policy *policy, const char *runtime, uid_t uid,
		  bool verbose, struct sandbox_plan *plan, struct err *e)
{
	const bool is_brokered = policy_network(policy) == NETWORK_ALLOWLIST;

	for (const struct policy_forward *l = policy_forwards(policy); l; l = l->next) {
		int r = is_brokered ? add(f, l, runtime, uid, plan, e)
				    : inactive(policy, l, verbose, e);

		if (r < 0)
			return r;
	}
	return 0;
}

void forwards_close(struct forwards *f)
{
	for (size_t i = 0; i < f->n; i++) {
		while (f->list[i].nfds > 0)
			scope_close(&f->list[i].fds[--f->list[i].nfds]);
	}
}
