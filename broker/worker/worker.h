/* SPDX-License-Identifier: ISC */
/* broker/worker/worker.h - entries into the exposed side */
#ifndef WEIR_BROKER_WORKER_WORKER_H
#define WEIR_BROKER_WORKER_WORKER_H

#include <sys/types.h>

struct err;

#define NURSERY_ARGV0 "weir: nursery" /* main() enters nursery_main() on this argv[0] */
#define NURSERY_FD 3		      /* its SEQPACKET to the monitor: the only descriptor it has */

/** nursery_start() - in the monitor: clone into the room's namespaces and execute /proc/self/exe
 * anew, empty environment, @sock as NURSERY_FD. Return: 0 with pid and pidfd (the caller's), or
 * -errno with @e */
int nursery_start(int sock, pid_t *pid, int *pidfd, struct err *e);

/** guard_start() - a nursery that will have no worker: as above without the room, which is half of its
 * cost. It removes the runtime entry of a monitor that was killed, and nothing else */
int guard_start(int sock, pid_t *pid, int *pidfd, struct err *e);

/** nursery_main() - pid 1 of the worker's room, or a guard (any other pid); never returns */
__attribute__((noreturn)) void nursery_main(void);

/** worker_main() - in the nursery's child: c-ares, lock, serve; never returns
 * @monitor: SOCK_SEQPACKET to the monitor
 * @names: UDP socket at which names are asked for, -1: none
 * @gates: the monitor's page of gates, for reading; -1: none */
__attribute__((noreturn)) void worker_main(int monitor, int names, int gates);

#endif
