/* SPDX-License-Identifier: ISC */
/* tests/bench/load.c - the origin and the clients of `make bench`; compiled by bench.py.
 *   load serve            an origin on 127.0.0.1; prints its port
 *   load client           reads commands, a line each, and answers each with a line:
 *     stream up|down BYTES PORT PROXY     seconds
 *     rate CONCURRENCY COUNT PORT PROXY   requests/s and the median latency in microseconds
 *     keep COUNT PORT PROXY               requests/s over one kept-alive plain HTTP connection
 *     burst COUNT PORT PROXY              succeeded, p50 and p99 in milliseconds
 *     hold COUNT PORT PROXY               tunnels opened and left idle: how many
 *     drop                                close them
 *     ping COUNT PORT PROXY               median round trip of one byte, microseconds
 *     connect COUNT PORT PROXY            median time of connect(), microseconds
 *     lookup COUNT NAME                   median time of one DNS query to 127.0.0.1, microseconds
 *   load spawn ROUNDS CMD… ,, CMD… ,, …   interleaved fork+exec+wait: median us of each
 *                         a CMD behind the word @pty runs on a terminal of its own, read to its end
 * PROXY is a port on 127.0.0.1 that takes CONNECT, or 0 for a direct connection.
 * Trusted code on a quiet machine: it asserts, it does not defend. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (256 * 1024)
static char chunk[CHUNK];
extern char **environ;

static double now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double rank(double *v, size_t n, double q)
{
	if (n == 0)
		return 0;
	qsort(v, n, sizeof(*v), by_value);
	return v[(size_t)((double)(n - 1) * q)];
}

static in_addr_t direct; /* where a client goes without a proxy: what BENCH_NAME resolves to */

static struct sockaddr_in local(int port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return sa;
}

static void write_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t k = write(fd, p, n);

		if (k <= 0)
			return;
		p += k;
		n -= (size_t)k;
	}
}

/* ---- origin ---- */

/* @extra: bytes of the stream that came with the line */
static void stream_child(int c, const char *line, size_t extra)
{
	unsigned long long n = strtoull(line + 2, NULL, 10);

	(void)fcntl(c, F_SETFL, 0);
	if (line[0] == 'P') {
		write_all(c, chunk, extra); /* some byte: one came with the line */
		while (read(c, chunk, 1) == 1)
			write_all(c, chunk, 1);
	} else if (line[0] == 'D') {
		while (n) {
			size_t k = n < CHUNK ? (size_t)n : CHUNK;

			write_all(c, chunk, k);
			n -= k;
		}
	} else {
		n -= extra;
		while (n) {
			ssize_t k = read(c, chunk, n < CHUNK ? (size_t)n : CHUNK);

			if (k <= 0)
				_exit(1);
			n -= (size_t)k;
		}
		write_all(c, "k", 1);
	}
	_exit(0);
}

static void serve_ready(int ep, int c)
{
	static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
	char b[4096];
	ssize_t n = read(c, b, sizeof(b) - 1);

	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			(void)close(c);
		return;
	}
	b[n] = '\0';
	if (b[0] == 'D' || b[0] == 'U' || (b[0] == 'P' && b[1] == '\n')) {
		if (fork() == 0)
			stream_child(c, b, (size_t)(b + n - strchrnul(b, '\n') - 1));
		(void)epoll_ctl(ep, EPOLL_CTL_DEL, c, NULL);
		(void)close(c);
		return;
	}
	for (char *p = b; (p = strstr(p, "\r\n\r\n")); p += 4)
		write_all(c, ok, sizeof(ok) - 1);
}

static void files_all(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &rl);
	}
}

static int serve(void)
{
	struct sockaddr_in sa = local(0);
	socklen_t len = sizeof(sa);
	int l = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), ep = epoll_create1(0);
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = l }, got[256];

	(void)signal(SIGCHLD, SIG_IGN);
	(void)signal(SIGPIPE, SIG_IGN);
	files_all();
	assert(bind(l, (struct sockaddr *)&sa, len) == 0 && listen(l, 4096) == 0);
	assert(getsockname(l, (struct sockaddr *)&sa, &len) == 0);
	(void)printf("%d\n", ntohs(sa.sin_port));
	(void)fflush(stdout);
	(void)epoll_ctl(ep, EPOLL_CTL_ADD, l, &ev);
	for (;;) {
		int n = epoll_wait(ep, got, 256, -1);

		for (int i = 0; i < n; i++) {
			if (got[i].data.fd != l) {
				serve_ready(ep, got[i].data.fd);
				continue;
			}
			for (int c; (c = accept4(l, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
				struct epoll_event e = { .events = EPOLLIN, .data.fd = c };

				(void)epoll_ctl(ep, EPOLL_CTL_ADD, c, &e);
			}
		}
	}
}

/* ---- clients ---- */

static int open_to(int port, bool nonblock)
{
	struct sockaddr_in sa = local(port);
	const struct timeval patience = { .tv_sec = 20 };
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (nonblock ? SOCK_NONBLOCK : 0), 0),
	    on = 1;

	if (s < 0)
		return -1;
	if (direct && port != 3128)
		sa.sin_addr.s_addr = direct;
	(void)setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(s, (struct sockaddr *)&sa, sizeof(sa)) < 0 && errno != EINPROGRESS) {
		(void)close(s);
		return -1;
	}
	return s;
}

static int connect_head(char *b, size_t room, const char *host, int port)
{
	return snprintf(b, room, "CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n", host, port, host,
			port);
}

static int through(const char *host, int port, int proxy)
{
	char b[512];
	int s = open_to(proxy ? proxy : port, false);
	size_t n = 0;

	if (s < 0 || !proxy)
		return s;
	write_all(s, b, (size_t)connect_head(b, sizeof(b), host, port));
	while (n < 4 || memcmp(b + n - 4, "\r\n\r\n", 4) != 0) { /* a byte at a time: no payload */
		if (n == sizeof(b) || read(s, b + n, 1) != 1)
			return -1;
		n++;
	}
	return strncmp(b + 8, " 200", 4) == 0 ? s : -1;
}

static void do_stream(const char *host, const char *way, unsigned long long bytes, int port,
		      int proxy)
{
	char line[64];
	int s = through(host, port, proxy);
	double t = now();
	unsigned long long left = bytes;

	if (s < 0) {
		(void)printf("failed\n");
		return;
	}
	(void)snprintf(line, sizeof(line), "%c %llu\n", way[0] == 'd' ? 'D' : 'U', bytes);
	write_all(s, line, strlen(line));
	if (way[0] == 'd') {
		while (left) {
			ssize_t k = read(s, chunk, CHUNK);

			if (k <= 0)
				break;
			left -= (unsigned long long)k;
		}
	} else {
		t = now();
		while (left) {
			size_t k = left < CHUNK ? (size_t)left : CHUNK;

			write_all(s, chunk, k);
			left -= k;
		}
		left = read(s, line, 1) != 1;
	}
	if (left)
		(void)printf("failed\n");
	else
		(void)printf("%.6f\n", now() - t);
	(void)close(s);
}

static void do_ping(const char *host, int count, int port, int proxy)
{
	double *us = calloc((size_t)count, sizeof(*us));
	int s = through(host, port, proxy), n = 0;
	char b = 'x';

	if (s >= 0)
		write_all(s, "P\n", 2);
	while (s >= 0 && n < count) {
		double t = now();

		write_all(s, &b, 1);
		if (read(s, &b, 1) != 1)
			break;
		us[n++] = (now() - t) * 1e6;
	}
	if (n < count)
		(void)printf("failed\n");
	else
		(void)printf("%.2f\n", rank(us, (size_t)n, 0.5));
	(void)close(s);
	free(us);
}

static void do_connect(int count, int port, int proxy)
{
	double *us = calloc((size_t)count, sizeof(*us));
	int n = 0;

	for (; n < count; n++) {
		double t = now();
		int s = open_to(proxy ? proxy : port, false);

		if (s < 0)
			break;
		us[n] = (now() - t) * 1e6;
		(void)close(s);
	}
	if (n < count)
		(void)printf("failed\n");
	else
		(void)printf("%.2f\n", rank(us, (size_t)n, 0.5));
	free(us);
}

/* One question for an IPv4 address, and whatever comes back. */
static void do_lookup(int count, const char *name)
{
	double *us = calloc((size_t)count, sizeof(*us));
	const struct sockaddr_in sa = local(53);
	unsigned char q[300] = { 0, 7, 1, 0, 0, 1 }, answer[600];
	size_t len = 12;
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), n = 0;

	for (const char *p = name; *p;) {
		size_t k = strcspn(p, ".");

		q[len++] = (unsigned char)k;
		memcpy(q + len, p, k);
		len += k;
		p += k + (p[k] == '.');
	}
	memcpy(q + len, "\0\0\1\0\1", 5);
	len += 5;
	assert(connect(s, (const struct sockaddr *)&sa, sizeof(sa)) == 0);
	for (; n < count; n++) {
		double t = now();

		if (send(s, q, len, 0) < 0 || recv(s, answer, sizeof(answer), 0) < 12)
			break;
		us[n] = (now() - t) * 1e6;
	}
	if (n < count)
		(void)printf("failed\n");
	else
		(void)printf("%.2f\n", rank(us, (size_t)n, 0.5));
	(void)close(s);
	free(us);
}

enum step { CONNECTING, ASKED, SENT };
struct slot {
	int fd, step;
	double since;
	size_t n;
	char b[512];
};

static const char get[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

static void slot_start(struct slot *s, int ep, int port, int proxy)
{
	struct epoll_event ev = { .events = EPOLLOUT, .data.ptr = s };

	s->since = now();
	s->fd = open_to(proxy ? proxy : port, true);
	s->step = CONNECTING;
	s->n = 0;
	if (s->fd >= 0)
		(void)epoll_ctl(ep, EPOLL_CTL_ADD, s->fd, &ev);
}

/* Return: 1 done, 0 goes on, -1 failed */
static int slot_step(struct slot *s, int ep, const char *host, int port, int proxy,
		     bool only_connect)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = s };
	ssize_t k;

	if (s->step == CONNECTING) {
		if (proxy) {
			int n = connect_head(s->b, sizeof(s->b), host, port);

			if (write(s->fd, s->b, (size_t)n) != n)
				return -1;
			s->step = ASKED;
		} else {
			if (write(s->fd, get, sizeof(get) - 1) < 0)
				return -1;
			s->step = SENT;
		}
		(void)epoll_ctl(ep, EPOLL_CTL_MOD, s->fd, &ev);
		return 0;
	}
	k = read(s->fd, s->b + s->n, sizeof(s->b) - 1 - s->n);
	if (k < 0 && errno == EAGAIN)
		return 0;
	if (k <= 0)
		return -1;
	s->n += (size_t)k;
	s->b[s->n] = '\0';
	if (s->step == ASKED) {
		if (!strstr(s->b, "\r\n\r\n"))
			return 0;
		if (strncmp(s->b + 8, " 200", 4) != 0)
			return -1;
		if (only_connect)
			return 1;
		s->n = 0;
		s->step = SENT;
		return write(s->fd, get, sizeof(get) - 1) < 0 ? -1 : 0;
	}
	return strstr(s->b, "\r\n\r\nok") ? 1 : 0;
}

static void do_rate(const char *host, int conc, int count, int port, int proxy)
{
	struct slot *slots = calloc((size_t)conc, sizeof(*slots));
	double *lat = calloc((size_t)count, sizeof(*lat)), t = now();
	int ep = epoll_create1(EPOLL_CLOEXEC), started = 0, done = 0, failed = 0;
	struct epoll_event got[256];

	for (int i = 0; i < conc && started < count; i++, started++)
		slot_start(&slots[i], ep, port, proxy);
	while (done < count) {
		int n = epoll_wait(ep, got, 256, 10000);

		if (n <= 0)
			break;
		for (int i = 0; i < n; i++) {
			struct slot *s = got[i].data.ptr;
			int r = slot_step(s, ep, host, port, proxy, false);

			if (r == 0)
				continue;
			failed += r < 0;
			lat[done++] = now() - s->since;
			(void)close(s->fd);
			if (started < count) {
				started++;
				slot_start(s, ep, port, proxy);
			}
		}
	}
	t = now() - t;
	(void)printf("%.1f %.1f %d\n", done / t, rank(lat, (size_t)done, 0.5) * 1e6,
		     failed + count - done);
	(void)close(ep);
	free(slots);
	free(lat);
}

static void do_keep(const char *host, int count, int port, int proxy)
{
	char req[256], b[1024];
	int s = open_to(proxy ? proxy : port, false), n, bad = 0;
	double t = now();

	n = proxy ? snprintf(req, sizeof(req), "GET http://%s:%d/ HTTP/1.1\r\nHost: %s:%d\r\n\r\n",
			     host, port, host, port)
		  : snprintf(req, sizeof(req), "%s", get);
	for (int i = 0; i < count && !bad; i++) {
		size_t have = 0;

		write_all(s, req, (size_t)n);
		do {
			ssize_t k = read(s, b + have, sizeof(b) - 1 - have);

			if (k <= 0) {
				bad = 1;
				break;
			}
			have += (size_t)k;
			b[have] = '\0';
		} while (!strstr(b, "\r\n\r\nok"));
	}
	if (bad)
		(void)printf("failed\n");
	else
		(void)printf("%.1f\n", count / (now() - t));
	(void)close(s);
}

static void do_burst(const char *host, int count, int port, int proxy)
{
	struct slot *slots = calloc((size_t)count, sizeof(*slots));
	double *lat = calloc((size_t)count, sizeof(*lat));
	int ep = epoll_create1(EPOLL_CLOEXEC), over = 0, good = 0;
	struct epoll_event got[256];

	for (int i = 0; i < count; i++)
		slot_start(&slots[i], ep, port, proxy);
	while (over < count) {
		int n = epoll_wait(ep, got, 256, 10000);

		if (n <= 0)
			break;
		for (int i = 0; i < n; i++) {
			struct slot *s = got[i].data.ptr;
			int r = slot_step(s, ep, host, port, proxy, true);

			if (r == 0)
				continue;
			over++;
			if (r > 0)
				lat[good++] = now() - s->since;
			(void)epoll_ctl(ep, EPOLL_CTL_DEL, s->fd, NULL);
		}
	}
	(void)printf("%d %.1f %.1f\n", good, rank(lat, (size_t)good, 0.5) * 1e3,
		     rank(lat, (size_t)good, 0.99) * 1e3);
	for (int i = 0; i < count; i++)
		if (slots[i].fd >= 0)
			(void)close(slots[i].fd);
	(void)close(ep);
	free(slots);
	free(lat);
}

#define HELD_MAX 16384
static int held[HELD_MAX], nheld;

static void do_hold(const char *host, int count, int port, int proxy)
{
	while (count-- > 0 && nheld < HELD_MAX) {
		int s = through(host, port, proxy);

		if (s < 0)
			break;
		held[nheld++] = s;
	}
	(void)printf("%d\n", nheld);
}

static void do_drop(void)
{
	while (nheld > 0)
		(void)close(held[--nheld]);
	(void)printf("dropped\n");
}

/* The number after the next space; 0 where there is none */
static unsigned long long number(char **at)
{
	char *sp = strchr(*at, ' ');

	if (!sp)
		return 0;
	*at = sp + 1;
	return strtoull(*at, NULL, 10);
}

static void answer(const char *host, char *line)
{
	char *at = line;
	const char *way = "";
	unsigned long long n;
	int a, b, c;

	if (strncmp(line, "stream ", 7) == 0) {
		way = line + 7;
		at = line + 7;
		n = number(&at);
		a = (int)number(&at);
		do_stream(host, way, n, a, (int)number(&at));
	} else if (strncmp(line, "rate ", 5) == 0) {
		a = (int)number(&at);
		b = (int)number(&at);
		c = (int)number(&at);
		do_rate(host, a, b, c, (int)number(&at));
	} else if (strncmp(line, "keep ", 5) == 0) {
		a = (int)number(&at);
		b = (int)number(&at);
		do_keep(host, a, b, (int)number(&at));
	} else if (strncmp(line, "burst ", 6) == 0) {
		a = (int)number(&at);
		b = (int)number(&at);
		do_burst(host, a, b, (int)number(&at));
	} else if (strncmp(line, "hold ", 5) == 0) {
		a = (int)number(&at);
		b = (int)number(&at);
		do_hold(host, a, b, (int)number(&at));
	} else if (strncmp(line, "ping ", 5) == 0) {
		a = (int)number(&at);
		b = (int)number(&at);
		do_ping(host, a, b, (int)number(&at));
	} else if (strncmp(line, "connect ", 8) == 0) {
		a = (int)number(&at);
		b = (int)number(&at);
		do_connect(a, b, (int)number(&at));
	} else if (strncmp(line, "lookup ", 7) == 0) {
		a = (int)number(&at);
		at[strcspn(at, "\n")] = '\0';
		do_lookup(a, at + 1);
	} else if (strncmp(line, "drop", 4) == 0) {
		do_drop();
	} else {
		(void)printf("what is that?\n");
	}
}

static int client(const char *host)
{
	const struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
	const char *name = getenv("BENCH_NAME");
	struct addrinfo *found;
	char line[256];

	if (name) {
		assert(getaddrinfo(name, NULL, &hints, &found) == 0);
		direct = ((struct sockaddr_in *)(void *)found->ai_addr)->sin_addr.s_addr;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	files_all();
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin))
		answer(host, line);
	return 0;
}

/* ---- launches ---- */

#define CMDS_MAX 12

/* Its output is read as it comes and thrown away, as a terminal emulator would at its fastest. */
static double spawn_pty(char **argv)
{
	double t = now();
	int st, master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	char name[64];
	ssize_t n;
	pid_t pid;

	assert(argv[0] && master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
	assert(ptsname_r(master, name, sizeof(name)) == 0);
	pid = fork();
	if (pid == 0) {
		int tty = setsid() < 0 ? -1 : open(name, O_RDWR);

		if (tty >= 0 && dup2(tty, 0) >= 0 && dup2(tty, 1) >= 0 && dup2(tty, 2) >= 0)
			(void)execv(argv[0], argv);
		_exit(99);
	}
	do
		n = read(master, chunk, sizeof(chunk));
	while (n > 0 || (n < 0 && errno == EINTR));
	if (waitpid(pid, &st, 0) < 0 || st != 0) {
		(void)fprintf(stderr, "%s: status %x\n", argv[0], (unsigned)st);
		exit(1);
	}
	(void)close(master);
	return now() - t;
}

static double spawn_once(char **argv)
{
	double t = now();
	int st;
	pid_t pid;

	assert(argv[0]);
	if (strcmp(argv[0], "@pty") == 0)
		return spawn_pty(argv + 1);
	pid = fork();

	if (pid == 0) {
		int out = open("/dev/null", O_WRONLY);

		if (out >= 0 && argv[0] && dup2(out, STDOUT_FILENO) >= 0)
			(void)execv(argv[0], argv);
		_exit(99);
	}
	if (waitpid(pid, &st, 0) < 0 || st != 0) {
		(void)fprintf(stderr, "%s: status %x\n", argv[0], (unsigned)st);
		exit(1);
	}
	return now() - t;
}

static int spawn(int argc, char **argv)
{
	int rounds = (int)strtol(argv[0], NULL, 10), n = 1;
	char **cmd[CMDS_MAX] = { argv + 1 };
	double *t[CMDS_MAX];

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], ",,") == 0) {
			argv[i] = NULL;
			assert(n < CMDS_MAX);
			cmd[n++] = argv + i + 1;
		}
	}
	for (int i = 0; i < n; i++) {
		t[i] = calloc((size_t)rounds, sizeof(double));
		(void)spawn_once(cmd[i]);
	}
	for (int r = 0; r < rounds; r++)
		for (int i = 0; i < n; i++)
			t[i][r] = spawn_once(cmd[i]);
	for (int i = 0; i < n; i++)
		(void)printf("%.1f%c", rank(t[i], (size_t)rounds, 0.5) * 1e6,
			     i + 1 < n ? ' ' : '\n');
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "serve") == 0)
		return serve();
	if (argc > 2 && strcmp(argv[1], "client") == 0)
		return client(argv[2]);
	if (argc > 3 && strcmp(argv[1], "spawn") == 0)
		return spawn(argc - 2, argv + 2);
	(void)fprintf(stderr, "usage: load serve | client HOST | spawn ROUNDS CMD…\n");
	return 2;
}
