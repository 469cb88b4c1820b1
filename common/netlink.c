/* SPDX-License-Identifier: ISC */
/* common/netlink.c - the few netlink requests weir needs.
 * The kernel answers, and only the kernel is heard; lengths are checked all the same. */
#include "common/netlink.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/addr.h"
#include "common/nlmsg.h"
#include "common/scope.h"

#define LO_INDEX 1	 /* drivers/net/loopback.c: the first device of every namespace */
#define ANSWER_MAX 32768 /* NLMSG_GOODSIZE of a dump never exceeds this, net/netlink/af_netlink.c */
#define DUMP_PARTS_MAX 1024 /* datagrams of one dump: more than that is not an answer */

struct dump {
	struct addr *out;
	size_t max, n;
};

int netlink_lo_up(void)
{
	const struct ifinfomsg up = { .ifi_family = AF_UNSPEC,
				      .ifi_index = LO_INDEX,
				      .ifi_flags = IFF_UP,
				      .ifi_change = IFF_UP };
	struct nlmsg m = { 0 };
	SCOPED_FD int fd = nlmsg_socket(NETLINK_ROUTE);

	if (fd < 0)
		return fd;
	nlmsg_begin(&m, RTM_NEWLINK, NLM_F_ACK, &up, sizeof(up));
	return nlmsg_ask(fd, &m, m.seq);
}

int netlink_lo_addr(const struct addr_net *net, const struct addr *a)
{
	const struct ifaddrmsg head = { .ifa_family = AF_INET,
					.ifa_prefixlen = net->prefix,
					.ifa_scope = RT_SCOPE_UNIVERSE,
					.ifa_index = LO_INDEX };
	struct nlmsg m = { 0 };
	SCOPED_FD int fd = nlmsg_socket(NETLINK_ROUTE);

	if (fd < 0)
		return fd;
	nlmsg_begin(&m, RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
	nlmsg_put(&m, IFA_LOCAL, a->b, 4);
	nlmsg_put(&m, IFA_ADDRESS, a->b, 4);
	return nlmsg_ask(fd, &m, m.seq);
}

int netlink_lo_route(const struct addr_net *net)
{
	const bool is_v4 = net->base.family == 4;
	const struct rtmsg head = { .rtm_family = is_v4 ? AF_INET : AF_INET6,
				    .rtm_dst_len = net->prefix,
				    .rtm_table = RT_TABLE_LOCAL,
				    .rtm_protocol = RTPROT_STATIC,
				    .rtm_scope = is_v4 ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
				    .rtm_type = RTN_LOCAL };
	struct nlmsg m = { 0 };
	SCOPED_FD int fd = nlmsg_socket(NETLINK_ROUTE);

	if (fd < 0)
		return fd;
	nlmsg_begin(&m, RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, &head,
		    sizeof(head));
	if (net->prefix > 0)
		nlmsg_put(&m, RTA_DST, net->base.b, is_v4 ? 4 : 16);
	nlmsg_put_u32(&m, RTA_OIF, LO_INDEX);
	return nlmsg_ask(fd, &m, m.seq);
}

/* The address of one RTM_NEWADDR: IFA_LOCAL where there is one (the near end of a point-to-point
 * link), else IFA_ADDRESS. */
static void addr_take(struct dump *d, const struct nlmsghdr *h)
{
	struct addr a = { 0 };
	struct ifaddrmsg m;
	size_t at = NLMSG_LENGTH(sizeof(m)), want;
	bool local = false;

	if (h->nlmsg_len < at)
		return;
	memcpy(&m, (const char *)h + NLMSG_HDRLEN, sizeof(m));
	if (m.ifa_family != AF_INET && m.ifa_family != AF_INET6)
		return;
	want = m.ifa_family == AF_INET ? 4 : 16;
	while (h->nlmsg_len - at >= sizeof(struct rtattr)) {
		const char *p = (const char *)h + at;
		struct rtattr attr;

		memcpy(&attr, p, sizeof(attr));
		if (attr.rta_len < sizeof(attr) || attr.rta_len > h->nlmsg_len - at)
			break;
		if (attr.rta_len == sizeof(attr) + want &&
		    (attr.rta_type == IFA_LOCAL || (attr.rta_type == IFA_ADDRESS && !local))) {
			a.family = want == 4 ? 4 : 6;
			memcpy(a.b, p + sizeof(attr), want);
			local = attr.rta_type == IFA_LOCAL;
		}
		at += RTA_ALIGN(attr.rta_len);
		if (at > h->nlmsg_len)
			break;
	}
	if (a.family == 0)
		return;
	if (d->n < d->max)
		d->out[d->n] = a;
	d->n++;
}

/* The messages of one datagram. Return: 1 at the end of the dump, 0 to go on, -errno */
static int dump_part(struct dump *d, const char *buf, size_t len)
{
	while (len >= sizeof(struct nlmsghdr)) {
		const struct nlmsghdr *h = (const void *)buf;
		size_t step;

		if (h->nlmsg_len < sizeof(*h) || h->nlmsg_len > len)
			return -EBADMSG;
		if (h->nlmsg_flags & NLM_F_DUMP_INTR)
			return -EINTR;
		if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR) {
			int e = nlmsg_status(h);

			return e < 0 ? e : 1;
		}
		if (h->nlmsg_type == RTM_NEWADDR)
			addr_take(d, h);
		step = NLMSG_ALIGN(h->nlmsg_len);
		if (step > len)
			break;
		buf += step;
		len -= step;
	}
	return 0;
}

static int dump_addrs(struct dump *d)
{
	const struct ifaddrmsg all = { .ifa_family = AF_UNSPEC };
	_Alignas(struct nlmsghdr) char buf[ANSWER_MAX];
	struct nlmsg req = { 0 };
	SCOPED_FD int fd = nlmsg_socket(NETLINK_ROUTE);
	int e;

	if (fd < 0)
		return fd;
	nlmsg_begin(&req, RTM_GETADDR, NLM_F_DUMP, &all, sizeof(all));
	e = nlmsg_send(fd, &req);
	for (int i = 0; e == 0 && i < DUMP_PARTS_MAX; i++) {
		ssize_t n = nlmsg_recv(fd, buf, sizeof(buf));

		e = n < 0 ? (int)n : dump_part(d, buf, (size_t)n);
	}
	return e == 0 ? -EBADMSG : e;
}

int netlink_own_addrs(struct addr *out, size_t max)
{
	/* an interface that changes while the kernel writes the list spoils it: ask again */
	for (int tries = 0; tries < 8; tries++) {
		struct dump d = { .out = out, .max = max };
		int e = dump_addrs(&d);

		if (e == 1)
			return (int)d.n;
		if (e != -EINTR)
			return e;
	}
	return -EAGAIN;
}

int netlink_diag_open(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);

	return fd < 0 ? -errno : fd;
}

static uint32_t diag_seq; /* of the last question: what answers another was given up */

/* The kernel looks for a listener where no connected socket is. */
static int inode_of(const struct nlmsghdr *h, uint16_t pport, uint32_t *inode)
{
	struct inet_diag_msg d;

	if (h->nlmsg_type == NLMSG_ERROR)
		return nlmsg_status(h);
	if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY || h->nlmsg_len < NLMSG_LENGTH(sizeof(d)))
		return -EBADMSG;
	memcpy(&d, (const char *)h + NLMSG_HDRLEN, sizeof(d));
	if (d.id.idiag_dport != htons(pport))
		return -ENOENT;
	*inode = d.idiag_inode;
	return 0;
}

int netlink_tcp_inode(int fd, const struct addr *local, uint16_t lport, const struct addr *peer,
		      uint16_t pport, uint32_t *inode)
{
	struct inet_diag_req_v2 req = {
		.sdiag_family = local->family == 4 ? AF_INET : AF_INET6,
		.sdiag_protocol = IPPROTO_TCP,
		.idiag_states = ~0U,
		.id = { .idiag_sport = htons(lport),
			.idiag_dport = htons(pport),
			.idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } },
	};
	struct nlmsg m = { .seq = diag_seq };
	_Alignas(struct nlmsghdr) char buf[1024];
	const struct nlmsghdr *h = (const void *)buf;
	ssize_t n;
	int e;

	if (local->family != peer->family)
		return -ENOENT;
	memcpy(req.id.idiag_src, local->b, sizeof(local->b));
	memcpy(req.id.idiag_dst, peer->b, sizeof(peer->b));
	nlmsg_begin(&m, SOCK_DIAG_BY_FAMILY, 0, &req, sizeof(req));
	diag_seq = m.seq;
	e = nlmsg_send(fd, &m);
	while (e == 0) {
		n = nlmsg_recv(fd, buf, sizeof(buf));
		if (n < 0)
			return (int)n;
		if ((size_t)n < sizeof(*h) || h->nlmsg_len > (size_t)n)
			return -EBADMSG;
		if (h->nlmsg_seq == diag_seq) /* else: an answer that was given up */
			return inode_of(h, pport, inode);
	}
	return e;
}

int netlink_tcp_held(int fd, const struct addr *local, uint16_t lport, const struct addr *peer,
		     uint16_t pport)
{
	uint32_t inode = 0;
	int r = netlink_tcp_inode(fd, local, lport, peer, pport, &inode);

	return r < 0 ? r : inode != 0;
}

/* The sockets of one datagram. Return: 1 at the end of the dump, 0 to go on, -errno */
static int udp_part(const char *buf, size_t len, uint16_t port, uint32_t *inode)
{
	while (len >= sizeof(struct nlmsghdr)) {
		const struct nlmsghdr *h = (const void *)buf;
		struct inet_diag_msg d;
		size_t step = NLMSG_ALIGN(h->nlmsg_len);

		if (h->nlmsg_len < sizeof(*h) || h->nlmsg_len > len)
			return -EBADMSG;
		if (h->nlmsg_seq != diag_seq)
			return 0;
		if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR) {
			int e = nlmsg_status(h);

			return e < 0 ? e : 1;
		}
		if (h->nlmsg_type == SOCK_DIAG_BY_FAMILY &&
		    h->nlmsg_len >= NLMSG_LENGTH(sizeof(d))) {
			memcpy(&d, buf + NLMSG_HDRLEN, sizeof(d));
			if (d.id.idiag_sport == htons(port) && d.idiag_inode != 0)
				*inode = d.idiag_inode;
		}
		if (step >= len)
			break;
		buf += step;
		len -= step;
	}
	return 0;
}

int netlink_udp_inode(int fd, uint16_t port, uint32_t *inode)
{
	const struct inet_diag_req_v2 req = {
		.sdiag_family = AF_INET,
		.sdiag_protocol = IPPROTO_UDP,
		.idiag_states = ~0U,
		.id = { .idiag_sport = htons(port),
			.idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } },
	};
	struct nlmsg m = { .seq = diag_seq };
	_Alignas(struct nlmsghdr) char buf[ANSWER_MAX];
	uint32_t found = 0;
	int e;

	nlmsg_begin(&m, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &req, sizeof(req));
	diag_seq = m.seq;
	e = nlmsg_send(fd, &m);
	for (int i = 0; e == 0 && i < DUMP_PARTS_MAX; i++) {
		ssize_t n = nlmsg_recv(fd, buf, sizeof(buf));

		e = n < 0 ? (int)n : udp_part(buf, (size_t)n, port, &found);
	}
	if (e < 0)
		return e;
	if (e == 0 || found == 0)
		return -ENOENT;
	*inode = found;
	return 0;
}
