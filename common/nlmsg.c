/* SPDX-License-Identifier: ISC */
/* common/nlmsg.c - write netlink requests, hear whether the kernel took them.
 * The kernel answers, and only the kernel is heard; lengths are checked all the same. */
#include "common/nlmsg.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define ANSWERS_MAX 64 /* to one datagram: more than it has requests is no answer */

int nlmsg_socket(int protocol)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

	return fd < 0 ? -errno : fd;
}

/* ---- writing ---- */

/* @len bytes, and zeros up to the next multiple of four. Return: where they begin, or NULL */
static void *room_take(struct nlmsg *m, size_t len)
{
	size_t padded = NLMSG_ALIGN(len);
	uint8_t *at = m->buf + m->len;
	uint32_t length;

	if (m->bad || len > sizeof(m->buf) || padded > sizeof(m->buf) - m->len) {
		m->bad = true;
		return NULL;
	}
	memset(at, 0, padded);
	m->len += padded;
	length = (uint32_t)(m->len - m->head);
	memcpy(m->buf + m->head + offsetof(struct nlmsghdr, nlmsg_len), &length, sizeof(length));
	return at;
}

void nlmsg_begin(struct nlmsg *m, unsigned type, unsigned flags, const void *head, size_t len)
{
	const struct nlmsghdr h = {
		.nlmsg_len = sizeof(h),
		.nlmsg_type = (uint16_t)type,
		.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
		.nlmsg_seq = ++m->seq,
	};
	void *p;

	m->head = m->len;
	p = room_take(m, sizeof(h));
	if (p)
		memcpy(p, &h, sizeof(h));
	p = room_take(m, len);
	if (p && len > 0)
		memcpy(p, head, len);
}

void nlmsg_put(struct nlmsg *m, unsigned type, const void *data, size_t len)
{
	const struct nlattr a = { .nla_len = (uint16_t)(sizeof(a) + len),
				  .nla_type = (uint16_t)type };
	uint8_t *p = len < NLMSG_ROOM ? room_take(m, sizeof(a) + len) : NULL;

	if (!p) {
		m->bad = true;
		return;
	}
	memcpy(p, &a, sizeof(a));
	if (len > 0)
		memcpy(p + sizeof(a), data, len);
}

void nlmsg_put_str(struct nlmsg *m, unsigned type, const char *s)
{
	nlmsg_put(m, type, s, strlen(s) + 1);
}

void nlmsg_put_u32(struct nlmsg *m, unsigned type, uint32_t v)
{
	nlmsg_put(m, type, &v, sizeof(v));
}

void nlmsg_put_be32(struct nlmsg *m, unsigned type, uint32_t v)
{
	nlmsg_put_u32(m, type, htonl(v));
}

size_t nlmsg_nest(struct nlmsg *m, unsigned type)
{
	size_t at = m->len;

	nlmsg_put(m, type | NLA_F_NESTED, NULL, 0);
	return at;
}

void nlmsg_unnest(struct nlmsg *m, size_t at)
{
	uint16_t length = (uint16_t)(m->len - at);

	if (!m->bad)
		memcpy(m->buf + at + offsetof(struct nlattr, nla_len), &length, sizeof(length));
}

/* ---- asking ---- */

int nlmsg_send(int fd, const struct nlmsg *m)
{
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };

	if (m->bad)
		return -EMSGSIZE;
	for (;;) {
		ssize_t n = sendto(fd, m->buf, m->len, MSG_NOSIGNAL,
				   (const struct sockaddr *)&kernel, sizeof(kernel));

		if (n >= 0)
			return (size_t)n == m->len ? 0 : -EIO;
		if (errno != EINTR)
			return -errno;
	}
}

ssize_t nlmsg_recv(int fd, void *buf, size_t room)
{
	for (;;) {
		struct sockaddr_nl from = { .nl_family = AF_NETLINK };
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(fd, buf, room, MSG_TRUNC, (struct sockaddr *)&from, &len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (len != sizeof(from) || from.nl_pid != 0)
			continue; /* another process of this uid */
		return (size_t)n > room ? -EMSGSIZE : n;
	}
}

int nlmsg_status(const struct nlmsghdr *h)
{
	int status;

	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(status)))
		return -EBADMSG;
	memcpy(&status, (const char *)h + NLMSG_HDRLEN, sizeof(status));
	return status;
}

int nlmsg_ask(int fd, const struct nlmsg *m, uint32_t last)
{
	/* an error brings the request with it */
	_Alignas(struct nlmsghdr) char buf[NLMSG_ROOM + 256];
	int r = nlmsg_send(fd, m);

	for (int i = 0; r == 0 && i < ANSWERS_MAX; i++) {
		const struct nlmsghdr *h = (const void *)buf;
		ssize_t n = nlmsg_recv(fd, buf, sizeof(buf));

		if (n < 0)
			return (int)n;
		if ((size_t)n < sizeof(*h) || h->nlmsg_len > (size_t)n ||
		    h->nlmsg_type != NLMSG_ERROR)
			return -EBADMSG;
		r = nlmsg_status(h);
		if (r == 0 && h->nlmsg_seq == last)
			return 0;
	}
	return r < 0 ? r : -EBADMSG;
}
