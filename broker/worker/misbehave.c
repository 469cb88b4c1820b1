/* SPDX-License-Identifier: ISC */
/* broker/worker/misbehave.c - test builds alone: a worker that breaks the protocol on request.
 * What a taken-over worker could send; the monitor must kill it and dial nothing. The nursery drops
 * the variable before it forks a second worker, so the replacement behaves. */
#ifdef WEIR_TEST
#include "broker/worker/misbehave.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/worker/filter_args.h"
#include "broker/worker/state.h"
#include "broker/worker/to_monitor.h"
#include "common/fd.h"
#include "common/gates.h"
#include "common/num.h"
#include "common/scope.h"

double clock_scale = 1.;

void clock_read(void)
{
	const char *text = getenv("WEIR_TEST_CLOCK");
	uint64_t percent;

	if (text && num_u64(text, 1, 1000, &percent) == 0)
		clock_scale = (double)percent / 100.;
}

/* What was said before goes before it. */
static void say(struct conn *c)
{
	to_monitor_turn(c->w);
	(void)wr_send(&c->w->wr, c->w->monitor, NULL, 0);
}

static void put_ask(struct conn *c, const struct msg_ask *m, uint32_t num)
{
	wr_open(&c->w->wr, MSG_ASK, num);
	msg_put_ask(&c->w->wr, m);
}

/* DIALED for a connection that was only asked, to an address that no verdict named */
static void forged_dialed(struct conn *c, const struct msg_ask *m)
{
	struct msg_dialed d = { .addr = { .family = 4, .b = { 169, 254, 169, 254 } } };

	put_ask(c, m, c->num);
	say(c);
	wr_open(&c->w->wr, MSG_DIALED, c->num);
	msg_put_dialed(&c->w->wr, &d);
	say(c);
}

static void truncated(struct conn *c, const struct msg_ask *m)
{
	put_ask(c, m, c->num);
	(void)fd_send(c->w->monitor, c->w->wr.buf, c->w->wr.len - 3, NULL, 0);
}

static void oversized(struct conn *c, const struct msg_ask *m)
{
	static char big[MSG_MAX + 64];

	put_ask(c, m, c->num);
	memcpy(big, c->w->wr.buf, c->w->wr.len);
	(void)fd_send(c->w->monitor, big, sizeof(big), NULL, 0);
}

static void unknown_type(struct conn *c, const struct msg_ask *m)
{
	put_ask(c, m, c->num);
	(void)wr_send(&c->w->wr, -1, NULL, 0); /* puts the length in */
	c->w->wr.buf[0] = MSG_TYPE_COUNT;
	(void)fd_send(c->w->monitor, c->w->wr.buf, c->w->wr.len, NULL, 0);
}

static void wrong_direction(struct conn *c, const struct msg_ask *m)
{
	(void)m;
	wr_open(&c->w->wr, MSG_STOP, 0);
	say(c);
}

/* DONE for a connection that never was allowed */
static void wrong_state(struct conn *c, const struct msg_ask *m)
{
	struct msg_done d = { .up = 1, .reason = REASON_CLOSED };

	(void)m;
	wr_open(&c->w->wr, MSG_DONE, c->num);
	msg_put_done(&c->w->wr, &d);
	say(c);
}

static void reused_conn(struct conn *c, const struct msg_ask *m)
{
	for (int i = 0; i < 2; i++) {
		put_ask(c, m, c->num);
		say(c);
	}
}

static void surprise_fd(struct conn *c, const struct msg_ask *m)
{
	put_ask(c, m, c->num);
	(void)wr_send(&c->w->wr, c->w->monitor, &c->side[CLIENT].io.fd, 1);
}

static void control_byte(struct conn *c, const struct msg_ask *m)
{
	struct msg_ask bad = *m;

	bad.host[0] = '\n';
	put_ask(c, &bad, c->num);
	say(c);
}

static void dialed_as(struct conn *c, uint32_t num, const uint8_t b[4])
{
	struct msg_dialed d = { .addr = { .family = 4, .b = { b[0], b[1], b[2], b[3] } } };

	wr_open(&c->w->wr, MSG_DIALED, num);
	msg_put_dialed(&c->w->wr, &d);
	say(c);
}

/* DIALED before the question that it would answer */
static void reordered(struct conn *c, const struct msg_ask *m)
{
	static const uint8_t addr[4] = { 93, 184, 216, 34 };

	dialed_as(c, c->num, addr);
	put_ask(c, m, c->num);
	say(c);
}

static void candidates(struct conn *c, const struct msg_ask *m)
{
	struct msg_candidates cand = { .n = 1, .addr = { { .family = 4, .b = { 127, 0, 0, 1 } } } };

	put_ask(c, m, c->num);
	say(c);
	wr_open(&c->w->wr, MSG_CANDIDATES, c->num);
	msg_put_candidates(&c->w->wr, &cand);
	say(c);
}

/* bytes that passed before anything was connected */
static void early_bytes(struct conn *c, const struct msg_ask *m)
{
	struct msg_done d = { .up = 4096, .reason = REASON_CLOSED };

	put_ask(c, m, c->num);
	say(c);
	wr_open(&c->w->wr, MSG_DONE, c->num);
	msg_put_done(&c->w->wr, &d);
	say(c);
}

/* more connections than an honest worker can have */
static void flood(struct conn *c, const struct msg_ask *m)
{
	for (uint32_t i = 0; i < 20000; i++) {
		put_ask(c, m, c->num + i);
		while (wr_send(&c->w->wr, c->w->monitor, NULL, 0) == -EAGAIN)
			(void)poll(&(struct pollfd){ .fd = c->w->monitor, .events = POLLOUT }, 1,
				   1000);
	}
}

static int try_connect(int type, const struct addr *a, uint16_t port)
{
	struct sockaddr_storage ss;
	socklen_t len = addr_to_sockaddr(a, port, &ss);
	int fd = socket(ss.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int r = connect(fd, (const struct sockaddr *)&ss, len) < 0 ? errno : 0;

	(void)close(fd);
	return r;
}

/* Places that no verdict names, while none stands and while one does: REJECT tells what came of it */
static void elsewhere(struct conn *c, const struct msg_ask *m)
{
	static const struct {
		const char *addr;
		uint16_t port;
		int type;
	} places[] = {
		{ "127.0.0.1", 22, SOCK_STREAM },	   { "10.77.0.1", 80, SOCK_STREAM },
		{ "192.168.7.7", 80, SOCK_STREAM },	   { "169.254.169.254", 80, SOCK_STREAM },
		{ "93.184.216.36", 80, SOCK_STREAM },	   { "93.184.216.34", 81, SOCK_STREAM },
		{ "10.77.0.2", 54, SOCK_DGRAM },	   { "fd77::2", 80, SOCK_STREAM },
		{ "2606:2800:220:1::34", 80, SOCK_DGRAM }, { "93.184.216.34", 80, SOCK_STREAM },
	};
	struct msg_reject rej = { .reason = REASON_INTERNAL };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		struct addr a;

		(void)addr_parse(&a, places[i].addr);
		n += try_connect(places[i].type, &a, places[i].port) == EPERM;
	}
	(void)snprintf(rej.text, sizeof(rej.text), "refused-%zu-of-%zu", n, ARRAY_LEN(places));
	reject_send(c, &rej);
	c->num = c->w->next_num++; /* not in the table: nobody hears of it again */
	put_ask(c, m, c->num);
	say(c);
}

/* A datagram to a place that connect() was not asked for */
static void datagram(struct conn *c, const struct msg_ask *m)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(9999),
				  .sin_addr.s_addr = htonl(0x5db8d822) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)c;
	(void)m;
	(void)sendto(fd, "x", 1, 0, (const struct sockaddr *)&to, sizeof(to));
}

static void fast_open(struct conn *c, const struct msg_ask *m)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)c;
	(void)m;
	(void)sendto(fd, "x", 1, MSG_FASTOPEN, NULL, 0);
}

static void message(struct conn *c, const struct msg_ask *m)
{
	struct msghdr h = { 0 };

	(void)m;
	(void)sendmsg(c->w->monitor, &h, 0);
}

/* A name where none may be asked for */
static void unasked_name(struct conn *c, const struct msg_ask *m)
{
	struct msg_name name = { .query = 1 };

	(void)snprintf(name.host, sizeof(name.host), "%s", m->host);
	name_send(c->w, &name);
}

/* A redirected connection where nothing is redirected */
static void as_transparent(struct conn *c, const struct msg_ask *m)
{
	struct msg_ask bad = *m;

	bad.proto = PROTO_TRANSPARENT;
	put_ask(c, &bad, c->num);
	say(c);
}

/* The one socket that may send to any address: another in its place would be the host's. */
static void names_socket(struct conn *c, const struct msg_ask *m)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(9999),
				  .sin_addr.s_addr = htonl(0x5db8d822) };
	struct msg_reject rej = { .reason = REASON_INTERNAL };
	bool taken = false, closed = close(WORKER_NAMES_FD) == 0;
	int error;

	for (int i = 0; i < 200; i++)
		taken |= socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) == WORKER_NAMES_FD;
	error = sendto(WORKER_NAMES_FD, "x", 1, 0, (const struct sockaddr *)&to, sizeof(to)) < 0
			? errno
			: 0;
	(void)snprintf(rej.text, sizeof(rej.text), "closed-%d-taken-%d-errno-%d", closed, taken,
		       error);
	reject_send(c, &rej);
	c->num = c->w->next_num++;
	put_ask(c, m, c->num);
	say(c);
}

/* The ends of a connection that is somebody else's, here or outside: who asked would be that one. */
static void false_ends(struct conn *c, const struct msg_ask *m)
{
	struct msg_ask bad = *m;

	(void)addr_parse(&bad.ends.client, "127.0.0.1");
	(void)addr_parse(&bad.ends.proxy, "127.0.0.1");
	bad.ends.client_port = 40001;
	bad.ends.proxy_port = 40002;
	put_ask(c, &bad, c->num);
	say(c);
}

/* The page of gates: what can be done to it, where its gates lead when no verdict stands, and whether
 * anything beside them goes unasked. REJECT tells: calls that failed as they must, of all that were tried */
static unsigned page_kept(char *page)
{
	const int rw = PROT_READ | PROT_WRITE, own = MAP_PRIVATE | MAP_ANONYMOUS;
	char *mine = mmap(NULL, GATES_BYTES, rw, own, -1, 0);
	unsigned n = 0;

	n += munmap(page, GATES_BYTES) < 0 && errno == EPERM;
	n += mmap(page, GATES_BYTES, rw, own | MAP_FIXED, -1, 0) == MAP_FAILED && errno == EPERM;
	n += mprotect(page, GATES_BYTES, rw) < 0 && errno == EPERM;
	n += mremap(page, GATES_BYTES, GATES_BYTES * 2, MREMAP_MAYMOVE) == MAP_FAILED &&
	     errno == EPERM;
	n += mremap(mine, GATES_BYTES, GATES_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, page) ==
		     MAP_FAILED &&
	     errno == EPERM;
	return n;
}

static bool leads(const char *at, size_t len, int *error)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	struct sockaddr_storage ss;
	socklen_t n = sizeof(ss);
	bool linked;

	*error = connect(fd, (const struct sockaddr *)at, (socklen_t)len) < 0 ? errno : 0;
	if (*error == EINPROGRESS)
		(void)poll(&p, 1, 1000);
	linked = getpeername(fd, (struct sockaddr *)&ss, &n) == 0;
	(void)close(fd);
	return linked;
}

static void gates(struct conn *c, const struct msg_ask *m)
{
	static const size_t beside[][2] = { { 8, 16 }, { 2, 16 }, { 0, 28 }, { GATES_BYTES, 16 } };
	char *page = (char *)(uintptr_t)c->w->gates;
	struct msg_reject rej = { .reason = REASON_INTERNAL };
	unsigned written = 0, linked = 0, asked = 0;
	int error;

	for (size_t i = 0; page && i < GATES_MAX; i++) {
		written += c->w->gates[i].sin_port != 0;
		linked += leads(page + i * GATE_BYTES, GATE_BYTES, &error);
	}
	for (size_t i = 0; page && i < ARRAY_LEN(beside); i++) {
		linked += leads(page + beside[i][0], beside[i][1], &error);
		asked += error == EPERM || error == EFAULT; /* the monitor's own answers */
	}
	(void)snprintf(rej.text, sizeof(rej.text), "written-%u-linked-%u-asked-%u-kept-%u", written,
		       linked, asked, page ? page_kept(page) : 0);
	reject_send(c, &rej);
	c->num = c->w->next_num++;
	put_ask(c, m, c->num);
	say(c);
}

static void crash(struct conn *c, const struct msg_ask *m)
{
	(void)c;
	(void)m;
	abort();
}

static const struct {
	const char *name;
	void (*act)(struct conn *c, const struct msg_ask *m);
} acts[] = {
	{ "forged-dialed", forged_dialed },
	{ "truncated", truncated },
	{ "oversized", oversized },
	{ "unknown-type", unknown_type },
	{ "wrong-direction", wrong_direction },
	{ "wrong-state", wrong_state },
	{ "reused-conn", reused_conn },
	{ "surprise-fd", surprise_fd },
	{ "control-byte", control_byte },
	{ "reordered", reordered },
	{ "unasked-candidates", candidates },
	{ "early-bytes", early_bytes },
	{ "flood", flood },
	{ "elsewhere", elsewhere },
	{ "datagram", datagram },
	{ "fast-open", fast_open },
	{ "message", message },
	{ "name", unasked_name },
	{ "transparent", as_transparent },
	{ "names-socket", names_socket },
	{ "false-ends", false_ends },
	{ "gates", gates },
	{ "crash", crash },
};

static uint32_t armed; /* the connection whose DIALED or DONE will be a lie */

static bool is_act(const struct conn *c, const char *act)
{
	const char *name = getenv("WEIR_TEST_MISBEHAVE");

	return name && c->num == armed && str_eq(name, act);
}

/* after a true verdict: another address, a connection that was never asked for */
bool misbehave_dialed(struct conn *c)
{
	static const uint8_t metadata[4] = { 169, 254, 169, 254 }, denied[4] = { 93, 184, 216, 36 },
			     web[4] = { 93, 184, 216, 34 };

	if (is_act(c, "dialed-metadata"))
		dialed_as(c, c->num, metadata);
	else if (is_act(c, "dialed-denied"))
		dialed_as(c, c->num, denied);
	else if (is_act(c, "wrong-conn"))
		dialed_as(c, c->num + 100, web);
	else
		return false;
	return true;
}

/* the verdict of a connection that is over, once more */
bool misbehave_done(struct conn *c)
{
	static const uint8_t web[4] = { 93, 184, 216, 34 };

	if (!is_act(c, "reused-verdict"))
		return false;
	armed = 0;
	done_send(c, REASON_CLOSED);
	dialed_as(c, c->num, web);
	return true;
}

bool misbehave_outside(void)
{
	const char *name = getenv("WEIR_TEST_MISBEHAVE");

	return name && str_eq(name, "outside");
}

bool misbehave_ask(struct conn *c, const struct msg_ask *m)
{
	const char *name = getenv("WEIR_TEST_MISBEHAVE");

	if (!name || !strstr(m->host, "misbehave"))
		return false;
	armed = c->num;
	to_monitor_turn(c->w);
	for (size_t i = 0; i < ARRAY_LEN(acts); i++) {
		if (str_eq(acts[i].name, name)) {
			acts[i].act(c, m);
			return true;
		}
	}
	return false;
}
#endif
