/* SPDX-License-Identifier: ISC */
/* broker/monitor/tty.c - the user's terminal: which it is, its modes and its size.
 * It belongs to the user and to every program of the user's that runs on it. It is touched only while
 * weir is its foreground job; from the background the kernel would stop weir, and rightly. */
#include "broker/monitor/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/err.h"
#include "common/scope.h"
#include "sandbox/plan.h"

#define ROWS 24 /* of a terminal inside that has none outside */
#define COLUMNS 80

/* /dev/tty is another name of the controlling terminal; numbers of two devpts are not comparable. */
static bool same_tty(int a, int b)
{
	const dev_t ctty = makedev(5, 0); /* Documentation/admin-guide/devices.txt */
	struct stat x, y;
	unsigned m, n;

	if (fstat(a, &x) < 0 || fstat(b, &y) < 0)
		return false;
	if (x.st_dev == y.st_dev && x.st_ino == y.st_ino)
		return true;
	return (x.st_rdev == ctty || y.st_rdev == ctty) && ioctl(a, TIOCGDEV, &m) == 0 &&
	       ioctl(b, TIOCGDEV, &n) == 0 && m == n;
}

/* A file description of our own: O_NONBLOCK on the shared one would reach the user's shell. */
static int open_anew(struct tty *t, int fd)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	t->fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (t->fd >= 0)
		return 0;
	t->copied = true; /* another user's, as after su(1) */
	t->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return t->fd < 0 ? -errno : 0;
}

int tty_open(struct tty *t, const int stdio[3], struct err *e)
{
	int first = -1, r;

	*t = (struct tty){ .fd = -1, .group = getpgrp() };
	for (int i = 0; i < 3; i++) {
		t->on[i] = isatty(stdio[i]) == 1 && (first < 0 || same_tty(first, stdio[i]));
		if (t->on[i] && first < 0)
			first = stdio[i];
	}
	if (first < 0)
		return 0;
	if ((r = open_anew(t, first)) < 0)
		return err_set(e, -r, "open the terminal");
	t->is_own = t->on[0] && tcgetpgrp(t->fd) >= 0;
	t->screen = t->on[0] && t->on[1];
	return 0;
}

void tty_close(struct tty *t)
{
	if (t->fd < 0)
		return;
	tty_restore(t);
	scope_close(&t->fd);
	t->fd = -1;
}

void tty_plan(const struct tty *t, bool foreground, struct plan_tty *p)
{
	memcpy(p->on, t->on, sizeof(p->on));
	p->control = t->is_own;
	p->foreground = foreground;
	p->has_modes = tcgetattr(t->fd, &p->modes) == 0;
	if (!p->has_modes) {
		p->size = (struct winsize){ .ws_row = ROWS, .ws_col = COLUMNS };
		return;
	}
	(void)ioctl(t->fd, TIOCGWINSZ, &p->size);
	if (foreground && t->screen)
		return;
	/* a shell that reads its line has modes of its own; and what this terminal does to output while
	 * others write to it must not be done twice */
	p->modes.c_iflag = ICRNL | IXON | (p->modes.c_iflag & IUTF8);
	p->modes.c_lflag = ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN;
	p->modes.c_oflag &= ~(tcflag_t)OPOST;
}

bool tty_is_foreground(const struct tty *t)
{
	return t->is_own && tcgetpgrp(t->fd) == t->group;
}

bool tty_is_gone(const struct tty *t)
{
	struct pollfd p = { .fd = t->fd };

	return t->fd >= 0 && poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR));
}

int tty_raw(struct tty *t)
{
	struct termios raw;

	if (!tty_is_foreground(t))
		return -ENOTTY;
	if (!t->raw && tcgetattr(t->fd, &t->before) < 0)
		return -errno;
	raw = t->before;
	raw.c_iflag |= IGNPAR;
	raw.c_iflag &= ~(tcflag_t)(ISTRIP | INLCR | IGNCR | ICRNL | IXON | IXANY | IXOFF | IUCLC);
	raw.c_lflag &= ~(tcflag_t)(ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHONL | IEXTEN);
	if (t->screen)
		raw.c_oflag &= ~(tcflag_t)OPOST;
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	if (tcsetattr(t->fd, TCSANOW, &raw) < 0)
		return -errno;
	t->raw = true;
	return 0;
}

void tty_restore(struct tty *t)
{
	if (t->raw && tty_is_foreground(t))
		(void)tcsetattr(t->fd, TCSANOW, &t->before);
	t->raw = false;
}

bool tty_size(const struct tty *t, int master)
{
	struct winsize now, inside;

	if (master < 0 || t->fd < 0 || ioctl(t->fd, TIOCGWINSZ, &now) < 0 ||
	    ioctl(master, TIOCGWINSZ, &inside) < 0 || memcmp(&now, &inside, sizeof(now)) == 0)
		return false;
	return ioctl(master, TIOCSWINSZ, &now) == 0;
}

void tty_inner_modes(const struct tty *t, int master)
{
	struct termios modes = t->before;

	if (!t->screen)
		modes.c_oflag &= ~(tcflag_t)OPOST;
	(void)tcsetattr(master, TCSANOW, &modes);
}

bool tty_inner_output(int master, bool on)
{
	struct termios modes;
	bool was;

	if (master < 0 || tcgetattr(master, &modes) < 0)
		return on;
	was = modes.c_oflag & OPOST;
	if (was != on) {
		modes.c_oflag = on ? modes.c_oflag | OPOST : modes.c_oflag & ~(tcflag_t)OPOST;
		(void)tcsetattr(master, TCSANOW, &modes);
	}
	return was;
}
