/* SPDX-License-Identifier: ISC */
/* tests/fuzz/fuzz_control.c - what any client may write to the control socket.
 * Input: the bytes of one client, which come in two pieces: the first byte says where they are cut.
 * What must hold: each line gets one reply, an object of printable ASCII on one line; what is no request
 * closes that client and no other; a question is answered by a request that names it, and only then. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker/monitor/audit.h"
#include "broker/monitor/control.h"
#include "broker/monitor/from_worker.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/state.h"
#include "broker/monitor/workers.h"
#include "common/err.h"
#include "common/fd.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REPLIES_MAX (1u << 20)

static const char rules[] = "include none\naudit off\nask *:443\n";
static char *argv[] = { (char[]){ "true" }, (char[]){ "\x1b[2J\xff" }, NULL };
static struct sandbox_plan plan = { .listeners = true, .argv = argv };
static struct run run = { .plan = &plan, .id = "0123456789ab", .status_fd = -1, .quiet = true };
static struct monitor m;
static struct err err;
static int worker;

static void policy_make(void)
{
	static char *const none[] = { NULL };
	const struct policy_context ctx = {
		.home = "/h", .cwd = "/h", .project = "/h", .environ = none
	};

	run.policy = policy_new(&ctx);
	if (!run.policy ||
	    policy_add_text(run.policy, LAYER_FILE, "f", rules, sizeof(rules) - 1, &err) < 0 ||
	    policy_seal(run.policy, NULL, NULL, &err) < 0)
		abort();
}

/* A listener without a name in any file system. */
static int listener(void)
{
	const struct sockaddr_un any = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&any, sizeof(sa_family_t)) < 0 ||
	    listen(fd, 4) < 0)
		abort();
	return fd;
}

static int client(int to)
{
	struct sockaddr_un at;
	socklen_t len = sizeof(at);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || getsockname(to, (struct sockaddr *)&at, &len) < 0 ||
	    connect(fd, (struct sockaddr *)&at, len) < 0)
		abort();
	return fd;
}

static void ask(void)
{
	static struct msg_wr w;
	const struct msg_ask a = { .proto = PROTO_CONNECT, .port = 443, .host = "a.example" };
	uint16_t length;

	wr_open(&w, MSG_ASK, 1);
	msg_put_ask(&w, &a);
	length = (uint16_t)w.len;
	memcpy(w.buf + offsetof(struct msg_head, length), &length, sizeof(length));
	if (from_worker(&m, w.buf, w.len, NULL, 0) < 0)
		abort();
}

static void monitor_make(void)
{
	int sv[2];

	memset(&m, 0, sizeof(m));
	if (monitor_init(&m, &run) < 0 || fd_pair(sv) < 0)
		abort();
	m.err = &err;
	m.hosts.path = "/nonexistent";
	m.resolv.path = "/nonexistent";
	m.resolv.have = true;
	m.worker_sock = sv[0];
	worker = sv[1];
	m.phase = PHASE_SERVE;
	m.worker = WORKER_READY;
	m.own_at = ev_now(m.loop) + 1e6;
	m.uid = getuid();
	m.entry.sock = listener();
	control_start(&m);
	ask();
}

static void turns(size_t n)
{
	for (size_t i = 0; i < n; i++)
		ev_run(m.loop, EVRUN_NOWAIT);
}

/* Return: how many lines came */
static size_t replies(int fd)
{
	static char text[REPLIES_MAX];
	size_t len = 0, lines = 0;
	ssize_t n;

	while (len < sizeof(text) && (n = recv(fd, text + len, sizeof(text) - len, 0)) > 0)
		len += (size_t)n;
	for (char *p = text, *end; (end = memchr(p, '\n', len - (size_t)(p - text))); p = end + 1) {
		json_t *o = json_loadb(p, (size_t)(end - p), 0, NULL);

		assert(json_is_object(o) && json_integer_value(json_object_get(o, "v")) == 1);
		json_decref(o);
		for (; p < end; p++)
			assert(*p >= ' ' && *p <= '~');
		lines++;
	}
	assert(len == 0 || text[len - 1] == '\n');
	return lines;
}

static size_t count(const uint8_t *data, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < size; i++)
		n += data[i] == '\n';
	return n;
}

static void say(int fd, const uint8_t *data, size_t size)
{
	if (size > 0 && send(fd, data, size, MSG_NOSIGNAL) < 0 && errno != EPIPE &&
	    errno != ECONNRESET)
		abort();
	turns(count(data, size) + size / CONTROL_LINE_MAX + 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char honest[] = "{\"v\":1,\"verb\":\"stats\"}\n";
	size_t cut = size > 1 ? 1 + data[0] % (size - 1) : 0, lines;
	int fd, other;

	if (size < 2 || size > 16384)
		return 0;
	if (!run.policy)
		policy_make();
	monitor_make();
	fd = client(m.entry.sock);
	other = client(m.entry.sock);
	turns(2);
	assert(m.control.n == 2);
	say(fd, data + 1, cut - 1);
	say(fd, data + cut, size - cut);
	lines = replies(fd);
	/* a reply a line, one for what is too long, and events for who listens */
	assert(lines <= 2 * (count(data + 1, size - 1) + 1) + 1);
	assert(m.questions.n == 1 || memmem(data, size, "answer", 6) ||
	       memmem(data, size, "\\u", 2) || memmem(data, size, "kill", 4));
	say(other, (const uint8_t *)honest, sizeof(honest) - 1);
	assert(replies(other) == 1);
	(void)close(fd);
	(void)close(other);
	turns(2);
	assert(m.control.n == 0);
	(void)close(worker);
	monitor_free(&m);
	return 0;
}
