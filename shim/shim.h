/* SPDX-License-Identifier: ISC */
/* shim/shim.h - pid 1 of the sandbox: reap, pass signals on, report; sees no byte of traffic.
 * The keeper is the process between it and CMD, so that CMD's parent is never pid 1. */
#ifndef WEIR_SHIM_SHIM_H
#define WEIR_SHIM_SHIM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "../common/msg.h"

#define SHIM_PORT 3128 /* SPEC section 5 */
/* Where redirected connections end: no command may bind a port below 1024, so that none misses it */
#define SHIM_REDIRECT_PORT 1
#define SHIM_NAMES_PORT 53

/** shim_listener() - one TCP listener in the current network namespace, non-blocking, close-on-exec;
 * IPv6 alone where @sa is
 * @again: take a port too that only waits for the last packets of old connections
 * Return: the caller's, or -errno */
int shim_listener(const struct sockaddr *sa, socklen_t len, bool again);
/** shim_listeners() - make loopback listeners of the current network namespace, IPv4 first.
 * @port: 0: any that is free
 * @fds: 1-2 non-blocking close-on-exec listeners, the caller's. A kernel without IPv6 gives one.
 * @ports: filled with the port of each, host order; 0: none of that family. May be NULL
 * Return: how many, or -errno */
int shim_listeners(uint16_t port, int fds[2], uint16_t ports[2]);
/** shim_port() - a listener for @port of every IPv4 address here. Return: the caller's descriptor, or
 * -errno */
int shim_port(uint16_t port);
/** shim_names() - where names are asked for: 127.0.0.1:53, a UDP socket and a listener, both the
 * caller's. Return: 0, or -errno */
int shim_names(int fds[2]);

enum keeper_kind {
	KEEPER_STARTING, /* value: the pid that is about to become CMD; SPAWNED or FAILED follows, or
			  * neither, when CMD's first act was to kill the keeper */
	KEEPER_SPAWNED,	 /* value: CMD's pid */
	KEEPER_FAILED,	 /* fail: why CMD does not run */
	KEEPER_EXITED,	 /* value: CMD's wait status */
	KEEPER_STOPPED,	 /* value: the signal that stopped CMD */
	KEEPER_COUNT
};

/** struct keeper_report - what the keeper writes to its pipe, whole: it is below PIPE_BUF */
struct keeper_report {
	uint32_t kind; /* enum keeper_kind */
	uint32_t value;
	struct msg_execfail fail;
};

/** keeper_write() - write one report. Return: 0, or -errno */
int keeper_write(int pipe, const struct keeper_report *r);

/**
 * keeper_main() - lock, wait for CMD, report how it ended; never returns
 * @pipe: the write end towards the shim
 * @cmd:  CMD, a child of this process, already running */
__attribute__((noreturn)) void keeper_main(int pipe, pid_t cmd);

struct shim {
	int monitor;	  /* SOCK_SEQPACKET to the monitor, non-blocking */
	int keeper;	  /* read end of the keeper's pipe */
	pid_t keeper_pid; /* a child of this process */
	int tty;	  /* the terminal inside, or -1; held, so that its end is the sandbox's */
};
/**
 * shim_main() - lock and serve until CMD has ended or the monitor is gone; never returns
 * All capabilities are gone and no_new_privs is set already, and since before anything ran inside the
 * process is not dumpable: nothing there could ever trace it. */
__attribute__((noreturn)) void shim_main(const struct shim *s);

#endif
