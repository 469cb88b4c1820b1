/* SPDX-License-Identifier: ISC */
/* broker/cli/kernelspec.h - Jupyter kernelspecs on disk: where they are, reading and writing one */
#ifndef WEIR_BROKER_CLI_KERNELSPEC_H
#define WEIR_BROKER_CLI_KERNELSPEC_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

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

/**
 * kernelspec_write() - make the directory @dir with @spec and the resources of @from
 * Written beside it first and renamed, so that Jupyter sees all of it or none.
 * @from:  directory whose other plain files (logos, kernel.js) are copied
 * @force: put it in the place of a kernelspec that is there
 *
 * Return: 0, -EEXIST or another negative number with @e */
int kernelspec_write(const char *dir, const char *from, const json_t *spec, bool force,
		     struct err *e);
/** kernelspec_remove() - the directory @dir and the plain files in it. Return: 0, or -errno with @e */
int kernelspec_remove(const char *dir, struct err *e);

#endif
