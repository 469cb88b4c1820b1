/* SPDX-License-Identifier: ISC */
/* sandbox/pty.c - the sandbox's own devpts, and its terminal where the user has one.
 * The terminal is born inside, so that ttyname(3), /dev/tty and whoever opens a second one find what they
 * expect; only its master goes to the monitor. Believes the plan. */
#include "sandbox/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <termios.h>

#include "common/err.h"
#include "common/scope.h"
#include "sandbox/plan.h"
#include "sandbox/tree.h"

int pty_fs(struct err *e)
{
	static const char *const opts[][2] = {
		{ "newinstance", NULL }, { "ptmxmode", "0666" }, { "mode", "0620" }, { NULL, NULL }
	};

	return tree_fs("devpts", opts, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, e);
}

bool pty_wanted(const struct plan_tty *t)
{
	return t->on[0] || t->on[1] || t->on[2];
}

int pty_open(int fs, const struct plan_tty *t, int *master, int *slave, struct err *e)
{
	SCOPED_FD int m = openat(fs, "ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	SCOPED_FD int s = -1;
	int unlock = 0;

	if (m < 0 || ioctl(m, TIOCSPTLCK, &unlock) < 0)
		return err_set(e, errno, "make a terminal inside");
	s = ioctl(m, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (s < 0)
		return err_set(e, errno, "open the terminal inside");
	if ((t->has_modes && tcsetattr(s, TCSANOW, &t->modes) < 0) ||
	    ioctl(s, TIOCSWINSZ, &t->size) < 0)
		return err_set(e, errno, "set the terminal inside");
	if (t->control && ioctl(s, TIOCSCTTY, 0) < 0)
		return err_set(e, errno, "take the terminal inside");
	*master = take_fd(&m);
	*slave = take_fd(&s);
	return 0;
}
