/* SPDX-License-Identifier: ISC */
/* broker/cli/unsandboxed.c - run CMD without a sandbox, because the policy says so.
 * Runs in the command's own process, after monitor_main() cleaned up a launch that this machine
 * cannot do. All or nothing: never a partial sandbox. */
#include "unsandboxed.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "broker/cli/cli.h"
#include "broker/monitor/audit.h"
#include "broker/monitor/monitor.h"
#include "common/err.h"
#include "common/slice.h"

static int record(const struct run *run, const struct err *cause, struct err *e)
{
	struct audit *a = audit_new(run->id, run->name, run->audit_off);
	bool required = policy_audit_required(run->policy);
	struct audit_record rec = { .event = "unsandboxed" };
	char text[ERR_TEXT_MAX];
	int r = 0;

	if (!a)
		return err_set(e, ENOMEM, "open the audit log");
	if (!run->audit_off)
		r = audit_open_sink(a, policy_audit_sink(run->policy), run->audit_path, e);
	if (r >= 0) {
		rec.extra = json_pack("{s:s, s:s}", "cause", err_text(cause, text), "command",
				      run->command);
		r = audit_write(a, &rec, required);
		if (r < 0)
			err_set(e, -r, "write the audit record of a run without sandbox");
	}
	(void)audit_close(a, NULL);
	audit_free(a);
	return r < 0 && required ? r : 0;
}

static int exec_plain(char **argv)
{
	struct err e;
	int num;

	slice_back();
	(void)execvp(argv[0], argv);
	num = errno;
	err_set(&e, num, "run '%s'", argv[0]);
	err_print(&e);
	return num == ENOENT ? 127 : 126;
}

int run_unsandboxed(const struct run *run, enum policy_unavailable how, char **argv,
		    const struct err *cause)
{
	char text[ERR_TEXT_MAX];
	struct err e = { 0 };

	if (record(run, cause, &e) < 0)
		return cli_fail(&e);
	if (how == UNAVAILABLE_WARN) {
		note("warning: no sandbox: %s", err_text(cause, text));
		note("warning: '%s' runs without any restriction, as on-unavailable warn says",
		     argv[0]);
		note("warning: it reads every file and reaches every host that you can%s%s",
		     cause->fix[0] ? "; fix: " : "", cause->fix);
	}
	return exec_plain(argv);
}
