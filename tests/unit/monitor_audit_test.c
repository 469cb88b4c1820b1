/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_audit_test.c - the audit log: records, escaping, lock, queue, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "broker/monitor/audit.h"
#include "broker/monitor/audit_chain.h"
#include "broker/monitor/audit_file.h"
#include "common/err.h"
#include "common/scope.h"

static int synced; /* calls of fsync */

/* In place of libc's: the log reaches the disk when and only when it says so. */
int fsync(int fd);
int fsync(int fd)
{
	synced += fd >= 0;
	return 0;
}

static char dir[64], file[128], lock[128];

static int dir_make(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/weir-audit-test-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(file, sizeof(file), "%s/audit.jsonl", dir);
	(void)snprintf(lock, sizeof(lock), "%s/%s", dir, AUDIT_LOCK_NAME);
	return 0;
}

static int dir_drop(void **state)
{
	(void)state;
	(void)unlink(file);
	(void)unlink(lock);
	return rmdir(dir);
}

static struct audit *log_open(void)
{
	struct audit *a = audit_new("0123456789ab", "my \"name\"", false);
	struct err e = { 0 };

	assert_non_null(a);
	if (audit_open(a, file, &e) < 0)
		fail_msg("%s", e.what);
	return a;
}

static int lines(char *text, size_t room)
{
	FILE *f = fopen(file, "re");
	size_t n;
	int count = 0;

	assert_non_null(f);
	n = fread(text, 1, room - 1, f);
	text[n] = '\0';
	(void)fclose(f);
	for (char *c = text; *c; c++)
		count += *c == '\n';
	return count;
}

/* Every line holds, and names the one before. */
static void chain_check(const char *text, int want)
{
	char link[CHAIN_HEX + 1] = CHAIN_START;
	const char *prev, *hash;
	int n = 0;

	for (const char *lf; (lf = strchr(text, '\n')); text = lf + 1, n++) {
		size_t len = (size_t)(lf - text);

		if (!chain_find(text, len, &prev, &hash) || !chain_holds(text, len) ||
		    (n > 0 && memcmp(prev, link, CHAIN_HEX) != 0))
			fail_msg("line %d breaks the chain: %.*s", n + 1, (int)len, text);
		memcpy(link, hash, CHAIN_HEX);
	}
	assert_int_equal(*text, '\0');
	assert_int_equal(n, want);
}

/* Another sandbox's monitor, stopped inside the lock. */
static int lock_hold(void)
{
	int fd = open(lock, O_RDWR | O_CLOEXEC);
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &l), 0);
	return fd;
}

static void a_hostile_host_stays_one_escaped_line(void **state)
{
	const struct audit_record rec = {
		.event = "verdict",
		.serial = 7,
		.proto = "connect",
		.host = "a\n\"},{\"x\":\x1b[31m\xe2\x80\xae\\",
		.port = 443,
		.verdict = "deny",
		.reason = REASON_NO_RULE,
	};
	struct audit *a = log_open();
	char text[4096];
	json_t *o;

	(void)state;
	assert_int_equal(audit_write(a, &rec, true), 0);
	assert_int_equal(lines(text, sizeof(text)), 1);
	for (char *c = text; c[1]; c++)
		assert_true(*c >= ' ' && *c <= '~');
	o = json_loads(text, 0, NULL);
	assert_non_null(o);
	assert_string_equal(json_string_value(json_object_get(o, "host")), rec.host);
	assert_string_equal(json_string_value(json_object_get(o, "id")), "0123456789ab.7");
	assert_string_equal(json_string_value(json_object_get(o, "name")), "my \"name\"");
	assert_string_equal(json_string_value(json_object_get(o, "reason")), "no_rule");
	assert_int_equal(json_integer_value(json_object_get(o, "seq")), 1);
	assert_int_equal(strlen(json_string_value(json_object_get(o, "ts"))),
			 strlen("2026-01-02T03:04:05.678901Z"));
	json_decref(o);
	audit_free(a);
}

static void bytes_that_are_no_utf8_are_escaped_too(void **state)
{
	const struct audit_record rec = { .event = "verdict",
					  .host = "a\xff"
						  "b" };
	struct audit *a = log_open();
	char text[4096];

	(void)state;
	assert_int_equal(audit_write(a, &rec, true), 0);
	assert_int_equal(lines(text, sizeof(text)), 1);
	assert_non_null(strstr(text, "\"host\":\"a\\\\xffb\"")
				?: strstr(text, "\"host\":\"a\\\\xFFb\""));
	audit_free(a);
}

/* Three records, each flushed. Return: milliseconds */
static long three(struct audit *a)
{
	const struct audit_record rec = { .event = "verdict", .host = "a.example" };
	struct timespec t0, t1;

	(void)clock_gettime(CLOCK_MONOTONIC, &t0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(audit_write(a, &rec, false), 0);
		audit_flush(a);
	}
	(void)clock_gettime(CLOCK_MONOTONIC, &t1);
	return (t1.tv_sec - t0.tv_sec) * 1000 + (t1.tv_nsec - t0.tv_nsec) / 1000000;
}

static void a_held_lock_queues_and_never_waits_longer_than_200_ms(void **state)
{
	struct audit *a = log_open();
	int held = lock_hold(), late = 0;
	char text[8192];

	(void)state;
	while (three(a) >= 350) { /* a busy machine is late at times, who waits each time always */
		assert_true(++late < 10);
		audit_free(a);
		a = log_open();
	}
	assert_int_equal(audit_queued(a), 3);
	assert_int_equal(lines(text, sizeof(text)), 0);
	assert_int_equal(audit_retry(a), 3);
	(void)close(held);
	assert_int_equal(audit_retry(a), 0);
	assert_int_equal(lines(text, sizeof(text)), 3);
	assert_true(strstr(text, "\"seq\":1,") < strstr(text, "\"seq\":3,"));
	assert_int_equal(audit_lost(a, NULL), 0);
	audit_free(a);
}

static void a_required_record_is_refused_while_the_lock_is_held(void **state)
{
	const struct audit_record rec = { .event = "verdict", .host = "a.example" };
	struct audit *a = log_open();
	int held = lock_hold();

	(void)state;
	assert_int_equal(audit_write(a, &rec, true), -EAGAIN);
	assert_int_equal(audit_queued(a), 0);
	(void)close(held);
	assert_int_equal(audit_write(a, &rec, true), 0);
	audit_free(a);
}

static void the_queue_is_bounded_and_the_rest_is_counted(void **state)
{
	const struct audit_record rec = { .event = "verdict", .host = "a.example" };
	struct audit *a = log_open();
	int held = lock_hold(), why = 0;

	(void)state;
	for (int i = 0; i < AUDIT_QUEUE_MAX + 5; i++)
		assert_int_equal(audit_write(a, &rec, false), 0);
	assert_int_equal(audit_queued(a), AUDIT_QUEUE_MAX);
	assert_int_equal(audit_lost(a, &why), 5);
	assert_int_equal(why, EAGAIN);
	assert_int_equal(audit_close(a, NULL), AUDIT_QUEUE_MAX + 5);
	(void)close(held);
	audit_free(a);
}

static void a_write_that_stops_half_way_leaves_no_half_line(void **state)
{
	const struct audit_record rec = { .event = "verdict", .host = "a.example" };
	struct rlimit old, small;
	struct audit *a = log_open();
	char text[8192];
	struct stat st;

	(void)state;
	assert_int_equal(audit_write(a, &rec, true), 0);
	assert_int_equal(stat(file, &st), 0);
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = old;
	small.rlim_cur = (rlim_t)st.st_size + 20; /* the next line is cut after twenty bytes */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_true(audit_write(a, &rec, true) < 0);
	assert_int_equal(audit_write(a, &rec, false), 0);
	audit_flush(a);
	assert_int_equal(audit_lost(a, NULL), 1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(lines(text, sizeof(text)), 1);
	assert_int_equal(strlen(text), st.st_size);
	assert_int_equal(audit_write(a, &rec, true), 0);
	assert_int_equal(lines(text, sizeof(text)), 3);
	assert_non_null(strstr(text, "\"event\":\"lost\",\"count\":1,"));
	chain_check(text, 3);
	audit_free(a);
}

static void a_log_that_is_off_loses_nothing(void **state)
{
	const struct audit_record rec = { .event = "verdict" };
	struct audit *a = audit_new("0123456789ab", NULL, true);

	(void)state;
	assert_int_equal(audit_write(a, &rec, true), 0);
	assert_int_equal(audit_close(a, NULL), 0);
	audit_free(a);
}

static void a_log_without_file_counts_and_refuses(void **state)
{
	const struct audit_record rec = { .event = "verdict" };
	struct audit *a = audit_new("0123456789ab", NULL, false);

	(void)state;
	assert_true(audit_write(a, &rec, true) < 0);
	assert_int_equal(audit_write(a, &rec, false), 0);
	assert_int_equal(audit_close(a, NULL), 1);
	audit_free(a);
}

static void open_expect(const char *path, const char *word)
{
	struct audit *a = audit_new("0123456789ab", NULL, false);
	struct err e = { 0 };

	assert_non_null(a);
	assert_true(audit_open(a, path, &e) < 0);
	if (!strstr(e.what, word))
		fail_msg("'%s': '%s' does not say '%s'", path, e.what, word);
	audit_free(a);
}

static void what_is_not_a_plain_file_of_the_user_is_refused(void **state)
{
	char other[160];

	(void)state;
	assert_int_equal(symlink("/dev/null", file), 0);
	open_expect(file, "open");
	(void)unlink(file);
	assert_int_equal(mkfifo(file, 0600), 0);
	open_expect(file, "not a regular file");
	(void)unlink(file);
	audit_free(log_open());
	(void)snprintf(other, sizeof(other), "%s.2", file);
	assert_int_equal(link(file, other), 0);
	open_expect(file, "more than one name");
	(void)unlink(other);
	assert_int_equal(chmod(file, 0622), 0);
	open_expect(file, "written by others");
	assert_int_equal(chmod(file, 0600), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	open_expect(file, "written by others");
	assert_int_equal(chmod(dir, 0700), 0);
	open_expect(lock, "its own lock");
	open_expect("/proc/version", "/proc");
}

static void directories_and_files_are_for_the_user_alone(void **state)
{
	char deep[160], sub[160], sublock[192];
	struct audit *a = audit_new("0123456789ab", NULL, false);
	mode_t old = umask(0);
	struct stat st;

	(void)state;
	(void)snprintf(sub, sizeof(sub), "%s/x", dir);
	(void)snprintf(deep, sizeof(deep), "%s/x/audit.jsonl", dir);
	(void)snprintf(sublock, sizeof(sublock), "%s/x/%s", dir, AUDIT_LOCK_NAME);
	assert_int_equal(audit_open(a, deep, NULL), 0);
	(void)umask(old);
	assert_int_equal(stat(sub, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat(deep, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(stat(sublock, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	audit_free(a);
	(void)unlink(deep);
	(void)unlink(sublock);
	(void)rmdir(sub);
}

/* Two sandboxes at once, each a process, sharing one file. */
static void records_of_two_sandboxes_never_interleave(void **state)
{
	const struct audit_record rec = { .event = "verdict", .host = "a.example" };
	static char text[1 << 19];
	pid_t pid[2];
	char *save = NULL;
	int n = 0;

	(void)state;
	audit_free(log_open());
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		assert_true(pid[i] >= 0);
		if (pid[i] == 0) {
			struct audit *a = log_open();

			for (int k = 0; k < 300; k++) {
				(void)audit_write(a, &rec, false);
				if (k % 3 == 0)
					audit_flush(a);
			}
			_exit(audit_close(a, NULL) == 0 ? 0 : 1);
		}
	}
	for (int i = 0; i < 2; i++) {
		int status;

		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(lines(text, sizeof(text)), 600);
	chain_check(text, 600);
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save), n++) {
		json_t *o = json_loads(l, 0, NULL);

		assert_non_null(o);
		json_decref(o);
	}
	assert_int_equal(n, 600);
}

static void put(struct audit *a, const char *host)
{
	const struct audit_record rec = { .event = "verdict", .host = host };

	assert_int_equal(audit_write(a, &rec, true), 0);
}

static void what_another_wrote_is_read_on(void **state)
{
	struct audit *a = log_open(), *b = log_open();
	char text[8192];

	(void)state;
	for (int i = 0; i < 3; i++) {
		put(a, "a.example");
		put(b, "b.example");
		put(b, "b.example");
	}
	(void)lines(text, sizeof(text));
	chain_check(text, 9);
	audit_free(a);
	audit_free(b);
}

static void text_append(const char *text)
{
	FILE *f = fopen(file, "ae");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* What a writer that was killed left: half a line, and then one that is none. */
static void a_torn_tail_is_closed_and_recorded(void **state)
{
	static const char half[] = "{\"v\":1,\"ts\":\"half";
	struct audit *a = log_open();
	char text[8192];
	char *tear;

	(void)state;
	put(a, "a.example");
	text_append(half);
	put(a, "b.example");
	assert_int_equal(lines(text, sizeof(text)), 4);
	tear = strstr(text, half);
	assert_non_null(tear);
	assert_non_null(strstr(tear, "\n{\"v\":1,"));
	assert_non_null(strstr(tear, "\"event\":\"torn\",\"bytes\":18,"));
	memmove(tear, strchr(tear, '\n') + 1, strlen(strchr(tear, '\n') + 1) + 1);
	chain_check(text, 3);
	audit_free(a);
}

static void a_log_that_was_never_chained_is_gone_on_with(void **state)
{
	char text[8192], *own;
	struct audit *a;

	(void)state;
	fclose(fopen(file, "we"));
	assert_int_equal(chmod(file, 0600), 0);
	text_append("{\"v\":1,\"event\":\"start\"}\n");
	a = log_open();
	put(a, "a.example");
	assert_int_equal(lines(text, sizeof(text)), 3);
	own = strchr(text, '\n') + 1;
	chain_check(own, 2);
	assert_non_null(strstr(own, "\"event\":\"torn\",\"bytes\":24,"));
	audit_free(a);
}

static void old_path(unsigned n, char path[160])
{
	(void)snprintf(path, 160, "%s.%u", file, n);
}

/* The file is full: ten megabytes of it are a hole that nobody has to write. */
static void fill(void)
{
	char text[8192], *last;
	FILE *f = fopen(file, "r+e");

	assert_non_null(f);
	(void)lines(text, sizeof(text));
	text[strlen(text) - 1] = '\0';
	last = strrchr(text, '\n') ? strrchr(text, '\n') + 1 : text;
	assert_int_equal(fseek(f, AUDIT_FILE_MAX - (long)strlen(last) - 2, SEEK_SET), 0);
	assert_true(fprintf(f, "\n%s\n", last) > 0);
	assert_int_equal(fclose(f), 0);
}

static void a_full_file_is_rotated_with_the_chain_carried_over(void **state)
{
	struct audit *a = log_open(), *b = log_open();
	char text[8192], old[160], link[CHAIN_HEX + 1];
	const char *prev, *hash;

	(void)state;
	for (unsigned i = 1; i <= AUDIT_KEPT + 2; i++) {
		struct audit *one = i % 2 ? a : b, *other = i % 2 ? b : a;
		size_t len;

		put(one, "a.example");
		put(other, "b.example");
		fill();
		synced = 0;
		put(one, "c.example");
		assert_true(synced > 0);
		assert_int_equal(lines(text, sizeof(text)), 2);
		assert_non_null(strstr(text, "\"event\":\"rotate\",\"file\":\"audit.jsonl.1\","));
		chain_check(text, 2);
		put(other, "d.example");
		assert_int_equal(lines(text, sizeof(text)), 3);
		chain_check(text, 3);
		len = strcspn(text, "\n");
		assert_true(chain_find(text, len, &prev, &hash));
		memcpy(link, prev, CHAIN_HEX);
		link[CHAIN_HEX] = '\0';
	}
	for (unsigned i = 1; i <= AUDIT_KEPT; i++) {
		old_path(i, old);
		assert_int_equal(unlink(old), 0);
	}
	old_path(AUDIT_KEPT + 1, old);
	assert_int_equal(access(old, F_OK), -1);
	audit_free(a);
	audit_free(b);
}

/* Both find it full at once; only one of them may move it away. */
static void two_that_rotate_at_once_rotate_once(void **state)
{
	struct audit *first = log_open();
	char text[8192], old[160];
	pid_t pid[8];

	(void)state;
	put(first, "a.example");
	fill();
	for (size_t i = 0; i < ARRAY_LEN(pid); i++) {
		pid[i] = fork();
		assert_true(pid[i] >= 0);
		if (pid[i] == 0) {
			put(log_open(), "b.example");
			_exit(0);
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(pid); i++) {
		int status;

		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(lines(text, sizeof(text)), 1 + ARRAY_LEN(pid));
	chain_check(text, 1 + ARRAY_LEN(pid));
	old_path(1, old);
	assert_int_equal(unlink(old), 0);
	old_path(2, old);
	assert_int_equal(access(old, F_OK), -1);
	audit_free(first);
}

static void a_file_that_is_gone_or_shortened_is_recorded_and_gone_on_with(void **state)
{
	struct audit *a = log_open();
	char text[8192];

	(void)state;
	put(a, "a.example");
	assert_int_equal(unlink(file), 0);
	put(a, "b.example");
	assert_int_equal(lines(text, sizeof(text)), 2);
	chain_check(text, 2);
	assert_non_null(strstr(text, "\"event\":\"missing\",\"expected\":"));
	assert_int_equal(truncate(file, 0), 0);
	put(a, "c.example");
	assert_int_equal(lines(text, sizeof(text)), 2);
	assert_non_null(strstr(text, "\"event\":\"missing\""));
	assert_int_equal(unlink(lock), 0); /* then it locks nobody out any more */
	put(a, "d.example");
	assert_int_equal(access(lock, F_OK), 0);
	audit_free(a);
}

static void a_directory_that_is_gone_is_made_again(void **state)
{
	struct audit *a = audit_new("0123456789ab", NULL, false);
	char sub[96], deep[128], sublock[128];

	(void)state;
	(void)snprintf(sub, sizeof(sub), "%s/x", dir);
	(void)snprintf(deep, sizeof(deep), "%s/audit.jsonl", sub);
	(void)snprintf(sublock, sizeof(sublock), "%s/%s", sub, AUDIT_LOCK_NAME);
	assert_int_equal(audit_open(a, deep, NULL), 0);
	for (int i = 0; i < 3; i++) {
		put(a, "a.example");
		assert_int_equal(unlink(deep), 0);
		assert_int_equal(unlink(sublock), 0);
		assert_int_equal(rmdir(sub), 0);
	}
	audit_free(a);
}

static void a_changed_byte_breaks_the_link(void **state)
{
	char line[256] = "{\"a\":1", link[CHAIN_HEX + 1] = CHAIN_START;
	size_t len = chain_close(line, strlen(line), link);
	const char *prev, *hash;

	(void)state;
	assert_int_equal(len, strlen("{\"a\":1") + CHAIN_BYTES);
	assert_true(chain_holds(line, len));
	for (size_t i = 0; i < len; i++) {
		line[i] ^= 1;
		assert_false(chain_holds(line, len));
		line[i] ^= 1;
	}
	for (size_t i = 0; i < len; i++)
		assert_false(chain_find(line, i, &prev, &hash));
}

#define T(name) cmocka_unit_test_setup_teardown(name, dir_make, dir_drop)

static void what_was_decided_is_on_disk_at_the_end_and_an_idle_run_waits_for_none(void **state)
{
	static const struct {
		const char *event[3];
		int synced;
	} cases[] = {
		{ { "start", "exit" }, 0 },
		{ { "start", "verdict", "exit" }, 1 },
		{ { "start", "end", "exit" }, 1 },
		{ { "start", "worker_replaced", "exit" }, 1 },
		{ { NULL }, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct audit *a = log_open();

		synced = 0;
		for (size_t k = 0; k < 3 && cases[i].event[k]; k++) {
			const struct audit_record rec = { .event = cases[i].event[k] };

			assert_int_equal(audit_write(a, &rec, false), 0);
		}
		assert_int_equal(synced, 0);
		assert_int_equal(audit_close(a, NULL), 0);
		assert_int_equal(synced, cases[i].synced);
		audit_free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_hostile_host_stays_one_escaped_line),
		T(bytes_that_are_no_utf8_are_escaped_too),
		T(a_held_lock_queues_and_never_waits_longer_than_200_ms),
		T(a_required_record_is_refused_while_the_lock_is_held),
		T(the_queue_is_bounded_and_the_rest_is_counted),
		T(a_write_that_stops_half_way_leaves_no_half_line),
		T(a_log_that_is_off_loses_nothing),
		T(a_log_without_file_counts_and_refuses),
		T(what_is_not_a_plain_file_of_the_user_is_refused),
		T(directories_and_files_are_for_the_user_alone),
		T(records_of_two_sandboxes_never_interleave),
		T(what_another_wrote_is_read_on),
		T(a_torn_tail_is_closed_and_recorded),
		T(a_log_that_was_never_chained_is_gone_on_with),
		T(a_full_file_is_rotated_with_the_chain_carried_over),
		T(two_that_rotate_at_once_rotate_once),
		T(a_file_that_is_gone_or_shortened_is_recorded_and_gone_on_with),
		T(a_directory_that_is_gone_is_made_again),
		T(a_changed_byte_breaks_the_link),
		T(what_was_decided_is_on_disk_at_the_end_and_an_idle_run_waits_for_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
