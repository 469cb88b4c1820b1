/* SPDX-License-Identifier: ISC */
/* broker/cli/proxy.c - weir proxy: the broker alone, for launchers that make their own sandbox.
 * Runs as the user, in the process that becomes the monitor. A unix socket is the user's by its
 * directory, its mode and its clients' uid; whoever can reach a TCP listener must prove a secret
 * that is drawn here, printed on a descriptor once, and stands on no command line. */
#include "cli.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker/cli/layers.h"
#include "broker/cli/options.h"
#include "broker/monitor/monitor.h"
#include "broker/worker/worker.h"
#include "common/addr.h"
#include "common/err.h"
#include "common/fd.h"
#include "common/num.h"
#include "common/scope.h"
#include "policy/policy.h"

#define BACKLOG 4096
#define ENDS_MS 1000	/* a killed weir's worker holds the listener for a moment */
#define SECRET_BYTES 24 /* 192 bits; 32 characters of base64url, none of them padding */

static const char usage[] =
	"usage: weir proxy --listen unix:PATH | [ADDR:]PORT [OPTIONS]\n"
	"\n"
	"An HTTP and CONNECT proxy that reaches the hosts the policy names, for containers, VMs and\n"
	"launchers that make their own sandbox. Runs until SIGTERM or SIGINT.\n";
static const char example[] = "\n"
			      "example: weir proxy --listen 127.0.0.1:0 --allow example.org\n";

/* What is listened on, and how it is undone. */
struct place_at {
	int fd;
	int dir;	/* of the unix socket, or -1 */
	char name[108]; /* in @dir */
	int self;	/* the socket under that name, or -1; as long as it is open, no other
				  * file has its number */
	char url[PATH_MAX + 64]; /* with the secret */
	char secret[2 * SECRET_BYTES];
};

/* ---- options ---- */

static int read_options(struct options *o, int argc, char **argv, struct err *e)
{
	int at = options_read(o, OF_PROXY, "proxy", argc, argv, 1, e);

	if (at < 0 || o->help)
		return at;
	if (at < argc) {
		err_set(e, 0, "'%s' is one word too many: weir proxy runs no command", argv[at]);
		return err_fix(e, "weir proxy --help");
	}
	if (!o->listen) {
		err_set(e, 0, "weir proxy does not know where to listen");
		return err_fix(e, "--listen unix:PATH, or --listen 127.0.0.1:0");
	}
	return 0;
}

/* ---- the unix socket ---- */

static int no_dir(const char *path, struct err *e)
{
	int r = err_set(e, errno, "make the directory '%s'", path);

	if (e->num == ENOENT)
		(void)err_fix(e, "only the last directory of PATH is made: make the ones above it");
	else
		(void)err_fix(e, "name a place of your own, such as unix:$HOME/.weir-proxy/socket");
	return r;
}

static int dir_open(const char *path, struct err *e)
{
	SCOPED_FD int fd = -1;
	struct stat st;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return no_dir(path, e);
	fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, errno, "open the directory '%s'", path);
	if (st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
		err_set(e, 0, "'%s' can be entered by others", path);
		err_why(e, "who reaches the socket uses the network as this user's policy says");
		return err_fix(e, "mkdir -m 700 DIR, then --listen unix:DIR/proxy");
	}
	return take_fd(&fd);
}

/* Whoever listens where @fd was connected to: is it about to end? Then what it did not take, or took,
 * is hung up. */
static bool ends_soon(int fd)
{
	struct pollfd p = { .fd = fd, .events = 0 }; /* POLLHUP and POLLERR come unasked */

	return poll(&p, 1, ENDS_MS) > 0;
}

/* A socket that nobody serves is what a killed weir left. */
static int stale_remove(const struct place_at *at, const struct sockaddr_un *sun, const char *path,
			struct err *e)
{
	SCOPED_FD int fd = -1;
	struct stat st;

	if (fstatat(at->dir, at->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_set(e, errno, "look at '%s'", path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, 0, "'%s' exists and is no socket", path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(e, errno, "make a socket");
	if (connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) == 0 ? !ends_soon(fd)
									 : errno != ECONNREFUSED)
		return err_set(e, 0, "'%s' is in use by another program", path);
	if (unlinkat(at->dir, at->name, 0) < 0 && errno != ENOENT)
		return err_set(e, errno, "remove the old '%s'", path);
	return 0;
}

static int path_absolute(const char *path, char full[PATH_MAX], struct err *e)
{
	char cwd[PATH_MAX] = "";
	int n;

	if (path[0] != '/' && !getcwd(cwd, sizeof(cwd)))
		return err_set(e, errno, "find the directory of '%s'", path);
	n = snprintf(full, PATH_MAX, "%s%s%s", cwd, path[0] == '/' ? "" : "/", path);
	return n < 0 || n >= PATH_MAX ? err_set(e, ENAMETOOLONG, "--listen 'unix:%s'", path) : 0;
}

/* The directory that was looked at is the one that is bound in: by its descriptor. */
static int listen_unix(struct place_at *at, const char *path, struct err *e)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	char full[PATH_MAX] = "", *slash;
	mode_t mask;
	int r = path_absolute(path, full, e);

	if (r < 0)
		return r;
	for (const char *c = full; *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return err_set(e, 0, "--listen 'unix:%s' holds a control character", path);
	}
	slash = strrchr(full, '/');
	if (slash == full || slash[1] == '\0' || strlen(slash + 1) >= sizeof(at->name) - 32) {
		err_set(e, 0, "--listen 'unix:%s' is not the path of a socket", path);
		return err_fix(e, "--listen unix:DIR/NAME, the name at most 75 bytes");
	}
	(void)snprintf(at->url, sizeof(at->url), "unix:%s", full);
	(void)snprintf(at->name, sizeof(at->name), "%s", slash + 1);
	*slash = '\0';
	at->dir = dir_open(full, e);
	if (at->dir < 0)
		return at->dir;
	(void)snprintf(sun.sun_path, sizeof(sun.sun_path), "/proc/self/fd/%d/%.75s", at->dir,
		       at->name);
	r = stale_remove(at, &sun, path, e);
	if (r < 0)
		return r;
	at->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mask = umask(0177);
	r = at->fd < 0 ? -1 : bind(at->fd, (const struct sockaddr *)&sun, sizeof(sun));
	(void)umask(mask);
	if (r < 0)
		return err_set(e, errno, "listen on '%s'", path);
	at->self = openat(at->dir, at->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (at->self < 0 || listen(at->fd, BACKLOG) < 0)
		return err_set(e, errno, "listen on '%s'", path);
	return 0;
}

/* Another weir may have replaced it meanwhile: its socket stays. */
static void unix_remove(const struct place_at *at)
{
	struct stat mine, there;

	if (at->self >= 0 && fstat(at->self, &mine) == 0 &&
	    fstatat(at->dir, at->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	    mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)
		(void)unlinkat(at->dir, at->name, 0);
}

/* ---- TCP ---- */

static int bad_place(const char *where, struct err *e)
{
	err_set(e, 0, "--listen '%s' is neither unix:PATH nor [ADDR:]PORT", where);
	return err_fix(e, "--listen unix:PATH, or --listen 127.0.0.1:0");
}

static int tcp_place(const char *where, struct addr *a, uint16_t *port, struct err *e)
{
	const char *colon = strrchr(where, ':'), *digits = colon ? colon + 1 : where;
	char host[ADDR_TEXT_MAX + 2] = "127.0.0.1";
	size_t n = colon ? (size_t)(colon - where) : 0;
	uint64_t v;

	if (num_u64(digits, 0, 65535, &v) < 0 || n >= sizeof(host))
		return bad_place(where, e);
	*port = (uint16_t)v;
	if (!colon)
		return addr_parse(a, host) < 0 ? bad_place(where, e) : 0;
	if (n >= 2 && where[0] == '[' && where[n - 1] == ']') {
		where++;
		n -= 2;
	} else if (memchr(where, ':', n)) {
		return bad_place(where, e);
	}
	memcpy(host, where, n);
	host[n] = '\0';
	return addr_parse(a, host) < 0 ? bad_place(where, e) : 0;
}

static int secret_draw(char *out, size_t room, struct err *e)
{
	unsigned char raw[SECRET_BYTES];

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_set(e, errno, "draw a secret");
	(void)sodium_bin2base64(out, room, raw, sizeof(raw),
				sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	sodium_memzero(raw, sizeof(raw));
	return 0;
}

/* Once more when the one who has the port is about to end. Return: 0, or -1 with errno */
static int tcp_bind(int fd, const struct sockaddr *sa, socklen_t len)
{
	static const struct timeval limit = { .tv_sec = 1 };
	SCOPED_FD int probe = -1;

	if (bind(fd, sa, len) == 0)
		return 0;
	if (errno != EADDRINUSE)
		return -1;
	probe = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (probe < 0 || setsockopt(probe, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0 ||
	    (connect(probe, sa, len) == 0 && !ends_soon(probe))) {
		errno = EADDRINUSE;
		return -1;
	}
	return bind(fd, sa, len);
}

static int listen_tcp(struct place_at *at, const struct options *o, struct err *e)
{
	static const int on = 1;
	struct sockaddr_storage ss;
	socklen_t len, got = sizeof(ss);
	char text[ADDR_TEXT_MAX];
	struct addr a = { 0 };
	uint16_t port = 0;
	int r = tcp_place(o->listen, &a, &port, e);

	if (r < 0)
		return r;
	if (addr_class_of(&a) != ADDR_LOOPBACK && !o->expose) {
		err_set(e, 0, "--listen '%s' is not loopback: other machines may reach it",
			o->listen);
		return err_fix(e, "--listen 127.0.0.1:%u, or say --expose as well", port);
	}
	len = addr_to_sockaddr(&a, port, &ss);
	at->fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (at->fd < 0 || setsockopt(at->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    tcp_bind(at->fd, (const struct sockaddr *)&ss, len) < 0 ||
	    listen(at->fd, BACKLOG) < 0 || getsockname(at->fd, (struct sockaddr *)&ss, &got) < 0)
		return err_set(e, errno, "listen on '%s'", o->listen);
	if (addr_from_sockaddr(&a, &port, (const struct sockaddr *)&ss) < 0)
		return err_set(e, 0, "listen on '%s'", o->listen);
	r = secret_draw(at->secret, sizeof(at->secret), e);
	if (r < 0)
		return r;
	(void)snprintf(at->url, sizeof(at->url),
		       a.family == 6 ? "http://weir:%s@[%s]:%u" : "http://weir:%s@%s:%u",
		       at->secret, addr_format(&a, text), port);
	if (o->expose && addr_class_of(&a) != ADDR_LOOPBACK)
		note("warning: other machines may reach '%s'; the secret crosses the network readable",
		     o->listen);
	return 0;
}

static void place_close(struct place_at *at)
{
	if (at->fd >= 0)
		(void)close(at->fd);
	unix_remove(at);
	scope_close(&at->self);
	scope_close(&at->dir);
	sodium_memzero(at->secret, sizeof(at->secret));
	sodium_memzero(at->url, sizeof(at->url));
}

/* ---- serving ---- */

/* The run that is handed back is the first member of this. */
struct serving {
	struct run run;
	const char *url;
	int url_fd;
};

static int tell_url(const struct run *run, struct err *e)
{
	const struct serving *s = (const struct serving *)(const void *)run;
	char line[sizeof(((struct place_at *)NULL)->url) + 1];
	int n = snprintf(line, sizeof(line), "%s\n", s->url), r;

	r = fd_write_all(s->url_fd, line, (size_t)n);
	sodium_memzero(line, sizeof(line));
	if (r < 0)
		return err_set(e, -r, "write the URL to descriptor %d", s->url_fd);
	if (s->url_fd > STDERR_FILENO)
		(void)close(s->url_fd); /* the reader sees the end */
	return 0;
}

static int serve(const struct options *o, struct policy *policy, const struct surroundings *around,
		 struct place_at *at, struct err *e, int *status)
{
	SCOPED_FREE char *audit = NULL;
	struct serving s = { .url = at->url, .url_fd = o->url_fd };
	struct run *run = &s.run;
	int r = option_id(run->id, e);

	if (r == 0)
		r = option_audit(policy, &around->dirs, &audit, &run->audit_path, e);
	run->audit_off = policy_audit_sink(policy) == AUDIT_OFF;
	if (r < 0)
		return r;
	run->policy = policy;
	run->name = o->name;
	run->command = "weir proxy";
	run->status_fd = -1;
	run->listen = o->listen;
	run->listen_fd = take_fd(&at->fd);
	run->secret = at->secret[0] ? at->secret : NULL;
	run->serving = tell_url;
	run->quiet = o->layers.quiet;
	run->verbose = o->verbose;
	run->nursery_start = nursery_start;
	*e = (struct err){ 0 }; /* what was tried on the way here is no failure */
	*status = monitor_main(run, e);
	scope_close(&run->listen_fd);
	return e->what[0] ? -EIO : 0;
}

static int prepare(const struct options *o, struct err *e, int *status)
{
	struct place_at at = { .fd = -1, .dir = -1, .self = -1 };
	struct policy *policy = NULL;
	struct surroundings around = { 0 };
	int r = layers_load(&o->layers, &policy, &around, e);

	if (r < 0)
		return r;
	assert(o->listen); /* read_options() saw to it */
	if (policy_network(policy) != NETWORK_ALLOWLIST) {
		err_set(e, 0,
			"weir proxy serves 'network allowlist', but the policy says otherwise");
		r = err_fix(e, "weir policy show names the line");
	}
	if (r >= 0)
		r = strncmp(o->listen, "unix:", 5) == 0 ? listen_unix(&at, o->listen + 5, e)
							: listen_tcp(&at, o, e);
	if (r >= 0)
		r = serve(o, policy, &around, &at, e, status);
	place_close(&at);
	surroundings_free(&around);
	policy_free(policy);
	return r;
}

int cmd_proxy(int argc, char **argv)
{
	struct options o;
	struct err e = { 0 };
	int r, status = EXIT_WEIR;

	options_init(&o);
	o.layers.no_sandbox = true;
	r = read_options(&o, argc, argv, &e);
	if (r >= 0 && o.help) {
		options_free(&o);
		(void)fputs(usage, stdout);
		options_help(OF_PROXY, stdout);
		(void)fputs(example, stdout);
		return fflush(stdout) == 0 ? 0 : EXIT_WEIR;
	}
	if (r >= 0 && o.url_fd > STDERR_FILENO)
		r = fd_set_cloexec(o.url_fd, true);
	if (r >= 0)
		r = prepare(&o, &e, &status);
	options_free(&o);
	return r < 0 ? cli_fail(&e) : status;
}
