/* SPDX-License-Identifier: ISC */
/* tests/unit/cli_layers_test.c - whose policy files are read, and where the project begins.
 * Works in a directory of its own under /tmp, as any user; two cases need root to give a file away
 * and are tried as themselves only then. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/cli/layers.h"
#include "broker/cli/layers_file.h"
#include "broker/cli/trust.h"
#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "policy/target.h"

static char root[64], home[96];

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, 0600), 0);
}

static void make_dir(const char *path)
{
	assert_int_equal(mkdir(path, 0700), 0);
}

static int set_up(void **state)
{
	(void)state;
	(void)snprintf(root, sizeof(root), "/tmp/weir-layers-XXXXXX");
	if (!mkdtemp(root) || chdir(root) < 0)
		return -1;
	(void)snprintf(home, sizeof(home), "%s/home", root);
	make_dir("home");
	make_dir("home/.config");
	make_dir("home/.config/weir");
	make_dir("home/proj");
	make_dir("home/proj/sub");
	make_dir("home/proj/sub/deep");
	(void)setenv("HOME", home, 1);
	(void)unsetenv("XDG_CONFIG_HOME");
	(void)unsetenv("PWD");
	return 0;
}

static int tear_down(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (chdir("/") < 0 || pid < 0)
		return -1;
	if (pid == 0) {
		(void)execlp("rm", "rm", "-rf", root, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}

/* ---- one file ---- */

static int guarded(const char *path, struct err *e)
{
	char *text = NULL;
	size_t len = 0;
	int r = layers_read_guarded(path, getuid(), &text, &len, e);

	if (r == 0)
		assert_int_equal(len, 5);
	free(text);
	return r;
}

static void own_file_is_read(void **state)
{
	struct err e = { 0 };

	(void)state;
	put("p", "# hi\n");
	assert_int_equal(guarded("p", &e), 0);
}

static void missing_file_or_directory_is_no_layer(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(guarded("nothing", &e), -ENOENT);
	assert_int_equal(guarded("nothing/here", &e), -ENOENT);
}

static void file_that_others_can_write_is_refused(void **state)
{
	static const mode_t modes[] = { 0620, 0602, 0666 };
	struct err e = { 0 };

	(void)state;
	put("p", "# hi\n");
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		assert_int_equal(chmod("p", modes[i]), 0);
		assert_int_equal(guarded("p", &e), -EINVAL);
		assert_string_equal(e.what, "the file 'p' can be written by others");
		assert_string_equal(e.fix, "chmod go-w 'p'");
	}
}

static void directory_that_others_can_write_is_refused(void **state)
{
	struct err e = { 0 };

	(void)state;
	make_dir("open");
	put("open/p", "# hi\n");
	assert_int_equal(chmod("open", 01777), 0);
	assert_int_equal(guarded("open/p", &e), -EINVAL);
	assert_non_null(strstr(e.what, "the directory '"));
	assert_non_null(strstr(e.what, "/open' can be written by others"));
}

static void symlink_is_followed_through_own_directories_only(void **state)
{
	struct err e = { 0 };

	(void)state;
	make_dir("dots");
	make_dir("wide");
	put("dots/real", "# hi\n");
	put("wide/real", "# hi\n");
	assert_int_equal(symlink("dots/real", "good"), 0);
	assert_int_equal(symlink("good", "twice"), 0);
	assert_int_equal(symlink("wide/real", "bad"), 0);
	assert_int_equal(symlink("bad", "bad2"), 0);
	assert_int_equal(symlink("loop", "loop"), 0);
	assert_int_equal(chmod("wide", 0777), 0);
	assert_int_equal(guarded("good", &e), 0);
	assert_int_equal(guarded("twice", &e), 0);
	assert_int_equal(guarded("bad", &e), -EINVAL);
	assert_int_equal(guarded("bad2", &e), -EINVAL);
	assert_int_equal(guarded("loop", &e), -ELOOP);
}

static void dangling_symlink_stops_the_run(void **state)
{
	struct layers_options o = { .quiet = true };
	struct surroundings p = { 0 };
	struct policy *policy = NULL;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(symlink("gone", "home/.config/weir/policy"), 0);
	assert_true(layers_load(&o, &policy, &p, &e) < 0);
	assert_non_null(strstr(e.what, "is a symlink to nothing"));
}

static void fifo_and_directory_are_not_policies(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_int_equal(guarded("fifo", &e), -EINVAL);
	assert_string_equal(e.what, "'fifo' is not a regular file");
	assert_int_equal(guarded("home", &e), -EINVAL);
}

static void file_over_1_mib_is_refused(void **state)
{
	static char text[LAYERS_FILE_MAX + 2];
	char *out = NULL;
	size_t len;
	struct err e = { 0 };

	(void)state;
	memset(text, '\n', LAYERS_FILE_MAX);
	put("big", text);
	assert_int_equal(layers_read_guarded("big", getuid(), &out, &len, &e), 0);
	assert_int_equal(len, LAYERS_FILE_MAX);
	free(out);
	text[LAYERS_FILE_MAX] = '\n';
	put("big", text);
	assert_int_equal(layers_read_guarded("big", getuid(), &out, &len, &e), -EINVAL);
	assert_string_equal(e.what, "'big' is larger than 1048576 bytes");
	assert_int_equal(layers_read("big", &out, &len, &e), -EINVAL);
}

static void file_of_another_user_is_refused(void **state)
{
	struct err e = { 0 };

	(void)state;
	put("p", "# hi\n");
	if (getuid() != 0) { /* what root owns is fine for anybody */
		char *text = NULL;
		size_t len;

		assert_int_equal(layers_read_guarded("/etc/passwd", getuid(), &text, &len, &e), 0);
		free(text);
		return;
	}
	assert_int_equal(chown("p", 65534, 65534), 0);
	assert_int_equal(guarded("p", &e), -EINVAL);
	assert_string_equal(e.what, "the file 'p' belongs to user 65534: expected you or root");
}

/* ---- the project ---- */

static void project_at(const char *dir, const char *want, bool found)
{
	struct layers_options o = { .quiet = true, .chdir = dir };
	struct surroundings p = { 0 };
	struct policy *policy = NULL;
	struct err e = { 0 };
	char path[256];

	if (layers_load(&o, &policy, &p, &e) < 0)
		fail_msg("%s", e.what);
	(void)snprintf(path, sizeof(path), "%s/%s", root, want);
	if (!str_eq(p.place.project, path) || p.place.found != found)
		fail_msg("P of %s is %s, found %d", dir, p.place.project, p.place.found);
	surroundings_free(&p);
	policy_free(policy);
}

static void project_is_the_nearest_marked_ancestor(void **state)
{
	char dir[256];

	(void)state;
	(void)snprintf(dir, sizeof(dir), "%s/home/proj/sub/deep", root);
	project_at(dir, "home/proj/sub/deep", false);
	(void)snprintf(dir, sizeof(dir), "%s/.git", home);
	make_dir(dir);
	(void)snprintf(dir, sizeof(dir), "%s/home/proj/sub/deep", root);
	project_at(dir, "home/proj/sub/deep", false); /* $HOME itself is never P by search */
	make_dir("../../.git");
	project_at(dir, "home/proj", true);
	make_dir("../.weir");
	project_at(dir, "home/proj/sub", true);
	put(".git", "gitdir: elsewhere\n");
	project_at(dir, "home/proj/sub/deep", true);
}

static void weir_file_that_is_no_directory_marks_nothing(void **state)
{
	char dir[256];

	(void)state;
	(void)snprintf(dir, sizeof(dir), "%s/home/proj/sub", root);
	put("home/proj/.weir", "x");
	project_at(dir, "home/proj/sub", false);
}

static void search_stops_at_the_directory_of_another_user(void **state)
{
	char dir[256];

	(void)state;
	make_dir("home/proj/.git");
	if (getuid() !=
	    0) { /* only root can give a directory away; $root lies in /tmp, root's own */
		(void)snprintf(dir, sizeof(dir), "%s/home/proj/sub", root);
		project_at(dir, "home/proj", true);
		return;
	}
	assert_int_equal(chown("home/proj", 65534, 65534), 0);
	(void)snprintf(dir, sizeof(dir), "%s/home/proj/sub", root);
	project_at(dir, "home/proj/sub", false);
}

/* ---- the layers together ---- */

static void user_file_counts_unless_left_out(void **state)
{
	struct surroundings p = { 0 };
	struct policy *policy = NULL;
	struct err e = { 0 };

	(void)state;
	put("home/.config/weir/policy", "network deny\n");
	for (int k = 0; k < 2; k++) {
		struct layers_options o = { .quiet = true, .no_user_policy = k == 1 };

		assert_int_equal(layers_load(&o, &policy, &p, &e), 0);
		assert_int_equal(policy_network(policy), k ? NETWORK_ALLOWLIST : NETWORK_DENY);
		surroundings_free(&p);
		policy_free(policy);
	}
}

static void untrusted_project_policy_is_not_read(void **state)
{
	struct layers_options o = { .quiet = true, .chdir = "home/proj" };
	struct surroundings p = { 0 };
	struct policy *policy = NULL;
	struct err e = { 0 };

	(void)state;
	make_dir("home/proj/.weir");
	put("home/proj/.weir/policy", "network allow\nthis is not even a policy\n");
	assert_int_equal(layers_load(&o, &policy, &p, &e), 0);
	assert_int_equal(policy_network(policy), NETWORK_ALLOWLIST);
	surroundings_free(&p);
	policy_free(policy);
}

/* Trust the bytes that stand in home/proj/.weir/policy now. */
static void trust_now(void)
{
	char hash[TRUST_HASH_LEN + 1], store[256], project[256], *out = NULL, *text = NULL;
	size_t len = 0, out_len = 0;
	struct err e = { 0 };
	FILE *f;

	(void)snprintf(project, sizeof(project), "%s/proj", home);
	assert_int_equal(layers_read_project(project, getuid(), &text, &len, &e), 0);
	trust_hash(text, len, hash);
	assert_int_equal(trust_change("", 0, project, hash, &out, &out_len), 1);
	(void)snprintf(store, sizeof(store), "%s/.local/state/weir/trust", home);
	(void)mkdir("home/.local", 0700);
	(void)mkdir("home/.local/state", 0700);
	(void)mkdir("home/.local/state/weir", 0700);
	f = fopen(store, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(out, 1, out_len, f), out_len);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(store, 0600), 0);
	free(out);
	free(text);
}

static bool allows(const struct policy *p, const char *host)
{
	struct policy_match m;
	struct target t;

	assert_int_equal(target_parse(&t, host, 443), 0);
	policy_match(p, &t, &m);
	return m.verdict == POLICY_ALLOW;
}

static void trusted_project_policy_is_read_until_it_changes(void **state)
{
	struct layers_options o = { .quiet = true, .chdir = "home/proj" };
	struct surroundings at = { 0 };
	struct policy *p = NULL;
	struct err e = { 0 };

	(void)state;
	make_dir("home/proj/.weir");
	put("home/proj/.weir/policy", "allow a.example\n");
	trust_now();
	assert_int_equal(layers_load(&o, &p, &at, &e), 0);
	assert_true(allows(p, "a.example"));
	policy_free(p);
	surroundings_free(&at);
	o.chdir = NULL;
	put(".weir/policy", "allow a.example\nallow b.example\n");
	assert_int_equal(layers_load(&o, &p, &at, &e), 0);
	assert_false(allows(p, "a.example"));
	assert_false(allows(p, "b.example"));
	policy_free(p);
	surroundings_free(&at);
}

static void project_policy_takes_no_bounds_away(void **state)
{
	static const char *const bad[] = { "network allow\n", "on-unavailable allow\n",
					   "lock network\n" };
	struct err e = { 0 };

	(void)state;
	make_dir("home/proj/.weir");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct layers_options o = { .quiet = true };
		struct surroundings at = { 0 };
		struct policy *p = NULL;
		SCOPED_FD int here = open(".", O_PATH | O_CLOEXEC);

		put("home/proj/.weir/policy", bad[i]);
		trust_now();
		o.chdir = "home/proj";
		assert_int_equal(layers_load(&o, &p, &at, &e), -EINVAL);
		assert_non_null(strstr(e.what, "/.weir/policy:1:"));
		assert_int_equal(fchdir(here), 0);
	}
}

static void project_policy_is_no_symlink(void **state)
{
	char project[256], *text = NULL;
	size_t len;
	struct err e = { 0 };

	(void)state;
	(void)snprintf(project, sizeof(project), "%s/proj", home);
	make_dir("home/proj/.weir");
	put("home/elsewhere", "allow a.example\n");
	assert_int_equal(symlink("../../elsewhere", "home/proj/.weir/policy"), 0);
	assert_int_equal(layers_read_project(project, getuid(), &text, &len, &e), -EINVAL);
	assert_non_null(strstr(e.what, "is a symlink"));
}

/* ---- again ---- */

static char told[4096];
static unsigned ntold;

static void tell(void *arg, const char *text)
{
	(void)arg;
	ntold++;
	(void)snprintf(told, sizeof(told), "%s", text);
}

struct followed {
	struct layers_options o;
	struct surroundings at;
	struct policy *p;
};

static void follow(struct followed *f)
{
	struct err e = { 0 };

	ntold = 0;
	assert_int_equal(layers_load(&f->o, &f->p, &f->at, &e), 0);
}

static void again(struct followed *f)
{
	struct policy *p = NULL;
	struct err e = { 0 };

	if (layers_reload(&f->o, &f->at, tell, NULL, &p, &e) < 0)
		fail_msg("%s", e.what);
	policy_free(f->p);
	f->p = p;
}

static void unfollow(struct followed *f)
{
	policy_free(f->p);
	surroundings_free(&f->at);
	layers_options_free(&f->o);
}

static void edit_is_followed_and_a_broken_one_keeps_the_last_good(void **state)
{
	struct followed f = { .o.quiet = true };

	(void)state;
	put("home/.config/weir/policy", "allow a.example\n");
	follow(&f);
	put("home/.config/weir/policy", "allow b.example\n");
	again(&f);
	assert_false(allows(f.p, "a.example"));
	assert_true(allows(f.p, "b.example"));
	assert_int_equal(ntold, 0);
	put("home/.config/weir/policy", "allow b.example\nalow c.example\n");
	again(&f);
	again(&f);
	assert_true(allows(f.p, "b.example"));
	assert_int_equal(ntold, 1);
	assert_non_null(strstr(told, "/policy:2:1: 'alow'"));
	assert_int_equal(chmod("home/.config/weir/policy", 0666), 0);
	again(&f);
	assert_true(allows(f.p, "b.example"));
	assert_non_null(strstr(told, "can be written by others"));
	assert_int_equal(unlink("home/.config/weir/policy"), 0);
	again(&f);
	assert_true(allows(f.p, "b.example"));
	assert_non_null(strstr(told, "has vanished"));
	put("home/.config/weir/policy", "allow c.example\n");
	again(&f);
	assert_false(allows(f.p, "b.example"));
	assert_true(allows(f.p, "c.example"));
	assert_int_equal(ntold, 3);
	unfollow(&f);
}

static void broken_file_does_not_hold_up_the_others(void **state)
{
	struct followed f = { .o.quiet = true };
	struct err e = { 0 };

	(void)state;
	put("home/.config/weir/policy", "allow a.example\n");
	put("more", "allow m.example\n");
	assert_int_equal(layers_file(&f.o, "more", &e), 0);
	follow(&f);
	put("more", "nonsense\n");
	put("home/.config/weir/policy", "deny a.example\n");
	again(&f);
	assert_false(allows(f.p, "a.example"));
	assert_true(allows(f.p, "m.example"));
	unfollow(&f);
}

static void trust_is_followed_both_ways(void **state)
{
	struct followed f = { .o.quiet = true };

	(void)state;
	make_dir("home/proj/.weir");
	put("home/proj/.weir/policy", "allow a.example\n");
	assert_int_equal(chdir("home/proj"), 0);
	follow(&f);
	assert_false(allows(f.p, "a.example"));
	assert_int_equal(chdir(root), 0);
	trust_now();
	again(&f);
	assert_true(allows(f.p, "a.example"));
	put("home/proj/.weir/policy", "allow b.example\n");
	again(&f);
	assert_true(allows(f.p, "a.example"));
	assert_false(allows(f.p, "b.example"));
	assert_non_null(strstr(told, "has changed since it was trusted"));
	put("home/.local/state/weir/trust", "");
	again(&f);
	assert_false(allows(f.p, "a.example"));
	unfollow(&f);
}

static void answers_belong_to_the_project_and_go_with_the_user_file(void **state)
{
	char key[PROJECT_KEY_LEN + 1], path[256], project[256];
	struct followed f = { .o.quiet = true };

	(void)state;
	(void)snprintf(project, sizeof(project), "%s/proj/sub", home);
	project_key(project, key);
	make_dir("home/.local");
	make_dir("home/.local/state");
	make_dir("home/.local/state/weir");
	make_dir("home/.local/state/weir/projects");
	(void)snprintf(path, sizeof(path), "home/.local/state/weir/projects/%s.policy", key);
	put(path, "allow answer.example\n");
	assert_int_equal(chdir("home/proj"), 0);
	follow(&f);
	assert_false(allows(f.p, "answer.example"));
	unfollow(&f);
	assert_int_equal(chdir("sub"), 0);
	f = (struct followed){ .o.quiet = true };
	follow(&f);
	assert_true(allows(f.p, "answer.example"));
	unfollow(&f);
	f = (struct followed){ .o.quiet = true, .o.no_user_policy = true };
	follow(&f);
	assert_false(allows(f.p, "answer.example"));
	unfollow(&f);
}

static bool lists(char *const *files, const char *tail)
{
	for (; *files; files++)
		if (strlen(*files) >= strlen(tail) &&
		    str_eq(*files + strlen(*files) - strlen(tail), tail))
			return true;
	return false;
}

static void every_file_to_watch_is_listed_there_or_not(void **state)
{
	struct followed f = { .o.quiet = true };
	char **files;

	(void)state;
	make_dir("dots");
	put("dots/real", "allow a.example\n");
	assert_int_equal(symlink("../../../dots/real", "home/.config/weir/policy"), 0);
	follow(&f);
	assert_true(allows(f.p, "a.example"));
	files = layers_files(&f.at);
	assert_non_null(files);
	assert_true(lists(files, "/etc/weir/policy"));
	assert_true(lists(files, "/.config/weir/policy"));
	assert_true(lists(files, "/dots/real"));
	assert_true(lists(files, "/.weir/policy"));
	assert_true(lists(files, "/weir/trust"));
	layers_files_free(files);
	unfollow(&f);
}

static void options_become_layers_in_their_order(void **state)
{
	struct layers_options o = { .quiet = true };
	struct surroundings p = { 0 };
	struct policy *policy = NULL;
	struct err e = { 0 };

	(void)state;
	put("one", "limit idle 1\nlimit connections 5\n");
	put("two", "limit idle 2\n");
	assert_int_equal(layers_file(&o, "one", &e), 0);
	assert_int_equal(layers_line(&o, "--env", "env", "set ", "A=b c", &e), 0);
	assert_int_equal(layers_line(&o, "--keep-env", "env", "keep ", "B", &e), 0);
	assert_int_equal(layers_line(&o, "--network", "network", "", "deny", &e), 0);
	assert_int_equal(layers_line(&o, "--network", "network", "", "allow", &e), 0);
	assert_int_equal(layers_file(&o, "two", &e), 0);
	assert_int_equal(layers_load(&o, &policy, &p, &e), 0);
	assert_int_equal(policy_idle_s(policy), 2);
	assert_int_equal(policy_connections(policy), 5);
	assert_int_equal(policy_network(policy), NETWORK_ALLOW);
	assert_string_equal(policy_envs(policy)->value, "b c");
	assert_string_equal(policy_envs(policy)->next->name, "B");
	surroundings_free(&p);
	policy_free(policy);
	layers_options_free(&o);
}

#define IN_TMP(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_TMP(own_file_is_read),
		IN_TMP(missing_file_or_directory_is_no_layer),
		IN_TMP(file_that_others_can_write_is_refused),
		IN_TMP(directory_that_others_can_write_is_refused),
		IN_TMP(symlink_is_followed_through_own_directories_only),
		IN_TMP(dangling_symlink_stops_the_run),
		IN_TMP(fifo_and_directory_are_not_policies),
		IN_TMP(file_over_1_mib_is_refused),
		IN_TMP(file_of_another_user_is_refused),
		IN_TMP(project_is_the_nearest_marked_ancestor),
		IN_TMP(weir_file_that_is_no_directory_marks_nothing),
		IN_TMP(search_stops_at_the_directory_of_another_user),
		IN_TMP(user_file_counts_unless_left_out),
		IN_TMP(untrusted_project_policy_is_not_read),
		IN_TMP(trusted_project_policy_is_read_until_it_changes),
		IN_TMP(project_policy_takes_no_bounds_away),
		IN_TMP(project_policy_is_no_symlink),
		IN_TMP(edit_is_followed_and_a_broken_one_keeps_the_last_good),
		IN_TMP(broken_file_does_not_hold_up_the_others),
		IN_TMP(trust_is_followed_both_ways),
		IN_TMP(answers_belong_to_the_project_and_go_with_the_user_file),
		IN_TMP(every_file_to_watch_is_listed_there_or_not),
		IN_TMP(options_become_layers_in_their_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
