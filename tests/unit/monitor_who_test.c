/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_who_test.c - who holds a client's socket: a true one in this machine's /proc, and
 * a /proc that the test makes up, in which everything is hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "broker/monitor/who.h"
#include "common/netlink.h"
#include "tests/unit/monitor_fixture.h"

static struct fx f;
static int client, served;
static struct msg_half ends;
static char dir[] = "/tmp/weir-who-XXXXXX";

/* Its own address is what the other end sees. */
static void end_of(int fd, struct addr *a, uint16_t *port)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&ss, &len), 0);
	assert_int_equal(addr_from_sockaddr(a, port, (struct sockaddr *)&ss), 0);
}

static void begin(const char *proc)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	SCOPED_FD int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(at);

	fx_open(&f, "allow a.example\n");
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof(at)), 0);
	served = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(served >= 0);
	end_of(client, &ends.client, &ends.client_port);
	end_of(served, &ends.proxy, &ends.proxy_port);
	f.m.diag_fd = netlink_diag_open();
	assert_true(f.m.diag_fd >= 0);
	f.m.proc_fd = open(proc, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f.m.proc_fd >= 0);
}

static void end(void)
{
	scope_close(&client);
	scope_close(&served);
	fx_close(&f);
}

static void put(const char *name, const void *text, size_t len)
{
	char path[512];
	FILE *out;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	out = fopen(path, "we");
	assert_non_null(out);
	assert_int_equal(fwrite(text, 1, len, out), len);
	assert_int_equal(fclose(out), 0);
}

static void put_dir(const char *name)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(mkdir(path, 0700), 0);
}

static void put_link(const char *name, const char *to)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(symlink(to, path), 0);
}

static void the_holder_of_a_socket_is_found_by_its_two_ends(void **state)
{
	struct msg_half other;
	struct who w;

	(void)state;
	begin("/proc");
	who_find(&f.m, &ends, &w);
	/* a machine with more than WHO_PROCESSES_MAX processes, or a slow one, knows nobody */
	assert_true(w.pid == (uint32_t)getpid() || w.pid == 0);
	if (w.pid)
		assert_non_null(strstr(w.exe, "monitor_who_test"));
	other = ends;
	other.client_port = 1;
	who_find(&f.m, &other, &w);
	assert_int_equal(w.pid, 0);
	other = (struct msg_half){ 0 };
	who_look(&f.m, &other, 0, &w);
	assert_int_equal(w.pid, 0);
	end();
}

static void what_a_process_calls_itself_is_escaped_and_cut(void **state)
{
	char link[40], argv0[5000], exe[301];
	uint32_t inode = 0;
	struct who w;

	(void)state;
	assert_non_null(mkdtemp(dir));
	begin(dir);
	assert_int_equal(netlink_tcp_inode(f.m.diag_fd, &ends.client, ends.client_port, &ends.proxy,
					   ends.proxy_port, &inode),
			 0);
	(void)snprintf(link, sizeof(link), "socket:[%u]", inode);
	memset(argv0, '\x1b', sizeof(argv0)); /* as long as it is read, and without an end */
	memset(exe, 'e', sizeof(exe) - 1);
	exe[sizeof(exe) - 1] = '\0';
	memcpy(exe, "/\n\xff", 3);
	put("12", "a file", 6);
	put_link("13", "/proc/self"); /* not followed */
	put_dir("x14");
	put_dir("15");
	put("15/fd", "", 0);
	put_dir("16");
	put_dir("16/fd");
	put_link("16/fd/3", "socket:[1]");
	put_dir("017");
	put_dir("18");
	put_dir("18/fd");
	put_link("18/fd/0", exe); /* longer than any name of a socket */
	put_link("18/fd/7", link);
	put_link("18/exe", exe);
	put("18/cmdline", argv0, sizeof(argv0));
	who_find(&f.m, &ends, &w);
	assert_int_equal(w.pid, 18);
	assert_int_equal(strlen(w.argv0), WHO_ARGV0_MAX);
	assert_memory_equal(w.argv0, "\\x1b\\x1b", 8);
	assert_int_equal(strlen(w.exe), WHO_EXE_MAX);
	assert_memory_equal(w.exe, "/\\x0a\\xffeee", 12);
	end();
}

static void looks_for_records_end_with_their_time_of_a_second(void **state)
{
	struct who w;

	(void)state;
	begin(dir); /* as the test before left it */
	who_look(&f.m, &ends, 0, &w);
	assert_int_equal(w.pid, 0); /* another socket by now */
	f.m.looks.us = WHO_SECOND_US;
	f.m.looks.since = ev_now(f.m.loop);
	scope_close(&f.m.proc_fd);
	f.m.proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	who_look(&f.m, &ends, 0, &w);
	assert_int_equal(w.pid, 0);
	assert_int_equal(f.m.looks.us, WHO_SECOND_US);
	f.m.looks.since -= 2; /* a second later */
	who_look(&f.m, &ends, 0, &w);
	assert_true(f.m.looks.us < WHO_SECOND_US);
	assert_true(f.m.looks.us > 0);
	end();
}

static int remove_all(void **state)
{
	static const char *const files[] = { "12",	"13",	   "15/fd",  "16/fd/3",
					     "18/fd/0", "18/fd/7", "18/exe", "18/cmdline" };
	static const char *const dirs[] = { "x14", "15", "16/fd", "16", "017", "18/fd", "18", "" };
	char path[128];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		(void)unlink(path);
	}
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, dirs[i]);
		(void)rmdir(path);
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_holder_of_a_socket_is_found_by_its_two_ends),
		cmocka_unit_test(what_a_process_calls_itself_is_escaped_and_cut),
		cmocka_unit_test(looks_for_records_end_with_their_time_of_a_second),
	};

	return cmocka_run_group_tests(tests, NULL, remove_all);
}
