/* SPDX-License-Identifier: ISC */
/* broker/cli/listing.h - a directory that many names are looked for in, looked through once. */
#ifndef WEIR_BROKER_CLI_LISTING_H
#define WEIR_BROKER_CLI_LISTING_H

#include <stdbool.h>

/** struct base - a directory that rows of the tables are relative to, with its listing */
struct base;

/** base_open() - @path: canonical, "" the root; stays the caller's. Return: NULL: out of memory */
struct base *base_open(const char *path);
void base_free(struct base *b);
/** base_path(), base_fd() - as opened; -1: it is not there */
const char *base_path(const struct base *b);
int base_fd(const struct base *b);
/** base_may_hold() - false: nothing lies at @rel. True when that is not known */
bool base_may_hold(struct base *b, const char *rel);

#endif
