/* SPDX-License-Identifier: ISC */
/* broker/monitor/remains.c - what the kernel takes down when weir has returned.
 * Whoever drops the last reference to a mount namespace or to an overlay takes it down, and waits for
 * RCU's grace periods as it does: a third of a millisecond for a sandbox, as much again for the worker's
 * room, at the end of each run. The processes must be gone when weir returns; the memory of their mounts need not.
 * So the monitor holds these references itself, and leaves them in the queue of a socket that lies in the
 * same queue: once its descriptor is closed nobody can take it out again, and the kernel's collector of
 * such sockets, which nobody waits for (since Linux 6.9; before that it makes nothing slower), drops what it finds in it.
 * Nobody but the monitor ever has any of these descriptors, and it does nothing with them.
 *   HELD --leave, while the children end--> LEFT --free, or the monitor's end--> the kernel's */
#include "broker/monitor/remains.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/scope.h"

void remains_init(struct remains *r)
{
	*r = (struct remains){ .left = -1, .peer = -1 };
}

void remains_namespace(struct remains *r, pid_t pid)
{
	char path[40];
	int fd;

	if (r->n >= ARRAY_LEN(r->ns))
		return;
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		r->ns[r->n++] = fd;
}

/* Only at the end: what lies in sockets counts against a limit that all programs of the user share. Beyond
 * it the kernel takes no more: then they are closed like any. */
void remains_leave(struct remains *r, const int *fds, size_t n)
{
	int first[1 + REMAINS_NS_MAX], sv[2], sent;
	size_t nfirst = 0;

	if (r->left >= 0 || r->n + n == 0 || fd_pair(sv) < 0)
		return;
	r->peer = sv[0];
	first[nfirst++] = r->left = sv[1];
	for (size_t i = 0; i < r->n; i++)
		first[nfirst++] = r->ns[i];
	sent = fd_send(sv[0], "", 1, first, nfirst);
	for (size_t at = 0; sent >= 0 && at < n; at += FD_PASS_MAX)
		sent = fd_send(sv[0], "", 1, fds + at, n - at < FD_PASS_MAX ? n - at : FD_PASS_MAX);
	for (size_t i = 0; i < r->n; i++)
		(void)close(r->ns[i]);
	r->n = 0;
}

void remains_free(struct remains *r)
{
	for (size_t i = 0; i < r->n; i++)
		(void)close(r->ns[i]);
	scope_close(&r->left);
	/* To close one that is in a queue is no end of a socket, and nobody looks: not before some other
	 * socket of the machine ends. This one does. */
	scope_close(&r->peer);
	remains_init(r);
}
