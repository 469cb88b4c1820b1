/* SPDX-License-Identifier: ISC */
/* broker/monitor/entry.h - the runtime entry of a sandbox: one socket file, by which other weir
 * commands of the user find it and talk to it (SPEC section 11) */
#ifndef WEIR_BROKER_MONITOR_ENTRY_H
#define WEIR_BROKER_MONITOR_ENTRY_H

#include <stdbool.h>

struct err;

#define ENTRY_ID_LEN 12	    /* lower-case hex */
#define ENTRY_SWEEP_MAX 256 /* names looked at by one sweep */

struct entry {
	int dir;  /* O_PATH; -1: none */
	int sock; /* listening, non-blocking; -1: none */
	char id[ENTRY_ID_LEN + 1];
	bool made;
};

/** entry_init() - no descriptor is open */
void entry_init(struct entry *n);
/** entry_parents() - make @path and every directory above it that is missing, 0700.
 * Return: 0, or -errno with @e */
int entry_parents(const char *path, struct err *e);
/**
 * entry_open() - open the directory of the entries, making it first
 * It must be the user's own and is made 0700; its last component is never followed.
 * Return: 0, or -errno with @e */
int entry_open(struct entry *n, const char *path, struct err *e);
/**
 * entry_make() - bind and listen, mode 0600; the name appears when the socket listens already, so
 * that whoever is refused by it knows that it is dead
 * A path that is longer than the 107 bytes of a socket address goes through /proc/self/fd.
 * @path: as for entry_open()
 * Return: 0, or -errno with @e. Source: unix(7) */
int entry_make(struct entry *n, const char *path, const char *id, struct err *e);
/** entry_remove() - take the name away and close everything */
void entry_remove(struct entry *n);
/** entry_close() - close, and leave the name */
void entry_close(struct entry *n);
/** entry_sweep() - remove the entries of the dead: those that refuse a connection. Others hear of a
 * client that says nothing. Return: how many were removed */
unsigned entry_sweep(const struct entry *n);
/** entry_is_id() - could @name be an entry? */
bool entry_is_id(const char *name);

#endif
