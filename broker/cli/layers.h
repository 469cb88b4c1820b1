/* SPDX-License-Identifier: ISC */
/* broker/cli/layers.h - find and read the policy layers of SPEC section 3, in their order, and the
 * project directory P. Used by `weir run` and by `weir policy show`: both see the same policy. */
#ifndef WEIR_BROKER_CLI_LAYERS_H
#define WEIR_BROKER_CLI_LAYERS_H

#include <stdbool.h>
#include <stddef.h>

#include "broker/cli/plan.h"

struct err;
struct policy;

#define LAYERS_FLAGS_MAX 4096	/* policy options on one command line */
#define LAYERS_FILE_MAX 1048576 /* bytes of one policy file */

/** struct layers_flag - one option that is a policy line: "--allow", "allow", its words */
struct layers_flag {
	const char *flag, *keyword;
	char *value;
};

/** struct layers_options - what the command line said. All zero to start with; freed by
 * layers_options_free(). Filled by layers_option(). */
struct layers_options {
	const char *chdir;  /* -C, or NULL */
	const char **files; /* -p, in the order given */
	size_t nfiles;
	struct layers_flag *flags; /* the rest, --preset too, in the order given */
	size_t nflags;
	bool no_user_policy;
	bool quiet; /* no notices on stderr */
};

/** struct surroundings - who runs weir, from where, and where weir's own files are */
struct surroundings {
	struct person who;
	struct place place;
	struct weir_dirs dirs;
};

/**
 * layers_option() - take one long option that has to do with policy
 * @name:  without dashes: allow, deny, network, route, policy, preset, no-user-policy, read, write,
 *	   view, home, env, keep-env, chdir, audit, on-unavailable
 * @value: its argument; must outlive @o (argv does); ignored for no-user-policy
 *
 * Return: 0, -ENOENT when @name is no policy option, -E2BIG (over LAYERS_FLAGS_MAX) or -ENOMEM
 *	   with @e filled in */
int layers_option(struct layers_options *o, const char *name, const char *value, struct err *e);
void layers_options_free(struct layers_options *o);

/**
 * layers_load() - change to -C, find P, read every layer, merge
 * Changes the working directory of this process when -C is given. Prints notices (a `.weir/policy`
 * that is not read, locked lines) with note() unless quiet. A file layer's grant whose path is
 * missing is marked inactive; a flag's is an error.
 * @out: the sealed policy, for policy_free()
 * @at:  for surroundings_free(); untouched on failure
 *
 * Return: 0, or -errno with @e filled in */
int layers_load(const struct layers_options *o, struct policy **out, struct surroundings *at,
		struct err *e);
void surroundings_free(struct surroundings *at);

/** layers_read() - the bytes of a -p FILE (any kind but a directory), at most LAYERS_FILE_MAX
 * @text: for free(); not a string: a NUL may be inside. Return: 0, or -errno with @e */
int layers_read(const char *path, char **text, size_t *len, struct err *e);

#endif
