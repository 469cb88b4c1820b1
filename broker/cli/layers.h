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
 * layers_options_free(). Filled by layers_line(), layers_file()
 * and the command line reader. */
struct layers_options {
	const char *chdir;  /* -C, or NULL */
	const char **files; /* -p, in the order given */
	size_t nfiles;
	struct layers_flag *flags; /* the rest, --preset too, in the order given */
	size_t nflags;
	bool no_user_policy;
	bool quiet;	 /* no notices on stderr */
	bool no_sandbox; /* nothing will be started in the working directory */
};

/** struct layers_source - one file of the policy as it was read last */
struct layers_source {
	int layer;  /* enum policy_layer */
	char *name; /* as messages spell it: the path, or -p's own word */
	char *path; /* absolute */
	char *text; /* the last good bytes; NULL: no such layer */
	size_t len;
	bool fixed; /* read once: a pipe or device, or where the command may write */
	char *told; /* what was said about it last: each thing is said once */
};

/** struct surroundings - who runs weir, from where, and where weir's own files are */
struct surroundings {
	struct person who;
	struct place place;
	struct weir_dirs dirs;
	struct layers_source *sources; /* lowest layer first */
	size_t nsources;
	char *locks_told; /* what was said about locks last */
};

/**
 * layers_line() - one option that is a line of the policy
 * @flag:  as it was typed, "--env", @keyword: the policy's, "env": both must outlive @o
 * @front: the words before @value, "set "; or ""
 *
 * Return: 0, -E2BIG (over LAYERS_FLAGS_MAX) or -ENOMEM with @e filled in */
int layers_line(struct layers_options *o, const char *flag, const char *keyword, const char *front,
		const char *value, struct err *e);
/** layers_file() - one -p FILE; @path must outlive @o. Return: as layers_line() */
int layers_file(struct layers_options *o, const char *path, struct err *e);
void layers_options_free(struct layers_options *o);

/**
 * layers_load() - change to -C, find P, read every layer, merge
 * Changes the working directory of this process when -C is given. Prints notices (a `.weir/policy`
 * that is not trusted, locked lines) with note() unless quiet. A file layer's grant whose path is
 * missing is marked inactive; a flag's is an error.
 * @out: the sealed policy, for policy_free()
 * @at:  for surroundings_free(); untouched on failure
 *
 * Return: 0, or -errno with @e filled in */
int layers_load(const struct layers_options *o, struct policy **out, struct surroundings *at,
		struct err *e);
void surroundings_free(struct surroundings *at);

/**
 * layers_reload() - read the files of layers_load() again and merge
 * For the monitor, also once it is locked: of the kernel it asks openat, fstat, fstatat, readlinkat,
 * read and close, nothing else; it changes no directory. A file that is broken, has vanished or, a
 * project's, is not what was trusted keeps its last good text, and @tell says so, once per state;
 * the other files count as they are now.
 * @at: from layers_load(), with the same @o; remembers what was good. May be kept in one struct with
 *	the options and handed on as a pointer
 * @out: the sealed policy, for policy_free()
 *
 * Options that an administrator's lock rules out by now are struck.
 * Return: 0; or -errno with @e filled in when the layers contradict each other (@out and the policy in
 *	   force stay) */
int layers_reload(const struct layers_options *o, struct surroundings *at,
		  void (*tell)(void *arg, const char *text), void *arg, struct policy **out,
		  struct err *e);

/**
 * layers_files() - every path whose change may change the policy, there or not
 * Absolute: the policy files in use, the trust store, and what the symlinks among them lead to. Watch
 * the directory of each (or its nearest ancestor that exists). Ask again after each reload.
 * Of the kernel it asks readlinkat.
 *
 * Return: NULL-terminated, for layers_files_free(); NULL when memory is out */
char **layers_files(const struct surroundings *at);
void layers_files_free(char **files);

/** layers_trust_store() - $XDG_STATE_HOME/weir/trust. Return: for free(), NULL when memory is out */
char *layers_trust_store(const struct weir_dirs *dirs);
/** layers_user_file() - $XDG_CONFIG_HOME/weir/policy. Return: likewise */
char *layers_user_file(const struct weir_dirs *dirs);

/** layers_read() - the bytes of a -p FILE (any kind but a directory), at most LAYERS_FILE_MAX
 * @text: for free(); not a string: a NUL may be inside. Return: 0, or -errno with @e */
int layers_read(const char *path, char **text, size_t *len, struct err *e);
/** layers_read_again() - the same behind the lock, where nothing may be waited for: a regular file only.
 * Return: 0, or -errno with @e */
int layers_read_again(const char *path, char **text, size_t *len, struct err *e);

#endif
