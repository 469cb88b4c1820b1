/* SPDX-License-Identifier: ISC */
/* common/filter_gen.c - build-time tool: the rule tables in, C source with BPF out.
 * Runs on the build host alone; nothing of it or of libseccomp is linked into weir.
 *	filter_gen [san] >filter_bpf.c
 * "san" adds the calls that the sanitizers' own run-time makes to each locked process; it never
 * touches a table, so a shipped filter cannot grow by it. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/filter_rule.h"
#include "common/scope.h"

#if __has_include("broker/worker/filter_rules.h")
#include "broker/worker/filter_rules.h"
#define HAVE_WORKER 1
#else
#define HAVE_WORKER 0
#endif
#if __has_include("broker/monitor/filter_rules.h")
#include "broker/monitor/filter_rules.h"
#define HAVE_MONITOR 1
#else
#define HAVE_MONITOR 0
#endif
#if __has_include("shim/filter_rules.h")
#include "shim/filter_rules.h"
#define HAVE_SHIM 1
#else
#define HAVE_SHIM 0
#endif
#if __has_include("sandbox/filter_rules.h")
#include "sandbox/filter_rules.h"
#define HAVE_SANDBOX 1
#else
#define HAVE_SANDBOX 0
#endif

#define INSNS_MAX 4096	    /* BPF_MAXINSNS, linux/bpf_common.h */
#define FILTER_API 5	    /* libseccomp: SCMP_ACT_NOTIFY */
#define NR_TOP 4096	    /* where the search for the newest known call starts */
#define X32_BIT 0x40000000U /* __X32_SYSCALL_BIT, asm/unistd.h */

/* What the run-time of AddressSanitizer and UBSan calls beneath us; build/san-* only. */
static const struct filter_rule san_rules[] = {
	{ SCMP_SYS(mmap), ANY, "shadow memory and the allocator" },
	{ SCMP_SYS(munmap), ANY, "the allocator" },
	{ SCMP_SYS(mremap), ANY, "the allocator" },
	{ SCMP_SYS(mprotect), ANY, "shadow memory" },
	{ SCMP_SYS(madvise), ANY, "shadow memory is given back" },
	{ SCMP_SYS(futex), ANY, "locks of the run-time" },
	{ SCMP_SYS(sched_yield), ANY, "locks of the run-time" },
	{ SCMP_SYS(getpid), ANY, "reports" },
	{ SCMP_SYS(gettid), ANY, "reports" },
	{ SCMP_SYS(clock_gettime), ANY, "the allocator's background release" },
	{ SCMP_SYS(rt_sigaction), ANY, "the report of a crash" },
	{ SCMP_SYS(rt_sigprocmask), ANY, "the report of a crash" },
	{ SCMP_SYS(sigaltstack), ANY, "threads end" },
	{ SCMP_SYS(prlimit64), ANY, "the extent of the stack" },
	{ SCMP_SYS(sched_getaffinity), ANY, "the extent of the stack" },
	{ SCMP_SYS(write), ANY, "the report itself" },
	{ SCMP_SYS(brk), ANY, "early allocations" },
	{ SCMP_SYS(exit_group), ANY, "the end after a report" },
};

struct table {
	const char *name;
	bool open; /* default allow, with the guard against unknown calls */
	const struct filter_rule *rules;
	size_t n;
	const struct filter_rule *more; /* these too */
	size_t nmore;
};

static const struct table tables[] = {
#if HAVE_WORKER
	{ "nursery", false, nursery_rules, ARRAY_LEN(nursery_rules), NULL, 0 },
	{ "worker", false, worker_rules, ARRAY_LEN(worker_rules), NULL, 0 },
	{ "worker_names", false, worker_names_rules, ARRAY_LEN(worker_names_rules), NULL, 0 },
	{ "names", true, names_rules, ARRAY_LEN(names_rules), NULL, 0 },
	{ "connect", true, connect_rules, ARRAY_LEN(connect_rules), NULL, 0 },
	{ "gates", true, gates_rules, ARRAY_LEN(gates_rules), NULL, 0 },
#else
	{ "nursery", false, NULL, 0, NULL, 0 },	     { "worker", false, NULL, 0, NULL, 0 },
	{ "worker_names", false, NULL, 0, NULL, 0 }, { "names", true, NULL, 0, NULL, 0 },
	{ "connect", true, NULL, 0, NULL, 0 },	     { "gates", true, NULL, 0, NULL, 0 },
#endif
#if HAVE_SHIM
	{ "shim", false, shim_rules, ARRAY_LEN(shim_rules), NULL, 0 },
	{ "keeper", false, keeper_rules, ARRAY_LEN(keeper_rules), NULL, 0 },
#else
	{ "shim", false, NULL, 0, NULL, 0 },	     { "keeper", false, NULL, 0, NULL, 0 },
#endif
#if HAVE_MONITOR
	{ "monitor", false, monitor_rules, ARRAY_LEN(monitor_rules), NULL, 0 },
#else
	{ "monitor", false, NULL, 0, NULL, 0 },
#endif
#if HAVE_SANDBOX
	{ "command", true, command_rules, ARRAY_LEN(command_rules), unnested_rules,
	  ARRAY_LEN(unnested_rules) },
	{ "nested", true, command_rules, ARRAY_LEN(command_rules), NULL, 0 },
#else
	{ "command", true, NULL, 0, NULL, 0 },	     { "nested", true, NULL, 0, NULL, 0 },
#endif
};

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)fputs("filter_gen: ", stderr);
	(void)vfprintf(stderr, fmt, ap);
	(void)fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

static bool in_san(int call)
{
	for (size_t i = 0; i < ARRAY_LEN(san_rules); i++)
		if (san_rules[i].call == call)
			return true;
	return false;
}

static size_t table_rows(const struct table *t)
{
	return t->n + t->nmore;
}

static const struct filter_rule *table_row(const struct table *t, size_t i)
{
	return i < t->n ? &t->rules[i] : &t->more[i - t->n];
}

/* Does a row of @t make @call fail? */
static bool table_fails(const struct table *t, int call)
{
	for (size_t i = 0; i < table_rows(t); i++)
		if (table_row(t, i)->call == call && table_row(t, i)->when.fail != 0)
			return true;
	return false;
}

static void rule_add(scmp_filter_ctx ctx, const struct table *t, const struct filter_rule *r)
{
	uint32_t action = r->when.fail == FILTER_NOTIFY ? SCMP_ACT_NOTIFY
			  : r->when.fail		? SCMP_ACT_ERRNO((uint32_t)r->when.fail)
							: SCMP_ACT_ALLOW;
	struct scmp_arg_cmp cmp[2];
	int e;

	if (r->call < 0)
		return; /* a call that this architecture does not have */
	if (!r->why || !*r->why)
		die("%s: a row of call %d gives no reason", t->name, r->call);
	if (t->open && r->when.fail == 0)
		die("%s: call %d: everything is allowed already", t->name, r->call);
	for (unsigned i = 0; i < r->when.n; i++) {
		const struct filter_arg *a = &r->when.arg[i];

		cmp[i] = (struct scmp_arg_cmp){ a->index, a->op, a->value, a->want };
	}
	e = seccomp_rule_add_exact_array(ctx, action, r->call, r->when.n, cmp);
	if (e < 0)
		die("%s: call %d (%s): %s", t->name, r->call, r->why, strerror(-e));
}

/* The newest call that libseccomp's table of this architecture names. */
static uint32_t newest_call(void)
{
	for (int nr = NR_TOP; nr > 0; nr--) {
		char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);

		free(name);
		if (name)
			return (uint32_t)nr;
	}
	die("no call is known");
}

/* Put in front of a default-allow program: a call that its author cannot have judged does not
 * exist. Another architecture, and x32 with its bit above every number, fall through to the checks
 * that libseccomp writes first. */
static size_t guard_write(struct sock_filter *out)
{
	uint32_t arch = seccomp_arch_native();
	const struct sock_filter guard[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, arch, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, newest_call(), 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	};

	memcpy(out, guard, sizeof(guard));
	return ARRAY_LEN(guard);
}

static scmp_filter_ctx table_load(const struct table *t, bool san)
{
	/* the build host's own kernel does not matter */
	scmp_filter_ctx ctx = seccomp_api_set(FILTER_API) < 0
				      ? NULL
				      : seccomp_init(t->open ? SCMP_ACT_ALLOW
							     : SCMP_ACT_KILL_PROCESS);

	if (!ctx || seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) < 0 ||
	    seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2) < 0)
		die("%s: cannot make a filter", t->name);
	san = san && !t->open;
	for (size_t i = 0; i < table_rows(t); i++)
		if (!san || !in_san(table_row(t, i)->call) || table_fails(t, table_row(t, i)->call))
			rule_add(ctx, t, table_row(t, i));
	for (size_t i = 0; san && i < ARRAY_LEN(san_rules); i++)
		if (!table_fails(t, san_rules[i].call))
			rule_add(ctx, t, &san_rules[i]);
	return ctx;
}

/* Return: instructions written to @out, which holds INSNS_MAX; 0 for a table that is not there */
static size_t table_build(const struct table *t, bool san, struct sock_filter *out)
{
	scmp_filter_ctx ctx;
	size_t n = 0;
	ssize_t got;
	int fd;

	if (t->n == 0)
		return 0;
	ctx = table_load(t, san);
	fd = memfd_create("filter", MFD_CLOEXEC);
	if (fd < 0 || seccomp_export_bpf(ctx, fd) < 0)
		die("%s: export: %s", t->name, strerror(errno));
	if (t->open)
		n = guard_write(out);
	got = pread(fd, out + n, (INSNS_MAX - n) * sizeof(*out), 0);
	if (got <= 0 || (size_t)got % sizeof(*out) != 0 ||
	    n + (size_t)got / sizeof(*out) == INSNS_MAX)
		die("%s: the program does not fit", t->name);
	(void)close(fd);
	seccomp_release(ctx);
	return n + (size_t)got / sizeof(*out);
}

#ifndef FILTER_GEN_TEST

static void table_print(const struct table *t, bool san)
{
	static struct sock_filter insns[INSNS_MAX];
	size_t n = table_build(t, san, insns);

	(void)printf("\nstatic const struct sock_filter %s_insns[] = {\n", t->name);
	if (n == 0)
		(void)printf("\t{ 0, 0, 0, 0 },\n");
	for (size_t i = 0; i < n; i++)
		(void)printf("\t{ 0x%02x, %u, %u, 0x%08x },\n", insns[i].code, insns[i].jt,
			     insns[i].jf, insns[i].k);
	(void)printf("};\nconst struct filter_prog filter_%s = { %zu, %s_insns };\n", t->name, n,
		     t->name);
}

int main(int argc, char **argv)
{
	bool san = argc > 1 && str_eq(argv[1], "san");

	(void)printf("/* written by common/filter_gen.c from the rule tables */\n"
		     "#include \"common/filter.h\"\n\n#include <linux/filter.h>\n");
	for (size_t i = 0; i < ARRAY_LEN(tables); i++)
		table_print(&tables[i], san);
	return fflush(stdout) == 0 ? 0 : 1;
}

#endif
