/* SPDX-License-Identifier: ISC */
/* broker/cli/test_host.h - the host's side of weir test: what is attacked, sandboxes, the report */
#ifndef WEIR_BROKER_CLI_TEST_HOST_H
#define WEIR_BROKER_CLI_TEST_HOST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/cli/test_sockets.h"
#include "common/err.h"

#define RUN_WORDS_MAX 32
#define RUN_STRAY_FD                                                                               \
	77 /* open in every weir run that is started here, as if left so by a program */

/** struct bench - what must stay out of reach of a sandbox, and how the attempts went so far */
struct bench {
	char dir[64], project[80], state[80], home[80], abstract[64];
	struct socket_bases bases;
	struct socket_made sockets; /* of the sandbox that runs now */
	bool overlay;		    /* read grants of directories work here */
	int abstract_fd;	    /* a socket that listens there */
	uint16_t port;		    /* of an origin on 127.0.0.1 */
	pid_t origin;
	unsigned passed, failed;
	json_t *probes; /* --json: the report so far; else NULL, and lines go to stdout */
	bool out_of_memory;
};

/** bench_make() - Return: 0, or -errno with @e; bench_remove() either way. @b: zeroed, with -1 for
 * descriptors and pid */
int bench_make(struct bench *b, struct err *e);
void bench_remove(struct bench *b);
/** bench_interrupted() - ^C and its like: nothing more is started, what was made is to be removed.
 * Return: the signal, or 0 */
int bench_interrupted(void);
/** bench_credentials() - make, while a sandbox runs, or remove: one that is written and one that is replaced by
 * rename, below a read grant of the home that the bench's sandboxes have. Return: 0, or -errno with @e */
int bench_credentials(const struct bench *b, bool there, struct err *e);
/** bench_report() - one attempt, as a probe tells it: "ok NAME" or "fail NAME: DETAIL" */
void bench_report(struct bench *b, const char *state, const char *line);
/** bench_says() - the same in pieces; @fmt: the detail of a failure */
void bench_says(struct bench *b, const char *state, bool ok, const char *name, const char *fmt, ...)
	PRINTF(5, 6);

/** struct started - a weir run that goes on; descriptors of pipes, -1: none */
struct started {
	pid_t pid;
	int out, err, status, in;
};
enum { RUN_ERR = 1, RUN_STATUS = 2, RUN_IN = 4 };

/**
 * run_start() - start this program as `weir WORDS…` in the bench's project
 * @words:  NULL-terminated, fewer than RUN_WORDS_MAX
 * @want:   RUN_ERR: stderr on a pipe. RUN_IN: stdin too, else /dev/null. RUN_STATUS: RUN_STRAY_FD is a pipe, for --status-fd; else it is
 *	    a socket that nobody asked for
 * @before: called in the child first; NULL for none
 *
 * Return: 0 with @s for run_close() and run_wait(), or -errno */
int run_start(const struct bench *b, const char *const *words, unsigned want, int (*before)(void),
	      struct started *s);
void run_close(struct started *s);
/** run_line() - one line of a pipe. Return: its length; -1 at the end, after two minutes or an error */
int run_line(int fd, char *buf, size_t room);
/** run_wait() - Return: the exit status, 128 + signal */
int run_wait(pid_t pid);

#endif
