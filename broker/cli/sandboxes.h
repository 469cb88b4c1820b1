/* SPDX-License-Identifier: ISC */
/* broker/cli/sandboxes.h - the user's running sandboxes, found by their runtime entries */
#ifndef WEIR_BROKER_CLI_SANDBOXES_H
#define WEIR_BROKER_CLI_SANDBOXES_H

#include <jansson.h>
#include <sys/types.h>

#define SANDBOXES_MAX 1024	/* entries looked at */
#define SANDBOX_REPLY_MAX 65536 /* bytes of one answer */
#define SANDBOX_WAIT_MS 2000	/* for one answer */
#define SANDBOX_END_MS 15000	/* for a sandbox that was told to end */

/**
 * sandboxes_each() - ask every running sandbox of this user who it is
 * An entry that nobody listens on is removed: its monitor was killed.
 * @runtime: the directory of the entries; it and they must be @uid's own
 * @verb: "info" or another verb of the control socket without arguments
 * @fn: gets the entry's name and the answer, which it borrows; NULL where a monitor is there but gives
 *	none within SANDBOX_WAIT_MS: it is stopped, or too busy
 *
 * Return: how many answered */
unsigned sandboxes_each(const char *runtime, uid_t uid, const char *verb,
			void (*fn)(void *arg, const char *id, const json_t *answer), void *arg);
/** sandbox_ask() - one of them. Return: its answer, for json_decref(), or NULL */
json_t *sandbox_ask(const char *runtime, uid_t uid, const char *id, const char *verb);
/** sandbox_request() - send one of them @req, which is borrowed
 * Return: its reply, whether it is ok or not, for json_decref(); NULL when there is none */
json_t *sandbox_request(const char *runtime, uid_t uid, const char *id, const json_t *req);
/** sandbox_connect() - a connection to one of them. Return: a descriptor, or -errno */
int sandbox_connect(const char *runtime, uid_t uid, const char *id);
/** sandbox_command() - the command of an "info" answer as one line, escaped. Return: @buf */
const char *sandbox_command(const json_t *info, char *buf, size_t room);
/** sandbox_end() - tell one of them to end by @verb, "kill" or "kill_now", and wait until it has
 * @pid: its monitor, as the kernel names it
 * Return: 0, -ESRCH when there is none, -ETIMEDOUT when it does not answer or not end in time */
int sandbox_end(const char *runtime, uid_t uid, const char *id, const char *verb, pid_t *pid);

#endif
