/* SPDX-License-Identifier: ISC */
/* tests/unit/common_slice_test.c - short turns for weir, for nobody else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/slice.h"

/** struct attr - what sched_getattr(2) says of a process, first version */
struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

static struct attr now(void)
{
	struct attr a = { .size = sizeof(a) };

	assert_int_equal(syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0), 0);
	return a;
}

static int in_child(int (*body)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static int turns_body(void)
{
	struct attr before = now(), a;
	int status;
	pid_t pid;

	slice_short();
	a = now();
	/* the kernel has no such turns; or this test runs by another policy, or with short ones */
	if (before.runtime <= 100000 || before.policy != SCHED_OTHER)
		return memcmp(&a, &before, sizeof(a)) == 0 ? 77 : 1;
	if (a.runtime >= before.runtime || a.policy != before.policy || a.nice != before.nice)
		return 2;
	pid = fork();
	if (pid == 0) {
		a = now();
		if (a.runtime >= before.runtime)
			_exit(3); /* what it starts has short turns too */
		slice_back();
		a = now();
		_exit(memcmp(&a, &before, sizeof(a)) == 0 ? 0 : 4);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status))
		return 5;
	if (now().runtime >= before.runtime)
		return 6; /* the child's own affair */
	slice_back();
	a = now();
	return memcmp(&a, &before, sizeof(a)) == 0 ? 0 : 7;
}

static void turns_are_short_until_they_are_as_before(void **state)
{
	int r = in_child(turns_body);

	(void)state;
	if (r == 77) {
		print_message(
			"skipped: turns of one's own length are of Linux 6.12 and SCHED_OTHER\n");
		skip();
	}
	assert_int_equal(r, 0);
}

static int batch_body(void)
{
	const struct sched_param p = { .sched_priority = 0 };
	struct attr before, a;

	if (sched_setscheduler(0, SCHED_BATCH, &p) < 0)
		return 1;
	before = now();
	slice_short();
	a = now();
	if (memcmp(&a, &before, sizeof(a)) != 0)
		return 2;
	slice_back();
	a = now();
	return memcmp(&a, &before, sizeof(a)) == 0 ? 0 : 3;
}

static void a_policy_that_somebody_chose_stays(void **state)
{
	(void)state;
	assert_int_equal(in_child(batch_body), 0);
}

/* Another process is kept off this one's processor, where it has one besides, and lets itself go again. */
static int apart_body(void)
{
	cpu_set_t before, theirs;
	int to[2], back[2];
	char byte;
	pid_t pid;

	if (sched_getaffinity(0, sizeof(before), &before) < 0 || pipe(to) < 0 || pipe(back) < 0)
		return 1;
	slice_keep();
	pid = fork();
	if (pid == 0) {
		(void)close(to[1]); /* it ends with this test */
		if (read(to[0], &byte, 1) != 1)
			_exit(2);
		slice_anywhere();
		_exit(write(back[1], "", 1) == 1 && read(to[0], &byte, 1) == 1 ? 0 : 3);
	}
	/* pinned, so that which processor this is cannot change meanwhile */
	CPU_ZERO(&theirs);
	CPU_SET((size_t)sched_getcpu(), &theirs);
	if (pid < 0 || sched_setaffinity(0, sizeof(theirs), &theirs) < 0)
		return 4;
	slice_apart(pid);
	if (sched_getaffinity(pid, sizeof(theirs), &theirs) < 0 ||
	    CPU_COUNT(&theirs) != (CPU_COUNT(&before) > 1 ? CPU_COUNT(&before) - 1 : 1) ||
	    (CPU_COUNT(&before) > 1 && CPU_ISSET((size_t)sched_getcpu(), &theirs)))
		return 5;
	if (write(to[1], "", 1) != 1 || read(back[0], &byte, 1) != 1 ||
	    sched_getaffinity(pid, sizeof(theirs), &theirs) < 0 || !CPU_EQUAL(&theirs, &before))
		return 6;
	return write(to[1], "", 1) == 1 && waitpid(pid, NULL, 0) == pid ? 0 : 7;
}

static void one_process_is_kept_apart_from_another_for_a_while(void **state)
{
	(void)state;
	assert_int_equal(in_child(apart_body), 0);
}

static int never_body(void)
{
	struct attr before = now(), a;

	slice_back();
	a = now();
	return memcmp(&a, &before, sizeof(a)) == 0 ? 0 : 1;
}

static void what_was_never_changed_is_not_set_back(void **state)
{
	(void)state;
	assert_int_equal(in_child(never_body), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turns_are_short_until_they_are_as_before),
		cmocka_unit_test(a_policy_that_somebody_chose_stays),
		cmocka_unit_test(one_process_is_kept_apart_from_another_for_a_while),
		cmocka_unit_test(what_was_never_changed_is_not_set_back),
	};

	return cmocka_run_group_tests_name("slice", tests, NULL, NULL);
}
