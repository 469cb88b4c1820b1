/* SPDX-License-Identifier: ISC */
/* broker/cli/connection_file.h - a Jupyter kernel's connection file: the ports that its client reaches */
#ifndef WEIR_BROKER_CLI_CONNECTION_FILE_H
#define WEIR_BROKER_CLI_CONNECTION_FILE_H

#include <stddef.h>
#include <sys/types.h>

struct err;
struct layers_options;
struct sandbox_plan;

#define CONNECTION_FILE_MAX 65536 /* bytes */

/** struct connection_file - as it was read; @path NULL: none was named. Freed by
 * connection_file_free() */
struct connection_file {
	char *path;	     /* canonical, of what was read */
	const char *spelled; /* as it was named; stays the caller's */
	char *text;	     /* with the key that signs messages */
	size_t len;
	char *directory; /* transport ipc: where the sockets are made, canonical; or NULL */
	dev_t dev;	 /* of it, as it was judged */
	ino_t ino;
};

/**
 * connection_file_take() - read @path and add the policy lines that it stands for
 * transport tcp: a publish line for each of the five ports, on the loopback address where the client
 * looks for them. transport ipc: a write line for the directory of the sockets, which must be the user's
 * alone (0700) and hold nothing but them and the file.
 * (jupyter-client, "Connection files".)
 *
 * Return: 0, or a negative number with @e filled in */
int connection_file_take(struct connection_file *c, struct layers_options *o, const char *path,
			 struct err *e);
/** connection_file_plan() - show it inside at the same path: as a private copy, for kernels replace
 * their file, and what the next start publishes is not for the command to say.
 * Return: as connection_file_take() */
int connection_file_plan(const struct connection_file *c, struct sandbox_plan *p, struct err *e);
/** connection_file_free() - forget the key, free the rest */
void connection_file_free(struct connection_file *c);

#endif
