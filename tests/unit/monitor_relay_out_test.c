/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_relay_out_test.c - terminals stay outside; what is no terminal passes as it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "broker/monitor/relay_out.h"
#include "common/err.h"
#include "common/fd.h"
#include "common/scope.h"

static int outer, tty; /* the terminal emulator's side, and weir's */
static struct ev_loop *loop;
static struct relay_out relay;
static const bool none[3];
static bool ended;

static void on_ended(void *arg)
{
	(void)arg;
	ended = true;
}

static int tty_open(void **state)
{
	struct termios raw;

	(void)state;
	ended = false;
	loop = ev_loop_new(EVFLAG_NOENV | EVBACKEND_EPOLL);
	if (!loop || openpty(&outer, &tty, NULL, NULL, NULL) < 0 || tcgetattr(tty, &raw) < 0)
		return -1;
	cfmakeraw(&raw);
	return tcsetattr(tty, TCSANOW, &raw) < 0 ? -1 : fd_set_nonblock(outer, true);
}

static int tty_close(void **state)
{
	(void)state;
	relay_out_free(&relay);
	ev_loop_destroy(loop);
	(void)close(outer);
	(void)close(tty);
	return 0;
}

static void what_is_no_terminal_passes_untouched(void **state)
{
	int p[2], stdio[3];

	(void)state;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	stdio[0] = p[0];
	stdio[1] = stdio[2] = p[1];
	assert_int_equal(relay_out_open(&relay, stdio, none, NULL), 0);
	assert_false(relay.any);
	assert_int_equal(stdio[0], p[0]);
	assert_int_equal(stdio[1], p[1]);
	assert_int_equal(stdio[2], p[1]);
	relay_out_started(&relay, loop, on_ended, NULL);
	assert_true(relay_out_done(&relay));
	(void)close(p[0]);
	(void)close(p[1]);
}

static void no_terminal_enters(void **state)
{
	int stdio[3] = { tty, tty, tty };
	struct stat st, null;

	(void)state;
	assert_int_equal(relay_out_open(&relay, stdio, none, NULL), 0);
	for (int i = 0; i < 3; i++)
		assert_false(isatty(stdio[i]));
	assert_int_equal(fstat(stdio[0], &st), 0);
	assert_int_equal(stat("/dev/null", &null), 0);
	assert_int_equal(st.st_rdev, null.st_rdev);
	assert_int_equal(stdio[1], stdio[2]); /* one pipe: the order of output and errors stays */
	relay_out_started(&relay, loop, on_ended, NULL);
}

static void only_the_terminal_among_them_is_replaced(void **state)
{
	SCOPED_FD int file = open("/dev/null", O_RDWR | O_CLOEXEC);
	int stdio[3] = { file, file, tty };

	(void)state;
	assert_int_equal(relay_out_open(&relay, stdio, none, NULL), 0);
	assert_int_equal(stdio[0], file);
	assert_int_equal(stdio[1], file);
	assert_int_not_equal(stdio[2], tty);
	relay_out_started(&relay, loop, on_ended, NULL);
}

/* As the child does: a copy of its own, whose end ends the relay. */
static int inside_of(int stdio[3])
{
	int fd;

	assert_int_equal(relay_out_open(&relay, stdio, none, NULL), 0);
	fd = dup(stdio[1]);
	relay_out_started(&relay, loop, on_ended, NULL);
	return fd;
}

static void every_byte_arrives_unchanged_and_then_it_ends(void **state)
{
	int stdio[3] = { tty, tty, tty }, inside = inside_of(stdio);
	static uint8_t sent[60000], got[sizeof(sent)];
	size_t n = 0, put = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (uint8_t)(i * 7 + i / 251);
	assert_int_equal(fd_set_nonblock(inside, true), 0);
	for (int turn = 0; turn < 100000 && n < sizeof(got); turn++) {
		ssize_t w = put < sizeof(sent) ? write(inside, sent + put, sizeof(sent) - put) : 0;
		ssize_t r;

		put += w > 0 ? (size_t)w : 0;
		(void)ev_run(loop, EVRUN_NOWAIT);
		r = read(outer, got + n, sizeof(got) - n);
		n += r > 0 ? (size_t)r : 0;
	}
	assert_int_equal(n, sizeof(got));
	assert_memory_equal(sent, got, sizeof(got));
	assert_false(ended);
	(void)close(inside);
	(void)ev_run(loop, EVRUN_ONCE);
	assert_true(ended);
	assert_true(relay_out_done(&relay));
}

static void a_held_terminal_holds_the_command_not_the_monitor(void **state)
{
	int stdio[3] = { tty, tty, tty }, inside = inside_of(stdio);
	static char block[65536];
	size_t total = 0;
	ssize_t n;

	(void)state;
	assert_int_equal(fd_set_nonblock(inside, true), 0);
	for (int turn = 0; turn < 200; turn++) { /* nobody reads the terminal */
		while ((n = write(inside, block, sizeof(block))) > 0)
			total += (size_t)n;
		(void)ev_run(loop, EVRUN_NOWAIT);
	}
	assert_int_equal(write(inside, block, 1), -1);
	assert_int_equal(errno, EAGAIN);
	assert_true(total < 512 * 1024); /* a pipe, one buffer, the terminal's own queue */
	(void)close(inside);
}

static void the_users_terminal_stays_blocking(void **state)
{
	int stdio[3] = { tty, tty, tty };
	int inside = inside_of(stdio);

	(void)state;
	assert_int_equal(fcntl(tty, F_GETFL) & O_NONBLOCK, 0);
	(void)close(inside);
}

#define T(name) cmocka_unit_test_setup_teardown(name, tty_open, tty_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(what_is_no_terminal_passes_untouched),
		T(no_terminal_enters),
		T(only_the_terminal_among_them_is_replaced),
		T(every_byte_arrives_unchanged_and_then_it_ends),
		T(a_held_terminal_holds_the_command_not_the_monitor),
		T(the_users_terminal_stays_blocking),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
