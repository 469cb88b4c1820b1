/* SPDX-License-Identifier: ISC */
/* shim/filter_rules.h - the system calls of pid 1 and of the keeper once they serve.
 * Everything else kills the process, and with pid 1 the sandbox. */
#ifndef WEIR_SHIM_FILTER_RULES_H
#define WEIR_SHIM_FILTER_RULES_H

#include <sys/ioctl.h>
#include <sys/socket.h>

#include "../common/filter_rule.h"

static const struct filter_rule shim_rules[] = {
	/* call                      argument  why pid 1 needs it once it serves */
	{ SCMP_SYS(ppoll), ANY, "wait for a signal, the monitor or the keeper" },
	{ SCMP_SYS(read), ANY, "take a signal from the signalfd, a report from the keeper" },
	{ SCMP_SYS(wait4), ANY, "reap whatever ends inside" },
	{ SCMP_SYS(kill), ANY, "pass the monitor's signal on to the command" },
	{ SCMP_SYS(recvmsg), ANY, "hear the monitor" },
	{ SCMP_SYS(sendto), ANY, "SPAWNED, STOPPED, EXECFAIL and EXITED to the monitor" },
	{ SCMP_SYS(ioctl), WHEN(ARG_LOW32(1, TIOCGPGRP)), "who has the terminal inside" },
	{ SCMP_SYS(ioctl), WHEN(ARG_LOW32(1, TIOCSPGRP)),
	  "give it to the command, or take it away" },
	{ SCMP_SYS(socket), WHEN2(ARG_EQ(0, AF_INET), ARG_MASK(1, 0xf, SOCK_STREAM)),
	  "make an unconnected socket for a published port" },
	{ SCMP_SYS(socket), WHEN2(ARG_EQ(0, AF_INET6), ARG_MASK(1, 0xf, SOCK_STREAM)), "the same" },
	{ SCMP_SYS(sendmsg), ANY, "hand it to the monitor" },
	{ SCMP_SYS(close), ANY, "and keep no copy" },
	{ SCMP_SYS(exit_group), ANY, "end, and the sandbox with it" },
	{ SCMP_SYS(rt_sigreturn), ANY, "the kernel's way back from a signal" },
	{ SCMP_SYS(restart_syscall), ANY, "ppoll goes on after a stop" },
};

static const struct filter_rule keeper_rules[] = {
	/* call                      argument  why the keeper needs it */
	{ SCMP_SYS(wait4), ANY, "wait for the command" },
	{ SCMP_SYS(write), ANY, "report its status, and that it was stopped, on the pipe" },
	{ SCMP_SYS(exit_group), ANY, "end" },
	{ SCMP_SYS(rt_sigreturn), ANY, "the kernel's way back from a signal" },
	{ SCMP_SYS(restart_syscall), ANY, "wait4 goes on after a stop" },
};

#endif
