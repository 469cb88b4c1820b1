/* SPDX-License-Identifier: ISC */
/* broker/worker/serve.h - the worker's steps one by one, so that a test can leave out the lock */
#ifndef WEIR_BROKER_WORKER_SERVE_H
#define WEIR_BROKER_WORKER_SERVE_H

struct worker;

/** worker_setup() - everything that must exist before the lock: loop, pools, c-ares.
 * @names: as in worker_main(); taken
 * Return: the worker, or NULL */
struct worker *worker_setup(int monitor, int names);
/** worker_lock() - give up everything but what serving needs, and say READY in the midst of it: the
 * descriptor that goes along cannot be sent any more afterwards. Return: 0, or -errno */
int worker_lock(struct worker *w);
/** worker_serve() - say READY, if that was not said, and serve until the monitor ends it; never returns */
__attribute__((noreturn)) void worker_serve(struct worker *w);

#endif
