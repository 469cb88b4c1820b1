/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_pty_relay_test.c - bytes between two terminals, and what holds them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <ev.h>
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "broker/monitor/pty_relay.h"
#include "common/fd.h"
#include "common/scope.h"

static struct ev_loop *loop;
static struct pty_relay *r;
static int screen, tty; /* the terminal emulator's side, and weir's */
static int inside;	/* the command's side of the other one */
static bool ended, gone, ready, may;
static char keys[64];
static size_t nkeys;

static void on_ended(void *arg)
{
	(void)arg;
	ended = true;
}

static void on_gone(void *arg)
{
	(void)arg;
	gone = true;
}

static void on_eof(void *arg)
{
	(void)arg;
}

static bool may_read(void *arg)
{
	(void)arg;
	return may;
}

static void on_ready(void *arg)
{
	(void)arg;
	ready = true;
}

static void on_keys(void *arg, const char *buf, size_t len)
{
	(void)arg;
	assert_true(nkeys + len <= sizeof(keys));
	memcpy(keys + nkeys, buf, len);
	nkeys += len;
}

static int raw_pair(int *a, int *b)
{
	struct termios raw;

	if (openpty(a, b, NULL, NULL, NULL) < 0 || tcgetattr(*b, &raw) < 0)
		return -1;
	cfmakeraw(&raw);
	return tcsetattr(*b, TCSANOW, &raw) < 0 ? -1 : fd_set_nonblock(*a, true);
}

static int relay_open(void **state)
{
	int master;

	(void)state;
	ended = gone = ready = false;
	may = true;
	nkeys = 0;
	loop = ev_loop_new(EVFLAG_NOENV | EVBACKEND_EPOLL);
	r = calloc(1, sizeof(*r));
	if (!loop || !r || raw_pair(&screen, &tty) < 0 || raw_pair(&master, &inside) < 0 ||
	    fd_set_nonblock(tty, true) < 0)
		return -1;
	r->in = r->out = (struct pty_end){ tty, false, true };
	r->may_read = may_read;
	r->ended = on_ended;
	r->gone = on_gone;
	r->eof = on_eof;
	pty_relay_start(r, loop, master);
	pty_relay_keys(r, true);
	return 0;
}

static int relay_close(void **state)
{
	(void)state;
	pty_relay_stop(r);
	free(r);
	ev_loop_destroy(loop);
	(void)close(screen);
	(void)close(tty);
	if (inside >= 0)
		(void)close(inside);
	return 0;
}

static void turns(int n)
{
	while (n-- > 0)
		(void)ev_run(loop, EVRUN_NOWAIT);
}

static void say(const char *text)
{
	assert_int_equal(write(inside, text, strlen(text)), (ssize_t)strlen(text));
	(void)ev_run(loop, EVRUN_ONCE);
	turns(4);
}

/* Keys of the person; relayed when this returns. */
static void type(const void *text, size_t len)
{
	assert_int_equal(write(screen, text, len), (ssize_t)len);
	(void)ev_run(loop, EVRUN_ONCE);
	turns(4);
}

/* What the person sees now. */
static const char *seen(void)
{
	static char buf[256];
	ssize_t n = read(screen, buf, sizeof(buf) - 1);

	buf[n > 0 ? n : 0] = '\0';
	return buf;
}

static void every_byte_passes_both_ways_and_the_end_is_told(void **state)
{
	static uint8_t sent[200000], got[sizeof(sent)];
	size_t n = 0, put = 0;
	char back[300];

	(void)state;
	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (uint8_t)(i * 7 + i / 251);
	assert_int_equal(fd_set_nonblock(inside, true), 0);
	for (int turn = 0; turn < 1000000 && n < sizeof(got); turn++) {
		ssize_t w = put < sizeof(sent) ? write(inside, sent + put, sizeof(sent) - put) : 0;
		ssize_t k;

		put += w > 0 ? (size_t)w : 0;
		turns(1);
		k = read(screen, got + n, sizeof(got) - n);
		n += k > 0 ? (size_t)k : 0;
	}
	assert_int_equal(n, sizeof(got));
	assert_memory_equal(sent, got, sizeof(got));
	type(sent, 256);
	n = 0;
	for (int turn = 0; turn < 1000000 && n < 256; turn++) {
		ssize_t k = read(inside, back + n, sizeof(back) - n);

		n += k > 0 ? (size_t)k : 0;
		turns(1);
	}
	assert_int_equal(n, 256);
	assert_memory_equal(back, sent, 256);
	assert_false(ended);
	(void)close(inside);
	inside = -1;
	(void)ev_run(loop, EVRUN_ONCE);
	assert_true(ended && pty_relay_done(r));
}

static void what_was_written_before_the_end_is_not_waited_for_longer(void **state)
{
	(void)state;
	assert_int_equal(write(inside, "last", 4), 4);
	pty_relay_ending(r); /* somebody inside still has it open */
	assert_true(ended && pty_relay_done(r));
	assert_string_equal(seen(), "last");
}

static void keys_that_are_not_ours_stay_where_they_are(void **state)
{
	char c;

	(void)state;
	may = false;
	type("x", 1);
	assert_int_equal(read(tty, &c, 1), 1);
	assert_int_equal(c, 'x');
}

static void a_hold_takes_keys_and_screen_at_once_when_at_rest(void **state)
{
	char c;

	(void)state;
	say("\x1b[1mtext");
	assert_string_equal(seen(), "\x1b[1mtext");
	assert_int_equal(pty_relay_hold(r, on_ready, on_keys, NULL), 0);
	assert_true(ready);
	assert_int_equal(pty_relay_hold(r, on_ready, on_keys, NULL), -EBUSY);
	say("held");
	assert_string_equal(seen(), "");
	assert_int_equal(pty_relay_write(r, "ask?", 4), 0);
	assert_string_equal(seen(), "ask?");
	type("y", 1);
	assert_int_equal(nkeys, 1);
	assert_int_equal(keys[0], 'y');
	assert_int_equal(fd_set_nonblock(inside, true), 0);
	assert_int_equal(read(inside, &c, 1), -1); /* no key reached the command */
	pty_relay_release(r);
	turns(4);
	assert_string_equal(seen(), "held");
	type("z", 1);
	assert_int_equal(read(inside, &c, 1), 1);
	assert_int_equal(c, 'z');
	assert_int_equal(nkeys, 1);
}

static void a_hold_waits_for_the_end_of_a_sequence(void **state)
{
	(void)state;
	say("\x1b]0;ti");
	assert_string_equal(seen(), "\x1b]0;ti");
	assert_int_equal(pty_relay_hold(r, on_ready, on_keys, NULL), 0);
	assert_false(ready);
	say("tle\x07 more");
	assert_true(ready);
	assert_string_equal(seen(), "tle\x07");
	pty_relay_release(r);
	turns(4);
	assert_string_equal(seen(), " more");
}

static void a_sequence_without_end_is_broken_off(void **state)
{
	(void)state;
	say("\x1b]0;endless");
	(void)seen();
	assert_int_equal(pty_relay_hold(r, on_ready, on_keys, NULL), 0);
	for (int i = 0; i < 1000 && !ready; i++)
		(void)ev_run(loop, EVRUN_ONCE); /* the timer */
	assert_true(ready);
	assert_string_equal(seen(), "\x18");
	pty_relay_release(r);
}

static void a_terminal_that_goes_away_is_told(void **state)
{
	(void)state;
	(void)close(screen);
	screen = -1;
	(void)ev_run(loop, EVRUN_ONCE);
	turns(4);
	assert_true(gone);
}

#define T(name) cmocka_unit_test_setup_teardown(name, relay_open, relay_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(every_byte_passes_both_ways_and_the_end_is_told),
		T(what_was_written_before_the_end_is_not_waited_for_longer),
		T(keys_that_are_not_ours_stay_where_they_are),
		T(a_hold_takes_keys_and_screen_at_once_when_at_rest),
		T(a_hold_waits_for_the_end_of_a_sequence),
		T(a_sequence_without_end_is_broken_off),
		T(a_terminal_that_goes_away_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
