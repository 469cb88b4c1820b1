/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_gates_test.c - when a gate is open, for what, and what a worker may do with it. The
 * worker's part is a process with the page and the filter; the test answers for its connect(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "broker/monitor/verdict.h"
#include "common/filter.h"
#include "common/lock.h"
#include "tests/unit/monitor_fixture.h"

static struct gates g;

static int make(void **state)
{
	(void)state;
	gates_init(&g);
	gates_make(&g);
	return g.at ? 0 : -1;
}

static int drop(void **state)
{
	(void)state;
	gates_close(&g);
	return 0;
}

static uint16_t open_at(const char *addr, uint16_t port, double now)
{
	struct addr a;

	assert_int_equal(addr_parse(&a, addr), 0);
	return gates_open(&g, &a, port, now);
}

/* ---- what is open ---- */

static void a_gate_opens_for_an_address_known_for_a_second(void **state)
{
	uint16_t n;

	(void)state;
	assert_int_equal(open_at("127.0.0.1", 80, 10.), 0);
	assert_int_equal(open_at("127.0.0.1", 80, 10.9), 0);
	n = open_at("127.0.0.1", 80, 11.1);
	assert_in_range(n, 1, GATES_MAX);
	assert_int_equal(g.at[n - 1].sin_family, AF_INET);
	assert_int_equal(g.at[n - 1].sin_port, htons(80));
	assert_int_equal(g.at[n - 1].sin_addr.s_addr, htonl(INADDR_LOOPBACK));
}

static void the_last_verdict_shuts_it_and_its_address_stays(void **state)
{
	uint16_t a, b;

	(void)state;
	assert_int_equal(open_at("192.0.2.1", 443, 1.), 0);
	a = open_at("192.0.2.1", 443, 3.);
	b = open_at("192.0.2.1", 443, 3.);
	assert_int_not_equal(a, 0);
	assert_int_equal(a, b);
	gates_shut(&g, &a);
	assert_int_equal(a, 0);
	assert_int_equal(g.at[b - 1].sin_family, AF_INET);
	a = b;
	gates_shut(&g, &b);
	assert_int_equal(g.at[a - 1].sin_family, AF_UNSPEC);
	assert_int_equal(g.at[a - 1].sin_port, htons(443));
	gates_shut(&g, &b); /* none: nothing happens */
}

static void what_is_no_ipv4_address_has_no_gate(void **state)
{
	(void)state;
	for (int now = 1; now < 9; now += 2) {
		assert_int_equal(open_at("::1", 80, now), 0);
		assert_int_equal(open_at("127.0.0.1", 0, now), 0);
	}
}

static void no_gate_ever_has_another_address(void **state)
{
	struct sockaddr_in before[GATES_MAX];
	char text[32];
	size_t n = 0;

	(void)state;
	for (unsigned i = 0; i < 4 * GATES_MAX; i++) {
		(void)snprintf(text, sizeof(text), "10.%u.%u.%u", i & 3, i >> 2 & 255, i >> 10);
		(void)open_at(text, 443, 1.);
	}
	memcpy(before, g.at, sizeof(before));
	for (unsigned i = 0; i < 8 * GATES_MAX; i++) {
		uint16_t gate;

		(void)snprintf(text, sizeof(text), "10.%u.%u.%u", i & 3, i >> 2 & 255, i >> 10);
		gate = open_at(text, 443, 5.);
		n += gate != 0;
		if (gate)
			assert_int_equal(g.at[gate - 1].sin_family, AF_INET);
		gates_shut(&g, &gate);
	}
	assert_true(n > GATES_MAX / 2);
	for (size_t i = 0; i < GATES_MAX; i++) {
		if (before[i].sin_port)
			assert_memory_equal(&before[i], &g.at[i], sizeof(before[i]));
		assert_int_equal(g.at[i].sin_family, AF_UNSPEC);
	}
}

static void a_verdict_with_an_address_opens_one_until_it_is_dialled_or_cut(void **state)
{
	struct msg_verdict v;
	struct conn *c;
	uint16_t gate;
	struct fx f;

	(void)state;
	fx_open(&f, "allow localhost:80 private\nallow a.example\n");
	gates_make(&f.m.gates);
	assert_non_null(f.m.gates.at);
	assert_int_equal(fx_ask(&f, 1, "localhost", 80), 0);
	fx_verdict(&f, &v);
	assert_int_equal(v.flags & VERDICT_FIXED, VERDICT_FIXED);
	assert_int_equal(v.gate, 0);
	for (size_t i = 0; i < GATES_MAX; i++)
		f.m.gates.since[i] -= 10.; /* its first second is over */
	for (uint32_t num = 2; num <= 3; num++) {
		assert_int_equal(fx_ask(&f, num, "localhost", 80), 0);
		fx_verdict(&f, &v);
		gate = v.gate;
		assert_in_range(gate, 1, GATES_MAX);
		assert_int_equal(f.m.gates.at[gate - 1].sin_family, AF_INET);
		if (num == 2)
			assert_int_equal(fx_dialed(&f, num, "127.0.0.1"), 0);
		else
			assert_int_equal(fx_end(&f, num, 0, 0, REASON_CONNECT_REFUSED), 0);
		assert_int_equal(f.m.gates.at[gate - 1].sin_family, AF_UNSPEC);
	}
	assert_int_equal(fx_ask(&f, 4, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(v.gate, 0); /* where the name leads is not known */
	assert_int_equal(fx_ask(&f, 5, "localhost", 80), 0);
	fx_verdict(&f, &v);
	assert_int_equal(f.m.gates.at[v.gate - 1].sin_family, AF_INET);
	policy_free(f.m.policy);
	f.m.policy = f.run.policy = fx_policy("deny localhost\n");
	assert_true(verdict_again(&f.m) > 0);
	assert_int_equal(f.m.gates.at[v.gate - 1].sin_family, AF_UNSPEC);
	assert_int_equal(conn_table_state(&f.m.conns, 5, &c), CONN_DIALING);
	fx_close(&f);
}

static void an_edit_that_denies_one_address_shuts_its_gate_alone(void **state)
{
	struct msg_verdict v;
	struct conn *c;
	struct fx f;

	(void)state;
	fx_open(&f, "allow b.example private\n");
	gates_make(&f.m.gates);
	assert_non_null(f.m.gates.at);
	fx_file(f.hosts, "10.0.0.1 b.example\n10.0.0.2 b.example\n");
	for (uint32_t num = 1; num <= 2; num++) {
		assert_int_equal(fx_ask(&f, num, "b.example", 443), 0);
		fx_verdict(&f, &v);
		assert_int_equal(v.naddr, 2);
		for (size_t i = 0; i < GATES_MAX; i++)
			f.m.gates.since[i] -= 10.;
	}
	assert_in_range(v.gate, 1, GATES_MAX);
	assert_int_equal(f.m.gates.at[v.gate - 1].sin_addr.s_addr, htonl(0x0a000001));
	policy_free(f.m.policy);
	f.m.policy = f.run.policy = fx_policy("allow b.example private\ndeny 10.0.0.2\n");
	assert_int_equal(verdict_again(&f.m), 0);
	assert_int_equal(f.m.gates.at[v.gate - 1].sin_family, AF_INET);
	policy_free(f.m.policy);
	f.m.policy = f.run.policy = fx_policy("allow b.example private\ndeny 10.0.0.1\n");
	assert_int_equal(verdict_again(&f.m), 0);
	assert_int_equal(f.m.gates.at[v.gate - 1].sin_family, AF_UNSPEC);
	assert_int_equal(conn_table_state(&f.m.conns, 2, &c), CONN_DIALING);
	fx_close(&f);
}

static void nothing_is_open_for_a_verdict_that_cannot_be_recorded(void **state)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct msg_verdict v;
	char lock[96];
	struct fx f;
	int held;

	(void)state;
	fx_open(&f, "audit required\nallow localhost:80 private\n");
	gates_make(&f.m.gates);
	assert_non_null(f.m.gates.at);
	(void)snprintf(lock, sizeof(lock), "%s/%s", f.dir, AUDIT_LOCK_NAME);
	held = open(lock, O_RDWR | O_CLOEXEC);
	assert_true(held >= 0);
	assert_int_equal(fcntl(held, F_OFD_SETLK, &l), 0);
	assert_int_equal(fx_ask(&f, 1, "localhost", 80), 0);
	fx_verdict(&f, &v);
	assert_int_equal(v.reason, REASON_AUDIT_UNAVAILABLE);
	for (size_t i = 0; i < GATES_MAX; i++)
		assert_int_equal(f.m.gates.at[i].sin_port, 0); /* not even looked for */
	(void)close(held);
	fx_close(&f);
}

/* ---- what a worker can do with it ---- */

static struct sockaddr_in *const page = (void *)GATES_AT;

/* The kernel's own answer; what the test answers is EPERM. */
static int dial(const void *at, size_t len)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r = connect(fd, at, (socklen_t)len) < 0 ? errno : 0;

	(void)close(fd);
	return r;
}

static int at_its_place(void)
{
	return mmap(page, GATES_BYTES, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, g.fd, 0) ==
	       page;
}

/* Return: what came of @work behind the filter; @asked: how often the test was asked */
static int behind(int (*work)(const void *), const void *arg, unsigned *asked)
{
	SCOPED_FD int listener = -1;
	int sv[2], status;
	size_t nfds = 1;
	char c = 0;
	pid_t pid;

	*asked = 0;
	assert_int_equal(fd_pair(sv), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (!at_its_place() || lock_privs() < 0 ||
		    (listener = filter_listen(&filter_gates)) < 0 ||
		    fd_send(sv[1], &c, 1, &listener, 1) < 0)
			_exit(99);
		(void)close(listener);
		_exit(work(arg));
	}
	(void)close(sv[1]);
	assert_int_equal(poll(&(struct pollfd){ .fd = sv[0], .events = POLLIN }, 1, 10000), 1);
	if (fd_recv(sv[0], &c, 1, &listener, &nfds) != 1)
		fail_msg("no filter: %d", waitpid(pid, &status, 0) == pid ? status : -1);
	for (;;) {
		struct pollfd p = { .fd = listener, .events = POLLIN };
		struct seccomp_notif q = { 0 };
		struct seccomp_notif_resp no = { .error = -EPERM };

		assert_int_equal(poll(&p, 1, 10000), 1);
		if (!(p.revents & POLLIN))
			break; /* nobody has the filter any more */
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &q) < 0)
			continue;
		no.id = q.id;
		(*asked)++;
		(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &no);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	(void)close(sv[0]);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int dials_gate(const void *arg)
{
	return dial(&page[*(const uint16_t *)arg - 1], GATE_BYTES);
}

static void an_open_gate_leads_where_it_says_and_a_shut_one_nowhere(void **state)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(sa);
	SCOPED_FD int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	uint16_t gate, n;
	unsigned asked;

	(void)state;
	assert_int_equal(bind(l, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(listen(l, 8), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&sa, &len), 0);
	assert_int_equal(open_at("127.0.0.1", ntohs(sa.sin_port), 1.), 0);
	n = gate = open_at("127.0.0.1", ntohs(sa.sin_port), 3.);
	assert_int_not_equal(gate, 0);
	assert_int_equal(behind(dials_gate, &n, &asked), 0);
	assert_int_equal(asked, 0);
	assert_true(accept(l, NULL, NULL) >= 0);
	gates_shut(&g, &gate);
	(void)behind(dials_gate, &n, &asked); /* AF_UNSPEC undoes a connection: there is none */
	assert_true(accept(l, NULL, NULL) < 0 && errno == EAGAIN);
}

static int dials_elsewhere(const void *arg)
{
	static const struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = 0x5000 };
	const char *const at = (const char *)page;
	const struct {
		const void *at;
		size_t len;
	} calls[] = {
		{ &own, sizeof(own) },		 { at + 8, GATE_BYTES },
		{ at + 4, GATE_BYTES },		 { at + 2, GATE_BYTES },
		{ at + 1, GATE_BYTES },		 { at, GATE_BYTES + 1 },
		{ at, GATE_BYTES - 1 },		 { at, 2 * GATE_BYTES },
		{ at - GATE_BYTES, GATE_BYTES }, { at + GATES_BYTES, GATE_BYTES },
	};

	(void)arg;
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		if (dial(calls[i].at, calls[i].len) != EPERM)
			return (int)i + 1;
	return 0;
}

static void anything_but_a_whole_gate_is_asked_about(void **state)
{
	unsigned asked;

	(void)state;
	assert_int_equal(behind(dials_elsewhere, NULL, &asked), 0);
	assert_int_equal(asked, 10);
}

static int moves_it(const void *arg)
{
	const int rw = PROT_READ | PROT_WRITE, own = MAP_PRIVATE | MAP_ANONYMOUS;
	char *mine = mmap(NULL, GATES_BYTES, rw, own, -1, 0);
	void *tagged = (void *)(GATES_AT | GATES_TAGGED);
	int sv[2];

	(void)arg;
	if (mine == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
		return 1;
	if (munmap(page, GATES_BYTES) == 0 || errno != EPERM)
		return 2;
	if (munmap((char *)page - 65536, 65536 + 4096) == 0 || errno != EPERM)
		return 3;
	if (mmap(page, GATES_BYTES, rw, own | MAP_FIXED, -1, 0) != MAP_FAILED || errno != EPERM)
		return 4;
	if (mmap(page, GATES_BYTES, rw, own, -1, 0) == (void *)page)
		return 5;
	if (mprotect(page, GATES_BYTES, rw) == 0 || errno != EPERM)
		return 6;
	if (mremap(page, GATES_BYTES, 2 * GATES_BYTES, MREMAP_MAYMOVE) != MAP_FAILED ||
	    errno != EPERM)
		return 7;
	if (mremap(mine, GATES_BYTES, GATES_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, page) !=
		    MAP_FAILED ||
	    errno != EPERM)
		return 8;
	if (madvise(page, GATES_BYTES, MADV_DONTNEED) == 0 || errno != EPERM)
		return 9;
	if (munmap(tagged, GATES_BYTES) == 0 || errno != EPERM ||
	    mprotect(tagged, GATES_BYTES, rw) == 0 || errno != EPERM ||
	    madvise(tagged, GATES_BYTES, MADV_DONTNEED) == 0 || errno != EPERM ||
	    mremap(tagged, 0, GATES_BYTES, MREMAP_MAYMOVE) != MAP_FAILED || errno != EPERM)
		return 13;
	if (write(sv[0], "x", 1) != 1 || read(sv[1], page, 1) >= 0 || errno != EFAULT)
		return 10;
	if (ftruncate(g.fd, 0) == 0 || write(g.fd, "x", 1) == 1)
		return 11;
	return mmap(NULL, GATES_BYTES, rw, MAP_SHARED, g.fd, 0) == MAP_FAILED ? 0 : 12;
}

static void nothing_takes_the_place_of_the_page_or_writes_it(void **state)
{
	unsigned asked;

	(void)state;
	assert_int_equal(behind(moves_it, NULL, &asked), 0);
	assert_int_equal(asked, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, make, drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_gate_opens_for_an_address_known_for_a_second),
		T(the_last_verdict_shuts_it_and_its_address_stays),
		T(what_is_no_ipv4_address_has_no_gate),
		T(no_gate_ever_has_another_address),
		T(a_verdict_with_an_address_opens_one_until_it_is_dialled_or_cut),
		T(an_edit_that_denies_one_address_shuts_its_gate_alone),
		T(nothing_is_open_for_a_verdict_that_cannot_be_recorded),
		T(an_open_gate_leads_where_it_says_and_a_shut_one_nowhere),
		T(anything_but_a_whole_gate_is_asked_about),
#ifndef __SANITIZE_ADDRESS__ /* whose run-time maps as it likes */
		T(nothing_takes_the_place_of_the_page_or_writes_it),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
