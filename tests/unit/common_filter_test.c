/* SPDX-License-Identifier: ISC */
/* tests/unit/common_filter_test.c - the programs that are linked in are the ones that the tables
 * give, and judge what no table can say: other architectures, x32, calls of the future. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <assert.h>
#include <cmocka.h>
#include <linux/audit.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/filter.h"

#define FILTER_GEN_TEST
#include "common/filter_gen.c" /* NOLINT(bugprone-suspicious-include) */

#if defined(__SANITIZE_ADDRESS__)
#define SAN true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SAN true
#endif
#endif
#ifndef SAN
#define SAN false
#endif

static const struct filter_prog *const linked[] = {
	&filter_nursery, &filter_worker,  &filter_worker_names, &filter_names,
	&filter_connect, &filter_gates,	  &filter_shim,		&filter_keeper,
	&filter_monitor, &filter_command, &filter_nested,
};
static_assert(ARRAY_LEN(linked) == ARRAY_LEN(tables), "each table has its program");

static void linked_program_is_what_the_table_gives(void **state)
{
	static struct sock_filter insns[INSNS_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
		size_t n = table_build(&tables[i], SAN, insns);

		if (n == 0 || n != linked[i]->len ||
		    memcmp(insns, linked[i]->insns, n * sizeof(*insns)) != 0)
			fail_msg("%s: %zu instructions built, %u linked", tables[i].name, n,
				 linked[i]->len);
	}
}

/* What the kernel would answer: the part of classic BPF that libseccomp writes. */
static uint32_t judge(const struct filter_prog *p, const struct seccomp_data *d)
{
	uint32_t acc = 0;

	for (size_t pc = 0; pc < p->len; pc++) {
		const struct sock_filter *f = &p->insns[pc];

		switch (f->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&acc, (const char *)d + f->k, sizeof(acc));
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			acc &= f->k;
			break;
		case BPF_JMP | BPF_JA:
			pc += f->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += acc == f->k ? f->jt : f->jf;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			pc += acc > f->k ? f->jt : f->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += acc >= f->k ? f->jt : f->jf;
			break;
		case BPF_RET | BPF_K:
			return f->k;
		default:
			fail_msg("instruction %zu has code 0x%x", pc, f->code);
		}
	}
	fail_msg("the program runs off its end");
	return 0;
}

static void another_architecture_is_killed_by_every_program(void **state)
{
	static const uint32_t arches[] = { AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_PPC64LE, 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(tables); i++)
		for (size_t k = 0; k < ARRAY_LEN(arches); k++)
			for (int nr = 0; nr < 500; nr++) {
				const struct seccomp_data d = { .nr = nr, .arch = arches[k] };

				if (judge(linked[i], &d) != SECCOMP_RET_KILL_PROCESS)
					fail_msg("%s: arch %x call %d", tables[i].name, arches[k],
						 nr);
			}
}

#ifdef __x86_64__
static void x32_call_is_killed_by_every_program(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(tables); i++)
		for (uint32_t nr = 0; nr < 600; nr++) {
			const struct seccomp_data d = { .nr = (int)(nr | X32_BIT),
							.arch = AUDIT_ARCH_X86_64 };

			if (judge(linked[i], &d) != SECCOMP_RET_KILL_PROCESS)
				fail_msg("%s: x32 call %u", tables[i].name, nr);
		}
}
#endif

static void call_newer_than_the_table_does_not_exist_for_the_command(void **state)
{
	uint32_t newest = newest_call();

	(void)state;
	for (uint32_t nr = newest + 1; nr < newest + 300; nr++) {
		const struct seccomp_data d = { .nr = (int)nr, .arch = seccomp_arch_native() };

		assert_int_equal(judge(&filter_command, &d), SECCOMP_RET_ERRNO | ENOSYS);
		assert_int_equal(judge(&filter_nested, &d), SECCOMP_RET_ERRNO | ENOSYS);
	}
}

static void call_newer_than_the_table_kills_a_locked_process(void **state)
{
	const struct seccomp_data d = { .nr = (int)newest_call() + 1,
					.arch = seccomp_arch_native() };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(tables); i++)
		if (!tables[i].open)
			assert_int_equal(judge(linked[i], &d), SECCOMP_RET_KILL_PROCESS);
}

static bool has_row(const struct table *t, int call)
{
	for (size_t i = 0; i < table_rows(t); i++)
		if (table_row(t, i)->call == call)
			return true;
	return SAN && !t->open && in_san(call);
}

static void call_without_a_row_gets_the_default(void **state)
{
	uint32_t newest = newest_call();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(tables); i++)
		for (uint32_t nr = 0; nr <= newest; nr++) {
			const struct seccomp_data d = { .nr = (int)nr,
							.arch = seccomp_arch_native() };
			uint32_t want = tables[i].open ? SECCOMP_RET_ALLOW
						       : SECCOMP_RET_KILL_PROCESS;

			if (!has_row(&tables[i], (int)nr) && judge(linked[i], &d) != want)
				fail_msg("%s: call %u", tables[i].name, nr);
		}
}

static bool holds(const struct filter_arg *a, const struct seccomp_data *d)
{
	uint64_t v = d->args[a->index];

	switch (a->op) {
	case SCMP_CMP_EQ:
		return v == a->value;
	case SCMP_CMP_NE:
		return v != a->value;
	case SCMP_CMP_LT:
		return v < a->value;
	case SCMP_CMP_LE:
		return v <= a->value;
	case SCMP_CMP_GT:
		return v > a->value;
	case SCMP_CMP_GE:
		return v >= a->value;
	case SCMP_CMP_MASKED_EQ:
		return (v & a->value) == a->want;
	case _SCMP_CMP_MIN:
	case _SCMP_CMP_MAX:
		break;
	}
	fail_msg("comparison %d", (int)a->op);
	return false;
}

/* What the rows of @t say about @d, read without libseccomp. */
static uint32_t table_says(const struct table *t, const struct seccomp_data *d)
{
	uint32_t says = t->open ? SECCOMP_RET_ALLOW : SECCOMP_RET_KILL_PROCESS;
	const struct filter_rule *by = NULL;

	for (size_t i = 0; i < table_rows(t); i++) {
		const struct filter_rule *r = table_row(t, i);
		uint32_t out = r->when.fail == FILTER_NOTIFY ? SECCOMP_RET_USER_NOTIF
			       : r->when.fail ? SECCOMP_RET_ERRNO | (uint32_t)r->when.fail
					      : SECCOMP_RET_ALLOW;

		if (r->call != d->nr || (r->when.n > 0 && !holds(&r->when.arg[0], d)) ||
		    (r->when.n > 1 && !holds(&r->when.arg[1], d)))
			continue;
		if (by && out != says)
			fail_msg("%s: call %d: '%s' contradicts '%s'", t->name, d->nr, r->why,
				 by->why);
		says = out;
		by = r;
	}
	return says;
}

/* Fill the arguments with values at and beside those of the rows of the same call. */
static void args_pick(const struct table *t, struct seccomp_data *d, uint32_t *seed)
{
	for (unsigned a = 0; a < 6; a++) {
		uint64_t near = 0;

		for (size_t i = 0; i < table_rows(t); i++)
			for (unsigned k = 0; k < table_row(t, i)->when.n; k++) {
				const struct filter_arg *arg = &table_row(t, i)->when.arg[k];

				*seed = *seed * 1664525U + 1013904223U;
				if (table_row(t, i)->call == d->nr && arg->index == a &&
				    *seed >> 30 != 0)
					near = arg->op == SCMP_CMP_MASKED_EQ ? arg->want
									     : arg->value;
			}
		*seed = *seed * 1664525U + 1013904223U;
		switch (*seed >> 28) {
		case 0:
			near++;
			break;
		case 1:
			near--;
			break;
		case 2:
			near |= 1ULL << 32;
			break;
		case 3:
			near = ~0ULL;
			break;
		case 4:
			near = 0;
			break;
		case 5:
			near ^= 1ULL << (*seed >> 20 & 63);
			break;
		default:
			break;
		}
		d->args[a] = near;
	}
}

static void program_says_what_the_rows_say(void **state)
{
	uint32_t seed = 1;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(tables); i++)
		for (size_t k = 0; k < table_rows(&tables[i]); k++) {
			struct seccomp_data d = { .nr = table_row(&tables[i], k)->call,
						  .arch = seccomp_arch_native() };

			if (d.nr < 0 || (SAN && !tables[i].open && in_san(d.nr)))
				continue;
			for (int n = 0; n < 500; n++) {
				uint32_t got, want;

				args_pick(&tables[i], &d, &seed);
				got = judge(linked[i], &d);
				want = table_says(&tables[i], &d);
				if (got != want)
					fail_msg(
						"%s: call %d (%llx, %llx, %llx): %x, the rows say %x",
						tables[i].name, d.nr, d.args[0], d.args[1],
						d.args[2], got, want);
			}
		}
}

static void program_that_is_not_there_does_not_load(void **state)
{
	const struct filter_prog none = { 0, filter_shim.insns };
	pid_t pid = fork();
	int status;

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) == 0 &&
				      filter_load(&none) == -EINVAL
			      ? 0
			      : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(linked_program_is_what_the_table_gives),
		cmocka_unit_test(another_architecture_is_killed_by_every_program),
#ifdef __x86_64__
		cmocka_unit_test(x32_call_is_killed_by_every_program),
#endif
		cmocka_unit_test(call_newer_than_the_table_does_not_exist_for_the_command),
		cmocka_unit_test(call_newer_than_the_table_kills_a_locked_process),
		cmocka_unit_test(call_without_a_row_gets_the_default),
		cmocka_unit_test(program_says_what_the_rows_say),
		cmocka_unit_test(program_that_is_not_there_does_not_load),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
