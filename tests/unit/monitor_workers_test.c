/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_workers_test.c - a worker dies, breaks the protocol, is replaced, is stopped;
 * the shim and the nursery speak out of turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/unit/monitor_fixture.h"

static struct fx f;
static const char rules[] = "allow a.example\n";

static int open_it(void **state)
{
	(void)state;
	fx_open(&f, rules);
	return 0;
}

static int close_it(void **state)
{
	(void)state;
	fx_close(&f);
	return 0;
}

static size_t count(const char *text, const char *word)
{
	size_t n = 0;

	while ((text = strstr(text, word))) {
		n++;
		text++;
	}
	return n;
}

/* One open connection of the present worker. */
static void conn_open(uint32_t num)
{
	struct msg_verdict v;

	assert_int_equal(fx_ask(&f, num, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(v.allow, 1);
	assert_int_equal(fx_dialed(&f, num, "8.8.8.8"), 0);
}

static void a_dead_worker_is_replaced_and_its_connections_are_recorded(void **state)
{
	(void)state;
	conn_open(1);
	conn_open(2);
	scope_close(&f.worker);
	f.worker = -1;
	from_worker_ready(&f.m);
	fx_worker_take(&f);
	assert_int_equal(f.m.conns.n, 0);
	assert_int_equal(count(fx_audit(&f), "\"reason\":\"worker_died\""), 2);
	assert_int_equal(count(fx_audit(&f), "\"event\":\"worker_replaced\""), 1);
	assert_int_equal(count(fx_audit(&f), "protocol_error"), 0);
	assert_int_equal(fx_say_empty(&f, MSG_READY, 0), 0);
	conn_open(1); /* the new worker counts from one again */
}

static void a_worker_that_breaks_the_protocol_is_cut_off_and_named(void **state)
{
	char c;

	(void)state;
	conn_open(1);
	wr_open(&f.w, MSG_CANDIDATES, 1);
	(void)fx_done(&f);
	assert_int_equal(send(f.worker, f.w.buf, f.w.len, 0), (ssize_t)f.w.len);
	from_worker_ready(&f.m);
	assert_int_equal(recv(f.worker, &c, 1, 0), 0); /* the old socket is closed */
	assert_non_null(strstr(fx_audit(&f), "\"event\":\"protocol_error\",\"from\":\"worker\","
					     "\"message\":\"CANDIDATES\""));
	assert_int_equal(count(fx_audit(&f), "\"reason\":\"worker_died\""), 1);
	fx_worker_take(&f);
}

static void a_descriptor_from_the_worker_ends_it(void **state)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	wr_open(&f.w, MSG_STATS, 0);
	msg_put_stats(&f.w, &(struct msg_stats){ 0 });
	assert_int_equal(wr_send(&f.w, f.worker, &null, 1), 0);
	from_worker_ready(&f.m);
	assert_non_null(strstr(fx_audit(&f), "\"message\":\"STATS\""));
	fx_worker_take(&f);
	(void)close(null);
}

static int listener(struct sockaddr_in *at)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*at);

	*at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	assert_int_equal(bind(fd, (struct sockaddr *)at, sizeof(*at)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)at, &len), 0);
	return fd;
}

static int connect_errno(const struct sockaddr_in *at)
{
	SCOPED_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return connect(fd, (const struct sockaddr *)at, sizeof(*at)) < 0 ? errno : 0;
}

static void the_fifth_death_within_a_minute_closes_the_network(void **state)
{
	struct sockaddr_in at;
	int copy;

	(void)state;
	f.m.listeners[0] = listener(&at);
	f.m.nlisteners = 1;
	copy = dup(f.m.listeners[0]); /* the worker's own: shut with it */
	for (int i = 0; i < DEATHS_MAX; i++) {
		assert_int_equal(connect_errno(&at), 0);
		scope_close(&f.worker);
		f.worker = -1;
		from_worker_ready(&f.m);
		if (i < DEATHS_MAX - 1) {
			fx_worker_take(&f);
			fx_hear(&f, MSG_LISTEN);
		}
	}
	assert_int_equal(f.m.worker, WORKER_OFF);
	assert_int_equal(f.m.nursery, NURSERY_UP); /* it guards the runtime entry */
	assert_int_equal(f.m.worker_sock, -1);
	fx_nursery_hear(&f, MSG_STOP);
	assert_int_equal(connect_errno(&at), ECONNREFUSED);
	assert_int_equal(count(fx_audit(&f), "\"event\":\"worker_replaced\""), DEATHS_MAX - 1);
	assert_int_equal(count(fx_audit(&f), "\"event\":\"network_closed\""), 1);
	assert_int_equal(f.m.phase, PHASE_SERVE); /* the command goes on */
	(void)close(copy);
}

static void deaths_far_apart_do_not_add_up(void **state)
{
	(void)state;
	for (int i = 0; i < 3 * DEATHS_MAX; i++) {
		for (size_t k = 0; k < DEATHS_MAX; k++)
			f.m.deaths[k] -= DEATHS_S / 4;
		scope_close(&f.worker);
		f.worker = -1;
		from_worker_ready(&f.m);
		assert_int_equal(f.m.worker, WORKER_STARTING);
		fx_worker_take(&f);
	}
}

static void the_end_waits_for_what_the_worker_still_has_to_say(void **state)
{
	(void)state;
	conn_open(1);
	f.m.shim = SHIM_GONE;
	monitor_end(&f.m, 7);
	fx_hear(&f, MSG_STOP);
	assert_int_equal(f.m.phase, PHASE_DRAIN);
	assert_int_equal(fx_end(&f, 1, 5, 6, REASON_SHUTDOWN), 0);
	assert_int_equal(f.m.phase, PHASE_OVER);
	assert_int_equal(f.m.status, 7);
	assert_non_null(strstr(fx_audit(&f), "\"up\":5,\"down\":6"));
}

static void an_idle_worker_holds_nothing_up(void **state)
{
	(void)state;
	f.m.shim = SHIM_GONE;
	monitor_end(&f.m, 0);
	assert_int_equal(f.m.phase, PHASE_OVER);
}

static void queue_reject(const char *text)
{
	struct msg_reject r = { .proto = PROTO_CONNECT, .reason = REASON_BAD_REQUEST };

	(void)snprintf(r.text, sizeof(r.text), "%s", text);
	wr_open(&f.w, MSG_REJECT, 0);
	msg_put_reject(&f.w, &r);
	(void)fx_done(&f);
	assert_int_equal(send(f.worker, f.w.buf, f.w.len, 0), (ssize_t)f.w.len);
}

static void what_an_idle_worker_said_before_the_end_is_recorded(void **state)
{
	struct msg_ask ask = { .proto = PROTO_CONNECT, .port = 443, .host = "a.example" };

	(void)state;
	queue_reject("first");
	queue_reject("second");
	wr_open(&f.w, MSG_ASK, 1);
	msg_put_ask(&f.w, &ask);
	(void)fx_done(&f);
	assert_int_equal(send(f.worker, f.w.buf, f.w.len, 0), (ssize_t)f.w.len);
	f.m.shim = SHIM_GONE;
	monitor_end(&f.m, 0);
	assert_int_equal(f.m.worker, WORKER_OFF);
	assert_int_equal(f.m.phase, PHASE_OVER);
	assert_int_equal(count(fx_audit(&f), "\"host\":\"first\""), 1);
	assert_int_equal(count(fx_audit(&f), "\"host\":\"second\""), 1);
	assert_int_equal(count(fx_audit(&f), "\"event\":\"verdict\""), 3);
	assert_int_equal(count(fx_audit(&f), "\"reason\":\"shutdown\""), 1);
}

static void a_broken_last_word_is_named_and_holds_nothing_up(void **state)
{
	(void)state;
	queue_reject("first");
	wr_open(&f.w, MSG_CANDIDATES, 1);
	(void)fx_done(&f);
	assert_int_equal(send(f.worker, f.w.buf, f.w.len, 0), (ssize_t)f.w.len);
	f.m.shim = SHIM_GONE;
	monitor_end(&f.m, 0);
	assert_int_equal(f.m.worker, WORKER_OFF);
	assert_int_equal(f.m.phase, PHASE_OVER);
	assert_int_equal(count(fx_audit(&f), "\"host\":\"first\""), 1);
	assert_int_equal(count(fx_audit(&f), "protocol_error"), 1);
	assert_int_equal(count(fx_audit(&f), "worker_replaced"), 0);
}

static void a_dead_nursery_ends_the_sandbox(void **state)
{
	(void)state;
	scope_close(&f.nursery);
	f.nursery = -1;
	from_nursery_ready(&f.m);
	assert_true(f.m.killed);
	assert_int_equal(f.m.status, 128 + 9);
	assert_non_null(strstr(fx_audit(&f), "\"event\":\"broker_lost\""));
}

static int nursery_says(unsigned type, uint32_t v)
{
	wr_open(&f.w, type, 0);
	wr_u32(&f.w, v);
	(void)fx_done(&f);
	return from_nursery(&f.m, f.w.buf, f.w.len, NULL, 0);
}

static void the_nursery_tells_of_workers_that_were_asked_for_only(void **state)
{
	(void)state;
	assert_int_equal(nursery_says(MSG_STARTED, 2), 0);
	assert_int_equal(nursery_says(MSG_STARTED, 3), -EBADMSG);
	assert_int_equal(nursery_says(MSG_ENDED, 0x10000), -EBADMSG);
	assert_int_equal(nursery_says(MSG_ENDED, 31), 0);
	assert_int_equal(nursery_says(MSG_ENDED, 31), -EBADMSG);
	assert_int_equal(nursery_says(MSG_EXITED, 0), -EBADMSG);
	assert_non_null(strstr(fx_audit(&f), "\"event\":\"worker_ended\",\"signal\":31"));
}

/* ---- the shim ---- */

static int shim_says(unsigned type, uint32_t v)
{
	wr_open(&f.w, type, 0);
	wr_u32(&f.w, v);
	(void)fx_done(&f);
	return from_shim(&f.m, f.w.buf, f.w.len, NULL, 0);
}

static uint8_t with_tty; /* LISTENERS says so */
static uint16_t with_no_route;

static int shim_listeners_says(unsigned nlisten, unsigned diag, unsigned proc, size_t nfds)
{
	int fds[5];

	for (size_t i = 0; i < nfds; i++)
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	wr_open(&f.w, MSG_LISTENERS, 0);
	wr_u8(&f.w, (uint8_t)nlisten);
	wr_u8(&f.w, (uint8_t)diag);
	wr_u8(&f.w, (uint8_t)proc);
	wr_u8(&f.w, with_tty);
	wr_u16(&f.w, with_no_route);
	(void)fx_done(&f);
	return from_shim(&f.m, f.w.buf, f.w.len, fds, nfds);
}

static void the_shim_brings_as_many_descriptors_as_it_says(void **state)
{
	(void)state;
	assert_int_equal(shim_listeners_says(2, 1, 1, 3), -EBADMSG);
	assert_int_equal(shim_listeners_says(1, 0, 0, 2), -EBADMSG);
	assert_int_equal(shim_listeners_says(3, 0, 0, 3), -EBADMSG);
	assert_int_equal(shim_listeners_says(0, 1, 1, 2), -EBADMSG); /* allowlist needs listeners */
	with_tty = 1; /* nobody asked for a terminal */
	assert_int_equal(shim_listeners_says(2, 1, 1, 5), -EBADMSG);
	with_tty = 0;
	with_no_route = EOPNOTSUPP; /* a route that was asked for, or none */
	assert_int_equal(shim_listeners_says(2, 1, 1, 4), -EBADMSG);
	with_no_route = 0;
	assert_int_equal(shim_listeners_says(2, 1, 1, 4), 0);
	assert_int_equal(f.m.nlisteners, 2);
	assert_true(f.m.diag_fd >= 0 && f.m.proc_fd >= 0);
	fx_hear(&f, MSG_LISTEN);
	assert_int_equal(shim_listeners_says(2, 1, 1, 4), -EBADMSG); /* once */
}

static int shim_route_says(enum msg_route_kind kind)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	wr_open(&f.w, MSG_ROUTE, 0);
	msg_put_route(&f.w, &(struct msg_route){ .kind = (uint8_t)kind });
	(void)fx_done(&f);
	return from_shim(&f.m, f.w.buf, f.w.len, &fd, 1);
}

static void a_route_that_may_be_absent_is_there_or_is_not(void **state)
{
	(void)state;
	f.m.phase = PHASE_START;
	f.plan.transparent = f.plan.route_optional = true;
	with_no_route = 4096; /* no errno */
	assert_int_equal(shim_listeners_says(1, 0, 0, 1), -EBADMSG);
	with_no_route = EOPNOTSUPP;
	assert_int_equal(shim_listeners_says(1, 0, 0, 1), 0);
	with_no_route = 0;
	assert_false(monitor_is_transparent(&f.m));
	assert_int_equal(shim_route_says(SOCK_REDIRECT), -EBADMSG);
	assert_int_equal(shim_says(MSG_SPAWNED, 2), 0);
}

static void a_route_that_was_promised_comes_before_the_command(void **state)
{
	(void)state;
	f.m.phase = PHASE_START;
	f.plan.transparent = f.plan.route_optional = true;
	assert_int_equal(shim_listeners_says(1, 0, 0, 1), 0);
	assert_true(monitor_is_transparent(&f.m));
	assert_int_equal(shim_says(MSG_SPAWNED, 2), -EBADMSG);
	assert_int_equal(shim_route_says(SOCK_REDIRECT), 0);
	assert_int_equal(shim_route_says(SOCK_NAMES), 0);
	assert_int_equal(shim_says(MSG_SPAWNED, 2), 0);
}

static int shim_stopped_says(uint32_t signo)
{
	wr_open(&f.w, MSG_STOPPED, 0);
	msg_put_stopped(&f.w, &(struct msg_stopped){ .signo = signo });
	(void)fx_done(&f);
	return from_shim(&f.m, f.w.buf, f.w.len, NULL, 0);
}

static void the_shim_speaks_in_its_order(void **state)
{
	(void)state;
	f.m.phase = PHASE_START;
	assert_int_equal(shim_says(MSG_EXITED, 0), -EBADMSG);
	assert_int_equal(shim_stopped_says(SIGTSTP), -EBADMSG); /* nothing runs that could be */
	assert_int_equal(shim_says(MSG_SPAWNED, 2), -EBADMSG);	/* listeners first */
	assert_int_equal(shim_listeners_says(1, 0, 0, 1), 0);
	assert_int_equal(shim_says(MSG_SPAWNED, 0), -EBADMSG);
	assert_int_equal(shim_says(MSG_SPAWNED, 2), 0);
	assert_int_equal(f.m.phase, PHASE_SERVE);
	assert_int_equal(shim_says(MSG_SPAWNED, 2), -EBADMSG);
	assert_int_equal(shim_says(MSG_STOPPED, SIGTSTP), -EBADMSG); /* without its turn */
	assert_int_equal(shim_stopped_says(0), -EBADMSG);
	assert_int_equal(shim_stopped_says(65), -EBADMSG);
	assert_int_equal(shim_stopped_says(SIGSTOP), 0); /* no terminal: nothing follows from it */
	assert_int_equal(shim_says(MSG_EXITED, 0x7f), -EBADMSG); /* stopped is not ended */
	assert_int_equal(shim_says(MSG_EXITED, 15), 0);
	assert_int_equal(f.m.status, 128 + 15);
	assert_int_equal(shim_says(MSG_EXITED, 15), -EBADMSG);
}

static const struct {
	unsigned stage, num;
	int status;
} fails[] = {
	{ STAGE_EXEC, ENOENT, 127 },  { STAGE_EXEC, EACCES, 126 },  { STAGE_EXEC, ENOEXEC, 126 },
	{ STAGE_SETUP, ENOENT, 125 }, { STAGE_CHDIR, ENOENT, 125 },
};

static void an_exec_failure_becomes_an_exit_status(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fails); i++) {
		struct msg_execfail x = { .stage = (uint8_t)fails[i].stage,
					  .num = fails[i].num,
					  .what = "run 'nosuch'",
					  .fix = "type this" };

		f.m.phase = PHASE_START;
		f.m.shim = SHIM_LISTENING;
		f.m.have_status = false;
		wr_open(&f.w, MSG_EXECFAIL, 0);
		msg_put_execfail(&f.w, &x);
		(void)fx_done(&f);
		assert_int_equal(from_shim(&f.m, f.w.buf, f.w.len, NULL, 0), 0);
		assert_int_equal(f.m.status, fails[i].status);
		/* "not found" is not told twice */
		assert_int_equal(f.err.num, fails[i].status == 127 ? 0 : fails[i].num);
		assert_string_equal(f.err.what, "run 'nosuch'");
		assert_string_equal(f.err.fix, "type this");
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, open_it, close_it)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_dead_worker_is_replaced_and_its_connections_are_recorded),
		T(a_worker_that_breaks_the_protocol_is_cut_off_and_named),
		T(a_descriptor_from_the_worker_ends_it),
		T(the_fifth_death_within_a_minute_closes_the_network),
		T(deaths_far_apart_do_not_add_up),
		T(the_end_waits_for_what_the_worker_still_has_to_say),
		T(an_idle_worker_holds_nothing_up),
		T(what_an_idle_worker_said_before_the_end_is_recorded),
		T(a_broken_last_word_is_named_and_holds_nothing_up),
		T(a_dead_nursery_ends_the_sandbox),
		T(the_nursery_tells_of_workers_that_were_asked_for_only),
		T(the_shim_brings_as_many_descriptors_as_it_says),
		T(a_route_that_may_be_absent_is_there_or_is_not),
		T(a_route_that_was_promised_comes_before_the_command),
		T(the_shim_speaks_in_its_order),
		T(an_exec_failure_becomes_an_exit_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
