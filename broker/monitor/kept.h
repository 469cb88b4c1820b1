/* SPDX-License-Identifier: ISC */
/* broker/monitor/kept.h - answers that become a line of a policy file */
#ifndef WEIR_BROKER_MONITOR_KEPT_H
#define WEIR_BROKER_MONITOR_KEPT_H

#include <stdbool.h>

#include "questions.h"

struct err;
struct monitor;

/** question_may() - can @a be given here? Answers that are kept need a file that this sandbox reads */
bool question_may(const struct monitor *m, enum answer a);
/** kept_write() - put the answer @a to @q into its file. Return: 0, or -errno with @e: it is on none */
int kept_write(struct monitor *m, const struct question *q, enum answer a, struct err *e);
/** kept_counts() - the policy was read again since: does it say what was answered?
 * Return: false with @e: what is said instead, and who can change that. A person hears of it */
bool kept_counts(const struct monitor *m, const struct question *q, enum answer a, struct err *e);

#endif
