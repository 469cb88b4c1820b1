/* SPDX-License-Identifier: ISC */
/* broker/monitor/launcher.h - the end of the process that started weir ends the sandbox */
#ifndef WEIR_BROKER_MONITOR_LAUNCHER_H
#define WEIR_BROKER_MONITOR_LAUNCHER_H

struct monitor;

/** launcher_watch() - from now on, when run->launcher has ended, act as on SIGTERM
 * Nothing to do when it is 0. Before the lock: pidfd_open(2) is not behind it. */
void launcher_watch(struct monitor *m);

#endif
