/* SPDX-License-Identifier: ISC */
/* common/err.h - an error as a value: what happened, why, what to type.
 * May be used by every process. Never prints but in err_print(). */
#ifndef WEIR_COMMON_ERR_H
#define WEIR_COMMON_ERR_H

#include <stdbool.h>

/** struct err - one error on its way up to whoever can decide
 * @num:  errno value, 0 when the cause is not the kernel
 * @unavailable: this kernel or machine cannot make a sandbox (--on-unavailable may answer it)
 * @what: what happened, lower case, no full stop, without the errno text
 * @why:  cause in one line, may be empty
 * @fix:  what to type, may be empty */
struct err {
	int num;
	bool unavailable;
	char what[512], why[256], fix[256];
};

#define ERR_TEXT_MAX (sizeof(((struct err *)0)->what) + 64) /* strerror() of glibc: at most 49 */

#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/**
 * err_set() - start an error: everything @e held before is forgotten
 * @e:   where; NULL is allowed and only the result counts
 * @num: errno value (positive), or 0 when the kernel has no part in it
 *
 * Return: -@num, or -EINVAL when @num is 0 */
int err_set(struct err *e, int num, const char *fmt, ...) PRINTF(3, 4);

/** err_in() - put what the caller knows in front: "CONTEXT: what". Return: as err_set() gave */
int err_in(struct err *e, const char *fmt, ...) PRINTF(2, 3);
/** err_why() - add the cause. Return: as err_set() gave */
int err_why(struct err *e, const char *fmt, ...) PRINTF(2, 3);
/** err_fix() - add what to type. Return: as err_set() gave */
int err_fix(struct err *e, const char *fmt, ...) PRINTF(2, 3);

/** err_text() - "WHAT[: strerror]" for whoever shows it elsewhere than on stderr; not escaped
 * @buf: room for ERR_TEXT_MAX bytes. Return: @buf */
const char *err_text(const struct err *e, char *buf);

/**
 * err_print() - the one place where an error reaches stderr
 * Prints "weir: WHAT[: strerror]", then "  why: …" and "  fix: …" where they are set. Control
 * bytes are shown as \xNN, so that nothing a stranger chose reaches the terminal raw. */
void err_print(const struct err *e);

/** err_lasts() - does errno @num say what this machine cannot do, rather than what it could not do
 * just now? Only what lasts may make a launch "unavailable": a full process table, which a sandboxed
 * command can bring about, must never be answered by running unsandboxed. */
bool err_lasts(int num);

/** err_detach() - from now on note() and err_print() never wait for the reader of stderr: what it
 * does not take is dropped. For a process that others wait for. */
void err_detach(void);

/** err_raw() - the terminal that stderr is does not add the CR to a LF for now: it is added here */
void err_raw(bool on);

/** note() - one informational line "weir: …" on stderr, same escaping. The caller judges -q and -v */
void note(const char *fmt, ...) PRINTF(1, 2);

#endif
