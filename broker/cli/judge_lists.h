/* SPDX-License-Identifier: ISC */
/* broker/cli/judge_lists.h - what judge.c judges by; nobody else looks in here. */
#ifndef WEIR_BROKER_CLI_JUDGE_LISTS_H
#define WEIR_BROKER_CLI_JUDGE_LISTS_H

#include <stdint.h>
#include <sys/types.h>

#include "broker/cli/places.h"

/** struct mounted - a directory of weir's own, and which mount it lies on */
struct mounted {
	const char *path; /* the caller's; NULL: it is not there */
	uint32_t major, minor;
	uint64_t mount; /* 0: this kernel does not say */
};

#define OWN_MOUNTED 2 /* where the policy is, and where what is trusted */

struct judge {
	struct mounted mounted[OWN_MOUNTED];
	uid_t uid;
	char *home;
	struct places homes; /* other users' */
	struct places credentials, autorun, own;
	struct places bins; /* directories of the user's PATH */
	struct base *home_base;
};

/** mounted_read() - where @path of @at (AT_EMPTY_PATH: of @at itself) is. Return: it is there */
bool mounted_read(struct mounted *m, int at, const char *path);

#endif
