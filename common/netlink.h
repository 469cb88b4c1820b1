/* SPDX-License-Identifier: ISC */
/* common/netlink.h - the few netlink requests weir needs, by the kernel's uapi headers */
#ifndef WEIR_COMMON_NETLINK_H
#define WEIR_COMMON_NETLINK_H

#include <stddef.h>
#include <stdint.h>

struct addr;
struct addr_net;

/** netlink_lo_up() - set the loopback interface of this network namespace up. Return: 0, -errno */
int netlink_lo_up(void);
/** netlink_lo_addr() - the IPv4 address @a of @net for the loopback interface, which makes all of @net
 * local there. Return: 0, -errno */
int netlink_lo_addr(const struct addr_net *net, const struct addr *a);
/** netlink_lo_route() - what goes to @net stays here: a local route to the loopback interface.
 * Return: 0, -errno */
int netlink_lo_route(const struct addr_net *net);
/**
 * netlink_own_addrs() - list the addresses of every interface of this network namespace
 * @out: room for @max. Return: how many there are (may exceed @max: then the list is cut), -errno
 * Source: rtnetlink(7) RTM_GETADDR */
int netlink_own_addrs(struct addr *out, size_t max);
/** netlink_diag_open() - a non-blocking socket for netlink_tcp_held() about the sockets of this network
 * namespace. Return: a descriptor the caller owns, or -errno */
int netlink_diag_open(void);
/**
 * netlink_tcp_held() - does a process hold the TCP socket @local:@lport that is connected to
 * @peer:@pport? After close(2) the kernel keeps it for a while without one
 * @fd: from netlink_diag_open() in the network namespace that is meant; ports in host order
 * Return: 1, 0, -ENOENT where no such socket is there, or this kernel cannot tell; -errno
 * Source: sock_diag(7), net/ipv4/inet_diag.c */
int netlink_tcp_held(int fd, const struct addr *local, uint16_t lport, const struct addr *peer,
		     uint16_t pport);
/** netlink_tcp_inode() - the same, with the number by which /proc/PID/fd names the socket; 0: nobody
 * holds it. Return: 0, or as netlink_tcp_held() */
int netlink_tcp_inode(int fd, const struct addr *local, uint16_t lport, const struct addr *peer,
		      uint16_t pport, uint32_t *inode);

/** netlink_udp_inode() - the number of the IPv4 UDP socket that is bound to @port, whatever it is connected
 * to; of several, one of them
 * @fd: as for netlink_tcp_held(). Return: 0, -ENOENT, -errno
 * Source: sock_diag(7), net/ipv4/udp_diag.c: a dump that the kernel filters by port */
int netlink_udp_inode(int fd, uint16_t port, uint32_t *inode);

#endif
