/* SPDX-License-Identifier: ISC */
/* broker/cli/probe.h - try what a launch asks of the kernel, each in a child of its own */
#ifndef WEIR_BROKER_CLI_PROBE_H
#define WEIR_BROKER_CLI_PROBE_H

/* Each returns 0 when it worked, else the errno value; PROBE_KILLED when the attempt was the end of
 * the child; PROBE_FORK_FAILED when there could be none. Nothing of it stays. */
#define PROBE_KILLED 254
#define PROBE_FORK_FAILED 255

/** probe_user() - a user namespace, and this user's ids mapped into it */
int probe_user(void);
/** probe_namespace() - one of @flag (CLONE_NEWNET, …) below a user namespace of one's own */
int probe_namespace(int flag);
/** probe_mounts() - the calls by which the tree is built: mount_setattr, fsopen, open_tree, … */
int probe_mounts(void);
/** probe_proc() - a fresh /proc, for a process namespace of one's own */
int probe_proc(void);
/** probe_sys() - a fresh /sys, for a network namespace of one's own */
int probe_sys(void);
/** probe_overlay() - an overlay, as an ordinary user's */
int probe_overlay(void);
/** probe_filter() - a seccomp filter; no_new_privs */
int probe_filter(void);
/** probe_listener() - a seccomp filter that asks another process */
int probe_listener(void);
/** probe_route() - the transparent route by nf_tables, in a network namespace of its own */
int probe_route(void);
/** probe_calls() - close_range(2), openat2(2), pidfd: what Linux 5.12 has. */
int probe_calls(void);
/** probe_ipv6() - an IPv6 socket */
int probe_ipv6(void);

#endif
