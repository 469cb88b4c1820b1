/* SPDX-License-Identifier: ISC */
/* tests/unit/cli_plan_test.c - who runs weir, where, and the plan that follows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/cli/plan.h"
#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

static char home[PATH_MAX]; /* canonical, below /var/tmp */
static char home_var[PATH_MAX + 8], path_var[PATH_MAX + 64];
static char *env[] = { home_var, path_var, NULL };

static const char *at(const char *rel)
{
	static char path[4][PATH_MAX + 64];
	static unsigned turn;
	char *p = path[turn++ % 4];

	if (rel[0] != '~')
		(void)snprintf(p, sizeof(path[0]), "%s", rel);
	else
		(void)snprintf(p, sizeof(path[0]), "%s%s", home, rel + 1);
	return p;
}

/** struct made - everything a plan is made from, and the plan */
struct made {
	struct person who;
	struct place place;
	struct weir_dirs dirs;
	struct policy *policy;
	struct sandbox_plan plan;
	bool planned;
};

static void unmake(struct made *m)
{
	if (m->planned)
		plan_free(&m->plan);
	policy_free(m->policy);
	weir_dirs_free(&m->dirs);
	place_free(&m->place);
	person_free(&m->who);
}

/* @line: NULL, or one policy line as a flag. Return: as plan_build() */
static int make(struct made *m, const char *cwd, const char *keyword, const char *value,
		const char *cmd, struct err *e)
{
	char word[PATH_MAX];
	char *argv[] = { word, NULL };
	struct plan_in in = { .who = &m->who,
			      .place = &m->place,
			      .dirs = &m->dirs,
			      .argv = argv,
			      .environ = env,
			      .id = "0123456789ab",
			      .quiet = true };
	struct policy_context ctx;
	int r;

	*m = (struct made){ 0 };
	(void)snprintf(word, sizeof(word), "%s", cmd);
	if ((r = person_read(&m->who, env, e)) < 0 ||
	    (r = place_find(&m->place, &m->who, at(cwd), env, e)) < 0 ||
	    (r = place_check(&m->place, e)) < 0 ||
	    (r = weir_dirs_find(&m->dirs, &m->who, env, e)) < 0)
		return r;
	ctx = (struct policy_context){ .home = m->who.home,
				       .cwd = m->place.cwd,
				       .project = m->place.project,
				       .environ = env };
	m->policy = policy_new(&ctx);
	assert_non_null(m->policy);
	if (keyword && (r = policy_add_flag(m->policy, "--flag", keyword, value, e)) < 0)
		return r;
	if ((r = policy_seal(m->policy, NULL, NULL, e)) < 0)
		return r;
	in.policy = m->policy;
	r = plan_build(&m->plan, &in, e);
	m->planned = r == 0;
	return r;
}

static const struct {
	const char *name, *cwd; /* "~…" is the test's home */
	const char *project;	/* P in the plan, NULL: not shared */
	bool write;
	const char *inside; /* where the command starts */
} places[] = {
	{ "a plain directory is P", "~/plain", "~/plain", true, "~/plain" },
	{ "a directory in a repository", "~/repo/sub/deep", "~/repo", true, "~/repo/sub/deep" },
	{ "a directory below .weir", "~/marked/sub", "~/marked", true, "~/marked/sub" },
	{ "the search ends below the home", "~/loose", "~/loose", true, "~/loose" },
	{ "by a link, as it was spelled", "~/link/sub", "~/repo", true, "~/link/sub" },
	{ "the home", "~", NULL, false, "~" },
	{ "the root", "/", NULL, false, "/" },
	{ "/tmp itself", "/tmp", NULL, false, "/tmp" },
	{ "/usr", "/usr", NULL, false, "/usr" },
	{ "/srv", "/srv", NULL, false, "~" },
	{ "a credential", "~/.ssh", NULL, false, "~" },
	{ "one that runs by itself", "~/.config/fish", "~/.config/fish", false, "~/.config/fish" },
	{ "a directory of PATH", "~/tools", "~/tools", false, "~/tools" },
};

static void each_working_directory_is_shared_as_it_may_be(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		struct made m;
		struct err e = { 0 };
		const struct sandbox_plan *p = &m.plan;

		if (make(&m, places[i].cwd, NULL, NULL, "true", &e) < 0)
			fail_msg("%s: %s", places[i].name, e.what);
		if (places[i].project
			    ? !p->project || !str_eq(p->project, at(places[i].project)) ||
				      p->project_write != places[i].write || p->project_fd < 0
			    : p->project != NULL)
			fail_msg("%s: P is '%s', %s", places[i].name,
				 p->project ? p->project : "none",
				 p->project_write ? "writable" : "read-only");
		if (!str_eq(p->cwd, at(places[i].inside)))
			fail_msg("%s: starts in '%s'", places[i].name, p->cwd);
		unmake(&m);
	}
}

static void a_place_of_the_kernels_is_an_error(void **state)
{
	static const char *const no[] = { "/proc", "/sys",	 "/dev",
					  "/run",  "/proc/self", "/nonexistent" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(no); i++) {
		struct made m;
		struct err e = { 0 };

		if (make(&m, no[i], NULL, NULL, "true", &e) >= 0 || !e.what[0])
			fail_msg("'%s' is accepted", no[i]);
		unmake(&m);
	}
}

static void a_deleted_working_directory_is_an_error(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0) {
		struct person who = { 0 };
		struct place place;
		struct err e = { 0 };

		if (person_read(&who, env, &e) < 0 || mkdir(at("~/gone"), 0700) < 0 ||
		    chdir(at("~/gone")) < 0 || rmdir(at("~/gone")) < 0)
			_exit(2);
		_exit(place_find(&place, &who, NULL, env, &e) == -ENOENT && e.fix[0] ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void the_repository_and_weirs_directory_are_guarded(void **state)
{
	struct made m;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(make(&m, "~/repo", NULL, NULL, "true", &e), 0);
	assert_int_equal(m.plan.ngrants, 2); /* ~/tools, which PATH names */
	assert_string_equal(m.plan.grants[0].path, at("~/repo/.git"));
	assert_true(m.plan.grants[0].write && m.plan.grants[0].is_dir && m.plan.git_pinned);
	unmake(&m);
	assert_int_equal(make(&m, "~/marked", NULL, NULL, "true", &e), 0);
	assert_int_equal(m.plan.ngrants, 2); /* ~/tools, which PATH names */
	assert_string_equal(m.plan.grants[0].path, at("~/marked/.weir"));
	assert_true(!m.plan.grants[0].write && !m.plan.git_pinned);
	unmake(&m);
}

static void a_read_of_P_makes_it_read_only_and_a_write_of_it_is_not_mounted_twice(void **state)
{
	struct made m;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(make(&m, "~/plain", "read", ".", "true", &e), 0);
	assert_false(m.plan.project_write);
	assert_int_equal(m.plan.ngrants, 1); /* ~/tools, which PATH names */
	unmake(&m);
	assert_int_equal(make(&m, "~/plain", "write", ".", "true", &e), 0);
	assert_true(m.plan.project_write);
	assert_int_equal(m.plan.ngrants, 1); /* ~/tools, which PATH names */
	unmake(&m);
}

static void a_refused_grant_leaves_no_plan(void **state)
{
	struct made m;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(make(&m, "~/plain", "read", at("~/.ssh"), "true", &e), -EPERM);
	assert_false(m.planned);
	assert_non_null(strstr(e.what, "ssh keys"));
	unmake(&m);
}

static const struct {
	const char *name, *cmd, *want; /* want: cmd_host, "" for none */
} commands[] = {
	{ "a program of the system", "true", "" },
	{ "a program by its path", "/usr/bin/env", "" },
	{ "one in P", "./tool", "" },
	{ "one of the home, by PATH", "mytool", "" },
	{ "one of the home that no PATH leads to", "~/alone/mytool", "~/alone/mytool" },
	{ "one that is nowhere", "no-such-tool", "" },
};

static void a_command_that_is_not_visible_is_known_beforehand(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		struct made m;
		struct err e = { 0 };
		const char *got;

		assert_int_equal(make(&m, "~/plain", NULL, NULL, at(commands[i].cmd), &e), 0);
		got = m.plan.cmd_host ? m.plan.cmd_host : "";
		if (!str_eq(got, at(commands[i].want)))
			fail_msg("%s: '%s'", commands[i].name, got);
		unmake(&m);
	}
}

static void networks_differ_in_listeners_and_namespace(void **state)
{
	static const struct {
		const char *word;
		bool listeners, host;
	} nets[] = { { "deny", false, false },
		     { "allowlist", true, false },
		     { "allow", false, true } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(nets); i++) {
		struct made m;
		struct err e = { 0 };

		assert_int_equal(make(&m, "~/plain", "network", nets[i].word, "true", &e), 0);
		assert_int_equal(m.plan.listeners, nets[i].listeners);
		assert_int_equal(m.plan.net_host, nets[i].host);
		unmake(&m);
	}
}

static void the_home_is_HOME_where_it_is_true(void **state)
{
	char wrong[] = "HOME=relative/path", absent[] = "HOME=/no/such/home";
	char *envs[][2] = { { wrong, NULL }, { absent, NULL } };
	struct person p = { 0 };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(person_read(&p, env, &e), 0);
	assert_string_equal(p.home, home);
	assert_int_equal(p.uid, getuid());
	assert_true(p.user[0] && p.group[0] && p.shell[0] == '/');
	person_free(&p);
	for (size_t i = 0; i < ARRAY_LEN(envs); i++) {
		assert_int_equal(person_read(&p, envs[i], &e), 0);
		assert_true(p.home[0] == '/' && !str_eq(p.home, "/no/such/home"));
		person_free(&p);
	}
}

static void weirs_directories_follow_the_environment_when_it_is_absolute(void **state)
{
	char config[] = "XDG_CONFIG_HOME=/c", state_home[] = "XDG_STATE_HOME=relative";
	char *vars[] = { config, state_home, NULL };
	struct person who = { .uid = getuid(), .home = home };
	struct weir_dirs d = { 0 };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(weir_dirs_find(&d, &who, vars, &e), 0);
	assert_string_equal(d.config, "/c/weir");
	assert_string_equal(d.state, at("~/.local/state/weir"));
	assert_string_equal(d.cache, at("~/.cache/weir"));
	weir_dirs_free(&d);
}

static void kept_descriptors_are_checked(void **state)
{
	static const int bad[] = { -1, 0, 2, 987 };
	struct made m;
	struct err e = { 0 };
	char word[] = "true";
	char *argv[] = { word, NULL };

	(void)state;
	assert_int_equal(make(&m, "~/plain", NULL, NULL, "true", &e), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const struct plan_in in = { .policy = m.policy,
					    .who = &m.who,
					    .place = &m.place,
					    .dirs = &m.dirs,
					    .argv = argv,
					    .environ = env,
					    .keep_fds = &bad[i],
					    .nkeep = 1,
					    .id = "0",
					    .quiet = true };
		struct sandbox_plan p;

		if (plan_build(&p, &in, &e) >= 0)
			fail_msg("--keep-fd %d is accepted", bad[i]);
	}
	unmake(&m);
}

static int setup(void **state)
{
	static const char *const dirs[] = { "~/plain",	      "~/repo",		 "~/repo/.git",
					    "~/repo/sub",     "~/repo/sub/deep", "~/marked",
					    "~/marked/.weir", "~/marked/sub",	 "~/loose",
					    "~/.git",	      "~/.ssh",		 "~/.config",
					    "~/.config/fish", "~/tools",	 "~/alone" };
	static const char *const files[] = { "~/tools/mytool", "~/plain/tool", "~/alone/mytool" };

	(void)state;
	(void)snprintf(home, sizeof(home), "/var/tmp/weir-plan-XXXXXX");
	if (!mkdtemp(home))
		return -1;
	(void)snprintf(home_var, sizeof(home_var), "HOME=%s", home);
	(void)snprintf(path_var, sizeof(path_var), "PATH=%s/tools:/usr/bin:/bin", home);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdir(at(dirs[i]), 0755) < 0)
			return -1;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		SCOPED_FD int fd = open(at(files[i]), O_WRONLY | O_CREAT | O_CLOEXEC, 0755);

		if (fd < 0)
			return -1;
	}
	return symlink("repo", at("~/link"));
}

static int teardown(void **state)
{
	pid_t pid;
	int status;

	(void)state;
	if (chdir("/") < 0 || (pid = fork()) < 0)
		return -1;
	if (pid == 0) {
		(void)execl("/bin/rm", "rm", "-rf", "--", home, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_working_directory_is_shared_as_it_may_be),
		cmocka_unit_test(a_place_of_the_kernels_is_an_error),
		cmocka_unit_test(a_deleted_working_directory_is_an_error),
		cmocka_unit_test(the_repository_and_weirs_directory_are_guarded),
		cmocka_unit_test(
			a_read_of_P_makes_it_read_only_and_a_write_of_it_is_not_mounted_twice),
		cmocka_unit_test(a_refused_grant_leaves_no_plan),
		cmocka_unit_test(a_command_that_is_not_visible_is_known_beforehand),
		cmocka_unit_test(networks_differ_in_listeners_and_namespace),
		cmocka_unit_test(the_home_is_HOME_where_it_is_true),
		cmocka_unit_test(weirs_directories_follow_the_environment_when_it_is_absolute),
		cmocka_unit_test(kept_descriptors_are_checked),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
