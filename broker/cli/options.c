/* SPDX-License-Identifier: ISC */
/* broker/cli/options.c - what weir run and weir proxy read in the same way. */
#include "broker/cli/options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "broker/cli/cli.h"
#include "broker/cli/plan.h"
#include "common/err.h"
#include "common/num.h"
#include "common/scope.h"
#include "policy/policy.h"

#define NAME_MAX_BYTES 64
#define OPTIONS_MAX 64

int option_unknown(const char *command, const struct option *options, char **argv, int at,
		   struct err *e)
{
	const char *word = argv[at], *near, *names[OPTIONS_MAX];
	char bare[64];
	size_t n = 0;

	if (strncmp(word, "--", 2) != 0) {
		err_set(e, 0, "option '-%c' is unknown or lacks its value", optopt);
		return err_fix(e, "weir %s --help", command);
	}
	for (size_t i = 0; options[i].name && n + 1 < ARRAY_LEN(names); i++)
		names[n++] = options[i].name;
	names[n] = NULL;
	(void)snprintf(bare, sizeof(bare), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	for (size_t i = 0; names[i]; i++) {
		if (str_eq(bare, names[i])) {
			err_set(e, 0, "option '--%s' %s", bare,
				options[i].has_arg ? "needs a value" : "takes no value");
			return err_fix(e, "weir %s --help", command);
		}
	}
	near = cli_nearest(bare, names);
	err_set(e, 0, "option '--%s' is unknown%s%s%s", bare, near ? "; did you mean '--" : "",
		near ? near : "", near ? "'?" : "");
	return err_fix(e, "weir %s --help%s", command,
		       str_eq(command, "run") ? "; options of CMD itself go behind --" : "");
}

int option_fd(const char *option, const char *value, int least, int *out, struct err *e)
{
	uint64_t n;

	if (num_u64(value, (uint64_t)least, 1 << 20, &n) < 0) {
		err_set(e, 0, "%s '%s' is not a descriptor number", option, value);
		return err_fix(e, "a decimal number from %d", least);
	}
	if (fcntl((int)n, F_GETFD) < 0)
		return err_set(e, errno, "%s %s", option, value);
	*out = (int)n;
	return 0;
}

int option_name(const char *value, const char **name, struct err *e)
{
	static const char ok[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t n = strlen(value);

	if (n == 0 || n > NAME_MAX_BYTES || strspn(value, ok) != n) {
		err_set(e, 0, "--name '%s' is not a name", value);
		return err_fix(e, "1 to %d letters, digits, '.', '_' or '-'", NAME_MAX_BYTES);
	}
	*name = value;
	return 0;
}

int option_id(char id[RUN_ID_LEN + 1], struct err *e)
{
	static const char hex[] = "0123456789abcdef";
	unsigned char raw[RUN_ID_LEN];

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_set(e, errno, "draw a sandbox id");
	for (size_t i = 0; i < RUN_ID_LEN; i++)
		id[i] = hex[raw[i] & 15];
	id[RUN_ID_LEN] = '\0';
	return 0;
}

int option_audit(const struct policy *policy, const struct weir_dirs *dirs, char **owned,
		 const char **path, struct err *e)
{
	if (policy_audit_sink(policy) != AUDIT_FILE)
		return 0;
	*path = policy_audit_file(policy);
	if (*path)
		return 0;
	if (asprintf(owned, "%s/audit.jsonl", dirs->state) < 0) {
		*owned = NULL;
		return err_set(e, ENOMEM, "name the audit log");
	}
	*path = *owned;
	return 0;
}
