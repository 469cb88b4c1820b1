/* SPDX-License-Identifier: ISC */
/* sandbox/pty.h - the sandbox's own devpts, and its terminal where the user has one */
#ifndef WEIR_SANDBOX_PTY_H
#define WEIR_SANDBOX_PTY_H

#include <stdbool.h>

struct err;
struct plan_tty;

/** pty_fs() - a devpts of its own, not mounted yet: its first terminal is /dev/pts/0.
 * Return: a mount descriptor, the caller's, or -errno with @e */
int pty_fs(struct err *e);
/** pty_wanted() - does any of 0, 1, 2 become a terminal? */
bool pty_wanted(const struct plan_tty *t);
/**
 * pty_open() - open the first terminal of @fs, sized and set as @t says
 * By the session's leader, which has no controlling terminal yet: children forked later share it. After
 * the ids are mapped: the kernel refuses to write to the files of a user who has no number here.
 * @master, @slave: close-on-exec, the caller's; @master non-blocking
 * Return: 0, or -errno with @e */
int pty_open(int fs, const struct plan_tty *t, int *master, int *slave, struct err *e);

#endif
