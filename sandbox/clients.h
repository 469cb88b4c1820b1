/* SPDX-License-Identifier: ISC */
/* sandbox/clients.h - files of /etc that tell programs of the proxy; for sandbox/etc.c */
#ifndef WEIR_SANDBOX_CLIENTS_H
#define WEIR_SANDBOX_CLIENTS_H

struct err;
struct sandbox_plan;

/**
 * clients_write() - net.properties of the JDKs in the plan, and a drop-in for apt
 * @layer: what lies above the host's /etc
 * @etc:   the host's
 * Return: 0, or -errno with @e */
int clients_write(int layer, int etc, const struct sandbox_plan *p, struct err *e);

#endif
