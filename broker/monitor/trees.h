/* SPDX-License-Identifier: ISC */
/* broker/monitor/trees.h - what the host changes in a tree that is shared through an overlay */
#ifndef WEIR_BROKER_MONITOR_TREES_H
#define WEIR_BROKER_MONITOR_TREES_H

struct monitor;
struct rx;

void trees_init(struct monitor *m);
/** trees_taken() - TREES: keep the overlays and look at them again from now on. Return: 0 or -EBADMSG */
int trees_taken(struct monitor *m, struct rx *rx);
void trees_free(struct monitor *m);

#endif
