/* SPDX-License-Identifier: ISC */
/* broker/cli/test_sockets.h - the unix sockets of the host that weir test tries to reach from inside */
#ifndef WEIR_BROKER_CLI_TEST_SOCKETS_H
#define WEIR_BROKER_CLI_TEST_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>

/** enum socket_when - when a name comes to be: the two later ones while the command runs */
enum socket_when { SOCKET_BEFORE, SOCKET_LATER, SOCKET_MOVED, SOCKET_WHEN_COUNT };

#define TEST_SOCKETS_MAX 16
#define TEST_SOCKETS_WAIT                                                                          \
	"wait sockets" /* a line of the probes: make the later ones, send a byte */

/** struct socket_bases - directories; a NULL one is not tried in */
struct socket_bases {
	const char *bench, *home, *runtime;
};

/** struct socket_made - sockets that listen, for sockets_remove() */
struct socket_made {
	int fd[TEST_SOCKETS_MAX]; /* -1: none */
};

/** sockets_none() - nothing made yet */
void sockets_none(struct socket_made *m);
/**
 * sockets_make() - on the host: the sockets before the launch, or (@later) those of while it runs
 * Each one is connected to once: what cannot be reached from here proves nothing from inside.
 *
 * Return: NULL, or the path of one that could not be made, errno set; valid until the next call */
const char *sockets_make(struct socket_made *m, const struct socket_bases *b, bool later);
void sockets_remove(struct socket_made *m, const struct socket_bases *b);

/**
 * sockets_reached() - inside: try all of a kind
 * @project: those in the project, which only some kernels close; else all others
 *
 * Return: NULL when none answers, else the path of one that does, valid until the next call */
const char *sockets_reached(const struct socket_bases *b, enum socket_when when, bool project);

#endif
