/* SPDX-License-Identifier: ISC */
/* broker/monitor/repo.h - did the command leave something in P that git outside would run? */
#ifndef WEIR_BROKER_MONITOR_REPO_H
#define WEIR_BROKER_MONITOR_REPO_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct monitor;
struct repo;
struct sandbox_plan;

#define REPO_DEPTH 4	 /* components of the deepest name below P that is looked at */
#define REPO_TOLD_MAX 32 /* names in the record */
#define REPO_SOCKETS_MAX 16

/** struct repo_change - one name that git outside would obey, and that is not as it was */
struct repo_change {
	const char *path; /* of the later look: relative to P, or absolute outside it */
	int added;	  /* it was not there before */
};

/**
 * repo_look() - note what git would run or obey below P and in its git directory outside
 * Opens directories only, follows no link. Bounded in directories, names and, for a later look, in time.
 * @since: what appeared then or later is what repo_distrust() forgets
 * @before: NULL for the first look, which is cheap enough for a launch
 *
 * Return: for repo_free(), or NULL when nothing may be written or memory is out */
struct repo *repo_look(const struct sandbox_plan *plan, struct timespec since,
		       const struct repo *before);
/** repo_distrust() - the command may have run during the first look: forget what may be its work */
void repo_distrust(struct repo *r);
void repo_free(struct repo *r);

/** repo_sockets() - the unix sockets that the first look came by in P and in what may be written: where the
 * kernel cannot close them, the command can connect to them. Return: how many of @out are filled;
 * relative to P or absolute, the look's own */
size_t repo_sockets(const struct repo *r, const char **out, size_t max);

/**
 * repo_compare() - what of @now was not so in @before
 * @out: filled with at most @max, whose strings are @now's
 * @unseen: set when @now is cut short and @before was not: names may have been hidden by sheer number
 * Return: how many there are */
size_t repo_compare(const struct repo *before, const struct repo *now, struct repo_change *out,
		    size_t max, int *unseen);

/** repo_begin() - the first look of a run */
void repo_begin(struct monitor *m);
/** repo_end() - the second look: one line on stderr and one audit record where something changed */
void repo_end(struct monitor *m);

#endif
