/* SPDX-License-Identifier: ISC */
/* broker/cli/plan.h - who runs weir, where, and what the sandbox will be: decided and opened before
 * anything is inside. Believes its caller; distrusts every path, its own environment included. */
#ifndef WEIR_BROKER_CLI_PLAN_H
#define WEIR_BROKER_CLI_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;
struct policy;
struct sandbox_plan;

/** struct person - the user, without NSS: /etc/passwd by our own reader, HOME if it is sane */
struct person {
	uid_t uid;
	gid_t gid;
	char *user, *group; /* names; "user" and "user" where no file knows the ids */
	char *shell;	    /* login shell, absolute */
	char *home;	    /* canonical; NULL never */
	char *home_spelled; /* as HOME or the passwd line spells it */
};

/**
 * person_read() - find out who is running this
 * HOME counts when it is absolute, exists and is a directory; else the passwd line's directory.
 * @env: weir's environment
 * Return: 0, or -errno with @e */
int person_read(struct person *p, char *const *env, struct err *e);
void person_free(struct person *p);

/** struct place - the working directory and P (SPEC section 3, "Project directory") */
struct place {
	char *cwd;     /* absolute, the user's spelling (PWD where it is true) */
	char *real;    /* the same, canonical */
	char *project; /* P, canonical; @real when no .weir or .git is found */
	bool found;    /* P holds .weir/ or .git */
	bool weir;     /* P holds .weir/ */
};

/**
 * place_find() - change to @dir (-C) when it is not NULL, then find P
 * Return: 0, or -errno with @e (the directory is deleted) */
int place_find(struct place *p, const struct person *who, const char *dir, char *const *env,
	       struct err *e);
/** place_check() - may a sandbox start there? Return: 0, or -errno with @e (on /proc, /sys, /dev or
 * /run) */
int place_check(const struct place *p, struct err *e);
void place_free(struct place *p);

/** struct weir_dirs - weir's own directories as this environment names them; NULL where unset.
 * Nothing that holds one of these, or lies in one, is ever granted. */
struct weir_dirs {
	char *config, *state, *cache; /* …/weir */
	char *runtime;		      /* $XDG_RUNTIME_DIR/weir, /run/user/UID/weir, or state/run */
};
int weir_dirs_find(struct weir_dirs *d, const struct person *who, char *const *env, struct err *e);
void weir_dirs_free(struct weir_dirs *d);

/** struct plan_in - what plan_build() decides from; all strings stay the caller's */
struct plan_in {
	const struct policy *policy; /* sealed: network, grants and env lines (flags among them) */
	const struct person *who;
	const struct place *place;
	const struct weir_dirs *dirs;
	char *const *argv; /* CMD and its arguments, NULL-terminated, at least one */
	bool shell;	   /* weir shell: CMD is the person's shell, perhaps another one inside */
	char *const *environ; /* weir's own environment */
	char *const *env_set; /* --env K=V …, NULL-terminated, or NULL when they are policy flags */
	char *const *env_keep; /* --keep-env K …, likewise */
	const int *keep_fds;   /* --keep-fd; each is checked to be open and above 2 */
	size_t nkeep;
	const struct connection_file *connection; /* a Jupyter kernel's, or NULL */
	const char *id;				  /* WEIR_SANDBOX */
	bool quiet, verbose;
};

/**
 * plan_build() - judge and open everything the sandbox will hold
 * Prints notices only (note(): a working directory that is not shared, unless quiet; dropped
 * variables and inactive grants with verbose). stdio[] is set to 0, 1, 2: the monitor changes it.
 * @plan: untouched on failure; else the caller calls plan_free()
 *
 * Return: 0, or -errno with @e: nothing was created, nothing is left open */
int plan_build(struct sandbox_plan *plan, const struct plan_in *in, struct err *e);

/* What the sandbox must know before there is a plan. */
/** plan_net_host() - the plan's net_host */
bool plan_net_host(const struct policy *policy);
/** stdio_fill() - 0, 1 and 2 are open and none is a directory. Return: 0, or -errno with @e */
int stdio_fill(struct err *e);

#endif
