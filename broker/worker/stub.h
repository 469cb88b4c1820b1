/* SPDX-License-Identifier: ISC */
/* broker/worker/stub.h - answers the DNS queries of the transparent route; looks nothing up */
#ifndef WEIR_BROKER_WORKER_STUB_H
#define WEIR_BROKER_WORKER_STUB_H

struct msg_named;
struct worker;

/** stub_init() - serve the UDP socket WORKER_NAMES_FD. Before the lock. Return: 0, or -errno */
int stub_init(struct worker *w);
/** stub_accept() - a client of the TCP listener; @fd becomes the stub's */
void stub_accept(struct worker *w, int fd);
/** stub_named() - the monitor's answer. Return: 0, or -EBADMSG: it was not asked */
int stub_named(struct worker *w, const struct msg_named *m);
/** stub_stop() - no more questions, ever */
void stub_stop(struct worker *w);

#endif
