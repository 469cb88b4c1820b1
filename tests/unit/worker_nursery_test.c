/* SPDX-License-Identifier: ISC */
/* tests/unit/worker_nursery_test.c - the real nursery, executed anew from this very program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/worker/worker.h"
#include "common/err.h"
#include "common/fd.h"
#include "common/msg.h"
#include "common/scope.h"

#define WAIT_MS 60000

struct room {
	int sock, pidfd;
	pid_t pid;
	struct msg_wr wr;
	struct msg_head h;
	struct msg_rd r;
	char buf[MSG_MAX];
};

static ssize_t hear_any(struct room *n, int sock)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	size_t nfds = 1;
	int fd = -1; /* READY brings the listener for the worker's connect() calls */
	ssize_t len;

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	len = fd_recv(sock, n->buf, sizeof(n->buf), &fd, &nfds);
	if (nfds)
		(void)close(fd);
	return len;
}

static void hear(struct room *n, int sock, enum msg_type type)
{
	ssize_t len = hear_any(n, sock);

	assert_true(len > 0);
	assert_int_equal(msg_open(&n->h, &n->r, n->buf, (size_t)len), 0);
	assert_int_equal(n->h.type, type);
}

/* Return: our end of the new worker's socket */
static int start(struct room *n)
{
	int sv[2];

	assert_int_equal(fd_pair(sv), 0);
	wr_open(&n->wr, MSG_START, 0);
	msg_put_start(&n->wr, &(struct msg_start){ 0 });
	assert_int_equal(wr_send(&n->wr, n->sock, &sv[1], 1), 0);
	(void)close(sv[1]);
	return sv[0];
}

/* Return: the nursery's exit status */
static int start_badly(struct room *n, uint8_t gates, uint8_t names, size_t nfds)
{
	int sv[2], fds[4], status;

	assert_int_equal(fd_pair(sv), 0);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = sv[1];
	wr_open(&n->wr, MSG_START, 0);
	msg_put_start(&n->wr, &(struct msg_start){ gates, names });
	assert_int_equal(wr_send(&n->wr, n->sock, fds, nfds), 0);
	(void)close(sv[0]);
	(void)close(sv[1]);
	assert_int_equal(waitpid(n->pid, &status, 0), n->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int setup(void **state)
{
	struct room *n = calloc(1, sizeof(*n));
	struct err e = { 0 };
	int sv[2];

	assert_non_null(n);
	assert_int_equal(fd_pair(sv), 0);
	if (nursery_start(sv[1], &n->pid, &n->pidfd, &e) < 0)
		fail_msg("%s: %s", e.what, strerror(e.num));
	(void)close(sv[1]);
	n->sock = sv[0];
	*state = n;
	return 0;
}

static int teardown(void **state)
{
	struct room *n = *state;

	(void)kill(n->pid, SIGKILL);
	(void)waitpid(n->pid, NULL, 0);
	(void)close(n->pidfd);
	if (n->sock >= 0)
		(void)close(n->sock);
	free(n);
	return 0;
}

static size_t entries(pid_t pid, const char *what)
{
	char path[64];
	struct dirent *e;
	size_t n = 0;
	DIR *d;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
	d = opendir(path);
	assert_non_null(d);
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	(void)closedir(d);
	return n;
}

/* Does a descriptor of @pid lead to @want? */
static bool holds(pid_t pid, const char *want)
{
	char path[64], link[128], target[128];
	struct dirent *e;
	bool found = false;
	DIR *d;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	assert_non_null(d);
	while ((e = readdir(d))) {
		ssize_t len;

		(void)snprintf(link, sizeof(link), "%s/%.20s", path, e->d_name);
		len = readlink(link, target, sizeof(target) - 1);
		target[len > 0 ? len : 0] = '\0';
		found |= str_eq(target, want);
	}
	(void)closedir(d);
	return found;
}

static bool child_holds(pid_t pid, const char *want)
{
	char path[64], text[64] = "";
	FILE *f;
	int child;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	(void)fclose(f);
	child = (int)strtol(text, NULL, 10);
	assert_true(child > 0);
	return holds(child, want);
}

static void worker_is_started_and_gets_ready(void **state)
{
	struct room *n = *state;
	int w = start(n);

	hear(n, n->sock, MSG_STARTED);
	hear(n, w, MSG_READY);
	(void)close(w);
	hear(n, n->sock, MSG_ENDED); /* it ends with its monitor */
	assert_int_equal(rd_u32(&n->r), 0);
}

static void second_start_kills_the_first_worker(void **state)
{
	struct room *n = *state;
	int first = start(n), second;
	uint32_t status;

	hear(n, n->sock, MSG_STARTED);
	hear(n, first, MSG_READY);
	second = start(n);
	hear(n, n->sock, MSG_ENDED);
	status = rd_u32(&n->r);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	hear(n, n->sock, MSG_STARTED);
	assert_int_equal(hear_any(n, first), 0);
	hear(n, second, MSG_READY);
	(void)close(first);
	(void)close(second);
}

static void end_of_the_monitor_is_the_end_of_the_room(void **state)
{
	struct room *n = *state;
	struct pollfd p = { .fd = n->pidfd, .events = POLLIN };
	int w = start(n), status;

	hear(n, n->sock, MSG_STARTED);
	hear(n, w, MSG_READY);
	(void)close(n->sock);
	n->sock = -1;
	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(waitpid(n->pid, &status, 0), n->pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(hear_any(n, w), 0); /* the worker went with it */
	(void)close(w);
}

static void stop_kills_the_worker_and_leaves_the_nursery(void **state)
{
	struct room *n = *state;
	int w = start(n), second;
	uint32_t status;

	hear(n, n->sock, MSG_STARTED);
	hear(n, w, MSG_READY);
	wr_open(&n->wr, MSG_STOP, 0);
	assert_int_equal(wr_send(&n->wr, n->sock, NULL, 0), 0);
	hear(n, n->sock, MSG_ENDED);
	status = rd_u32(&n->r);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(hear_any(n, w), 0);
	second = start(n);
	hear(n, n->sock, MSG_STARTED);
	hear(n, second, MSG_READY);
	(void)close(w);
	(void)close(second);
}

/* ---- the runtime entry ---- */

static char runtime[64];

static void file_make(const char *name)
{
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", runtime, name);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	(void)close(fd);
}

static bool file_there(const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", runtime, name);
	return access(path, F_OK) == 0;
}

static void file_fill(const char *name)
{
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", runtime, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(write(fd, "populated 0\n", 12), 12);
	(void)close(fd);
}

static void file_drop(const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", runtime, name);
	(void)unlink(path);
}

static void entry_say(struct room *n, const char *name)
{
	struct msg_entry x = { .name = "" };
	int dir;

	(void)snprintf(runtime, sizeof(runtime), "/tmp/weir-nursery-test-XXXXXX");
	assert_non_null(mkdtemp(runtime));
	dir = open(runtime, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0);
	(void)snprintf(x.name, sizeof(x.name), "%s", name);
	wr_open(&n->wr, MSG_ENTRY, 0);
	msg_put_entry(&n->wr, &x);
	assert_int_equal(wr_send(&n->wr, n->sock, &dir, 1), 0);
	(void)close(dir);
	file_make("0123456789ab");
	file_make(".0123456789ab");
	file_make("other");
}

static void entry_clean(void)
{
	file_drop("0123456789ab");
	file_drop(".0123456789ab");
	file_drop("other");
	assert_int_equal(rmdir(runtime), 0);
}

static void gone(struct room *n, int want)
{
	int status;

	assert_int_equal(waitpid(n->pid, &status, 0), n->pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == want);
}

static void end_of_the_monitor_removes_its_entry_and_nothing_else(void **state)
{
	struct room *n = *state;

	entry_say(n, "0123456789ab");
	(void)close(n->sock);
	n->sock = -1;
	gone(n, 0);
	assert_false(file_there("0123456789ab"));
	assert_false(file_there(".0123456789ab"));
	assert_true(file_there("other"));
	entry_clean();
}

/* Its last words are unread when it is killed: then the kernel says reset before what it said. */
static void the_entry_goes_although_the_monitor_left_words_unread(void **state)
{
	struct room *n = *state;
	int w;

	entry_say(n, "0123456789ab");
	w = start(n);
	hear(n, w, MSG_READY); /* STARTED waits in our end */
	(void)close(n->sock);
	n->sock = -1;
	gone(n, 0);
	assert_false(file_there("0123456789ab"));
	(void)close(w);
	entry_clean();
}

static void a_name_that_leads_away_ends_the_nursery(void **state)
{
	struct room *n = *state;

	entry_say(n, "../other");
	gone(n, 1);
	assert_true(file_there("other"));
	entry_clean();
}

/* A plain directory stands for the cgroup, a plain file for cgroup.events. */
static void cgroup_say(struct room *n, const char *name)
{
	struct msg_entry x = { .name = "" };
	char path[128];
	int fds[2];

	(void)snprintf(path, sizeof(path), "%s/weir-0123456789ab", runtime);
	assert_int_equal(mkdir(path, 0700), 0);
	fds[0] = open(runtime, O_PATH | O_DIRECTORY | O_CLOEXEC);
	(void)snprintf(path, sizeof(path), "%s/other", runtime);
	fds[1] = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fds[0] >= 0 && fds[1] >= 0);
	(void)snprintf(x.name, sizeof(x.name), "%s", name);
	wr_open(&n->wr, MSG_CGROUP, 0);
	msg_put_entry(&n->wr, &x);
	assert_int_equal(wr_send(&n->wr, n->sock, fds, 2), 0);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void end_of_the_monitor_removes_the_cgroup(void **state)
{
	struct room *n = *state;

	entry_say(n, "0123456789ab");
	file_fill("other"); /* as cgroup.events, never empty */
	cgroup_say(n, "0123456789ab");
	(void)close(n->sock);
	n->sock = -1;
	gone(n, 0);
	assert_false(file_there("weir-0123456789ab"));
	assert_true(file_there("other"));
	entry_clean();
}

static void a_cgroup_that_leads_away_ends_the_nursery(void **state)
{
	struct room *n = *state;
	char path[128];

	entry_say(n, "0123456789ab");
	cgroup_say(n, "../0123456789ab");
	gone(n, 1);
	(void)snprintf(path, sizeof(path), "%s/weir-0123456789ab", runtime);
	assert_int_equal(rmdir(path), 0);
	entry_clean();
}

static void a_worker_does_not_hold_the_directory(void **state)
{
	struct room *n = *state;
	int w;

	entry_say(n, "0123456789ab");
	file_fill("other");
	cgroup_say(n, "0123456789ab");
	w = start(n);
	hear(n, n->sock, MSG_STARTED);
	hear(n, w, MSG_READY);
	/* 0-2 /dev/null, 3 its socket, 4-6 the directories, cgroup.events, 7 the worker's pidfd */
	assert_int_equal(entries(n->pid, "fd"), 8);
	assert_false(child_holds(n->pid, runtime));
	assert_true(holds(n->pid, runtime));
	(void)close(w);
	(void)close(n->sock);
	n->sock = -1;
	gone(n, 0);
	entry_clean();
}

/* Where there is no worker: no room, the same lock, and no START. */
static int guard_setup(void **state)
{
	struct room *n = calloc(1, sizeof(*n));
	struct err e = { 0 };
	int sv[2];

	assert_non_null(n);
	assert_int_equal(fd_pair(sv), 0);
	if (guard_start(sv[1], &n->pid, &n->pidfd, &e) < 0)
		fail_msg("%s: %s", e.what, strerror(e.num));
	(void)close(sv[1]);
	n->sock = sv[0];
	*state = n;
	return 0;
}

static void a_guard_removes_the_entry(void **state)
{
	struct room *n = *state;

	entry_say(n, "0123456789ab");
	(void)close(n->sock);
	n->sock = -1;
	gone(n, 0);
	assert_false(file_there("0123456789ab"));
	assert_true(file_there("other"));
	entry_clean();
}

static void a_guard_starts_no_worker(void **state)
{
	struct room *n = *state;
	int w = start(n);

	gone(n, 1);
	assert_int_equal(hear_any(n, w), 0);
	(void)close(w);
}

static void message_outside_the_table_ends_the_nursery(void **state)
{
	struct room *n = *state;
	int status;

	wr_open(&n->wr, MSG_CUT, 0);
	assert_int_equal(wr_send(&n->wr, n->sock, NULL, 0), 0);
	assert_int_equal(waitpid(n->pid, &status, 0), n->pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

static void start_that_says_other_descriptors_than_came_ends_the_nursery(void **state)
{
	static const struct {
		uint8_t gates, names;
		size_t nfds;
	} bad[] = { { 0, 0, 2 }, { 1, 0, 1 }, { 0, 1, 1 }, { 1, 1, 2 }, { 1, 1, 4 }, { 2, 0, 3 } };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(start_badly(*state, bad[i].gates, bad[i].names, bad[i].nfds), 1);
		assert_int_equal(teardown(state), 0);
		assert_int_equal(setup(state), 0);
	}
}

/* The owner of the room may look into it; nobody inside a sandbox is. */
static void room_holds_urandom_and_no_environment_and_one_socket(void **state)
{
	struct room *n = *state;
	char path[64], byte;
	int w = start(n), fd;

	hear(n, n->sock, MSG_STARTED);
	(void)snprintf(path, sizeof(path), "/proc/%d/environ", n->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, &byte, 1), 0);
	(void)close(fd);
	assert_int_equal(entries(n->pid, "root"), 1);
	assert_int_equal(entries(n->pid, "root/dev"), 1);
	(void)snprintf(path, sizeof(path), "/proc/%d/root/dev/urandom", n->pid);
	assert_int_equal(access(path, R_OK), 0);
	(void)snprintf(path, sizeof(path), "/proc/%d/root/dev/x", n->pid);
	assert_int_equal(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600), -1);
	/* 0-2 /dev/null, 3 its socket, 4 the worker's pidfd */
	assert_int_equal(entries(n->pid, "fd"), 5);
	(void)close(w);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		TEST(worker_is_started_and_gets_ready),
		TEST(second_start_kills_the_first_worker),
		TEST(end_of_the_monitor_is_the_end_of_the_room),
		TEST(stop_kills_the_worker_and_leaves_the_nursery),
		TEST(end_of_the_monitor_removes_its_entry_and_nothing_else),
		TEST(the_entry_goes_although_the_monitor_left_words_unread),
		TEST(a_name_that_leads_away_ends_the_nursery),
		TEST(end_of_the_monitor_removes_the_cgroup),
		TEST(a_cgroup_that_leads_away_ends_the_nursery),
		cmocka_unit_test_setup_teardown(end_of_the_monitor_removes_the_cgroup, guard_setup,
						teardown),
		TEST(a_worker_does_not_hold_the_directory),
		cmocka_unit_test_setup_teardown(a_guard_removes_the_entry, guard_setup, teardown),
		cmocka_unit_test_setup_teardown(a_guard_starts_no_worker, guard_setup, teardown),
		TEST(message_outside_the_table_ends_the_nursery),
		TEST(start_that_says_other_descriptors_than_came_ends_the_nursery),
		TEST(room_holds_urandom_and_no_environment_and_one_socket),
	};

	if (argc > 0 && str_eq(argv[0], NURSERY_ARGV0))
		nursery_main();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
