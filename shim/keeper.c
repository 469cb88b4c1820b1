/* SPDX-License-Identifier: ISC */
/* shim/keeper.c - the process between pid 1 and CMD: waits for CMD and says how it ended.
 * CMD runs as the same user in the same pid namespace and may kill it; it can do nothing else to it.
 * The shim takes its end without a last report for CMD's death by SIGKILL.
 *   START --locked--> WAITING --CMD stopped, told--> WAITING --CMD ended--> REPORTED */
#include "shim/shim.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/filter.h"
#include "common/lock.h"
#include "common/stage.h"

static_assert(sizeof(struct keeper_report) <= PIPE_BUF, "a report is written whole");

int keeper_write(int pipe, const struct keeper_report *r)
{
	ssize_t n;

	do
		n = write(pipe, r, sizeof(*r));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return n == (ssize_t)sizeof(*r) ? 0 : -EIO;
}

static int keeper_lock(void)
{
	const struct lock_limits limits = { .nproc_zero = true,
					    .fsize_zero = true,
					    .core_zero = true };
	int r;

	if ((r = lock_dumpable()) < 0 || (r = lock_privs()) < 0 || (r = lock_rlimits(&limits)) < 0)
		return r;
	r = lock_landlock(LOCK_NOTHING_FS | LOCK_NO_BIND | LOCK_NO_CONNECT | LOCK_SCOPES);
	if (r < 0)
		return r;
	return filter_load(&filter_keeper);
}

void keeper_main(int pipe, pid_t cmd)
{
	static struct keeper_report report = { .kind = KEEPER_EXITED };
	static struct keeper_report stopped = { .kind = KEEPER_STOPPED };
	int status = 0;
	pid_t got;

	if (keeper_lock() < 0)
		_exit(125); /* the shim sees the pipe end and takes the sandbox down */
	stage_note("keeper: locked");
	for (;;) {
		do
			got = waitpid(cmd, &status, WUNTRACED);
		while (got < 0 && errno == EINTR);
		if (got != cmd)
			_exit(125);
		if (!WIFSTOPPED(status))
			break;
		stopped.value = (uint32_t)WSTOPSIG(status);
		if (keeper_write(pipe, &stopped) < 0)
			_exit(125);
	}
	stage_note("keeper: CMD ended");
	report.value = (uint32_t)status;
	_exit(keeper_write(pipe, &report) < 0 ? 125 : 0);
}
