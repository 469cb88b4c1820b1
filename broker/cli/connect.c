/* SPDX-License-Identifier: ISC */
/* broker/cli/connect.c - weir connect HOST PORT: stdin and stdout through the sandbox's proxy, as
 * ssh's ProxyCommand. Runs inside, with no more authority than any other program there.
 * Bytes pass as they are; an end of either direction is passed on and the other one goes on. What
 * the proxy says in a refusal is shown escaped. */
#include "cli.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/err.h"
#include "common/fd.h"
#include "common/msg.h"
#include "common/num.h"
#include "common/scope.h"
#include "shim/shim.h"

#define EXIT_REFUSED 1
#define ANSWER_MAX 8192 /* bytes of the proxy's answer: weir's own are half of that at most */
#define ANSWER_S 120	/* the proxy gives up long before: a dial takes at most 30 s */
#define FLOW_MAX 65536

static const char usage[] =
	"usage: weir connect HOST PORT\n"
	"\n"
	"Inside a sandbox: connect to HOST, as far as the policy allows it, and pass stdin and stdout.\n"
	"ssh inside a sandbox is set up to use it; elsewhere: ProxyCommand /run/weir/weir connect %h %p\n"
	"Exit status: 0 when both directions have ended; 1 refused or not reached, with the reason on\n"
	"stderr; 125 wrong usage, or no sandbox around.\n";

/** struct flow - one direction; bytes buf[start] to buf[end - 1] are on their way */
struct flow {
	int from, to;
	size_t start, end;
	bool is_eof, is_over; /* is_over: the end was passed on */
	bool is_switched;     /* @to is non-blocking, which others who share it do not expect */
	char buf[FLOW_MAX];
};

/* ---- the question ---- */

static int target_check(const char *host, const char *port, uint16_t *number, struct err *e)
{
	size_t n = strlen(host);

	if (num_port(port, strlen(port), number) < 0)
		return err_set(e, 0, "'%s' is not a port from 1 to 65535", port);
	if (n == 0 || n > HOST_MAX)
		return err_set(e, 0, "'%s' is not a host name or address", host);
	for (size_t i = 0; i < n; i++) {
		if (host[i] <= ' ' || host[i] > '~' || strchr("@/[]", host[i]))
			return err_set(e, 0, "'%s' is not a host name or address", host);
	}
	return 0;
}

/* Return: a descriptor the caller owns, or -errno with @e */
static int proxy_open(struct err *e)
{
	const struct sockaddr_in sa = {
		.sin_family = AF_INET,
		.sin_port = htons(SHIM_PORT),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	const struct timeval limit = { .tv_sec = ANSWER_S };
	const int on = 1;
	SCOPED_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return err_set(e, errno, "make a socket");
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0) {
		err_set(e, errno, "connect to weir's proxy at 127.0.0.1:%d", SHIM_PORT);
		err_why(e, "there is one only inside a sandbox whose network is allowlist");
		return err_fix(e, "weir run -- ssh HOST; inside, it is used by itself");
	}
	return take_fd(&fd);
}

static int send_all(int fd, const char *p, size_t n, struct err *e)
{
	while (n > 0) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

		if (k < 0)
			return err_set(e, errno, "talk to weir's proxy");
		p += k;
		n -= (size_t)k;
	}
	return 0;
}

/* Read the answer's head; what follows it stays at @buf + result. Return: the head's length */
static ssize_t head_read(int fd, char *buf, size_t *have, struct err *e)
{
	char *end;
	ssize_t n;

	*have = 0;
	for (;;) {
		n = recv(fd, buf + *have, ANSWER_MAX - *have, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, errno, "wait for the answer of weir's proxy");
		*have += (size_t)n;
		end = memmem(buf, *have, "\r\n\r\n", 4);
		if (end)
			return end + 4 - buf;
		if (n == 0 || *have == ANSWER_MAX)
			return err_set(e, 0, "weir's proxy gave no answer");
	}
}

/* The next line, without @lead where it begins with that. */
static char *line_take(char **text, const char *lead)
{
	char *line = *text, *end = strchrnul(line, '\n');

	*text = *end ? end + 1 : end;
	*end = '\0';
	return strncmp(line, lead, strlen(lead)) == 0 ? line + strlen(lead) : line;
}

/* The body of a refusal is three lines: what happened, which rule, what to type. */
static void refusal_read(int fd, char *buf, size_t head, size_t have, struct err *e)
{
	char *text = buf + head;
	const char *what, *why, *fix;
	ssize_t n;

	while (have < ANSWER_MAX && (n = recv(fd, buf + have, ANSWER_MAX - have, 0)) > 0)
		have += (size_t)n;
	buf[have] = '\0';
	if (memchr(text, '\0', have - head))
		*text = '\0';
	what = line_take(&text, "weir: ");
	why = line_take(&text, "");
	fix = line_take(&text, "to allow it: ");
	err_set(e, 0, "%s", *what ? what : "weir's proxy refused");
	if (*why)
		err_why(e, "%s", why);
	if (*fix)
		err_fix(e, "%s", fix);
}

/* Return: 0 with the tunnel's first bytes in @down; EXIT_REFUSED or a negative result with @e */
static int ask(int fd, const char *host, uint16_t port, struct flow *down, struct err *e)
{
	static char buf[ANSWER_MAX + 1];
	char where[HOST_MAX + 16], question[2 * sizeof(where) + 64];
	bool is_v6 = strchr(host, ':') != NULL;
	size_t have;
	ssize_t head;
	int r;

	(void)snprintf(where, sizeof(where), "%s%s%s:%u", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
		       port);
	(void)snprintf(question, sizeof(question), "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", where,
		       where);
	r = send_all(fd, question, strlen(question), e);
	head = r < 0 ? r : head_read(fd, buf, &have, e);
	if (head < 0)
		return (int)head;
	if (memcmp(buf, "HTTP/1.1 200 ", 13) != 0) {
		refusal_read(fd, buf, (size_t)head, have, e);
		return EXIT_REFUSED;
	}
	down->end = have - (size_t)head;
	memcpy(down->buf, buf + head, down->end);
	return 0;
}

/* ---- the bytes ---- */

static bool is_later(void)
{
	return errno == EAGAIN || errno == EINTR;
}

static void restore(struct flow *f)
{
	if (f->is_switched)
		(void)fd_set_nonblock(f->to, false);
	f->is_switched = false;
}

static void end_pass(struct flow *f)
{
	restore(f);
	f->is_over = true;
	/* a pipe ends when it is closed; a socket may still be read from */
	if (shutdown(f->to, SHUT_WR) < 0 && errno == ENOTSOCK)
		(void)close(f->to);
}

/* Return: 0, or -errno when a side is gone */
static int flow_step(struct flow *f, short in, short out)
{
	ssize_t n;

	if (in && !f->is_eof && f->start == f->end) {
		n = read(f->from, f->buf, FLOW_MAX);
		if (n < 0)
			return is_later() ? 0 : -errno;
		f->is_eof = n == 0;
		f->start = 0;
		f->end = (size_t)n;
	}
	if (f->start < f->end && (in || out)) {
		n = write(f->to, f->buf + f->start, f->end - f->start);
		if (n < 0)
			return is_later() ? 0 : -errno;
		f->start += (size_t)n;
	}
	if (f->is_eof && f->start == f->end && !f->is_over)
		end_pass(f);
	return 0;
}

static void watch(struct pollfd *p, const struct flow *f)
{
	bool is_full = f->start < f->end;

	p[0] = (struct pollfd){ .fd = is_full || f->is_eof ? -1 : f->from, .events = POLLIN };
	/* even with nothing to write: a reader that went away is reported */
	p[1] = (struct pollfd){ .fd = f->is_over ? -1 : f->to, .events = is_full ? POLLOUT : 0 };
}

/* Return: 0 when both directions ended, or -errno */
static int relay(struct flow *up, struct flow *down)
{
	struct flow *const flow[] = { up, down };
	struct pollfd p[4];
	int r = 0;

	while (r == 0 && (!up->is_over || !down->is_over)) {
		watch(p, up);
		watch(p + 2, down);
		if (poll(p, ARRAY_LEN(p), -1) < 0 && errno != EINTR)
			return -errno;
		for (size_t i = 0; i < 2 && r == 0; i++) {
			r = flow_step(flow[i], p[2 * i].revents, p[2 * i + 1].revents);
			if (r == 0 && !flow[i]->is_over && (p[2 * i + 1].revents & POLLERR))
				r = -EPIPE;
		}
	}
	return r;
}

static bool is_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || (flags & O_NONBLOCK);
}

static int pass(int fd, struct flow *down, struct err *e)
{
	static struct flow up;
	int r;

	up.from = STDIN_FILENO;
	up.to = down->from = fd;
	down->to = STDOUT_FILENO;
	/* writing to a slow reader must not keep the other direction waiting */
	down->is_switched = !isatty(STDOUT_FILENO) && !is_nonblock(STDOUT_FILENO) &&
			    fd_set_nonblock(STDOUT_FILENO, true) == 0;
	(void)fd_set_nonblock(fd, true);
	r = relay(&up, down);
	restore(down);
	if (r == 0 || r == -EPIPE)
		return 0; /* nobody reads on: no failure of weir's */
	err_set(e, -r, "the connection broke");
	(void)cli_fail(e);
	return EXIT_REFUSED;
}

int cmd_connect(int argc, char **argv)
{
	static const struct option options[] = { { "help", no_argument, NULL, 'h' }, { 0 } };
	static struct flow down;
	SCOPED_FD int fd = -1;
	struct err e;
	uint16_t port;
	int r;

	while ((r = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
		(void)fputs(usage, r == 'h' ? stdout : stderr);
		return r == 'h' && fflush(stdout) == 0 ? 0 : EXIT_WEIR;
	}
	if (argc - optind != 2) {
		(void)fputs(usage, stderr);
		return EXIT_WEIR;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	if (target_check(argv[optind], argv[optind + 1], &port, &e) < 0 ||
	    (fd = proxy_open(&e)) < 0)
		return cli_fail(&e);
	r = ask(fd, argv[optind], port, &down, &e);
	if (r != 0) {
		(void)cli_fail(&e);
		return EXIT_REFUSED;
	}
	return pass(fd, &down, &e);
}
