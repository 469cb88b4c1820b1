/* SPDX-License-Identifier: ISC */
/* broker/cli/inside.c - what the weir command says to who types it inside a sandbox.
 * A refusal names the line that allows a host, and who reads it in a sandboxed terminal types it
 * there: without this it would be written to the private home, and look as if it had worked.
 * Believes the environment, which is the command's own: nothing but words depends on it. */
#include "broker/cli/inside.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/cli/test_inside.h"
#include "common/err.h"
#include "common/scope.h"

#define INSIDE_PROGRAM "/run/weir/weir" /* there in every sandbox, on no host */

/* Which sandbox is around and what it may do is known and changed outside alone. */
static const char *const decides[] = { "allow", "deny",	   "ask", "forget", "approve",
				       "trust", "untrust", "ps",  "kill",   NULL };
/* These make a sandbox, which nothing inside one can. */
static const char *const makes[] = { "run", "shell", "test", "doctor", NULL };

static bool is_one_of(const char *word, const char *const *words)
{
	for (; *words; words++)
		if (str_eq(word, *words))
			return true;
	return false;
}

/* Help, and the form of weir test that is meant for the inside */
static bool is_answered(int argc, char **argv)
{
	return argc > 1 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-h") ||
			    (str_eq(argv[0], "test") && str_eq(argv[1], TEST_INSIDE)));
}

/* The line as it was typed, cut where it is too long for a message */
static void line_join(char *line, size_t size, int argc, char **argv)
{
	size_t n = 0;

	line[0] = '\0';
	for (int i = 0; i < argc && n < size; i++)
		n += (size_t)snprintf(line + n, size - n, " %s", argv[i]);
	if (n >= size)
		(void)snprintf(line + size - 4, 4, "…");
}

int inside_check(int argc, char **argv, struct err *e)
{
	const char *id = getenv("WEIR_SANDBOX");
	char line[160];

	if (!id || access(INSIDE_PROGRAM, X_OK) < 0 || is_answered(argc, argv))
		return 0;
	line_join(line, sizeof(line), argc, argv);
	if (is_one_of(argv[0], decides)) {
		(void)err_set(e, 0, "weir %s works outside the sandbox only", argv[0]);
		(void)err_why(
			e, "this is inside sandbox %.32s, and nothing inside decides about it", id);
		return err_fix(e, "in a terminal outside: weir%s", line);
	}
	if (is_one_of(argv[0], makes)) {
		(void)err_set(e, 0, "weir %s cannot make a sandbox inside a sandbox", argv[0]);
		(void)err_why(e,
			      "this is inside sandbox %.32s: all that is started here stays in it",
			      id);
		return err_fix(e, "type the command alone; or in a terminal outside: weir%s", line);
	}
	if (argc > 1 && str_eq(argv[0], "policy") &&
	    (str_eq(argv[1], "show") || str_eq(argv[1], "why")))
		note("this is inside sandbox %.32s: what follows is not its policy, which is seen "
		     "outside only",
		     id);
	return 0;
}
