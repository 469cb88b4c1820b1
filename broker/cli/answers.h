/* SPDX-License-Identifier: ISC */
/* broker/cli/answers.h - what a person said and wants kept: lines of the user's policy file, or of the
 * project's answers */
#ifndef WEIR_BROKER_CLI_ANSWERS_H
#define WEIR_BROKER_CLI_ANSWERS_H

#include "common/err.h"

struct run_answer;
struct surroundings;

#define ANSWERS_LOCK_MS 200 /* the monitor waits no longer for another weir command */

/** struct answers - where they go
 * @user, @project: paths; NULL: this sandbox reads no such file, and nothing is kept
 * @lock: open once answers_open() was called; -1: @why says why not */
struct answers {
	const struct surroundings *at;
	const char *user, *project;
	char *const *argv; /* the command, for the comment */
	int lock;
	struct err why;
};

/** answers_init() - find the files among those that @at has read */
void answers_init(struct answers *a, const struct surroundings *at, char *const *argv);
/** answers_open() - open the lock file, before the monitor is locked */
void answers_open(struct answers *a);
/**
 * answers_keep() - add the line, with a comment of when and for which command; also behind the
 * monitor's lock
 * Return: 0, or -errno with @e: the file is as it was */
int answers_keep(struct answers *a, const struct run_answer *answer, struct err *e);
void answers_close(struct answers *a);

#endif
