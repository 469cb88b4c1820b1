/* SPDX-License-Identifier: ISC */
/* tests/unit/worker_serve_test.c - the real worker, locked, in a child; the test plays the monitor,
 * the client and the origin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/worker/serve.h"
#include "broker/worker/worker.h"
#include "common/fd.h"
#include "common/msg.h"
#include "common/reason.h"
#include "common/scope.h"

#define WAIT_MS 60000
#define BIG (8u << 20)

/* ---- the world around one worker ---- */

struct world {
	bool is_open; /* leave out the lock, so that /proc may be looked at */
	pid_t pid;
	int sock;      /* to the worker */
	uint16_t port; /* its listener */
	int origin;    /* a listener */
	uint16_t origin_port;
	struct msg_wr wr;
	struct msg_head h;
	struct msg_rd r;
	char buf[MSG_MAX]; /* the last packet: @at of @len bytes of it were heard */
	size_t at, len;
};

static int listener(uint16_t *port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 1024), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	*port = ntohs(sa.sin_port);
	return fd;
}

static void wait_for(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
}

/* The monitor's part of each connect(): here every one goes on. Ends with the worker. */
static void answer_connects(int fd)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0 && (dup2(fd, 3) < 0 || close_range(4, ~0U, 0) < 0))
		_exit(1);
	for (; pid == 0;) {
		struct seccomp_notif q = { 0 };
		struct seccomp_notif_resp go = { .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };
		struct pollfd p = { .fd = 3, .events = POLLIN };

		(void)prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
		if (poll(&p, 1, -1) < 0 || (p.revents & POLLHUP))
			_exit(0);
		if (ioctl(3, SECCOMP_IOCTL_NOTIF_RECV, &q) < 0)
			continue;
		go.id = q.id;
		(void)ioctl(3, SECCOMP_IOCTL_NOTIF_SEND, &go);
	}
	(void)close(fd);
}

/* The next message, which must be of @type. */
static void hear(struct world *w, enum msg_type type)
{
	size_t nfds, one;
	ssize_t n;
	int fd = -1;

	do {
		nfds = 0;
		if (w->at == w->len) {
			nfds = 1;
			wait_for(w->sock, POLLIN);
			n = fd_recv(w->sock, w->buf, sizeof(w->buf), &fd, &nfds);
			assert_true(n > 0);
			w->at = 0;
			w->len = (size_t)n;
		}
		one = msg_first(w->buf + w->at, w->len - w->at);
		assert_int_equal(msg_open(&w->h, &w->r, w->buf + w->at, one), 0);
		w->at += one;
	} while (w->h.type == MSG_STATS && type != MSG_STATS);
	if (w->h.type != type)
		fail_msg("message %d, not %d", w->h.type, type);
	assert_true(nfds == 0 || type == MSG_READY);
	if (nfds)
		answer_connects(fd);
}

static void tell(struct world *w)
{
	assert_int_equal(wr_send(&w->wr, w->sock, NULL, 0), 0);
}

static void config(struct world *w, uint32_t connections, const char *servers)
{
	struct msg_config c = { .connections = connections };

	strncpy(c.servers, servers, sizeof(c.servers) - 1);
	wr_open(&w->wr, MSG_CONFIG, 0);
	msg_put_config(&w->wr, &c);
	tell(w);
}

static void worker_begin(struct world *w)
{
	int sv[2];

	assert_int_equal(fd_pair(sv), 0);
	w->pid = fork();
	assert_true(w->pid >= 0);
	if (w->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
		if (dup2(sv[1], 3) < 0 || close_range(4, ~0U, 0) < 0)
			_exit(1);
		if (!w->is_open)
			worker_main(3, -1, -1);
		worker_serve(worker_setup(3, -1));
	}
	(void)close(sv[1]);
	w->sock = sv[0];
	hear(w, MSG_READY);
}

static void listen_to(struct world *w)
{
	static const struct linger hard = { .l_onoff = 1 }; /* as the shim makes them */
	const struct msg_listen m = { .proto = PROTO_CONNECT };
	int l = listener(&w->port);

	assert_int_equal(setsockopt(l, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)), 0);
	wr_open(&w->wr, MSG_LISTEN, 0);
	msg_put_listen(&w->wr, &m);
	assert_int_equal(wr_send(&w->wr, w->sock, &l, 1), 0);
	(void)close(l);
}

static int begin(void **state, bool is_open)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->is_open = is_open;
	w->origin = listener(&w->origin_port);
	worker_begin(w);
	config(w, 1024, "");
	listen_to(w);
	*state = w;
	return 0;
}

static int setup(void **state)
{
	return begin(state, false);
}

static int setup_open(void **state)
{
	return begin(state, true);
}

static int teardown(void **state)
{
	struct world *w = *state;

	(void)kill(w->pid, SIGKILL);
	(void)waitpid(w->pid, NULL, 0);
	(void)close(w->sock);
	(void)close(w->origin);
	free(w);
	return 0;
}

static int client(struct world *w)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_port = htons(w->port),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static int accepted(struct world *w)
{
	int fd;

	wait_for(w->origin, POLLIN);
	fd = accept4(w->origin, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Exactly these bytes come next. */
static void expect(int fd, const char *text)
{
	char got[4096];
	size_t n = 0, want = strlen(text);

	assert_true(want < sizeof(got));
	while (n < want) {
		ssize_t r;

		wait_for(fd, POLLIN);
		r = recv(fd, got + n, want - n, 0);
		assert_true(r > 0);
		n += (size_t)r;
	}
	got[n] = '\0';
	assert_string_equal(got, text);
}

static void expect_eof(int fd)
{
	char byte;

	wait_for(fd, POLLIN);
	assert_int_equal(recv(fd, &byte, 1, 0), 0);
}

static void expect_reset(int fd)
{
	char byte;

	wait_for(fd, POLLIN);
	assert_int_equal(recv(fd, &byte, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
}

/* Everything until the end; an answer that was cut by a reset fails. */
static void read_all(int fd, char *out, size_t room)
{
	size_t n = 0;
	ssize_t r;

	do {
		wait_for(fd, POLLIN);
		r = recv(fd, out + n, room - 1 - n, 0);
		assert_true(r >= 0);
		n += (size_t)r;
	} while (r > 0);
	out[n] = '\0';
}

static void close_hard(int fd)
{
	static const struct linger hard = { .l_onoff = 1 };

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)), 0);
	(void)close(fd);
}

/* ---- the monitor's answers ---- */

static uint32_t hear_ask(struct world *w, const char *host, uint16_t port)
{
	struct msg_ask a;

	hear(w, MSG_ASK);
	assert_int_equal(msg_get_ask(&w->r, &a), 0);
	assert_string_equal(a.host, host);
	assert_int_equal(a.port, port);
	return w->h.conn;
}

static void allow(struct world *w, uint32_t conn, const char *host, uint16_t port, uint32_t flags,
		  const char *addr)
{
	struct msg_verdict *v = calloc(1, sizeof(*v));

	assert_non_null(v);
	v->allow = 1;
	v->reason = REASON_RULE;
	v->port = port;
	v->flags = flags;
	strncpy(v->host, host, sizeof(v->host) - 1);
	strncpy(v->text, "allowed by policy:1: allow a\n", sizeof(v->text) - 1);
	strncpy(v->private_text, "only private\naddresses\nprivate\n", sizeof(v->private_text) - 1);
	if (addr) {
		v->flags |= VERDICT_FIXED;
		v->naddr = 1;
		assert_int_equal(addr_parse(&v->addr[0], addr), 0);
	}
	wr_open(&w->wr, MSG_VERDICT, conn);
	msg_put_verdict(&w->wr, v);
	tell(w);
	free(v);
}

static void refuse(struct world *w, uint32_t conn, const char *text)
{
	struct msg_verdict *v = calloc(1, sizeof(*v));

	assert_non_null(v);
	v->status = 403;
	v->reason = REASON_NO_RULE;
	strncpy(v->text, text, sizeof(v->text) - 1);
	wr_open(&w->wr, MSG_VERDICT, conn);
	msg_put_verdict(&w->wr, v);
	tell(w);
	free(v);
}

static void done(struct world *w, uint32_t conn, enum reason reason, struct msg_done *out)
{
	struct msg_done d;

	hear(w, MSG_DONE);
	assert_int_equal(w->h.conn, conn);
	assert_int_equal(msg_get_done(&w->r, &d), 0);
	if (d.reason != reason)
		fail_msg("ended by %s, not %s", reason_name(d.reason), reason_name(reason));
	if (out)
		*out = d;
}

/* A tunnel: client and origin ends in @fd. */
static uint32_t tunnel(struct world *w, int fd[2], const char *early)
{
	char head[128];
	uint32_t conn;

	fd[0] = client(w);
	(void)snprintf(head, sizeof(head), "CONNECT A:%u HTTP/1.1\r\nHost: A\r\n\r\n%s",
		       w->origin_port, early);
	say(fd[0], head);
	conn = hear_ask(w, "A", w->origin_port);
	allow(w, conn, "a", w->origin_port, 0, "127.0.0.1");
	fd[1] = accepted(w);
	hear(w, MSG_DIALED);
	expect(fd[0], "HTTP/1.1 200 Connection established\r\n\r\n");
	return conn;
}

/* ---- tunnels ---- */

struct flow {
	unsigned char *data, *got;
	size_t sent, received;
	bool is_eof;
};

static void flow_step(struct flow *f, int fd, short revents)
{
	ssize_t n;

	if ((revents & POLLOUT) && f->sent < BIG) {
		n = send(fd, f->data + f->sent, BIG - f->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		assert_true(n > 0 || errno == EAGAIN);
		f->sent += n > 0 ? (size_t)n : 0;
		if (f->sent == BIG)
			assert_int_equal(shutdown(fd, SHUT_WR), 0);
	}
	if (revents & (POLLIN | POLLHUP)) {
		n = recv(fd, f->got + f->received, BIG - f->received + 1, MSG_DONTWAIT);
		assert_true(n >= 0 || errno == EAGAIN);
		f->received += n > 0 ? (size_t)n : 0;
		f->is_eof = n == 0;
	}
}

static void tunnel_carries_8_mib_both_ways_at_once(void **state)
{
	struct world *w = *state;
	struct flow f[2] = { { 0 } };
	struct msg_done d;
	int fd[2];
	uint32_t conn = tunnel(w, fd, "");

	for (int i = 0; i < 2; i++) {
		f[i].data = malloc(BIG);
		f[i].got = malloc(BIG + 1);
		assert_non_null(f[i].data);
		assert_non_null(f[i].got);
		for (uint32_t at = 0; at < BIG; at++)
			f[i].data[at] = (unsigned char)((at * 2654435761u + (unsigned)i) >> 13);
	}
	while (!f[0].is_eof || !f[1].is_eof) {
		struct pollfd p[2];

		for (int i = 0; i < 2; i++) {
			p[i] = (struct pollfd){ .fd = f[i].is_eof && f[i].sent == BIG ? -1
										      : fd[i] };
			p[i].events = (f[i].is_eof ? 0 : POLLIN) | (f[i].sent < BIG ? POLLOUT : 0);
		}
		assert_true(poll(p, 2, WAIT_MS) > 0);
		for (int i = 0; i < 2; i++)
			flow_step(&f[i], fd[i], p[i].revents);
	}
	assert_int_equal(f[0].received, BIG);
	assert_int_equal(f[1].received, BIG);
	assert_memory_equal(f[0].got, f[1].data, BIG);
	assert_memory_equal(f[1].got, f[0].data, BIG);
	done(w, conn, REASON_CLOSED, &d);
	assert_int_equal(d.up, BIG);
	assert_int_equal(d.down, BIG);
	assert_int_equal(d.requests, 1);
	for (int i = 0; i < 2; i++) {
		free(f[i].data);
		free(f[i].got);
		(void)close(fd[i]);
	}
}

static void bytes_sent_with_the_head_arrive_first(void **state)
{
	struct world *w = *state;
	int fd[2];

	(void)tunnel(w, fd, "early ");
	say(fd[0], "late");
	expect(fd[1], "early late");
	(void)close(fd[0]);
	(void)close(fd[1]);
}

static void half_close_keeps_the_other_direction(void **state)
{
	struct world *w = *state;
	int fd[2];
	uint32_t conn = tunnel(w, fd, "");

	say(fd[0], "question");
	assert_int_equal(shutdown(fd[0], SHUT_WR), 0);
	expect(fd[1], "question");
	expect_eof(fd[1]);
	say(fd[1], "answer");
	expect(fd[0], "answer");
	(void)close(fd[1]);
	expect_eof(fd[0]);
	done(w, conn, REASON_CLOSED, NULL);
	(void)close(fd[0]);
	conn = tunnel(w, fd, ""); /* and the mirror */
	assert_int_equal(shutdown(fd[1], SHUT_WR), 0);
	expect_eof(fd[0]);
	say(fd[0], "still here");
	expect(fd[1], "still here");
	(void)close(fd[0]);
	done(w, conn, REASON_CLOSED, NULL);
	(void)close(fd[1]);
}

static void reset_stays_a_reset(void **state)
{
	struct world *w = *state;
	int fd[2];
	uint32_t conn = tunnel(w, fd, "");

	close_hard(fd[0]);
	expect_reset(fd[1]);
	done(w, conn, REASON_CLIENT_RESET, NULL);
	(void)close(fd[1]);
	conn = tunnel(w, fd, "");
	close_hard(fd[1]);
	expect_reset(fd[0]);
	done(w, conn, REASON_ORIGIN_RESET, NULL);
	(void)close(fd[0]);
}

/* Not an orderly end: what is cut off must not look complete. */
static void dead_worker_resets_both_sides(void **state)
{
	struct world *w = *state;
	int fd[2], half;

	(void)tunnel(w, fd, "");
	say(fd[0], "half of");
	expect(fd[1], "half of");
	half = client(w);
	say(half, "CONNECT a:1 HTTP/1.1\r\n");
	(void)tunnel(w, (int[2]){ -1, -1 }, ""); /* the half head was read: its turn came before */
	assert_int_equal(kill(w->pid, SIGKILL), 0);
	expect_reset(fd[0]);
	expect_reset(fd[1]);
	expect_reset(half);
	(void)close(fd[0]);
	(void)close(fd[1]);
	(void)close(half);
}

static void cut_resets_both_sides(void **state)
{
	struct world *w = *state;
	int fd[2];
	uint32_t conn = tunnel(w, fd, "");

	wr_open(&w->wr, MSG_CUT, conn);
	tell(w);
	expect_reset(fd[0]);
	expect_reset(fd[1]);
	done(w, conn, REASON_CUT, NULL);
	(void)close(fd[0]);
	(void)close(fd[1]);
}

static void cut(struct world *w, uint32_t conn)
{
	wr_open(&w->wr, MSG_CUT, conn);
	tell(w);
}

/* Between two requests, and in the middle of an answer. */
static void cut_ends_an_exchange_and_what_is_kept_alive(void **state)
{
	struct world *w = *state;
	char text[128];

	for (int i = 0; i < 2; i++) {
		int fd = client(w), origin;
		uint32_t conn;

		(void)snprintf(text, sizeof(text), "GET http://a:%u/ HTTP/1.1\r\n\r\n",
			       w->origin_port);
		say(fd, text);
		conn = hear_ask(w, "a", w->origin_port);
		allow(w, conn, "a", w->origin_port, 0, "127.0.0.1");
		hear(w, MSG_DIALED);
		origin = accepted(w);
		(void)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a:%u\r\n\r\n",
			       w->origin_port);
		expect(origin, text);
		say(origin, i ? "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
			      : "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok");
		expect(fd, i ? "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
			     : "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok");
		cut(w, conn);
		expect_reset(fd);
		expect_reset(origin);
		done(w, conn, REASON_CUT, NULL);
		(void)close(fd);
		(void)close(origin);
	}
}

static void cut_of_a_tunnel_drops_what_is_in_its_pipe(void **state)
{
	struct world *w = *state;
	char *data = calloc(1, 1 << 20);
	size_t sent = 0;
	int fd[2];
	uint32_t conn = tunnel(w, fd, "");
	struct pollfd p = { .fd = fd[0], .events = POLLOUT };

	assert_non_null(data);
	while (poll(&p, 1, 1000) == 1) { /* the origin does not read: everything is full */
		ssize_t n = send(fd[0], data, 1 << 20, MSG_NOSIGNAL | MSG_DONTWAIT);

		assert_true(n > 0);
		sent += (size_t)n;
	}
	assert_true(sent > (1 << 20));
	cut(w, conn);
	done(w, conn, REASON_CUT, NULL);
	expect_reset(fd[0]);
	(void)close(fd[0]);
	(void)close(fd[1]);
	(void)tunnel(w, fd, "next"); /* and the worker is well */
	expect(fd[1], "next");
	(void)close(fd[0]);
	(void)close(fd[1]);
	free(data);
}

static void cut_of_a_number_that_is_over_is_nothing(void **state)
{
	struct world *w = *state;
	int fd[2], other[2];
	uint32_t conn = tunnel(w, fd, ""), second = tunnel(w, other, "");

	(void)close(fd[0]);
	(void)close(fd[1]);
	done(w, conn, REASON_CLOSED, NULL);
	cut(w, conn);
	say(other[0], "goes on");
	expect(other[1], "goes on");
	cut(w, second);
	done(w, second, REASON_CUT, NULL);
	expect_reset(other[0]);
	(void)close(other[0]);
	(void)close(other[1]);
}

static void config_idle(struct world *w, uint32_t idle_ms)
{
	struct msg_config c = { .connections = 1024, .idle_ms = idle_ms };

	wr_open(&w->wr, MSG_CONFIG, 0);
	msg_put_config(&w->wr, &c);
	tell(w);
}

static void an_idle_limit_holds_for_tunnels_that_are_open(void **state)
{
	struct world *w = *state;
	int fd[2], other[2];
	uint32_t conn = tunnel(w, fd, ""), second;

	config_idle(w, 300);
	done(w, conn, REASON_IDLE, NULL);
	expect_reset(fd[0]);
	expect_reset(fd[1]);
	second = tunnel(w, other, "");
	config_idle(w, 0); /* and none again */
	(void)poll(NULL, 0, 600);
	say(other[0], "still here");
	expect(other[1], "still here");
	cut(w, second);
	done(w, second, REASON_CUT, NULL);
	for (int i = 0; i < 2; i++) {
		(void)close(fd[i]);
		(void)close(other[i]);
	}
}

/* ---- refusals ---- */

static void refusal_arrives_whole_although_the_client_still_sends(void **state)
{
	static const char text[] = "not allowed\nno rule\nweir run --allow a.example\n";
	struct world *w = *state;
	char *body = calloc(1, 200000), *got = malloc(8192);
	int fd = client(w);
	uint32_t conn;

	assert_non_null(body);
	assert_non_null(got);
	say(fd, "POST http://a.example/ HTTP/1.1\r\nContent-Length: 200000\r\n\r\n");
	conn = hear_ask(w, "a.example", 80);
	assert_int_equal(send(fd, body, 200000, MSG_NOSIGNAL), 200000);
	refuse(w, conn, text);
	read_all(fd, got, 8192);
	assert_int_equal(strncmp(got, "HTTP/1.1 403 ", 13), 0);
	assert_non_null(strstr(got, "details=\"no_rule\""));
	assert_string_equal(got + strlen(got) - strlen(text), text);
	(void)close(fd);
	free(body);
	free(got);
}

static const struct {
	const char *name, *send;
	const char *status, *reason, *text; /* of REJECT */
} rejects[] = {
	{ "no port", "CONNECT a HTTP/1.1\r\n\r\n", "400", "bad_request", "a" },
	{ "port 0", "CONNECT a:0 HTTP/1.1\r\n\r\n", "400", "bad_request", "a:0" },
	{ "bare LF", "GET http://h:1/secret HTTP/1.1\nHost: h\n\n", "400", "bad_request", "h:1" },
	{ "origin form", "GET /secret HTTP/1.1\r\nHost: h\r\n\r\n", "400", "origin_form", "" },
	{ "https URL", "GET https://h/ HTTP/1.1\r\n\r\n", "400", "bad_request", "h" },
	{ "unknown method", "FROB http://h/ HTTP/1.1\r\n\r\n", "400", "bad_request", "h" },
	{ "TLS", "\x16\x03\x01", "400", "bad_request", "" },
};

static void malformed_request_is_answered_and_recorded_and_never_asked(void **state)
{
	struct world *w = *state;
	char got[8192], want[64];
	struct msg_reject r;

	for (size_t i = 0; i < ARRAY_LEN(rejects); i++) {
		int fd = client(w);

		say(fd, rejects[i].send);
		hear(w, MSG_REJECT);
		assert_int_equal(msg_get_reject(&w->r, &r), 0);
		assert_string_equal(reason_name(r.reason), rejects[i].reason);
		assert_string_equal(r.text, rejects[i].text);
		read_all(fd, got, sizeof(got));
		(void)snprintf(want, sizeof(want), "HTTP/1.1 %s ", rejects[i].status);
		if (strncmp(got, want, strlen(want)) != 0)
			fail_msg("%s: %s", rejects[i].name, got);
		(void)close(fd);
	}
}

static void head_over_64_kib_is_431(void **state)
{
	struct world *w = *state;
	char *big = malloc(70000), got[8192];

	assert_non_null(big);
	for (int terminated = 0; terminated < 2; terminated++) {
		int fd = client(w);

		memset(big, 'a', 70000);
		memcpy(big, "GET http://h/ HTTP/1.1\r\nX: ", 27);
		if (terminated)
			memcpy(big + 70000 - 4, "\r\n\r\n", 4);
		assert_int_equal(send(fd, big, 70000, MSG_NOSIGNAL), 70000);
		hear(w, MSG_REJECT);
		read_all(fd, got, sizeof(got));
		assert_int_equal(strncmp(got, "HTTP/1.1 431 ", 13), 0);
		(void)close(fd);
	}
	free(big);
}

static void connection_limit_is_503_with_retry_after(void **state)
{
	struct world *w = *state;
	char got[8192];
	int fd[2], extra;

	config(w, 1, "");
	(void)tunnel(w, fd, "");
	extra = client(w);
	read_all(extra, got, sizeof(got));
	assert_int_equal(strncmp(got, "HTTP/1.1 503 ", 13), 0);
	assert_non_null(strstr(got, "\r\nRetry-After: "));
	assert_non_null(strstr(got, "details=\"connection_limit\""));
	(void)close(extra);
	(void)close(fd[0]);
	(void)close(fd[1]);
}

static void dial_failure_is_502_and_names_the_rule(void **state)
{
	struct world *w = *state;
	char got[8192];
	int fd = client(w);
	uint32_t conn;

	(void)close(w->origin); /* nobody listens there any more */
	w->origin = -1;
	say(fd, "CONNECT a:443 HTTP/1.1\r\n\r\n");
	conn = hear_ask(w, "a", 443);
	allow(w, conn, "a", w->origin_port, 0, "127.0.0.1");
	done(w, conn, REASON_CONNECT_REFUSED, NULL);
	read_all(fd, got, sizeof(got));
	assert_int_equal(strncmp(got, "HTTP/1.1 502 ", 13), 0);
	assert_non_null(strstr(got, "error=connection_refused"));
	assert_non_null(strstr(got, "\nallowed by policy:1: allow a\n"));
	(void)close(fd);
}

/* ---- plain HTTP ---- */

static void each_request_goes_to_its_own_host(void **state)
{
	struct world *w = *state;
	struct msg_done d;
	char text[512];
	int fd = client(w), first, second;
	uint32_t one, two;

	(void)snprintf(
		text, sizeof(text),
		"GET http://one:%u/1 HTTP/1.1\r\nHost: evil\r\nProxy-Authorization: s\r\n\r\n"
		"GET http://ONE:%u/2 HTTP/1.1\r\n\r\n"
		"GET http://two:%u/3 HTTP/1.1\r\nProxy-Authorization: s\r\n\r\n",
		w->origin_port, w->origin_port, w->origin_port);
	say(fd, text);
	one = hear_ask(w, "one", w->origin_port);
	allow(w, one, "one", w->origin_port, 0, "127.0.0.1");
	hear(w, MSG_DIALED);
	first = accepted(w);
	(void)snprintf(text, sizeof(text), "GET /1 HTTP/1.1\r\nHost: one:%u\r\n\r\n",
		       w->origin_port);
	expect(first, text);
	say(first, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
	expect(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
	(void)snprintf(text, sizeof(text), "GET /2 HTTP/1.1\r\nHost: one:%u\r\n\r\n",
		       w->origin_port);
	expect(first, text); /* the same target rides on the verdict */
	say(first, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2");
	expect(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2");
	done(w, one, REASON_CLOSED, &d);
	assert_int_equal(d.requests, 2);
	expect_eof(first);
	two = hear_ask(w, "two", w->origin_port);
	assert_int_not_equal(one, two);
	refuse(w, two, "no\nno\nno\n");
	expect(fd, "HTTP/1.1 403 ");
	(void)close(fd);
	(void)close(first);
	second = client(w); /* the worker is well */
	(void)close(second);
}

static void answer_before_the_end_of_an_upload_arrives(void **state)
{
	static const char want[] =
		"HTTP/1.1 401 No\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnope";
	struct world *w = *state;
	char text[256];
	int fd = client(w), origin;
	uint32_t conn;

	(void)snprintf(text, sizeof(text),
		       "POST http://a:%u/ HTTP/1.1\r\nContent-Length: 999\r\n\r\nabc",
		       w->origin_port);
	say(fd, text);
	conn = hear_ask(w, "a", w->origin_port);
	allow(w, conn, "a", w->origin_port, 0, "127.0.0.1");
	hear(w, MSG_DIALED);
	origin = accepted(w);
	(void)snprintf(text, sizeof(text),
		       "POST / HTTP/1.1\r\nHost: a:%u\r\nContent-Length: 999\r\n\r\nabc",
		       w->origin_port);
	expect(origin, text);
	say(origin, "HTTP/1.1 401 No\r\nContent-Length: 4\r\n\r\nnope");
	expect(fd, want);
	(void)close(fd);
	(void)close(origin);
}

/* ---- names ---- */

static int dns_socket(char *csv, size_t room)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	(void)snprintf(csv, room, "127.0.0.1:%u", ntohs(sa.sin_port));
	return fd;
}

/* One question; A gets @addr, AAAA gets no answer. Return: the query's id */
static unsigned dns_answer(int fd, const char *addr)
{
	unsigned char q[512], *p;
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	ssize_t n;

	wait_for(fd, POLLIN);
	n = recvfrom(fd, q, sizeof(q) - 32, 0, (struct sockaddr *)&from, &len);
	assert_true(n > 16);
	q[2] = 0x81;
	q[3] = 0x80;
	if (q[n - 3] == 1) { /* type A */
		q[7] = 1;
		p = q + n;
		memcpy(p, "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4", 12);
		assert_int_equal(inet_pton(AF_INET, addr, p + 12), 1);
		n += 16;
	}
	assert_int_equal(sendto(fd, q, (size_t)n, 0, (struct sockaddr *)&from, len), n);
	return (unsigned)q[0] << 8 | q[1];
}

static unsigned ask_name(struct world *w, int dns, int *fd, uint32_t *conn, uint32_t flags)
{
	unsigned a, b;

	*fd = client(w);
	say(*fd, "CONNECT n.example:443 HTTP/1.1\r\n\r\n");
	*conn = hear_ask(w, "n.example", 443);
	allow(w, *conn, "n.example", w->origin_port, flags, NULL);
	a = dns_answer(dns, "127.0.0.1");
	b = dns_answer(dns, "127.0.0.1");
	return a << 16 | b;
}

static void name_that_is_private_is_403_and_not_dialled(void **state)
{
	struct world *w = *state;
	char csv[64], got[8192];
	int dns = dns_socket(csv, sizeof(csv)), fd;
	uint32_t conn;

	config(w, 1024, csv);
	(void)ask_name(w, dns, &fd, &conn, 0);
	done(w, conn, REASON_PRIVATE_ADDRESS, NULL);
	read_all(fd, got, sizeof(got));
	assert_int_equal(strncmp(got, "HTTP/1.1 403 ", 13), 0);
	assert_non_null(
		strstr(got, "error=destination_ip_prohibited; details=\"private_address\""));
	assert_non_null(strstr(got, "only private\naddresses\nprivate\n"));
	(void)close(fd);
	(void)close(dns);
}

static void candidates_are_dialled_as_the_monitor_says(void **state)
{
	struct world *w = *state;
	struct msg_candidates cand;
	struct msg_dial *d = calloc(1, sizeof(*d));
	char csv[64];
	int dns = dns_socket(csv, sizeof(csv)), fd, origin;
	uint32_t conn;

	assert_non_null(d);
	config(w, 1024, csv);
	(void)ask_name(w, dns, &fd, &conn, VERDICT_CANDIDATES);
	hear(w, MSG_CANDIDATES);
	assert_int_equal(msg_get_candidates(&w->r, &cand), 0);
	assert_int_equal(cand.n, 1);
	d->mask = 1;
	wr_open(&w->wr, MSG_DIAL, conn);
	msg_put_dial(&w->wr, d);
	tell(w);
	hear(w, MSG_DIALED);
	origin = accepted(w);
	expect(fd, "HTTP/1.1 200 Connection established\r\n\r\n");
	(void)close(fd);
	(void)close(origin);
	(void)close(dns);
	free(d);
}

/* While the name is looked up, and while the monitor is asked about its addresses. */
static void cut_before_anything_is_dialled(void **state)
{
	struct world *w = *state;
	char csv[64];
	int dns = dns_socket(csv, sizeof(csv)), fd;
	struct pollfd p = { .fd = dns, .events = POLLIN };
	uint32_t conn;

	config(w, 1024, csv);
	fd = client(w);
	say(fd, "CONNECT n.example:443 HTTP/1.1\r\n\r\n");
	conn = hear_ask(w, "n.example", 443);
	allow(w, conn, "n.example", w->origin_port, 0, NULL);
	wait_for(dns, POLLIN);
	cut(w, conn);
	done(w, conn, REASON_CUT, NULL);
	expect_reset(fd);
	(void)close(fd);
	while (poll(&p, 1, 500) == 1)
		(void)dns_answer(dns, "127.0.0.1"); /* comes too late, and hurts nobody */
	fd = client(w);
	say(fd, "CONNECT n.example:443 HTTP/1.1\r\n\r\n");
	conn = hear_ask(w, "n.example", 443);
	allow(w, conn, "n.example", w->origin_port, VERDICT_CANDIDATES, NULL);
	hear(w, MSG_CANDIDATES); /* the late answer was kept */
	cut(w, conn);
	done(w, conn, REASON_CUT, NULL);
	expect_reset(fd);
	(void)close(fd);
	(void)close(dns);
}

static void replaced_worker_has_other_query_ids(void **state)
{
	struct world *w = *state, second = { .sock = -1, .origin_port = 443 };
	char csv[64];
	int dns = dns_socket(csv, sizeof(csv)), fd;
	uint32_t conn;
	unsigned ids, other;

	config(w, 1024, csv);
	ids = ask_name(w, dns, &fd, &conn, 0);
	(void)close(fd);
	worker_begin(&second);
	config(&second, 1024, csv);
	listen_to(&second);
	other = ask_name(&second, dns, &fd, &conn, 0);
	assert_int_not_equal(ids, other);
	(void)close(fd);
	(void)kill(second.pid, SIGKILL);
	(void)waitpid(second.pid, NULL, 0);
	(void)close(second.sock);
	(void)close(dns);
}

/* ---- life ---- */

static int descriptors(pid_t pid)
{
	char path[64];
	DIR *d;
	int n = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	assert_non_null(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

static void aborted_clients_leave_no_descriptor(void **state)
{
	struct world *w = *state;
	char got[4096];
	int c = client(w), before, now = 0;

	say(c, "CONNECT a:0 HTTP/1.1\r\n\r\n"); /* the listener is there, then */
	read_all(c, got, sizeof(got));
	before = descriptors(w->pid) - 1; /* and this client's end will go */
	(void)close(c);
	for (int i = 0; i < 300; i++) {
		c = client(w);
		if (i % 3 == 1)
			say(c, "GET http://half");
		else if (i % 3 == 2)
			say(c, "CONNECT a:0 HTTP/1.1\r\n\r\n");
		if (i % 2)
			close_hard(c);
		else
			(void)close(c);
	}
	for (int tries = 0; tries < 6000 && (now = descriptors(w->pid)) != before; tries++)
		(void)poll(NULL, 0, 10);
	assert_int_equal(now, before);
}

static void client_that_resets_while_asked_is_gone(void **state)
{
	struct world *w = *state;
	int fd = client(w);
	uint32_t conn;

	say(fd, "CONNECT a:443 HTTP/1.1\r\n\r\n");
	conn = hear_ask(w, "a", 443);
	close_hard(fd);
	hear(w, MSG_GONE);
	assert_int_equal(w->h.conn, conn);
	allow(w, conn, "a", 443, 0, "127.0.0.1"); /* crossed: no error */
	fd = client(w);
	say(fd, "CONNECT b:443 HTTP/1.1\r\n\r\n");
	assert_int_equal(hear_ask(w, "b", 443), conn + 1);
	(void)close(fd);
}

static void stop_ends_the_worker_in_order(void **state)
{
	struct world *w = *state;
	int fd[2], status;
	uint32_t conn = tunnel(w, fd, "");

	wr_open(&w->wr, MSG_STOP, 0);
	tell(w);
	done(w, conn, REASON_SHUTDOWN, NULL);
	hear(w, MSG_STATS);
	assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	(void)close(fd[0]);
	(void)close(fd[1]);
}

static void verdict_for_a_connection_never_asked_ends_the_worker(void **state)
{
	struct world *w = *state;
	int status;

	allow(w, 7, "a", 443, 0, "127.0.0.1");
	assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(tunnel_carries_8_mib_both_ways_at_once),
		TEST(bytes_sent_with_the_head_arrive_first),
		TEST(half_close_keeps_the_other_direction),
		TEST(reset_stays_a_reset),
		TEST(dead_worker_resets_both_sides),
		TEST(cut_resets_both_sides),
		TEST(cut_ends_an_exchange_and_what_is_kept_alive),
		TEST(cut_of_a_tunnel_drops_what_is_in_its_pipe),
		TEST(cut_of_a_number_that_is_over_is_nothing),
		TEST(cut_before_anything_is_dialled),
		TEST(an_idle_limit_holds_for_tunnels_that_are_open),
		TEST(refusal_arrives_whole_although_the_client_still_sends),
		TEST(malformed_request_is_answered_and_recorded_and_never_asked),
		TEST(head_over_64_kib_is_431),
		TEST(connection_limit_is_503_with_retry_after),
		TEST(dial_failure_is_502_and_names_the_rule),
		TEST(each_request_goes_to_its_own_host),
		TEST(answer_before_the_end_of_an_upload_arrives),
		TEST(name_that_is_private_is_403_and_not_dialled),
		TEST(candidates_are_dialled_as_the_monitor_says),
		TEST(replaced_worker_has_other_query_ids),
		cmocka_unit_test_setup_teardown(aborted_clients_leave_no_descriptor, setup_open,
						teardown),
		TEST(client_that_resets_while_asked_is_gone),
		TEST(stop_ends_the_worker_in_order),
		TEST(verdict_for_a_connection_never_asked_ends_the_worker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
