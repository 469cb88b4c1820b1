/* SPDX-License-Identifier: ISC */
/* broker/monitor/audit_file.h - the file of the audit log: shared by every sandbox of the user under
 * one lock, rotated, its chain read on where another process has written (SPEC section 7) */
#ifndef WEIR_BROKER_MONITOR_AUDIT_FILE_H
#define WEIR_BROKER_MONITOR_AUDIT_FILE_H

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "audit_chain.h"

struct err;

#define AUDIT_FILE_MAX (16 << 20) /* bytes; then it is rotated */
#define AUDIT_KEPT 8		  /* old files: NAME.1, the youngest, to NAME.8 */
#define AUDIT_LOCK_NAME "audit.lock"
#define AUDIT_LOCK_MS 200 /* the longest wait for the lock */
/* how a file is opened again once the monitor is locked: its filter names these (filter_rules.h) */
#define AUDIT_OPEN (O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
#define AUDIT_OPEN_NEW (AUDIT_OPEN | O_CREAT | O_EXCL)

/** struct audit_file - @link: hash of the last record, as far as this process knows */
struct audit_file {
	char *path;
	const char *base; /* its last component */
	uid_t uid;	  /* whose all of it must be */
	int dir, fd, lock;
	dev_t dev;
	ino_t ino;
	off_t size; /* after the last look or write of this process; -1: the tail is to be read */
	char link[CHAIN_HEX + 1];
	bool busy; /* the lock was not had the last time: nobody waits for it again until it is */
	bool dirty;
};

/** struct audit_found - what was not as this process left it; a record about each comes first
 * @torn: bytes after the last record that are none: closed with a LF already when they needed one
 * @rotated: this file follows an older one, NAME.1
 * @missing: the file was removed or shortened; @expected: the hash of the last record known */
struct audit_found {
	uint64_t torn;
	bool rotated, missing;
	char expected[CHAIN_HEX + 1];
};

void audit_file_init(struct audit_file *f);
/**
 * audit_file_open() - open the file and its lock, creating both and the directories above
 * Files are regular, 0600, the user's own, not writable by others and have one name; the last
 * component is never followed; the directory is the user's or root's.
 * Return: 0, or -errno with @e */
int audit_file_open(struct audit_file *f, const char *path, struct err *e);
/**
 * audit_file_begin() - take the lock and make ready to write @len bytes: opened anew when it was
 * removed or rotated by another, rotated when it is full, the hash of its last record in @link
 * @wait_ms: at most; 0 when the last one was waited for in vain
 * Return: 0 with the lock held, -EAGAIN when another has it, -errno */
int audit_file_begin(struct audit_file *f, long wait_ms, size_t len, struct audit_found *found);
/**
 * audit_file_put() - append @len bytes of whole lines by one write; the lock is held
 * @kept: bytes of whole lines that are on file; what came after them is taken back
 * Return: 0, or -errno */
int audit_file_put(struct audit_file *f, const char *text, size_t len, size_t *kept);
/** audit_file_end() - give the lock back */
void audit_file_end(struct audit_file *f);
/** audit_file_sync() - to the disk, when anything was written. Return: 0 or -errno */
int audit_file_sync(struct audit_file *f);
void audit_file_close(struct audit_file *f);
/** audit_file_old() - the name of the old file number @n, 1 to AUDIT_KEPT, in its directory */
void audit_file_old(const struct audit_file *f, unsigned n, char name[NAME_MAX + 1]);

#endif
