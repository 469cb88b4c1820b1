/* SPDX-License-Identifier: ISC */
/* sandbox/etc.h - /etc inside: the host's, minus secrets, with a few files of its own */
#ifndef WEIR_SANDBOX_ETC_H
#define WEIR_SANDBOX_ETC_H

struct err;
struct tree;

/** etc_mount() - one read-only overlay; where the host's /etc has mounts beneath it or the kernel
 * has no overlay, a copy entry by entry. Return: 0, or -errno with @e */
int etc_mount(struct tree *t, struct err *e);

/** etc_known_hosts() - a copy of the user's known_hosts at /run/weir/known_hosts, where there is one.
 * It is no secret, and ~/.ssh itself is absent. Call when /run of @t has its directories.
 * Return: 0, or -errno with @e */
int etc_known_hosts(struct tree *t, struct err *e);

#endif
