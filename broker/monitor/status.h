/* SPDX-License-Identifier: ISC */
/* broker/monitor/status.h - --status-fd: JSON lines for the program that started weir */
#ifndef WEIR_BROKER_MONITOR_STATUS_H
#define WEIR_BROKER_MONITOR_STATUS_H

struct monitor;

/** status_begin() - before the monitor is locked: make --status-fd ready for a reader that does not read */
void status_begin(struct monitor *m);
/** status_started() - {"event":"started","id":…,"pid":…,"name":…,"ports":…,"holes":…}; pid is the
 * sandbox's pid 1 as the host sees it (docs/schema/status.json) */
void status_started(struct monitor *m);
/** status_exited() - {"event":"exited","status":…} */
void status_exited(struct monitor *m, int status);

#endif
