/* SPDX-License-Identifier: ISC */
/* broker/cli/test_host.c - the host's side of weir test: what must stay out of reach, and sandboxes.
 * Makes a directory, a listener on loopback and an abstract socket, all of which go when the test ends,
 * by ^C too. The sandboxes' audit log lies in that directory, not in the user's own. */
#include "broker/cli/test_host.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/cli/cli.h"
#include "broker/cli/probe.h"
#include "broker/cli/test_inside.h"
#include "common/addr.h"
#include "common/err.h"
#include "common/fd.h"
#include "common/feature.h"
#include "common/scope.h"

#define SILENT_MS 120000 /* longest wait for a line of a sandbox */

static volatile sig_atomic_t interrupted;

/* ---- the report ---- */

void bench_report(struct bench *b, const char *state, const char *line)
{
	bool ok = strncmp(line, "ok ", 3) == 0;
	const char *what = strchr(line, ' '), *colon;
	char name[128];

	what = what ? what + 1 : line;
	*(ok ? &b->passed : &b->failed) += 1;
	if (!b->probes) {
		(void)printf("%-4s  %-9s  %s\n", ok ? "ok" : "FAIL", state, what);
		(void)fflush(stdout);
		return;
	}
	colon = ok ? NULL : strstr(what, ": ");
	(void)snprintf(name, sizeof(name), "%.*s", colon ? (int)(colon - what) : 127, what);
	if (json_array_append_new(b->probes,
				  json_pack("{s:s,s:s,s:b,s:s?}", "state", state, "name", name,
					    "ok", ok, "detail", colon ? colon + 2 : NULL)) < 0)
		b->out_of_memory = true;
}

void bench_says(struct bench *b, const char *state, bool ok, const char *name, const char *fmt, ...)
{
	char line[512], detail[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(detail, sizeof(detail), fmt, ap);
	va_end(ap);
	(void)snprintf(line, sizeof(line), "%s %s%s%s", ok ? "ok" : "fail", name, ok ? "" : ": ",
		       ok ? "" : detail);
	bench_report(b, state, line);
}

/* ---- what is attacked ---- */

static void serve_one(int fd)
{
	static uint8_t body[65536];
	char head[512];
	ssize_t n = read(fd, head, sizeof(head));
	int len;

	if (n <= 0)
		return;
	len = snprintf(head, sizeof(head),
		       "HTTP/1.1 200 OK\r\nContent-Length: %u\r\nConnection: close\r\n\r\n",
		       TEST_BODY_BYTES);
	if (fd_write_all(fd, head, (size_t)len) < 0)
		return;
	for (uint32_t at = 0; at < TEST_BODY_BYTES; at += sizeof(body)) {
		for (uint32_t i = 0; i < sizeof(body); i++)
			body[i] = test_pattern(at + i);
		if (fd_write_all(fd, body, sizeof(body)) < 0)
			return;
	}
}

__attribute__((noreturn)) static void serve(int listener)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGPIPE, SIG_IGN);
	for (;;) {
		SCOPED_FD int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0)
			serve_one(fd);
		else if (errno != EINTR && errno != ECONNABORTED)
			_exit(1);
	}
}

static int start_origin(struct bench *b, struct err *e)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	SCOPED_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(in);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0 || listen(fd, 16) < 0 ||
	    getsockname(fd, (struct sockaddr *)&in, &len) < 0)
		return err_set(e, errno, "listen on 127.0.0.1");
	b->port = ntohs(in.sin_port);
	b->origin = fork();
	if (b->origin < 0)
		return err_set(e, errno, "fork");
	if (b->origin == 0)
		serve(fd);
	return 0;
}

/* Return: listener, or -errno */
static int abstract_listener(const char *name)
{
	SCOPED_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	if (fd < 0)
		return -errno;
	(void)memcpy(un.sun_path + 1, name, strlen(name));
	if (bind(fd, (struct sockaddr *)&un,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) < 0 ||
	    listen(fd, 4) < 0)
		return -errno;
	return take_fd(&fd);
}

static int file_make(const char *path, struct err *e)
{
	SCOPED_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? err_set(e, errno, "make '%s'", path) : 0;
}

/* Below the bench's directory, parents first. A name that ends in '/' is a directory. */
static const char *const places[] = {
	"project/",
	"project/.git/",
	"project/.git/hooks/",
	"project/.git/config",
	"outside/",
	"outside/secret",
	"state/",
	"home/",
	"home/.cache/",
	"home/.ssh/",
	"home/.ssh/id_ed25519",
	"home/.cargo/",
	"home/.cargo/config.toml",
	"home/.cargo/credentials",
};

static int places_make(struct bench *b, struct err *e)
{
	char path[128];
	int r = 0;

	(void)snprintf(b->dir, sizeof(b->dir), "/tmp/weir-test-XXXXXX");
	if (!mkdtemp(b->dir)) {
		r = err_set(e, errno, "make a directory in /tmp");
		b->dir[0] = '\0';
		return r;
	}
	(void)snprintf(b->project, sizeof(b->project), "%s/project", b->dir);
	(void)snprintf(b->state, sizeof(b->state), "%s/state", b->dir);
	(void)snprintf(b->home, sizeof(b->home), "%s/home", b->dir);
	(void)snprintf(b->abstract, sizeof(b->abstract), "weir-test-%d", getpid());
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(places); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", b->dir, places[i]);
		if (path[strlen(path) - 1] != '/')
			r = file_make(path, e);
		else if (mkdir(path, 0700) < 0)
			r = err_set(e, errno, "make '%s'", path);
	}
	return r;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	(void)remove(path);
	return 0;
}

int bench_credentials(const struct bench *b, bool there, struct err *e)
{
	char made[128], moved[128], plain[128];
	int r;

	(void)snprintf(made, sizeof(made), "%s/home/.cargo/credentials.toml", b->dir);
	(void)snprintf(plain, sizeof(plain), "%s/home/.cargo/new", b->dir);
	(void)snprintf(moved, sizeof(moved), "%s/home/.cargo/credentials", b->dir);
	if (!there)
		return unlink(made) < 0 ? err_set(e, errno, "remove '%s'", made) : 0;
	if ((r = file_make(made, e)) < 0 || (r = file_make(plain, e)) < 0)
		return r;
	return rename(plain, moved) < 0 ? err_set(e, errno, "rename '%s'", plain) : 0;
}

static void on_signal(int sig)
{
	interrupted = sig;
}

int bench_interrupted(void)
{
	return interrupted;
}

int bench_make(struct bench *b, struct err *e)
{
	static const int signals[] = { SIGHUP, SIGINT, SIGTERM };
	struct sigaction act = { .sa_handler = on_signal };
	int r = places_make(b, e);

	sockets_none(&b->sockets);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		(void)sigaction(signals[i], &act, NULL);
	if (r < 0 || (r = start_origin(b, e)) < 0)
		return r;
	b->bases = (struct socket_bases){ .bench = b->dir,
					  .home = b->home,
					  .runtime = getenv("XDG_RUNTIME_DIR") };
	b->overlay = !feature_off("overlay") && probe_overlay() == 0;
	b->abstract_fd = abstract_listener(b->abstract);
	return b->abstract_fd < 0 ? err_set(e, -b->abstract_fd, "make a unix socket to attack") : 0;
}

void bench_remove(struct bench *b)
{
	if (b->origin > 0) {
		(void)kill(b->origin, SIGKILL);
		(void)run_wait(b->origin);
	}
	scope_close(&b->abstract_fd);
	if (!b->dir[0])
		return;
	sockets_remove(&b->sockets, &b->bases);
	(void)nftw(b->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- sandboxes ---- */

__attribute__((noreturn)) static void child(const struct bench *b, const char *const *words,
					    int (*before)(void), const int ends[4])
{
	const int stray = ends[2] >= 0 ? ends[2] : socket(AF_UNIX, SOCK_STREAM, 0);
	char *argv[RUN_WORDS_MAX] = { NULL };

	(void)signal(SIGPIPE, SIG_DFL);
	for (size_t i = 0; i < ARRAY_LEN(argv) - 1 && words[i]; i++)
		argv[i] = strdup(words[i]);
	if (dup2(ends[0], STDOUT_FILENO) < 0 ||
	    dup2(ends[3] >= 0 ? ends[3] : open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO) <
		    0 ||
	    (ends[1] >= 0 && dup2(ends[1], STDERR_FILENO) < 0) || dup2(stray, RUN_STRAY_FD) < 0 ||
	    setenv("AWS_SECRET_ACCESS_KEY", TEST_SECRET, 1) < 0 ||
	    setenv("EDITOR", "ed --token=" TEST_SECRET, 1) < 0 ||
	    setenv("XDG_STATE_HOME", b->state, 1) < 0 || setenv("HOME", b->home, 1) < 0 ||
	    /* leaves no cache of a project that goes */
	    setenv("XDG_CACHE_HOME", "/dev/null", 1) < 0 || chdir(b->project) < 0 ||
	    (before && before() < 0))
		_exit(EXIT_WEIR);
	(void)execv("/proc/self/exe", argv);
	_exit(EXIT_WEIR);
}

int run_start(const struct bench *b, const char *const *words, unsigned want, int (*before)(void),
	      struct started *s)
{
	const bool wanted[4] = { true, want & RUN_ERR, want & RUN_STATUS, want & RUN_IN };
	int *const mine[4] = { &s->out, &s->err, &s->status, &s->in };
	int ends[4] = { -1, -1, -1, -1 }, r = interrupted ? -EINTR : 0;

	*s = (struct started){ .pid = -1, .out = -1, .err = -1, .status = -1, .in = -1 };
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(ends); i++) {
		int p[2];

		if (!wanted[i])
			continue;
		if (pipe2(p, O_CLOEXEC) < 0)
			r = -errno;
		else
			(void)(*mine[i] = p[i == 3], ends[i] = p[i != 3]);
	}
	s->pid = r == 0 ? fork() : -1;
	if (s->pid == 0)
		child(b, words, before, ends);
	if (r == 0 && s->pid < 0)
		r = -errno;
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		scope_close(&ends[i]);
	if (r < 0)
		run_close(s);
	return r;
}

void run_close(struct started *s)
{
	scope_close(&s->out);
	scope_close(&s->err);
	scope_close(&s->status);
	scope_close(&s->in);
}

int run_line(int fd, char *buf, size_t room)
{
	size_t n = 0;

	while (n < room - 1) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char c;
		ssize_t r;

		if (poll(&p, 1, SILENT_MS) <= 0)
			return -1;
		r = read(fd, &c, 1);
		if (r < 0 || (r == 0 && n == 0))
			return -1;
		if (r == 0 || c == '\n')
			break;
		buf[n++] = c;
	}
	buf[n] = '\0';
	return (int)n;
}

int run_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_WEIR;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
