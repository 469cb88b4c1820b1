/* SPDX-License-Identifier: ISC */
/* broker/monitor/masks.h - is what a hide line names in a writable tree still hidden? */
#ifndef WEIR_BROKER_MONITOR_MASKS_H
#define WEIR_BROKER_MONITOR_MASKS_H

struct err;
struct monitor;

/** masks_init() - nothing is watched */
void masks_init(struct monitor *m);
/** masks_start() - watch the plan's masks, before the sandbox is made. Return: 0, or -errno with @e when
 * the kernel has no watch left for one that is strict; else a note says so */
int masks_start(struct monitor *m, struct err *e);
void masks_stop(struct monitor *m);

#endif
