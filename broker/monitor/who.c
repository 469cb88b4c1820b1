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
#include <time.h>
#include <unistd.h>

#include "broker/monitor/state.h"
#include "common/escape.h"
#include "common/netlink.h"
#include "common/num.h"
#include "common/scope.h"

struct look {
	char want[40];	/* "socket:[INODE]" */
	unsigned fds;	/* left to look at */
	uint64_t until; /* microseconds of CLOCK_MONOTONIC */
};

static uint64_t now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
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

static bool holds(int process, struct look *l)
{
	DIR *d = dir_at(process, "fd");
	const struct dirent *one;
	bool found = false;

	while (d && !found && l->fds > 0 && now_us() < l->until && (one = readdir(d))) {
		char to[64];
		ssize_t n = readlinkat(dirfd(d), one->d_name, to, sizeof(to) - 1);

		l->fds--;
		if (n <= 0)
			continue;
		to[n] = '\0';
		found = str_eq(to, l->want);
	}
	if (d)
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

void who_find(const struct monitor *m, const struct msg_half *half, struct who *w)
{
	struct look l = { .fds = WHO_FDS_MAX, .until = now_us() + WHO_LOOK_US };
	const struct dirent *one;
	uint32_t inode = 0;
	unsigned seen = 0;
	DIR *d;

	*w = (struct who){ .pid = 0 };
	if (m->diag_fd < 0 || m->proc_fd < 0 ||
	    netlink_tcp_inode(m->diag_fd, &half->client, half->client_port, &half->proxy,
			      half->proxy_port, &inode) < 0 ||
	    inode == 0)
		return;
	(void)snprintf(l.want, sizeof(l.want), "socket:[%u]", inode);
	d = dir_at(m->proc_fd, ".");
	while (d && w->pid == 0 && seen < WHO_PROCESSES_MAX && now_us() < l.until &&
	       (one = readdir(d))) {
		SCOPED_FD int process = -1;
		uint64_t pid;

		if (num_u64(one->d_name, 1, UINT32_MAX, &pid) < 0)
			continue;
		seen++;
		process = openat(dirfd(d), one->d_name,
				 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (process < 0 || !holds(process, &l))
			continue;
		w->pid = (uint32_t)pid;
		names_take(process, w);
	}
	if (d)
		(void)closedir(d);
}

void who_look(struct monitor *m, const struct msg_half *half, struct who *w)
{
	struct who_budget *b = &m->looks;
	double now = ev_now(m->loop);
	uint64_t begun;

	*w = (struct who){ .pid = 0 };
	if (half->client.family == 0 || m->proc_fd < 0)
		return;
	if (now - b->since >= 1. || now < b->since)
		*b = (struct who_budget){ .since = now };
	if (b->us >= WHO_SECOND_US)
		return;
	begun = now_us();
	who_find(m, half, w);
	b->us += now_us() - begun;
}

json_t *who_json(const struct who *w)
{
	return w->pid ? json_pack("{s:I, s:s, s:s}", "pid", (json_int_t)w->pid, "exe", w->exe,
				  "argv0", w->argv0)
		      : json_null();
}
