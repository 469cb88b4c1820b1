/* SPDX-License-Identifier: ISC */
/* sandbox/environ.h - the environment inside: what is kept, set and dropped. Pure. */
#ifndef WEIR_SANDBOX_ENVIRON_H
#define WEIR_SANDBOX_ENVIRON_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

#define ENVIRON_MAX 4096 /* variables inside */

/* Where programs inside find the broker. */
#define ENVIRON_PROXY_HOST "127.0.0.1"
#define ENVIRON_PROXY_PORT "3128"
#define ENVIRON_PROXY "http://" ENVIRON_PROXY_HOST ":" ENVIRON_PROXY_PORT

/** struct environ_word - one "env keep NAME" or "env set NAME=VALUE", in the order given */
struct environ_word {
	bool set;
	const char *name, *value; /* value NULL for keep */
};

struct environ_in {
	char *const *host;			    /* weir's own environment */
	const char *home, *user, *shell, *cwd, *id; /* as the command sees them */
	uid_t uid;
	bool proxy; /* network allowlist: name the broker */
	bool java;  /* to JVMs too, by JAVA_TOOL_OPTIONS */
	const struct environ_word *words;
	size_t nwords;
	/* does @path exist inside? NULL: nothing under $HOME does */
	bool (*visible)(void *arg, const char *path);
	/* told of each variable that the table keeps but its value forbids; may be NULL */
	void (*dropped)(void *arg, const char *name, const char *why);
	void *arg;
};

/**
 * environ_build() - make the environment of CMD
 * @envp: NULL-terminated, each string and the array by malloc, the caller's
 * Return: 0, -ENOMEM, or -EINVAL with @e (a name that cannot be one) */
int environ_build(const struct environ_in *in, char ***envp, struct err *e);

#endif
