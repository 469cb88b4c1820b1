/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_fixture.h - a monitor whose other processes are the test itself: it holds the
 * nursery's and the worker's end of their sockets and speaks for them. */
#ifndef WEIR_TESTS_UNIT_MONITOR_FIXTURE_H
#define WEIR_TESTS_UNIT_MONITOR_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/monitor/audit.h"
#include "broker/monitor/audit_file.h"
#include "broker/monitor/from_nursery.h"
#include "broker/monitor/from_shim.h"
#include "broker/monitor/from_worker.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/state.h"
#include "broker/monitor/workers.h"
#include "common/err.h"
#include "common/fd.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

struct fx {
	struct sandbox_plan plan;
	struct run run;
	struct monitor m;
	struct err err;
	int nursery, worker; /* the test's ends; worker: of the newest one */
	char dir[64], audit[96], hosts[96];
	struct msg_wr w;	/* the last message written */
	uint8_t heard[MSG_MAX]; /* the last message heard, and its head */
	struct msg_head head;
	struct msg_rd body;
};

static struct policy *fx_policy(const char *text)
{
	static char *const none[] = { NULL };
	const struct policy_context ctx = {
		.home = "/home/u", .cwd = "/home/u", .project = "/home/u", .environ = none
	};
	struct policy *p = policy_new(&ctx);
	struct err e = { 0 };

	assert_non_null(p);
	if (policy_add_text(p, LAYER_FILE, "test.policy", "include none\n", 13, &e) < 0 ||
	    policy_add_text(p, LAYER_FILE, "test.policy", text, strlen(text), &e) < 0 ||
	    policy_seal(p, NULL, NULL, &e) < 0)
		fail_msg("policy: %s", e.what);
	return p;
}

static void fx_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* The whole of the audit log so far. */
static const char *fx_audit(struct fx *f)
{
	static char text[1 << 20];
	FILE *in;
	size_t n;

	audit_flush(f->m.audit); /* as the end of the turn does */
	in = fopen(f->audit, "re");
	assert_non_null(in);
	n = fread(text, 1, sizeof(text) - 1, in);
	text[n] = '\0';
	(void)fclose(in);
	return text;
}

/* What the monitor sent the worker next: its head and a cursor on its body. */
static void fx_hear(struct fx *f, unsigned type)
{
	int fds[FD_PASS_MAX];
	size_t nfds = FD_PASS_MAX;
	ssize_t n = fd_recv(f->worker, f->heard, sizeof(f->heard), fds, &nfds);

	if (n <= 0)
		fail_msg("nothing heard (%zd), expected message %u", n, type);
	for (size_t i = 0; i < nfds; i++)
		(void)close(fds[i]);
	assert_int_equal(msg_open(&f->head, &f->body, f->heard, (size_t)n), 0);
	assert_int_equal(f->head.type, type);
}

static bool fx_silent(struct fx *f)
{
	char c;

	return recv(f->worker, &c, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

/* What the monitor told the nursery next. */
static void fx_nursery_hear(struct fx *f, unsigned type)
{
	uint8_t buf[MSG_MAX];
	int fds[FD_PASS_MAX];
	size_t nfds = FD_PASS_MAX;
	ssize_t n = fd_recv(f->nursery, buf, sizeof(buf), fds, &nfds);

	assert_true(n > 0);
	for (size_t i = 0; i < nfds; i++)
		(void)close(fds[i]);
	assert_int_equal(buf[0], type);
}

/* Take the newest START from the nursery's socket. */
static void fx_worker_take(struct fx *f)
{
	uint8_t buf[MSG_MAX];
	int fds[FD_PASS_MAX];
	size_t nfds = FD_PASS_MAX;
	ssize_t n = fd_recv(f->nursery, buf, sizeof(buf), fds, &nfds);

	assert_true(n > 0);
	assert_int_equal(buf[0], MSG_START);
	assert_true(nfds >= 1);
	scope_close(&f->worker);
	f->worker = fds[0];
	for (size_t i = 1; i < nfds; i++)
		(void)close(fds[i]);
	fx_hear(f, MSG_CONFIG);
}

/* The header's length goes in last. */
static struct msg_wr *fx_done(struct fx *f)
{
	uint16_t length = (uint16_t)f->w.len;

	assert_false(f->w.bad);
	memcpy(f->w.buf + offsetof(struct msg_head, length), &length, sizeof(length));
	return &f->w;
}

static int fx_say(struct fx *f)
{
	(void)fx_done(f);
	return from_worker(&f->m, f->w.buf, f->w.len, NULL, 0);
}

static int fx_say_empty(struct fx *f, unsigned type, uint32_t conn)
{
	wr_open(&f->w, type, conn);
	return fx_say(f);
}

static int fx_ask(struct fx *f, uint32_t conn, const char *host, uint16_t port)
{
	struct msg_ask ask = { .proto = PROTO_CONNECT, .port = port };

	(void)snprintf(ask.host, sizeof(ask.host), "%s", host);
	wr_open(&f->w, MSG_ASK, conn);
	msg_put_ask(&f->w, &ask);
	return fx_say(f);
}

static int fx_dialed(struct fx *f, uint32_t conn, const char *addr)
{
	struct msg_dialed d;

	assert_int_equal(addr_parse(&d.addr, addr), 0);
	wr_open(&f->w, MSG_DIALED, conn);
	msg_put_dialed(&f->w, &d);
	return fx_say(f);
}

static int fx_end(struct fx *f, uint32_t conn, uint64_t up, uint64_t down, unsigned reason)
{
	struct msg_done d = { .up = up, .down = down, .requests = 1, .reason = (uint8_t)reason };

	wr_open(&f->w, MSG_DONE, conn);
	msg_put_done(&f->w, &d);
	return fx_say(f);
}

static int fx_candidates(struct fx *f, uint32_t conn, const char *const *addr, size_t n)
{
	struct msg_candidates c = { .n = (uint8_t)n };

	for (size_t i = 0; i < n; i++)
		assert_int_equal(addr_parse(&c.addr[i], addr[i]), 0);
	wr_open(&f->w, MSG_CANDIDATES, conn);
	msg_put_candidates(&f->w, &c);
	return fx_say(f);
}

static void fx_verdict(struct fx *f, struct msg_verdict *v)
{
	fx_hear(f, MSG_VERDICT);
	assert_int_equal(msg_get_verdict(&f->body, v), 0);
}

/* A monitor that serves, with a worker that is ready. */
static void fx_open(struct fx *f, const char *policy)
{
	int sv[2];

	memset(f, 0, sizeof(*f));
	f->worker = -1;
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/weir-monitor-test-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	(void)snprintf(f->audit, sizeof(f->audit), "%s/audit.jsonl", f->dir);
	(void)snprintf(f->hosts, sizeof(f->hosts), "%s/hosts", f->dir);
	f->plan.listeners = true;
	f->run = (struct run){ .policy = fx_policy(policy),
			       .plan = &f->plan,
			       .id = "0123456789ab",
			       .audit_path = f->audit,
			       .audit_default = f->audit,
			       .status_fd = -1,
			       .quiet = true };
	assert_int_equal(monitor_init(&f->m, &f->run), 0);
	f->m.err = &f->err;
	f->m.hosts.path = f->hosts;
	assert_int_equal(audit_open(f->m.audit, f->audit, &f->err), 0);
	assert_int_equal(fd_pair(sv), 0);
	f->m.nursery_sock = sv[0];
	f->nursery = sv[1];
	f->m.nursery = NURSERY_UP;
	f->m.phase = PHASE_SERVE;
	(void)monitor_own_refresh(&f->m);
	(void)resolv_follow(&f->m.resolv);
	assert_int_equal(worker_start(&f->m), 0);
	fx_worker_take(f);
	assert_int_equal(fx_say_empty(f, MSG_READY, 0), 0);
}

static void fx_close(struct fx *f)
{
	char lock[96];

	monitor_free(&f->m);
	policy_free(f->run.policy);
	scope_close(&f->nursery);
	scope_close(&f->worker);
	(void)snprintf(lock, sizeof(lock), "%s/%s", f->dir, AUDIT_LOCK_NAME);
	(void)unlink(lock);
	(void)unlink(f->audit);
	(void)unlink(f->hosts);
	(void)rmdir(f->dir);
}

#endif
