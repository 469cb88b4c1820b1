/* SPDX-License-Identifier: ISC */
/* broker/cli/edit_file.h - change one of the user's own files: whole or not at all, one at a time */
#ifndef WEIR_BROKER_CLI_EDIT_FILE_H
#define WEIR_BROKER_CLI_EDIT_FILE_H

#include <stddef.h>
#include <sys/types.h>

struct err;

/**
 * edit_file_fn - the change itself
 * @text: the file as it is, @len bytes; empty when there is none. May be asked again when somebody
 *	  else replaced the file meanwhile
 * @out:  for free()
 * Return: 1 with @out, 0 when nothing is to change, or -errno with @e */
typedef int (*edit_file_fn)(void *arg, const char *text, size_t len, char **out, size_t *out_len,
			    struct err *e);

/**
 * edit_file() - lock, read, change, write a temporary file beside it, fsync, rename
 * Owner, mode and symlinks as layers_read_guarded(); a symlink stays and its target is replaced; the
 * mode is kept, a new file is 0600. Directories that are missing are made 0700.
 * @lock: path of the lock file, made when missing; waited for EDIT_LOCK_S seconds at most
 *
 * Return: 1 changed, 0 left as it was, or -errno with @e filled in and the file as it was */
#define EDIT_LOCK_S 10
int edit_file(const char *path, uid_t uid, const char *lock, edit_file_fn change, void *arg,
	      struct err *e);

/** edit_lock_open() - the lock file of edit_file_by(). Return: a descriptor, or -errno with @e */
int edit_lock_open(const char *lock, struct err *e);
/**
 * edit_file_by() - edit_file() with a lock file that is open, waited for @wait_ms at most
 * For the monitor, also once it is locked: of the kernel it asks what layers_read_guarded() does and
 * openat of new files, mkdirat, write, fchmod, fchown, fsync, renameat, unlinkat, getrandom, F_OFD_SETLK.
 * Return: as edit_file() */
int edit_file_by(const char *path, uid_t uid, int lock, unsigned wait_ms, edit_file_fn change,
		 void *arg, struct err *e);

#endif
