/* SPDX-License-Identifier: ISC */
/* common/nlmsg.h - write netlink requests, hear whether the kernel took them.
 * Attributes by the kernel's uapi headers; no library (none has a static archive). */
#ifndef WEIR_COMMON_NLMSG_H
#define WEIR_COMMON_NLMSG_H

#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NLMSG_ROOM 4096 /* bytes of one datagram: a whole ruleset of sandbox/nft.c is half of it */

/** struct nlmsg - one or more requests on their way into one datagram; zero it to begin
 * @bad: something did not fit: nlmsg_ask() then refuses to send */
struct nlmsg {
	_Alignas(struct nlmsghdr) uint8_t buf[NLMSG_ROOM];
	size_t len, head; /* bytes so far; where the request under way begins */
	uint32_t seq;	  /* of the last request */
	bool bad;
};

/** nlmsg_socket() - @protocol: NETLINK_ROUTE, NETLINK_NETFILTER. Return: a blocking descriptor, or
 * -errno (-EPROTONOSUPPORT: this kernel has it not) */
int nlmsg_socket(int protocol);

/** nlmsg_begin() - the next request, with the @len bytes of its family's own head.
 * @flags: NLM_F_…; NLM_F_REQUEST is added */
void nlmsg_begin(struct nlmsg *m, unsigned type, unsigned flags, const void *head, size_t len);
/** nlmsg_put() - one attribute */
void nlmsg_put(struct nlmsg *m, unsigned type, const void *data, size_t len);
void nlmsg_put_str(struct nlmsg *m, unsigned type, const char *s); /* with its NUL */
void nlmsg_put_u32(struct nlmsg *m, unsigned type, uint32_t v);	   /* host byte order */
void nlmsg_put_be32(struct nlmsg *m, unsigned type, uint32_t v);   /* as netfilter wants it */
/** nlmsg_nest() - begin an attribute of attributes. Return: what nlmsg_unnest() wants to end it */
size_t nlmsg_nest(struct nlmsg *m, unsigned type);
void nlmsg_unnest(struct nlmsg *m, size_t at);

/** nlmsg_send() - Return: 0, or -errno (-EMSGSIZE: it did not fit) */
int nlmsg_send(int fd, const struct nlmsg *m);
/** nlmsg_recv() - one datagram from the kernel, and only from there. Return: its bytes, or -errno
 * (-EMSGSIZE: more than @room) */
ssize_t nlmsg_recv(int fd, void *buf, size_t room);
/** nlmsg_status() - what an NLMSG_ERROR or NLMSG_DONE says. Return: 0, or -errno */
int nlmsg_status(const struct nlmsghdr *h);
/**
 * nlmsg_ask() - send, and wait for the answer to the request @last
 * @last: number of the request that has NLM_F_ACK; any that fails before it is the answer
 * Return: 0, or -errno: the kernel's, or -EBADMSG for an answer that is none */
int nlmsg_ask(int fd, const struct nlmsg *m, uint32_t last);

#endif
