/* SPDX-License-Identifier: ISC */
/* tests/unit/sandbox_environ_test.c - which variables enter a sandbox. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/scope.h"
#include "sandbox/environ.h"

static bool only_visible(void *arg, const char *path)
{
	(void)arg;
	return str_eq(path, "/visible");
}

static const char *value_of(char **envp, const char *name)
{
	size_t len = strlen(name);

	for (; *envp; envp++)
		if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=')
			return *envp + len + 1;
	return NULL;
}

static char **build(char *const *host, const struct environ_word *words, size_t n, bool proxy)
{
	const struct environ_in in = {
		.host = host,
		.home = "/home/u",
		.user = "u",
		.shell = "/bin/sh",
		.cwd = "/p",
		.id = "0123",
		.uid = 1000,
		.proxy = proxy,
		.words = words,
		.nwords = n,
		.visible = only_visible,
	};
	struct err e = { 0 };
	char **envp = NULL;

	if (environ_build(&in, &envp, &e) < 0)
		fail_msg("%s", e.what);
	return envp;
}

static void done(char **envp)
{
	for (char **v = envp; *v; v++)
		free(*v);
	free(envp);
}

static const struct {
	const char *name, *var; /* the host's NAME=VALUE */
	const char *key, *want; /* want "-": not inside */
} rows[] = {
	{ "language is kept", "LC_TIME=C", "LC_TIME", "C" },
	{ "PATH is kept", "PATH=/a:/b", "PATH", "/a:/b" },
	{ "an unknown variable is dropped", "FOO=1", "FOO", "-" },
	{ "a loader's variable is dropped", "LD_PRELOAD=/x", "LD_PRELOAD", "-" },
	{ "a shell's start file is dropped", "BASH_ENV=/x", "BASH_ENV", "-" },
	{ "an exported function is dropped", "BASH_FUNC_x%%=() { :; }", "BASH_FUNC_x%%", "-" },
	{ "git's are dropped", "GIT_DIR=/x", "GIT_DIR", "-" },
	{ "node's options are dropped", "NODE_OPTIONS=-r x", "NODE_OPTIONS", "-" },
	{ "the agent's socket is dropped", "SSH_AUTH_SOCK=/x", "SSH_AUTH_SOCK", "-" },
	{ "a password in a URL is dropped", "EDITOR=http://a:b@c/", "EDITOR", "-" },
	{ "a URL without one is kept", "EDITOR=http://a:80/x@y", "EDITOR", "http://a:80/x@y" },
	{ "a token's beginning is dropped", "PAGER=ghp_abc", "PAGER", "-" },
	{ "a secret assignment in a value is dropped", "LESS=my_secret = 1", "LESS", "-" },
	{ "a secret-like name is dropped", "OMP_TOKEN=x", "OMP_TOKEN", "-" },
	{ "a visible path is kept", "VIRTUAL_ENV=/visible", "VIRTUAL_ENV", "/visible" },
	{ "an invisible path is dropped", "VIRTUAL_ENV=/hidden", "VIRTUAL_ENV", "-" },
	{ "one invisible path of two drops both", "PYTHONPATH=/visible:/hidden", "PYTHONPATH",
	  "-" },
	{ "HOME is weir's", "HOME=/elsewhere", "HOME", "/home/u" },
	{ "PWD is weir's", "PWD=/elsewhere", "PWD", "/p" },
	{ "TMPDIR is weir's", "TMPDIR=/elsewhere", "TMPDIR", "/tmp" },
	{ "the runtime directory is private", "XDG_RUNTIME_DIR=/x", "XDG_RUNTIME_DIR",
	  "/run/user/1000" },
	{ "the host's proxy is not CMD's", "http_proxy=http://a:b@c", "http_proxy",
	  "http://127.0.0.1:3128" },
	{ "the host's exceptions are not CMD's", "NO_PROXY=*", "NO_PROXY",
	  "localhost,127.0.0.1,::1" },
	{ "ftp_proxy has no counterpart", "ftp_proxy=http://x", "ftp_proxy", "-" },
	{ "another sandbox's mark is not kept", "WEIR_SANDBOX=zz", "WEIR_SANDBOX", "0123" },
	{ "a string without '=' is dropped", "LANG", "LANG", "-" },
};

static void each_variable_is_kept_set_or_dropped(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *var SCOPED_FREE = strdup(rows[i].var);
		char *host[] = { var, NULL };
		char **envp = build(host, NULL, 0, true);
		const char *value = value_of(envp, rows[i].key), *got = value ? value : "-";

		if (!str_eq(got, rows[i].want))
			fail_msg("%s: '%s' gave '%s'", rows[i].name, rows[i].var, got);
		done(envp);
	}
}

static void deny_has_no_proxy_variable_at_all(void **state)
{
	static const char *const names[] = { "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
					     "http_proxy", "https_proxy", "all_proxy",
					     "NO_PROXY",   "no_proxy",	  "NODE_USE_ENV_PROXY" };
	char var[] = "HTTP_PROXY=http://host:1";
	char *host[] = { var, NULL };
	char **envp = build(host, NULL, 0, false);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (value_of(envp, names[i]))
			fail_msg("%s is set", names[i]);
	assert_string_equal(value_of(envp, "WEIR"), "1");
	done(envp);
}

static void a_named_variable_is_kept_even_if_it_is_a_secret(void **state)
{
	const struct environ_word words[] = { { false, "API_TOKEN", NULL },
					      { false, "ABSENT", NULL },
					      { false, "HTTP_PROXY", NULL },
					      { false, "LD_PRELOAD", NULL } };
	char token[] = "API_TOKEN=ghp_x", proxy[] = "HTTP_PROXY=http://host:1",
	     ld[] = "LD_PRELOAD=/l";
	char *host[] = { token, proxy, ld, NULL };
	char **envp = build(host, words, ARRAY_LEN(words), true);

	(void)state;
	assert_string_equal(value_of(envp, "API_TOKEN"), "ghp_x");
	assert_null(value_of(envp, "ABSENT"));
	assert_string_equal(value_of(envp, "HTTP_PROXY"), "http://127.0.0.1:3128");
	assert_string_equal(value_of(envp, "LD_PRELOAD"), "/l");
	done(envp);
}

static void a_jvm_is_told_behind_what_was_kept(void **state)
{
	static const char proxy[] = "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 "
				    "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128";
	const struct environ_word words[] = { { false, "JAVA_TOOL_OPTIONS", NULL } };
	char tool[] = "JAVA_TOOL_OPTIONS=-Dhttp.proxyHost=evil", gradle[] = "GRADLE_OPTS=-Xmx1g";
	char *host[] = { tool, gradle, NULL };
	struct environ_in in = { .host = host,
				 .home = "/h",
				 .user = "u",
				 .shell = "/s",
				 .cwd = "/",
				 .id = "0",
				 .proxy = true,
				 .words = words };
	struct err e = { 0 };

	(void)state;
	for (int k = 0; k < 3; k++) {
		char **envp = NULL, want[512];

		in.java = k > 0;
		in.nwords = k == 2;
		assert_int_equal(environ_build(&in, &envp, &e), 0);
		assert_string_equal(value_of(envp, "GRADLE_OPTS"), proxy);
		(void)snprintf(want, sizeof(want),
			       "%s%s -Dhttp.nonProxyHosts=localhost|127.*|[::1]",
			       k == 2 ? "-Dhttp.proxyHost=evil " : "", proxy);
		if (k == 0)
			assert_null(value_of(envp, "JAVA_TOOL_OPTIONS"));
		else
			assert_string_equal(value_of(envp, "JAVA_TOOL_OPTIONS"), want);
		done(envp);
	}
}

static void a_set_variable_beats_all_but_weirs_marks(void **state)
{
	const struct environ_word words[] = { { true, "PAGER", "cat" },
					      { true, "PAGER", "less" },
					      { true, "NO_PROXY", "x" },
					      { true, "WEIR", "0" },
					      { true, "EMPTY", "" } };
	char pager[] = "PAGER=more";
	char *host[] = { pager, NULL };
	char **envp = build(host, words, ARRAY_LEN(words), true);

	(void)state;
	assert_string_equal(value_of(envp, "PAGER"), "less");
	assert_string_equal(value_of(envp, "NO_PROXY"), "x");
	assert_string_equal(value_of(envp, "WEIR"), "1");
	assert_string_equal(value_of(envp, "EMPTY"), "");
	done(envp);
}

static void a_name_that_cannot_be_one_is_an_error(void **state)
{
	static const char *const names[] = { "", "1A", "A B", "A-B", "A=B" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const struct environ_word word = { true, names[i], "x" };
		const struct environ_in in = { .home = "/h",
					       .user = "u",
					       .shell = "/s",
					       .cwd = "/",
					       .id = "0",
					       .words = &word,
					       .nwords = 1 };
		struct err e = { 0 };
		char **envp = NULL;

		assert_int_equal(environ_build(&in, &envp, &e), -EINVAL);
		assert_null(envp);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_variable_is_kept_set_or_dropped),
		cmocka_unit_test(deny_has_no_proxy_variable_at_all),
		cmocka_unit_test(a_named_variable_is_kept_even_if_it_is_a_secret),
		cmocka_unit_test(a_jvm_is_told_behind_what_was_kept),
		cmocka_unit_test(a_set_variable_beats_all_but_weirs_marks),
		cmocka_unit_test(a_name_that_cannot_be_one_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
