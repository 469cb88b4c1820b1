/* SPDX-License-Identifier: ISC */
/* broker/cli/test_holes.c - the end of weir test: what the policy in force here opens, line by line.
 * Reads the policy as weir run would, and starts nothing. */
#include "broker/cli/test_holes.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "broker/cli/layers.h"
#include "broker/cli/plan.h"
#include "broker/monitor/repo.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/lock.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

extern char **environ;

static void hole_print(void *arg, const struct policy_origin *o)
{
	json_t *list = arg;
	char where[1100];

	if (list)
		(void)json_array_append_new(list, json_pack("{s:s,s:i,s:s}", "file", o->file,
							    "line", (int)o->line, "text", o->text));
	else
		(void)printf("hole  %s  %s\n", policy_origin_where(o, where, sizeof(where)),
			     o->text);
}

/* Where the kernel closes no socket in P and in write grants, those there now are holes of no line. */
static void list_sockets(const struct policy *policy, const struct surroundings *s, json_t *list)
{
	static char command[] = "true", kernel[] = "kernel";
	char *argv[] = { command, NULL };
	struct weir_dirs dirs = s->dirs;
	const struct plan_in in = { .policy = policy,
				    .who = &s->who,
				    .place = &s->place,
				    .dirs = &dirs,
				    .argv = argv,
				    .environ = environ,
				    .id = "test",
				    .quiet = true };
	const char *v[REPO_SOCKETS_MAX];
	struct sandbox_plan plan;
	struct timespec now;
	struct err ignored;
	struct repo *look;
	size_t n;

	dirs.cache = NULL; /* looking keeps none of a project */
	if ((lock_landlock_abi() >= LOCK_ABI_UNIX && !policy_nested(policy)) ||
	    clock_gettime(CLOCK_REALTIME, &now) < 0 || plan_build(&plan, &in, &ignored) < 0)
		return; /* no sandbox can be made for it: nothing is open */
	look = repo_look(&plan, now, NULL);
	n = repo_sockets(look, v, ARRAY_LEN(v));
	for (size_t i = 0; i < n; i++) {
		char name[PATH_MAX], text[PATH_MAX + 64];
		const struct policy_origin o = { .file = kernel, .text = text };

		(void)escape_line(name, sizeof(name), v[i], strlen(v[i]));
		(void)snprintf(text, sizeof(text), "socket %s can be reached", name);
		hole_print(list, &o);
	}
	repo_free(look);
	plan_free(&plan);
}

int holes_list(const struct layers_options *o, json_t *list, struct err *e)
{
	struct surroundings p = { 0 };
	struct policy *policy = NULL;
	int r = layers_load(o, &policy, &p, e);

	if (r < 0)
		return r;
	policy_holes(policy, hole_print, list);
	list_sockets(policy, &p, list);
	surroundings_free(&p);
	policy_free(policy);
	return 0;
}
