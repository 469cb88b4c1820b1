/* SPDX-License-Identifier: ISC */
/* broker/worker/serve.h - the worker's steps one by one, so that a test can leave out the lock */
#ifndef WEIR_BROKER_WORKER_SERVE_H
#define WEIR_BROKER_WORKER_SERVE_H

struct worker;

/** worker_setup() - everything that must exist before the lock: loop, pools, c-ares.
 * Return: the worker, or NULL */
struct worker *worker_setup(int monitor);
/** worker_lock() - give up everything but what serving needs. Return: 0, or -errno */
int worker_lock(void);
/** worker_serve() - say READY and serve until the monitor ends it; never returns */
__attribute__((noreturn)) void worker_serve(struct worker *w);

#endif
