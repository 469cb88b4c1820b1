/* SPDX-License-Identifier: ISC */
/* broker/monitor/who.c - which process inside holds a client's socket.
 * The kernel names the socket's inode; the sandbox's own /proc says who has it open. Everything read
 * there was chosen by the command: it is bounded, escaped and shown as a claim. */
#include "broker/monitor/who.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "broker/monitor/state.h"
#include "common/escape.h"
#include "common/netlink.h"
#include "common/num.h"
#include "common/scope.h"

#define FDS_A_LOOK 32 /* descriptors between two looks at the clock */

struct look {
	char want[40];	/* "socket:[INODE]" */
	unsigned fds;	/* left to look at */
	uint64_t until; /* microseconds of this thread's own time: a busy machine hides nobody */
};

static uint64_t now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static DIR *dir_at(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d)
		scope_close(&fd);
	return d;
}

/* Return: -1: it may not be looked at */
static int holds(int process, struct look *l)
{
	DIR *d = dir_at(process, "fd");
	const struct dirent *one;
	bool found = false;

	if (!d)
		return -1;
	while (!found && l->fds > 0 && (l->fds % FDS_A_LOOK || now_us() < l->until) &&
	       (one = readdir(d))) {
		char to[64];
		ssize_t n = readlinkat(dirfd(d), one->d_name, to, sizeof(to) - 1);

		l->fds--;
		if (n <= 0)
			continue;
		to[n] = '\0';
		found = str_eq(to, l->want);
	}
	(void)closedir(d);
	return found;
}

static void names_take(int process, struct who *w)
{
	char buf[1024];
	ssize_t n = readlinkat(process, "exe", buf, sizeof(buf));
	SCOPED_FD int fd = openat(process, "cmdline", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (n > 0)
		(void)escape_text(w->exe, sizeof(w->exe), buf, (size_t)n);
	n = fd < 0 ? -1 : read(fd, buf, sizeof(buf));
	if (n > 0)
		(void)escape_text(w->argv0, sizeof(w->argv0), buf, strnlen(buf, (size_t)n));
}

void who_begin_here(struct monitor *m)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (getsockname(m->listeners[0], (struct sockaddr *)&ss, &len) < 0 ||
	    addr_from_sockaddr(&m->listen_addr, &m->listen_port, (const struct sockaddr *)&ss) < 0)
		return;
	m->diag_fd = netlink_diag_open();
	m->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Outside a sandbox every process of the user could be named: only a client of the listener is. */
static bool is_ours(const struct monitor *m, const struct msg_half *half)
{
	const struct addr *at = &m->listen_addr;

	if (at->family == 0)
		return true;
	return half->proxy_port == m->listen_port &&
	       (addr_eq(at, &half->proxy) ||
		(addr_class_of(at) != ADDR_LOOPBACK && monitor_is_own(m, &half->proxy)));
}

/* Return: the number of the client's socket, 0 when the kernel does not know it or nobody holds it */
static uint32_t inode_of(const struct monitor *m, const struct msg_half *half)
{
	uint32_t inode = 0;

	if (half->client.family == 0 || m->diag_fd < 0 || m->proc_fd < 0 || !is_ours(m, half) ||
	    netlink_tcp_inode(m->diag_fd, &half->client, half->client_port, &half->proxy,
			      half->proxy_port, &inode) < 0)
		return 0;
	return inode;
}

static void holder_find(const struct monitor *m, uint32_t inode, struct who *w)
{
	struct look l = { .fds = WHO_FDS_MAX, .until = now_us() + WHO_LOOK_US };
	const struct dirent *one;
	unsigned seen = 0;
	DIR *d = inode ? dir_at(m->proc_fd, ".") : NULL;

	*w = (struct who){ .pid = 0 };
	(void)snprintf(l.want, sizeof(l.want), "socket:[%u]", inode);
	while (d && w->pid == 0 && seen < WHO_PROCESSES_MAX && now_us() < l.until &&
	       (one = readdir(d))) {
		SCOPED_FD int process = -1;
		uint64_t pid;
		int r;

		if (num_u64(one->d_name, 1, UINT32_MAX, &pid) < 0)
			continue;
		process = openat(dirfd(d), one->d_name,
				 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = process < 0 ? -1 : holds(process, &l);
		seen += r >= 0;
		if (r <= 0)
			continue;
		w->pid = (uint32_t)pid;
		names_take(process, w);
	}
	if (d)
		(void)closedir(d);
}

void who_find(const struct monitor *m, const struct msg_half *half, struct who *w)
{
	holder_find(m, inode_of(m, half), w);
}

/* ---- for records ---- */

static bool may_look(struct monitor *m)
{
	struct who_budget *b = &m->looks;
	double now = ev_now(m->loop);

	if (now - b->since >= 1. || now < b->since)
		*b = (struct who_budget){ .since = now };
	return b->us < WHO_SECOND_US;
}

uint32_t who_socket(struct monitor *m, const struct msg_half *half)
{
	uint64_t begun;
	uint32_t inode;

	if (half->client.family == 0 || m->proc_fd < 0 || !may_look(m))
		return 0;
	begun = now_us();
	inode = inode_of(m, half);
	m->looks.us += now_us() - begun;
	return inode;
}

uint32_t who_udp(struct monitor *m, uint16_t port)
{
	uint32_t inode = 0;
	uint64_t begun;

	if (port == 0 || m->diag_fd < 0 || m->proc_fd < 0 || !may_look(m))
		return 0;
	begun = now_us();
	if (netlink_udp_inode(m->diag_fd, port, &inode) < 0)
		inode = 0;
	m->looks.us += now_us() - begun;
	return inode;
}

void who_look(struct monitor *m, const struct msg_half *half, uint32_t socket, struct who *w)
{
	uint64_t begun;

	*w = (struct who){ .pid = 0 };
	if ((socket == 0 && (!half || half->client.family == 0)) || m->proc_fd < 0 || !may_look(m))
		return;
	begun = now_us();
	holder_find(m, socket ? socket : inode_of(m, half), w);
	m->looks.us += now_us() - begun;
}

json_t *who_json(const struct who *w)
{
	return w->pid ? json_pack("{s:I, s:s, s:s}", "pid", (json_int_t)w->pid, "exe", w->exe,
				  "argv0", w->argv0)
		      : json_null();
}
