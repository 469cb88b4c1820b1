/* SPDX-License-Identifier: ISC */
/* broker/cli/host_view.h - view host: the host's tree as read-only grants */
#ifndef WEIR_BROKER_CLI_HOST_VIEW_H
#define WEIR_BROKER_CLI_HOST_VIEW_H

struct err;
struct judge;
struct mounts;
struct plan_in;
struct sandbox_plan;

/**
 * host_plan() - add to @p a grant for each directory of the host's root, through an overlay
 * A directory that has mounts of its own is taken apart into what lies in it. Private in every view, and
 * so left out: /tmp, /run, /dev, /proc, /sys, /boot; other users' homes and credentials by name.
 * Call before other grants are added: these make their own places within.
 * Return: 0, or -errno with @e (too many mounts) */
int host_plan(struct sandbox_plan *p, const struct judge *j, struct mounts *m,
	      const struct plan_in *in, struct err *e);

#endif
