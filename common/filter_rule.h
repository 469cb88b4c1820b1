/* SPDX-License-Identifier: ISC */
/* common/filter_rule.h - one row of a seccomp table; included by the rule headers alone.
 * Only the build host reads it: common/filter_gen.c turns the tables into BPF.
 *
 * A rule header declares `static const struct filter_rule NAME_rules[]`:
 *   broker/worker/filter_rules.h   worker_rules, worker_names_rules, nursery_rules
 *   broker/monitor/filter_rules.h  monitor_rules
 *   shim/filter_rules.h            shim_rules, keeper_rules
 *   sandbox/filter_rules.h         command_rules, unnested_rules (default allow: FAIL rows only)
 *   broker/worker/filter_rules.h   connect_rules (default allow: NOTIFY rows only)
 *   broker/worker/filter_rules.h   gates_rules (default allow: NOTIFY and FAIL rows only)
 *   broker/worker/filter_rules.h   names_rules (default allow: FAIL rows only)
 * In every other table the default is to kill the process. Rows of a call that this architecture
 * does not have are left out. Several rows of one call: any that matches decides; rows of one call
 * must not contradict each other, and a row without condition stands alone.
 *
 *	call               argument                          why
 *	{ SCMP_SYS(ppoll), ANY,                              "wait for a signal or the monitor" },
 *	{ SCMP_SYS(fcntl), WHEN(ARG_EQ(1, F_GETFL)),         "…" },
 *	{ SCMP_SYS(socket),WHEN2(ARG_EQ(0, AF_INET), ARG_MASK(1, 0xf, SOCK_STREAM)), "…" },
 *	{ SCMP_SYS(openat),FAIL(ENOENT),                     "libraries look for files" },
 *	{ SCMP_SYS(ioctl), FAIL_WHEN(EPERM, ARG_LOW32(1, TIOCSTI)), "…" }, */
#ifndef WEIR_COMMON_FILTER_RULE_H
#define WEIR_COMMON_FILTER_RULE_H

#include <errno.h>
#include <seccomp.h>
#include <stdint.h>

/** struct filter_arg - one comparison; the kernel compares all 64 bits of the register
 * @index: 0-5
 * @op:    enum scmp_compare
 * @value: for SCMP_CMP_MASKED_EQ the mask, else the value
 * @want:  for SCMP_CMP_MASKED_EQ what must be left under the mask */
struct filter_arg {
	unsigned index;
	enum scmp_compare op;
	uint64_t value, want;
};

/** struct filter_when - the outcome of a row and its condition
 * @fail: 0: the call is allowed; FILTER_NOTIFY: the listener of the filter answers it
 *	  (seccomp_unotify(2)); else it returns this errno value
 * @n:    0-2 comparisons, all of which must hold, each on another argument */
struct filter_when {
	int fail;
	unsigned n;
	struct filter_arg arg[2];
};

struct filter_rule {
	int call;
	struct filter_when when;
	const char *why;
};

/* clang-format off */
#define FILTER_NO_ARG { 0, SCMP_CMP_EQ, 0, 0 }
#define ANY { 0, 0, { FILTER_NO_ARG, FILTER_NO_ARG } }
#define WHEN(a) { 0, 1, { a, FILTER_NO_ARG } }
#define WHEN2(a, b) { 0, 2, { a, b } }
#define FILTER_NOTIFY (-1)
#define NOTIFY { FILTER_NOTIFY, 0, { FILTER_NO_ARG, FILTER_NO_ARG } }
#define NOTIFY_WHEN(a) { FILTER_NOTIFY, 1, { a, FILTER_NO_ARG } }
#define FAIL(num) { num, 0, { FILTER_NO_ARG, FILTER_NO_ARG } }
#define FAIL_WHEN(num, a) { num, 1, { a, FILTER_NO_ARG } }
#define FAIL_WHEN2(num, a, b) { num, 2, { a, b } }

#define ARG_EQ(i, v) { i, SCMP_CMP_EQ, (uint64_t)(v), 0 }
#define ARG_NE(i, v) { i, SCMP_CMP_NE, (uint64_t)(v), 0 }
#define ARG_LT(i, v) { i, SCMP_CMP_LT, (uint64_t)(v), 0 }
#define ARG_LE(i, v) { i, SCMP_CMP_LE, (uint64_t)(v), 0 }
#define ARG_GT(i, v) { i, SCMP_CMP_GT, (uint64_t)(v), 0 }
#define ARG_GE(i, v) { i, SCMP_CMP_GE, (uint64_t)(v), 0 }
/* (register & mask) == v; pass the mask of all 64 bits that must be looked at */
#define ARG_MASK(i, mask, v) { i, SCMP_CMP_MASKED_EQ, (uint64_t)(mask), (uint64_t)(v) }
/* clang-format on */
/* the kernel takes an int or unsigned int here: whatever the upper half holds does not matter */
#define ARG_LOW32(i, v) ARG_MASK(i, 0xffffffffU, (uint32_t)(v))

#endif
