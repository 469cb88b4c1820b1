/* SPDX-License-Identifier: ISC */
/* common/err.c - an error as a value: what happened, why, what to type.
 * The words may hold names that a stranger chose: they are escaped where they are printed. */
#include "common/err.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/escape.h"
#include "common/fd.h"

#define LINE_MAX_BYTES 3072 /* one printed line: what[512] fully escaped, with room to spare */

static int err_result(const struct err *e)
{
	return e && e->num > 0 ? -e->num : -EINVAL;
}

int err_set(struct err *e, int num, const char *fmt, ...)
{
	char what[sizeof(e->what)]; /* the arguments may point into @e */
	va_list ap;

	if (!e)
		return num > 0 ? -num : -EINVAL;
	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	memset(e, 0, sizeof(*e));
	e->num = num;
	memcpy(e->what, what, sizeof(what));
	return err_result(e);
}

/* Append @text at @n as far as it fits. */
static void err_append(char what[512], size_t n, const char *text)
{
	size_t len = strlen(text);

	if (len > 511 - n)
		len = 511 - n;
	memcpy(what + n, text, len);
	what[n + len] = '\0';
}

int err_in(struct err *e, const char *fmt, ...)
{
	char what[sizeof(e->what)];
	va_list ap;
	int n;

	if (!e)
		return -EINVAL;
	va_start(ap, fmt);
	n = vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(what)) {
		err_append(what, (size_t)n, ": ");
		err_append(what, strlen(what), e->what);
	}
	memcpy(e->what, what, sizeof(what));
	return err_result(e);
}

int err_why(struct err *e, const char *fmt, ...)
{
	char why[sizeof(e->why)];
	va_list ap;

	if (!e)
		return -EINVAL;
	va_start(ap, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	memcpy(e->why, why, sizeof(why));
	return err_result(e);
}

int err_fix(struct err *e, const char *fmt, ...)
{
	char fix[sizeof(e->fix)];
	va_list ap;

	if (!e)
		return -EINVAL;
	va_start(ap, fmt);
	(void)vsnprintf(fix, sizeof(fix), fmt, ap);
	va_end(ap);
	memcpy(e->fix, fix, sizeof(fix));
	return err_result(e);
}

const char *err_text(const struct err *e, char *buf)
{
	(void)snprintf(buf, ERR_TEXT_MAX, "%s%s%s", e->what, e->num > 0 ? ": " : "",
		       e->num > 0 ? strerror(e->num) : "");
	return buf;
}

static bool is_raw;

void err_raw(bool on)
{
	is_raw = on;
}

/* Add @label and @text as one line, escaped. Return: bytes now in @buf */
static size_t line_add(char *buf, size_t room, size_t n, const char *label, const char *text,
		       const char *tail)
{
	size_t want = strlen(label);

	if (n + want + 2 >= room)
		return n;
	memcpy(buf + n, label, want);
	n += want;
	n += escape_line(buf + n, room - n - 1, text, strlen(text));
	if (tail) {
		n += escape_line(buf + n, room - n - 1, ": ", 2);
		n += escape_line(buf + n, room - n - 1, tail, strlen(tail));
	}
	if (is_raw && n + 1 < room)
		buf[n++] = '\r';
	buf[n++] = '\n';
	return n;
}

bool err_lasts(int num)
{
	switch (num) {
	case EAGAIN:
	case ENOMEM:
	case ENOSPC:
	case EUSERS:
	case EMFILE:
	case ENFILE:
	case EINTR:
		return false;
	default:
		return true;
	}
}

static bool is_detached;
static int detached = -1; /* stderr opened anew, non-blocking; -1: stderr itself */

void err_detach(void)
{
	if (!is_detached)
		detached = fd_detached(STDERR_FILENO); /* CMD shares descriptor 2 itself */
	is_detached = true;
}

static ssize_t some_out(const char *buf, size_t len)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
	ssize_t n;

	if (!is_detached)
		return write(STDERR_FILENO, buf, len);
	if (detached >= 0)
		return write(detached, buf, len);
	/* a pipe or terminal of another user cannot be opened anew: room for a line is all one can see */
	if (poll(&p, 1, 0) <= 0 || !(p.revents & POLLOUT))
		return 0;
	n = send(STDERR_FILENO, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	return n < 0 && errno == ENOTSOCK ? write(STDERR_FILENO, buf, len) : n;
}

/* One write, so that lines of two processes do not mix. Nobody can be told when stderr is gone. */
static void line_out(const char *buf, size_t len)
{
	while (len > 0) {
		ssize_t n = some_out(buf, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		buf += n;
		len -= (size_t)n;
	}
}

void err_print(const struct err *e)
{
	char buf[3 * LINE_MAX_BYTES];
	size_t n;

	n = line_add(buf, sizeof(buf), 0, "weir: ", e->what, e->num > 0 ? strerror(e->num) : NULL);
	if (e->why[0])
		n = line_add(buf, sizeof(buf), n, "  why: ", e->why, NULL);
	if (e->fix[0])
		n = line_add(buf, sizeof(buf), n, "  fix: ", e->fix, NULL);
	line_out(buf, n);
}

void note(const char *fmt, ...)
{
	char text[1024], buf[LINE_MAX_BYTES];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	line_out(buf, line_add(buf, sizeof(buf), 0, "weir: ", text, NULL));
}
