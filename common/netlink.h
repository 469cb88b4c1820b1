/* SPDX-License-Identifier: ISC */
/* common/netlink.h - the two rtnetlink requests weir needs, by the kernel's uapi headers */
#ifndef WEIR_COMMON_NETLINK_H
#define WEIR_COMMON_NETLINK_H

#include <stddef.h>

struct addr;

/** netlink_lo_up() - set the loopback interface of this network namespace up. Return: 0, -errno */
int netlink_lo_up(void);
/**
 * netlink_own_addrs() - list the addresses of every interface of this network namespace
 * @out: room for @max. Return: how many there are (may exceed @max: then the list is cut), -errno
 * Source: rtnetlink(7) RTM_GETADDR */
int netlink_own_addrs(struct addr *out, size_t max);

#endif
