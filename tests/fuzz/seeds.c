/* SPDX-License-Identifier: ISC */
/* tests/fuzz/seeds.c - where fuzz_msg and fuzz_from_worker begin: messages as weir itself writes them today.
 *	seeds DIRECTORY		writes DIRECTORY/msg/TYPE and DIRECTORY/from_worker/NAME
 * A corpus of files would go stale with each change of a message, silently: a fuzzer that starts from what
 * is refused at once reaches nothing. How a sequence ends is in its name, and replay holds it to that:
 *	honest-…	each message is accepted
 *	refused-…	the last one is not, all before it are */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/msg.h"
#include "common/reason.h"
#include "common/scope.h"

static const char *root;
static struct msg_wr wr;

static void file_write(const char *dir, const char *name, const void *p, size_t n)
{
	char path[4096];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", root, dir);
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		goto failed;
	(void)snprintf(path, sizeof(path), "%s/%s/%s", root, dir, name);
	f = fopen(path, "we");
	if (f && fwrite(p, 1, n, f) == n && fclose(f) == 0)
		return;
failed:
	perror(path);
	exit(1);
}

static struct addr addr(const char *text)
{
	struct addr a;

	if (addr_parse(&a, text) < 0)
		abort();
	return a;
}

static void finish(void)
{
	uint16_t length = (uint16_t)wr.len;

	if (wr.bad)
		abort();
	memcpy(wr.buf + offsetof(struct msg_head, length), &length, sizeof(length));
}

/* ---- one message of each type ---- */

#define ENDS                                                                                       \
	{                                                                                          \
		.client = addr("127.0.0.1"), .proxy = addr("127.0.0.1"), .client_port = 40000,     \
		.proxy_port = 3128                                                                 \
	}
#define PUT(type, name, ...)                                                                       \
	case type: {                                                                               \
		const struct msg_##name m = { __VA_ARGS__ };                                       \
                                                                                                   \
		msg_put_##name(&wr, &m);                                                           \
		return #name;                                                                      \
	}
#define PUT_NONE(type, name)                                                                       \
	case type:                                                                                 \
		return name

static const char *to_monitor(enum msg_type type)
{
	switch ((unsigned)type) {
		PUT_NONE(MSG_READY, "ready");
		PUT(MSG_ASK, ask, .proto = PROTO_HTTP, .port = 443, .host = "pypi.org",
		    .ends = ENDS)
		PUT(MSG_REJECT, reject, .proto = PROTO_CONNECT, .reason = REASON_BAD_REQUEST,
		    .text = "a\\x00b:443", .ends = ENDS)
		PUT(MSG_CANDIDATES, candidates, .n = 2,
		    .addr = { addr("192.0.0.2"), addr("2001:db8::1") })
		PUT(MSG_DIALED, dialed, .addr = addr("2001:db8::1"))
		PUT(MSG_DONE, done, .up = 1000, .down = 2000, .requests = 3,
		    .reason = REASON_SNI_MISMATCH, .sni = "other.example")
		PUT(MSG_STATS, stats, .open = 3, .accepted = 40, .count = { 1, 2, 3 })
		PUT_NONE(MSG_GONE, "gone");
		PUT(MSG_NAME, name, .query = 5, .kind = NAME_REVERSE, .host = "198.18.0.2")
		PUT(MSG_HALF, half, .client = addr("127.0.0.1"), .proxy = addr("127.0.0.1"),
		    .client_port = 40000, .proxy_port = 3128)
		PUT(MSG_STARTED, started, .pid = 2)
		PUT(MSG_ENDED, ended, .status = 9)
		PUT(MSG_LISTENERS, listeners, .nlisten = 2, .has_diag = 1, .has_proc = 1,
		    .no_route = 95)
		PUT(MSG_FORWARD, forward, .index = 0)
		PUT(MSG_TREES, trees, .n = 2)
		PUT(MSG_SPAWNED, spawned, .pid = 3)
		PUT(MSG_EXECFAIL, execfail, .stage = STAGE_EXEC, .num = 2, .what = "execute 'x'",
		    .why = "it is not there", .fix = "weir run -r /opt")
		PUT(MSG_EXITED, exited, .status = 256)
		PUT(MSG_STOPPED, stopped, .signo = 20, .turn = 3)
	default:
		return NULL;
	}
}

static const char *from_monitor(enum msg_type type)
{
	switch ((unsigned)type) {
		PUT(MSG_CONFIG, config, .connections = 4096, .idle_ms = 5,
		    .servers = "127.0.0.1:53,[::1]:53", .nown = 2,
		    .own = { addr("10.0.0.1"), addr("2001:db8::1") }, .upstream = "proxy.example",
		    .upstream_port = 8080, .upstream_auth = "YTpi", .secret = "s3cret")
		PUT(MSG_VERDICT, verdict, .allow = 1, .flags = VERDICT_FIXED, .port = 443,
		    .gate = 3, .host = "pypi.org", .text = "allowed by builtin:1: allow pypi.org\n",
		    .naddr = 1, .addr = { addr("151.101.0.223") })
		PUT(MSG_DIAL, dial, .mask = 5)
		PUT_NONE(MSG_CUT, "cut");
		PUT(MSG_LISTEN, listen, .proto = PROTO_REACH, .forward = 1)
		PUT_NONE(MSG_STOP, "stop");
		PUT(MSG_NAMED, named, .query = 5, .answer = NAMED_YES, .addr = 0xc6120002,
		    .host = "a.example")
		PUT(MSG_START, start, .has_gates = 1, .has_names = 1)
		PUT(MSG_ENTRY, entry, .name = "0123456789ab")
		PUT_NONE(MSG_SOCKETS, "sockets");
		PUT(MSG_ROUTE, route, .kind = SOCK_NAMES)
		PUT(MSG_SIGNAL, signal, .signo = 15)
		PUT_NONE(MSG_ORPHAN, "orphan");
		PUT_NONE(MSG_WANT, "want");
		PUT(MSG_RESUME, resume, .turn = 4, .hold = HOLD_AGAIN)
	case MSG_CGROUP:
		(void)from_monitor(MSG_ENTRY);
		return "cgroup";
	default:
		return NULL;
	}
}

static void each_message(void)
{
	for (unsigned t = MSG_NONE + 1; t < MSG_TYPE_COUNT; t++) {
		const char *name;

		wr_open(&wr, (enum msg_type)t, 7);
		name = to_monitor((enum msg_type)t);
		if (!name)
			name = from_monitor((enum msg_type)t);
		if (!name) {
			(void)fprintf(stderr, "tests/fuzz/seeds.c: message type %u has no seed\n",
				      t);
			exit(1);
		}
		finish();
		file_write("msg", name, wr.buf, wr.len);
	}
}

/* ---- sequences that a monitor hears ---- */

#define SHIM 0xff /* before a message: who sends it, see fuzz_from_worker.c */
#define NURSERY 0xfe
#define SHIM_FD 0xfd /* the shim, with a descriptor */
#define SHIM_FDS 0xfc
#define WORKER 0

static uint8_t seq[16384];
static size_t seq_len;

static void seq_add(uint8_t who, const void *p, size_t n)
{
	size_t len = n + (who != WORKER);

	if (seq_len + 2 + len > sizeof(seq))
		abort();
	seq[seq_len++] = (uint8_t)len;
	seq[seq_len++] = (uint8_t)(len >> 8);
	if (who != WORKER)
		seq[seq_len++] = who;
	memcpy(seq + seq_len, p, n);
	seq_len += n;
}

static void seq_end(const char *name)
{
	file_write("from_worker", name, seq, seq_len);
	seq_len = 0;
}

#define SAY(who, type, conn, name, ...)                                                            \
	do {                                                                                       \
		const struct msg_##name m = { __VA_ARGS__ };                                       \
                                                                                                   \
		wr_open(&wr, type, conn);                                                          \
		msg_put_##name(&wr, &m);                                                           \
		finish();                                                                          \
		seq_add(who, wr.buf, wr.len);                                                      \
	} while (0)

static void say_none(enum msg_type type, uint32_t conn)
{
	wr_open(&wr, type, conn);
	finish();
	seq_add(WORKER, wr.buf, wr.len);
}

static void ready(void)
{
	say_none(MSG_READY, 0);
}

static void ask(uint32_t conn, const char *host, uint16_t port)
{
	struct msg_ask m = { .proto = PROTO_CONNECT,
			     .port = port,
			     .literal6 = strchr(host, ':') != NULL };

	(void)snprintf(m.host, sizeof(m.host), "%s", host);
	wr_open(&wr, MSG_ASK, conn);
	msg_put_ask(&wr, &m);
	finish();
	seq_add(WORKER, wr.buf, wr.len);
}

static void dialed(uint32_t conn, const char *to)
{
	SAY(WORKER, MSG_DIALED, conn, dialed, .addr = addr(to));
}

static void candidate(uint32_t conn, const char *from)
{
	SAY(WORKER, MSG_CANDIDATES, conn, candidates, .n = 1, .addr = { addr(from) });
}

static void done(uint32_t conn)
{
	SAY(WORKER, MSG_DONE, conn, done, .up = 10, .down = 20, .requests = 1,
	    .reason = REASON_CLOSED);
}

static void failed(uint32_t conn, enum reason reason)
{
	SAY(WORKER, MSG_DONE, conn, done, .reason = (uint8_t)reason);
}

static void honest_connections(void)
{
	ready();
	ask(1, "a.example", 443);
	candidate(1, "8.8.8.8");
	dialed(1, "8.8.8.8");
	done(1);
	seq_end("honest-tunnel");
	ready();
	ask(1, "b.example", 443);
	SAY(WORKER, MSG_CANDIDATES, 1, candidates, .n = 2,
	    .addr = { addr("10.0.0.1"), addr("8.8.8.8") });
	dialed(1, "10.0.0.1");
	done(1);
	seq_end("honest-private");
	ready();
	ask(1, "10.1.2.3", 22);
	dialed(1, "10.1.2.3");
	done(1);
	seq_end("honest-literal");
	ready();
	ask(1, "localhost", 80);
	dialed(1, "127.0.0.1");
	done(1);
	seq_end("honest-localhost");
	ready();
	ask(1, "a.example", 443);
	candidate(1, "8.8.8.8");
	dialed(1, "8.8.8.8");
	SAY(WORKER, MSG_DONE, 1, done, .requests = 1, .reason = REASON_SNI_MISMATCH,
	    .sni = "x.example");
	seq_end("honest-mismatch");
	ready();
	ask(1, "a.example", 443);
	failed(1, REASON_CONNECT_REFUSED);
	ask(2, "a.example", 443);
	candidate(2, "8.8.8.8");
	failed(2, REASON_CONNECT_TIMEOUT);
	seq_end("honest-failed");
}

static void honest_others(void)
{
	ready();
	ask(1, "no.example", 443);
	say_none(MSG_GONE, 1);
	ask(2, "d.c.example", 443);
	ask(3, "x..y", 443);
	ask(4, "::1", 443);
	seq_end("honest-denied");
	ready();
	SAY(WORKER, MSG_ASK, 1, ask, .proto = PROTO_SOCKS5, .port = 443, .host = "a.example",
	    .ends = ENDS);
	SAY(WORKER, MSG_HALF, 1, half, .client = addr("127.0.0.1"), .proxy = addr("127.0.0.1"),
	    .client_port = 40000, .proxy_port = 3128);
	say_none(MSG_GONE, 1);
	seq_end("honest-half");
	ready();
	SAY(WORKER, MSG_REJECT, 0, reject, .proto = PROTO_CONNECT, .reason = REASON_BAD_REQUEST,
	    .text = "a");
	SAY(WORKER, MSG_REJECT, 3, reject, .proto = PROTO_HTTP, .reason = REASON_HEAD_TIMEOUT);
	SAY(WORKER, MSG_STATS, 0, stats, .open = 3, .accepted = 40, .count = { 1, 2, 3 });
	seq_end("honest-rejects");
	ready();
	SAY(WORKER, MSG_NAME, 0, name, .query = 5, .kind = NAME_ADDR, .host = "a.example",
	    .port = 40000);
	SAY(WORKER, MSG_NAME, 0, name, .query = 6, .kind = NAME_REVERSE, .host = "198.18.0.2");
	SAY(WORKER, MSG_NAME, 0, name, .query = 7, .kind = NAME_OTHER, .host = "no.example");
	SAY(WORKER, MSG_ASK, 1, ask, .proto = PROTO_TRANSPARENT, .port = 443, .host = "198.18.0.2");
	seq_end("honest-names");
	ready();
	for (uint32_t i = 1; i <= 40; i++)
		ask(i, "a.example", 443);
	seq_end("honest-many");
	SAY(SHIM_FDS, MSG_LISTENERS, 0, listeners, .nlisten = 2);
	SAY(SHIM_FDS, MSG_ROUTE, 0, route, .kind = SOCK_REDIRECT);
	SAY(SHIM_FD, MSG_ROUTE, 0, route, .kind = SOCK_NAMES);
	SAY(SHIM, MSG_SPAWNED, 0, spawned, .pid = 3);
	SAY(SHIM, MSG_STOPPED, 0, stopped, .signo = 20);
	SAY(SHIM, MSG_EXITED, 0, exited, .status = 0);
	seq_end("honest-shim");
	SAY(SHIM_FDS, MSG_LISTENERS, 0, listeners, .nlisten = 2);
	SAY(SHIM, MSG_EXECFAIL, 0, execfail, .stage = STAGE_EXEC, .num = 2, .what = "execute 'x'");
	seq_end("honest-execfail");
	SAY(NURSERY, MSG_STARTED, 0, started, .pid = 2);
	SAY(NURSERY, MSG_ENDED, 0, ended, .status = 9);
	seq_end("honest-nursery");
}

static void lies(void)
{
	ask(1, "a.example", 443);
	seq_end("refused-before-ready");
	ready();
	ask(5, "a.example", 443);
	ask(5, "a.example", 443);
	seq_end("refused-replayed");
	ready();
	ask(1, "10.1.2.3", 22);
	candidate(1, "8.8.8.8");
	seq_end("refused-candidates-unasked");
	ready();
	ask(1, "a.example", 443);
	candidate(1, "8.8.8.8");
	dialed(1, "127.0.0.1");
	seq_end("refused-elsewhere");
	ready();
	ask(1, "b.example", 443);
	candidate(1, "10.0.0.1");
	dialed(1, "10.0.0.2");
	seq_end("refused-no-candidate");
	ready();
	ask(1, "a.example", 443);
	done(1);
	seq_end("refused-bytes-of-nothing");
	ready();
	ask(1, "no.example", 443);
	dialed(1, "8.8.8.8");
	seq_end("refused-denied");
	ready();
	seq_add(WORKER, "\2\0\0", 3);
	seq_end("refused-short");
}

int main(int argc, char **argv)
{
	if (argc != 2 || (mkdir(argv[1], 0755) < 0 && errno != EEXIST)) {
		(void)fprintf(stderr, "usage: seeds DIRECTORY\n");
		return 1;
	}
	root = argv[1];
	each_message();
	honest_connections();
	honest_others();
	lies();
	return 0;
}
