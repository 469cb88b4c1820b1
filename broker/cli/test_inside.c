/* SPDX-License-Identifier: ISC */
/* broker/cli/test_inside.c - probes of weir test, run as CMD inside a sandbox: each is a real
 * attempt at what SPEC section 9 promises to be impossible, or possible.
 * Believes nothing about the sandbox; only its own argv, which weir test wrote. */
#include "test_inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include "common/addr.h"
#include "common/err.h"
#include "common/fd.h"
#include "common/num.h"
#include "common/scope.h"

#ifndef AF_VSOCK
#define AF_VSOCK 40
#endif
#define PROXY_PORT 3128
#define WAIT_MS 10000 /* longest silence of a peer before a probe fails */
#define DETAIL_MAX 200

struct inside {
	uint16_t port;
	const char *unix_path, *abstract, *outside;
	char detail[DETAIL_MAX];
};

static int bad(struct inside *in, const char *fmt, ...) PRINTF(2, 3);
static int bad(struct inside *in, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(in->detail, sizeof(in->detail), fmt, ap);
	va_end(ap);
	return -1;
}

/* Connect within WAIT_MS. Return: descriptor or -errno */
static int dial(const char *text, uint16_t port)
{
	SCOPED_FD int fd = -1;
	struct sockaddr_storage ss;
	struct addr a;
	socklen_t len, optlen = sizeof(int);
	struct pollfd p;
	int num = 0;

	if (addr_parse(&a, text) < 0)
		return -EINVAL;
	len = addr_to_sockaddr(&a, port, &ss);
	fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&ss, len) < 0 && errno != EINPROGRESS)
		return -errno;
	p = (struct pollfd){ .fd = fd, .events = POLLOUT };
	if (poll(&p, 1, WAIT_MS) <= 0)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &num, &optlen) < 0 || num != 0)
		return num ? -num : -errno;
	if (fd_set_nonblock(fd, false) < 0)
		return -EIO;
	return take_fd(&fd);
}

static ssize_t read_some(int fd, void *buf, size_t len)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (poll(&p, 1, WAIT_MS) <= 0)
		return -ETIMEDOUT;
	return read(fd, buf, len);
}

/* Read up to the end of a response head. Return: bytes of it, the rest follows in @buf up to @got */
static ssize_t read_head(int fd, char *buf, size_t room, size_t *got)
{
	*got = 0;
	while (*got < room - 1) {
		ssize_t n = read_some(fd, buf + *got, room - 1 - *got);
		char *end;

		if (n <= 0)
			return -1;
		*got += (size_t)n;
		buf[*got] = '\0';
		end = strstr(buf, "\r\n\r\n");
		if (end)
			return end + 4 - buf;
	}
	return -1;
}

static int check_body(struct inside *in, int fd, const char *first, size_t len)
{
	static char buf[65536];
	uint32_t at = 0;

	for (;;) {
		ssize_t n;

		for (size_t i = 0; i < len; i++, at++)
			if ((uint8_t)first[i] != test_pattern(at))
				return bad(in, "byte %u differs", at);
		n = read_some(fd, buf, sizeof(buf));
		if (n < 0)
			return bad(in, "the body stopped at byte %u", at);
		if (n == 0)
			break;
		first = buf;
		len = (size_t)n;
	}
	return at == TEST_BODY_BYTES ? 0 : bad(in, "%u bytes of %u arrived", at, TEST_BODY_BYTES);
}

/* One request to the proxy and the status it answers with; leaves @fd behind the head. */
static int ask_proxy(struct inside *in, const char *request, char *buf, size_t room, size_t *got,
		     ssize_t *head)
{
	int fd = dial("127.0.0.1", PROXY_PORT);

	if (fd < 0)
		return bad(in, "connect to the proxy: %s", strerror(-fd));
	if (fd_write_all(fd, request, strlen(request)) < 0 ||
	    (*head = read_head(fd, buf, room, got)) < 0) {
		(void)close(fd);
		return bad(in, "no answer from the proxy");
	}
	return fd;
}

static int has_status(const char *buf, const char *status)
{
	return strncmp(buf, "HTTP/1.", 7) == 0 && strncmp(buf + 9, status, 3) == 0;
}

static int probe_allowed(struct inside *in)
{
	char request[256], buf[8192];
	SCOPED_FD int fd = -1;
	size_t got = 0;
	ssize_t head = 0;

	(void)snprintf(request, sizeof(request),
		       "GET http://127.0.0.1:%u/ HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
		       "Connection: close\r\n\r\n",
		       in->port, in->port);
	fd = ask_proxy(in, request, buf, sizeof(buf), &got, &head);
	if (fd < 0)
		return -1;
	if (!has_status(buf, "200"))
		return bad(in, "the answer was %.40s", buf);
	return check_body(in, fd, buf + head, got - (size_t)head);
}

static int probe_tunnel(struct inside *in)
{
	static const char get[] = "GET / HTTP/1.1\r\nHost: weir-test\r\nConnection: close\r\n\r\n";
	char request[256], buf[8192];
	SCOPED_FD int fd = -1;
	size_t got = 0;
	ssize_t head = 0;

	(void)snprintf(request, sizeof(request), "CONNECT 127.0.0.1:%u HTTP/1.1\r\nHost: x\r\n\r\n",
		       in->port);
	fd = ask_proxy(in, request, buf, sizeof(buf), &got, &head);
	if (fd < 0)
		return -1;
	if (!has_status(buf, "200") || (size_t)head != got)
		return bad(in, "the answer was %.40s", buf);
	if (fd_write_all(fd, get, sizeof(get) - 1) < 0 ||
	    (head = read_head(fd, buf, sizeof(buf), &got)) < 0)
		return bad(in, "no answer through the tunnel");
	return check_body(in, fd, buf + head, got - (size_t)head);
}

static int probe_denied(struct inside *in)
{
	char buf[8192];
	SCOPED_FD int fd = -1;
	size_t got = 0;
	ssize_t head = 0;

	fd = ask_proxy(in, "CONNECT denied.invalid:443 HTTP/1.1\r\nHost: x\r\n\r\n", buf,
		       sizeof(buf), &got, &head);
	if (fd < 0)
		return -1;
	return has_status(buf, "403") ? 0 : bad(in, "the answer was %.40s", buf);
}

/* Nothing may connect; a dead route answers at once. */
static int dead(struct inside *in, const char *addr, uint16_t port)
{
	int fd = dial(addr, port);

	if (fd < 0 && fd != -ETIMEDOUT)
		return 0;
	if (fd >= 0)
		(void)close(fd);
	return bad(in, "%s port %u %s", addr, port, fd >= 0 ? "answered" : "did not fail at once");
}

static int probe_no_proxy(struct inside *in)
{
	return dead(in, "127.0.0.1", PROXY_PORT);
}

static int probe_direct(struct inside *in)
{
	if (dead(in, "1.1.1.1", 443) < 0 || dead(in, "2606:4700:4700::1111", 443) < 0)
		return -1;
	return 0;
}

static int probe_dns(struct inside *in)
{
	static const char query[] = "\x12\x34\x01\0\0\1\0\0\0\0\0\0\4pypi\3org\0\0\1\0\1";
	static const char *const servers[] = { "8.8.8.8", "127.0.0.53" };

	for (size_t i = 0; i < ARRAY_LEN(servers); i++) {
		SCOPED_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		struct sockaddr_storage ss;
		struct addr a;
		char buf[512];
		socklen_t len;

		if (fd < 0 || addr_parse(&a, servers[i]) < 0)
			return bad(in, "cannot make a datagram socket");
		len = addr_to_sockaddr(&a, 53, &ss);
		/* With nobody there the kernel says so at once; silence would be a route. */
		if (connect(fd, (struct sockaddr *)&ss, len) < 0 ||
		    send(fd, query, sizeof(query) - 1, 0) < 0)
			continue;
		if (read_some(fd, buf, sizeof(buf)) > 0)
			return bad(in, "%s answered", servers[i]);
	}
	return 0;
}

static int probe_loopback(struct inside *in)
{
	if (dead(in, "127.0.0.1", in->port) < 0 || dead(in, "::1", in->port) < 0)
		return -1;
	return 0;
}

static int probe_lan(struct inside *in)
{
	if (dead(in, "10.0.0.1", 80) < 0 || dead(in, "192.168.1.1", 80) < 0)
		return -1;
	return 0;
}

static int probe_metadata(struct inside *in)
{
	return dead(in, "169.254.169.254", 80);
}

static int unix_dead(struct inside *in, const char *name, bool abstract)
{
	SCOPED_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	size_t n = strlen(name), at = abstract ? 1 : 0;

	if (fd < 0)
		return bad(in, "cannot make a unix socket: %s", strerror(errno));
	if (at + n >= sizeof(un.sun_path))
		return bad(in, "the socket's name is too long");
	(void)memcpy(un.sun_path + at, name, n);
	if (connect(fd, (struct sockaddr *)&un,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + at + n)) == 0)
		return bad(in, "connected");
	return 0;
}

static int probe_unix(struct inside *in)
{
	return unix_dead(in, in->unix_path, false);
}

static int probe_abstract(struct inside *in)
{
	return unix_dead(in, in->abstract, true);
}

static int no_socket(struct inside *in, int family, int type, const char *what)
{
	SCOPED_FD int fd = socket(family, type | SOCK_CLOEXEC, 0);

	return fd < 0 ? 0 : bad(in, "%s was made", what);
}

static int probe_vsock(struct inside *in)
{
	return no_socket(in, AF_VSOCK, SOCK_STREAM, "an AF_VSOCK socket");
}

static int probe_raw(struct inside *in)
{
	if (no_socket(in, AF_INET, SOCK_RAW, "a raw IPv4 socket") < 0)
		return -1;
	return no_socket(in, AF_PACKET, SOCK_RAW, "a packet socket");
}

static int probe_write_outside(struct inside *in)
{
	static const char *const places[] = { "/usr/weir-test", "/etc/weir-test", "/weir-test" };
	char path[4096];

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		SCOPED_FD int fd = open(places[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		if (fd >= 0)
			return bad(in, "%s was created", places[i]);
	}
	(void)snprintf(path, sizeof(path), "%s/secret", in->outside);
	if (access(path, F_OK) == 0)
		return bad(in, "a file next to the project is visible");
	return 0;
}

static int probe_credentials(struct inside *in)
{
	static const char *const names[] = { ".ssh",	".aws",	      ".netrc",	 ".config/gcloud",
					     ".docker", ".gnupg",     ".npmrc",	 ".git-credentials",
					     ".kube",	".config/gh", ".pypirc", ".config/weir" };
	const char *home = getenv("HOME");
	char path[4096];

	for (size_t i = 0; home && i < ARRAY_LEN(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", home, names[i]);
		if (access(path, F_OK) == 0)
			return bad(in, "~/%s is there", names[i]);
	}
	if (access("/etc/shadow", R_OK) == 0)
		return bad(in, "/etc/shadow can be read");
	return 0;
}

static int probe_privileges(struct inside *in)
{
	static const char *const zero[] = { "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:" };
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	int r = 0, seen = 0;

	if (!f)
		return bad(in, "/proc/self/status: %s", strerror(errno));
	while (r == 0 && fgets(line, sizeof(line), f)) {
		for (size_t i = 0; i < ARRAY_LEN(zero); i++) {
			if (strncmp(line, zero[i], strlen(zero[i])) != 0)
				continue;
			seen++;
			if (strspn(line + strlen(zero[i]), " \t0\n") !=
			    strlen(line + strlen(zero[i])))
				r = bad(in, "%.60s", line);
		}
		if (strncmp(line, "NoNewPrivs:\t", 12) == 0) {
			seen++;
			if (line[12] != '1')
				r = bad(in, "no_new_privs is not set");
		}
	}
	(void)fclose(f);
	if (r == 0 && seen != (int)ARRAY_LEN(zero) + 1)
		return bad(in, "/proc/self/status lacks a line");
	return r;
}

static int probe_namespace(struct inside *in)
{
	/* Plain clone() through the raw call is not needed: unshare() asks the same question. */
	if (syscall(SYS_unshare, 0x10000000 /* CLONE_NEWUSER */) == 0)
		return bad(in, "a user namespace was made");
	return 0;
}

static int probe_tiocsti(struct inside *in)
{
	SCOPED_FD int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return bad(in, "/dev/ptmx: %s", strerror(errno));
	if (ioctl(fd, TIOCSTI, "x") == 0)
		return bad(in, "TIOCSTI was accepted");
	return errno == EPERM ? 0 : bad(in, "TIOCSTI: %s", strerror(errno));
}

/* A terminal in here is one of the sandbox's own devpts. */
static int probe_terminal(struct inside *in)
{
	SCOPED_FD int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct stat pts, st;

	if (stat("/dev/pts", &pts) < 0)
		return bad(in, "/dev/pts: %s", strerror(errno));
	for (int i = 0; i < 3; i++)
		if (isatty(i) && (fstat(i, &st) < 0 || st.st_dev != pts.st_dev))
			return bad(in, "descriptor %d is a terminal from outside", i);
	/* one from outside belongs to a session that has no number in here */
	if (fd >= 0 && (tcgetsid(fd) < 1 || tcgetsid(fd) != getsid(0)))
		return bad(in, "there is a controlling terminal from outside");
	return 0;
}

static int probe_processes(struct inside *in)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	unsigned n = 0;

	if (!d)
		return bad(in, "/proc: %s", strerror(errno));
	while ((e = readdir(d)))
		n += e->d_name[0] >= '1' && e->d_name[0] <= '9';
	(void)closedir(d);
	/* pid 1, its keeper and this one */
	return n == 3 ? 0 : bad(in, "%u processes are visible, not 3", n);
}

static int probe_pid1(struct inside *in)
{
	SCOPED_FD int fd = open("/proc/1/environ", O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		return bad(in, "the environment of pid 1 can be opened");
	return getppid() != 1 ? 0 : bad(in, "the parent is pid 1");
}

enum { IN_DENY = 1, IN_LIST = 2, IN_ALLOW = 4, IN_CUT = IN_DENY | IN_LIST, IN_ALL = 7 };

static const struct {
	unsigned states;
	const char *name;
	int (*run)(struct inside *in);
} probes[] = {
	{ IN_LIST, "allowed host reached, plain HTTP, bytes intact", probe_allowed },
	{ IN_LIST, "allowed host reached, tunnel, bytes intact", probe_tunnel },
	{ IN_LIST, "denied host refused with 403", probe_denied },
	{ IN_DENY, "no proxy listens", probe_no_proxy },
	{ IN_CUT, "direct connection dead", probe_direct },
	{ IN_CUT, "name lookup dead", probe_dns },
	{ IN_CUT, "host loopback dead", probe_loopback },
	{ IN_CUT, "LAN address dead", probe_lan },
	{ IN_CUT, "metadata address dead", probe_metadata },
	{ IN_CUT, "abstract socket of the host dead", probe_abstract },
	{ IN_ALL, "unix socket of the host dead", probe_unix },
	{ IN_ALL, "vsock refused", probe_vsock },
	{ IN_ALL, "raw and packet sockets refused", probe_raw },
	{ IN_ALL, "write outside refused", probe_write_outside },
	{ IN_ALL, "credentials absent", probe_credentials },
	{ IN_ALL, "no capability, no new privilege", probe_privileges },
	{ IN_ALL, "no new user namespace", probe_namespace },
	{ IN_ALL, "TIOCSTI dead", probe_tiocsti },
	{ IN_ALL, "no terminal of the user", probe_terminal },
	{ IN_ALL, "no host process visible", probe_processes },
	{ IN_ALL, "pid 1 closed, and not the parent", probe_pid1 },
};

static unsigned state_bit(const char *word)
{
	if (str_eq(word, "deny"))
		return IN_DENY;
	return str_eq(word, "allowlist") ? IN_LIST : IN_ALLOW;
}

int test_inside(int argc, char **argv)
{
	struct inside in = { 0 };

	if (argc == 1 && str_eq(argv[0], "wait")) {
		(void)puts("ok waiting");
		(void)fflush(stdout);
		for (;;)
			(void)pause();
	}
	if (argc != 5 || num_port(argv[1], strlen(argv[1]), &in.port) < 0)
		return 1;
	in.unix_path = argv[2];
	in.abstract = argv[3];
	in.outside = argv[4];
	for (size_t i = 0; i < ARRAY_LEN(probes); i++) {
		if (!(probes[i].states & state_bit(argv[0])))
			continue;
		if (probes[i].run(&in) < 0)
			(void)printf("fail %s: %s\n", probes[i].name, in.detail);
		else
			(void)printf("ok %s\n", probes[i].name);
	}
	return fflush(stdout) == 0 ? 0 : 1;
}
