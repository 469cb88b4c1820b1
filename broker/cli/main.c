/* SPDX-License-Identifier: ISC */
/* broker/cli/main.c - the weir command: which subcommand, and which process this is.
 * The only place that decides between the command line and the nursery. Believes nothing it was
 * started with: descriptors 0-2 may be closed, argv may be empty. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "broker/cli/inside.h"
#include "broker/worker/worker.h"
#include "common/err.h"
#include "common/scope.h"
#include "common/stage.h"
#include "common/words.h"

static const char usage[] =
	"usage: weir COMMAND [OPTIONS] …\n"
	"\n"
	"  run [OPTIONS] [--] CMD [ARG…]   run CMD; it reaches the hosts the policy names, nothing else\n"
	"  shell [OPTIONS] [ARG…]          a login shell in a sandbox, for IDE terminals\n"
	"  policy show | check | why | presets | import\n"
	"                                  the merged policy; validate files; which rule decides and\n"
	"                                  why; what presets exist; translate other tools' settings\n"
	"  allow | deny | ask | forget TARGET…\n"
	"                                  edit the user's policy; running sandboxes follow\n"
	"  approve [--watch]               answer what running sandboxes ask a person\n"
	"  trust | untrust [DIR]           accept a project's .weir/policy\n"
	"  ps, kill ID                     running sandboxes; end one\n"
	"  audit [verify | head]           read the audit log; check its chain\n"
	"  cache list | prune              what is kept for each project\n"
	"  kernelspec add | list | remove  Jupyter kernels that start inside a sandbox\n"
	"  proxy --listen WHERE            the broker alone, for other launchers\n"
	"  doctor                          what this machine offers, what is missing, the remedy\n"
	"  test                            attack the sandbox on this machine and report\n"
	"  connect HOST PORT               inside a sandbox: stdin and stdout through its proxy\n"
	"\n"
	"  weir COMMAND --help             the options of one command\n"
	"  weir --version\n"
	"\n"
	"example: weir run --allow example.org -- curl https://example.org/\n";

static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
} commands[] = {
	/* clang-format off */
	{ "run", cmd_run },
	{ "shell", cmd_shell },
	{ "proxy", cmd_proxy },
	{ "policy", cmd_policy },
	{ "allow", cmd_allow },
	{ "deny", cmd_deny },
	{ "ask", cmd_ask },
	{ "forget", cmd_forget },
	{ "approve", cmd_approve },
	{ "trust", cmd_trust },
	{ "untrust", cmd_untrust },
	{ "ps", cmd_ps },
	{ "kill", cmd_kill },
	{ "audit", cmd_audit },
	{ "cache", cmd_cache },	    { "kernelspec", cmd_kernelspec },
	{ "doctor", cmd_doctor },
	{ "test", cmd_test },
	{ "connect", cmd_connect },
	/* clang-format on */
};

int cli_fail(const struct err *e)
{
	err_print(e);
	return EXIT_WEIR;
}

static int unknown_command(const char *word)
{
	const char *all[ARRAY_LEN(commands) + 1];
	struct err e;
	const char *near;
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		all[n++] = commands[i].name;
	all[n] = NULL;
	near = nearest_word(word, all);
	err_set(&e, 0, "'%s' is not a weir command%s%s%s", word, near ? "; did you mean '" : "",
		near ? near : "", near ? "'?" : "");
	err_fix(&e, "weir --help; to run a program: weir run -- %s", word);
	return cli_fail(&e);
}

static int command_main(int argc, char **argv)
{
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (!str_eq(argv[0], commands[i].name))
			continue;
		if (inside_check(argc, argv, &e) < 0)
			return cli_fail(&e);
		return commands[i].main(argc, argv);
	}
	return unknown_command(argv[0]);
}

/* weir help COMMAND is weir COMMAND --help */
static int command_help(char *name)
{
	char option[] = "--help", *argv[] = { name, option, NULL };

	return command_main(2, argv);
}

/* A closed 0, 1 or 2 would be taken by the next open() and then passed on to CMD. */
static int open_stdio(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_NOCTTY);
		if (fd < 0)
			return -errno;
	} while (fd <= STDERR_FILENO);
	(void)close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 0 && str_eq(argv[0], NURSERY_ARGV0))
		nursery_main();
	stage_begin();
	if (open_stdio() < 0)
		return EXIT_WEIR; /* nowhere to say it */
	if (getauxval(AT_SECURE)) {
		struct err e;

		err_set(&e, 0, "weir must not be setuid or carry file capabilities");
		err_fix(&e, "chmod u-s,g-s the program, or setcap -r it; it needs no privilege");
		return cli_fail(&e);
	}
	if (argc < 2) {
		(void)fputs(usage, stderr);
		return EXIT_WEIR;
	}
	if (str_eq(argv[1], "help") && argc > 2)
		return command_help(argv[2]);
	if (str_eq(argv[1], "--help") || str_eq(argv[1], "-h") || str_eq(argv[1], "help")) {
		(void)fputs(usage, stdout);
		return fflush(stdout) == 0 ? 0 : EXIT_WEIR;
	}
	if (str_eq(argv[1], "--version") || str_eq(argv[1], "-V")) {
		(void)printf("weir %s\n", WEIR_VERSION);
		return fflush(stdout) == 0 ? 0 : EXIT_WEIR;
	}
	return command_main(argc - 1, argv + 1);
}
