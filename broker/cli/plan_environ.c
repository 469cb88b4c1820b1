/* SPDX-License-Identifier: ISC */
/* broker/cli/plan_environ.c - the environment that CMD starts with.
 * The caller's variables are believed where a table keeps them; the policy's and the flags' words win. */
#include "broker/cli/plan_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/cli/connection_file.h"
#include "broker/cli/java.h"
#include "broker/cli/node.h"
#include "broker/cli/plan.h"
#include "broker/cli/visible.h"
#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/environ.h"
#include "sandbox/plan.h"
#include "sandbox/prompt.h"

#define WORDS_MAX 1024 /* env lines and flags */

/** struct telling - how the environment's builder reaches the plan and the user */
struct telling {
	const struct sandbox_plan *plan;
	bool verbose;
};

static bool env_visible(void *arg, const char *path)
{
	const struct telling *t = arg;

	return visible(t->plan, path);
}

static void env_dropped(void *arg, const char *name, const char *why)
{
	const struct telling *t = arg;

	if (t->verbose)
		note("%s is dropped from the environment: %s", name, why);
}

static int words_add(struct environ_word *w, size_t *n, const char *name, const char *value,
		     struct err *e)
{
	if (*n >= WORDS_MAX)
		return err_set(e, E2BIG, "more than %d env words", WORDS_MAX);
	w[(*n)++] = (struct environ_word){ .set = value != NULL, .name = name, .value = value };
	return 0;
}

/* --env K=V: the name is copied, since it ends at a '='. */
static int flag_words(const struct plan_in *in, struct environ_word *w, size_t *n, char **names,
		      size_t *nnames, struct err *e)
{
	int r = 0;

	for (char *const *k = in->env_keep; k && *k && r == 0; k++)
		r = words_add(w, n, *k, NULL, e);
	for (char *const *s = in->env_set; s && *s && r == 0; s++) {
		const char *eq = strchr(*s, '=');

		if (!eq || eq == *s)
			return err_set(e, 0, "--env '%s': expected NAME=VALUE", *s);
		if (*nnames >= WORDS_MAX || !(names[*nnames] = strndup(*s, (size_t)(eq - *s))))
			return plan_no_memory(e);
		r = words_add(w, n, names[(*nnames)++], eq + 1, e);
	}
	return r;
}

/* A JVM's own file names the proxy where that file is the machine's, in /etc. */
static int java_plan(struct sandbox_plan *p, const struct plan_in *in, bool *options, struct err *e)
{
	struct java j = { .options = false };

	*options = false;
	if (!p->listeners)
		return 0;
	if (java_find(&j, in->environ) < 0 ||
	    !(p->java = calloc(ARRAY_LEN(j.files), sizeof(*p->java)))) {
		java_free(&j);
		return plan_no_memory(e);
	}
	*options = j.options;
	for (size_t i = 0; j.files[i]; i++)
		p->java[i] = take_ptr(&j.files[i]);
	java_free(&j);
	return 0;
}

/* A variable that names a granted socket is kept: without it programs do not find the socket. */
static int socket_words(const struct plan_in *in, struct environ_word *w, size_t *n, char **names,
			size_t *nnames, struct err *e)
{
	int r = 0;

	for (char *const *v = in->environ; v && *v && r == 0; v++) {
		const char *eq = strchr(*v, '=');

		if (!eq || eq == *v || !node_names(in->policy, eq + 1))
			continue;
		if (*nnames >= WORDS_MAX || !(names[*nnames] = strndup(*v, (size_t)(eq - *v))))
			return plan_no_memory(e);
		r = words_add(w, n, names[(*nnames)++], NULL, e);
	}
	return r;
}

/* @java: JVMs are told by a variable, and say so each time: only where no other way leads out. */
static int words_build(struct sandbox_plan *p, const struct plan_in *in, struct environ_word *w,
		       size_t n, bool java, struct err *e)
{
	int r;
	struct telling t = { .plan = p, .verbose = in->verbose && !in->quiet };
	struct environ_in env = {
		.host = in->environ,
		.home = str_eq(p->home, in->who->home) ? in->who->home_spelled : p->home,
		.user = p->user,
		.shell = p->shell,
		.cwd = p->cwd,
		.id = in->id,
		.uid = p->uid,
		.proxy = p->listeners,
		.java = java && !p->transparent,
		.words = w,
		.nwords = n,
		.visible = env_visible,
		.dropped = env_dropped,
		.arg = &t,
	};

	if ((r = environ_build(&env, &p->envp, e)) < 0 || !java || !p->route_optional)
		return r;
	env.java = true;
	env.dropped = NULL; /* told already */
	return environ_build(&env, &p->envp_alone, e);
}

/* A kernel that hears of a parent ends when it is gone, and newer ones when it is another: inside, its
 * parent is the keeper. The session's name is that of the notebook. */
static int kernel_words(const struct plan_in *in, struct environ_word *w, size_t *n, struct err *e)
{
	int r;

	if (!in->connection || !in->connection->path)
		return 0;
	r = words_add(w, n, "JPY_SESSION_NAME", NULL, e);
	if (r == 0 && getenv("JPY_PARENT_PID"))
		r = words_add(w, n, "JPY_PARENT_PID", SANDBOX_KEEPER_PID, e);
	return r;
}

int environ_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e)
{
	struct environ_word *w = reallocarray(NULL, WORDS_MAX,
					      sizeof(*w)); /* not touched: not there */
	char **names = reallocarray(NULL, WORDS_MAX, sizeof(*names));
	size_t n = 0, nnames = 0;
	bool java = false;
	int r = 0;

	if (!w || !names) {
		free(w);
		free(names);
		return plan_no_memory(e);
	}
	r = java_plan(p, in, &java, e);
	for (size_t i = 0; p->prompt && i < prompt_nwords && r == 0; i++)
		r = words_add(w, &n, prompt_words[i].name, prompt_words[i].value, e);
	if (r == 0)
		r = kernel_words(in, w, &n, e);
	for (const struct policy_env *v = policy_envs(in->policy); v && r == 0; v = v->next)
		r = words_add(w, &n, v->name, v->set ? (v->value ? v->value : "") : NULL, e);
	if (r == 0)
		r = flag_words(in, w, &n, names, &nnames, e);
	if (r == 0)
		r = socket_words(in, w, &n, names, &nnames, e);
	if (r == 0)
		r = words_build(p, in, w, n, java, e);
	for (size_t i = 0; i < nnames; i++)
		free(names[i]);
	free(names);
	free(w);
	return r;
}
