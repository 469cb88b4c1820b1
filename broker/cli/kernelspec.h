/* SPDX-License-Identifier: ISC */
/* broker/cli/kernelspec.h - Jupyter kernelspecs on disk: where they are, reading and writing one */
#ifndef WEIR_BROKER_CLI_KERNELSPEC_H
#define WEIR_BROKER_CLI_KERNELSPEC_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct err;
struct layers_options;

#define KERNELSPEC_NAME_MAX 64 /* bytes; it names the sandboxes too */
#define KERNELSPEC_MAX 65536   /* bytes of a kernel.json */
#define KERNELSPEC_DIRS_MAX 32

/** struct kernelspec_dirs - the directories that hold kernelspecs, in the order Jupyter looks
 * (jupyter-core, "Data files"): JUPYTER_PATH, the user's, those of the environment, the system's */
struct kernelspec_dirs {
	char path[KERNELSPEC_DIRS_MAX][PATH_MAX];
	size_t n;
	size_t user; /* index of the user's own */
	size_t sys;  /* of the active environment's, or n: none is active */
};

/** kernelspec_dirs() - from the environment. Return: 0, or a negative number with @e */
int kernelspec_dirs(struct kernelspec_dirs *d, const char *home, struct err *e);
/** kernelspec_name() - is @name one that Jupyter takes, and weir's --name too? */
bool kernelspec_name(const char *name);

/**
 * kernelspec_load() - read kernel.json of the directory @dir
 * Return: the object, the caller's reference, with an argv of strings; or NULL with @e */
json_t *kernelspec_load(const char *dir, struct err *e);
/** kernelspec_is_weirs() - does its argv start kernels by weir run? */
bool kernelspec_is_weirs(const json_t *spec);

/** struct kernelspec_wrap - what is put in front of a kernel's argv */
struct kernelspec_wrap {
	const char *exe;  /* weir, absolute */
	const char *name; /* of the new kernelspec */
	const char *from; /* directory of the one that it is made of */
	char **options;	  /* of weir run */
	int noptions;
	const struct layers_options *said; /* the same, as they were read */
};

/**
 * kernelspec_wrap() - let weir run start what @spec starts
 * What @spec sets in the environment becomes an option, and is nothing that weir itself is told by:
 * XDG_CONFIG_HOME, for one, names a policy.
 *
 * Return: 0, or a negative number with @e, @spec then being of no more use */
int kernelspec_wrap(json_t *spec, const struct kernelspec_wrap *w, struct err *e);

/**
 * kernelspec_write() - make the directory @dir with @spec and the resources of @from
 * Written beside it first and renamed, so that Jupyter sees all of it or none.
 * @from:  directory whose other plain files (logos, kernel.js) are copied; links that leave it are not
 * @force: put it in the place of a kernelspec that is there
 *
 * Return: 0, -EEXIST or another negative number with @e */
int kernelspec_write(const char *dir, const char *from, const json_t *spec, bool force,
		     struct err *e);
/** kernelspec_remove() - the directory @dir and the files in it, or the link that it is. One that holds
 * a directory is left as it is. Return: 0, or -errno with @e */
int kernelspec_remove(const char *dir, struct err *e);

#endif
