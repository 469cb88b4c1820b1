/* SPDX-License-Identifier: ISC */
/* common/fd.h - descriptors: passing them between processes, moving and closing them */
#ifndef WEIR_COMMON_FD_H
#define WEIR_COMMON_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define FD_PASS_MAX 8 /* descriptors in one message, at most */

/**
 * fd_pair() - a SOCK_SEQPACKET pair, both close-on-exec and non-blocking
 * Return: 0, or -errno */
int fd_pair(int sv[2]);

/**
 * fd_send() - send one message with descriptors
 * @sock: SOCK_SEQPACKET socket; stays the caller's
 * @fds:  @nfds descriptors (0-FD_PASS_MAX); stay the caller's
 *
 * Return: 0, or -errno; -EAGAIN when the peer's queue is full (nothing was sent), -EPIPE when the
 *	   peer is gone (SIGPIPE is never raised)
 * Source: unix(7), cmsg(3) */
int fd_send(int sock, const void *buf, size_t len, const int *fds, size_t nfds);

/**
 * fd_recv() - receive one message and the descriptors that came with it
 * @sock:  SOCK_SEQPACKET socket, non-blocking; stays the caller's
 * @buf:   room for @len bytes
 * @fds:   filled with close-on-exec descriptors that the caller then owns
 * @nfds:  in: room in @fds, 0-FD_PASS_MAX; out: how many came. On failure none is left open
 *
 * Return: bytes received, 0 when the peer is gone, -EAGAIN when nothing is there,
 *	   -EMSGSIZE when bytes or descriptors were cut off, which is a protocol error
 * Source: unix(7), cmsg(3) */
ssize_t fd_recv(int sock, void *buf, size_t len, int *fds, size_t *nfds);

/** fd_set_cloexec() / fd_set_nonblock() - set or clear the flag. Return: 0, or -errno */
int fd_set_cloexec(int fd, bool on);
int fd_set_nonblock(int fd, bool on);

/** fd_detached() - the pipe or terminal @fd opened anew for writing, non-blocking: O_NONBLOCK on @fd itself
 * would reach everybody who shares it
 * Return: the caller's, close-on-exec; -1: what it is cannot be opened anew. A regular file is not: it
 *	   never blocks, and an offset of its own would overwrite what others write */
int fd_detached(int fd);

/** fd_write_within() - write all of @buf, waiting for at most @ms for a reader that is slow
 * Return: 0, or -errno; -ETIMEDOUT: some of it may have been written */
int fd_write_within(int fd, const void *buf, size_t len, int ms);

/** fd_write_all() - write all of @buf to a blocking descriptor, going on after EINTR and short
 * writes. Return: 0, or -errno */
int fd_write_all(int fd, const void *buf, size_t len);

#endif
