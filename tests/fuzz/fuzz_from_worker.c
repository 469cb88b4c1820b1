/* SPDX-License-Identifier: ISC */
/* tests/fuzz/fuzz_from_worker.c - any sequence of messages against the monitor's receive table.
 * Input: messages one after another, each a u16 length (little endian) and its bytes; a message
 * whose first byte is 0xff goes to the shim's table, 0xfd and 0xfc too, with one and with two descriptors,
 * 0xfe to the nursery's. The length field of a
 * head is set right unless its version byte is odd, so that most inputs get past the head.
 * A seed whose name begins with honest- is accepted message for message; of refused-, the last one is not.
 * What must hold: nothing that was refused is dialled, no table grows beyond its bound. */
#include <assert.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/monitor/audit.h"
#include "broker/monitor/from_nursery.h"
#include "broker/monitor/from_shim.h"
#include "broker/monitor/from_worker.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/state.h"
#include "broker/monitor/workers.h"
#include "common/err.h"
#include "common/fd.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *fuzz_seed(const char *name, const uint8_t *data, size_t len);

#define STEPS_MAX 256

static const char rules[] = "include none\naudit off\nallow a.example\nallow b.example private\n"
			    "allow *.c.example:443\ndeny d.c.example\nallow 10.1.0.0/16:22\n"
			    "deny 10.9.0.0/16\nallow localhost private\n";

static struct sandbox_plan plan = { .listeners = true, .transparent = true };
static struct run run = { .plan = &plan, .id = "0123456789ab", .status_fd = -1, .quiet = true };
static struct monitor m;
static struct err err;

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

/* The sockets of nobody: what the monitor sends fills them up and is then queued. */
static int ends[2];

static void monitor_make(void)
{
	int sv[2];

	memset(&m, 0, sizeof(m));
	if (monitor_init(&m, &run) < 0 || fd_pair(sv) < 0)
		abort();
	m.err = &err;
	m.hosts.path = "/nonexistent";
	m.worker_sock = sv[0];
	ends[0] = sv[1];
	if (fd_pair(sv) < 0)
		abort();
	m.nursery_sock = sv[0];
	ends[1] = sv[1];
	m.nursery = NURSERY_UP;
	m.starts = 1;
	m.phase = PHASE_SERVE;
	m.worker = WORKER_STARTING;
	m.own_at = ev_now(m.loop) + 1e6; /* the list of own addresses is this one */
	m.nown = (size_t)(addr_parse(&m.own[0], "93.184.216.34") == 0);
	m.resolv.path = "/nonexistent";
	m.resolv.have = true;
}

/* A connection that is open was dialled where its verdict let it. */
static void conns_check(void)
{
	assert(m.conns.n <= m.conns.max);
	assert(m.queued <= m.queue_max);
	assert(m.names.n <= STEPS_MAX); /* one for a message at most */
	for (size_t i = 0; i < CONN_TABLE_BUCKETS; i++) {
		for (const struct conn *c = m.conns.bucket[i]; c; c = c->next) {
			const struct policy_rule *by = NULL;

			assert(c->num <= m.conns.last);
			assert(c->state > CONN_OVER && c->state < CONN_STATE_COUNT);
			assert((c->state == CONN_OPEN) == (c->addr.family != 0));
			if (c->state == CONN_OPEN)
				assert(policy_judge_addr(run.policy, &c->target, &c->match,
							 &c->addr, monitor_is_own(&m, &c->addr),
							 &by) == REASON_NONE);
		}
	}
}

static int shim_says(const uint8_t *msg, size_t len, size_t nfds)
{
	int fds[2]; /* the receiver's, whatever it says to them */

	for (size_t i = 0; i < nfds; i++) {
		fds[i] = fcntl(ends[0], F_DUPFD_CLOEXEC, 0);
		if (fds[i] < 0)
			abort();
	}
	return from_shim(&m, msg, len, fds, nfds);
}

/* of the last input: how many messages, and which of them was refused first, from 1; 0: none */
static int nsteps, first_refused;

static int step(uint8_t *msg, size_t len)
{
	uint16_t length = (uint16_t)len;
	uint8_t who = len > 0 ? msg[0] : 0;
	int r;

	if (who >= 0xfc) {
		msg++;
		len--;
		length--;
	}
	if (len >= sizeof(struct msg_head) && !(msg[1] & 1)) {
		msg[1] = MSG_VERSION;
		memcpy(msg + offsetof(struct msg_head, length), &length, sizeof(length));
	}
	nsteps++;
	if (who == 0xfe)
		r = from_nursery(&m, msg, len, NULL, 0);
	else if (who >= 0xfc)
		r = shim_says(msg, len, who == 0xff ? 0 : 0xfeu - who);
	else
		r = from_worker(&m, msg, len, NULL, 0);
	if (r < 0 && first_refused == 0)
		first_refused = nsteps;
	return who < 0xfc ? r : 0;
}

const char *fuzz_seed(const char *name, const uint8_t *data, size_t len)
{
	(void)LLVMFuzzerTestOneInput(data, len);
	if (strncmp(name, "honest-", 7) == 0)
		return first_refused ? "a message is refused" : NULL;
	if (strncmp(name, "refused-", 8) == 0)
		return first_refused == 0	? "nothing is refused"
		       : first_refused < nsteps ? "not the last message is refused"
						: NULL;
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t msg[MSG_MAX];

	if (!run.policy)
		policy_make();
	monitor_make();
	nsteps = first_refused = 0;
	for (int i = 0; i < STEPS_MAX && size >= 2; i++) {
		size_t len = (size_t)data[0] | (size_t)data[1] << 8;

		data += 2;
		size -= 2;
		if (len > size)
			len = size;
		if (len > sizeof(msg))
			len = sizeof(msg);
		memcpy(msg, data, len);
		data += len;
		size -= len;
		if (step(msg, len) < 0)
			break; /* the worker is ended: nothing more of it is read */
		conns_check();
	}
	conns_check();
	(void)close(ends[0]);
	(void)close(ends[1]);
	monitor_free(&m);
	return 0;
}
