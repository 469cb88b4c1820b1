/* SPDX-License-Identifier: ISC */
/* common/filter.h - seccomp programs, exported from rule tables when weir is built.
 * The tables: broker/worker/filter_rules.h, shim/filter_rules.h, broker/monitor/filter_rules.h,
 * sandbox/filter_rules.h; the generator: common/filter_gen.c; libseccomp is not linked. */
#ifndef WEIR_COMMON_FILTER_H
#define WEIR_COMMON_FILTER_H

#include <stddef.h>

struct sock_filter;

struct filter_prog {
	unsigned short len; /* instructions */
	const struct sock_filter *insns;
};

extern const struct filter_prog filter_nursery;	     /* default kill */
extern const struct filter_prog filter_worker;	     /* default kill */
extern const struct filter_prog filter_worker_names; /* the same for the transparent route */
extern const struct filter_prog filter_names;	/* default allow; in front of filter_worker_names */
extern const struct filter_prog filter_connect; /* default allow; connect() is notified */
extern const struct filter_prog filter_gates;	/* the same, but for the addresses at GATES_AT */
extern const struct filter_prog filter_shim;	/* default kill */
extern const struct filter_prog filter_keeper;	/* default kill */
extern const struct filter_prog filter_monitor; /* default kill */
extern const struct filter_prog filter_command; /* default allow; SPEC section 6 */
extern const struct filter_prog filter_nested;	/* the same with "nested yes" */

/**
 * filter_load() - install @p on this thread for good; needs no_new_privs
 * Return: 0, or -errno
 * Source: seccomp(2) SECCOMP_SET_MODE_FILTER */
int filter_load(const struct filter_prog *p);
/** filter_listen() - the same for one with calls that a listener answers
 * Return: the listener, close-on-exec, or -errno (-EBUSY: another filter has one)
 * Source: seccomp(2) SECCOMP_FILTER_FLAG_NEW_LISTENER */
int filter_listen(const struct filter_prog *p);

#endif
