/* SPDX-License-Identifier: ISC */
/* broker/monitor/reap.h - how a child ended, for a message */
#ifndef WEIR_BROKER_MONITOR_REAP_H
#define WEIR_BROKER_MONITOR_REAP_H

#include <stddef.h>

/** reap_describe() - reap the child of @pidfd if it has ended, without waiting
 * @buf: "exit status 1", "signal 9" or "end unknown". Return: @buf */
const char *reap_describe(int pidfd, char *buf, size_t room);

#endif
