/* SPDX-License-Identifier: ISC */
/* broker/worker/transparent.c - a connection that was redirected: where was it going?
 * By the kernel's word alone (conntrack's, for one that the packet rules took off): nothing that a
 * program inside sends has a part in it. One that was not redirected but went to the listener itself
 * says just that, and the monitor refuses it. */
#include "broker/worker/transparent.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "broker/worker/filter_args.h"
#include "common/addr.h"

int transparent_target(int fd, enum bound bound, struct addr *a, uint16_t *port)
{
	struct sockaddr_storage ss = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(ss);
	int r;

	if (bound == BOUND_HERE)
		r = getsockname(fd, (struct sockaddr *)&ss, &len);
	else
		r = bound == BOUND_V4 ? getsockopt(fd, IPPROTO_IP, ORIGINAL_DST, &ss, &len)
				      : getsockopt(fd, IPPROTO_IPV6, ORIGINAL_DST, &ss, &len);
	if (r < 0)
		return -errno;
	r = addr_from_sockaddr(a, port, (const struct sockaddr *)&ss);
	return r < 0 || *port == 0 ? -EADDRNOTAVAIL : 0;
}
