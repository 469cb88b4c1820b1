/* SPDX-License-Identifier: ISC */
/* broker/monitor/reap.c - how a child ended, for a message. The kernel's word, nobody else's. */
#include "broker/monitor/reap.h"

#include <stdio.h>
#include <sys/wait.h>

const char *reap_describe(int pidfd, char *buf, size_t room)
{
	siginfo_t si = { 0 };

	if (pidfd < 0 || waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED | WNOHANG | __WALL) < 0 ||
	    si.si_pid == 0)
		(void)snprintf(buf, room, "end unknown");
	else
		(void)snprintf(buf, room, "%s %d",
			       si.si_code == CLD_EXITED ? "exit status" : "signal", si.si_status);
	return buf;
}
