/* SPDX-License-Identifier: ISC */
/* broker/cli/places.h - a list of canonical paths, each with what it is. */
#ifndef WEIR_BROKER_CLI_PLACES_H
#define WEIR_BROKER_CLI_PLACES_H

#include <stdbool.h>
#include <stddef.h>

struct base;
struct place_row;

/** struct place_entry - one canonical path that is never, or not simply, shared */
struct place_entry {
	char *path;
	const char *what;
};

/** struct places - starts as zeros, at most PLACES_MAX entries; paths are its own, what they are is not */
struct places {
	struct place_entry *v;
	size_t n, room;
};

/** path_within() - is @path @dir itself or beneath it? Both canonical */
bool path_within(const char *path, const char *dir);
/** path_above() - does @path hold @below, which is not itself? */
bool path_above(const char *path, const char *below);

/** places_add() - add @path as spelled. Return: 0, -E2BIG or -ENOMEM, as for the others */
int places_add(struct places *l, const char *path, const char *what);
/** places_add_real() - and, where a link leads elsewhere, what it leads to */
int places_add_real(struct places *l, const char *path, const char *what);
/** places_add_resolved() - what @path leads to alone, where that is elsewhere */
int places_add_resolved(struct places *l, const char *path, const char *what);
/** places_add_table() - each row of @table below @b, and what it leads to where a link is on its way */
int places_add_table(struct places *l, struct base *b, const struct place_row *table);
void places_free(struct places *l);

/** places_hold() - the entry that @path is or lies in, or NULL */
const struct place_entry *places_hold(const struct places *l, const char *path);
/** places_below() - an entry that lies below @path, or NULL */
const struct place_entry *places_below(const struct places *l, const char *path);

#endif
