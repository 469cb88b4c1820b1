/* SPDX-License-Identifier: ISC */
/* common/fd.c - descriptors: passing them between processes, moving and closing them.
 * The peer may be hostile: whatever arrives beyond what was asked for is closed again. */
#include "common/fd.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

union pass {
	char buf[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
	struct cmsghdr align;
};

int fd_pair(int sv[2])
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) < 0)
		return -errno;
	return 0;
}

int fd_send(int sock, const void *buf, size_t len, const int *fds, size_t nfds)
{
	union pass pass = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)buf, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	assert(nfds <= FD_PASS_MAX);
	if (nfds > 0) {
		struct cmsghdr *c = &pass.align;

		msg.msg_control = pass.buf;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * nfds);
	}
	do {
		/* a filter can tell that send(2) names no other place, but not what sendmsg(2) does */
		n = nfds > 0 ? sendmsg(sock, &msg, MSG_NOSIGNAL)
			     : send(sock, buf, len, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0; /* SEQPACKET: whole or not at all */
	return errno == ECONNRESET ? -EPIPE : -errno;
}

/* Take every descriptor out of @msg: the first @room into @fds, the others are closed.
 * Return: how many came */
static size_t fds_take(struct msghdr *msg, int *fds, size_t room)
{
	size_t came = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++, came++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (came < room)
				fds[came] = fd;
			else
				(void)close(fd);
		}
	}
	return came;
}

ssize_t fd_recv(int sock, void *buf, size_t len, int *fds, size_t *nfds)
{
	union pass pass = { 0 };
	struct iovec iov = { .iov_base = buf, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = pass.buf,
			      .msg_controllen = sizeof(pass.buf) };
	size_t room = *nfds, came;
	ssize_t n;

	assert(room <= FD_PASS_MAX);
	*nfds = 0;
	/* ECONNRESET, once: the peer left something unread; what it said itself is still there */
	do {
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	} while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n < 0)
		return -errno;
	came = fds_take(&msg, fds, room);
	if (n > 0 && came <= room && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		*nfds = came;
		return n;
	}
	for (size_t i = 0; i < came && i < room; i++)
		(void)close(fds[i]);
	return n == 0 && came == 0 ? 0 : -EMSGSIZE;
}

static int flag_set(int fd, int get, int set, int flag, bool on)
{
	int have = fcntl(fd, get);

	if (have < 0)
		return -errno;
	if (fcntl(fd, set, on ? have | flag : have & ~flag) < 0)
		return -errno;
	return 0;
}

int fd_set_cloexec(int fd, bool on)
{
	return flag_set(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

int fd_set_nonblock(int fd, bool on)
{
	return flag_set(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

int fd_write_all(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fd_detached(int fd)
{
	char path[32];
	struct stat st;

	if (fstat(fd, &st) < 0 || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static int64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* What says that it is writable takes so much without blocking: pipe(7) */
static ssize_t piece_out(int fd, const char *buf, size_t len)
{
	ssize_t n;

	if (len > PIPE_BUF)
		len = PIPE_BUF;
	n = send(fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	return n < 0 && errno == ENOTSOCK ? write(fd, buf, len) : n;
}

int fd_write_within(int fd, const void *buf, size_t len, int ms)
{
	const int64_t end = now_ms() + ms;
	const char *p = buf;

	while (len > 0) {
		int64_t left = end - now_ms();
		struct pollfd w = { .fd = fd, .events = POLLOUT };
		int r = poll(&w, 1, left > 0 ? (int)left : 0);
		ssize_t n = r > 0 ? piece_out(fd, p, len) : 0;

		if (r == 0)
			return -ETIMEDOUT;
		if ((r < 0 || n < 0) && errno != EINTR && errno != EAGAIN)
			return -errno;
		p += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}
